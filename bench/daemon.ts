/**
 * A daemon that is measured: the built program in a separate process, on a free port, with preset keys. It is observed
 * only from outside, through its log line `ready`, its /metrics, and /proc.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { repositoryFolder } from './machine.ts'
import { parseMetrics, readMetric, sumMetric } from './metrics.ts'
import { stopChild } from './operate/roles.ts'
import { cpuSeconds, type Memory, memory } from './proc.ts'

/** The keys of every daemon that a bench starts. */
export const PROJECT_KEY = 'phc_benchbenchbenchbenchbenchbenchbenchbenc'
export const PERSONAL_KEY = 'phx_benchbenchbenchbenchbenchbenchbenchbenc'

/** The default limit of the processing lag, above which events are refused. Benches about this limit use it. */
export const USUAL_LAG_LIMIT = { TENREC_PROCESSING_LAG_LIMIT_MS: '10000' }
/**
 * All other benches use a higher limit, because they fill the log faster than any machine could process it, and then
 * wait.
 */
const HIGH_LAG_LIMIT = { TENREC_PROCESSING_LAG_LIMIT_MS: '3600000' }

/** The flags of Node that `npm start` and the systemd unit set. See cli/lib/garbage-collection.ts. */
const NODE_OPTIONS = ['--min-semi-space-size=16', '--no-memory-reducer']

/** The settings of the C library's memory allocator that `npm start` and the systemd unit set. */
const MEMORY_SETTINGS = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '262144',
  MALLOC_TRIM_THRESHOLD_: '4194304',
}

const START_MS_MAX = 60_000
const STOP_MS_MAX = 30_000
const DRAIN_MS_MAX = 600_000
const DRAIN_POLL_MS = 100
const LAST_LINES = 20

export interface DaemonOptions {
  readonly dataDir: string
  /** Further arguments of `tenrec serve`. */
  readonly args?: readonly string[]
  /** Further environment variables of the daemon. */
  readonly environment?: Readonly<Record<string, string>>
  /** If true, the daemon is started with `npm start`, as an operator of a checkout does. */
  readonly isNpmStart?: boolean
  /** The network and the address of the daemon. By default, it uses a free port of the loopback address. */
  readonly place?: DaemonPlace
  /** Called with each line of the daemon's log. */
  readonly onLine?: (line: string) => void
}

/** A network in which a daemon runs. */
export interface DaemonPlace {
  /** The beginning of the command with which a program starts in the network. */
  readonly launcher: readonly string[]
  /** The address at which this process reaches the daemon. */
  readonly outerHost: string
  readonly nodePort: number
}

/** The numbers of events since the daemon's start, and the state of processing. */
export interface IngestProgress {
  readonly accepted: number
  readonly stored: number
  readonly duplicates: number
  /** The number of events that are accepted and not processed yet. */
  readonly queueDepth: number
  readonly oldestAgeSeconds: number
}

/** A running daemon. The caller must stop or kill it. */
export interface Daemon {
  readonly url: string
  readonly pid: number
  /** The milliseconds from the start of the process to its log line `ready`. */
  readonly startMs: number
  cpuSeconds(): number
  memory(): Memory
  /** Reads /metrics once. */
  progress(): Promise<IngestProgress>
  /** Waits until no event is left to process. Returns how long that took, in milliseconds. */
  drain(): Promise<number>
  /** Sends SIGTERM and waits until the process has ended. Throws if the exit code is not 0. */
  stop(): Promise<void>
  /** Sends SIGKILL and waits until the process has ended. */
  kill(): Promise<void>
}

/** Returns whether the daemon is built. If it is not, only the baselines can be measured. */
export function isDaemonBuilt(): boolean {
  return existsSync(mainPath())
}

/** Starts a daemon and waits until it is ready. */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const startedAtMs = performance.now()
  const child = spawnDaemon(options)
  const killWithRunner = (): void => void child.kill('SIGKILL')
  process.once('exit', killWithRunner)
  child.once('exit', () => process.removeListener('exit', killWithRunner))
  const { url: said, pid } = await untilReady(child, options.onLine)
  const { place } = options
  const url = place === undefined ? said : `http://${place.outerHost}:${place.nodePort}`
  const startMs = performance.now() - startedAtMs
  const isWrapped = pid !== child.pid
  const progress = async (): Promise<IngestProgress> => readProgress(await fetchText(url))
  return {
    url,
    pid,
    startMs,
    cpuSeconds: () => cpuSeconds(pid),
    memory: () => memory(pid),
    progress,
    drain: () => drain(progress),
    async stop() {
      const ended = exitOf(child)
      if (isWrapped) signal(pid, 'SIGTERM')
      await stopChild(child, STOP_MS_MAX, isWrapped ? null : 'SIGTERM')
      const code = await ended
      if (code !== 0 && !isWrapped) throw new Error(`the daemon exited with ${code} when stopped`)
    },
    async kill() {
      const ended = exitOf(child)
      signal(pid, 'SIGKILL')
      await ended
    },
  }
}

