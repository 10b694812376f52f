/**
 * `tenrec status`: whether a daemon runs on a data directory or at an address, how it is, how much it has
 * to do and where its disk goes. Reads what anybody may ask, without a key, and opens no store.
 */
import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import { newestBackup } from '../../store/care/backup/backups.ts'
import { DataDir, ENVIRONMENT_NAMES, storeBytes } from '../../store/directory/data-dir.ts'
import { readCredentials } from '../../store/open-store.ts'
import { bytesText } from '../doctor/doctor-finding.ts'
import { type Command, type CommandInput, JSON_OPTION } from '../lib/command.ts'
import { ask, readMetrics } from '../lib/metric-samples.ts'
import { isoTime, printRecord, type Row } from '../lib/output.ts'

/** Time between the two readings of a rate. */
const RATE_MS = 1000
const EXIT_CODES = { running: 0, stopped: 1, degraded: 3, unavailable: 3, silent: 3 } as const

/** `tenrec status`. */
export const STATUS: Command = {
  name: 'status',
  sentence:
    'Tell whether a daemon runs, and how it is. Exit code 0: healthy, 1: not running, 3: it refuses something or does not answer.',
  operands: [],
  options: [
    {
      name: 'base-url',
      placeholder: 'URL',
      sentence: 'The daemon; without it from credentials.json, else from the settings.',
    },
    {
      name: 'backups',
      placeholder: 'FOLDER',
      sentence: 'Where the backups are; without it the data directory with -backups behind it.',
    },
    JSON_OPTION,
  ],
  settings: ['dataDir', 'host', 'port', 'publicUrl'],
  async run(input) {
    const address = addressOf(input)
    const { url } = address
    const folder = address.isGiven ? null : lookAt(resolve(input.settings().dataDir))
    const health = await healthOf(address, folder)
    const isAnswering = health.state !== 'stopped' && health.state !== 'silent'
    const figures = isAnswering ? await figuresOf(url, input.io.clock.now()) : {}
    const stored = folder === null ? {} : storedOf(input, folder)
    const isJson = input.options.has('json')
    const row = { ...health, url, process: folder?.daemon?.pid ?? null, ...figures, ...stored }
    printRecord(input.io, isJson ? row : readable(row), isJson)
    return EXIT_CODES[health.state]
  },
}

interface Health {
  readonly state: keyof typeof EXIT_CODES
  /** Sentences for the operator; empty when all is well. */
  readonly reasons: readonly string[]
}

interface Address {
  readonly url: string
  /** Named on the command line: no directory is looked at. */
  readonly isGiven: boolean
  /** That of any daemon with these settings, not one that the directory names. */
  readonly isGuessed: boolean
}

function addressOf(input: CommandInput): Address {
  const given = input.options.get('base-url')
  const settings = input.settings()
  const known = given ?? readCredentials(settings.dataDir)?.baseUrl
  const url = known ?? baseUrlOf(settings, settings.port)
  if (!URL.canParse(url) || !/^https?:/.test(url)) {
    throw new UsageError(`--base-url: ${url} is no address such as http://127.0.0.1:8000`)
  }
  const isGiven = given !== undefined
  return { url: url.replace(/\/+$/, ''), isGiven, isGuessed: known === undefined }
}

/** A data directory as far as this user may look. */
interface Folder {
  readonly path: string
  readonly isReadable: boolean
  /** Who serves it; null for nobody that can be seen. */
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

/** Others hold the lock as well, for as long as they work. */
function daemonOf(path: string): ReturnType<typeof DataDir.holder> {
  const holder = DataDir.holder(path)
  const purpose = holder?.purpose
  const isDaemon = purpose === 'daemon' || purpose === 'unknown' || purpose === null
  return isDaemon ? (holder ?? null) : null
}

async function healthOf({ url, isGuessed }: Address, folder: Folder | null): Promise<Health> {
  const daemon = folder?.daemon ?? null
  const unreadable =
    folder?.isReadable === false ? [`this user may not look into ${folder.path}`] : []
  let answer: { readonly status: number; readonly text: string }
  try {
    answer = await ask(url, '/_health')
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    if (daemon === null) {
      return { state: 'stopped', reasons: [`nobody answers at ${url}`, ...unreadable] }
    }
    const reason = `${daemon.description} has the data directory open, but nobody answers at ${url}: it starts, hangs, or listens elsewhere (--base-url)`
    return { state: 'silent', reasons: [reason] }
  }
  const { state, reasons } = readHealth(answer.text)
  if (state === undefined || reasons === undefined) {
    return { state: 'stopped', reasons: [`what answers at ${url} is not Tenrec`] }
  }
  if (isGuessed && folder?.isReadable === true && daemon === null) {
    const reason = `no process has ${folder.path} open; the daemon at ${url} serves another directory: ask it with --base-url`
    return { state: 'stopped', reasons: [reason] }
  }
  return { state: state === 'ok' ? 'running' : state, reasons }
}

/** Both undefined when the answer is none of ours. */
function readHealth(text: string): {
  readonly state?: 'ok' | 'degraded' | 'unavailable'
  readonly reasons?: readonly string[]
} {
  try {
    const answer: unknown = JSON.parse(text)
    if (!isObject(answer)) return {}
    const { status, reasons } = answer
    const state = (['ok', 'degraded', 'unavailable'] as const).find((known) => known === status)
    if (state === undefined || !Array.isArray(reasons)) return {}
    return { state, reasons: reasons.map(String) }
  } catch {
    return {}
  }
}

/** What `/metrics` tells; empty where it is not open to us. Takes a second for the rates. */
async function figuresOf(url: string, nowMs: number): Promise<Row> {
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
    // Ours are not worth a word.
    requests_per_second: Math.max(0, rate('http_requests_total') - 1),
    waiting_events: after.get('ingest_queue_depth'),
    oldest_waiting_seconds: after.get('ingest_oldest_unprocessed_age_seconds'),
    main_thread_lag_seconds: after.get('event_loop_lag_seconds'),
    memory_bytes: after.get('process_resident_memory_bytes'),
    disk_free_bytes: after.get('disk_free_bytes'),
  }
}

/** What lies in the data directory and beside it. */
function storedOf(input: CommandInput, { path: dataDir }: Folder): Row {
  const sizes = ENVIRONMENT_NAMES.map((name) => [`${name}_bytes`, sizeOf(dataDir, name)] as const)
  const last_backup = lastBackup(input.options.get('backups') ?? `${dataDir}-backups`)
  return { data_dir: dataDir, ...Object.fromEntries(sizes), last_backup }
}

/** Null when this user may not look. */
function sizeOf(dataDir: string, name: (typeof ENVIRONMENT_NAMES)[number]): number | null {
  try {
    return storeBytes(dataDir, name)
  } catch {
    return null
  }
}

/** When the newest backup of a folder was made; null without one that can be read. */
function lastBackup(folder: string): string | null {
  try {
    return newestBackup(folder)?.createdAt ?? null
  } catch {
    return null
  }
}

/** The same with units that people read, and without what is not known. */
function readable(row: Row): Row {
  const shown = Object.entries(row).map(([name, value]): readonly [string, unknown] => {
    if (value === null) return [name, null]
    if (name === 'reasons') return [name, Array.isArray(value) ? value.join('; ') : '']
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
