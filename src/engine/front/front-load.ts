/**
 * Tells whether the front is busy: its thread is rarely idle, or requests arrive so fast that many share a commit. A
 * thread that waits for a crowded disk is idle, and flag decisions commit nothing.
 */

/** A busy thread works, or waits for a CPU core, for at least this share of the time. */
const BUSY_SHARE = 0.5
/** The number of requests that share a commit under load, and the requests a second that are worth a pause. */
const SHARED_REQUESTS_MIN = 8
const REQUESTS_PER_SECOND_MIN = 1000
/** Shorter intervals are not measured. */
const WINDOW_MS = 50

/** The milliseconds that an event loop has been active and idle since it began. */
export interface LoopTimes {
  readonly active: number
  readonly idle: number
}

/** Observes the event loop of the calling thread and the size of its commits. */
export class FrontLoad {
  readonly #read: () => LoopTimes
  #before: LoopTimes
  #requests = 0
  #commits = 0
  #isBusy = false

  /** `read` returns the times of the event loop, by default those of this thread. */
  constructor(read: () => LoopTimes = () => performance.eventLoopUtilization()) {
    this.#read = read
    this.#before = read()
  }

  /** Records a commit that this number of requests shared. */
  committed(requests: number): void {
    this.#requests += requests
    this.#commits++
  }

  /**
   * True if the front was busy since the last reading. A reading shortly after another returns the same. Cost: about a
   * microsecond.
   */
  get isBusy(): boolean {
    const now = this.#read()
    const activeMs = now.active - this.#before.active
    const elapsedMs = activeMs + now.idle - this.#before.idle
    if (elapsedMs < WINDOW_MS) return this.#isBusy
    const isShared =
      this.#requests >= this.#commits * SHARED_REQUESTS_MIN &&
      this.#requests * 1000 >= elapsedMs * REQUESTS_PER_SECOND_MIN
    this.#isBusy = isShared || activeMs > elapsedMs * BUSY_SHARE
    this.#before = now
    this.#requests = 0
    this.#commits = 0
    return this.#isBusy
  }
}
