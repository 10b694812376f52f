/**
 * Runs queries on analytics threads. A query sees the store as it was at one moment, has a time limit, and is canceled
 * when nobody waits for it any more. The answer is its final text, which the main thread sends unchanged.
 */
import { ALWAYS } from '../../../rules/analytics/date-range.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import type { ExperimentDefinition } from '../../../rules/experiments/experiment-definition.ts'
import { actionSteps } from '../../../rules/filters/actions.ts'
import type { CohortCalculation } from '../../../rules/persons/cohort-shapes.ts'
import { isPersonUuid } from '../../../rules/persons/person-uuid.ts'
import { type AnswerFormat, answerText } from '../../../rules/queries/answer-formats.ts'
import { type MemberChanges, memberChanges } from '../../../rules/queries/cohort-members.ts'
import { exposedMembers } from '../../../rules/queries/experiments/exposed-members.ts'
import { divisionOf, type PlannedQuery, planQuery } from '../../../rules/queries/kinds.ts'
import type { EventRowSource, QueryContext, QueryShard } from '../../../rules/queries/query-kind.ts'
import { sessionValues } from '../../../rules/queries/web/session-values.ts'
import type { LongTools } from '../call-kinds.ts'
import {
  DIVIDED_COUNTS_EVENTS_MIN,
  DIVIDED_EVENTS_MIN,
  DIVIDED_SIMPLE_EVENTS_MIN,
} from '../limits.ts'
import { type PackedPart, packPart, unpackPart } from './packed-part.ts'
import { queryLimits } from './query-limits.ts'
import { foundInPart, type PartTools } from './query-parts.ts'
import { wholePart } from './remembered-parts.ts'
import { WorkingMemory } from './working-memory.ts'

/**
 * The smallest number of events for which a query is divided among threads, by the work that the query does for each
 * event.
 */
const DIVIDED_FROM = {
  counts: DIVIDED_COUNTS_EVENTS_MIN,
  simple: DIVIDED_SIMPLE_EVENTS_MIN,
  much: DIVIDED_EVENTS_MIN,
}

/** The settings of a project that queries use, as they are stored. */
type ProjectRules = 'testAccountFilters' | 'pathCleaningFilters' | 'channelTypeRules'

type QueryFacts = Pick<QueryContext, 'projectId' | 'timezone' | 'nowMs' | ProjectRules> & {
  /** How many milliseconds of the query's time limit other threads have already used. */
  readonly spentMs?: number
  /**
   * The experiment that the query is about, as it is stored. Undefined if the query is not about an experiment, or if
   * the experiment does not exist.
   */
  readonly experiment?: ExperimentDefinition | undefined
}

/** A query about a project, as plain data for a thread. */
export interface QueryTask extends QueryFacts {
  /** The query as the client sent it. */
  readonly query: unknown
  readonly format: AnswerFormat
  /**
   * `again`: a client has sent the query before. `ahead`: no client waits, and only a cached result is to be refreshed.
   */
  readonly asked?: 'again' | 'ahead'
}

/** Tells a thread which part to compute if the query is divided. Used if a query is sent to all threads at once. */
export interface QueryTurn {
  readonly index: number
  readonly count: number
  /** True for the thread that answers the query if it is not divided. */
  readonly isAnswerer: boolean
}

/**
 * The outcome of a query:
 * - `answer`: the finished answer.
 * - `divide`: how to divide the query, with the part that was requested.
 * - `forgotten`: the query was only to be refreshed, but this thread has cached nothing for it.
 * - `nothing`: another thread answers the query.
 */
export type QueryOutcome =
  | {
      readonly kind: 'answer'
      readonly text: Uint8Array<ArrayBuffer>
      /**
       * The time, in milliseconds since 1970, until which the answer stays valid as long as nothing is written. Only
       * the time that the answer contains must be updated. 0 if the answer may change at any time.
       */
      readonly sameUntilMs: number
    }
  | { readonly kind: 'divide'; readonly by: EventPart['by']; readonly part?: QueryPart }
  | { readonly kind: 'forgotten' }
  | { readonly kind: 'nothing' }

/** The result of one part of a query, and the state of the store from which it was computed. */
export interface QueryPart {
  readonly state: string
  /**
   * True if the part depends only on the events and on which person each event belongs to, and not on properties of
   * persons.
   */
  readonly isLasting: boolean
  /**
   * The results of the pieces of the part. They are plain data, whose structure depends on the kind of the query. They
   * are packed, because the main thread only passes them on, and unpacking large data there would take time.
   */
  readonly found: readonly PackedPart[]
}

