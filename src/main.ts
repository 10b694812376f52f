#!/usr/bin/env node
/** Process entry: hands the arguments to the command line. */
import './cli/lib/garbage-collection.ts'
import './http/server/header-limit.ts'
import { createProcessIo, exitWhenWritten } from './cli/lib/process-io.ts'
import { runCommandLine } from './cli/run.ts'

process.title = 'tenrec'
exitWhenWritten(await runCommandLine(process.argv.slice(2), createProcessIo()))
