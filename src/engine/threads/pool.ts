/**
 * The threads of the daemon, by kinds whose work must not wait for each other: one appends to the log, one
 * processes it at low priority, `workerThreads` read, some read what takes long, some answer analytic
 * questions, and some check uploads in the order of `check-queue.ts`. Which call goes where is said by the
 * table in call-table.ts.
 *
 * No task is ever aborted and no thread terminated while it may hold LMDB: a terminated thread stops all
 * writers of the process. They are closed by a task.
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
import type { BlastRadius, ReachTally, RehearsalAnswer } from './blast-radius.ts'
import { BusyTime } from './busy-time.ts'
import { type Call, LONG_WEIGHT, type Task } from './call-kinds.ts'
import {
  CALLS,
  type CallerOf,
  type CallName,
  type Calls,
  type DefinitionQueries,
  type FlagCounts,
  QUERIES,
  type QueryAnswers,
} from './call-table.ts'
import { CheckQueue, type CheckVerdict, type CheckWaiter, threadsOf } from './check-queue.ts'
import { READS_WAITING_MAX } from './limits.ts'
import { LongReads, longThreads } from './long-reads.ts'
import type { OrganizationPort } from './organization-tasks.ts'
import type { MadePage } from './pages.ts'
import { countInPieces, openPieces, type TableQueries } from './person-table.ts'
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
/** Of the budget: when as much is taken, threads give back what they can. */
const FULL_SHARE = 0.85
/** More of them are more than what the log calls calm: each takes 4 KiB at least. */
const CALM_APPENDS = 256
/** Added to the niceness of the threads that check uploads. */
const CHECKING_NICENESS = 5
/**
 * Memory in which the processing thread makes its short-lived objects, unless a plan says otherwise. More is taken, bit by bit, over hours,
 * and makes nothing cheaper: events become cells, not objects.
 */
const PROCESSING_YOUNG_MIB = 48

/** How many threads there are, and what they are told. */
export interface PoolOptions {
  readonly threads: ThreadSettings
  /** The file that every thread runs; default thread.ts. */
  readonly entry?: URL | undefined
  /** Threads for reads, at least 1; half as many for long reads and each lane of large bodies. */
  readonly workerThreads: number
  /** Threads for analytics, at least 1. One query is divided among all of them. */
  readonly analyticsThreads: number
  /** Time that one analytic question may take on its thread; it does not count while it waits for one. */
  readonly queryMsMax: number
  /** Bytes of decoded columns that all threads for analytics keep together. Default `SCAN_CACHE_BYTES_DEFAULT`. */
  readonly cacheBytesMax?: number
  /** How often the log is looked at, whether it can give back what a rush took. Default 10 s. */
  readonly shrinkLogEveryMs?: number
  /** A thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
  /** In a cluster: who orders changes of the catalogue. */
  readonly changes?: () => ChangeLog | null
}

/** What can be asked of the threads. */
export type Queries = CallerOf<typeof QUERIES> &
  OrganizationPort &
  AnalyticQueries &
  QueryAnswers &
  DefinitionQueries &
  FlagCounts &
  TableQueries

/** The threads of the daemon. */
export class WorkerPool implements TaskRunner<Calls> {
  readonly queries: Queries
  readonly #divided: DividedQueries
  readonly #groups: Readonly<Record<'writer' | 'processor' | 'readers' | 'checkers', ThreadGroup>>
  readonly #long: Readonly<Record<'long_readers' | 'analytics', LongReads>>
  readonly #checks: CheckQueue
  /** Memory that the threads for analytics share. */
  #columns: BlockShare | null
  readonly #options: PoolOptions
  readonly #memoryTimer: NodeJS.Timeout
  readonly #changes: () => ChangeLog | null
  readonly #append: (task: AppendTask) => Promise<AppendResult>
  readonly #shrinkTimer: NodeJS.Timeout
  /** Since the log was looked at last. */
  #appendCount = 0
  /** When processing told last how far it is. */
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
        ...{ ...long, kind: 'analytics', threadCount: analyticsThreads },
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
      // What `checkUpload` answers.
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