/**
 * The outcome of a merge. `stale` means that the parts cannot be merged, because the store has changed since they were
 * computed and the query needs its current state.
 */
export type MergeOutcome = Extract<QueryOutcome, { kind: 'answer' }> | { readonly kind: 'stale' }

/**
 * Answers a query. If the query reads so many events that it should be divided, returns how to divide it, and the
 * result of the part that `turn` asks for. A query is not divided if this thread has cached most of its result. Throws
 * 400, and the errors of `EventScanner.scan`.
 */
export function runQuery(
  tools: LongTools,
  task: QueryTask,
  mayDivide: boolean,
  turn?: QueryTurn,
): QueryOutcome {
  const { shard, parts } = open(tools, task, null)
  const planned = planQuery(task.query, shard.context)
  const { kind, plan } = planned
  const { remembered } = tools.stores
  const answer = (whole: unknown, sameUntilMs: number): QueryOutcome => {
    const page = remembered.page(planned, shard, whole)
    return { kind: 'answer', text: answerText(page, shard, task.format), sameUntilMs }
  }
  const known = remembered.again(planned, shard)
  if (known !== null)
    return answer(known, task.asked === undefined ? 0 : sameUntilMs(task, planned, shard))
  if (task.asked === 'ahead') return { kind: 'forgotten' }
  if (mayDivide && kind.isWhole?.(plan) !== true) {
    const { projectId } = task
    const events = shard.scanner.eventsWithin(projectId, kind.rangeOf?.(plan) ?? ALWAYS)
    const { lastDistinctId } = shard.scanner.extent(projectId)
    const by = divisionOf(planned, lastDistinctId)
    if (by !== 'nothing' && events >= DIVIDED_FROM[kind.workOf?.(plan) ?? 'much']) {
      if (turn === undefined) return { kind: 'divide', by }
      const { index, count } = turn
      return { kind: 'divide', by, part: partOf(planned, shard, { by, index, count }, parts) }
    }
  }
  if (turn?.isAnswerer === false) return { kind: 'nothing' }
  const found = foundInPart(planned, shard, wholePart(planned, shard), parts)
  const whole: unknown = kind.merge(plan, found, shard.scanner)
  remembered.keep(planned, shard, whole)
  return answer(whole, 0)
}

/** In every time zone, hours, days, weeks and months begin on a quarter of an hour. */
const QUARTER_MS = 15 * 60_000

/**
 * Returns the time until which the time range of a query stays the same, or 0 if it may change at any time. Compares
 * the plan for now with the plan for the end of the current quarter of an hour. If both are equal, so are all plans in
 * between, because the time bounds of a query never move back.
 */
function sameUntilMs(
  { query, nowMs }: QueryTask,
  { plan }: PlannedQuery,
  { context }: QueryShard,
): number {
  const endMs = (Math.floor(nowMs / QUARTER_MS) + 1) * QUARTER_MS - 1
  const then = planQuery(query, { ...context, nowMs: endMs })
  return JSON.stringify(then.plan) === JSON.stringify(plan) ? endMs : 0
}

/** Computes one part of a query. Throws the errors of `runQuery`. */
export function runQueryPart(tools: LongTools, task: QueryTask, part: EventPart): QueryPart {
  const { shard, parts } = open(tools, task, part)
  return partOf(planQuery(task.query, shard.context), shard, part, parts)
}

function partOf(
  planned: PlannedQuery,
  shard: QueryShard,
  part: EventPart,
  parts: PartTools,
): QueryPart {
  const { scanner } = shard
  const { state } = scanner.extent(shard.context.projectId)
  const found = foundInPart(planned, shard, part, parts).map(packPart)
  const isLasting = !scanner.looksAtPersons
  return { state, isLasting, found }
}

/**
 * Merges all parts into an answer. Caches the merged result if the store is still in the state from which the parts
 * were computed. All parts must come from the same state. Throws the errors of `runQuery`.
 */
