/**
 * The threads of the daemon but those for analytics, by kinds whose work must not wait for each other: one
 * appends to the log, one processes it at low priority, `workerThreads` read, and some check uploads in the
 * order of `check-queue.ts`.
 *
 * No task is ever aborted and no thread terminated while it may hold LMDB: a terminated thread stops all
 * writers of the process. They are closed by a task.
 */
import { SHORT_PAGE_ROWS_MAX } from '../../base/limits.ts'
import type { CountedRows, PageWish, RowFormat, RowsText, RowText, TextPieces } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { AuditEntry } from '../../rules/access/audit.ts'
import type { CaptureRequest } from '../../rules/capture/accept.ts'
import type { DroppedQueries } from '../../rules/events/dropped-events.ts'
import type { ErasureCriteria, ErasureEstimate, ErasureQueries, ErasureReceipt, RetentionPlan, RetentionRules, RetentionView } from '../../rules/events/erasure.ts'
import type { EventListQuery, EventQueries, EventRows } from '../../rules/events/event-queries.ts'
import type { ActionQueries } from '../../rules/filters/actions.ts'
import type { CohortView } from '../../rules/persons/cohort-shapes.ts'
import type { PersonListQuery, PersonQueries, PersonReference, TimelineQuery, TimelineRows } from '../../rules/persons/person-queries.ts'
import { BusyTime } from './busy-time.ts'
import { type CheckLane, CheckQueue, type CheckVerdict, type CheckWaiter, threadsOf } from './check-queue.ts'
import { LongReads } from './long-reads.ts'
import type { OrganizationOperation, OrganizationPort, OrganizationRequest, OrganizationResult, OrganizationTask } from './organization-tasks.ts'
import type { PageName, PageQuestions, PageTask } from './page-tasks.ts'
import { openTable } from './person-table.ts'
import type { BlastRadiusTask, FlagCommandTask, Task, TaskResults, ThreadSettings } from './tasks.ts'
import { type ThreadDeath, ThreadGroup } from './thread-group.ts'

/** Tasks that may wait for a reading thread; a further one is refused with 503. */
const QUEUE_TASKS_MAX = 256
/** Threads for checks that are there from the start, so that the express lane has one beside the first bulk. */
const CHECKERS_MIN = 2
/** Added to the niceness of the threads that check uploads. */
const CHECKING_NICENESS = 5
/** Added to the niceness of the processing thread, so that accepting comes first when the cores are busy. */
const PROCESSING_NICENESS = 15
/**
 * Memory in which the processing thread makes its short-lived objects. What is gathered for a segment
 * outlives a collection, so that fewer collections copy less.
 */
const PROCESSING_YOUNG_MIB = 192
/** Stands for the rows of a long read that has none: it waits for those that ask for less. */
const LONG_WEIGHT = 1000

