/**
 * `tenrec status`: shows whether a daemon runs on a data directory or at a URL, its health, its load, and how much disk
 * space it uses. It reads only public routes without a key, and opens no store.
 */
import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError } from '../../base/errors.ts'
import { isObject, type JsonObject, parseJson } from '../../base/json.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import { DataDir, PART_NAMES, storeBytes } from '../../store/directory/data-dir.ts'
import { newestBackup } from '../../store/maintenance/backup/backups.ts'
import { readCredentials } from '../../store/open-store.ts'
import { bytesText } from '../doctor/doctor-finding.ts'
import { type CommandInput, type Commands, JSON_OPTION } from '../lib/command.ts'
import { addressOf, ask } from '../lib/daemon-client.ts'
import { readMetrics } from '../lib/metric-samples.ts'
import { isoTime, print } from '../lib/output.ts'

/** The time between the two readings from which a rate is computed, in milliseconds. */
const RATE_MS = 1000
const EXIT_CODES = { running: 0, stopped: 1, degraded: 3, unavailable: 3, silent: 3 } as const
/** For each state that a daemon reports, the state that this command prints. */
const STATES: ReadonlyMap<unknown, keyof typeof EXIT_CODES> = new Map([
  ['ok', 'running'],
  ['degraded', 'degraded'],
  ['unavailable', 'unavailable'],
])

/** `tenrec status`. */
export const COMMANDS: Commands = [
  {
    name: 'status',
    sentence:
      'Print whether a daemon runs and whether it is healthy. The exit code is 0 if it is healthy, 1 if it does not run, and 3 if it refuses some requests or does not answer.',
    options: {
      '--base-url URL':
        'Address of the daemon. Default: the address in credentials.json, or else the address in the settings.',
      '--backups FOLDER':
        'Directory with the backups. Default: the path of the data directory followed by -backups.',
      ...JSON_OPTION,
    },
    settings: ['dataDir', 'host', 'port', 'publicUrl'],
    async run(input) {
      const { io, isJson } = input
      const address = daemonAddress(input)
      const { url } = address
      const folder = address.isGiven ? null : lookAt(resolve(input.dataDir))
      const health = await healthOf(address, folder)
      const isAnswering = health.state !== 'stopped' && health.state !== 'silent'
      const figures = isAnswering ? await figuresOf(url, io.clock.now()) : {}
      const stored = folder === null ? {} : storedOf(input, folder)
      const row = { ...health, url, process: folder?.daemon?.pid ?? null, ...figures, ...stored }
      print(io, isJson ? row : readable(row), isJson)
      return EXIT_CODES[health.state]
    },
  },
]

interface Health {
  readonly state: keyof typeof EXIT_CODES
  /** The reasons why the daemon is not healthy. Empty if it is healthy. */
  readonly reasons: readonly string[]
}

interface Address {
  readonly url: string
  /** True if the URL is given on the command line. No data directory is then looked at. */
  readonly isGiven: boolean
  /** True if the URL was derived from the settings, because the data directory contains none. */
  readonly isGuessed: boolean
}

function daemonAddress(input: CommandInput): Address {
  const given = input.text('base-url')
  const settings = input.settings()
  const known = given ?? readCredentials(settings.dataDir)?.baseUrl
  const url = addressOf(known ?? baseUrlOf(settings, settings.port))
  return { url, isGiven: given !== undefined, isGuessed: known === undefined }
}

/** The parts of a data directory that this user may read. */
interface Folder {
  readonly path: string
  readonly isReadable: boolean
  /** The daemon that has the directory open, or null if none can be found. */
  readonly daemon: ReturnType<typeof DataDir.holder>
}

function lookAt(path: string): Folder {
  try {
    accessSync(path, constants.R_OK | constants.X_OK)
    return { path, isReadable: true, daemon: daemonOf(path) }
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    return { path, isReadable: isMissing, daemon: null }
  }
}

/**
 * Returns the process that holds the lock on a data directory, if it is a daemon. Other commands hold the lock too, as
 * long as they work.
 */
function daemonOf(path: string): ReturnType<typeof DataDir.holder> {
  const holder = DataDir.holder(path)
  const purpose = holder?.purpose
  const isDaemon = purpose === 'daemon' || purpose === 'unknown' || purpose === null
  return isDaemon ? (holder ?? null) : null
}

