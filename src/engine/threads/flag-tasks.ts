/**
 * The work of pool threads for feature flags: changes, their activity log, and counts of the persons that a condition
 * would match. Bodies of requests arrive as bytes and are parsed here, because parsing a body may take long.
 */
import { ServiceError } from '../../base/errors.ts'
import { given, isObject, type JsonObject } from '../../base/json.ts'
import { JSON_DEPTH_MAX } from '../../base/limits.ts'
import type { Entries } from '../../base/pages.ts'
import { SYSTEM_ACTOR } from '../../rules/access/user.ts'
import { parseJsonText } from '../../rules/capture/json-text.ts'
import type { FlagChangeContext } from '../../rules/flags/edit/flag-changes.ts'
import { bodyOfPortable, namesIn } from '../../rules/flags/edit/portable-flag.ts'
import type { RehearsalTally } from '../../rules/flags/rehearsal.ts'
import type { Moved, ScheduledChange } from '../../rules/flags/schedule/scheduled-change.ts'
import type { Flag, FlagSet } from '../../rules/flags/types.ts'
import { FlagStore } from '../../store/catalog/flag-store.ts'
import { DecisionSourceReader } from '../../store/identity/decision-sources.ts'
import {
  type BlastRadius,
  type CountPiece,
  type CountState,
  countReached,
  type Piece,
  type ReachTally,
  type RehearsalAnswer,
  rehearse,
  sampleOf,
} from './blast-radius.ts'
import {
  type FlagPlanTask,
  type PlanAnswer,
  type PlanState,
  planPiece,
  requirePlanned,
} from './flag-plans.ts'
import { type FlagsFileChunk, type FlagsFileTask, flagsFileChunk } from './flags-file.ts'
import type {
  BlastRadiusTask,
  FlagApplyTask,
  FlagCommandTask,
  FlagMoveTask,
  ScheduleTask,
} from './tasks.ts'

/** The stores that one thread needs for flags. Each is opened when it is first used. */
export class FlagTasks {
  readonly #dataDir: string
  #store: FlagStore | undefined
  #definitions: DecisionSourceReader | undefined

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  /**
   * Changes a flag or an experiment durably and returns its number. Throws the errors of `FlagStore`, and 400 for an
   * invalid body.
   */
  change({ projectId, actor, nowMs, command, audit }: FlagCommandTask): { readonly id: number } {
    const store = this.#openStore()
    const context = this.#context({ projectId, actor, nowMs, audit })
    switch (command.kind) {
      case 'create':
        return idOf(store.create(context, readBody(command.body)))
      case 'update': {
        const { id, body, isKeyRequired } = command
        return idOf(store.update(context, id, readBody(body), isKeyRequired))
      }
      case 'add_dashboard':
        return idOf(store.addDashboard(context, command.id))
      case 'experiment':
        return idOf(store.changeExperiment(context, command.change))
    }
  }

  /** Creates, modifies or removes a scheduled change. Throws the errors of `ScheduledChanges`. */
  schedule({ command, ...task }: ScheduleTask): ScheduledChange {
    const { scheduled } = this.#openStore()
    const context = this.#context(task)
    switch (command.kind) {
      case 'create':
        return scheduled.create(context, command.flagId, command.request, command.copy)
      case 'modify':
        return scheduled.modify(context, command.id, command.request)
      case 'remove':
        return scheduled.remove(context, command.id)
    }
  }

