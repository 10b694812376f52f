/**
 * The interface of a kind of query. The kind reads a query into a plan, computes it part by part, merges the parts, and
 * turns the result into an answer. This file also contains the context of a query and the data that it computes on.
 * Source: docs/compatibility/queries.md, "Kinds".
 */
import type { JsonObject } from '../../base/json.ts'
import type { DateRange } from '../analytics/date-range.ts'
import type {
  ActionStepMatch,
  ChunkVisitor,
  EventColumns,
  EventPart,
  EventScanner,
  EventScanRequest,
} from '../analytics/event-columns.ts'
import type { EventView } from '../events/event-queries.ts'
import type { ExperimentDefinition } from '../experiments/experiment-definition.ts'
import type { ActorSource } from './actor-source.ts'
import type { QueryLimits } from './paced-limits.ts'
import type { QueryFields } from './query-fields.ts'

/** The values that an answer depends on in addition to the query itself. */
export interface QueryContext {
  readonly projectId: number
  /** The time zone, as a name of the IANA time zone database. */
  readonly timezone: string
  /** The current time, in milliseconds since 1970. */
  readonly nowMs: number
  /** The list of filters, as the project stores it. */
  readonly testAccountFilters: readonly unknown[]
  /** The rules that normalize paths, as the project stores them. The default is none. */
  readonly pathCleaningFilters?: readonly unknown[]
  /** The rules for the channels of sessions, as the project stores them. The default is none. */
  readonly channelTypeRules?: readonly unknown[]
  /** Returns an action, or null if it does not exist. */
  action(id: number): NamedAction | null
  /** Returns the name of a cohort, or null if it does not exist. */
  cohortName(id: number): string | null
  /** Returns an experiment, or null if it does not exist. If this method is absent, no experiment exists. */
  experiment?(id: number): ExperimentDefinition | null
  /**
   * Returns the timestamp of the project's first event at or after `sinceMs`, in milliseconds, or null if there is
   * none.
   */
  firstEventMs(sinceMs?: number): number | null
}

/** An action as queries see it. */
export interface NamedAction {
  readonly name: string
  readonly steps: readonly ActionStepMatch[]
}

/** Some or all events of a project, and the interfaces through which the computing thread reads them. */
export interface QueryShard {
  readonly context: QueryContext
  readonly scanner: EventScanner
  /** The persons and groups of the project. */
  readonly actorSource: ActorSource
  readonly rows: EventRowSource
  /** The part of the events. Null means all events. */
  readonly part: EventPart | null
}

/** Reads single events, on the same snapshot as the scanner. */
export interface EventRowSource {
  /**
   * Returns the number of the person that has a uuid or number. If `reference` is the uuid that the API shows for a
   * distinct_id without a person, returns the number of this distinct_id, at the cost of `EventScanner.personlessOf`.
   * Returns null if neither a person nor a distinct_id is found.
   */
  personNumber(reference: string | number): number | null
  /**
   * Returns events by their sequence numbers, in the requested order. Each takes about 20 us. Throws the same errors as
   * `EventScanner.checkLimits`.
   */
  events(sequences: readonly number[]): readonly EventView[]
}

/** The answer of a query without the members that all answers have. */
export interface QueryPage {
  readonly results: unknown
  /** Further members of the answer, such as `hasMore`, `columns` and `resolved_date_range`. */
  readonly members: JsonObject
}

/** The actors behind a number. Entry i of each list belongs to actor i. Lists that do not apply are empty or absent. */
export interface QueryActors {
  /** The number of the group type. Null means persons. */
  readonly groupTypeIndex: number | null
  /** The person number of each person. Empty for groups. */
  readonly persons: readonly number[]
  /** The key of each group. Empty for persons. */
  readonly groupKeys: readonly string[]
  /** The number of matching events of each actor. */
  readonly eventCounts?: readonly number[]
  /** For each actor, the distinct ids with which its matching events were sent. */
  readonly distinctIds?: readonly (readonly string[])[]
  /** For retention: for each actor, the columns in which it counts, ascending. */
  readonly appearances?: readonly (readonly number[])[]
}

/** The ways in which the events of a query may be divided. */
export type Division = EventPart['by'] | 'nothing'

/**
 * How much work a query does for each event. `counts` only counts events by name and time, mostly from the headers of
 * segments. `simple` reads one value, or records that an actor had an event, within a few nanoseconds. `much` is
 * everything else.
 */
export type QueryWork = 'counts' | 'simple' | 'much'

