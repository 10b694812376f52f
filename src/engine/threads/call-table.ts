/**
 * The table of all thread calls, and the types that are derived from it. For each name, it contains the function, the
 * kind of thread that runs the function and, for pages, the weight (the rank among waiting calls, see long-reads.ts).
 * Arguments and results are plain data, so that another process can answer calls too (ports/task-runner.ts).
 */
import type { PageWish } from '../../base/pages.ts'
import type { PlacedChanges, WholeCopy } from '../../ports/change-log.ts'
import type { EventValueQuery, Offered } from '../../rules/events/event-values.ts'
import type { RehearsalTally } from '../../rules/flags/rehearsal.ts'
import { runAnalytics } from './analytics.ts'
import { APPEND_CALLS } from './appending/append-calls.ts'
import type { BlastRadius, CountState, ReachTally, RehearsalAnswer } from './blast-radius.ts'
import { long, page, short } from './call-kinds.ts'
import { DEFINITION_CALLS, VALUE_CALLS } from './definition-calls.ts'
import {
  DROPPED_CALLS,
  ERASURE_CALLS,
  EVENT_CALLS,
  FATE_CALLS,
  LIVE_CALLS,
  STATUS_CALLS,
} from './event-calls.ts'
import type { FlagPlanTask, PlanAnswer, PlanState } from './flag-plans.ts'
import type { OrganizationOperation, OrganizationTask } from './organization-tasks.ts'
import { logRows, requireWanted } from './pages.ts'
import { ACTION_CALLS, PERSON_CALLS, TABLE_CALLS } from './person-calls.ts'
import type { TableQueries } from './person-table.ts'
import { PROCESS_CALLS } from './processing/process-calls.ts'
import { memoryOfPart } from './queries/packed-part.ts'
import {
  type ExposedTask,
  mergeQuery,
  type QueryTask,
  runCohortMembers,
  runExposedMembers,
  runQuery,
  runQueryPart,
  runSessionValues,
  type SessionValueTask,
} from './queries/query-tasks.ts'
import { memoryOfSaved } from './saved-tasks.ts'
import type {
  BlastRadiusTask,
  CheckTask,
  FlagApplyTask,
  FlagCommandTask,
  FlagMoveTask,
  ScheduleTask,
} from './tasks.ts'
import { checkUpload, memoryOfCheck } from './upload-check.ts'

/** Calls that change flags, and their activity log. */
export const FLAG_CALLS = {
  /** Changes a flag or an experiment durably and returns its number. */
  changeFlag: short(({ flags }, task: FlagCommandTask) => flags.change(task)),
  /** Changes several flags durably, all or none of them, and returns their numbers. */
  applyFlags: short(({ flags }, task: FlagApplyTask) => flags.apply(task)),
  /**
   * Returns the activity log of a flag, or of all flags if `flagId` is null. Returns null if the flag does not exist.
   */
  flagActivity: page(
    ({ stores, writer }, projectId: number, flagId: number | null, offset: number, limit: number) =>
      logRows(writer, stores.flags.activity(projectId, flagId, offset, limit)),
    ([, , , limit]) => limit,
  ),
  /** Creates, modifies or removes a scheduled change, and returns it. */
  scheduleFlag: short(({ flags }, task: ScheduleTask) => flags.schedule(task)),
  /** Makes a scheduled change if it is still due, or stops a ramp. */
  moveFlag: short(({ flags }, task: FlagMoveTask) => flags.move(task)),
  /** Removes an event of a guard from the flag store. Call it after the event was written to the log. */
  removeGuardEvent: short(({ flags }, projectId: number, number: number, nowMs: number) =>
    flags.removeGuardEvent(projectId, number, nowMs),
  ),
  /** Returns the scheduled changes of a project, or of one of its flags, newest first. */
  scheduledChanges: short(({ flags }, projectId: number, flagId: number | null) =>
    flags.scheduledChanges(projectId, flagId),
  ),
  /** Returns a scheduled change, or null. */
  scheduledChange: short(({ flags }, projectId: number, id: number) =>
    flags.scheduledChange(projectId, id),
  ),
}

/** Calls about the local copy of the catalogue on a machine of a cluster. */
const CATALOGUE_CALLS = {
  applyChanges: short(({ catalogue }, set: PlacedChanges) => catalogue.apply(set)),
  replaceCatalogue: short(({ catalogue }, whole: WholeCopy) => catalogue.replace(whole)),
  wholeCatalogue: short(({ catalogue }) => catalogue.whole()),
}

