/**
 * All calls of threads in one table, name -> what runs, on which threads, and what it weighs, with the
 * types that follow from it. What a thread is asked is plain data, so that a table of another process could
 * answer it as well (ports/task-runner.ts).
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
import type { OrganizationOperation, OrganizationTask } from './organization-tasks.ts'
import { logRows, requireWanted } from './pages.ts'
import { ACTION_CALLS, PERSON_CALLS, TABLE_CALLS } from './person-calls.ts'
import type { TableQueries } from './person-table.ts'
import { PROCESS_CALLS } from './processing/process-calls.ts'
import { memoryOfPart } from './queries/packed-part.ts'
import {
  mergeQuery,
  type QueryTask,
  runQuery,
  runQueryPart,
  runSessionValues,
  type SessionValueTask,
} from './queries/query-tasks.ts'
import { memoryOfSaved } from './saved-tasks.ts'
import type { BlastRadiusTask, CheckTask, FlagCommandTask } from './tasks.ts'
import { checkUpload, memoryOfCheck } from './upload-check.ts'

/** Flags: changes and their log. */
export const FLAG_CALLS = {
  /** Changes a flag durably and answers its number. */
  changeFlag: short(({ flags }, task: FlagCommandTask) => flags.change(task)),
  /** The log of a flag, or of all (`flagId` null); null when there is no such flag. */
  flagActivity: page(
    ({ stores, writer }, projectId: number, flagId: number | null, offset: number, limit: number) =>
      logRows(writer, stores.flags.activity(projectId, flagId, offset, limit)),
    ([, , , limit]) => limit,
  ),
}

/** The copy of the catalogue that a machine of a cluster has. */
const CATALOGUE_CALLS = {
  applyChanges: short(({ catalogue }, set: PlacedChanges) => catalogue.apply(set)),
  replaceCatalogue: short(({ catalogue }, whole: WholeCopy) => catalogue.replace(whole)),
  wholeCatalogue: short(({ catalogue }) => catalogue.whole()),
}

/** Counts of persons or groups; the pool asks for one piece after the other. */
const COUNT_CALLS = {
  /** Whom the condition in a body would reach. */
  blastRadiusPiece: long((tools, task: BlastRadiusTask, state?: CountState<ReachTally>) => {
    requireWanted(tools.cancelled)
    return tools.stores.flags.blastRadius(task, state)
  }),
  /** Whose value the change in a body would flip. */
  rehearsePiece: long((tools, task: BlastRadiusTask, state?: CountState<RehearsalTally>) => {
    requireWanted(tools.cancelled)
    return tools.stores.flags.rehearse(task, state)
  }),
}

/** Calls that take and answer what who asks has and wants; the others are asked by the pool. */
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
  ...FLAG_CALLS,
}

/** Every call by its name. */
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
  queryMerge: long(mergeQuery, 'analytics', (outcome) =>
    outcome.kind === 'answer' ? [outcome.text.buffer] : [],
  ),
  ...APPEND_CALLS,
  ...PROCESS_CALLS,
  /** Checks a body that is too much for the front. */
  check: short((stores, task: CheckTask) => checkUpload(stores, task), 'checkers', memoryOfCheck),
}

/**
 * Calls that need what events have led to: a machine without it asks one that has it. The others need the catalogue
 * or this process.
 */
export const STORE_CALLS: ReadonlySet<string> = new Set([
  ...Object.keys({ ...EVENT_CALLS, ...DROPPED_CALLS, ...FATE_CALLS, ...ERASURE_CALLS }),
  ...Object.keys({ ...DEFINITION_CALLS, ...PERSON_CALLS, ...ACTION_CALLS, ...TABLE_CALLS }),
  ...Object.keys({ ...COUNT_CALLS, ...VALUE_CALLS }),
  // Conditions may name cohorts.
  ...['changeFlag', 'analytics', 'query', 'sessionValues'],
])

/** Of them, those that are about all projects of a store. */
const CALLS_OF_STORES: ReadonlySet<string> = new Set(['listLetters', 'retainedProjects'])

/** The project that a call of `STORE_CALLS` is about; null: those of a store together. */
export function projectOf(name: string, [first]: readonly unknown[]): number | null {
  if (CALLS_OF_STORES.has(name)) return null
  // All others begin with the project, or with what names it.
  return typeof first === 'number' ? first : (first as { readonly projectId: number }).projectId
}

type CallTable = typeof CALLS
/** Name of a call. */
export type CallName = keyof CallTable

type RunOf<Entry> = Entry extends { readonly run: (tools: never, ...values: infer V) => infer R }
  ? { readonly values: V; readonly result: Awaited<R> }
  : never

/** What each call takes and answers. */
export type Calls = { readonly [Name in CallName]: RunOf<CallTable[Name]> }

/**
 * The caller's side of a table of calls: a method for each, which rejects with the `ServiceError` that the
 * call is refused with, 503 when too many wait. That of a page also takes how the page is wanted.
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
/** Calls about what became of events. */
export type FateQueries = CallerOf<typeof FATE_CALLS>
/** Calls about events that were stored just now. */
export type LiveQueries = CallerOf<typeof LIVE_CALLS>
/** Calls about erasures and retention. */
export type ErasureQueries = CallerOf<typeof ERASURE_CALLS>
/** Calls about the names of events and properties, and about values, which are given up when the client leaves. */
export type DefinitionQueries = CallerOf<typeof DEFINITION_CALLS> & {
  eventValues(query: EventValueQuery, onLeave: PageWish['onLeave']): Promise<readonly Offered[]>
  sessionValues(task: SessionValueTask, onLeave: PageWish['onLeave']): Promise<readonly Offered[]>
}
/** Calls about persons, groups and cohorts. */
export type PersonQueries = CallerOf<typeof PERSON_CALLS> & Pick<TableQueries, 'personTable'>
/** Calls about actions. */
export type ActionQueries = CallerOf<typeof ACTION_CALLS>
/** Calls about flags. */
export type FlagQueries = CallerOf<typeof FLAG_CALLS> & FlagCounts

/** Counts for flags, which are given up when the client leaves. */
export interface FlagCounts {
  /** Counts whom the condition in a body would reach. */
  blastRadius(task: BlastRadiusTask, onLeave: PageWish['onLeave']): Promise<BlastRadius>
  /** Tells whose value the change in a body would flip. */
  rehearseFlag(task: BlastRadiusTask, onLeave: PageWish['onLeave']): Promise<RehearsalAnswer>
}

/** Queries of the query route. */
export interface QueryAnswers {
  /**
   * The finished text of an answer. `onCancel` is told what to call when nobody waits any more. Rejects with
   * `ServiceError`: as `runQuery`, and 503 when too many wait.
   */
  answer(task: QueryTask, onCancel: PageWish['onLeave']): Promise<Uint8Array<ArrayBuffer>>
}