/** Returns the path of the built program. */
export function mainPath(): string {
  return join(repositoryFolder(), 'dist', 'main.js')
}

function spawnDaemon(options: DaemonOptions): ChildProcess {
  const { place } = options
  const port = place === undefined ? ['0'] : [String(place.nodePort), '--host', '0.0.0.0']
  const serve = ['--data-dir', options.dataDir, '--port', ...port, '--log-level', 'info']
  const args = [...serve, '--log-format', 'json', ...(options.args ?? [])]
  const [command = '', ...words] =
    options.isNpmStart === true
      ? ['npm', 'start', '--silent', '--', ...args]
      : [
          ...(place?.launcher ?? []),
          process.execPath,
          ...NODE_OPTIONS,
          mainPath(),
          'serve',
          ...args,
        ]
  return spawn(command, words, {
    cwd: repositoryFolder(),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      TENREC_BOOTSTRAP_PROJECT_KEY: PROJECT_KEY,
      TENREC_BOOTSTRAP_PERSONAL_KEY: PERSONAL_KEY,
      ...MEMORY_SETTINGS,
      ...HIGH_LAG_LIMIT,
      ...options.environment,
    },
  })
}

/** Reads the log up to the line `ready`. Later lines are read and discarded. */
function untilReady(
  child: ChildProcess,
  onLine: (line: string) => void = () => {},
): Promise<{ url: string; pid: number }> {
  return new Promise((resolve, reject) => {
    const lines: string[] = []
    const fail = (reason: string): void => {
      child.kill('SIGKILL')
      reject(new Error(`the daemon did not start: ${reason}\n${lines.join('\n')}`))
    }
    const timer = setTimeout(() => fail('no line "ready"'), START_MS_MAX)
    const onExit = (code: number | null): void => fail(`exit code ${String(code)}`)
    child.once('exit', onExit)
    child.once('error', (error) => fail(error.message))
    const take = (line: string): void => {
      onLine(line)
      lines.push(line)
      if (lines.length > LAST_LINES) lines.shift()
      const ready = parseReadyLine(line)
      if (ready === null) return
      clearTimeout(timer)
      child.removeListener('exit', onExit)
      resolve(ready)
    }
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', take)
    }
  })
}

/** Returns the URL and the process ID in a log line whose message is `ready`, or null for any other line. */
export function parseReadyLine(line: string): { url: string; pid: number } | null {
  if (!line.startsWith('{')) return null
  try {
    const fields = JSON.parse(line)
    if (typeof fields !== 'object' || fields === null) return null
    if (!('msg' in fields) || fields.msg !== 'ready') return null
    if (!('url' in fields) || typeof fields.url !== 'string') return null
    if (!('pid' in fields) || typeof fields.pid !== 'number') return null
    return { url: fields.url.replace(/\/$/, ''), pid: fields.pid }
  } catch {
    return null
  }
}

async function fetchText(url: string): Promise<string> {
  const response = await fetch(`${url}/metrics`)
  if (!response.ok) throw new Error(`/metrics answered ${response.status}`)
  return response.text()
}

function readProgress(text: string): IngestProgress {
  const metrics = parseMetrics(text)
  const fate = (name: string): number => sumMetric(metrics, 'ingest_events_total', { fate: name })
  return {
    accepted: fate('accepted'),
    stored: fate('stored'),
    duplicates: fate('duplicate'),
    queueDepth: readMetric(metrics, 'ingest_queue_depth'),
    oldestAgeSeconds: readMetric(metrics, 'ingest_oldest_unprocessed_age_seconds'),
  }
}

async function drain(progress: () => Promise<IngestProgress>): Promise<number> {
  const startMs = performance.now()
  for (;;) {
    const { queueDepth } = await progress()
    const elapsedMs = performance.now() - startMs
    if (queueDepth === 0) return elapsedMs
    if (elapsedMs > DRAIN_MS_MAX) throw new Error(`${queueDepth} events were never processed`)
    await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS))
  }
}

/** Sends a signal to a daemon that may have ended already. */
function signal(pid: number, name: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, name)
  } catch {
    // The daemon has ended by itself. The code that waits for its exit code handles that.
  }
}

function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode)
  return new Promise((resolve) => child.once('exit', (code) => resolve(code)))
}
