/**
 * Threads for what may take long: reads (large pages, tables, scans of all persons, estimates), and in a
 * group of their own analytic questions. Short reads never wait for them. Each starts with its first call, and
 * may be asked for by its number: a part of a divided query comes back to the thread that has its columns. Of
 * the calls that wait, those that ask for the fewest rows go first, and when there are too many the one that
 * asks for the most is refused: a flood of large pages delays no small one.
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

/** Added to the niceness of the threads: what answers at once comes first, processing last. */
const NICENESS = { long_readers: 5, analytics: 8 } as const

/**
 * Memory for young objects, MiB. What analytics make is mostly numbers outside of the heap; the usual 48 would
 * be taken by each thread, and collecting a smaller part more often costs no more.
 */
const ANALYTICS_YOUNG_MIB = 12
/**
 * Memory for old objects and numbers outside of the heap before V8 goes through it, MiB. Left to itself it does that
 * for every few MiB of numbers, which is with each large question, and all of what lives there are columns.
 */
const ANALYTICS_OLD_MIB = 48

const FULL = { long_readers: 'long_reads_full', analytics: 'questions_full' } as const

/** How many threads there are, and what they are told. */
export interface LongReadsOptions {
  readonly kind?: keyof typeof NICENESS
  readonly threads: ThreadSettings
  /** Of threads for analytics: what each is told besides, one for each. */
  readonly analytics?: readonly AnalyticSettings[]
  readonly entry?: URL | undefined
  readonly threadCount: number
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
  readonly start: (thread: number) => void
  readonly refuse: (error: ServiceError) => void
  /** The only thread that it may have; null: any. */
  readonly thread: number | null
}

/** The threads for long reads. */
export class LongReads {
  /** How long the threads have worked. */
  readonly busy: BusyTime
  readonly #kind: keyof typeof NICENESS
  readonly #settings: ThreadSettings
  /** Groups of one thread each. */
  readonly #threads: readonly ThreadGroup[]
  /** For each thread whether it has a read. */
  readonly #isBusy: boolean[]
  readonly #waiting: Waiting[] = []
  /** For each read that runs what tells its thread that nobody waits. */
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
          ...{ kind, entry, onDeath, threadsMin: 0, threadsMax: 1 },
          ...(kind === 'analytics' ? { oldMib } : {}),
          pool: {
            ...{ atomics: 'async', niceIncrement: NICENESS[kind] },
            resourceLimits: {
              ...(heapMib === undefined ? {} : { maxOldGenerationSizeMb: heapMib[kind] }),
              ...(kind === 'analytics' ? { maxYoungGenerationSizeMb: ANALYTICS_YOUNG_MIB } : {}),
            },
          },
        }),
    )
  }

  /** How many there are. */
  get threadCount(): number {
    return this.#threads.length
  }

  /** Those of the threads, as `ThreadGroup.writesBegun`. */
  get writesBegun(): readonly (number | null)[] {
    return this.#threads.map(({ writesBegun }) => writesBegun)
  }

  /** As `ThreadGroup.memory`. */
  get memory(): readonly ThreadMemory[] {
    return this.#threads.flatMap(({ memory }, index) =>
      memory.map((thread) => ({ ...thread, number: index + 1 })),
    )
  }

  /** Whether there is a thread, or one can be started. */
  get mayStart(): boolean {
    return this.#threads.some(({ mayStart }) => mayStart)
  }

  /** Reads that wait for a thread. */
  get queueDepth(): number {
    return this.#waiting.length
  }

  /**
   * Carries out a call when its turn comes. `weight`: rows that it asks for; `thread`: the number of the only
   * thread that it may have; `onTurn` hears which it has. Rejects with 503 when too many wait.
   */
  async run(
    task: Omit<Task, 'cancelled'>,
    weight: number,
    onLeave: PageWish['onLeave'],
    transferList: readonly ArrayBuffer[] = [],
    { thread: wanted, onTurn }: Pick<CallOptions, 'thread' | 'onTurn'> = {},
  ): Promise<unknown> {
    const cancelled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const thread = await this.#turn(weight, wanted ?? null, (giveUp) =>
      onLeave(() => {
        Atomics.store(cancelled, 0, 1)
        giveUp()
      }),
    )
    onTurn?.(thread)
    this.#reads.add(cancelled)
    try {
      const work = (this.#threads[thread] as ThreadGroup).ask({ ...task, cancelled }, transferList)
      return await this.busy.during(work)
    } finally {
      this.#reads.delete(cancelled)
      this.#free(thread)
    }
  }

  /** For how long none of the threads has had anything to do, milliseconds; 0: one has, or none has started. */
  get idleMs(): number {
    if (this.#isBusy.includes(true)) return 0
    const idle = this.#threads.map(({ idleMs }) => idleMs).filter((ms) => ms > 0)
    return idle.length === 0 ? 0 : Math.min(...idle)
  }

  /** As `ThreadGroup.end`; `analytics`: what each is told besides from now on. */
  async end(analytics?: readonly AnalyticSettings[]): Promise<void> {
    await Promise.all(
      this.#threads.map((thread, index) =>
        thread.end(withAnalytics(this.#settings, analytics?.[index])),
      ),
    )
  }

  /** Gives up what is still asked, lets every thread close its stores, and ends the threads. */
  async close(): Promise<void> {
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(this.#tooMany())
    for (const cancelled of this.#reads) Atomics.store(cancelled, 0, 1)
    await Promise.all(this.#threads.map((thread) => thread.close()))
  }

  /** The thread whose next read it is. */
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

  /** Gives a thread to the first that waits for it. */
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
