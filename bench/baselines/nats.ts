/**
 * Baseline: a file-based stream of NATS JetStream. It acknowledges after the write and before the flush. Version 2.9
 * flushes every two minutes, so a power cut loses the messages that were acknowledged since then.
 */
import { freePort } from '../../test/fixtures/free-port.ts'
import type { BenchContext } from '../harness.ts'
import { findProgram, runProgram, startServer, tell } from './programs.ts'

/** A running NATS with the stream EVENTS, which stores messages to `events`. */
export interface Nats {
  readonly port: number
  readonly pid: number
  readonly version: string
  /** Returns the number of messages in the stream. */
  count(): Promise<number>
  clear(): Promise<void>
}

const STREAM = { name: 'EVENTS', subjects: ['events'], storage: 'file', retention: 'limits' }

/** Starts NATS with its files in a folder of the bench. It ends with the bench. */
export async function startNats(context: BenchContext): Promise<Nats> {
  const program = findProgram('nats-server', 'nats-server')
  const folder = context.newFolder()
  const port = await freePort()
  const words = ['--jetstream', '--store_dir', folder, '--addr', '127.0.0.1', '--port', `${port}`]
  const ask = (subject: string, payload: string): Promise<string> => {
    const hello = 'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _I.ask 1\r\n'
    const publish = `PUB $JS.API.${subject} _I.ask ${Buffer.byteLength(payload)}\r\n${payload}\r\n`
    return tell(port, hello + publish, (answer) => /MSG _I\.ask [^\r]*\r\n.+\r\n/.test(answer))
  }
  const child = await startServer(context, [program, ...words], folder, () => ask('INFO', ''))
  const made = await ask('STREAM.CREATE.EVENTS', JSON.stringify(STREAM))
  if (made.includes('"error"')) throw new Error(`nats-server made no stream: ${made.slice(-300)}`)
  const said = await runProgram(program, ['--version'], { cwd: folder }, 10_000)
  return {
    port,
    pid: child.pid ?? 0,
    version: `NATS ${/v(\d\S*)/.exec(said)?.[1] ?? ''}, stream in files, not flushed before the answer`,
    async count() {
      const answer = await ask('STREAM.INFO.EVENTS', '')
      return Number(/"messages":(\d+)/.exec(answer)?.[1] ?? Number.NaN)
    },
    async clear() {
      await ask('STREAM.PURGE.EVENTS', '')
    },
  }
}
