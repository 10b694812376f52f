/**
 * The tools of every bench: sizes for a small or a full run, folders that are removed at the end, daemons and baseline
 * servers that are stopped at the end, and a function that reports figures.
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

/** A bench. It answers one question and has a file of its own. */
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
    | 'experiments'
    | 'peers'
  readonly question: string
  readonly workload: string
  /** If true, the bench runs only when it is named, because it takes very long or needs many resources. */
  readonly isOnlyByName?: boolean
  /** If false, the bench can run without a built daemon. */
  readonly needsDaemon: boolean
  /**
   * Reports figures. Throws if the answer would mean nothing, for example because events were lost or unexpectedly
   * refused.
   */
  run(context: BenchContext): Promise<void>
}

/** A baseline server in a separate process. */
export interface BaselineServer {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
}

export interface ContextOptions {
  readonly bench: string
  readonly isQuick: boolean
  readonly seed: number
  /** Replaces the number of events in benches that store a fixed number. Null means the number of the bench. */
  readonly events: number | null
  /** Replaces the number of persons in benches that store a fixed number. Null means the number of the bench. */
  readonly persons: number | null
  /** Replaces the number of interleaved rounds. Null means the number of the bench. */
  readonly rounds: number | null
  /** Replaces the length of benches that last a fixed time. Null means the length of the bench. */
  readonly minutes: number | null
  /** Replaces the number of faults in benches that inject faults. Null means the number of the bench. */
  readonly faults: number | null
}

/** The number of distinct events that are drawn for a run, unless the bench sets another number. */
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

  /** Returns the value of a parameter for a small run or for a full run. */
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

  /** Returns an empty folder that is removed after the bench. */
  newFolder(): string {
    const folder = join(this.#folder, String(this.#folders++))
    mkdirSync(folder)
    return folder
  }

  /** Returns requests whose events no earlier run of this bench has sent. */
  requests(
    eventsPerRequest: number,
    options: Partial<Omit<EventRequestOptions, 'kind' | 'eventsPerRequest' | 'stream'>> = {},
  ): EventRequestOptions {
    const distinctEvents = this.size(DISTINCT_EVENTS_QUICK, DISTINCT_EVENTS)
    const stream = this.#stream++
    const usual = { projectKey: PROJECT_KEY, seed: this.seed, distinctEvents }
    return { kind: 'events', eventsPerRequest, stream, ...usual, ...options }
  }

  /**
   * Registers a cleanup that runs after the bench, even if the bench fails. The cleanup that was registered last runs
   * first.
   */
  cleanUpWith(cleanup: () => Promise<void>): void {
    this.#cleanups.push(cleanup)
  }

  /** Starts a daemon, by default with a new folder. It is killed after the bench if it is still running. */
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

  /** Measures baseline (c): the CPU microseconds per event of `JSON.parse`, in a new process. */
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

  /** Reports a figure: prints it as a line of JSON, and stores it for the table. */
  report(input: FigureInput): void {
    const figure = judge(this.#options.bench, input)
    this.figures.push(figure)
    console.log(JSON.stringify(figure))
  }

  /** Ends everything that is still running, and removes the folders. */
  async close(): Promise<void> {
    for (const cleanup of this.#cleanups.reverse()) await cleanup()
    this.#removeFolder()
    process.removeListener('exit', this.#removeFolder)
  }

  readonly #removeFolder = (): void => rmSync(this.#folder, { recursive: true, force: true })
}

/** Returns the folder for the data of benches: BENCH_DIR, or the system's folder for temporary files. */
export function benchFolder(): string {
  const { BENCH_DIR: folder = tmpdir() } = process.env
  mkdirSync(folder, { recursive: true })
  return folder
}

/**
 * Runs each side once in a round, and reverses the order in every second round, so that a drift of the machine affects
 * all sides equally. Returns the results of each side.
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
 * Waits until all events are processed. Throws unless the daemon has stored exactly the acknowledged events, each once.
 * `acknowledged` is the number of events since the daemon's start.
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