  /** Makes a scheduled change if it is due, or stops a ramp. Throws 503. */
  move({ move, ...task }: FlagMoveTask): Moved {
    const { scheduled } = this.#openStore()
    return scheduled.move(this.#context({ ...task, actor: SYSTEM_ACTOR }), move)
  }

  /** Removes an event of a guard from the flag store. Call it after the event was written to the log. Throws 503. */
  removeGuardEvent(projectId: number, number: number, nowMs: number): void {
    const { scheduled } = this.#openStore()
    const context = this.#context({ projectId, nowMs, actor: SYSTEM_ACTOR })
    scheduled.removeGuardEvent(context, number)
  }

  /** Returns the scheduled changes of a project, or of one of its flags, newest first. */
  scheduledChanges(projectId: number, flagId: number | null): readonly ScheduledChange[] {
    return this.#openStore().scheduled.list(projectId, flagId)
  }

  /** Returns a scheduled change of a project, or null. */
  scheduledChange(projectId: number, id: number): ScheduledChange | null {
    return this.#openStore().scheduled.get(projectId, id)
  }

  /**
   * Returns the log entries of a flag, or of all flags if `flagId` is null, newest first. Skips the newest `offset`
   * entries. Returns null if the flag does not exist.
   */
  activity(
    projectId: number,
    flagId: number | null,
    offset: number,
    limit: number,
  ): Entries | null {
    return this.#openStore().activity(projectId, flagId, offset, limit)
  }

  /**
   * Runs one part of a count of the persons or groups that the condition in a body would match. Throws 400, and 503 if
   * the whole count takes too long.
   */
  blastRadius(
    task: BlastRadiusTask,
    state?: CountState<ReachTally>,
  ): CountPiece<ReachTally, BlastRadius> {
    const { body, nowMs } = task
    return countReached(readBody(body), this.#set(task), this.#openDefinitions(), nowMs, state)
  }

  /**
   * Runs one part of a rehearsal: counts the persons or groups for which the `filters` and `active` in a body would
   * alter the value of a flag. `id` or `key` in the body names the flag. An unknown key stands for a new flag. Throws
   * 400, 404 `not_found`, and 503 if the whole count takes too long.
   */
  rehearse(
    task: BlastRadiusTask,
    state?: CountState<RehearsalTally>,
  ): CountPiece<RehearsalTally, RehearsalAnswer> {
    const { projectId, nowMs } = task
    const body = readBody(task.body)
    const { id, key, sample, filters, active } = body
    const store = this.#openStore()
    const set = this.#set(task)
    const isKnown = typeof id === 'number' || typeof key === 'string'
    if (!isKnown) {
      const detail = '`id` or `key` is missing. Send the number or the key of a flag.'
      throw new ServiceError('required', detail, { attr: 'id' })
    }
    const sampleMax = sampleOf(sample)
    const number =
      typeof id === 'number' ? id : (store.flags(projectId).byKey(String(key))?.id ?? null)
    const context = { projectId, nowMs, cohort: (one: number) => set.cohorts.get(one) ?? null }
    const changes = given({ filters, active, ...(number === null ? { key } : {}) })
    const plan = store.plan(context, number, changes)
    return rehearse(plan, sampleMax, set, this.#openDefinitions(), nowMs, state)
  }

  /** Returns the next part of the file with all flags of a project. */
  fileChunk(task: FlagsFileTask): FlagsFileChunk {
    return flagsFileChunk(task, this.#set(task))
  }

  /** Runs one part of a plan. Throws 503 if it takes too long. */
  plan(task: FlagPlanTask, state?: PlanState): Piece<PlanState, PlanAnswer> {
    const set = this.#set(task)
    const check = this.#openStore().checkFor(task.projectId)
    return planPiece(task, set, this.#openDefinitions(), check, state)
  }

  /**
   * Changes several flags in one transaction and returns their numbers. Throws 409 `conflict` if a flag no longer has
   * the version that the plan contains, 400, and the errors of `FlagStore`.
   */
  apply(task: FlagApplyTask): { readonly ids: readonly number[] } {
    const { projectId, actor, nowMs, audit, flags, versions } = task
    const store = this.#openStore()
    const { cohorts, groupTypes, timezone } = this.#set(task)
    const cohort = (id: number) => cohorts.get(id) ?? null
    const changed = store.apply(
      { projectId, actor, nowMs, cohort, audit },
      (stored) => {
        const set = { projectId, timezone, flags: stored, cohorts, groupTypes }
        return requirePlanned(flags, versions, set, nowMs)
      },
      (flag, flagNumber) => bodyOfPortable(flag, namesIn({ cohorts, groupTypes }, flagNumber)).body,
    )
    return { ids: changed.map(({ id }) => id) }
  }

  async close(): Promise<void> {
    await this.#store?.close()
    await this.#definitions?.close()
  }

  #set({ projectId, timezone }: Pick<BlastRadiusTask, 'projectId' | 'timezone'>): FlagSet {
    const definitions = this.#openDefinitions()
    return {
      projectId,
      timezone,
      flags: this.#openStore().flags(projectId).flags,
      cohorts: definitions.cohorts(projectId),
      groupTypes: definitions.groupTypes(projectId),
    }
  }

  #context(change: Omit<FlagChangeContext, 'cohort'>): FlagChangeContext {
    const cohorts = this.#openDefinitions().cohorts(change.projectId)
    return { ...change, cohort: (id) => cohorts.get(id) ?? null }
  }

  #openStore(): FlagStore {
    this.#store ??= new FlagStore(this.#dataDir)
    return this.#store
  }

  #openDefinitions(): DecisionSourceReader {
    this.#definitions ??= new DecisionSourceReader(this.#dataDir)
    this.#definitions.refresh()
    return this.#definitions
  }
}

function idOf({ id }: Pick<Flag, 'id'>): { readonly id: number } {
  return { id }
}

/**
 * Returns the members of a JSON body. An empty body has no members. Throws 400 `parse_error`, and 400 `invalid_input`
 * if the body is not an object or is nested too deeply.
 */
function readBody(body: Uint8Array): JsonObject {
  const hasMark = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf
  const bytes = hasMark ? body.subarray(3) : body
  if (bytes.length === 0) return {}
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    throw new ServiceError('parse_error', 'The body is not valid JSON in UTF-8.', { cause })
  }
  let value: unknown
  try {
    value = parseJsonText(bytes, Number.POSITIVE_INFINITY, 'all')
  } catch (cause) {
    const detail = `The JSON is nested more than ${JSON_DEPTH_MAX} levels deep. Send it with fewer levels.`
    throw new ServiceError('invalid_input', detail, { cause })
  }
  if (!isObject(value)) throw new ServiceError('invalid_input', 'The body must be a JSON object.')
  return value
}
