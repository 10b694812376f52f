/**
 * What a kind of query is: read into a plan, computed part by part, merged, made an answer. What a query
 * knows besides its own text, and what it computes on. Source: docs/compatibility/queries.md, "Kinds".
 */
import type { JsonObject } from '../../base/json.ts'
import type { DateRange } from '../analytics/date-range.ts'
import type {
  ActionStepMatch,
  EventColumns,
  EventPart,
  EventScanner,
  EventScanRequest,
  PieceVisitor,
} from '../analytics/event-columns.ts'
import type { EventView } from '../events/event-queries.ts'
import type { ActorSource } from './actor-source.ts'
import type { QueryLimits } from './paced-limits.ts'
import type { QueryFields } from './query-fields.ts'

/** What a query has to know besides its own text. */
export interface QueryContext {
  readonly projectId: number
  /** Name of the IANA time zone database. */
  readonly timezone: string
  /** Milliseconds since 1970. */
  readonly nowMs: number
  /** As the project stores them: a list of filters. */
  readonly testAccountFilters: readonly unknown[]
  /** Rules that make paths alike, as the project stores them. Default: none. */
  readonly pathCleaningFilters?: readonly unknown[]
  /** Rules for channels of sessions, as the project stores them. Default: none. */
  readonly channelTypeRules?: readonly unknown[]
  /** Null when there is no such action. */
  action(id: number): NamedAction | null
  /** Null when there is no such cohort. */
  cohortName(id: number): string | null
  /** Timestamp of the project's first event at or after `sinceMs`, milliseconds; null when there is none. */
  firstEventMs(sinceMs?: number): number | null
}

/** An action as queries see it. */
export interface NamedAction {
  readonly name: string
  readonly steps: readonly ActionStepMatch[]
}

/** A part of the events, or all of them, and what else is known on the thread that computes. */
export interface QueryShard {
  readonly context: QueryContext
  readonly scanner: EventScanner
  /** The persons and groups of the project. */
  readonly world: ActorSource
  readonly rows: EventRowSource
  /** Null: all events. */
  readonly part: EventPart | null
}

/** Events one by one, as of the snapshot of the scanner. */
export interface EventRowSource {
  /**
   * P of the person with a uuid or number, or the number of the distinct_id without a person whose events have
   * that uuid; null when there is none. Cost of the second: as `EventScanner.personlessOf`.
   */
  personNumber(reference: string | number): number | null
  /**
   * Events by their places in the order of arrival, in the order asked for. Throws as
   * `EventScanner.checkLimits`. Cost: some 20 us each.
   */
  events(sequences: readonly number[]): readonly EventView[]
}

/** The answer before it is put into its envelope. */
export interface QueryPage {
  readonly results: unknown
  /** Further members of the answer: `hasMore`, `columns`, `resolved_date_range` and the like. */
  readonly members: JsonObject
}

/** Who is behind a number; each list has an entry for each actor, or is absent. */
export interface QueryActors {
  /** Number of the group type, or null for persons. */
  readonly groupTypeIndex: number | null
  /** P of each person; empty for groups. */
  readonly persons: readonly number[]
  /** Key of each group; empty for persons. */
  readonly groupKeys: readonly string[]
  /** Matching events of each actor. */
  readonly eventCounts?: readonly number[]
  /** distinct_ids that these were sent with. */
  readonly distinctIds?: readonly (readonly string[])[]
  /** Of retention: the columns in which each actor counts, ascending. */
  readonly appearances?: readonly (readonly number[])[]
}

/** By what the events of a query may be divided. */
export type Division = EventPart['by'] | 'nothing'

/**
 * What a query does with each event. `counts`: counts it by name and time, mostly by headers of segments. `simple`:
 * looks at one value of it, or notes that somebody came, a few nanoseconds. `much`: anything else.
 */
export type QueryWork = 'counts' | 'simple' | 'much'