/** Calls about cohorts whose members are calculated. */
const COHORT_CALLS = {
  /** Returns the cohorts of all projects whose members are calculated. */
  calculatedCohorts: short(({ reader }) => reader.persons().calculatedCohorts()),
  /**
   * Calculates the members of a cohort. Returns how they differ from the stored members, or null if there is no such
   * cohort.
   */
  cohortMembers: long(runCohortMembers, 'analytics', (changes) =>
    changes === null ? [] : [changes.added.buffer, changes.removed.buffer],
  ),
}

/** Counts of persons or groups. The pool requests the parts of a count one after the other. */
const COUNT_CALLS = {
  /** Counts the persons or groups that the condition in a body would match. */
  blastRadiusPiece: long((tools, task: BlastRadiusTask, state?: CountState<ReachTally>) => {
    requireWanted(tools.canceled)
    return tools.stores.flags.blastRadius(task, state)
  }),
  /** Counts the persons or groups for which the change in a body would alter the value of a flag. */
  rehearsePiece: long((tools, task: BlastRadiusTask, state?: CountState<RehearsalTally>) => {
    requireWanted(tools.canceled)
    return tools.stores.flags.rehearse(task, state)
  }),
  /** Plans the change of several flags, and counts the persons or groups for which it would alter the values. */
  planPiece: long((tools, task: FlagPlanTask, state?: PlanState) => {
    requireWanted(tools.canceled)
    return tools.stores.flags.plan(task, state)
  }),
}

/** The calls that callers can make directly. All other calls are made by methods of the pool. */
export const QUERIES = {
  ...EVENT_CALLS,
  ...DROPPED_CALLS,
  ...LIVE_CALLS,
  ...FATE_CALLS,
  ...STATUS_CALLS,
  ...ERASURE_CALLS,
  ...DEFINITION_CALLS,
  ...PERSON_CALLS,
  ...ACTION_CALLS,
  ...COHORT_CALLS,
  ...FLAG_CALLS,
}

/** All calls by name. */
export const CALLS = {
  ...QUERIES,
  ...TABLE_CALLS,
  ...CATALOGUE_CALLS,
  ...COUNT_CALLS,
  ...VALUE_CALLS,
  organization: short(
    ({ organization }, task: OrganizationTask<OrganizationOperation>) => organization.run(task),
    'readers',
    memoryOfSaved,
  ),
  analytics: long(runAnalytics, 'analytics'),
  query: long(runQuery, 'analytics', (outcome) => {
    if (outcome.kind === 'answer') return [outcome.text.buffer]
    return outcome.kind === 'divide' && outcome.part ? outcome.part.found.flatMap(memoryOfPart) : []
  }),
  queryPart: long(runQueryPart, 'analytics', ({ found }) => found.flatMap(memoryOfPart)),
  sessionValues: long(runSessionValues, 'analytics'),
  exposedMembers: long(runExposedMembers, 'analytics', ({ buffer }) => [buffer]),
  queryMerge: long(mergeQuery, 'analytics', (outcome) =>
    outcome.kind === 'answer' ? [outcome.text.buffer] : [],
  ),
  ...APPEND_CALLS,
  ...PROCESS_CALLS,
  /** Checks the body of a request that is too large to be checked on the main thread. */
  check: short((stores, task: CheckTask) => checkUpload(stores, task), 'checkers', memoryOfCheck),
}

/**
 * The calls that change flags. They need the store of events, which contains the cohorts that conditions may refer to.
 */
export const FLAG_CHANGES: ReadonlySet<string> = new Set([
  'changeFlag',
  'applyFlags',
  'scheduleFlag',
  'moveFlag',
  'removeGuardEvent',
])

/**
 * The calls that need stored events. A machine that does not store the events asks a machine that does. All other calls
 * need only the catalogue or this process.
 */
export const STORE_CALLS: ReadonlySet<string> = new Set([
  ...Object.keys({ ...EVENT_CALLS, ...DROPPED_CALLS, ...FATE_CALLS, ...ERASURE_CALLS }),
  ...Object.keys({ ...DEFINITION_CALLS, ...PERSON_CALLS, ...ACTION_CALLS, ...TABLE_CALLS }),
  ...Object.keys({ ...COUNT_CALLS, ...VALUE_CALLS, ...COHORT_CALLS }),
  ...FLAG_CHANGES,
  'analytics',
  'query',
  'sessionValues',
  'exposedMembers',
])

/** The calls in `STORE_CALLS` that concern all projects of a store. */
const CALLS_OF_STORES: ReadonlySet<string> = new Set([
  'listLetters',
  'retainedProjects',
  'calculatedCohorts',
])

