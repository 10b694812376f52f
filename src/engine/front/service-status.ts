/**
 * The status of a daemon for people: the main metrics, the history of a day, and a forecast of when the disk is full.
 */
import type { Clock } from '../../base/clock.ts'
import { VERSION } from '../../base/version.ts'
import { PART_NAMES, storeBytes } from '../../store/directory/data-dir.ts'
import { fullAtMs, RateHistory, type RatePoint } from './rate-history.ts'
import type { GaugeSources } from './service-gauges.ts'
import type { ServiceMetrics } from './service-metrics.ts'

/**
 * A forecast needs a history of at least this length, in milliseconds. Over shorter periods, the free space varies too
 * much, because the files of the log come and go.
 */
const FORECAST_SPAN_MS_MIN = 15 * 60_000

/** The current status of a daemon. Times are in ISO 8601 and UTC. */
export interface ServiceStatus {
  readonly version: string
  readonly started_at: string
  readonly uptime_seconds: number
  readonly disk: {
    readonly free_bytes: number
    readonly used_bytes: number
    readonly reserve_bytes: number
    readonly full_at: string | null
  }
  readonly backlog: {
    readonly events: number
    readonly bytes: number
    readonly lag_seconds: number
  }
  readonly rates: readonly RatePoint[]
  readonly dead_letters: number
  readonly threads: readonly {
    readonly name: string
    readonly count: number
    readonly queue_depth: number
  }[]
}

/** The sources of the status. */
export interface StatusOptions {
  readonly metrics: ServiceMetrics
  readonly clock: Pick<Clock, 'now'>
  /** The paths of the routes that accept events. */
  readonly capturePaths: readonly string[]
  readonly sources: () => GaugeSources
}

/** Keeps the history of a daemon, and returns its current status. */
export class StatusReport {
  readonly #options: StatusOptions
  readonly #history: RateHistory
  readonly #startedAtMs: number

  constructor(options: StatusOptions) {
    this.#options = options
    const { metrics, clock, capturePaths } = options
    this.#startedAtMs = clock.now()
    this.#history = new RateHistory(
      capturePaths.map((path) => metrics.httpRequestSeconds.with(path)),
      () => metrics.totals(),
    )
  }

  /** Starts a minute of the history. */
  note(): void {
    const { clock, sources } = this.#options
    this.#history.note(clock.now(), sources().disk.freeBytes)
  }

  /** Returns the current status. Asks the file system for the size of the store. */
  now(): ServiceStatus {
    const { metrics, clock, sources } = this.#options
    const nowMs = clock.now()
    const { loop, disk, dataDir, busy, queues } = sources()
    const { freeBytes, reserveBytes } = disk
    const fullMs = fullAtMs(this.#history.disk, reserveBytes, FORECAST_SPAN_MS_MIN)
    return {
      version: VERSION,
      started_at: new Date(this.#startedAtMs).toISOString(),
      uptime_seconds: Math.max(0, Math.round((nowMs - this.#startedAtMs) / 1000)),
      disk: {
        free_bytes: freeBytes,
        used_bytes: PART_NAMES.reduce((sum, name) => sum + storeBytes(dataDir, name), 0),
        reserve_bytes: reserveBytes,
        full_at: fullMs === null ? null : new Date(fullMs).toISOString(),
      },
      backlog: {
        events: loop.waitingEvents,
        bytes: loop.backlogBytes,
        lag_seconds: loop.lagMs / 1000,
      },
      rates: this.#history.points(nowMs),
      dead_letters: metrics.deadLetters.value,
      threads: Object.entries(busy).map(([name, { threads }]) => {
        return { name, count: threads, queue_depth: queues[name] ?? 0 }
      }),
    }
  }
}
