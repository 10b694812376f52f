/**
 * A daemon under test: the built program in a separate process, on a free port, with preset keys. It is observed only
 * from outside: its log line `ready`, its /metrics, and /proc.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { repositoryFolder } from './machine.ts'
import { parseMetrics, readMetric, sumMetric } from './metrics.ts'
import { stopChild } from './operate/roles.ts'
import { cpuSeconds, type Memory, memory } from './proc.ts'

/** The preset keys of every daemon that a bench starts. */
export const PROJECT_KEY = 'phc_benchbenchbenchbenchbenchbenchbenchbenc'
export const PERSONAL_KEY = 'phx_benchbenchbenchbenchbenchbenchbenchbenc'

/** The lag above which events are refused, with its default value, for benches about that limit. */
export const USUAL_LAG_LIMIT = { TENREC_PROCESSING_LAG_LIMIT_MS: '10000' }
/** Other benches fill the log faster than any machine could process it, and wait. */
const HIGH_LAG_LIMIT = { TENREC_PROCESSING_LAG_LIMIT_MS: '3600000' }

/** The flags of `npm start` and of the systemd unit. See cli/lib/garbage-collection.ts. */
const NODE_OPTIONS = ['--min-semi-space-size=16', '--no-memory-reducer']

/** The settings of the C library's memory allocator, as in the same two places. */
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
  /** Further variables of its environment. */
  readonly environment?: Readonly<Record<string, string>>
  /** Starts through `npm start`, as an operator of a checkout does. */
  readonly isNpmStart?: boolean
  /** The network and address in which it runs, instead of a free port of the loopback address. */
  readonly place?: DaemonPlace
  /** Called with each line of its log. */
  readonly onLine?: (line: string) => void
}

/** A network that a daemon runs in. */
export interface DaemonPlace {
  /** The command prefix. */
  readonly launcher: readonly string[]
  /** The address at which this process reaches it. */
  readonly outerHost: string
  readonly nodePort: number
}

/** The number of events since the daemon's start, and the state of processing. */
export interface IngestProgress {
  readonly accepted: number
  readonly stored: number
  readonly duplicates: number
  /** Events that are accepted and not yet processed. */
  readonly queueDepth: number
  readonly oldestAgeSeconds: number
}

/** A running daemon. The caller must stop or kill it. */
export interface Daemon {
  readonly url: string
  readonly pid: number
  /** Milliseconds from the start of the process to the line `ready`. */
  readonly startMs: number
  cpuSeconds(): number
  memory(): Memory
  /** Reads /metrics once. */
  progress(): Promise<IngestProgress>
  /** Waits until no event is left to process. Returns the time in milliseconds. */
  drain(): Promise<number>
  /** Sends SIGTERM and waits for the end. Throws if the exit code is not 0. */
  stop(): Promise<void>
  /** Sends SIGKILL and waits for the end. */
  kill(): Promise<void>
}

/** Whether the daemon is built. Without it only the baselines can be measured. */
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

/** The built program. */
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

/** Reads the log until the line `ready`. Afterwards the log is read and discarded. */
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

/** Returns the url and pid of a log line whose message is `ready`, or null for any other line. */
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

/** Signals a daemon that may already have ended. */
function signal(pid: number, name: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended by itself. The caller that waits for its exit code handles that.
  }
}

function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode)
  return new Promise((resolve) => child.once('exit', (code) => resolve(code)))
}
