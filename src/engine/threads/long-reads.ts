/**
 * Threads for work that may take long. One group carries out long reads: large pages, tables, scans of all persons,
 * estimates. Another group carries out analytic queries. Short reads never wait for them. Each thread starts with its
 * first call. A call can ask for a certain thread by its number, so that a part of a divided query runs on the thread
 * that has cached the columns for it. Waiting calls are ordered by the number of rows that they ask for (their weight),
 * and the smallest runs first. If too many calls wait, the largest is refused, so that large pages do not delay a small
 * one.
 */
import type { ServiceError } from '../../base/errors.ts'
import { LONG_READS_WAITING_MAX } from '../../base/limits.ts'
import type { ThreadMemory } from '../../base/memory/memory-board.ts'
import type { PageWish } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { CallOptions } from '../../ports/task-runner.ts'
import { BusyTime } from './busy-time.ts'
import type { Task } from './call-kinds.ts'
import type { AnalyticSettings, ThreadSettings } from './tasks.ts'
import { type ThreadDeath, ThreadGroup } from './thread-group.ts'

/**
 * By how much the niceness of each kind of thread is raised. Threads for short reads thus have priority over these
 * threads, and these threads have priority over processing.
 */
const NICENESS = { long_readers: 5, analytics: 8 } as const

/**
 * The size of the heap for young objects in an analytics thread, in MiB. The default of V8 is 48 MiB. These threads
 * mostly allocate arrays of numbers, which are outside the heap. Garbage in a smaller heap is collected more often, but
 * this costs no more.
 */
const ANALYTICS_YOUNG_MIB = 12
/**
 * V8 collects the garbage of an analytics thread when its old objects and its arrays outside the heap reach this size,
 * in MiB. By default, V8 would collect garbage after every few MiB of new arrays, and thus in each large query. That
 * would free almost nothing, because almost all old objects are cached columns.
 */
const ANALYTICS_OLD_MIB = 48

const FULL = { long_readers: 'long_reads_full', analytics: 'questions_full' } as const

/** The number of threads and their settings. */
export interface LongReadsOptions {
  readonly kind?: keyof typeof NICENESS
  readonly threads: ThreadSettings
  /** For analytics threads: one object with additional settings for each thread. */
  readonly analytics?: readonly AnalyticSettings[]
  readonly entry?: URL | undefined
  readonly threadCount: number
  /** Called when a thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
}

/** Returns the number of threads for long reads, which depends on the number of threads for short reads. */
export function longThreads(workerThreads: number): number {
  return Math.max(1, Math.floor(workerThreads / 2))
}

interface Waiting {
  /** The number of rows that the call asks for. Among waiting calls, the one with the smallest number runs first. */
  readonly weight: number
  readonly start: (thread: number) => void
  readonly refuse: (error: ServiceError) => void
  /** The only thread that may run the call. Null means any thread. */
  readonly thread: number | null
}

/** The threads for long reads. */
export class LongReads {
  /** How long the threads have worked. */
  readonly busy: BusyTime
  readonly #kind: keyof typeof NICENESS
  readonly #settings: ThreadSettings
  /** The threads. Each is a group of its own, so that a call can be sent to a certain thread. */
  readonly #threads: readonly ThreadGroup[]
  /** For each thread, true if it runs a read. */
  readonly #isBusy: boolean[]
  readonly #waiting: Waiting[] = []
  /** The words in shared memory with which the running reads can be canceled, one for each read. */
  readonly #reads = new Set<Int32Array>()

  constructor(options: LongReadsOptions) {
    const { kind = 'long_readers', threads: settings, entry, threadCount, onDeath } = options
    const { heapMib, analyticsOldMib: oldMib = ANALYTICS_OLD_MIB } = settings.plan ?? {}
    this.#settings = settings
    this.#kind = kind
    this.busy = new BusyTime(threadCount)
    this.#isBusy = Array.from({ length: threadCount }, () => false)
    this.#threads = this.#isBusy.map(
      (_, index) =>
        new ThreadGroup({
          settings: withAnalytics(settings, options.analytics?.[index]),
          kind,
          entry,
          onDeath,
          threadsMin: 0,
          threadsMax: 1,
          ...(kind === 'analytics' ? { oldMib } : {}),
          pool: {
            atomics: 'async',
            niceIncrement: NICENESS[kind],
            resourceLimits: {
              ...(heapMib === undefined ? {} : { maxOldGenerationSizeMb: heapMib[kind] }),
              ...(kind === 'analytics' ? { maxYoungGenerationSizeMb: ANALYTICS_YOUNG_MIB } : {}),
            },
          },
        }),
    )
  }