export function mergeQuery(
  tools: LongTools,
  task: QueryTask,
  parts: readonly QueryPart[],
): MergeOutcome {
  const { shard } = open(tools, task, null)
  const planned = planQuery(task.query, shard.context)
  const { kind, plan } = planned
  const { scanner } = shard
  const { state } = scanner.extent(task.projectId)
  const isOfState = parts.every((part) => part.state === state)
  if (!isOfState && kind.isOfOneState?.(plan) === true) return { kind: 'stale' }
  const found = parts.flatMap((part) => part.found.map(unpackPart))
  const whole: unknown = kind.merge(plan, found, scanner)
  const isLasting = parts.every((part) => part.isLasting)
  if (isOfState) tools.stores.remembered.keep(planned, shard, whole, isLasting)
  const page = tools.stores.remembered.page(planned, shard, whole)
  return { kind: 'answer', text: answerText(page, shard, task.format), sameUntilMs: 0 }
}

/** A request for values of a session property that contain a text. */
export interface SessionValueTask extends QueryFacts {
  readonly key: string
  readonly contains: string
}

/** Returns the values to suggest. Throws the errors of `EventScanner.scan`. */
export function runSessionValues(tools: LongTools, { key, contains, ...facts }: SessionValueTask) {
  return sessionValues(open(tools, facts, null).shard, key, contains)
}

/** A request to calculate the members of a cohort. */
export interface CohortTask extends QueryFacts {
  readonly id: number
}

/** The changes of a cohort's members, and the state of the cohort's calculation when the members were calculated. */
export interface CohortChanges extends MemberChanges {
  readonly calculation: CohortCalculation
}

/**
 * Calculates the members of a cohort with a rule on behavior. Returns null if there is no such cohort. Throws the
 * errors of `EventScanner.scan`.
 */
export function runCohortMembers(
  tools: LongTools,
  { id, ...facts }: CohortTask,
): CohortChanges | null {
  const { shard } = open(tools, facts, null)
  const { persons } = tools.stores.reader.answers()
  const cohort = persons.calculatedCohort(facts.projectId, id)
  if (cohort === null || cohort.filters === null || cohort.calculation === undefined) return null
  const changes = memberChanges(cohort.filters, shard, persons.storedMembers(facts.projectId, id))
  return { ...changes, calculation: cohort.calculation }
}

/** A request for the persons who were exposed to an experiment. */
export interface ExposedTask extends QueryFacts {
  readonly experiment: ExperimentDefinition
}

/** Returns one distinct ID number of each exposed person. Throws the errors of `exposedMembers`. */
export function runExposedMembers(tools: LongTools, task: ExposedTask): Uint32Array<ArrayBuffer> {
  return exposedMembers(task.experiment, open(tools, task, null).shard)
}

/**
 * Opens the store as it is at this moment, for one query. Returns the scanner that reads it, the settings of the
 * project, and the tools for computing parts.
 */
function open(
  tools: LongTools,
  facts: QueryFacts,
  part: EventPart | null,
): { readonly shard: QueryShard; readonly parts: PartTools } {
  const { stores } = tools
  const { projectId, timezone, nowMs, testAccountFilters } = facts
  const { pathCleaningFilters = [], channelTypeRules = [], experiment } = facts
  const memory = new WorkingMemory(stores.questionBytesMax, () => stores.cachedBytes)
  const scanner = stores.warehouse.scanner(queryLimits(tools, facts.spentMs, memory))
  const { persons } = stores.reader.answers()
  const context: QueryContext = {
    projectId,
    timezone,
    nowMs,
    testAccountFilters,
    pathCleaningFilters,
    channelTypeRules,
    action(id) {
      const action = persons.action(projectId, id)
      return action === null ? null : { name: action.name, steps: actionSteps(action.steps) }
    },
    cohortName: (id) => persons.cohortName(projectId, id),
    experiment: (id) => (experiment?.id === id ? experiment : null),
    firstEventMs: (sinceMs) => scanner.firstEventMs(projectId, sinceMs),
  }
  const rows: EventRowSource = {
    personNumber(reference) {
      const number = persons.record(projectId, reference)?.number
      if (number !== undefined || typeof reference === 'number') return number ?? null
      return isPersonUuid(reference)
        ? scanner.personlessOf(projectId, reference.toLowerCase())
        : null
    },
    events: (sequences) =>
      stores.reader.eventsAt(projectId, sequences, () => scanner.checkLimits()),
  }
  const shard = { context, scanner, rows, actorSource: persons.actorSource(projectId), part }
  return { shard, parts: { memory, counts: stores.pieceCounts } }
}
