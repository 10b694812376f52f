/** Baseline: a Redis stream. Redis writes and flushes its file before each answer (`appendfsync always`). */
import { freePort } from '../../test/fixtures/free-port.ts'
import type { BenchContext } from '../harness.ts'
import { findProgram, runProgram, startServer, tell } from './programs.ts'

/** A running Redis. */
export interface Redis {
  readonly port: number
  readonly pid: number
  readonly version: string
  /** Returns the number of entries in the stream. */
  count(): Promise<number>
  clear(): Promise<void>
}

/** Starts Redis with its files in a folder of the bench. It ends with the bench. */
export async function startRedis(context: BenchContext): Promise<Redis> {
  const program = findProgram('redis-server', 'redis-server')
  const folder = context.newFolder()
  const port = await freePort()
  const words = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '']
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always']
  // Rewriting the file during the run would only take time, so it is turned off.
  const plain = ['--auto-aof-rewrite-percentage', '0', '--daemonize', 'no']
  const ask = (command: string): Promise<string> =>
    tell(port, `${command}\r\n`, (answer) => answer.endsWith('\r\n'))
  const command = [program, ...words, ...durable, ...plain] as const
  const child = await startServer(context, [...command], folder, () => ask('PING'))
  const said = await runProgram(program, ['--version'], { cwd: folder }, 10_000)
  return {
    port,
    pid: child.pid ?? 0,
    version: `Redis ${/v=(\S+)/.exec(said)?.[1] ?? ''}, appendfsync always`,
    count: async () => Number((await ask('XLEN events')).slice(1)),
    async clear() {
      await ask('FLUSHALL')
    },
  }
}
