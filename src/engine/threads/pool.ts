/**
 * The threads of the daemon. There are several kinds of threads, because the work of one kind must not wait for that of
 * another. One thread appends to the log, one processes the log at low priority, `workerThreads` threads read, some run
 * long reads, some answer analytic queries, and some check uploads in the order of `check-queue.ts`. The table in
 * call-table.ts says which threads carry out a call.
 *
 * No task is interrupted, and no thread is terminated while it may use LMDB: a thread that is terminated in a write
 * transaction would block all writers of the process. Before a thread is ended, a task closes its stores.
 */
import { SCAN_CACHE_BYTES_DEFAULT, SHORT_PAGE_ROWS_MAX } from '../../base/limits.ts'
import { collectGarbage } from '../../base/memory/garbage.ts'
import type { CachesOfThread, ThreadMemory } from '../../base/memory/memory-board.ts'
import { processMemory } from '../../base/memory/process-memory.ts'
import type { PageWish } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import { type BlockShare, blockShares, usedBlockBytes } from '../../base/shared-blocks.ts'
import { transferable } from '../../base/slabs.ts'
import type { CatalogueCopy, ChangeLog } from '../../ports/change-log.ts'
import type { CallOptions, TaskRunner } from '../../ports/task-runner.ts'
import type { AnalyticQueries } from '../../rules/analytics/analytics.ts'
import type { CaptureRequest } from '../../rules/capture/accept.ts'
import type { EventExportTask } from '../../rules/events/event-queries.ts'
import type { RehearsalTally } from '../../rules/flags/rehearsal.ts'
import type { PersonListQuery } from '../../rules/persons/person-queries.ts'
import { type AppendSession, AppendSessions } from './appending/append-session.ts'
import type { BlastRadius, CountState, ReachTally, RehearsalAnswer } from './blast-radius.ts'
import { BusyTime } from './busy-time.ts'
import { type Call, LONG_WEIGHT, type Task } from './call-kinds.ts'
import {
  CALLS,
  type CallerOf,
  type CallName,
  type Calls,
  type DefinitionQueries,
  type ExposureQueries,
  type FlagCounts,
  QUERIES,
  type QueryAnswers,
} from './call-table.ts'
import { CheckQueue, type CheckVerdict, type CheckWaiter, threadsOf } from './check-queue.ts'
import type { PlanAnswer, PlanState } from './flag-plans.ts'
import type { FlagsFileTask } from './flags-file.ts'
import { READS_WAITING_MAX } from './limits.ts'
import { LongReads, longThreads } from './long-reads.ts'
import type { OrganizationPort } from './organization-tasks.ts'
import type { MadePage } from './pages.ts'
import { countInPieces, openChunks, type TableQueries } from './person-table.ts'
import { DividedQueries, type QueryPool } from './queries/divided-queries.ts'
import type { TableState } from './table-tasks.ts'
import type {
  AnalyticSettings,
  AppendResult,
  AppendTask,
  CheckLane,
  CheckResult,
  ProcessResult,
  ThreadKind,
  ThreadSettings,
} from './tasks.ts'
import { Proposed, type ThreadDeath, ThreadGroup } from './thread-group.ts'

const SHRINK_LOG_EVERY_MS = 10_000
const MEMORY_LOOK_EVERY_MS = 2000
/** If the process uses more than this share of its memory budget, threads release all memory that they can. */
const FULL_SHARE = 0.85
/**
 * The files of the log are shrunk only if the log had at most this number of appends since the last check. Each append
 * adds at least 4 KiB to the log.
 */
const CALM_APPENDS = 256
/** By how much the niceness of the threads that check uploads is raised. */
const CHECKING_NICENESS = 5
/**
 * The size of the heap for young objects in the processing thread, in MiB, if no memory plan sets it. Without a limit,
 * V8 slowly enlarges this heap over hours. That brings no gain, because processing hardly creates objects for events.
 */
const PROCESSING_YOUNG_MIB = 48

/** The number of threads and their settings. */
export interface PoolOptions {
  readonly threads: ThreadSettings
  /** The file that every thread runs. Default: thread.ts. */
  readonly entry?: URL | undefined
  /**
   * The number of threads for short reads, at least 1. Long reads get half as many threads. Each of the two lanes for
   * large bodies gets half as many, too.
   */
  readonly workerThreads: number
  /** The number of analytics threads, at least 1. A large query is divided among all of them. */
  readonly analyticsThreads: number
  /**
   * The time that one analytic query may run, in milliseconds. The time for which it waits for a thread does not count.
   */
  readonly queryMsMax: number
  /**
   * The number of bytes of decoded columns that all analytics threads may cache together. Default:
   * `SCAN_CACHE_BYTES_DEFAULT`.
   */
  readonly cacheBytesMax?: number
  /** The interval at which the log files may be shrunk after a burst of events, in milliseconds. Default: 10,000. */
  readonly shrinkLogEveryMs?: number
  /** Called when a thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
  /**
   * In a cluster, returns the change log. It defines one order for the changes that all machines make to the catalogue.
   */
  readonly changes?: () => ChangeLog | null
}

