/**
 * The helper processes of the benches. Each runs this same program with `--role NAME`. The processes exchange JSON over
 * Node's IPC channel, and the helper processes end with the main process.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const ROLES = [
  'load',
  'bare-server',
  'parse-server',
  'parse-loop',
  'peer-load',
  'fastify-server',
  'duckdb',
  'uuid-index',
] as const
export type RoleName = (typeof ROLES)[number]

const STOP_MS_MAX = 2000

/** A running helper process. */
export interface Role {
  readonly pid: number
  send(message: object | string): void
  /** Returns the next message. Rejects if the process ends first. */
  receive(): Promise<unknown>
  /** Ends the process, and waits until it has ended. */
  stop(): Promise<void>
}

/** Starts a helper process. It writes to the stderr of the main process. */
export function startRole(name: RoleName): Role {
  const child = fork(fileURLToPath(new URL('../run.js', import.meta.url)), ['--role', name], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    execArgv: [],
  })
  if (child.pid === undefined) throw new Error(`the process ${name} could not be started`)
  const inbox = new Inbox(name, child)
  return {
    pid: child.pid,
    send: (message) => void child.send(message),
    receive: () => inbox.receive(),
    stop: () => stopChild(child),
  }
}

/**
 * Ends a child process: first with `message`, and then with a signal. If `message` is null, the caller has already sent
 * a message.
 */
export async function stopChild(
  child: ChildProcess,
  patienceMs = STOP_MS_MAX,
  signal: 'SIGTERM' | null = 'SIGTERM',
): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  if (signal !== null) child.kill(signal)
  const force = setTimeout(() => child.kill('SIGKILL'), patienceMs)
  await ended
  clearTimeout(force)
}

/** Stores messages until the caller asks for them. */
class Inbox {
  readonly #messages: unknown[] = []
  #waiting: PromiseWithResolver | null = null
  #failure: Error | null = null

  constructor(name: string, child: ChildProcess) {
    child.on('message', (message: unknown) => {
      if (this.#waiting === null) this.#messages.push(message)
      else this.#waiting.resolve(message)
      this.#waiting = null
    })
    child.on('exit', (code, signal) => {
      this.#failure = new Error(`the process ${name} ended (${signal ?? `code ${String(code)}`})`)
      this.#waiting?.reject(this.#failure)
      this.#waiting = null
    })
  }

  receive(): Promise<unknown> {
    if (this.#messages.length > 0) return Promise.resolve(this.#messages.shift())
    if (this.#failure !== null) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
    })
  }
}

interface PromiseWithResolver {
  resolve(value: unknown): void
  reject(error: Error): void
}