async function healthOf({ url, isGuessed }: Address, folder: Folder | null): Promise<Health> {
  const daemon = folder?.daemon ?? null
  const unreadable = folder?.isReadable === false ? [`This user may not read ${folder.path}.`] : []
  let text: string
  try {
    text = (await ask(url, '/_health')).text
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    if (daemon === null) {
      return { state: 'stopped', reasons: [`There is no answer from ${url}.`, ...unreadable] }
    }
    const reason = `There is no answer from ${url}, although ${daemon.description} has the data directory open. It may be starting, hang, or listen at another address; give that address with --base-url.`
    return { state: 'silent', reasons: [reason] }
  }
  const answer = parseJson(text)
  const { status, reasons }: JsonObject = isObject(answer) ? answer : {}
  const state = STATES.get(status)
  if (state === undefined || !Array.isArray(reasons)) {
    const reason = `The server at ${url} is not Tenrec. Give the address of the daemon with --base-url.`
    return { state: 'stopped', reasons: [reason] }
  }
  if (isGuessed && folder?.isReadable === true && daemon === null) {
    const reason = `No process has ${folder.path} open. The daemon at ${url} serves another data directory; ask it with --base-url.`
    return { state: 'stopped', reasons: [reason] }
  }
  return { state, reasons: reasons.map(String) }
}

/**
 * Reads figures from `/metrics`. Returns an empty object if access is denied. It takes a second, because rates need two
 * readings.
 */
async function figuresOf(url: string, nowMs: number): Promise<object> {
  const before = await readMetrics(url)
  if (before === null) return {}
  const beganAtMs = performance.now()
  await sleep(RATE_MS)
  const after = await readMetrics(url)
  if (after === null) return {}
  const seconds = (performance.now() - beganAtMs) / 1000
  const rate = (family: string, ...labels: readonly string[]): number =>
    Math.round((after.sum(family, ...labels) - before.sum(family, ...labels)) / seconds)
  const startedAtMs = (after.get('process_start_time_seconds') ?? Number.NaN) * 1000
  return {
    version: after.label('build_info', 'version'),
    started_at: Number.isNaN(startedAtMs) ? null : isoTime(startedAtMs),
    uptime_seconds: Math.max(0, Math.round((nowMs - startedAtMs) / 1000)),
    events_per_second: rate('ingest_events_total', 'fate="accepted"'),
    // The request of this command itself is not counted.
    requests_per_second: Math.max(0, rate('http_requests_total') - 1),
    waiting_events: after.get('ingest_queue_depth'),
    oldest_waiting_seconds: after.get('ingest_oldest_unprocessed_age_seconds'),
    main_thread_lag_seconds: after.get('event_loop_lag_seconds'),
    memory_bytes: after.get('process_resident_memory_bytes'),
    disk_free_bytes: after.get('disk_free_bytes'),
  }
}

/** Returns the sizes of the parts of the data directory, and the time of the last backup. */
function storedOf(input: CommandInput, { path: dataDir }: Folder): object {
  const sizes = PART_NAMES.map((name) => {
    return [`${name}_bytes`, readableOrNull(() => storeBytes(dataDir, name))] as const
  })
  const folder = input.text('backups') ?? `${dataDir}-backups`
  const last_backup = readableOrNull(() => newestBackup(folder)?.createdAt ?? null)
  return { data_dir: dataDir, ...Object.fromEntries(sizes), last_backup }
}

/** Returns the result of `look`. Returns null if `look` fails, for example because this user may not read a file. */
function readableOrNull<T>(look: () => T): T | null {
  try {
    return look()
  } catch {
    return null
  }
}

/** Returns a row for people: values have units, and unknown values are left out. */
function readable(row: JsonObject): JsonObject {
  const shown = Object.entries(row).map(([name, value]): readonly [string, unknown] => {
    if (value === null) return [name, null]
    if (name === 'reasons') return [name, Array.isArray(value) ? value.join(' ') : '']
    if (name.endsWith('_bytes')) return [name.slice(0, -6), bytesText(Number(value))]
    if (name === 'uptime_seconds') return ['uptime', durationText(Number(value))]
    if (name.endsWith('_seconds')) return [name.slice(0, -8), `${Number(value).toFixed(3)} s`]
    return [name, value]
  })
  return Object.fromEntries(shown.filter(([, value]) => value !== null && value !== ''))
}

function durationText(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`
  if (hours > 0) return `${hours} h ${minutes % 60} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}
