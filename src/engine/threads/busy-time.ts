/** Measures how long threads are busy. The measurement runs on the main thread, because that distributes the tasks. */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'

/** The busy time of a pool in which each thread runs one task at a time. */
export class BusyTime {
  readonly threads: number
  readonly #clock: Clock
  #tasks = 0
  #busyMs = 0
  #sinceMs = 0

  constructor(threads: number, clock: Clock = SYSTEM_CLOCK) {
    this.threads = threads
    this.#clock = clock
  }

  /** The seconds that all threads together have worked. The number never falls. */
  get seconds(): number {
    this.#settle()
    return this.#busyMs / 1000
  }

  /**
   * Counts a task from now until `work` settles, including the time for which the task waits for a thread. Settles like
   * `work`.
   */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#settle()
    this.#tasks++
    try {
      return await work
    } finally {
      this.#settle()
      this.#tasks--
    }
  }

  #settle(): void {
    const nowMs = this.#clock.monotonic()
    this.#busyMs += Math.min(this.#tasks, this.threads) * (nowMs - this.#sinceMs)
    this.#sinceMs = nowMs
  }
}
