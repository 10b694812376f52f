/** The real process behind `CommandIo`. */
import { availableParallelism } from 'node:os'
import { SYSTEM_CLOCK } from '../base/clock.ts'
import type { CommandIo } from './command.ts'

/** Standard streams, environment and signals of this process. */
export function createProcessIo(): CommandIo {
  // The reader of a pipe may leave early (`tenrec event list | head`): that is no failure.
  process.stdout.on('error', (error: Error) => {
    if ('code' in error && error.code === 'EPIPE') process.exit(0)
    throw error
  })
  return {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    environment: process.env,
    machine: { coreCount: availableParallelism(), isTerminal: process.stdout.isTTY === true },
    clock: SYSTEM_CLOCK,
    onStopSignal: (listener) => onSignals(['SIGINT', 'SIGTERM'], listener),
    onHangup: (listener) => onSignals(['SIGHUP'], listener),
    exitNow(how) {
      if (how === 'kill') process.kill(process.pid, 'SIGKILL')
      else process.exit(how)
    },
  }
}

/** Ends the process once everything that was written has left it. */
export function exitWhenWritten(exitCode: number): void {
  process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)))
}

function onSignals(names: readonly NodeJS.Signals[], listener: () => void): () => void {
  for (const name of names) process.on(name, listener)
  return () => {
    for (const name of names) process.off(name, listener)
  }
}
