/**
 * Decides when free pages of a data file are given back to the file system, which `Environment.releasePages` does. The
 * pages that usual work frees are used again soon, and giving them back would only cost time. So it begins when many
 * more of them take room on the disk than usual work needs, such as after a run of retention, and then goes through the
 * whole file, some megabytes at a time.
 */
import type { Clock } from '../../base/clock.ts'
import type { Environment } from './environment.ts'

/** It begins with at least so many bytes of free pages, and with at least this part of what is in use. */
const RELEASED_BYTES_MIN = 64 * 1024 ** 2
const USED_DIVISOR = 8
/** What one write transaction gives back: it takes 0.1 to 0.2 s, and beside events that arrive 30 ms. */
const STEP_BYTES = 64 * 1024 ** 2
const BUSY_STEP_BYTES = 8 * 1024 ** 2
/** Between two passes, and after a failure. */
const PAUSE_MS = 60_000
const FAILURE_PAUSE_MS = 600_000

/** What a pass through the file has done. */
export interface ReleaseNews {
  /** Bytes of the disk that it gave back. */
  readonly bytes: number
  /** Why it failed; null: it did not. */
  readonly failure: string | null
}

/** How free pages are given back. */
export interface FreePageReleaseOptions {
  readonly environment: Pick<Environment, 'releasePages' | 'reusableBytes' | 'room'>
  /** As for `Environment.releasePages`; undefined: nothing is given back. */
  readonly lockDescriptor: number | undefined
  readonly clock: Clock
  /** Bytes of free pages with which it begins at the earliest. Default 64 MiB. */
  readonly bytesMin?: number | undefined
}

/** Gives free pages of one data file back. One per environment, in the thread that writes. */
export class FreePageRelease {
  readonly #options: FreePageReleaseOptions
  readonly #bytesMin: number
  /** The page from which the pass goes on; null: there is none. */
  #next: number | null = null
  /** Free pages that the last pass had to leave do not begin another one, until it is long ago. */
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
   * Gives pages back until `deadlineMs` of the monotonic clock, but one step at least; only a small one when `isBusy`.
   * Returns true when there is more to do.
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
        // Nothing was changed. What is wrong with the data file, `tenrec verify` and the next start say in full.
        failure = cause instanceof Error ? cause.message : String(cause)
      }
      if (failure !== null) return this.#pause(failure)
      if (isBusy || clock.monotonic() >= deadlineMs) break
    }
    if (this.#next === null) this.#end()
    return this.#next !== null
  }

  /** What the pass did that ended since the last call; null: none did, or it found nothing. */
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
