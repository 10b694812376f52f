/**
 * Feature flags in the environment `flags`. `FlagStore` changes them, and `FlagDirectory` returns them from memory.
 * Every change is one durable transaction, so a crash leaves either the old flag or the new one. A change raises the
 * version number of the environment and the change number of the project. Readers compare these numbers to find the
 * flags that have changed.
 */
import { uuidV7 } from '../../base/ids.ts'
import type { JsonObject } from '../../base/json.ts'
import type { Entries } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import { timeText } from '../../base/time.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { ExperimentCommand } from '../../rules/experiments/edit/experiment-changes.ts'
import { activityJson, type FlagActivity } from '../../rules/flags/edit/flag-activity.ts'
import {
  changeFlag,
  draftFlag,
  type FlagChangeContext,
  type FlagDraft,
  noteOfChange,
} from '../../rules/flags/edit/flag-changes.ts'
import { changesBetween } from '../../rules/flags/edit/flag-diff.ts'
import type { FlagChangeCheck, PlannedFlag } from '../../rules/flags/edit/flag-plan.ts'
import type { GuardEvent } from '../../rules/flags/schedule/guard-event.ts'
import type { PendingChange } from '../../rules/flags/schedule/scheduled-change.ts'
import type { Flag, FlagRepository } from '../../rules/flags/types.ts'
import { type EntryTables, listEntries, storeEntry } from '../lmdb/entry-log.ts'
import { Environment, type Table } from '../lmdb/environment.ts'
import {
  FLAGS_ENVIRONMENT,
  FLAGS_TABLES,
  type FlagsTable,
  keysOf,
  numberKey,
  pairKey,
} from '../lmdb/keys.ts'
import { putRecord, raiseCount, removeRange } from '../lmdb/records.ts'
import { putAuditEntries } from './audit-log.ts'
import { demand } from './checks.ts'
import type { SavedNumber } from './directory-environment.ts'
import { ExperimentStore, ExperimentWriter, type FlagWrites } from './experiment-store.ts'
import { FlagCache, type ProjectFlags } from './flag-cache.ts'
import { loadCounters, type ProjectCounters, storeFlag } from './flag-records.ts'
import { FLAG_FILTERS_UNITS_MAX, FLAGS_MAX } from './limits.ts'
import { SavedStore } from './saved-store.ts'
import type { SavedEnvironment } from './saved-table.ts'
import { PendingChanges, ScheduledChanges } from './scheduled-changes.ts'

/**
 * The tables of dashboards to which a flag may refer. `flag_dashboards` contains dashboards that older versions
 * created.
 */
const DASHBOARDS = ['flag_dashboards', 'dashboards'] as const
const ACTIVITY = 'flag_activity'
const UNKNOWN_FLAG = 'The project has no such flag.'

/** What is needed to plan a change of a flag, without making it. */
export type FlagPlanContext = Pick<FlagChangeContext, 'projectId' | 'nowMs' | 'cohort'>

/** A flag before and after a change that is only planned. `before` is null for a new flag. */
export interface FlagPlan {
  readonly before: Flag | null
  readonly after: Flag
}

/**
 * Stands for the number that a new flag would get, while its creation is only planned. No stored flag has this number.
 */
const UNKNOWN_ID = Number.MAX_SAFE_INTEGER

/** Changes flags, for worker threads and commands. Close it before the thread ends. */
export class FlagStore {
  readonly #environment: Environment
  #cache: FlagCache
  readonly #scheduled: ScheduledChanges
  #hasFailed = false

