/**
 * Baseline: Unleash, an open-source server for feature flags, with PostgreSQL. Its package is installed into a separate
 * folder, never among the packages of this repository. `BENCH_UNLEASH_DIR` names a folder that is kept for the next
 * run. PostgreSQL and Unleash listen on the loopback address and end with the bench. PostgreSQL runs as an unprivileged
 * user, because it refuses to run as root.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/fixtures/free-port.ts'
import { inParallel } from '../decide/decide-setup.ts'
import {
  type BenchFlag,
  isHolding,
  propertiesOf,
  unleashBody,
  unleashStrategy,
} from '../decide/decide-workload.ts'
import type { BenchContext } from '../harness.ts'
import { type Database, startPostgres } from './postgres.ts'
import { endChild, endWithBench, runProgram, untilUp } from './programs.ts'

/** The path of Unleash's route for evaluation on the server. */
export const UNLEASH_PATH = '/api/frontend'

/** The last version of Unleash that runs on Node 20. */
const VERSION = '7.5.1'
const INSTALL_MS_MAX = 180_000
const CHECKED_PERSONS = 20
const LAST_CHARACTERS = 400

/** A running Unleash server. */
export interface Unleash {
  readonly url: string
  readonly pid: number
  /** The headers of requests for evaluation. */
  readonly headers: Readonly<Record<string, string>>
  /** The names and versions of the programs, for the notes. */
  readonly version: string
  stop(): Promise<void>
}

/** Starts Unleash with these flags. If that fails, returns the reason as text. It may take minutes. */
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
  await runProgram('npm', words, { cwd: folder }, INSTALL_MS_MAX)
  return folder
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
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      LOG_LEVEL: 'error',
      HTTP_HOST: '127.0.0.1',
      HTTP_PORT: String(port),
      DATABASE_HOST: '127.0.0.1',
      DATABASE_PORT: String(database.port),
      DATABASE_USERNAME: 'bench',
      DATABASE_PASSWORD: database.password,
      DATABASE_NAME: 'postgres',
      DATABASE_SSL: 'false',
      INIT_ADMIN_API_TOKENS: adminToken,
      INIT_FRONTEND_API_TOKENS: frontendToken,
      SEND_TELEMETRY: 'false',
      CHECK_VERSION: 'false',
    },
  })
  endWithBench(context, child, 'SIGKILL')
  await untilUp('Unleash', child, async () => {
    await expectOk(await fetch(`${url}/health`))
  })
  await createFlags(url, adminToken, flags)
  const headers = { Authorization: frontendToken }
  await untilUp('the flags of Unleash', child, () => checkFlags(url, headers, flags))
  return {
    url,
    pid: child.pid ?? 0,
    headers,
    version: `Unleash ${VERSION}, ${database.version}`,
    async stop() {
      await endChild(child)
      await endChild(database.child)
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

/** Throws unless each flag with a condition is on for exactly the users who meet the condition. */
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
    // The members are checked below, flag by flag.
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
