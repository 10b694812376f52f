/**
 * Baseline: DuckDB in a separate process, with a database file in a folder of the bench. The process answers one
 * statement after the other over Node's IPC channel.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { type Role, startRole } from '../operate/roles.ts'

/** A running process with an open database. */
export interface DuckDb {
  readonly pid: number
  /** The version text of DuckDB, for the notes. */
  readonly version: string
  /**
   * Runs a statement and reads its whole result, but returns nothing. If DuckDB refuses the statement, throws its
   * message.
   */
  run(statement: string): Promise<void>
  /** Runs a statement and returns its rows. The values of a row are separated by tabs. */
  lines(statement: string): Promise<readonly string[]>
  /** Writes rows to a file that statements can read, and returns its path. The next call replaces the file. */
  rowFile(rows: string): string
  stop(): Promise<void>
}

interface Request {
  readonly statement: string
  readonly wantsLines: boolean
}

interface Reply {
  readonly lines?: readonly string[]
  readonly error?: string
}

/** Opens an empty database in an empty folder. */
export async function startDuckDb(folder: string, threads: number): Promise<DuckDb> {
  const role = startRole('duckdb')
  role.send({ path: join(folder, 'events.duckdb'), threads })
  const ask = async (statement: string, wantsLines: boolean): Promise<readonly string[]> => {
    role.send({ statement, wantsLines } satisfies Request)
    return linesOf(role)
  }
  await linesOf(role)
  const [version = ''] = await ask('SELECT library_version FROM pragma_version()', true)
  return {
    pid: role.pid,
    version,
    run: async (statement) => void (await ask(statement, false)),
    lines: (statement) => ask(statement, true),
    rowFile(rows) {
      const path = join(folder, 'rows.tsv')
      writeFileSync(path, rows)
      return path
    },
    stop: () => role.stop(),
  }
}

async function linesOf(role: Role): Promise<readonly string[]> {
  // This file writes the message, in the helper process of the same build.
  const { lines = [], error } = (await role.receive()) as Reply
  if (error !== undefined) throw new Error(`DuckDB refused: ${error}`)
  return lines
}

/** Runs in the helper process. The first message opens the database, and each further message is a `Request`. */
export function serveDuckDb(): void {
  let ready: Promise<Database> | null = null
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message: unknown) => {
    // This file writes the message, in the main process of the same build.
    const isFirst = ready === null
    ready ??= open(message as OpenRequest)
    const answer = isFirst
      ? ready.then(() => ({}))
      : ready.then((one) => answerOf(one, message as Request))
    answer
      .catch((cause: unknown) => ({ error: String(cause) }))
      .then((reply) => process.send?.(reply satisfies Reply))
      .catch((cause: unknown) => console.error(cause))
  })
}

interface OpenRequest {
  readonly path: string
  readonly threads: number
}

async function answerOf(database: Database, { statement, wantsLines }: Request): Promise<Reply> {
  const result = await database.runAndReadAll(statement)
  return wantsLines ? { lines: result.getRows().map((row) => row.map(String).join('\t')) } : {}
}

type Database = Awaited<ReturnType<DuckDBInstance['connect']>>

async function open({ path, threads }: OpenRequest): Promise<Database> {
  const instance = await DuckDBInstance.create(path, { threads: String(threads) })
  return instance.connect()
}