/** A kind of query. `Plan` and `Part` are plain data that may cross threads. */
export interface QueryKind<Plan, Part> {
  /**
   * Which parts of the events may be computed apart: any rows, all rows of a person or of a session together, or
   * none; in a project whose largest D is `lastDistinctId`. Whatever the division, the merged parts mean the same;
   * what is found in parts of any rows does not depend on who owns which distinct_id. What is merged of parts by
   * sessions need not be a part again: it is remembered as long as nothing has changed.
   */
  readonly dividedBy: Division | ((plan: Plan, lastDistinctId: number) => Division)
  /**
   * Queries of this kind share what the scanner remembers: where they are not divided, all of a project are
   * answered by one thread, which makes it once. Absent: any thread answers.
   */
  readonly isOfOneThread?: true
  /** `page` looks at what may change: it has to see the state of the store that the parts are of. */
  isOfOneState?(plan: Plan): boolean
  /** Reads and checks all of a query. Throws 400, see `invalidQuery`. */
  plan(query: QueryFields, context: QueryContext): Plan
  /** The range that `partial` looks at; null, or absent: all events. */
  rangeOf?(plan: Plan): DateRange | null
  /** What of a plan decides about its parts. Absent: all of it. */
  partPlan?(plan: Plan): unknown
  /** Whether one thread alone has to compute it, and the division is how it is remembered. Absent: it need not. */
  isWhole?(plan: Plan): boolean
  /** Absent: `much`. */
  workOf?(plan: Plan): QueryWork
  /** Throws as `EventScanner.scan`. */
  partial(plan: Plan, shard: QueryShard): Part
  /**
   * At least one part, which stay as they are; what comes out is a part again, and may share memory with them.
   * Throws as `EventScanner.checkLimits`.
   */
  merge(plan: Plan, parts: readonly Part[], limits: QueryLimits): Part
  /**
   * What is left of a part when some persons, 1 at the P of each, are taken out; `theirs` computes what it has
   * of them alone. Null: that cannot be told. Absent: parts by persons are not remembered. Throws as `merge`.
   */
  without?(
    plan: Plan,
    part: Part,
    persons: Uint8Array,
    theirs: () => Part,
    limits: QueryLimits,
  ): Part | null
  /** `shard` is whole; for what is looked up for the answer alone, such as names. */
  page(plan: Plan, whole: Part, shard: QueryShard): QueryPage
  /**
   * Who is behind the number that `pick`, an `InsightActorsQuery` or `FunnelsActorsQuery` around the query
   * of `plan`, names. Absent: this kind cannot say. Throws 400, see `invalidQuery`.
   */
  actors?(plan: Plan, pick: QueryFields, shard: QueryShard): QueryActors
}

/** Each kind; what a plan and a part of it are, only the kind knows. */
// biome-ignore lint/suspicious/noExplicitAny: what a table of kinds holds shares nothing but its form
export type AnyQueryKind = QueryKind<any, any>

/** A kind, and a query of it without what is around it. */
export interface FoundKind {
  readonly kind: AnyQueryKind
  readonly fields: QueryFields
}

/** What of a scan is left to say; absent: no filter, no values, all persons, any order. */
export type QueryScan = Pick<EventScanRequest, 'fromMs' | 'toMs' | 'series'> &
  Partial<Omit<EventScanRequest, 'projectId' | 'nowMs' | 'part'>>

/** Whose events a scan goes through, and which part of them. */
export type ScannedShard = Pick<QueryShard, 'context' | 'scanner' | 'part'>

/** Scans the events of a shard. Throws as `EventScanner.scan`. */
export function scanShard(shard: ScannedShard, scan: QueryScan): EventColumns {
  return shard.scanner.scan(requestOf(shard, scan))
}

/** The same piece by piece, as `EventScanner.scanPieces`. */
export function scanShardPieces(shard: QueryShard, scan: QueryScan, visit: PieceVisitor): void {
  shard.scanner.scanPieces(requestOf(shard, scan), visit)
}

function requestOf({ context, part }: ScannedShard, scan: QueryScan): EventScanRequest {
  const { projectId, nowMs } = context
  const rest = { filter: null, values: [], persons: null, order: 'any' } as const
  return { projectId, nowMs, ...rest, ...(part === null ? {} : { part }), ...scan }
}
