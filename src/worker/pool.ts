/**
 * The threads of the daemon but those for analytics. Four kinds, because their work must not wait for each
 * other: one that appends to the log (an acknowledgement waits for it), one that processes the log (at low
 * priority: on a busy machine accepting comes first), `workerThreads` for reads, and those that check
 * uploads in the order of `check-queue.ts` (at a somewhat lower priority: whoever sends a lot may wait).
 *
 * No task is ever aborted and no thread is ever terminated while it may hold LMDB: a terminated thread
 * stops all writers of the process. They are closed by a task.
 */
import { ServiceError } from '../base/errors.ts'
import type { CaptureRequest } from '../ingest/accept.ts'
import type { ActionQueries, ActionView } from '../query/actions.ts'
import type {
  ErasureCriteria,
  ErasureEstimate,
  ErasurePage,
  ErasureQueries,
  ErasureReceipt,
  RetentionPlan,
  RetentionRules,
  RetentionView,
} from '../query/erasure.ts'
import type {
  DroppedCount,
  DroppedEventPage,
  DroppedEventsQuery,
  DroppedQueries,
  EventListQuery,
  EventPage,
  EventQueries,
  EventView,
  WarningView,
} from '../query/events.ts'
import type {
  ActivityPage,
  CohortView,
  GroupView,
  PersonListQuery,
  PersonPage,
  PersonQueries,
  PersonReference,
  PersonView,
  TimelinePoint,
  TimelineQuery,
  ValueCount,
} from '../query/persons.ts'
import type { AuditEntry } from '../store/audit-log.ts'
import { BusyTime } from './busy-time.ts'
import {
  type CheckLane,
  CheckQueue,
  type CheckVerdict,
  type CheckWaiter,
  threadsOf,
} from './check-queue.ts'
import type {
  OrganizationOperation,
  OrganizationPort,
  OrganizationRequest,
  OrganizationResult,
  OrganizationTask,
} from './organization-tasks.ts'
import type {
  BlastRadiusTask,
  FlagActivityTask,
  FlagCommandTask,
  Task,
  TaskResults,
  ThreadSettings,
} from './tasks.ts'
import { type ThreadDeath, ThreadGroup } from './thread-group.ts'

/** Tasks that may wait for a reading thread; a further one is refused with 503. */
const QUEUE_TASKS_MAX = 256
/** Added to the niceness of the threads that check uploads. */
const CHECKING_NICENESS = 5
/** Added to the niceness of the processing thread, so that accepting comes first when the cores are busy. */
const PROCESSING_NICENESS = 15
/**
 * Memory in which the processing thread makes its short-lived objects. What is gathered for a segment
 * outlives a collection, so that fewer collections copy less.
 */
const PROCESSING_YOUNG_MIB = 192
const RETRY_AFTER_SECONDS = 2

