/**
 * Runs Debian's PostgreSQL on the loopback address, with all its files in a folder of its own. It runs as an
 * unprivileged user, because it refuses to run as root.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/fixtures/free-port.ts'
import type { BenchContext } from '../harness.ts'
import { endWithBench, runProgram, untilUp } from './programs.ts'

const POSTGRES_FOLDER = '/usr/lib/postgresql'
const UNPRIVILEGED = ['postgres', 'nobody']
const INITDB_MS_MAX = 60_000
const START_MS_MAX = 60_000

/** The user that runs PostgreSQL. Null means the user of the bench. */
interface User {
  readonly uid: number
  readonly gid: number
}

/** A running PostgreSQL. Its user is `bench`, and its database is `postgres`. */
export interface Database {
  readonly child: ChildProcess
  readonly port: number
  readonly password: string
  readonly version: string
}

/**
 * Starts PostgreSQL in an empty folder. `settings` are texts such as `name=value`. PostgreSQL ends with the bench.
 * Throws if it is not installed.
 */
export async function startPostgres(
  context: BenchContext,
  settings: readonly string[] = [],
): Promise<Database> {
  const binaries = postgresFolder()
  const user = unprivilegedUser()
  // The folder of the bench cannot be used, because other users cannot enter it.
  const folder = mkdtempSync(join(tmpdir(), 'tenrec-bench-postgres-'))
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', removeFolder)
  context.cleanUpWith(async () => {
    removeFolder()
    process.removeListener('exit', removeFolder)
  })
  const password = randomBytes(16).toString('hex')
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (user !== null) for (const path of [folder, passwordFile]) chownSync(path, user.uid, user.gid)
  const data = join(folder, 'data')
  const options = { cwd: folder, ...user }
  const access = ['--username=bench', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
  const plain = ['--no-sync', '--encoding=UTF8', '--locale=C']
  const words = [`--pgdata=${data}`, ...access, ...plain]
  await runProgram(join(binaries, 'initdb'), words, options, INITDB_MS_MAX)
  const port = await freePort()
  const pairs = [
    `port=${port}`,
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    ...settings,
  ]
  const child = spawn(
    join(binaries, 'postgres'),
    ['-D', data, ...pairs.flatMap((pair) => ['-c', pair])],
    { ...options, stdio: 'ignore' },
  )
  // With SIGQUIT, PostgreSQL ends its child processes. With SIGKILL, they would continue.
  endWithBench(context, child, 'SIGQUIT')
  const isReady = ['--host=127.0.0.1', `--port=${port}`, '--quiet']
  await untilUp('PostgreSQL', child, () =>
    runProgram(join(binaries, 'pg_isready'), isReady, options, START_MS_MAX),
  )
  return { child, port, password, version: `PostgreSQL ${binaries.split('/').at(-2)}` }
}

/** Returns the programs of the newest PostgreSQL of Debian. */
function postgresFolder(): string {
  const versions = existsSync(POSTGRES_FOLDER) ? readdirSync(POSTGRES_FOLDER) : []
  const newest = versions
    .map(Number)
    .filter(Number.isInteger)
    .sort((a, b) => b - a)[0]
  const folder = join(POSTGRES_FOLDER, String(newest), 'bin')
  if (!existsSync(join(folder, 'initdb'))) {
    throw new Error('PostgreSQL is not installed (Debian package postgresql)')
  }
  return folder
}

/** Returns the user for PostgreSQL, or null if the bench itself runs without privileges. */
function unprivilegedUser(): User | null {
  if (process.getuid?.() !== 0) return null
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of UNPRIVILEGED) {
    const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
    if (fields !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  throw new Error('there is no user to run PostgreSQL as')
}