/** The methods with which callers make calls. */
export type Queries = CallerOf<typeof QUERIES> &
  OrganizationPort &
  AnalyticQueries &
  QueryAnswers &
  DefinitionQueries &
  ExposureQueries &
  FlagCounts &
  TableQueries

/** The threads of the daemon. */
export class WorkerPool implements TaskRunner<Calls> {
  readonly queries: Queries
  readonly #divided: DividedQueries
  readonly #groups: Readonly<Record<'writer' | 'processor' | 'readers' | 'checkers', ThreadGroup>>
  readonly #long: Readonly<Record<'long_readers' | 'analytics', LongReads>>
  readonly #checks: CheckQueue
  /** The shared memory for decoded columns of the analytics threads. */
  #columns: BlockShare | null
  readonly #options: PoolOptions
  readonly #memoryTimer: NodeJS.Timeout
  readonly #changes: () => ChangeLog | null
  readonly #append: (task: AppendTask) => Promise<AppendResult>
  readonly #shrinkTimer: NodeJS.Timeout
  /** The number of appends since the last check whether the log is calm. */
  #appendCount = 0
  /** The value of `writeMark` at the end of the last processing run. */
  #markSeen: number | null = null
  /** How long the threads of each kind have worked. */
  readonly busy: Readonly<Record<ThreadKind, BusyTime>>