/** How many threads there are, and what they are told. */
export interface PoolOptions {
  readonly threads: ThreadSettings
  /** Threads for reads, at least 1; half as many for each lane of large bodies. */
  readonly workerThreads: number
  /** A thread has ended unexpectedly. */
  readonly onDeath: (death: ThreadDeath) => void
}

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
  /** How long the threads of each kind have worked. */
  readonly busy: { readonly [Name in 'writer' | 'processor' | 'readers' | 'checkers']: BusyTime }

  constructor(options: PoolOptions) {
    const { threads: settings, onDeath, workerThreads } = options
    // An idle thread that only ever works inside a task may sleep on a futex; with deferred flushing
    // LMDB works on behind the task and needs the thread's event loop.
    const laneThreads = Math.max(1, Math.floor(workerThreads / 2))
    const checkerThreads = threadsOf(laneThreads)
    const atomics = settings.isFlushDeferred ? 'async' : 'sync'
    this.busy = {
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
      ...{ settings, onDeath, threadsMin: 1, threadsMax: checkerThreads },
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

  /** Tasks that wait for a thread or run on one of the reading threads. */
  get queueDepth(): number {
    return this.#workers.queueSize
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

  listEvents(query: EventListQuery): Promise<EventPage> {
    return this.#read({ kind: 'listEvents', query })
  }

  getEvent(projectId: number, uuid: string): Promise<EventView | null> {
    return this.#read({ kind: 'getEvent', projectId, uuid })
  }

  listWarnings(projectId: number, limit: number): Promise<readonly WarningView[]> {
    return this.#read({ kind: 'listWarnings', projectId, limit })
  }

  listDropped(query: DroppedEventsQuery): Promise<DroppedEventPage> {
    return this.#read({ kind: 'listDropped', query })
  }

  countDropped(projectId: number, afterMs: number): Promise<readonly DroppedCount[]> {
    return this.#read({ kind: 'countDropped', projectId, afterMs })
  }

  listPersons(query: PersonListQuery): Promise<PersonPage> {
    return this.#read({ kind: 'listPersons', values: [query] })
  }

  getPerson(projectId: number, person: PersonReference): Promise<PersonView | null> {
    return this.#read({ kind: 'getPerson', values: [projectId, person] })
  }

  personValues(
    projectId: number,
    key: string,
    contains: string | null,
  ): Promise<readonly ValueCount[]> {
    return this.#read({ kind: 'personValues', values: [projectId, key, contains] })
  }

  personActivity(
    projectId: number,
    person: PersonReference | null,
    page: number,
    limit: number,
  ): Promise<ActivityPage | null> {
    return this.#read({ kind: 'personActivity', values: [projectId, person, page, limit] })
  }

  propertiesTimeline(query: TimelineQuery): Promise<readonly TimelinePoint[] | null> {
    return this.#read({ kind: 'propertiesTimeline', values: [query] })
  }

  groupTypes(
    projectId: number,
  ): Promise<readonly { group_type: string; group_type_index: number }[]> {
    return this.#read({ kind: 'groupTypes', values: [projectId] })
  }

  listGroups(
    ...values: Parameters<PersonQueries['listGroups']>
  ): ReturnType<PersonQueries['listGroups']> {
    return this.#read({ kind: 'listGroups', values })
  }

  findGroup(projectId: number, typeIndex: number, key: string): Promise<GroupView | null> {
    return this.#read({ kind: 'findGroup', values: [projectId, typeIndex, key] })
  }

  listCohorts(
    ...values: Parameters<PersonQueries['listCohorts']>
  ): ReturnType<PersonQueries['listCohorts']> {
    return this.#read({ kind: 'listCohorts', values })
  }

  getCohort(projectId: number, id: number): Promise<CohortView | null> {
    return this.#read({ kind: 'getCohort', values: [projectId, id] })
  }

  cohortsOfPerson(
    projectId: number,
    person: PersonReference,
  ): Promise<readonly CohortView[] | null> {
    return this.#read({ kind: 'cohortsOfPerson', values: [projectId, person] })
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

  /** A page of the log of flags; null when there is no such flag. */
  flagActivity(task: Omit<FlagActivityTask, 'kind'>): Promise<TaskResults['flagActivity']> {
    return this.#read({ kind: 'flagActivity', ...task })
  }

  /** Counts whom the condition in a body would reach. */
  blastRadius(task: Omit<BlastRadiusTask, 'kind'>): Promise<TaskResults['blastRadius']> {
    return this.#read({ kind: 'blastRadius', ...task })
  }

  listActions(
    ...values: Parameters<ActionQueries['listActions']>
  ): ReturnType<ActionQueries['listActions']> {
    return this.#read({ kind: 'listActions', values })
  }

  getAction(projectId: number, id: number): Promise<ActionView | null> {
    return this.#read({ kind: 'getAction', values: [projectId, id] })
  }

  listErasures(projectId: number, limit: number, offset: number): Promise<ErasurePage> {
    return this.#read({ kind: 'listErasures', values: [projectId, limit, offset] })
  }

  getErasure(projectId: number, id: number): Promise<ErasureReceipt | null> {
    return this.#read({ kind: 'getErasure', values: [projectId, id] })
  }

  estimateErasure(projectId: number, criteria: ErasureCriteria): Promise<ErasureEstimate | null> {
    return this.#read({ kind: 'estimateErasure', values: [projectId, criteria] })
  }

  getRetention(projectId: number): Promise<RetentionView> {
    return this.#read({ kind: 'getRetention', values: [projectId] })
  }

  planRetention(
    projectId: number,
    rules: RetentionRules | null,
    nowMs: number,
  ): Promise<RetentionPlan> {
    return this.#read({ kind: 'planRetention', values: [projectId, rules, nowMs] })
  }

  retainedProjects(): Promise<readonly number[]> {
    return this.#read({ kind: 'retainedProjects', values: [] })
  }

  /** Lets every thread close its stores, then ends them. Call when no task is running any more. */
  async close(): Promise<void> {
    await Promise.all(
      [this.#writer, this.#processor, this.#workers, this.#checkers].map((group) => group.close()),
    )
  }

  #read<Kind extends Exclude<Task['kind'], 'append' | 'process' | 'check' | 'close'>>(
    task: Extract<Task, { kind: Kind }>,
  ): Promise<TaskResults[Kind]> {
    if (this.#workers.queueSize >= QUEUE_TASKS_MAX) {
      return Promise.reject(
        new ServiceError(
          'server_error',
          'Too many requests wait for a thread; try again shortly.',
          {
            retryAfterSeconds: RETRY_AFTER_SECONDS,
          },
        ),
      )
    }
    return this.busy.readers.during(this.#workers.ask(task))
  }
}
