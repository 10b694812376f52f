/**
 * The threads for reads that may take long: large pages, tables, scans of all persons, estimates. Short
 * reads never wait for them. Of those that wait, the ones that ask for the fewest rows go first, and when
 * there are too many the one that asks for the most is refused: a flood of large pages delays no small one.
 */
import type { ServiceError } from '../../base/errors.ts'
import { LONG_READS_WAITING_MAX } from '../../base/limits.ts'
import { refusal } from '../../base/refusals.ts'
import { BusyTime } from './busy-time.ts'
import type { Task, TaskResults, ThreadSettings } from './tasks.ts'
import { type ThreadDeath, ThreadGroup } from './thread-group.ts'

/** Added to the niceness of the threads: what answers at once comes first. */
const NICENESS = 5

/** How many threads there are, and what they are told. */
export interface LongReadsOptions {
  readonly threads: ThreadSettings
  /** Threads for short reads; half as many do this, at least one. */
  readonly workerThreads: number
  /** A thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
}

interface Waiting {
  /** Rows that it asks for. */
  readonly weight: number
  readonly start: () => void
  readonly refuse: (error: ServiceError) => void
}

/** Where a read says how to give it up. */
type OnLeave = (cancel: () => void) => void

/** The threads for long reads. */
export class LongReads {
  /** How long the threads have worked. */
  readonly busy: BusyTime
  readonly #threads: ThreadGroup
  readonly #threadCount: number
  readonly #waiting: Waiting[] = []
  /** For each read that runs what tells its thread that nobody waits. */
  readonly #reads = new Set<Int32Array>()
  #running = 0

  constructor({ threads: settings, workerThreads, onDeath }: LongReadsOptions) {
    this.#threadCount = Math.max(1, Math.floor(workerThreads / 2))
    this.busy = new BusyTime(this.#threadCount)
    this.#threads = new ThreadGroup({
      kind: 'long_readers',
      ...{ settings, onDeath, threadsMin: 0, threadsMax: this.#threadCount },
      pool: { atomics: 'async', niceIncrement: NICENESS },
    })
  }

  /** Reads that wait for a thread. */
  get queueDepth(): number {
    return this.#waiting.length
  }

  /**
   * Runs a task when its turn comes. `weight`: rows that it asks for. `task` gets the shared memory that
   * another number than 0 is written to when nobody waits any more. Rejects with 503 when too many wait.
   */
  async run<Kind extends keyof TaskResults>(
    task: (cancelled: Int32Array) => Extract<Task, { kind: Kind }>,
    weight: number,
    onLeave: OnLeave,
    transferList: readonly ArrayBuffer[] = [],
  ): Promise<TaskResults[Kind]> {
    const cancelled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    await this.#turn(weight, (giveUp) =>
      onLeave(() => {
        Atomics.store(cancelled, 0, 1)
        giveUp()
      }),
    )
    this.#reads.add(cancelled)
    try {
      return await this.busy.during(this.#threads.ask(task(cancelled), transferList))
    } finally {
      this.#reads.delete(cancelled)
      this.#running--
      this.#waiting.shift()?.start()
    }
  }

  /** Gives up what is still asked, lets every thread close its stores, and ends the threads. */
  close(): Promise<void> {
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(refusal('long_reads_full'))
    for (const cancelled of this.#reads) Atomics.store(cancelled, 0, 1)
    return this.#threads.close()
  }

  #turn(weight: number, onLeave: OnLeave): Promise<void> {
    if (this.#running < this.#threadCount) {
      this.#running++
      onLeave(() => {})
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const start = (): void => {
        this.#running++
        resolve()
      }
      const waiting: Waiting = { weight, start, refuse: reject }
      const index = this.#waiting.findIndex((other) => other.weight > weight)
      this.#waiting.splice(index < 0 ? this.#waiting.length : index, 0, waiting)
      onLeave(() => this.#giveUp(waiting))
      if (this.#waiting.length > LONG_READS_WAITING_MAX)
        this.#waiting.pop()?.refuse(refusal('long_reads_full'))
    })
  }

  #giveUp(waiting: Waiting): void {
    const index = this.#waiting.indexOf(waiting)
    if (index < 0) return
    this.#waiting.splice(index, 1)
    waiting.refuse(refusal('long_reads_full'))
  }
}
