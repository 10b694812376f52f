/**
 * Scheduled changes of flags. A scheduled change is executed in one transaction: it changes the flag and records the
 * execution, so a crash leaves either both or neither. The caller states how often the scheduled change was executed
 * before. If that number is no longer right, the call changes nothing. So each execution happens only once, even if two
 * machines of a cluster try it at the same time.
 *
 * | table             | key                     | value                                                      |
 * |-------------------|-------------------------|------------------------------------------------------------|
 * | state             | `scheduled_change`      | last number used, over all projects                        |
 * | state             | `schedule`              | number of the last change of these tables                  |
 * | scheduled_changes | project u32, change u32 | `ScheduledChange`, JSON                                    |
 * | pending_changes   | project u32, change u32 | `PendingChange`, JSON, for changes that the daemon waits for |
 * | state             | `guard_event`           | last number used, over all projects                        |
 * | guard_events      | project u32, event u32  | `GuardEvent`, JSON, until the event is in the log          |
 */
import { ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import { SYSTEM_ACTOR } from '../../rules/access/user.ts'
import type { FlagChangeContext } from '../../rules/flags/edit/flag-changes.ts'
import {
  afterExecution,
  afterStep,
  dueAction,
  pendingOf,
} from '../../rules/flags/schedule/due-changes.ts'
import {
  bodyOfChange,
  bodyOfTurnBack,
  interferenceOf,
} from '../../rules/flags/schedule/flag-move.ts'
import { type GuardEvent, guardProperties } from '../../rules/flags/schedule/guard-event.ts'
import {
  changedChange,
  draftChange,
  type ScheduleCopy,
  type ScheduleRequest,
} from '../../rules/flags/schedule/schedule-input.ts'
import {
  cutReason,
  type GuardVerdict,
  type Moved,
  operationOf,
  type PendingChange,
  type Ramp,
  type ScheduledChange,
  type ScheduledMove,
  stepsMade,
} from '../../rules/flags/schedule/scheduled-change.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { Environment, Table } from '../lmdb/environment.ts'
import { type FlagsTable, keysOf, NUMBER_MAX, pairKey } from '../lmdb/keys.ts'
import { getJson, jsonOf, putJson, raiseCount, readCount } from '../lmdb/records.ts'
import { putAuditEntries } from './audit-log.ts'
import { demand, demandRoom } from './checks.ts'
import { SCHEDULED_ENDED_MAX, SCHEDULED_WAITING_MAX } from './limits.ts'

const UNKNOWN_CHANGE = 'The project has no such scheduled change.'
const UNKNOWN_FLAG = 'The flag does not exist.'
const VERSION = 'schedule'

/**
 * The operations on flags that scheduled changes need. Call `check` and `change` only within the transaction of
 * `write`.
 */
export interface ScheduledFlags {
  readonly environment: Environment
  /** Returns a flag, deleted or not, or null. */
  flag(projectId: number, id: number): Flag | null
  /** Throws 400 if the flag does not accept the body of a PATCH. */
  check(context: FlagChangeContext, id: number, body: object): void
  /** Changes a flag by the body of a PATCH request. Throws 400 before it writes anything. */
  change(context: FlagChangeContext, id: number, body: object): Flag
  /**
   * Runs a change and stores its audit entry. `idOf` returns the number of the changed object, for an entry that does
   * not contain the number yet.
   */
  write<T>(context: FlagChangeContext, action: () => T, idOf: (result: T) => number): T
}

const NOTHING: Moved = { outcome: 'nothing', flagId: null, text: '', reason: null }

/** Thrown within a transaction to end it without writing anything, because the change is no longer due. */
class NothingDueError extends Error {}

/** A scheduled change after it was executed or stopped, with the texts for the audit log. */
interface MovedChange {
  readonly outcome: Moved['outcome']
  readonly after: ScheduledChange
  readonly text: string
  readonly reason: string | null
}

/** Reads and changes the scheduled changes of all projects. */
export class ScheduledChanges {
  readonly #flags: ScheduledFlags

  constructor(flags: ScheduledFlags) {
    this.#flags = flags
  }

  /** Returns the scheduled changes of a project, newest first. If `flagId` is not null, only those of this flag. */
  list(projectId: number, flagId: number | null): readonly ScheduledChange[] {
    return this.#all(projectId)
      .filter((change) => flagId === null || change.flagId === flagId)
      .reverse()
  }

  /** Returns a scheduled change of a project, or null. */
  get(projectId: number, id: number): ScheduledChange | null {
    return id > NUMBER_MAX
      ? null
      : getJson(this.#table('scheduled_changes'), pairKey(projectId, id))
  }

  /**
   * Schedules a change. Throws 400 if the request is not valid, or if the flag does not accept the change in its
   * present state. `copy` is given for a change that is copied from another flag. The caller has compared the copy with
   * the schedule of this flag. If a further change of this flag was scheduled since then, throws 409 `conflict`.
   */
  create(
    context: FlagChangeContext,
    flagId: number,
    request: ScheduleRequest,
    copy?: ScheduleCopy,
  ): ScheduledChange {
    return this.#flags.write(
      context,
      () => {
        const flag = this.#liveFlag(context.projectId, flagId)
        const draft = draftChange(request, flag, context)
        this.#flags.check(context, flagId, bodyOfChange(draft, flag))
        if (copy !== undefined) {
          const [newest] = this.list(context.projectId, flagId)
          const detail = 'Another change of the flag was scheduled meanwhile. Try again.'
          demand(newest === undefined || newest.id <= copy.newestId, 'conflict', detail)
        }
        this.#makeRoom(context.projectId)
        const id = raiseCount(this.#table('state'), 'scheduled_change')
        return this.#put({ ...draft, anchorMs: copy?.anchorMs ?? draft.anchorMs, id })
      },
      ({ id }) => id,
    )
  }

  /**
   * Modifies a scheduled change. Throws 400 if the change has ended or the request is not valid, and 404 `not_found` if
   * there is no such change.
   */
  modify(context: FlagChangeContext, id: number, request: ScheduleRequest): ScheduledChange {
    return this.#flags.write(
      context,
      () => {
        const before = this.#existing(context.projectId, id)
        const flag = this.#flags.flag(context.projectId, before.flagId)
        const after = changedChange(before, request, flag, context.nowMs)
        if (request.payload !== undefined) {
          const live = this.#liveFlag(context.projectId, before.flagId)
          this.#flags.check(context, live.id, bodyOfChange(after, live))
        }
        return this.#put(after)
      },
      () => id,
    )
  }

  /** Removes a scheduled change. The flag stays as it is. Throws 404 `not_found`. */
  remove(context: FlagChangeContext, id: number): ScheduledChange {
    return this.#flags.write(
      context,
      () => {
        const before = this.#existing(context.projectId, id)
        this.#forget(before)
        return before
      },
      () => id,
    )
  }

  /**
   * Executes a scheduled change that is due, or stops a ramp whose guards are violated, and stores an audit entry about
   * it. If the flag does not accept the change, the scheduled change ends or the ramp halts, and the reason is stored.
   * Throws 503 if the write fails. The change then waits for the next attempt.
   */
  move(context: FlagChangeContext, move: ScheduledMove): Moved {
    const { projectId } = context
    if (this.#due(context, move) === null) return NOTHING
    try {
      const moved = this.#flags.write(
        context,
        () => {
          const before = this.#due(context, move)
          if (before === null) throw new NothingDueError()
          const made = this.#make(context, before, move.verdict)
          this.#put(made.after)
          putAuditEntries(this.#table('audit_log'), [auditOf(before, made.text, context)])
          return { ...made, flagId: before.flagId }
        },
        ({ flagId }) => flagId,
      )
      const { outcome, flagId, text, reason } = moved
      return { outcome, flagId, text, reason }
    } catch (error) {
      if (error instanceof NothingDueError) return { ...NOTHING, text: `project ${projectId}` }
      throw error
    }
  }

  /**
   * Removes the event of a guard from the table, after the event was written to the log. Throws 503 after a failed
   * write.
   */
  removeGuardEvent(context: FlagChangeContext, number: number): void {
    const key = pairKey(context.projectId, number)
    const remove = (): void => {
      this.#table('guard_events').removeSync(key)
      raiseCount(this.#table('state'), VERSION)
    }
    if (this.#table('guard_events').doesExist(key)) this.#flags.write(context, remove, () => number)
  }

  /**
   * Returns the scheduled change to which `move` belongs. Returns null if `move` is not due, for example because
   * another machine has already made it.
   */
  #due({ projectId, nowMs }: FlagChangeContext, move: ScheduledMove): ScheduledChange | null {
    const change = this.get(projectId, move.id)
    if (change === null || change.executions !== move.executions) return null
    if (move.verdict === undefined) return dueAction(change, nowMs) === null ? null : change
    return pendingOf(change)?.isWatched === true ? change : null
  }

  #make(
    context: FlagChangeContext,
    before: ScheduledChange,
    verdict: GuardVerdict | undefined,
  ): MovedChange {
    const { nowMs } = context
    if (verdict === undefined && dueAction(before, nowMs) === 'end') {
      const after = { ...before, executedAtMs: nowMs, updatedAtMs: nowMs }
      return {
        outcome: 'ended',
        after,
        text: 'ended, because its end date has passed',
        reason: null,
      }
    }
    const flag = this.#flags.flag(context.projectId, before.flagId)
    if (before.ramp === null) return this.#execute(context, before, flag)
    return verdict === undefined
      ? this.#step(context, before, before.ramp, flag)
      : this.#stop(context, before, before.ramp, flag, verdict)
  }

  #execute(context: FlagChangeContext, before: ScheduledChange, flag: Flag | null): MovedChange {
    const { nowMs } = context
    const reason = this.#change(context, before, flag, (found) => bodyOfChange(before, found))
    if (reason === null) {
      const after = afterExecution(before, nowMs)
      return { outcome: 'executed', after, text: operationOf(before), reason }
    }
    const ended = { executedAtMs: nowMs, updatedAtMs: nowMs, failureReason: reason }
    return { outcome: 'failed', after: { ...before, ...ended }, text: `failed: ${reason}`, reason }
  }

  #step(
    context: FlagChangeContext,
    before: ScheduledChange,
    ramp: Ramp,
    flag: Flag | null,
  ): MovedChange {
    const { nowMs } = context
    const interference = flag === null ? UNKNOWN_FLAG : interferenceOf(ramp, flag)
    const reason =
      interference ?? this.#change(context, before, flag, (found) => bodyOfChange(before, found))
    if (reason !== null) {
      const after = { ...halted(before, ramp, reason, nowMs), failureReason: reason }
      return { outcome: 'halted', after, text: `ramp halted: ${reason}`, reason }
    }
    const number = stepsMade(ramp)
    const percentage = ramp.steps[number]?.rolloutPercentage
    const text = `ramp, step ${number + 1} of ${ramp.steps.length}: ${percentage} %`
    return { outcome: 'executed', after: afterStep(before, ramp, nowMs), text, reason }
  }

  #stop(
    context: FlagChangeContext,
    before: ScheduledChange,
    ramp: Ramp,
    flag: Flag | null,
    verdict: GuardVerdict,
  ): MovedChange {
    const { nowMs } = context
    const { action, reason: why } = verdict
    const stopped = { change: before, ramp, flag, verdict }
    const interference = flag === null ? UNKNOWN_FLAG : interferenceOf(ramp, flag)
    const refused =
      action === 'halt'
        ? null
        : (interference ??
          this.#change(context, before, flag, (found) => bodyOfTurnBack(ramp, found)))
    if (action === 'halt' || refused !== null) {
      const reason = refused === null ? why : `${why} The flag was not turned back: ${refused}`
      const after = halted(before, ramp, reason, nowMs)
      this.#putEvent(context, verdict, guardProperties({ ...stopped, state: 'halted', reason }))
      return { outcome: 'halted', after, text: `ramp halted: ${reason}`, reason }
    }
    const state = 'turned_back'
    this.#putEvent(context, verdict, guardProperties({ ...stopped, state, reason: why }))
    const turned: ScheduledChange = {
      ...before,
      executedAtMs: nowMs,
      updatedAtMs: nowMs,
      executions: before.executions + 1,
      ramp: { ...ramp, state, reason: cutReason(why) },
    }
    return { outcome: state, after: turned, text: `ramp turned back: ${why}`, reason: why }
  }

  #putEvent(
    { projectId, nowMs: atMs }: FlagChangeContext,
    { uuid }: GuardVerdict,
    properties: JsonObject,
  ): void {
    if (uuid === null) return
    const number = raiseCount(this.#table('state'), 'guard_event')
    const event: GuardEvent = { projectId, number, uuid, atMs, properties }
    putJson(this.#table('guard_events'), pairKey(projectId, number), event)
  }

  /**
   * Applies a scheduled change to its flag. Returns null, or the reason why the flag does not accept the change. Throws
   * if the write fails.
   */
  #change(
    context: FlagChangeContext,
    change: ScheduledChange,
    flag: Flag | null,
    bodyOf: (flag: Flag) => object,
  ): string | null {
    if (flag === null) return UNKNOWN_FLAG
    if (flag.deleted) return 'The flag was deleted.'
    const note = `Scheduled change ${change.id}, created by ${nameOf(change)}.`
    const author = { ...context, actor: SYSTEM_ACTOR }
    try {
      this.#flags.change(author, flag.id, { ...bodyOf(flag), note })
      return null
    } catch (error) {
      if (error instanceof ServiceError && error.status < 500) return cutReason(error.message)
      throw error
    }
  }

  #existing(projectId: number, id: number): ScheduledChange {
    const change = this.get(projectId, id)
    demand(change !== null, 'not_found', UNKNOWN_CHANGE)
    return change
  }

  #liveFlag(projectId: number, id: number): Flag {
    const flag = this.#flags.flag(projectId, id)
    const detail = 'The project has no such flag. Send the number of a flag as `record_id`.'
    demand(flag !== null, 'does_not_exist', detail, 'record_id')
    const deleted = `The flag \`${flag.key}\` is deleted. Restore it first.`
    demand(!flag.deleted, 'does_not_exist', deleted, 'record_id')
    return flag
  }

  #put(change: ScheduledChange): ScheduledChange {
    const key = pairKey(change.projectId, change.id)
    putJson(this.#table('scheduled_changes'), key, change)
    const pending = pendingOf(change)
    if (pending === null) this.#table('pending_changes').removeSync(key)
    else putJson(this.#table('pending_changes'), key, pending)
    raiseCount(this.#table('state'), VERSION)
    return change
  }

  #forget({ projectId, id }: ScheduledChange): void {
    const key = pairKey(projectId, id)
    this.#table('scheduled_changes').removeSync(key)
    this.#table('pending_changes').removeSync(key)
    raiseCount(this.#table('state'), VERSION)
  }

  /**
   * Makes room for one more scheduled change. Removes the oldest ended ones if there are too many of them. Throws 400
   * if too many have not ended yet.
   */
  #makeRoom(projectId: number): void {
    const all = this.#all(projectId)
    const ended = all.filter(({ executedAtMs }) => executedAtMs !== null)
    demandRoom(all.length - ended.length, SCHEDULED_WAITING_MAX, 'scheduled changes that wait')
    const excess = Math.max(0, ended.length - SCHEDULED_ENDED_MAX)
    for (const change of ended.slice(0, excess)) this.#forget(change)
  }

  #all(projectId: number): ScheduledChange[] {
    const records = jsonOf<ScheduledChange>(this.#table('scheduled_changes'), keysOf(projectId))
    return [...records].map(({ value }) => value)
  }

  #table(name: FlagsTable): Table {
    return this.#flags.environment.table(name)
  }
}

