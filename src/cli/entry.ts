/** Runs the command line with the arguments of the process, and then ends the process. */
import './lib/garbage-collection.ts'
import '../http/server/header-limit.ts'
import { createProcessIo, exitWhenWritten } from './lib/process-io.ts'
import { runCommandLine } from './run.ts'

/** Runs the command line, and ends the process with its exit code after the output is flushed. */
export async function runProcess(): Promise<void> {
  exitWhenWritten(await runCommandLine(process.argv.slice(2), createProcessIo()))
}
