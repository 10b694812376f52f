/**
 * Whether the front is busy: its thread hardly rests, or requests come so close that many share a commit.
 * A thread that waits for a crowded disk rests, and decisions commit nothing.
 */

/** A busy thread works, or waits for a core to work on, for at least this share of the time. */
const BUSY_SHARE = 0.5
/** Requests that share a commit when there are many, and how many in a second are worth a pause. */
const SHARED_REQUESTS_MIN = 8
const REQUESTS_PER_SECOND_MIN = 1000
/** A shorter time says nothing. */
const WINDOW_MS = 50

/** How long an event loop has worked and rested since it began, in milliseconds. */
export interface LoopTimes {
  readonly active: number
  readonly idle: number
}

/** Looks at the event loop of the thread that makes it, and at what it commits. */
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

  /** Notes a commit that so many requests shared. */
  committed(requests: number): void {
    this.#requests += requests
    this.#commits++
  }

  /** Since the look before, or that look's answer when it was just now. About a microsecond. */
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