  get threadCount(): number {
    return this.#threads.length
  }

  /** The value of `ThreadGroup.writesBegun` of each thread. */
  get writesBegun(): readonly (number | null)[] {
    return this.#threads.map(({ writesBegun }) => writesBegun)
  }

  /** The memory figures of all threads; see `ThreadGroup.memory`. */
  get memory(): readonly ThreadMemory[] {
    return this.#threads.flatMap(({ memory }, index) =>
      memory.map((thread) => ({ ...thread, number: index + 1 })),
    )
  }

  /** True if a thread runs or can be started. */
  get mayStart(): boolean {
    return this.#threads.some(({ mayStart }) => mayStart)
  }

  /** The number of reads that wait for a thread. */
  get queueDepth(): number {
    return this.#waiting.length
  }

  /**
   * Runs a call when its turn comes. `weight` is the number of rows that the call asks for. If `thread` is given, only
   * the thread with this number may run the call. `onTurn` is called with the number of the thread that runs it.
   * Rejects with 503 if too many calls wait.
   */
  async run(
    task: Omit<Task, 'canceled'>,
    weight: number,
    onLeave: PageWish['onLeave'],
    transferList: readonly ArrayBuffer[] = [],
    { thread: wanted, onTurn }: Pick<CallOptions, 'thread' | 'onTurn'> = {},
  ): Promise<unknown> {
    const canceled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const thread = await this.#turn(weight, wanted ?? null, (giveUp) =>
      onLeave(() => {
        Atomics.store(canceled, 0, 1)
        giveUp()
      }),
    )
    onTurn?.(thread)
    this.#reads.add(canceled)
    try {
      const work = (this.#threads[thread] as ThreadGroup).ask({ ...task, canceled }, transferList)
      return await this.busy.during(work)
    } finally {
      this.#reads.delete(canceled)
      this.#free(thread)
    }
  }

  /** For how many milliseconds all threads have been idle. 0 if a thread is busy, or if no thread has started. */
  get idleMs(): number {
    if (this.#isBusy.includes(true)) return 0
    const idle = this.#threads.map(({ idleMs }) => idleMs).filter((ms) => ms > 0)
    return idle.length === 0 ? 0 : Math.min(...idle)
  }

  /** Ends the threads; see `ThreadGroup.end`. Threads that start later get the settings in `analytics`. */
  async end(analytics?: readonly AnalyticSettings[]): Promise<void> {
    await Promise.all(
      this.#threads.map((thread, index) =>
        thread.end(withAnalytics(this.#settings, analytics?.[index])),
      ),
    )
  }

  /** Cancels all calls, lets each thread close its stores, and ends the threads. */
  async close(): Promise<void> {
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(this.#tooMany())
    for (const canceled of this.#reads) Atomics.store(canceled, 0, 1)
    await Promise.all(this.#threads.map((thread) => thread.close()))
  }

  /** Resolves with the number of a thread as soon as this thread is free for the call. */
  #turn(weight: number, wanted: number | null, onLeave: PageWish['onLeave']): Promise<number> {
    const free = wanted ?? this.#isBusy.indexOf(false)
    if (this.#isBusy[free] === false) {
      this.#isBusy[free] = true
      onLeave(() => {})
      return Promise.resolve(free)
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { weight, start: resolve, refuse: reject, thread: wanted }
      const index = this.#waiting.findIndex((other) => other.weight > weight)
      this.#waiting.splice(index < 0 ? this.#waiting.length : index, 0, waiting)
      onLeave(() => this.#giveUp(waiting))
      if (this.#waiting.length > LONG_READS_WAITING_MAX)
        this.#waiting.pop()?.refuse(this.#tooMany())
    })
  }

  /** Gives a thread that has become free to the first waiting call that may run on it. */
  #free(thread: number): void {
    const index = this.#waiting.findIndex((one) => one.thread === null || one.thread === thread)
    const [next] = index < 0 ? [] : this.#waiting.splice(index, 1)
    if (next === undefined) this.#isBusy[thread] = false
    else next.start(thread)
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

function withAnalytics(settings: ThreadSettings, analytics?: AnalyticSettings): ThreadSettings {
  return analytics === undefined ? settings : { ...settings, analytics }
}
