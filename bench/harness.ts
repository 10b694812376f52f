/**
 * What every bench is given: sizes for a small or a full run, folders that vanish, daemons and
 * baseline servers that are stopped afterwards, and a place to state figures.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ParseLoopOptions } from './baselines/parse-loop.ts'
import { type Daemon, type DaemonOptions, PROJECT_KEY, startDaemon } from './daemon.ts'
import type { EventRequestOptions } from './ingest/bodies.ts'
import type { LoadReport } from './load.ts'
import { startRole } from './operate/roles.ts'
import { type Figure, type FigureInput, judge } from './report.ts'

/** One question, one file. */
export interface Bench {
  readonly name: string
  readonly group:
    | 'baselines'
    | 'ingest'
    | 'persons'
    | 'flags'
    | 'analytics'
    | 'operations'
    | 'cluster'
    | 'peers'
  readonly question: string
  readonly workload: string
  /** Takes so long, or needs so much, that it only runs when it is named. */
  readonly isOnlyByName?: boolean
  /** False: runs before the daemon is built. */
  readonly needsDaemon: boolean
  /** States figures; throws when the answer would be worthless: lost events, unexpected refusals. */
  run(context: BenchContext): Promise<void>
}

/** A baseline server in a process of its own. */
export interface BaselineServer {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
}

export interface ContextOptions {
  readonly bench: string
  readonly isQuick: boolean
  readonly seed: number
  /** Replaces the number of events of benches that store a given number; null: their own. */
  readonly events: number | null
  /** Replaces the number of persons of benches that store a given number; null: their own. */
  readonly persons: number | null
  /** Replaces the number of interleaved rounds; null: the bench's own. */
  readonly rounds: number | null
  /** Replaces the length of benches that last a given time; null: their own. */
  readonly minutes: number | null
  /** Replaces how often benches that break something do so; null: their own. */
  readonly faults: number | null
}

/** Distinct events that are drawn for a run when the bench does not say otherwise. */
const DISTINCT_EVENTS = 51_200
const DISTINCT_EVENTS_QUICK = 2000

export class BenchContext {
  readonly isQuick: boolean
  readonly seed: number
  readonly figures: Figure[] = []
  readonly #options: ContextOptions
  readonly #folder: string
  readonly #cleanups: (() => Promise<void>)[] = []
  #folders = 0
  #stream = 0

  constructor(options: ContextOptions) {
    this.#options = options
    this.isQuick = options.isQuick
    this.seed = options.seed
    this.#folder = mkdtempSync(join(benchFolder(), 'tenrec-bench-'))
    process.once('exit', this.#removeFolder)
  }

  /** The small or the canonical value of a parameter. */
  size(quick: number, full: number): number {
    return this.isQuick ? quick : full
  }

  events(quick: number, full: number): number {
    return this.#options.events ?? this.size(quick, full)
  }

  persons(quick: number, full: number): number {
    return this.#options.persons ?? this.size(quick, full)
  }

  minutes(quick: number, full: number): number {
    return this.#options.minutes ?? this.size(quick, full)
  }

  faults(quick: number, full: number): number {
    return this.#options.faults ?? this.size(quick, full)
  }

  rounds(full: number, quick = 1): number {
    return this.#options.rounds ?? this.size(quick, full)
  }

  /** An empty folder that is removed after the bench. */
  newFolder(): string {
    const folder = join(this.#folder, String(this.#folders++))
    mkdirSync(folder)
    return folder
  }

  /** Requests with events that no earlier run against this bench's stores has sent. */
  requests(
    eventsPerRequest: number,
    options: Partial<Omit<EventRequestOptions, 'kind' | 'eventsPerRequest' | 'stream'>> = {},
  ): EventRequestOptions {
    const distinctEvents = this.size(DISTINCT_EVENTS_QUICK, DISTINCT_EVENTS)
    const stream = this.#stream++
    const usual = { projectKey: PROJECT_KEY, seed: this.seed, distinctEvents }
    return { kind: 'events', eventsPerRequest, stream, ...usual, ...options }
  }

  /** Has something ended after the bench, before whatever was begun earlier. Runs in any case. */
  cleanUpWith(cleanup: () => Promise<void>): void {
    this.#cleanups.push(cleanup)
  }

  /** Starts a daemon, by default on a new folder. It is killed after the bench if it still runs. */
  async startDaemon(options: Partial<DaemonOptions> = {}): Promise<Daemon> {
    const daemon = await startDaemon({ dataDir: this.newFolder(), ...options })
    let isRunning = true
    this.#cleanups.push(async () => {
      if (isRunning) await daemon.kill()
    })
    return {
      ...daemon,
      async stop() {
        isRunning = false
        await daemon.stop()
      },
      async kill() {
        isRunning = false
        await daemon.kill()
      },
    }
  }