  constructor(options: PoolOptions) {
    const { threads, entry, onDeath, workerThreads, analyticsThreads } = options
    this.#changes = options.changes ?? (() => null)
    const laneThreads = longThreads(workerThreads)
    const checkerThreads = threadsOf(laneThreads)
    this.#groups = threadGroups(options, checkerThreads)
    const analytics = analyticSettings(options)
    const long = { threads, entry, threadCount: laneThreads, onDeath }
    this.#long = {
      long_readers: new LongReads(long),
      analytics: new LongReads({
        ...long,
        kind: 'analytics',
        threadCount: analyticsThreads,
        analytics,
      }),
    }
    this.busy = {
      long_readers: this.#long.long_readers.busy,
      analytics: this.#long.analytics.busy,
      writer: new BusyTime(1),
      processor: new BusyTime(1),
      readers: new BusyTime(workerThreads),
      checkers: new BusyTime(checkerThreads),
    }
    this.#columns = analytics[0]?.cache ?? null
    this.#options = options
    this.#memoryTimer = setInterval(() => this.#lookAtMemory(), MEMORY_LOOK_EVERY_MS).unref()
    this.#checks = new CheckQueue({
      laneThreads,
      // The cast is safe, because the call `check` returns the result of `checkUpload`.
      run: (task, transferList) =>
        this.run('check', [task], { transferList }) as Promise<CheckResult>,
    })
    this.#append = this.#appends(threads)
    this.#shrinkTimer = setInterval(
      () => this.#shrinkLog(),
      options.shrinkLogEveryMs ?? SHRINK_LOG_EVERY_MS,
    ).unref()
    this.#divided = new DividedQueries(this, threads.plan?.keptAnswersBytes)
    this.queries = queriesOf(this, this.#divided)
  }

  get analyticsThreads(): number {
    return this.#long.analytics.threadCount
  }

  /**
   * A number that changes with each write to a store, or null while a write is in progress. If two values are equal and
   * not null, nothing was written in between.
   */
  get writeMark(): number | null {
    const begun = [
      ...Object.values(this.#groups).map(({ writesBegun }) => writesBegun),
      ...Object.values(this.#long).flatMap(({ writesBegun }) => writesBegun),
    ]
    let sum = 0
    for (const writes of begun) {
      if (writes === null) return null
      sum += writes
    }
    return sum
  }

  /** The number of waiting uploads that were refused to make room for uploads of other senders. */
  get displacedChecks(): number {
    return this.#checks.displacedCount
  }

  /** The number of uploads that wait for a thread, by lane. */
  get checksWaiting(): Readonly<Record<CheckLane, number>> {
    const checks = this.#checks
    return {
      express: checks.waitingIn('express'),
      bulk: checks.waitingIn('bulk'),
      slow: checks.waitingIn('slow'),
    }
  }

  /** The number of tasks that wait for a thread, by kind of thread. */
  get queueDepths(): Readonly<Record<ThreadKind, number>> {
    return {
      writer: this.#groups.writer.queueSize,
      processor: this.#groups.processor.queueSize,
      checkers: Object.values(this.checksWaiting).reduce((sum, waiting) => sum + waiting),
      readers: this.#groups.readers.queueSize,
      long_readers: this.#long.long_readers.queueDepth,
      analytics: this.#long.analytics.queueDepth,
    }
  }

  /** The memory of each thread that runs, by kind of thread. */
  get memory(): Readonly<Record<ThreadKind, readonly ThreadMemory[]>> {
    const { writer, processor, readers, checkers } = this.#groups
    return {
      writer: writer.memory,
      processor: processor.memory,
      checkers: checkers.memory,
      readers: readers.memory,
      long_readers: this.#long.long_readers.memory,
      analytics: this.#long.analytics.memory,
    }
  }

  /** The size of the cache of decoded columns, which the threads of queries share. Empty if there is no such cache. */
  get caches(): CachesOfThread {
    if (this.#columns === null) return {}
    const { shared, bytesMax } = this.#columns
    return { columns: { bytes: usedBlockBytes(shared), bytesMax } }
  }

  /** Runs a call; see `TaskRunner.run`. If the thread ends, `append` and `process` reject with `ThreadEndedError`. */
  async run<Name extends CallName>(
    name: Name,
    values: Calls[Name]['values'],
    options: CallOptions = {},
  ): Promise<Calls[Name]['result']> {
    const call = CALLS[name] as unknown as Call
    // The cast is safe, because the result has the type that the table gives to the call.
    const result = (await this.#run(name, call, values, options)) as Calls[Name]['result']
    if (name === 'process') this.#processed(result as ProcessResult)
    return result
  }

  /**
   * Called after each processing run. If the store has changed, refreshes cached answers. Merging segments also changes
   * the store, even if no events arrive.
   */
  #processed({ eventCount }: ProcessResult): void {
    const mark = this.writeMark
    if (eventCount === 0 && mark === this.#markSeen) return
    this.#markSeen = mark
    this.#divided.storeChanged()
  }

  /**
   * Appends to the log, one append at a time. A block in shared memory is handed over without a copy. Other blocks are
   * transferred. Rejects with `ThreadEndedError` if the thread ends.
   */
  append(task: AppendTask): Promise<AppendResult> {
    this.#appendCount++
    return this.busy.writer.during(this.#append(task))
  }

  /**
   * Checks an upload that is too large for the main thread. The body must be in the slab of `waiter`, or be the only
   * view of its memory, because that memory is transferred. If the body is refused, the refusal is the result. Rejects
   * with 503 if too many uploads wait.
   */
  check(request: CaptureRequest, waiter: CheckWaiter): Promise<CheckVerdict> {
    return this.#checks.check(request, waiter)
  }

  /** Lets every thread close its stores, then ends all threads. Call it when no task is running any more. */
  async close(): Promise<void> {
    clearInterval(this.#shrinkTimer)
    clearInterval(this.#memoryTimer)
    const groups = [...Object.values(this.#groups), ...Object.values(this.#long)]
    await Promise.all(groups.map((group) => group.close()))
  }

  /**
   * Tells the threads to release memory if the process uses almost all of its memory budget, and ends threads that were
   * idle for long. All memory of an ended thread is free, including the shared memory of decoded columns.
   */
  #lookAtMemory(): void {
    const { plan, shortages } = this.#options.threads
    if (plan === undefined) return
    if (shortages !== undefined && processMemory().anonymousBytes > plan.budgetBytes * FULL_SHARE) {
      Atomics.add(shortages, 0, 1)
    }
    const { checkers } = this.#groups
    const { long_readers: longReaders, analytics } = this.#long
    if (checkers.idleMs > plan.idleThreadMs) void checkers.end()
    if (longReaders.idleMs > plan.idleThreadMs) void longReaders.end()
    if (analytics.idleMs > plan.idleThreadMs) {
      const settings = analyticSettings(this.#options)
      this.#columns = settings[0]?.cache ?? null
      // When the threads have ended, garbage is collected, so that the main thread drops its references to their shared
      // memory, too.
      void analytics.end(settings).then(collectGarbage)
    }
  }

  /**
   * Returns the function that appends to the log. Usually, appends share a session (append-session.ts). With
   * `durability` = `commit`, they do not: there, the writer thread flushes the log in its event loop after an append,
   * and a session would block this event loop.
   */
  #appends({ isFlushDeferred }: ThreadSettings): (task: AppendTask) => Promise<AppendResult> {
    const { writer } = this.#groups
    const calls = {
      append: (task: AppendTask) =>
        // The casts are safe, because the results have the types of `append` and `serveAppends` in the table.
        writer.run(
          { call: 'append', values: [task] },
          transferable(task.blocks.map(({ buffer }) => buffer)),
        ) as Promise<AppendResult>,
      serve: (session: AppendSession) =>
        writer.run({ call: 'serveAppends', values: [session] }) as Promise<void>,
    }
    if (isFlushDeferred) return calls.append
    const sessions = new AppendSessions(calls)
    return (task) => sessions.append(task)
  }

  /**
   * Shrinks the log files after a burst of events. Errors are ignored, because they are reported elsewhere: by the end
   * of the thread, or by the next append if the log has failed.
   */
  #shrinkLog(): void {
    const isCalm = this.#appendCount <= CALM_APPENDS
    this.#appendCount = 0
    // While appends continue, the append session keeps the writer thread busy, so a call that shrinks the log would
    // only wait.
    if (!isCalm) return
    void this.#groups.writer.run({ call: 'shrinkLog', values: [] }).catch(() => {})
  }

  async #run(
    name: string,
    call: Call,
    values: readonly unknown[],
    { format, onLeave = () => {}, weight = LONG_WEIGHT, transferList = [], ...choice }: CallOptions,
  ): Promise<unknown> {
    const task: Task = { call: name, values, ...(format === undefined ? {} : { format }) }
    if (call.kind === 'page') return await this.#page(task, call.weight(values), onLeave)
    const { threads } = call
    if (threads === 'long_readers' || threads === 'analytics') {
      return await this.#long[threads].run(task, weight, onLeave, transferList, choice)
    }
    const group = this.#groups[threads]
    if (threads === 'readers' && group.queueSize >= READS_WAITING_MAX) throw refusal('readers_full')
    // If a writing thread ends, the change may have been made. `run` then rejects with `ThreadEndedError`, so that the
    // caller knows this. `ask` rejects with an ordinary refusal.
    const isWriting = threads === 'writer' || threads === 'processor'
    const ask = (): Promise<unknown> =>
      this.busy[threads].during(
        isWriting ? group.run(task, transferList) : group.ask(task, transferList),
      )
    const given = await ask()
    if (!(given instanceof Proposed)) return given
    return await this.#changes()?.commit<unknown>(given, async () => {
      const again = await ask()
      return again instanceof Proposed ? again : { result: again, proposal: null }
    })
  }

  /** Runs a page: as a short read if it asks for few rows and turns out to be cheap, otherwise as a long read. */
  async #page(task: Task, weight: number, onLeave: PageWish['onLeave']): Promise<unknown> {
    const { readers } = this.#groups
    if (task.format !== 'csv' && weight <= SHORT_PAGE_ROWS_MAX) {
      if (readers.queueSize >= READS_WAITING_MAX) throw refusal('readers_full')
      const made = (await this.busy.readers.during(readers.ask(task))) as MadePage
      if (made !== null) return made.page
    }
    // If no thread for long reads can be started, a thread for short reads produces the page.
    const canceled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const made = (
      this.#long.long_readers.mayStart
        ? await this.#long.long_readers.run(task, weight, onLeave)
        : await this.busy.readers.during(readers.ask({ ...task, canceled }))
    ) as MadePage
    if (made === null) throw new TypeError('a long read was taken for a short one')
    return made.page
  }
}

/** Creates the additional settings of each analytics thread, with new shared memory for decoded columns. */
function analyticSettings({
  analyticsThreads,
  queryMsMax,
  cacheBytesMax = SCAN_CACHE_BYTES_DEFAULT,
}: PoolOptions): readonly AnalyticSettings[] {
  return blockShares(cacheBytesMax, analyticsThreads).map((cache) => ({ queryMsMax, cache }))
}

function threadGroups({ threads, entry, workerThreads, onDeath }: PoolOptions, checkers: number) {
  const all = { settings: threads, entry, onDeath }
  const { heapMib, processingYoungMib = PROCESSING_YOUNG_MIB } = threads.plan ?? {}
  const heapOf = (kind: ThreadKind) =>
    heapMib === undefined ? {} : { maxOldGenerationSizeMb: heapMib[kind] }
  const one = { ...all, threadsMin: 1, threadsMax: 1 }
  // An idle thread may block in `Atomics.wait` only if it has no work between tasks. If flushes are deferred, the
  // writer thread has such work: it flushes the log in its event loop after the task.
  const atomics = threads.isFlushDeferred ? 'async' : 'sync'
  return {
    writer: new ThreadGroup({
      ...one,
      kind: 'writer',
      pool: { atomics, resourceLimits: heapOf('writer') },
    }),
    processor: new ThreadGroup({
      ...one,
      threadsMin: threads.holdsEvents === false ? 0 : 1,
      kind: 'processor',
      pool: {
        atomics: 'async',
        resourceLimits: {
          ...heapOf('processor'),
          maxYoungGenerationSizeMb: processingYoungMib,
        },
      },
    }),
    readers: new ThreadGroup({
      ...all,
      threadsMin: workerThreads,
      threadsMax: workerThreads,
      kind: 'readers',
      pool: {
        maxQueue: READS_WAITING_MAX,
        atomics: 'async',
        resourceLimits: heapOf('readers'),
      },
    }),
    checkers: new ThreadGroup({
      // The threads that check uploads start only when they are needed, because many daemons never receive a large
      // body.
      ...all,
      threadsMin: 0,
      threadsMax: checkers,
      kind: 'checkers',
      pool: {
        atomics: 'async',
        niceIncrement: CHECKING_NICENESS,
        resourceLimits: heapOf('checkers'),
      },
    }),
  }
}

/** Returns an object with a method for each call that callers can make. */
export function queriesOf(pool: QueryPool, divided = new DividedQueries(pool)): Queries {
  const methods = Object.entries(QUERIES).map(([name, { kind }]) => [
    name,
    (...values: unknown[]) => {
      const wish = kind === 'page' ? (values.pop() as PageWish) : {}
      return pool.run(name as CallName, values as never, wish)
    },
  ])
  return {
    // The cast is safe, because each method has the type that `CallerOf` gives it.
    ...(Object.fromEntries(methods) as CallerOf<typeof QUERIES>),
    organization: (name, request, audit) =>
      pool.run('organization', [{ name, request, audit }]) as never,
    analyse: (query, onLeave) => divided.during(() => pool.run('analytics', [query], { onLeave })),
    answer: (task, onLeave) => divided.answer(task, onLeave),
    cohortMembers: (task) =>
      pool.run('cohortMembers', [task], { weight: Number.POSITIVE_INFINITY }),
    eventValues: (query, onLeave) => pool.run('eventValues', [query], { onLeave }),
    sessionValues: (task, onLeave) =>
      divided.during(() => pool.run('sessionValues', [task], { onLeave })),
    exposedMembers: (task, onLeave) =>
      divided.during(() => pool.run('exposedMembers', [task], { onLeave })),
    blastRadius: (task, onLeave) =>
      countInPieces<CountState<ReachTally>, BlastRadius>((state) =>
        pool.run('blastRadiusPiece', [task, state], { onLeave }),
      ),
    rehearseFlag: (task, onLeave) =>
      countInPieces<CountState<RehearsalTally>, RehearsalAnswer>((state) =>
        pool.run('rehearsePiece', [task, state], { onLeave }),
      ),
    planFlags: (task, onLeave) =>
      countInPieces<PlanState, PlanAnswer>((state) =>
        pool.run('planPiece', [task, state], { onLeave }),
      ),
    personTable: (query, onLeave) => {
      const make = (table: PersonListQuery | TableState, options: CallOptions) => {
        const transferList = 'numbers' in table ? [table.numbers.buffer, table.columns.buffer] : []
        return pool.run('personTablePiece', [table], { ...options, transferList })
      }
      return openChunks<PersonListQuery | TableState>(query, query.limit, make, onLeave)
    },
    eventExport: (task, onLeave) => {
      const make = (rest: EventExportTask, options: CallOptions) =>
        pool.run('eventExportPiece', [rest], options)
      return openChunks(task, LONG_WEIGHT, make, onLeave)
    },
    flagsFile: (task, onLeave) => {
      const make = (rest: FlagsFileTask, options: CallOptions) =>
        pool.run('flagsFilePiece', [rest], options)
      return openChunks(task, LONG_WEIGHT, make, onLeave)
    },
  }
}

/** In a cluster, returns the copy of the catalogue on this machine. Threads read and change it. */
export function catalogueOf(pool: Pick<WorkerPool, 'run'>): CatalogueCopy {
  return {
    apply: (set) => pool.run('applyChanges', [set]),
    replace: (whole) => pool.run('replaceCatalogue', [whole]),
    whole: () => pool.run('wholeCatalogue', []),
  }
}
