/** Implements `CommandIo` with the streams and signals of this process. */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline/promises'
import { SYSTEM_CLOCK } from '../../base/clock.ts'
import { machineMemoryBytes } from '../../base/memory/machine-memory.ts'
import type { CommandIo } from './command.ts'

/** The time, in milliseconds, for which further interrupts are ignored after one that counted. */
const ECHO_MS = 500

/** Creates the `CommandIo` of this process. */
export function createProcessIo(): CommandIo {
  // A program that reads the output may end early (`tenrec event list | head`). That is not a failure: a command then
  // ends with exit code 0, and a daemon runs on without its output.
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
      // The input is read, and its content ignored, because Node reports the end of the input only while it is read.
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

/** Asks a question on standard error, so that it does not become part of the output. */
async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    // `ended` resolves when the input ends or is interrupted. The answer is then empty.
    const ended = once(lines, 'close').then(() => '')
    return await Promise.race([lines.question(question), ended])
  } finally {
    lines.close()
  }
}

/** Ends the process after all output has been flushed. */
export function exitWhenWritten(exitCode: number): void {
  process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)))
}

/**
 * Returns a listener that ignores repeated interrupts. Under `npm start`, one Ctrl-C arrives twice: from the terminal
 * and from npm. If both counted, the second would stop the process at once.
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
