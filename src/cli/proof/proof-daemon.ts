/** The daemon of a proof: this program as a child process, which may be killed at any moment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { OperatorError } from '../../base/errors.ts'
import { isObject, parseJson } from '../../base/json.ts'
import { PROOF_START_MS_MAX } from '../limits.ts'

const LAST_LINES = 20

/** The signal that ended a process. Null if it ended by itself. */
export type Ending = NodeJS.Signals | null

/** A daemon that is ready to accept requests. */
export interface ProofDaemon {
  /** The URL of the daemon, without a slash at its end. */
  readonly url: string
  /** Time in milliseconds from its start until it was ready. */
  readonly startMs: number
  /** Resolves when the process has ended, with the signal that ended it. */
  readonly ended: Promise<Ending>
  readonly isRunning: boolean
  signal(name: 'SIGTERM' | 'SIGKILL'): void
}

/** Starts the daemon of a proof. Each start uses the same data directory. */
export interface ProofLauncher {
  /** Starts a daemon. Throws `OperatorError` with its last output if it does not become ready. */
  start(): Promise<ProofDaemon>
  /** Starts a daemon, and kills it after `delayMs`, whether or not it is ready. */
  startAndKill(delayMs: number): Promise<Ending>
}

/** Options for starting a daemon. */
export interface LauncherOptions {
  /** The command that starts this program, without its arguments. */
  readonly program: readonly string[]
  /** The arguments of the command, such as `serve` and its options. */
  readonly words: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly clock: Pick<Clock, 'monotonic'>
}

/** Returns the command that started this process, without its arguments. */
export async function ownProgram(): Promise<readonly string[]> {
  const { isSea } = await import('node:sea')
  if (isSea()) return [process.execPath]
  return [process.execPath, ...process.execArgv, process.argv[1] ?? '']
}

/** Starts daemons of this program. They end with this process. */
export class ChildLauncher implements ProofLauncher {
  readonly #options: LauncherOptions
  #child: ChildProcess | null = null

  constructor(options: LauncherOptions) {
    this.#options = options
    process.once('exit', () => this.#child?.kill('SIGKILL'))
  }

  async start(): Promise<ProofDaemon> {
    const { clock } = this.#options
    const startedAtMs = clock.monotonic()
    const { child, ended, lines } = this.#spawn()
    const url = await untilReady(child, ended, lines)
    return {
      url,
      startMs: clock.monotonic() - startedAtMs,
      ended,
      get isRunning() {
        return isRunning(child)
      },
      signal(name) {
        if (isRunning(child)) child.kill(name)
      },
    }
  }

  async startAndKill(delayMs: number): Promise<Ending> {
    const { child, ended } = this.#spawn()
    await Promise.race([sleep(delayMs), ended])
    child.kill('SIGKILL')
    return ended
  }

  #spawn(): { child: ChildProcess; ended: Promise<Ending>; lines: Lines } {
    const { program, words, environment } = this.#options
    const [command = '', ...before] = program
    const child = spawn(command, [...before, 'serve', ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: environment,
    })
    this.#child = child
    const ended = new Promise<Ending>((resolve) => {
      child.once('exit', (_, signal) => resolve(signal))
      child.once('error', () => resolve(null))
    })
    return { child, ended, lines: new Lines(child) }
  }
}

/** Keeps the last lines that a process wrote. */
class Lines {
  readonly last: string[] = []
  onLine: (line: string) => void = () => {}

  constructor({ stdout, stderr }: ChildProcess) {
    for (const stream of [stdout, stderr]) {
      if (stream === null) continue
      createInterface({ input: stream }).on('line', (line) => {
        this.last.push(line)
        if (this.last.length > LAST_LINES) this.last.shift()
        this.onLine(line)
      })
    }
  }
}

function isRunning({ exitCode, signalCode, pid }: ChildProcess): boolean {
  return exitCode === null && signalCode === null && pid !== undefined
}

async function untilReady(
  child: ChildProcess,
  ended: Promise<Ending>,
  lines: Lines,
): Promise<string> {
  const limit = new AbortController()
  const ready = new Promise<string>((resolve) => {
    lines.onLine = (line) => {
      const url = urlIn(line)
      if (url !== null) resolve(url)
    }
  })
  const tooLate = sleep(PROOF_START_MS_MAX, null, { signal: limit.signal }).catch(() => null)
  const url = await Promise.race([ready, ended.then(() => null), tooLate])
  limit.abort()
  if (url !== null) return url
  child.kill('SIGKILL')
  await ended
  // The last lines of output may arrive after the process has ended.
  await sleep(100)
  throw new OperatorError(
    `The daemon did not become ready. Its last output was:\n${lines.last.join('\n')}`,
  )
}

/** Returns the URL in the line with which a daemon says that it is ready. Returns null for any other line. */
function urlIn(line: string): string | null {
  const fields = line.startsWith('{') ? parseJson(line) : null
  if (!isObject(fields) || fields['msg'] !== 'ready') return null
  const { url } = fields
  return typeof url === 'string' ? url.replace(/\/$/, '') : null
}
