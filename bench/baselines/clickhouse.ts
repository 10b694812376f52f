/**
 * Baseline: the server of Debian's package clickhouse-server. It runs on the loopback address with all its files in a
 * folder of the bench, and is stopped afterward. The package is installed if it is missing and the bench has the
 * rights to do so.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { delimiter, join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { freePort } from '../../test/fixtures/free-port.ts'
import { stopChild } from '../operate/roles.ts'

const PACKAGE = 'clickhouse-server'
const FOLDERS = '/usr/bin:/usr/sbin:/usr/local/bin'
const START_MS_MAX = 30_000
const START_POLL_MS = 100
const STOP_MS_MAX = 30_000
const INSTALL_MS_MAX = 300_000

/** A running ClickHouse server. */
export interface ClickHouse {
  readonly pid: number
  /** The port of its HTTP interface on the loopback address. */
  readonly port: number
  /** The version text of the server, for the notes. */
  readonly version: string
  /**
   * Runs a statement and returns its answer as text. `data` are rows to insert; they follow the statement. If the
   * server refuses the statement, throws its message.
   */
  query(statement: string, data?: string): Promise<string>
  stop(): Promise<void>
}

/** Starts a server in an empty folder. Throws if the server is not installed and cannot be installed. */
export async function startClickHouse(folder: string, threads: number): Promise<ClickHouse> {
  const program = findProgram() ?? install()
  const port = await freePort()
  const config = writeConfiguration(folder, port, threads)
  const child = spawn(program, [`--config-file=${config}`], { cwd: folder, stdio: 'ignore' })
  const { pid } = child
  if (pid === undefined) throw new Error(`${program} could not be started`)
  const killWithRunner = (): void => void child.kill('SIGKILL')
  process.once('exit', killWithRunner)
  child.once('exit', () => process.removeListener('exit', killWithRunner))
  const agent = new Agent({ keepAlive: true })
  const query = (statement: string, data = ''): Promise<string> =>
    send(agent, port, statement, data)
  const stop = async (): Promise<void> => {
    agent.destroy()
    await stopChild(child, STOP_MS_MAX)
  }
  for (const startMs = performance.now(); ; ) {
    try {
      return { pid, port, version: (await query('SELECT version()')).trim(), query, stop }
    } catch (cause) {
      const isLate = performance.now() - startMs > START_MS_MAX
      if (isLate || child.exitCode !== null) {
        await stop()
        throw new Error(`${PACKAGE} did not start`, { cause })
      }
    }
    await new Promise((resolve) => setTimeout(resolve, START_POLL_MS))
  }
}

function findProgram(): string | null {
  const folders = `${process.env['PATH'] ?? ''}${delimiter}${FOLDERS}`.split(delimiter)
  return folders.map((folder) => join(folder, PACKAGE)).find((path) => existsSync(path)) ?? null
}

/** Installs the package. Debian starts an installed service, which the bench does not need. */
function install(): string {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const words = ['install', '-y', '--no-install-recommends', PACKAGE]
  try {
    execFileSync('apt-get', words, { env, stdio: 'ignore', timeout: INSTALL_MS_MAX })
    spawnSync('service', [PACKAGE, 'stop'], { stdio: 'ignore' })
  } catch (cause) {
    const detail = `${PACKAGE} is missing and could not be installed: run apt-get install ${PACKAGE}`
    throw new Error(detail, { cause })
  }
  const program = findProgram()
  if (program === null) throw new Error(`the package has no program ${PACKAGE}`)
  return program
}

/** Writes the settings of the package that affect speed, and the setting for one thread per core. */
function writeConfiguration(folder: string, port: number, threads: number): string {
  for (const name of ['data', 'temporary', 'files', 'schemas']) mkdirSync(join(folder, name))
  const path = (name: string): string => `${join(folder, name)}/`
  const config = join(folder, 'config.xml')
  const lines = [
    '<yandex>',
    `<logger><level>error</level><log>${join(folder, 'log')}</log>`,
    `<errorlog>${join(folder, 'errors')}</errorlog></logger>`,
    `<http_port>${port}</http_port><listen_host>127.0.0.1</listen_host>`,
    `<path>${path('data')}</path><tmp_path>${path('temporary')}</tmp_path>`,
    `<user_files_path>${path('files')}</user_files_path>`,
    `<format_schema_path>${path('schemas')}</format_schema_path>`,
    '<keep_alive_timeout>600</keep_alive_timeout><timezone>UTC</timezone>',
    '<max_concurrent_queries>100</max_concurrent_queries>',
    '<mark_cache_size>5368709120</mark_cache_size>',
    '<uncompressed_cache_size>8589934592</uncompressed_cache_size>',
    '<users_config>users.xml</users_config>',
    '<default_profile>default</default_profile><default_database>default</default_database>',
    '</yandex>',
  ]
  writeFileSync(config, lines.join('\n'))
  const users = [
    '<yandex>',
    `<profiles><default><max_threads>${threads}</max_threads>`,
    // This old version has the type turned off by default, although it is twice as fast for most texts.
    '<allow_experimental_low_cardinality_type>1</allow_experimental_low_cardinality_type>',
    '</default></profiles>',
    '<users><default><password></password><networks><ip>127.0.0.1</ip></networks>',
    '<profile>default</profile><quota>default</quota></default></users>',
    '<quotas><default></default></quotas>',
    '</yandex>',
  ]
  writeFileSync(join(folder, 'users.xml'), users.join('\n'))
  return config
}

async function send(agent: Agent, port: number, statement: string, data: string): Promise<string> {
  const isInsert = data !== ''
  const path = isInsert ? `/?query=${encodeURIComponent(statement)}` : '/'
  const body = Buffer.from(isInsert ? data : statement)
  const headers = { 'content-length': body.length }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const options = { host: '127.0.0.1', port, method: 'POST', path, headers, agent }
    request(options, resolve).on('error', reject).end(body)
  })
  const text = await readText(response)
  if (response.statusCode !== 200) throw new Error(`${PACKAGE} refused: ${text.slice(0, 500)}`)
  return text
}