  /** `dataDir` must contain a store (data-dir.ts). */
  constructor(dataDir: string) {
    this.#environment = openFlags(dataDir)
    this.#cache = new FlagCache(this.#environment)
    this.#scheduled = new ScheduledChanges({
      environment: this.#environment,
      flag: (projectId, id) => this.#cache.project(projectId).stored(id)?.flag ?? null,
      check: (context, id, body) => this.#checkChange(context, id, body as JsonObject),
      change: (context, id, body) => this.#changeNow(context, id, body as JsonObject, false),
      write: (context, action, idOf) => this.#writeAll(context, action, (result) => [idOf(result)]),
    })
  }

  /** The scheduled changes of flags. They include those that other threads and processes have committed. */
  get scheduled(): ScheduledChanges {
    this.#environment.refresh()
    return this.#scheduled
  }

  /**
   * Creates the flag described by the body of a POST request. Deleted flags with the same key are then removed
   * permanently. Throws 400, and 503 after a failed write.
   */
  create(context: FlagChangeContext, body: JsonObject): Flag {
    return this.#write(context, () => this.#createNow(context, body))
  }

  /**
   * Changes a flag as described by the body of a PATCH or PUT request. A PUT request must contain the key. Throws 404
   * `not_found`, 400, 409 `conflict`, and 503 after a failed write.
   */
  update(context: FlagChangeContext, id: number, body: JsonObject, isKeyRequired: boolean): Flag {
    return this.#write(context, () => this.#changeNow(context, id, body, isKeyRequired))
  }

  /** Throws the error that `update` would throw for the body of a PATCH request. Changes nothing. */
  #checkChange(context: FlagChangeContext, id: number, body: JsonObject): void {
    const flags = this.#cache.project(context.projectId)
    const before = flags.stored(id)?.flag
    demand(before !== undefined, 'not_found', UNKNOWN_FLAG)
    const draft = changeFlag(before, body, false, this.#repository(context, flags))
    requireRoom(flags, before, { ...before, ...draft })
  }

  /**
   * Changes several flags in one transaction: all of them or none. `plan` receives the flags that are not deleted, and
   * returns the changes in the order in which they are made. `bodyOf` returns the body of a change. It is called for
   * each change after the previous ones were made. Throws the errors of `plan`, of `create` and of `update`.
   */
  apply(
    context: FlagChangeContext,
    plan: (flags: readonly Flag[]) => readonly PlannedFlag[],
    bodyOf: (wanted: JsonObject, flagNumber: (key: string) => number | null) => JsonObject,
  ): readonly Flag[] {
    const { projectId } = context
    try {
      const write = () =>
        plan(this.#cache.project(projectId).flags).map(({ action, before, wanted }) => {
          const flagNumber = (key: string) => this.#cache.project(projectId).byKey(key)?.id ?? null
          const isDeletion = action === 'delete'
          const body = isDeletion ? { deleted: true } : bodyOf(wanted, flagNumber)
          const flag =
            before === null
              ? this.#createNow(context, body)
              : this.#changeNow(context, before.id, body, false)
          // Refresh the cache, so that the next change sees this one.
          raiseCount(this.#table('state'), 'version')
          this.#cache.refresh()
          return flag
        })
      return this.#writeAll(context, write, (flags) => flags.map(({ id }) => id))
    } catch (error) {
      // The cache may contain changes that were rolled back, so it is built again.
      this.#cache = new FlagCache(this.#environment)
      throw error
    }
  }

  /**
   * Changes an experiment, a holdout or a saved metric, and the flags that depend on it, in one transaction. Returns
   * the number of the experiment, holdout or saved metric. Throws 404 `not_found`, 400, and 503 after a failed write.
   */
  changeExperiment(
    context: FlagChangeContext,
    command: ExperimentCommand,
  ): { readonly id: number } {
    return this.#write(context, () => {
      const change = this.#begin(context)
      const flags: FlagWrites = {
        flagById: (id) => change.stored(id)?.flag ?? null,
        flagByKey: (key) => change.byKey(key),
        create: (body) => this.#create(change, context, body),
        update: (id, body, causeId) =>
          this.#update(change, context, { id, body, isKeyRequired: false, causeId }),
        link(id, experiments) {
          const stored = change.stored(id)
          demand(stored !== null, 'not_found', UNKNOWN_FLAG)
          change.putFlag({ ...stored.flag, experiments })
        },
      }
      const changed = this.#experiments(context).run(command, flags)
      change.store()
      return changed
    })
  }

  /**
   * Returns how a flag would be after a PATCH request with this body, or, if `id` is null, after a POST request with
   * it. Stores nothing. Throws 400, and 404 `not_found`.
   */
  plan(context: FlagPlanContext, id: number | null, body: JsonObject): FlagPlan {
    const flags = this.flags(context.projectId)
    const before = id === null ? null : (flags.stored(id)?.flag ?? null)
    demand(id === null || before?.deleted === false, 'not_found', UNKNOWN_FLAG)
    const repository = this.#repository(context, flags)
    const nobody = { createdById: null, lastModifiedById: null, updatedAtMs: context.nowMs }
    const { projectId } = context
    const after: Flag =
      before === null
        ? { ...draftFlag(body, repository), ...nobody, id: UNKNOWN_ID, projectId, version: 1 }
        : {
            ...before,
            ...changeFlag(before, body, false, repository),
            version: before.version + 1,
          }
    return { before, after }
  }

  /** Creates a dashboard for a flag that has none. Throws 404 `not_found`, and 503. */
  addDashboard(context: FlagChangeContext, id: number): Flag {
    const { projectId, nowMs, actor } = context
    return this.#write(context, () => {
      const stored = this.#cache.project(projectId).stored(id)
      demand(stored !== null, 'not_found', UNKNOWN_FLAG)
      if (stored.flag.usageDashboard !== null) return stored.flag
      const name = `Generated Dashboard: ${stored.flag.key} Usage`
      const { dashboard } = this.#saved(nowMs).createDashboard({
        projectId,
        userId: authorOf(actor),
        fields: { name },
        tiles: [],
      })
      const flag: Flag = { ...stored.flag, usageDashboard: dashboard.id }
      const change = this.#begin(context)
      change.putFlag(flag)
      change.store()
      return flag
    })
  }

  /**
   * Returns a page of the activity log, newest first: the changes of one flag, or of all flags of a project. The page
   * begins after the newest `offset` entries. Returns null if there is no such flag. Throws `DamagedRecordError`.
   */
  activity(
    projectId: number,
    flagId: number | null,
    offset: number,
    limit: number,
  ): Entries | null {
    this.#environment.refresh()
    this.#cache.refresh()
    if (flagId !== null && this.#cache.project(projectId).stored(flagId) === null) return null
    const tables = activityTables(this.#environment)
    return listEntries(tables, projectId, flagId, offset, limit)
  }

  /** Returns the current flags of a project. They come from the cache unless something has changed. */
  flags(projectId: number): ProjectFlags {
    this.#environment.refresh()
    this.#cache.refresh()
    return this.#cache.project(projectId)
  }

  /**
   * Returns a function that checks whether the experiments of the project allow a change of a flag. The function uses
   * the flags as they were at the last call of `flags`.
   */
  checkFor(projectId: number): FlagChangeCheck {
    const flags = this.#cache.project(projectId)
    // The time 0 is never used: only changes need the time, and experiments are only read here.
    const experiments = new ExperimentStore(this.#savedEnvironment(0))
    return (before, after) => {
      if (before !== null) experiments.requireFlag(before, after)
      else for (const { flag } of flags.deletedWithKey(after.key)) requireUnused(flag)
    }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  /** Creates a flag within the current transaction, under the next change number of the project. */
  #createNow(context: FlagChangeContext, body: JsonObject): Flag {
    const change = this.#begin(context)
    const flag = this.#create(change, context, body)
    change.store()
    return flag
  }

  /**
   * Changes a flag within the current transaction, under the next change number of the project. Throws before it writes
   * anything.
   */
  #changeNow(
    context: FlagChangeContext,
    id: number,
    body: JsonObject,
    isKeyRequired: boolean,
  ): Flag {
    const change = this.#begin(context)
    const flag = this.#update(change, context, { id, body, isKeyRequired, causeId: null })
    change.store()
    return flag
  }

  #begin({ projectId }: FlagChangeContext): ProjectChange {
    return new ProjectChange(this.#environment, projectId, this.#cache.project(projectId))
  }

  #create(change: ProjectChange, context: FlagChangeContext, body: JsonObject): Flag {
    const { projectId, actor, nowMs } = context
    const { flags } = change
    const draft = draftFlag(body, this.#repository(context, flags))
    const removed = flags.deletedWithKey(draft.key)
    for (const { flag } of removed) {
      requireUnused(flag)
      change.removeFlag(flag)
    }
    const left = flags.size - removed.length
    const detail = `A project may have at most ${FLAGS_MAX} flags. Reuse the key of a deleted flag.`
    demand(left < FLAGS_MAX, 'invalid_input', detail)
    const flag: Flag = {
      ...draft,
      id: this.#nextNumber('flag_id'),
      projectId,
      version: 1,
      createdById: authorOf(actor),
      lastModifiedById: authorOf(actor),
      updatedAtMs: nowMs,
    }
    requireRoom(flags, null, flag)
    change.putFlag(flag)
    change.log(entryOf('created', flag, [], noteOfChange(body), context))
    return flag
  }

  #update(
    change: ProjectChange,
    context: FlagChangeContext,
    { id, body, isKeyRequired, causeId }: FlagUpdate,
  ): Flag {
    const { nowMs, actor } = context
    const { flags } = change
    const before = change.stored(id)?.flag
    demand(before !== undefined, 'not_found', UNKNOWN_FLAG)
    const draft: FlagDraft = changeFlag(
      before,
      body,
      isKeyRequired,
      this.#repository(context, flags),
    )
    const flag: Flag = {
      ...before,
      ...draft,
      version: before.version + 1,
      lastModifiedById: authorOf(actor),
      updatedAtMs: nowMs,
    }
    requireRoom(flags, before, flag)
    this.#experiments(context).flagChanges(before, flag, causeId)
    change.putFlag(flag)
    const note = noteOfChange(body)
    const changes = changesBetween(before, flag)
    if (changes.length > 0) {
      change.log(entryOf(activityOf(before, flag), flag, changes, note, context))
    }
    return flag
  }

  #repository({ projectId, cohort, nowMs }: FlagPlanContext, flags: ProjectFlags): FlagRepository {
    return {
      flags: flags.flags,
      flagById: (id) => flags.stored(id)?.flag ?? null,
      flagByKey: (key) => flags.byKey(key),
      cohort,
      hasDashboard: (id) => {
        const isNumber = Number.isInteger(id) && id > 0 && id < 2 ** 32
        const key = isNumber ? pairKey(projectId, id) : null
        return key !== null && DASHBOARDS.some((name) => this.#table(name).doesExist(key))
      },
      nowMs,
    }
  }

  #write<Changed extends { readonly id: number }>(
    context: FlagChangeContext,
    action: () => Changed,
  ): Changed {
    return this.#writeAll(context, action, ({ id }) => [id])
  }

  /**
   * Runs changes, stores an audit entry for each changed object and raises the version number of the environment. If a
   * change is refused, nothing is written. `idsOf` returns the numbers of the changed objects from the result of
   * `action`.
   */
  #writeAll<Result>(
    { audit }: FlagChangeContext,
    action: () => Result,
    idsOf: (result: Result) => readonly number[],
  ): Result {
    if (this.#hasFailed) throw refusal('flags_write_failed')
    let isComplete = false
    try {
      return this.#environment.write(() => {
        this.#cache.refresh()
        const result = action()
        if (audit !== undefined) {
          const entries = idsOf(result).map((id) => ({
            ...audit,
            objectId: audit.objectId ?? String(id),
          }))
          putAuditEntries(this.#table('audit_log'), entries)
        }
        raiseCount(this.#table('state'), 'version')
        isComplete = true
        return result
      })
    } catch (error) {
      // If the commit has failed, it is unknown what was stored, so later changes are refused.
      this.#hasFailed = isComplete
      throw error
    }
  }

  #nextNumber(name: 'flag_id' | SavedNumber): number {
    return raiseCount(this.#table('state'), name)
  }

  /** Returns the store of saved objects, for use within the transaction of a change. */
  #saved(nowMs: number): SavedStore {
    return new SavedStore(this.#savedEnvironment(nowMs))
  }

  /** Returns the writer of experiments, for use within the transaction of a change. */
  #experiments({ projectId, actor, nowMs }: FlagChangeContext): ExperimentWriter {
    const userId = authorOf(actor)
    return new ExperimentWriter(this.#savedEnvironment(nowMs), { projectId, userId, nowMs })
  }

  #savedEnvironment(nowMs: number): SavedEnvironment {
    return {
      clock: { now: () => nowMs },
      table: (name) => this.#table(name),
      nextNumber: (name) => this.#nextNumber(name),
      save: (action) => action(),
    }
  }

  #table(name: FlagsTable): Table {
    return this.#environment.table(name)
  }
}

