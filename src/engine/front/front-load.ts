/**
 * Decides whether the main thread (the *front*) is busy. It is busy if its event loop is rarely idle, or if requests
 * arrive so fast that many of them share a commit. Each test covers a case that the other one misses. While the disk is
 * slow, the event loop is idle although many requests share a commit. Flag decisions keep the event loop busy without
 * any commit.
 */

/** The main thread is busy if it works, or waits for a CPU core, for at least this share of the time. */
const BUSY_SHARE = 0.5
/**
 * The main thread is busy if a commit has at least `SHARED_REQUESTS_MIN` requests on average, and at least
 * `REQUESTS_PER_SECOND_MIN` requests arrive in a second.
 */
const SHARED_REQUESTS_MIN = 8
const REQUESTS_PER_SECOND_MIN = 1000
/** The load is measured over a period of at least this length, in milliseconds. */
const WINDOW_MS = 50

/** For how many milliseconds an event loop was active and idle since it started. */
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
   * True if the main thread was busy since the last measurement. Shortly after a measurement, the same result is
   * returned again. Costs about a microsecond.
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
