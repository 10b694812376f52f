/**
 * Baseline: Unleash, an open-source server for feature flags, on PostgreSQL. Its package is installed
 * into a folder of its own, never into this one's packages; `BENCH_UNLEASH_DIR` names a folder that is
 * kept for the next run. PostgreSQL and Unleash listen on loopback, PostgreSQL as an unprivileged user,
 * which it insists on; both end with the bench.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inParallel } from '../decide-setup.ts'
import {
  type BenchFlag,
  isHolding,
  propertiesOf,
  unleashBody,
  unleashStrategy,
} from '../decide-workload.ts'
import { type BenchContext, sleep } from '../harness.ts'
import { stopChild } from '../roles.ts'

/** Its route for evaluation on the server. */
export const UNLEASH_PATH = '/api/frontend'

/** The last one that runs on Node 20. */
const VERSION = '7.5.1'
const POSTGRES_FOLDER = '/usr/lib/postgresql'
const UNPRIVILEGED = ['postgres', 'nobody']
const INSTALL_MS_MAX = 180_000
const INITDB_MS_MAX = 60_000
const START_MS_MAX = 60_000
const STOP_MS_MAX = 10_000
const POLL_MS = 200
const CHECKED_PERSONS = 20
const LAST_CHARACTERS = 400

/** A running Unleash. */
export interface Unleash {
  readonly url: string
  readonly pid: number
  /** What requests for evaluation have to carry. */
  readonly headers: Readonly<Record<string, string>>
  /** Names and versions, for notes. */
  readonly version: string
  stop(): Promise<void>
}

/** Who runs PostgreSQL; null: whoever runs the bench. */
interface User {
  readonly uid: number
  readonly gid: number
}

/** Starts Unleash with these flags; where that does not work, the reason as a text. Up to minutes. */
export async function startUnleash(
  context: BenchContext,
  flags: readonly BenchFlag[],
): Promise<Unleash | string> {
  try {
    const folder = await install(context)
    const database = await startPostgres(context)
    return await startServer(context, folder, database, flags)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return reason.replaceAll(/\s+/g, ' ')
  }
}

async function install(context: BenchContext): Promise<string> {
  const { BENCH_UNLEASH_DIR: folder = context.newFolder() } = process.env
  const manifest = join(folder, 'node_modules', 'unleash-server', 'package.json')
  if (existsSync(manifest) && readFileSync(manifest, 'utf8').includes(`"${VERSION}"`)) return folder
  mkdirSync(folder, { recursive: true })
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--ignore-scripts', '--no-save']
  const words = ['install', ...quiet, '--prefix', folder, `unleash-server@${VERSION}`]
  await run('npm', words, { cwd: folder }, INSTALL_MS_MAX)
  return folder
}

interface Database {
  readonly child: ChildProcess
  readonly port: number
  readonly password: string
  readonly version: string
}

async function startPostgres(context: BenchContext): Promise<Database> {
  const binaries = postgresFolder()
  const user = unprivilegedUser()
  // Not in the bench's own folder, which other users cannot enter.
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
  const settings = ['--username=bench', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
  const plain = ['--no-sync', '--encoding=UTF8', '--locale=C']
  const words = [`--pgdata=${data}`, ...settings, ...plain]
  await run(join(binaries, 'initdb'), words, options, INITDB_MS_MAX)
  const port = await freePort()
  const pairs = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=']
  const child = spawn(
    join(binaries, 'postgres'),
    ['-D', data, ...pairs.flatMap((pair) => ['-c', pair])],
    { ...options, stdio: 'ignore' },
  )
  // Ends its own children, which SIGKILL would not.
  endWithBench(context, child, 'SIGQUIT')
  const isReady = ['--host=127.0.0.1', `--port=${port}`, '--quiet']
  await until('PostgreSQL', child, () =>
    run(join(binaries, 'pg_isready'), isReady, options, START_MS_MAX),
  )
  return { child, port, password, version: `PostgreSQL ${binaries.split('/').at(-2)}` }
}

async function startServer(
  context: BenchContext,
  folder: string,
  database: Database,
  flags: readonly BenchFlag[],
): Promise<Unleash> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const secret = randomBytes(16).toString('hex')
  const [adminToken, frontendToken] = [`*:*.admin-${secret}`, `*:development.front-${secret}`]
  const main = join(folder, 'node_modules', 'unleash-server', 'dist', 'server.js')
  const child = spawn(process.execPath, [main], {
    cwd: folder,
    stdio: 'ignore',
    env: {
      ...{ PATH: process.env['PATH'], NODE_ENV: 'production', LOG_LEVEL: 'error' },
      ...{ HTTP_HOST: '127.0.0.1', HTTP_PORT: String(port) },
      ...{ DATABASE_HOST: '127.0.0.1', DATABASE_PORT: String(database.port) },
      ...{ DATABASE_USERNAME: 'bench', DATABASE_PASSWORD: database.password },
      ...{ DATABASE_NAME: 'postgres', DATABASE_SSL: 'false' },
      ...{ INIT_ADMIN_API_TOKENS: adminToken, INIT_FRONTEND_API_TOKENS: frontendToken },
      ...{ SEND_TELEMETRY: 'false', CHECK_VERSION: 'false' },
    },
  })
  endWithBench(context, child, 'SIGKILL')
  await until('Unleash', child, async () => {
    await expectOk(await fetch(`${url}/health`))
  })
  await createFlags(url, adminToken, flags)
  const headers = { Authorization: frontendToken }
  await until('the flags of Unleash', child, () => checkFlags(url, headers, flags))
  return {
    ...{ url, pid: child.pid ?? 0, headers },
    version: `Unleash ${VERSION}, ${database.version}`,
    async stop() {
      await end(child)
      await end(database.child)
    },
  }
}