/** A kind of query. `Plan` and `Part` are plain data that may cross threads. */
export interface QueryKind<Plan, Part> {
  /**
   * How the events may be divided into parts that are computed separately: by segments, by persons, by sessions, or not
   * at all. The division may depend on the largest distinct ID number of the project, but the merged result must not
   * depend on the division. The result of a part by segments must not depend on the owners of distinct ids. The merged
   * result of parts by sessions may have another form than a part; it is cached as long as nothing has changed.
   */
  readonly dividedBy: Division | ((plan: Plan, lastDistinctId: number) => Division)
  /**
   * True if queries of this kind share data that the scanner caches. If the events of such a query are not divided, one
   * thread answers all these queries of a project, so that the data is computed once. If this member is absent, any
   * thread may answer.
   */
  readonly isOfOneThread?: true
  /**
   * Returns whether `page` reads data that may change, such as the owners of distinct ids. `page` must then see the
   * same state of the store as the parts.
   */
  isOfOneState?(plan: Plan): boolean
  /** Reads and checks the whole query. Throws 400, see `invalidQuery`. */
  plan(query: QueryFields, context: QueryContext): Plan
  /** Returns the range that `partial` reads. Null or an absent method means all events. */
  rangeOf?(plan: Plan): DateRange | null
  /**
   * Returns those members of a plan that the result of a part depends on. They are the key under which parts are
   * cached. If the method is absent, the whole plan is the key.
   */
  partPlan?(plan: Plan): unknown
  /**
   * Returns whether one thread must compute all parts of the query. The division is then only used to cache parts. An
   * absent method means false.
   */
  isWhole?(plan: Plan): boolean
  /** Returns how much work the query does for each event. An absent method means `much`. */
  workOf?(plan: Plan): QueryWork
  /** Computes one part. Throws the same errors as `EventScanner.scan`. */
  partial(plan: Plan, shard: QueryShard): Part
  /**
   * Merges at least one part without changing the parts. The result is a part again and may share memory with them.
   * Throws the same errors as `EventScanner.checkLimits`.
   */
  merge(plan: Plan, parts: readonly Part[], limits: QueryLimits): Part
  /**
   * Merges parts by sessions into one part. A thread that computes its part in several chunks can use this method to
   * merge each chunk into the result so far, instead of holding all chunks. If the method is absent, the chunks are
   * merged at the end.
   */
  combine?(parts: readonly Part[]): Part
  /**
   * Returns a part without some persons. `persons` contains 1 at the person number of each person to leave out.
   * `theirs` computes the part of these persons alone. Returns null if the result cannot be determined. If the method
   * is absent, parts by persons are not cached. Throws the same errors as `merge`.
   */
  without?(
    plan: Plan,
    part: Part,
    persons: Uint8Array,
    theirs: () => Part,
    limits: QueryLimits,
  ): Part | null
  /**
   * Builds the page of the answer. `shard` contains all events. It is used to read what only the answer needs, such as
   * names.
   */
  page(plan: Plan, whole: Part, shard: QueryShard): QueryPage
  /**
   * Returns the actors behind one number of the answer. `pick` says which number; it is the `InsightActorsQuery`,
   * `StickinessActorsQuery` or `FunnelsActorsQuery` that contains the query of `plan`. If the method is absent, the
   * kind cannot list actors. Throws 400, see `invalidQuery`.
   */
  actors?(plan: Plan, pick: QueryFields, shard: QueryShard): QueryActors
}

/** Any kind. Only the kind itself knows the types of its plans and parts. */
// biome-ignore lint/suspicious/noExplicitAny: the kinds in one table have different types of plans and parts
export type AnyQueryKind = QueryKind<any, any>

/** A kind, and the query of this kind. If the query was inside a wrapper, it is given without the wrapper. */
export interface FoundKind {
  readonly kind: AnyQueryKind
  readonly fields: QueryFields
}

/**
 * The members of a scan request that a kind sets; the shard adds the other members. The defaults are no filter, no
 * values, all persons and any order.
 */
export type QueryScan = Pick<EventScanRequest, 'fromMs' | 'toMs' | 'series'> &
  Partial<Omit<EventScanRequest, 'projectId' | 'nowMs' | 'part'>>

/** The project and the part of the events that a scan reads. */
export type ScannedShard = Pick<QueryShard, 'context' | 'scanner' | 'part'>

/** Scans the events of a shard. Throws the same errors as `EventScanner.scan`. */
export function scanShard(shard: ScannedShard, scan: QueryScan): EventColumns {
  return shard.scanner.scan(requestOf(shard, scan))
}

/** Scans the events of a shard chunk by chunk, as `EventScanner.scanChunks` does. */
export function scanShardChunks(shard: QueryShard, scan: QueryScan, visit: ChunkVisitor): void {
  shard.scanner.scanChunks(requestOf(shard, scan), visit)
}

function requestOf({ context, part }: ScannedShard, scan: QueryScan): EventScanRequest {
  const { projectId, nowMs } = context
  const rest = { filter: null, values: [], persons: null, order: 'any' } as const
  return { projectId, nowMs, ...rest, ...(part === null ? {} : { part }), ...scan }
}