/**
 * Caches the waiting changes (table `pending_changes`), and the events of guards that may not be in the log yet. The
 * main thread uses this cache to find out what is due.
 */
export class PendingChanges {
  readonly #environment: Environment
  #version = -1
  #changes: readonly PendingChange[] = []
  #guardEvents: readonly GuardEvent[] = []

  constructor(environment: Environment) {
    this.#environment = environment
  }

  /** Returns the waiting changes of all projects. Costs one read if the tables have not changed since the last call. */
  current(): readonly PendingChange[] {
    this.#refresh()
    return this.#changes
  }

  /**
   * Returns those guard events of all projects that may not be in the log yet. Costs one read if the tables have not
   * changed since the last call.
   */
  guardEvents(): readonly GuardEvent[] {
    this.#refresh()
    return this.#guardEvents
  }

  #refresh(): void {
    this.#environment.refresh()
    const version = readCount(this.#environment.table('state'), VERSION)
    if (version === this.#version) return
    const changes = jsonOf<PendingChange>(this.#environment.table('pending_changes'))
    const events = jsonOf<GuardEvent>(this.#environment.table('guard_events'))
    this.#changes = [...changes].map(({ value }) => value)
    this.#guardEvents = [...events].map(({ value }) => value)
    this.#version = version
  }
}

function halted(
  before: ScheduledChange,
  ramp: Ramp,
  reason: string,
  nowMs: number,
): ScheduledChange {
  return {
    ...before,
    updatedAtMs: nowMs,
    ramp: { ...ramp, state: 'halted', reason: cutReason(reason) },
  }
}

function auditOf(
  { id, flagId, createdBy }: ScheduledChange,
  text: string,
  { projectId, nowMs }: FlagChangeContext,
): AuditEntry {
  return {
    atMs: nowMs,
    source: 'schedule',
    userId: createdBy.userId,
    keyId: null,
    account: null,
    address: '',
    projectId,
    method: '',
    route: `scheduled change ${id}: ${cutReason(text)}`,
    objectId: String(flagId),
    status: 0,
  }
}

function nameOf({ createdBy: { firstName, email } }: ScheduledChange): string {
  return [firstName, email].find((name) => name !== '') ?? 'nobody'
}