/** How many threads there are, and what they are told. */
export interface PoolOptions {
  readonly threads: ThreadSettings
  /** Threads for reads, at least 1; half as many for each lane of large bodies. */
  readonly workerThreads: number
  /** A thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
}

type PageAnswer<Name extends PageName> = { readonly page: PageQuestions[Name]['result'] } | null

/** The threads of the daemon. */
export class WorkerPool
  implements
    EventQueries,
    DroppedQueries,
    PersonQueries,
    ActionQueries,
    ErasureQueries,
    OrganizationPort
{
  readonly #writer: ThreadGroup
  readonly #processor: ThreadGroup
  readonly #workers: ThreadGroup
  readonly #checkers: ThreadGroup
  readonly #checks: CheckQueue
  readonly #longReads: LongReads
  /** How long the threads of each kind have worked. */
  readonly busy: {
    readonly [Name in 'writer' | 'processor' | 'checkers' | 'readers' | 'long_readers']: BusyTime
  }

  constructor(options: PoolOptions) {
    const { threads: settings, onDeath, workerThreads } = options
    // An idle thread that only ever works inside a task may sleep on a futex; with deferred flushing
    // LMDB works on behind the task and needs the thread's event loop.
    const laneThreads = Math.max(1, Math.floor(workerThreads / 2))
    const checkerThreads = threadsOf(laneThreads)
    const atomics = settings.isFlushDeferred ? 'async' : 'sync'
    this.#longReads = new LongReads(options)
    this.busy = {
      long_readers: this.#longReads.busy,
      writer: new BusyTime(1),
      processor: new BusyTime(1),
      readers: new BusyTime(workerThreads),
      checkers: new BusyTime(checkerThreads),
    }
    const one = { settings, onDeath, threadsMin: 1, threadsMax: 1 }
    this.#writer = new ThreadGroup({ ...one, kind: 'writer', pool: { atomics } })
    this.#processor = new ThreadGroup({
      ...one,
      kind: 'processor',
      pool: {
        atomics: 'async',
        niceIncrement: PROCESSING_NICENESS,
        resourceLimits: { maxYoungGenerationSizeMb: PROCESSING_YOUNG_MIB },
      },
    })
    this.#workers = new ThreadGroup({
      ...{ settings, onDeath, threadsMin: workerThreads, threadsMax: workerThreads },
      kind: 'readers',
      pool: { maxQueue: QUEUE_TASKS_MAX, atomics: 'async' },
    })
    this.#checkers = new ThreadGroup({
      ...{ settings, onDeath, threadsMin: CHECKERS_MIN, threadsMax: checkerThreads },
      kind: 'checkers',
      pool: { atomics: 'async', niceIncrement: CHECKING_NICENESS },
    })
    this.#checks = new CheckQueue({
      laneThreads,
      run: (task, transferList) =>
        this.busy.checkers.during(this.#checkers.ask(task, transferList)),
    })
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
  get queueDepths(): Readonly<Record<keyof WorkerPool['busy'], number>> {
    return {
      writer: this.#writer.queueSize,
      processor: this.#processor.queueSize,
      checkers: Object.values(this.checksWaiting).reduce((sum, waiting) => sum + waiting),
      readers: this.#workers.queueSize,
      long_readers: this.#longReads.queueDepth,
    }
  }

  /** Runs a task on the thread that appends to the log. */
  append(
    task: Extract<Task, { kind: 'append' }>,
    transferList: readonly ArrayBuffer[],
  ): Promise<TaskResults['append']> {
    return this.busy.writer.during(this.#writer.run(task, transferList))
  }

  /** Runs a task on the thread that processes the log. */
  process(task: Extract<Task, { kind: 'process' }>): Promise<TaskResults['process']> {
    return this.busy.processor.during(this.#processor.run(task))
  }

  /**
   * Checks an upload that is too much for the front. Its body must be the only view of its memory, which
   * changes hands. Refusals of the body come back as a result; too many waiting reject with 503.
   */
  check(request: CaptureRequest, waiter: CheckWaiter): Promise<CheckVerdict> {
    return this.#checks.check(request, waiter)
  }

  listEvents(query: EventListQuery, wish: PageWish): Promise<EventRows> {
    return this.#page('listEvents', [query], wish, query.limit)
  }

  getEvent(projectId: number, uuid: string): Promise<RowText | null> {
    return this.#read({ kind: 'getEvent', values: [projectId, uuid] })
  }

  async listWarnings(projectId: number, limit: number): Promise<RowsText> {
    const wish: PageWish = { format: 'json', onLeave: () => {} }
    return await this.#page('listWarnings', [projectId, limit], wish, limit)
  }

  listDropped(
    ...values: Parameters<DroppedQueries['listDropped']>
  ): ReturnType<DroppedQueries['listDropped']> {
    return this.#read({ kind: 'listDropped', values })
  }

  countDropped(
    ...values: Parameters<DroppedQueries['countDropped']>
  ): ReturnType<DroppedQueries['countDropped']> {
    return this.#read({ kind: 'countDropped', values })
  }

  listPersons(query: PersonListQuery, wish: PageWish): Promise<CountedRows> {
    return this.#page('listPersons', [query], wish, query.limit)
  }

  personTable(query: PersonListQuery, onLeave: PageWish['onLeave']): Promise<RowText | TextPieces> {
    return openTable(query, this.#longReads, onLeave)
  }

  getPerson(...values: Parameters<PersonQueries['getPerson']>): Promise<RowText | null> {
    return this.#read({ kind: 'getPerson', values })
  }

  findPerson(
    projectId: number,
    person: PersonReference,
  ): Promise<{ readonly uuid: string } | null> {
    return this.#read({ kind: 'findPerson', values: [projectId, person] })
  }

  personValues(
    projectId: number,
    key: string,
    contains: string | null,
    wish: PageWish,
  ): Promise<RowsText> {
    return this.#page('personValues', [projectId, key, contains], wish, 1)
  }

  personActivity(
    projectId: number,
    person: PersonReference | null,
    offset: number,
    limit: number,
    wish: PageWish,
  ): Promise<CountedRows | null> {
    return this.#page('personActivity', [projectId, person, offset, limit], wish, limit)
  }

  propertiesTimeline(query: TimelineQuery, wish: PageWish): Promise<TimelineRows | null> {
    return this.#page('propertiesTimeline', [query], wish, LONG_WEIGHT)
  }

  groupTypes(
    projectId: number,
  ): Promise<readonly { group_type: string; group_type_index: number }[]> {
    return this.#read({ kind: 'groupTypes', values: [projectId] })
  }

  listGroups(
    ...[projectId, typeIndex, search, limit, cursor, wish]: Parameters<PersonQueries['listGroups']>
  ): ReturnType<PersonQueries['listGroups']> {
    const values = [projectId, typeIndex, search, limit, cursor] as const
    return this.#page('listGroups', [...values], wish, limit)
  }

  findGroup(...values: Parameters<PersonQueries['findGroup']>): Promise<RowText | null> {
    return this.#read({ kind: 'findGroup', values })
  }

  listCohorts(
    projectId: number,
    limit: number,
    offset: number,
    wish: PageWish,
  ): Promise<CountedRows> {
    return this.#page('listCohorts', [projectId, limit, offset], wish, limit)
  }

  knownCohorts(projectId: number): Promise<readonly CohortView[]> {
    return this.#read({ kind: 'knownCohorts', values: [projectId] })
  }

  async getCohort(projectId: number, id: number, wish: PageWish): Promise<RowText | null> {
    const found = await this.#page('getCohort', [projectId, id], wish, 1)
    return found?.row ?? null
  }

  cohortsOfPerson(
    projectId: number,
    person: PersonReference,
    wish: PageWish,
  ): Promise<RowsText | null> {
    return this.#page('cohortsOfPerson', [projectId, person], wish, 1)
  }

  /** Asks or changes something about the organization; refusals reject with `ServiceError`. */
  async organization<Name extends OrganizationOperation>(
    name: Name,
    request: OrganizationRequest<Name>,
  ): Promise<OrganizationResult<Name>> {
    const task = { kind: 'organization', name, request } as OrganizationTask
    // The answer is what the handler of this name in organization-tasks.ts returned.
    return (await this.#read(task)) as OrganizationResult<Name>
  }

  /** Stores entries of the audit log durably; not refused when many wait, for they tell of what is done. */
  async recordAudit(entries: readonly AuditEntry[]): Promise<void> {
    await this.#workers.ask({ kind: 'organization', name: 'recordAudit', request: entries })
  }

  /** Changes a flag durably and answers its number; refusals reject with `ServiceError`. */
  changeFlag(task: Omit<FlagCommandTask, 'kind'>): Promise<TaskResults['changeFlag']> {
    return this.#read({ kind: 'changeFlag', ...task })
  }

  /** The log of a flag, or of all (`flagId` null); null when there is no such flag. */
  flagActivity(
    projectId: number,
    flagId: number | null,
    offset: number,
    limit: number,
    wish: PageWish,
  ): Promise<CountedRows | null> {
    return this.#page('flagActivity', [projectId, flagId, offset, limit], wish, limit)
  }

  /** Counts whom the condition in a body would reach. */
  blastRadius(task: Omit<BlastRadiusTask, 'kind'>): Promise<TaskResults['blastRadius']> {
    return this.#long({ kind: 'blastRadius', ...task })
  }

  listActions(
    projectId: number,
    limit: number,
    offset: number,
    wish: PageWish,
  ): Promise<CountedRows> {
    return this.#page('listActions', [projectId, limit, offset], wish, limit)
  }

  getAction(projectId: number, id: number, format: RowFormat): Promise<RowText | null> {
    return this.#read({ kind: 'getAction', values: [projectId, id, format] })
  }

  listErasures(
    projectId: number,
    limit: number,
    offset: number,
    wish: PageWish,
  ): Promise<CountedRows> {
    return this.#page('listErasures', [projectId, limit, offset], wish, limit)
  }

  runningErasures(projectId: number): Promise<number> {
    return this.#read({ kind: 'runningErasures', values: [projectId] })
  }

  getErasure(projectId: number, id: number): Promise<ErasureReceipt | null> {
    return this.#read({ kind: 'getErasure', values: [projectId, id] })
  }

  estimateErasure(projectId: number, criteria: ErasureCriteria): Promise<ErasureEstimate | null> {
    return this.#long({ kind: 'estimateErasure', values: [projectId, criteria] })
  }

  getRetention(projectId: number): Promise<RetentionView> {
    return this.#read({ kind: 'getRetention', values: [projectId] })
  }

  planRetention(
    projectId: number,
    rules: RetentionRules | null,
    nowMs: number,
  ): Promise<RetentionPlan> {
    return this.#long({ kind: 'planRetention', values: [projectId, rules, nowMs] })
  }

  retainedProjects(): Promise<readonly number[]> {
    return this.#read({ kind: 'retainedProjects', values: [] })
  }

  /** Lets every thread close its stores, then ends them. Call when no task is running any more. */
  async close(): Promise<void> {
    const groups = [this.#writer, this.#processor, this.#checkers, this.#workers, this.#longReads]
    await Promise.all(groups.map((group) => group.close()))
  }

  /** A page: a short read when it asks for few rows and turns out to be one, else a long one. */
  async #page<Name extends PageName>(
    kind: Name,
    values: PageQuestions[Name]['values'],
    { format, onLeave }: PageWish,
    weight: number,
  ): Promise<PageQuestions[Name]['result']> {
    const task = (cancelled: Int32Array | null) =>
      ({ kind, values, format, cancelled }) as unknown as Extract<Task, { kind: Name }> & PageTask
    if (format === 'json' && weight <= SHORT_PAGE_ROWS_MAX) {
      const answer = (await this.#read<PageName>(task(null))) as PageAnswer<Name>
      if (answer !== null) return answer.page
    }
    const answer = (await this.#longReads.run<PageName>(task, weight, onLeave)) as PageAnswer<Name>
    if (answer === null) throw new TypeError('a long read was taken for a short one')
    return answer.page
  }

  #long<Kind extends 'blastRadius' | 'estimateErasure' | 'planRetention'>(
    task: Extract<Task, { kind: Kind }>,
  ): Promise<TaskResults[Kind]> {
    return this.#longReads.run<Kind>(
      () => task,
      LONG_WEIGHT,
      () => {},
    )
  }

  #read<Kind extends Exclude<Task['kind'], 'append' | 'process' | 'check' | 'close'>>(
    task: Extract<Task, { kind: Kind }>,
  ): Promise<TaskResults[Kind]> {
    if (this.#workers.queueSize >= QUEUE_TASKS_MAX) {
      return Promise.reject(refusal('readers_full'))
    }
    return this.busy.readers.during(this.#workers.ask(task))
  }
}
