/** Starts the baseline of `fastify-server.ts` and its PostgreSQL. */
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { BenchContext } from '../harness.ts'
import { startRole } from '../operate/roles.ts'
import type { FastifyOptions } from './fastify-server.ts'
import { startPostgres } from './postgres.ts'
import { runProgram } from './programs.ts'

const PACKAGES = ['fastify@5.12.8', 'pg@8.23.1', 'pg-copy-streams@7.0.0']
const INSTALL_MS_MAX = 120_000
const QUERY_MS_MAX = 30_000
/** Settings that make PostgreSQL faster without risk. The settings that make a commit durable keep their defaults. */
const SETTINGS = [
  'synchronous_commit=on',
  'fsync=on',
  'full_page_writes=on',
  'shared_buffers=512MB',
  'max_wal_size=8GB',
  'checkpoint_timeout=1h',
  'wal_buffers=16MB',
  'autovacuum=off',
]
const TABLE =
  'CREATE TABLE events (uuid uuid NOT NULL, event text NOT NULL, distinct_id text NOT NULL, ' +
  'timestamp timestamptz NOT NULL, properties jsonb NOT NULL)'

/** A running fastify server with its database. */
export interface FastifyPostgres {
  readonly port: number
  readonly pids: readonly number[]
  readonly version: string
  /** Runs a statement and returns the output of psql. */
  query(statement: string): Promise<string>
}

/**
 * Installs the packages, starts both servers, and creates the table without an index. Both servers end with the bench.
 */
export async function startFastify(context: BenchContext): Promise<FastifyPostgres> {
  const database = await startPostgres(context, SETTINGS)
  const { BENCH_FASTIFY_DIR: folder = context.newFolder() } = process.env
  mkdirSync(folder, { recursive: true })
  if (!PACKAGES.every((name) => existsSync(join(folder, 'node_modules', nameOf(name))))) {
    const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--ignore-scripts', '--no-save']
    const words = ['install', ...quiet, '--prefix', folder, ...PACKAGES]
    await runProgram('npm', words, { cwd: folder }, INSTALL_MS_MAX)
  }
  const query = (statement: string): Promise<string> => {
    const server = ['-h', '127.0.0.1', '-p', String(database.port), '-U', 'bench', '-d', 'postgres']
    const words = ['--no-psqlrc', '-qtA', ...server, '-c', statement]
    const env = { ...process.env, PGPASSWORD: database.password }
    return runProgram('psql', words, { cwd: folder, env }, QUERY_MS_MAX)
  }
  await query(TABLE)
  const role = startRole('fastify-server')
  context.cleanUpWith(() => role.stop())
  role.send({
    folder,
    databasePort: database.port,
    databasePassword: database.password,
  } satisfies FastifyOptions)
  // fastify-server.ts of the same build writes the message.
  const { port } = (await role.receive()) as { readonly port: number }
  const pids = [role.pid, database.child.pid ?? 0]
  const packages = PACKAGES.slice(0, 2).join(', ')
  return { port, pids, version: `${packages}, ${database.version}`, query }
}

function nameOf(packageWithVersion: string): string {
  return packageWithVersion.slice(0, packageWithVersion.lastIndexOf('@'))
}
