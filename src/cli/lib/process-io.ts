/** The real process behind `CommandIo`. */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline/promises'
import { SYSTEM_CLOCK } from '../../base/clock.ts'
import { machineMemoryBytes } from '../../base/memory/machine-memory.ts'
import type { CommandIo } from './command.ts'

/** Interrupts closer together than this are one. */
const ECHO_MS = 500

/** Standard streams, environment and signals of this process. */
export function createProcessIo(): CommandIo {
  // The reader of a pipe may leave early (`tenrec event list | head`): that is no failure. A daemon goes
  // on without its output.
  let isDaemon = false
  process.stdout.on('error', (error: Error) => {
    if (isDaemon) return
    if ('code' in error && error.code === 'EPIPE') process.exit(0)
    throw error
  })
  return {
    out: (text) => void process.stdout.write(text),
    outBytes: (bytes) => void process.stdout.write(new Uint8Array(bytes)),
    async drained() {
      if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
    },
    err: (text) => void process.stderr.write(text),
    ...(process.stdin.isTTY === true && process.stderr.isTTY === true ? { ask } : {}),
    environment: process.env,
    machine: {
      coreCount: availableParallelism(),
      isTerminal: process.stdout.isTTY === true,
      memoryBytes: machineMemoryBytes(),
    },
    clock: SYSTEM_CLOCK,
    ...(process.stdout.isTTY === true ? { terminalColumns: process.stdout.columns } : {}),
    isErrorTerminal: process.stderr.isTTY === true,
    onStopSignal(listener) {
      isDaemon = true
      return onSignals(['SIGINT', 'SIGTERM'], withoutEchoes(listener))
    },
    onHangup: (listener) => onSignals(['SIGHUP'], listener),
    onInputEnd(listener) {
      const { stdin } = process
      stdin.once('close', listener)
      stdin.once('end', listener)
      // What is written to it means nothing; reading it shows where it ends.
      stdin.resume()
      return () => {
        stdin.off('close', listener)
        stdin.off('end', listener)
        stdin.destroy()
      }
    },
    exitNow(how) {
      if (how === 'kill') process.kill(process.pid, 'SIGKILL')
      else process.exit(how)
    },
  }
}

/** The question goes to stderr, so that the output stays clean. */
async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    // Also ends when the input does, or is interrupted.
    const ended = once(lines, 'close').then(() => '')
    return await Promise.race([lines.question(question), ended])
  } finally {
    lines.close()
  }
}

/** Ends the process once everything that was written has left it. */
export function exitWhenWritten(exitCode: number): void {
  process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)))
}

/**
 * One Ctrl-C under `npm start` arrives twice, from the terminal and from npm, and must not count as the
 * second signal that stops at once.
 */
function withoutEchoes(listener: () => void): (name: NodeJS.Signals) => void {
  let interruptedAtMs = Number.NEGATIVE_INFINITY
  return (name) => {
    if (name === 'SIGINT') {
      const nowMs = performance.now()
      if (nowMs - interruptedAtMs < ECHO_MS) return
      interruptedAtMs = nowMs
    }
    listener()
  }
}

function onSignals(
  names: readonly NodeJS.Signals[],
  listener: (name: NodeJS.Signals) => void,
): () => void {
  for (const name of names) process.on(name, listener)
  return () => {
    for (const name of names) process.off(name, listener)
  }
}
