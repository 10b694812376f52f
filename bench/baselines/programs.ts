/** Programs of other projects that a bench starts on the loopback address and stops at its end. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { type BenchContext, sleep } from '../harness.ts'
import { stopChild } from '../operate/roles.ts'

const START_MS_MAX = 60_000
const STOP_MS_MAX = 10_000
const POLL_MS = 200
const TELL_MS_MAX = 10_000
const LAST_CHARACTERS = 400

/** Retries `attempt` until it succeeds. If the time is over, throws its last error. */
export async function untilUp(
  name: string,
  child: ChildProcess,
  attempt: () => Promise<unknown>,
): Promise<void> {
  const startMs = performance.now()
  for (;;) {
    try {
      await attempt()
      return
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`)
      if (performance.now() - startMs > START_MS_MAX) throw new Error(`${name}: ${reason}`)
    }
    await sleep(POLL_MS)
  }
}

/**
 * Returns the first of these programs that exists in Debian's folders. If there is none, throws an error that names the
 * package to install.
 */
export function findProgram(program: string, debianPackage: string): string {
  const folders = `${process.env['PATH'] ?? ''}${delimiter}/usr/bin${delimiter}/usr/sbin`
  for (const folder of folders.split(delimiter)) {
    const path = join(folder, program)
    if (existsSync(path)) return path
  }
  throw new Error(`${program} is not installed: apt-get install ${debianPackage}`)
}

/** Starts a server that ends with the bench. `ready` is retried until it succeeds. */
export async function startServer(
  context: BenchContext,
  command: readonly [string, ...string[]],
  folder: string,
  ready: () => Promise<unknown>,
): Promise<ChildProcess> {
  const [program, ...words] = command
  const child = spawn(program, words, { cwd: folder, stdio: 'ignore' })
  endWithBench(context, child, 'SIGKILL')
  await untilUp(program, child, ready)
  return child
}

/**
 * Sends a text to a port of the loopback address, and returns the answer as soon as `isDone` accepts it. Throws after
 * some seconds.
 */
export function tell(
  port: number,
  text: string,
  isDone: (answer: string) => boolean,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect({ host: '127.0.0.1', port }, () => socket.write(text))
    const fail = (reason: string): void => {
      socket.destroy()
      reject(new Error(`port ${port}: ${reason} ${answer.slice(0, LAST_CHARACTERS)}`))
    }
    socket.setTimeout(TELL_MS_MAX, () => fail('no answer'))
    socket.on('error', (error) => fail(error.message))
    socket.on('close', () => fail('closed'))
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1')
      if (!isDone(answer)) return
      socket.removeAllListeners('close')
      socket.destroy()
      resolve(answer)
    })
  })
}

/** The folder in which a program runs, and its user. */
export interface RunOptions {
  readonly cwd: string
  readonly uid?: number
  readonly gid?: number
  readonly env?: NodeJS.ProcessEnv
}

/**
 * Runs a program and returns the last part of its output. If the program fails or takes too long, throws this output.
 */
export function runProgram(
  command: string,
  words: readonly string[],
  options: RunOptions,
  millisecondsMax: number,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, words, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const kill = (): void => void child.kill('SIGKILL')
    const timer = setTimeout(kill, millisecondsMax)
    process.once('exit', kill)
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        said = (said + chunk.toString('utf8')).slice(-LAST_CHARACTERS)
      })
    }
    const settle = (failure: string | null): void => {
      clearTimeout(timer)
      process.removeListener('exit', kill)
      if (failure === null) resolve(said)
      else reject(new Error(`${command} ${words[0] ?? ''}: ${failure} ${said}`.trim()))
    }
    child.once('error', (error) => settle(error.message))
    child.once('close', (code, signal) => settle(code === 0 ? null : (signal ?? `code ${code}`)))
  })
}

/** Stops a child process at the end of the bench, and kills it if the bench itself is killed. */
export function endWithBench(
  context: BenchContext,
  child: ChildProcess,
  lastSignal: 'SIGQUIT' | 'SIGKILL',
): void {
  const kill = (): void => void child.kill(lastSignal)
  process.once('exit', kill)
  // A program that cannot be started has no exit event. The code that tries to reach it reports the reason.
  child.once('error', () => process.removeListener('exit', kill))
  child.once('exit', () => process.removeListener('exit', kill))
  context.cleanUpWith(() => endChild(child))
}

/** Sends SIGINT, because with SIGTERM PostgreSQL would wait for its clients. */
export async function endChild(child: ChildProcess): Promise<void> {
  child.kill('SIGINT')
  await stopChild(child, STOP_MS_MAX, null)
}
