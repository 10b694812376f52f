/**
 * Decides when free pages of a data file are released to the file system by `Environment.releasePages`. Pages that
 * become free in normal work are soon used again, so releasing them would only cost time. A pass through the file
 * starts only when free pages take much more disk space than normal work needs, for example after a retention run. The
 * pass releases some megabytes at a time.
 */
import type { Clock } from '../../base/clock.ts'
import type { Environment } from './environment.ts'

/**
 * A pass starts if the free pages on the disk have at least `RELEASED_BYTES_MIN` bytes, and at least 1 / `USED_DIVISOR`
 * of the bytes of the used pages.
 */
const RELEASED_BYTES_MIN = 64 * 1024 ** 2
const USED_DIVISOR = 8
/**
 * The largest number of bytes that one write transaction releases. That takes 0.1 to 0.2 s, or 30 ms with the smaller
 * number, which is used while events arrive.
 */
const STEP_BYTES = 64 * 1024 ** 2
const BUSY_STEP_BYTES = 8 * 1024 ** 2
/** The minimum time between two passes, and the time between a failure and the next attempt, in milliseconds. */
const PAUSE_MS = 60_000
const FAILURE_PAUSE_MS = 600_000

/** The result of a pass through the data file. */
export interface ReleaseNews {
  /** The number of bytes that the pass released to the file system. */
  readonly bytes: number
  /** The reason why the pass failed, or null. */
  readonly failure: string | null
}

/** What the release of free pages needs from its surroundings. */
export interface FreePageReleaseOptions {
  readonly environment: Pick<Environment, 'releasePages' | 'reusableBytes' | 'room'>
  /**
   * The file descriptor of the lock on the data directory, for `Environment.releasePages`. If undefined, nothing is
   * released.
   */
  readonly lockDescriptor: number | undefined
  readonly clock: Clock
  /** A pass starts only if the free pages have at least this number of bytes. Default: 64 MiB. */
  readonly bytesMin?: number | undefined
}

/** Releases the free pages of one data file. An environment has one, in its writing thread. */
export class FreePageRelease {
  readonly #options: FreePageReleaseOptions
  readonly #bytesMin: number
  /** The page from which the pass continues, or null if no pass is running. */
  #next: number | null = null
  /**
   * The number of bytes of free pages that the last pass could not release. For some time, these bytes do not count as
   * free, so that they do not cause another pass.
   */
  #leftBytes = 0
  #pausedUntilMs = 0
  #leftUntilMs = 0
  #isUnsupported = false
  #releasedBytes = 0
  #failure: string | null = null

  constructor(options: FreePageReleaseOptions) {
    this.#options = options
    this.#bytesMin = options.bytesMin ?? RELEASED_BYTES_MIN
  }

  /**
   * Releases pages until the time `deadlineMs` of the monotonic clock, in at least one step. If `isBusy` is true, it
   * makes only one small step. Returns whether there are more pages to release.
   */
  run(deadlineMs: number, isBusy = false): boolean {
    const { environment, lockDescriptor, clock } = this.#options
    if (lockDescriptor === undefined || this.#isUnsupported) return false
    if (this.#next === null && !this.#shallBegin()) return false
    while (this.#next !== null) {
      let failure: string | null = null
      try {
        const stepBytes = isBusy ? BUSY_STEP_BYTES : STEP_BYTES
        const step = environment.releasePages(this.#next, stepBytes, lockDescriptor)
        this.#releasedBytes += step.bytes
        this.#next = step.next
        failure = step.failure?.reason ?? null
        this.#isUnsupported = step.failure?.isUnsupported === true
      } catch (cause) {
        // The store was not changed, so work can continue. `tenrec verify` and the next start will report the damage in
        // detail.
        failure = cause instanceof Error ? cause.message : String(cause)
      }
      if (failure !== null) return this.#pause(failure)
      if (isBusy || clock.monotonic() >= deadlineMs) break
    }
    if (this.#next === null) this.#end()
    return this.#next !== null
  }

  /**
   * Returns the result of a pass that ended since the last call. Returns null if no pass has ended, or if the pass
   * neither released anything nor failed.
   */
  takeNews(): ReleaseNews | null {
    if (this.#next !== null) return null
    const news = { bytes: this.#releasedBytes, failure: this.#failure }
    this.#releasedBytes = 0
    this.#failure = null
    return news.bytes === 0 && news.failure === null ? null : news
  }

  #shallBegin(): boolean {
    const now = this.#options.clock.monotonic()
    if (now < this.#pausedUntilMs) return false
    const { environment } = this.#options
    const leftBytes = now < this.#leftUntilMs ? this.#leftBytes : 0
    const reusableBytes = environment.reusableBytes()
    if (reusableBytes < leftBytes + this.#bytesMin) return false
    if (reusableBytes < leftBytes + environment.room().usedBytes / USED_DIVISOR) return false
    this.#next = 0
    return true
  }

  #end(): void {
    const now = this.#options.clock.monotonic()
    this.#leftBytes = this.#options.environment.reusableBytes()
    this.#leftUntilMs = now + FAILURE_PAUSE_MS
    this.#pausedUntilMs = now + PAUSE_MS
  }

  #pause(failure: string): false {
    this.#failure = failure
    this.#next = null
    this.#pausedUntilMs = this.#options.clock.monotonic() + FAILURE_PAUSE_MS
    return false
  }
}
