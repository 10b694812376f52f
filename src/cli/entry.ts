/** Runs the command line with the arguments of the process, and ends the process. */
import './lib/garbage-collection.ts'
import '../http/server/header-limit.ts'
import { createProcessIo, exitWhenWritten } from './lib/process-io.ts'
import { runCommandLine } from './run.ts'

/** Ends the process with the exit code of the command, once its output is written. */
export async function runProcess(): Promise<void> {
  exitWhenWritten(await runCommandLine(process.argv.slice(2), createProcessIo()))
}