  /** Threads for analytics. */
  get analyticsThreads(): number {
    return this.#long.analytics.threadCount
  }

  /** Another number than before: something was written since. Null: it is being written. */
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

  /** Uploads that gave way to those of other senders. */
  get displacedChecks(): number {
    return this.#checks.displacedCount
  }

  /** Uploads that wait for a thread, by lane. */
  get checksWaiting(): Readonly<Record<CheckLane, number>> {
    const checks = this.#checks
    return {
      express: checks.waitingIn('express'),
      bulk: checks.waitingIn('bulk'),
      slow: checks.waitingIn('slow'),
    }
  }

  /** Tasks that wait for a thread, by the name of the threads. */
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

  /** The memory of each thread that has started, by the name of the threads. */
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

  /** Caches that several threads share, or that the main thread has. */
  get caches(): CachesOfThread {
    if (this.#columns === null) return {}
    const { shared, bytesMax } = this.#columns
    return { columns: { bytes: usedBlockBytes(shared), bytesMax } }
  }

  /** As the port says; the end of a thread rejects `append` and `process` with `ThreadEndedError`. */
  async run<Name extends CallName>(
    name: Name,
    values: Calls[Name]['values'],
    options: CallOptions = {},
  ): Promise<Calls[Name]['result']> {
    const call = CALLS[name] as unknown as Call
    // What comes back is what `run` of this call in the table returned.
    const result = (await this.#run(name, call, values, options)) as Calls[Name]['result']
    if (name === 'process') this.#processed(result as ProcessResult)
    return result
  }

  /** Segments are also merged while no event comes. */
  #processed({ eventCount }: ProcessResult): void {
    const mark = this.writeMark
    if (eventCount === 0 && mark === this.#markSeen) return
    this.#markSeen = mark
    this.#divided.storeChanged()
  }

  /**
   * Appends to the log; one append at a time. Blocks that lie in shared memory stay where they are, others change
   * hands. The end of the thread rejects with `ThreadEndedError`.
   */
  append(task: AppendTask): Promise<AppendResult> {
    this.#appendCount++
    return this.busy.writer.during(this.#append(task))
  }

  /**
   * Checks an upload that is too much for the front. Its body must be the only view of its memory, which
   * changes hands. Refusals of the body come back as a result; too many waiting reject with 503.
   */
  check(request: CaptureRequest, waiter: CheckWaiter): Promise<CheckVerdict> {
    return this.#checks.check(request, waiter)
  }

  /** Lets every thread close its stores, then ends them. Call when no task is running any more. */
  async close(): Promise<void> {
    clearInterval(this.#shrinkTimer)
    clearInterval(this.#memoryTimer)
    const groups = [...Object.values(this.#groups), ...Object.values(this.#long)]
    await Promise.all(groups.map((group) => group.close()))
  }

  /**
   * Tells the threads when the process takes nearly all that it may, and ends those that had nothing to do for long:
   * what they took is free then, and so is the memory of decoded columns, which several threads share.
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
      // This thread, too, has to let go of the memory that they shared.
      void analytics.end(settings).then(collectGarbage)
    }
  }

  /** A session would hold up what flushes the log behind an append. */
  #appends({ isFlushDeferred }: ThreadSettings): (task: AppendTask) => Promise<AppendResult> {
    const { writer } = this.#groups
    const calls = {
      append: (task: AppendTask) =>
        // What `append` and `serveAppends` of the table answer.
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

  /** A thread that ends says so by itself, and a log that fails by its next append. */
  #shrinkLog(): void {
    const isCalm = this.#appendCount <= CALM_APPENDS
    this.#appendCount = 0
    // Behind a session that does not end, such calls would only pile up.
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
    // Those who write have to know whether it was done.
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

  /** A page: a short read when it asks for few rows and turns out to be one, else a long one. */
  async #page(task: Task, weight: number, onLeave: PageWish['onLeave']): Promise<unknown> {
    const { readers } = this.#groups
    if (task.format !== 'csv' && weight <= SHORT_PAGE_ROWS_MAX) {
      if (readers.queueSize >= READS_WAITING_MAX) throw refusal('readers_full')
      const made = (await this.busy.readers.during(readers.ask(task))) as MadePage
      if (made !== null) return made.page
    }
    // Where no further thread can start, a long page is better than none.
    const cancelled = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const made = (
      this.#long.long_readers.mayStart
        ? await this.#long.long_readers.run(task, weight, onLeave)
        : await this.busy.readers.during(readers.ask({ ...task, cancelled }))
    ) as MadePage
    if (made === null) throw new TypeError('a long read was taken for a short one')
    return made.page
  }
}

/** What threads for analytics are told besides, one for each, with new memory for what they decode. */
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
  // An idle thread that only ever works inside a task may sleep on a futex; with deferred flushing
  // the log is flushed behind the task, in the thread's event loop.
  const atomics = threads.isFlushDeferred ? 'async' : 'sync'
  return {
    writer: new ThreadGroup({
      ...one,
      kind: 'writer',
      pool: { atomics, resourceLimits: heapOf('writer') },
    }),
    processor: new ThreadGroup({
      ...{ ...one, threadsMin: threads.holdsEvents === false ? 0 : 1 },
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
      ...{ ...all, threadsMin: workerThreads, threadsMax: workerThreads },
      kind: 'readers',
      pool: {
        maxQueue: READS_WAITING_MAX,
        atomics: 'async',
        resourceLimits: heapOf('readers'),
      },
    }),
    checkers: new ThreadGroup({
      // When first needed: many daemons never see a large body.
      ...{ ...all, threadsMin: 0, threadsMax: checkers },
      kind: 'checkers',
      pool: {
        atomics: 'async',
        niceIncrement: CHECKING_NICENESS,
        resourceLimits: heapOf('checkers'),
      },
    }),
  }
}

/** A method for each call of the table. */
export function queriesOf(pool: QueryPool, divided = new DividedQueries(pool)): Queries {
  const methods = Object.entries(QUERIES).map(([name, { kind }]) => [
    name,
    (...values: unknown[]) => {
      const wish = kind === 'page' ? (values.pop() as PageWish) : {}
      return pool.run(name as CallName, values as never, wish)
    },
  ])
  return {
    // What `CallerOf` says of each.
    ...(Object.fromEntries(methods) as CallerOf<typeof QUERIES>),
    organization: (name, request, audit) =>
      pool.run('organization', [{ name, request, audit }]) as never,
    analyse: (query, onLeave) => divided.during(() => pool.run('analytics', [query], { onLeave })),
    answer: (task, onLeave) => divided.answer(task, onLeave),
    eventValues: (query, onLeave) => pool.run('eventValues', [query], { onLeave }),
    sessionValues: (task, onLeave) =>
      divided.during(() => pool.run('sessionValues', [task], { onLeave })),
    blastRadius: (task, onLeave) =>
      countInPieces<ReachTally, BlastRadius>((state) =>
        pool.run('blastRadiusPiece', [task, state], { onLeave }),
      ),
    rehearseFlag: (task, onLeave) =>
      countInPieces<RehearsalTally, RehearsalAnswer>((state) =>
        pool.run('rehearsePiece', [task, state], { onLeave }),
      ),
    personTable: (query, onLeave) => {
      const make = (table: PersonListQuery | TableState, options: CallOptions) => {
        const transferList = 'numbers' in table ? [table.numbers.buffer, table.columns.buffer] : []
        return pool.run('personTablePiece', [table], { ...options, transferList })
      }
      return openPieces<PersonListQuery | TableState>(query, query.limit, make, onLeave)
    },
    eventExport: (task, onLeave) => {
      const make = (rest: EventExportTask, options: CallOptions) =>
        pool.run('eventExportPiece', [rest], options)
      return openPieces(task, LONG_WEIGHT, make, onLeave)
    },
  }
}

/** In a cluster: the copy of the catalogue, as the threads have it. */
export function catalogueOf(pool: Pick<WorkerPool, 'run'>): CatalogueCopy {
  return {
    apply: (set) => pool.run('applyChanges', [set]),
    replace: (whole) => pool.run('replaceCatalogue', [whole]),
    whole: () => pool.run('wholeCatalogue', []),
  }
}
