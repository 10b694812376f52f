/**
 * Baseline: DuckDB in a process of its own, with a database file in a folder of the bench. The process answers one
 * statement after the other over Node's IPC channel.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { type Role, startRole } from '../operate/roles.ts'

/** A running process with an open database. */
export interface DuckDb {
  readonly pid: number
  /** Its own version text, for the notes. */
  readonly version: string
  /** Runs a statement and reads its whole result, but returns nothing. Throws with the message of DuckDB. */
  run(statement: string): Promise<void>
  /** Runs a statement and returns its rows, with the values of each row separated by tabs. */
  lines(statement: string): Promise<readonly string[]>
  /** Writes rows to a file that statements can read, and returns its path. The file replaces the one before. */
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
  // Written by this file.
  const { lines = [], error } = (await role.receive()) as Reply
  if (error !== undefined) throw new Error(`DuckDB refused: ${error}`)
  return lines
}

/** Serves the runner: the first message opens the database, and each further message is a `Request`. */
export function serveDuckDb(): void {
  const reply = (answer: Reply): void => void process.send?.(answer)
  let ready: Promise<Database> | null = null
  process.on('disconnect', () => process.exit(0))
  process.on('message', async (message: unknown) => {
    try {
      if (ready === null) {
        ready = open(message as { readonly path: string; readonly threads: number })
        await ready
        reply({})
        return
      }
      const database = await ready
      const { statement, wantsLines } = message as Request
      const result = await database.runAndReadAll(statement)
      reply(wantsLines ? { lines: result.getRows().map((row) => row.map(String).join('\t')) } : {})
    } catch (cause) {
      reply({ error: String(cause) })
    }
  })
}

type Database = Awaited<ReturnType<DuckDBInstance['connect']>>

async function open({ path, threads }: { path: string; threads: number }): Promise<Database> {
  const instance = await DuckDBInstance.create(path, { threads: String(threads) })
  return instance.connect()
}
