/**
 * Baseline: the server that a team would typically write first. A fastify server accepts the same requests as Tenrec
 * and writes the events to PostgreSQL, with INSERT for one event and COPY for a batch. It answers after the commit. The
 * bench has installed the packages in a folder of its own.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** The message that the main process sends. */
export interface FastifyOptions {
  /** The folder that contains node_modules. */
  readonly folder: string
  readonly databasePort: number
  readonly databasePassword: string
}

interface GivenEvent {
  readonly uuid: string
  readonly event: string
  readonly timestamp: string
  readonly properties: { readonly distinct_id: string }
}

interface Sink {
  end(text: string): void
  once(event: 'finish' | 'error', listener: (error?: Error) => void): void
}

/** The parts of the package pg that are used. */
interface Client {
  query(statement: { name: string; text: string; values: readonly unknown[] }): Promise<unknown>
  query(stream: Sink): Sink
  release(error?: Error): void
}

interface Pool extends Client {
  connect(): Promise<Client>
}

/** The parts of fastify that are used. */
interface Application {
  post(path: string, handler: (request: { readonly body: unknown }) => Promise<object>): void
  listen(options: { host: string; port: number }): Promise<string>
}

const POOL_CONNECTIONS = 16
const BODY_BYTES_MAX = 20 * 1024 ** 2
const INSERT =
  'INSERT INTO events (uuid, event, distinct_id, timestamp, properties) VALUES ($1, $2, $3, $4, $5)'
const COPY = 'COPY events (uuid, event, distinct_id, timestamp, properties) FROM STDIN'

/** Runs in the helper process: receives options and returns the port. */
export function serveFastify(): void {
  process.on('disconnect', () => process.exit(0))
  process.once('message', (message: unknown) => {
    // baselines/fastify.ts of the same build writes the message.
    start(message as FastifyOptions).then(
      (port) => process.send?.({ port }),
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
  })
}

async function start(options: FastifyOptions): Promise<number> {
  const load = createRequire(join(options.folder, 'package.json'))
  // The code follows the documentation of the two packages.
  const fastify = load('fastify') as (options: object) => Application
  const { Pool: PoolClass } = load('pg') as { Pool: new (options: object) => Pool }
  const { from } = load('pg-copy-streams') as { from: (statement: string) => Sink }
  const { databasePort: port, databasePassword: password } = options
  const login = { host: '127.0.0.1', port, user: 'bench', database: 'postgres', password }
  const pool = new PoolClass({ ...login, max: POOL_CONNECTIONS })
  const app = fastify({ bodyLimit: BODY_BYTES_MAX })
  app.post('/capture/', async ({ body }) => {
    const values = columnsOf(body as GivenEvent)
    await pool.query({ name: 'insert', text: INSERT, values })
    return { status: 1 }
  })
  app.post('/batch/', async ({ body }) => {
    const { batch } = body as { readonly batch: readonly GivenEvent[] }
    await copy(pool, from(COPY), batch)
    return { status: 1 }
  })
  return Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port)
}

async function copy(pool: Pool, stream: Sink, batch: readonly GivenEvent[]): Promise<void> {
  const client = await pool.connect()
  try {
    const sink = client.query(stream)
    const done = new Promise<void>((resolve, reject) => {
      sink.once('finish', () => resolve())
      sink.once('error', reject)
    })
    sink.end(batch.map(lineOf).join(''))
    await done
    client.release()
  } catch (error) {
    client.release(error instanceof Error ? error : new Error(String(error)))
    throw error
  }
}

function columnsOf(event: GivenEvent): readonly string[] {
  const { uuid, event: name, timestamp, properties, ...rest } = event
  const details = JSON.stringify({ ...properties, ...rest })
  return [uuid, name, properties.distinct_id, timestamp, details]
}

function lineOf(event: GivenEvent): string {
  const columns = columnsOf(event).map((text) =>
    text.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n'),
  )
  return `${columns.join('\t')}\n`
}
