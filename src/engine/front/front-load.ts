/**
 * Decides whether the front is busy. It is if its thread is rarely idle, or if requests arrive so fast that many share
 * a commit. Two cases show why both are needed: a thread that waits for a slow disk is idle, and flag decisions make no
 * commits.
 */

/** The thread is busy if it works, or waits for a CPU core, for at least this share of the time. */
const BUSY_SHARE = 0.5
/**
 * The front is busy if at least this many requests share a commit, and at least `REQUESTS_PER_SECOND_MIN` requests
 * arrive in a second.
 */
const SHARED_REQUESTS_MIN = 8
const REQUESTS_PER_SECOND_MIN = 1000
/** The load is measured over at least this time, in milliseconds. */
const WINDOW_MS = 50

/** The milliseconds for which an event loop was active and idle since it began. */
export interface LoopTimes {
  readonly active: number
  readonly idle: number
}

/** Watches the event loop of the thread that calls it, and the size of its commits. */
export class FrontLoad {
  readonly #read: () => LoopTimes
  #before: LoopTimes
  #requests = 0
  #commits = 0
  #isBusy = false

  /** `read` returns the times of the event loop. Default: those of this thread. */
  constructor(read: () => LoopTimes = () => performance.eventLoopUtilization()) {
    this.#read = read
    this.#before = read()
  }

  /** Records a commit of this number of requests. */
  committed(requests: number): void {
    this.#requests += requests
    this.#commits++
  }

  /**
   * True if the front was busy since the last measurement. Shortly after a measurement, its result is returned again.
   * It costs about a microsecond.
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
