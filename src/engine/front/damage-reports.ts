/**
 * Reports damage that a thread finds in a store. The damage is counted in memory that all threads share, so that health
 * checks and metrics show it, and it is written to the log.
 */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import type { Logger } from '../../base/log.ts'
import { DamagedRecordError } from '../../store/faults.ts'
import { DAMAGE_RECORDS_MAX } from './limits.ts'

/**
 * A thread logs the same damaged record at most once in this time, in milliseconds. Otherwise, every request that reads
 * the record would add a line to the log.
 */
const LOG_MS_MIN = 60_000

const DAMAGED =
  'Stored records are damaged, and requests that need them are refused. List them with `tenrec verify`, and restore the store from a backup.'

/** How often damage was found since the process started. All threads share the counter. */
export class DamageCount {
  readonly shared: Int32Array

  /** `shared` is the counter of another thread. If it is not given, a new counter is created. */
  constructor(shared?: Int32Array) {
    this.shared = shared ?? new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  }

  get value(): number {
    // The counter wraps around after 4,294,967,295.
    return Atomics.load(this.shared, 0) >>> 0
  }

  /**
   * A list with one sentence for health checks if damage was found since the process started. Otherwise an empty list.
   */
  get troubles(): readonly string[] {
    return this.value === 0 ? [] : [DAMAGED]
  }

  add(): void {
    Atomics.add(this.shared, 0, 1)
  }
}

/** Counts and logs damage for one thread. */
export class DamageReports {
  readonly #count: DamageCount
  readonly #log: Pick<Logger, 'error'>
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #loggedAtMs = new Map<string, number>()

  constructor(
    count: DamageCount,
    log: Pick<Logger, 'error'>,
    clock: Pick<Clock, 'monotonic'> = SYSTEM_CLOCK,
  ) {
    this.#count = count
    this.#log = log
    this.#clock = clock
  }

  /** Reports an error that a read has thrown. Any error is logged, but only damage is counted. */
  report(error: unknown): void {
    const isDamage = error instanceof DamagedRecordError
    if (isDamage) this.#count.add()
    const record = isDamage ? `${error.table} ${error.key}` : ''
    const now = this.#clock.monotonic()
    if (now - (this.#loggedAtMs.get(record) ?? Number.NEGATIVE_INFINITY) < LOG_MS_MIN) return
    if (this.#loggedAtMs.size >= DAMAGE_RECORDS_MAX) this.#loggedAtMs.clear()
    this.#loggedAtMs.set(record, now)
    const message = isDamage
      ? 'A stored record is damaged. Restore the store from a backup.'
      : 'A stored record cannot be read.'
    this.#log.error({ err: error }, message)
  }
}