/** The flags as of the last `refreshIfChanged`, for one thread. Lookups do not access the disk. */
export class FlagDirectory {
  readonly #environment: Environment
  readonly #cache: FlagCache
  readonly #pending: PendingChanges

  /** Opens the store in `dataDir` and reads all flags. Throws `DamagedRecordError`. */
  constructor(dataDir: string) {
    this.#environment = openFlags(dataDir)
    this.#cache = new FlagCache(this.#environment)
    this.#pending = new PendingChanges(this.#environment)
    this.refreshIfChanged()
  }

  /**
   * Reads the changes that any process has made since the last call. Returns whether flags changed. If it throws
   * `DamagedRecordError`, the earlier flags are still returned. Costs one read if nothing changed, otherwise a read of
   * the changed flags.
   */
  refreshIfChanged(): boolean {
    this.#environment.refresh()
    return this.#cache.refresh().length > 0
  }

  /** The version number of the environment at the last refresh. */
  get version(): number {
    return this.#cache.version
  }

  /**
   * Returns all flags of a project that are not deleted, in the order of their numbers. Returns the same list until a
   * flag changes.
   */
  flagsOf(projectId: number): readonly Flag[] {
    return this.#cache.project(projectId).flags
  }

  /**
   * Returns the scheduled changes of all projects that have not been made yet. Costs one read if none of them has
   * changed.
   */
  pendingChanges(): readonly PendingChange[] {
    return this.#pending.current()
  }