  /** Starts baseline (a) or (b). It is stopped after the bench. */
  async startBaseline(name: 'bare-server' | 'parse-server'): Promise<BaselineServer> {
    const role = startRole(name)
    this.#cleanups.push(() => role.stop())
    role.send('port?')
    const port = parsePort(await role.receive())
    return { url: `http://127.0.0.1:${port}`, pid: role.pid, stop: () => role.stop() }
  }

  /** Baseline (c): CPU microseconds per event of `JSON.parse`, in a fresh process. */
  async measureParseLoop(
    eventsPerBody: number,
    events: number,
    traffic: Pick<EventRequestOptions, 'users' | 'isUniform'> = {},
  ): Promise<number> {
    const { seed, distinctEvents } = this.requests(eventsPerBody)
    const role = startRole('parse-loop')
    role.send({
      ...traffic,
      seed,
      eventsPerBody,
      distinctEvents,
      events,
    } satisfies ParseLoopOptions)
    const message = await role.receive()
    await role.stop()
    if (typeof message !== 'object' || message === null || !('cpuUsPerEvent' in message)) {
      throw new Error('the parse loop sent no figure')
    }
    return Number(message.cpuUsPerEvent)
  }

  /** States a figure: prints its JSON line and keeps it for the table. */
  report(input: FigureInput): void {
    const figure = judge(this.#options.bench, input)
    this.figures.push(figure)
    console.log(JSON.stringify(figure))
  }

  /** Ends what still runs and removes the folders. */
  async close(): Promise<void> {
    for (const cleanup of this.#cleanups.reverse()) await cleanup()
    this.#removeFolder()
    process.removeListener('exit', this.#removeFolder)
  }

  readonly #removeFolder = (): void => rmSync(this.#folder, { recursive: true, force: true })
}

/** Where benches keep their data: BENCH_DIR, or the system's folder for temporary files. */
export function benchFolder(): string {
  const { BENCH_DIR: folder = tmpdir() } = process.env
  mkdirSync(folder, { recursive: true })
  return folder
}

/**
 * Runs each side once a round, every other round in reverse order, so that a drift of the machine
 * meets both alike. The results by side.
 */
export async function interleaved<T>(
  rounds: number,
  sides: readonly (() => Promise<T>)[],
): Promise<T[][]> {
  const results: T[][] = sides.map(() => [])
  for (let round = 0; round < rounds; round++) {
    const order = [...sides.keys()]
    if (round % 2 === 1) order.reverse()
    for (const side of order) {
      const run = sides[side]
      if (run !== undefined) results[side]?.push(await run())
    }
  }
  return results
}

/** Throws unless every request was answered with 200. */
export function expectOnlyOk(report: LoadReport): void {
  const { 200: accepted = 0, ...others } = report.statuses
  if (accepted === 0) throw new Error('no request was answered with 200')
  if (Object.keys(others).length > 0 || report.requestsLost > 0) {
    throw new Error(`refused: ${JSON.stringify(others)}, lost: ${report.requestsLost}`)
  }
}

/**
 * Waits until all is processed, then throws unless the daemon has stored exactly the events that
 * were acknowledged, each once. `acknowledged` counts from the daemon's start.
 */
export async function expectAllStored(daemon: Daemon, acknowledged: number): Promise<void> {
  await daemon.drain()
  const { accepted, stored, duplicates } = await daemon.progress()
  if (accepted !== acknowledged || stored !== acknowledged || duplicates !== 0) {
    throw new Error(
      `${acknowledged} events acknowledged, but ${accepted} accepted, ${stored} stored, ` +
        `${duplicates} taken for duplicates`,
    )
  }
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}

function parsePort(message: unknown): number {
  if (typeof message !== 'object' || message === null || !('port' in message)) {
    throw new Error('the baseline server named no port')
  }
  return Number(message.port)
}
