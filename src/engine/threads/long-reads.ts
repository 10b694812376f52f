/**
 * Threads for what may take long: reads (large pages, tables, scans of all persons, estimates), and in a
 * group of their own analytic questions. Short reads never wait for them. They start with the first call. Of
 * the calls that wait, those that ask for the fewest rows go first, and when there are too many the one that
 * asks for the most is refused: a flood of large pages delays no small one.
 */
import type { ServiceError } from '../../base/errors.ts'
import { LONG_READS_WAITING_MAX } from '../../base/limits.ts'
import type { PageWish } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import { BusyTime } from './busy-time.ts'
import type { Task } from './call-kinds.ts'
import type { ThreadSettings } from './tasks.ts'
import { type ThreadDeath, ThreadGroup } from './thread-group.ts'

/** Added to the niceness of the threads: what answers at once comes first, processing last. */
const NICENESS = { long_readers: 5, analytics: 8 } as const

const FULL = { long_readers: 'long_reads_full', analytics: 'questions_full' } as const

/** How many threads there are, and what they are told. */
export interface LongReadsOptions {
  readonly kind?: keyof typeof NICENESS
  readonly threads: ThreadSettings
  readonly entry?: URL | undefined
  /** Threads for short reads; half as many do this, at least one. */
  readonly workerThreads: number
  /** A thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
}

/** How many threads for long reads there are beside `workerThreads` for short ones. */
export function longThreads(workerThreads: number): number {
  return Math.max(1, Math.floor(workerThreads / 2))
}

interface Waiting {
  /** Rows that it asks for. */
  readonly weight: number
  readonly start: () => void
  readonly refuse: (error: ServiceError) => void
}

/** The threads for long reads. */
export class LongReads {
  /** How long the threads have worked. */
  readonly busy: BusyTime
  readonly #kind: keyof typeof NICENESS
  readonly #threads: ThreadGroup
  readonly #threadCount: number
  readonly #waiting: Waiting[] = []
  /** For each read that runs what tells its thread that nobody waits. */
  readonly #reads = new Set<Int32Array>()
  #running = 0

  constructor(options: LongReadsOptions) {
    const { kind = 'long_readers', threads: settings, entry, workerThreads, onDeath } = options
    this.#kind = kind
    this.#threadCount = longThreads(workerThreads)
    this.busy = new BusyTime(this.#threadCount)
    this.#threads = new ThreadGroup({
      ...{ kind, settings, entry, onDeath, threadsMin: 0, threadsMax: this.#threadCount },
      pool: { atomics: 'async', niceIncrement: NICENESS[kind] },
    })
  }

  /** Reads that wait for a thread. */
  get queueDepth(): number {
    return this.#waiting.length
  }

  /**
   * Carries out a call when its turn comes. `weight`: rows that it asks for. Rejects with 503 when too many
   * wait.
   */
  async run(
    task: Omit<Task, 'cancelled'>,
    weight: number,
    onLeave: PageWish['onLeave'],
    transferList: readonly ArrayBuffer[] = [],
  ): Promise<unknown> {
    const cancelled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    await this.#turn(weight, (giveUp) =>
      onLeave(() => {
        Atomics.store(cancelled, 0, 1)
        giveUp()
      }),
    )
    this.#reads.add(cancelled)
    try {
      const work = this.#threads.ask({ ...task, cancelled }, transferList)
      return await this.busy.during(work)
    } finally {
      this.#reads.delete(cancelled)
      this.#running--
      this.#waiting.shift()?.start()
    }
  }

  /** Gives up what is still asked, lets every thread close its stores, and ends the threads. */
  close(): Promise<void> {
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(this.#tooMany())
    for (const cancelled of this.#reads) Atomics.store(cancelled, 0, 1)
    return this.#threads.close()
  }

  #turn(weight: number, onLeave: PageWish['onLeave']): Promise<void> {
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
        this.#waiting.pop()?.refuse(this.#tooMany())
    })
  }

  #giveUp(waiting: Waiting): void {
    const index = this.#waiting.indexOf(waiting)
    if (index < 0) return
    this.#waiting.splice(index, 1)
    waiting.refuse(this.#tooMany())
  }

  #tooMany(): ServiceError {
    return refusal(FULL[this.#kind])
  }
}
