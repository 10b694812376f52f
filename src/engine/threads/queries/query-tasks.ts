/**
 * Queries on threads for analytics: each has one snapshot, is bounded in time, and is given up when nobody
 * waits any more. The answer is finished text.
 */
import { ALWAYS } from '../../../rules/analytics/date-range.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import { actionSteps } from '../../../rules/filters/actions.ts'
import { isPersonUuid } from '../../../rules/persons/person-uuid.ts'
import { type AnswerFormat, answerText } from '../../../rules/queries/answer.ts'
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

/** Events from which on a query is divided, by what it does with each. */
const DIVIDED_FROM = {
  counts: DIVIDED_COUNTS_EVENTS_MIN,
  simple: DIVIDED_SIMPLE_EVENTS_MIN,
  much: DIVIDED_EVENTS_MIN,
}

/** What a project says of its events, as it stores it. */
type ProjectRules = 'testAccountFilters' | 'pathCleaningFilters' | 'channelTypeRules'

type QueryFacts = Pick<QueryContext, 'projectId' | 'timezone' | 'nowMs' | ProjectRules> & {
  /** Of the time of one query, what others have spent on it. */
  readonly spentMs?: number
}

/** A query about a project, as it crosses threads. */
export interface QueryTask extends QueryFacts {
  /** As it was sent. */
  readonly query: unknown
  readonly format: AnswerFormat
  /** Asked before; ahead: nobody has asked yet, and what is remembered is brought up to date, nothing else done. */
  readonly asked?: 'again' | 'ahead'
}

/** Of a query that all threads are asked at once: which part of it is whose, should it be divided. */
export interface QueryTurn {
  readonly index: number
  readonly count: number
  /** It answers when the query is not divided. */
  readonly isAnswerer: boolean
}

/**
 * An answer; or by what the query is to be divided, with the part that was asked for; of one that nobody has asked:
 * nothing of it is remembered; of one that another thread answers: nothing.
 */
export type QueryOutcome =
  | {
      readonly kind: 'answer'
      readonly text: Uint8Array<ArrayBuffer>
      /** Until then only what is written changes the answer, but for its own time. 0: anything may. */
      readonly sameUntilMs: number
    }
  | { readonly kind: 'divide'; readonly by: EventPart['by']; readonly part?: QueryPart }
  | { readonly kind: 'forgotten' }
  | { readonly kind: 'nothing' }

/** What a thread found in its part, and the state of the store that it found it in. */
export interface QueryPart {
  readonly state: string
  /** It looked at nothing but events and whom they belong to. */
  readonly isLasting: boolean
  /**
   * Plain data, of which only the kind of the query knows what it is, in pieces to be merged. Packed, because it can be large, and the
   * main thread, which passes it on, would take it apart and put it together again.
   */
  readonly found: readonly PackedPart[]
}

/** An answer; stale: it may not be made of parts of an earlier state. */
export type MergeOutcome = Extract<QueryOutcome, { kind: 'answer' }> | { readonly kind: 'stale' }

/**
 * Answers a query, or says that it concerns so many events that it had better be divided, and computes the part of
 * `turn`: not when the thread remembers most of what it asks for. Throws `ServiceError`: 400, and as
 * `EventScanner.scan`.
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

/** All changes of hour, day, week and month, in all zones, are at the edges of such quarters. */
const QUARTER_MS = 15 * 60_000

/**
 * Until when a query asks for the same: what it means at the end of the quarter of the hour is what it means all the
 * time until then, because the moments that it speaks of never go back.
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

/** Computes one part of a query. Throws as `runQuery`. */
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

/** Makes the answer of all parts, which are of one state, and remembers what it can. Throws as `runQuery`. */
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

/** Values of a property of sessions that contain a text. */
export interface SessionValueTask extends QueryFacts {
  readonly key: string
  readonly contains: string
}

/** The values that are offered. Throws as `EventScanner.scan`. */
export function runSessionValues(tools: LongTools, { key, contains, ...facts }: SessionValueTask) {
  return sessionValues(open(tools, facts, null).shard, key, contains)
}

/** The snapshot that a query is answered from, and what it knows of the project. */
function open(
  tools: LongTools,
  facts: QueryFacts,
  part: EventPart | null,
): { readonly shard: QueryShard; readonly parts: PartTools } {
  const { stores } = tools
  const { projectId, timezone, nowMs, testAccountFilters } = facts
  const { pathCleaningFilters = [], channelTypeRules = [] } = facts
  const memory = new WorkingMemory(stores.questionBytesMax, () => stores.cachedBytes)
  const scanner = stores.warehouse.scanner(queryLimits(tools, facts.spentMs, memory))
  const { persons } = stores.reader.answers()
  const context: QueryContext = {
    ...{ projectId, timezone, nowMs, testAccountFilters, pathCleaningFilters, channelTypeRules },
    action(id) {
      const action = persons.action(projectId, id)
      return action === null ? null : { name: action.name, steps: actionSteps(action.steps) }
    },
    cohortName: (id) => persons.cohortName(projectId, id),
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
  const shard = { context, scanner, rows, world: persons.actorSource(projectId), part }
  return { shard, parts: { memory, counts: stores.pieceCounts } }
}
