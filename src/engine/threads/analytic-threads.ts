/**
 * The threads that answer analytic questions and do nothing else, so that no other read waits for one.
 * They run at a lower priority than whatever answers at once, and start with the first question. Every
 * thread keeps decoded columns of its own, which share one budget.
 */
import { SCAN_CACHE_BYTES_DEFAULT } from '../../base/limits.ts'
import { refusal } from '../../base/refusals.ts'
import type {
  AnalyticAnswer,
  AnalyticQueries,
  AnalyticQuery,
} from '../../rules/analytics/analytics.ts'
import { BusyTime } from './busy-time.ts'
import type { ThreadSettings } from './tasks.ts'
import { type ThreadDeath, ThreadGroup } from './thread-group.ts'

/** Questions that may wait for a thread; a further one is refused with 503. */
const QUEUE_MAX = 32
/** Added to the niceness of the threads: accepting and decisions come first, processing comes last. */
const NICENESS = 8

/** How many threads there are, and what they are told. */
export interface AnalyticThreadsOptions {
  readonly threads: ThreadSettings
  /** Threads for other reads; half as many answer analytic questions, at least one. */
  readonly workerThreads: number
  /** Time that one question may take on its thread; it does not count while it waits for one. */
  readonly queryMsMax: number
  /** Bytes of decoded columns that all threads keep together. Default `SCAN_CACHE_BYTES_DEFAULT`. */
  readonly cacheBytesMax?: number
  /** A thread has ended unexpectedly. */
  readonly onDeath?: (death: ThreadDeath) => void
}

/** The threads for analytics. */
export class AnalyticThreads implements AnalyticQueries {
  /** How long the threads have worked. */
  readonly busy: BusyTime
  readonly #threads: ThreadGroup
  readonly #questionsMax: number
  /** For each question that is open what tells its thread that nobody waits. */
  readonly #questions = new Set<Int32Array>()

  constructor(options: AnalyticThreadsOptions) {
    const { threads, workerThreads, queryMsMax, onDeath = () => {} } = options
    const threadCount = Math.max(1, Math.floor(workerThreads / 2))
    const cacheBytesMax = Math.floor(
      (options.cacheBytesMax ?? SCAN_CACHE_BYTES_DEFAULT) / threadCount,
    )
    const settings: ThreadSettings = { ...threads, analytics: { queryMsMax, cacheBytesMax } }
    this.#questionsMax = threadCount + QUEUE_MAX
    this.busy = new BusyTime(threadCount)
    this.#threads = new ThreadGroup({
      kind: 'analytics',
      ...{ settings, onDeath, threadsMin: 0, threadsMax: threadCount },
      pool: { atomics: 'async', niceIncrement: NICENESS },
    })
  }

  /** Questions that wait for a thread. */
  get queueDepth(): number {
    return this.#threads.queueSize
  }

  async analyse(
    query: AnalyticQuery,
    onCancel: (cancel: () => void) => void,
  ): Promise<AnalyticAnswer> {
    if (this.#questions.size >= this.#questionsMax) {
      throw refusal('questions_full')
    }
    const cancelled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    onCancel(() => cancel(cancelled))
    this.#questions.add(cancelled)
    try {
      const work = this.#threads.ask({ kind: 'analytics', query, cancelled })
      return await this.busy.during(work)
    } finally {
      this.#questions.delete(cancelled)
    }
  }

  /** Gives up what is still asked, lets every thread close its stores, and ends the threads. */
  async close(): Promise<void> {
    for (const question of this.#questions) cancel(question)
    await this.#threads.close()
  }
}

function cancel(question: Int32Array): void {
  Atomics.store(question, 0, 1)
}