  /** Returns the events of guards that may not be in the log yet. Costs one read if none of them has changed. */
  guardEvents(): readonly GuardEvent[] {
    return this.#pending.guardEvents()
  }

  /** Returns a flag of a project, deleted or not, or null. */
  flagById(projectId: number, id: number): Flag | null {
    return this.#cache.project(projectId).stored(id)?.flag ?? null
  }

  /** Returns the flag of a project that has this key and is not deleted, or null. */
  flagByKey(projectId: number, key: string): Flag | null {
    return this.#cache.project(projectId).byKey(key)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

/** A change of one flag. `causeId` is the number of the experiment that causes the change, or null. */
interface FlagUpdate {
  readonly id: number
  readonly body: JsonObject
  readonly isKeyRequired: boolean
  readonly causeId: number | null
}

/**
 * Writes the records of one change of a project's flags, and assigns change numbers and entry numbers. Call `store` at
 * the end, which stores the last numbers that were assigned.
 */
class ProjectChange {
  /** The flags of the project before the change. */
  readonly flags: ProjectFlags
  readonly #environment: Environment
  readonly #projectId: number
  /** The flags that this change has written so far, each with its change number. */
  readonly #written = new Map<number, { readonly flag: Flag; readonly change: number }>()
  #counters: ProjectCounters

  constructor(environment: Environment, projectId: number, flags: ProjectFlags) {
    this.flags = flags
    this.#environment = environment
    this.#projectId = projectId
    this.#counters = loadCounters(environment.table('flag_projects'), projectId)
  }

  /** Returns the current state of a flag, including what this change has written. */
  stored(id: number): { readonly flag: Flag; readonly change: number } | null {
    return this.#written.get(id) ?? this.flags.stored(id)
  }

  /** Returns the flag with a key, if it is not deleted. */
  byKey(key: string): Flag | null {
    const written = [...this.#written.values()].find(({ flag }) => flag.key === key)
    return written?.flag ?? this.flags.byKey(key)
  }

  putFlag(flag: Flag): void {
    const change = this.#count(flag.id)
    storeFlag(this.#environment.table('flags'), flag, change)
    this.#written.set(flag.id, { flag, change })
  }

  removeFlag(flag: Flag): void {
    this.#count(flag.id)
    this.#environment.table('flags').removeSync(pairKey(this.#projectId, flag.id))
    // The rights of roles to change this flag are removed with the flag; see role-store.ts.
    const access = this.#environment.table('role_access')
    if (removeRange(access, keysOf(this.#projectId, flag.id)) > 0) {
      raiseCount(this.#environment.table('state'), 'directory')
    }
  }

  log(activity: FlagActivity): void {
    this.#counters = { ...this.#counters, entry: this.#counters.entry + 1 }
    const { flagId } = activity
    const tables = activityTables(this.#environment)
    storeEntry(tables, this.#projectId, flagId, this.#counters.entry, activityJson(activity))
  }

  store(): void {
    putRecord(this.#environment.table('flag_projects'), numberKey(this.#projectId), this.#counters)
  }

  #count(flagId: number): number {
    const changes = this.#environment.table('flag_changes')
    const change = this.#counters.change + 1
    const last = this.stored(flagId)
    if (last !== null) changes.removeSync(pairKey(this.#projectId, last.change))
    putRecord(changes, pairKey(this.#projectId, change), flagId)
    this.#counters = { ...this.#counters, change }
    return change
  }
}

/** Returns the tables of the activity log of flags. Its entries have the form of the API. */
function activityTables(environment: Environment): EntryTables {
  return { entries: environment.table(ACTIVITY), items: environment.table('flag_activity_items') }
}

function openFlags(dataDir: string): Environment {
  // The environment is opened for writing even in a thread that only reads. If one thread opened it only for reading,
  // LMDB would refuse to open it for writing in another thread of the same process.
  return new Environment({ dataDir, name: FLAGS_ENVIRONMENT, tables: FLAGS_TABLES })
}

function activityOf(before: Flag, after: Flag): FlagActivity['activity'] {
  if (before.deleted === after.deleted) return 'updated'
  return after.deleted ? 'deleted' : 'restored'
}

function entryOf(
  activity: FlagActivity['activity'],
  flag: Flag,
  changes: FlagActivity['changes'],
  note: string | null,
  { actor, nowMs }: FlagChangeContext,
): FlagActivity {
  return {
    id: uuidV7(nowMs),
    activity,
    actor,
    flagId: flag.id,
    key: flag.key,
    changes,
    note,
    createdAt: timeText(nowMs),
  }
}

function authorOf({ userId }: Actor): number | null {
  return userId === 0 ? null : userId
}

/** Throws 400 `unique` if a deleted flag must not be removed, because experiments still count results under its key. */
function requireUnused({ id, key, experiments = [] }: Flag): void {
  const [experiment] = experiments
  const detail = `The key \`${key}\` belongs to the deleted flag ${id}, which experiment ${experiment} uses. Choose another key, or delete the experiment.`
  demand(experiment === undefined, 'unique', detail, 'key')
}

function requireRoom(flags: ProjectFlags, before: Flag | null, after: Flag): void {
  if (before?.filters === after.filters) return
  const own = before === null ? 0 : (flags.stored(before.id)?.filtersUnits ?? 0)
  const units = flags.filtersUnits - own + JSON.stringify(after.filters).length
  const detail = `The filters of all flags of a project may have at most ${FLAG_FILTERS_UNITS_MAX} characters of JSON. Put long lists into cohorts.`
  demand(units <= FLAG_FILTERS_UNITS_MAX, 'invalid_input', detail, 'filters')
}