/** Returns the project that a call of `STORE_CALLS` is about, or null if it is about all projects of a store. */
export function projectOf(name: string, [first]: readonly unknown[]): number | null {
  if (CALLS_OF_STORES.has(name)) return null
  // The first argument of any other call is a project number, or an object that contains one.
  return typeof first === 'number' ? first : (first as { readonly projectId: number }).projectId
}

type CallTable = typeof CALLS
/** The name of a call. */
export type CallName = keyof CallTable

type RunOf<Entry> = Entry extends { readonly run: (tools: never, ...values: infer V) => infer R }
  ? { readonly values: V; readonly result: Awaited<R> }
  : never

/** The arguments and the result of each call. */
export type Calls = { readonly [Name in CallName]: RunOf<CallTable[Name]> }

/**
 * The methods with which callers make the calls of a table, one for each call. A method rejects with a `ServiceError`
 * if the call is refused, for example with 503 if too many calls wait. The method of a call for a page also takes a
 * `PageWish`.
 */
export type CallerOf<Table> = {
  readonly [Name in keyof Table]: (
    ...values: Table[Name] extends { readonly kind: 'page' }
      ? [...values: RunOf<Table[Name]>['values'], wish: PageWish]
      : RunOf<Table[Name]>['values']
  ) => Promise<RunOf<Table[Name]>['result']>
}

/** Calls about events. */
export type EventQueries = CallerOf<typeof EVENT_CALLS>
/** Exports of events. */
export type ExportQueries = Pick<TableQueries, 'eventExport'>
/** Calls about events that were not stored. */
export type DroppedQueries = CallerOf<typeof DROPPED_CALLS>
/** Calls about the disk. */
export type StatusQueries = CallerOf<typeof STATUS_CALLS>
/** Calls about the fate of events. */
export type FateQueries = CallerOf<typeof FATE_CALLS>
/** Calls about events that have just been stored. */
export type LiveQueries = CallerOf<typeof LIVE_CALLS>
/** Calls about erasures and retention. */
export type ErasureQueries = CallerOf<typeof ERASURE_CALLS>
/**
 * Calls about the names of events and properties, and about values of properties. Calls about values are canceled when
 * the client leaves.
 */
export type DefinitionQueries = CallerOf<typeof DEFINITION_CALLS> & {
  eventValues(query: EventValueQuery, onLeave: PageWish['onLeave']): Promise<readonly Offered[]>
  sessionValues(task: SessionValueTask, onLeave: PageWish['onLeave']): Promise<readonly Offered[]>
}
/** Calls about persons, groups and cohorts. */
export type PersonQueries = CallerOf<typeof PERSON_CALLS> & Pick<TableQueries, 'personTable'>
/** Calls about cohorts whose members are calculated. */
export type CohortQueries = CallerOf<typeof COHORT_CALLS>
/** Calls about the persons who were exposed to experiments. They are canceled when the client leaves. */
export interface ExposureQueries {
  /** Returns a distinct ID number of each person who was exposed to an experiment. */
  exposedMembers(task: ExposedTask, onLeave: PageWish['onLeave']): Promise<Uint32Array<ArrayBuffer>>
}
/** Calls about actions. */
export type ActionQueries = CallerOf<typeof ACTION_CALLS>
/** Calls about flags. */
export type FlagQueries = CallerOf<typeof FLAG_CALLS> & FlagCounts & Pick<TableQueries, 'flagsFile'>

/** Calls that count persons or groups for flags. A call is canceled when its client leaves. */
export interface FlagCounts {
  /** Counts the persons or groups that the condition in a body would match. */
  blastRadius(task: BlastRadiusTask, onLeave: PageWish['onLeave']): Promise<BlastRadius>
  /** Counts the persons or groups for which the change in a body would alter the value of a flag, with examples. */
  rehearseFlag(task: BlastRadiusTask, onLeave: PageWish['onLeave']): Promise<RehearsalAnswer>
  /** Plans the change of several flags. */
  planFlags(task: FlagPlanTask, onLeave: PageWish['onLeave']): Promise<PlanAnswer>
}

/** Queries of the query route. */
export interface QueryAnswers {
  /**
   * Resolves with the finished text of an answer. `onCancel` receives a function to call when the client no longer
   * waits. Rejects with the errors of `runQuery`, and with 503 if too many queries wait.
   */
  answer(task: QueryTask, onCancel: PageWish['onLeave']): Promise<Uint8Array<ArrayBuffer>>
}