async function createFlags(url: string, token: string, flags: readonly BenchFlag[]): Promise<void> {
  const features = `${url}/api/admin/projects/default/features`
  const headers = { authorization: token, 'content-type': 'application/json' }
  const post = async (path: string, body: object): Promise<void> => {
    const options = { method: 'POST', headers, body: JSON.stringify(body) }
    await expectOk(await fetch(`${features}${path}`, options))
  }
  await inParallel(flags.length, async (index) => {
    const flag = flags[index]
    if (flag === undefined) return
    const environment = `/${flag.key}/environments/development`
    await post('', { name: flag.key, type: 'release', impressionData: false })
    await post(`${environment}/strategies`, unleashStrategy(flag))
    await post(`${environment}/on`, {})
  })
}

/** Throws unless the flags with a condition are on for exactly those for whom it holds. */
async function checkFlags(
  url: string,
  headers: Readonly<Record<string, string>>,
  flags: readonly BenchFlag[],
): Promise<void> {
  for (let person = 0; person < CHECKED_PERSONS; person++) {
    const response = await fetch(`${url}${UNLEASH_PATH}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: unleashBody(person, flags),
    })
    // Checked below, name by name.
    const { toggles } = JSON.parse(await expectOk(response)) as {
      readonly toggles: readonly { readonly name: string }[]
    }
    const on = new Set(toggles.map(({ name }) => name))
    for (const { key, condition } of flags) {
      if (condition === null) continue
      if (on.has(key) !== isHolding(condition, propertiesOf(person))) {
        throw new Error(`Unleash decides otherwise about ${key}`)
      }
    }
    const free = flags.filter(({ condition }) => condition === null)
    if (person === 0 && !free.some(({ key }) => on.has(key))) {
      throw new Error('Unleash has no flag on that needs no property')
    }
  }
}

async function expectOk(response: Response): Promise<string> {
  const text = await response.text()
  if (response.ok) return text
  const path = new URL(response.url).pathname
  throw new Error(`${path} answered ${response.status}: ${text.slice(0, LAST_CHARACTERS)}`)
}

/** Tries until `attempt` does not throw any more. Throws what it threw last when time is up. */
async function until(
  name: string,
  child: ChildProcess,
  attempt: () => Promise<void>,
): Promise<void> {
  const startMs = performance.now()
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`)
      if (performance.now() - startMs > START_MS_MAX) throw new Error(`${name}: ${reason}`)
    }
    await sleep(POLL_MS)
  }
}

/** The programs of the newest PostgreSQL of Debian. */
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

/** Null when the bench itself has no privileges. */
function unprivilegedUser(): User | null {
  if (process.getuid?.() !== 0) return null
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of UNPRIVILEGED) {
    const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
    if (fields !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  throw new Error('there is no user to run PostgreSQL as')
}

/** A port of loopback that nobody uses. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0
      server.close(() => resolve(port))
    })
  })
}

interface RunOptions {
  readonly cwd: string
  readonly uid?: number
  readonly gid?: number
}

/** Runs a program to its end. Throws with its last words when it fails or takes too long. */
function run(
  command: string,
  words: readonly string[],
  options: RunOptions,
  millisecondsMax: number,
): Promise<void> {
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
      if (failure === null) resolve()
      else reject(new Error(`${command} ${words[0] ?? ''}: ${failure} ${said}`.trim()))
    }
    child.once('error', (error) => settle(error.message))
    child.once('close', (code, signal) => settle(code === 0 ? null : (signal ?? `code ${code}`)))
  })
}

/** Stops a child after the bench, and kills it when the bench itself is ended. */
function endWithBench(
  context: BenchContext,
  child: ChildProcess,
  lastSignal: 'SIGQUIT' | 'SIGKILL',
): void {
  const kill = (): void => void child.kill(lastSignal)
  process.once('exit', kill)
  // A program that cannot be started has no exit; the attempts to reach it tell why.
  child.once('error', () => process.removeListener('exit', kill))
  child.once('exit', () => process.removeListener('exit', kill))
  context.cleanUpWith(() => end(child))
}

/** SIGINT, because SIGTERM lets PostgreSQL wait for its clients. */
async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGINT')
  await stopChild(child, STOP_MS_MAX, null)
}
