/**
 * All kinds of queries by name, and the functions that read a query. Source: docs/compatibility/queries.md, "Kinds".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { EXPERIMENT_EXPOSURE_QUERY, EXPERIMENT_QUERY } from './experiments/experiment-query.ts'
import { FUNNELS_QUERY } from './funnels/funnels-query.ts'
import { LIFECYCLE_QUERY } from './lifecycle-query.ts'
import { QUERY_SHAPE_UNITS_MAX } from './limits.ts'
import { PATHS_QUERY } from './paths/paths-query.ts'
import { invalidQuery, QueryFields } from './query-fields.ts'
import { asInvalidQuery } from './query-filters.ts'
import type { AnyQueryKind, Division, FoundKind, QueryContext } from './query-kind.ts'
import { RETENTION_QUERY } from './retention/retention-query.ts'
import { actorsQuery } from './rows/actors-query.ts'
import { EVENTS_QUERY } from './rows/events-query.ts'
import { STICKINESS_QUERY } from './stickiness-query.ts'
import { TRENDS_QUERY } from './trends/trends-query.ts'
import { WEB_OVERVIEW } from './web/overview.ts'
import { WEB_STATS_TABLE } from './web/stats-table.ts'
import { SESSIONS_TIMELINE } from './web/timeline.ts'
import { WEB_TRENDS } from './web/web-trends.ts'

const KINDS: Readonly<Record<string, AnyQueryKind>> = {
  ActorsQuery: actorsQuery(kindOf),
  EventsQuery: EVENTS_QUERY,
  ExperimentExposureQuery: EXPERIMENT_EXPOSURE_QUERY,
  ExperimentQuery: EXPERIMENT_QUERY,
  FunnelsQuery: FUNNELS_QUERY,
  LifecycleQuery: LIFECYCLE_QUERY,
  PathsQuery: PATHS_QUERY,
  RetentionQuery: RETENTION_QUERY,
  SessionsTimelineQuery: SESSIONS_TIMELINE,
  StickinessQuery: STICKINESS_QUERY,
  WebOverviewQuery: WEB_OVERVIEW,
  WebStatsTableQuery: WEB_STATS_TABLE,
  WebTrendsQuery: WEB_TRENDS,
  TrendsQuery: TRENDS_QUERY,
}

/** Kinds that only wrap another query. The wrapped query is answered instead. */
const WRAPPERS: readonly unknown[] = ['InsightVizNode', 'DataTableNode']

/** A query after it was read and checked. */
export interface PlannedQuery {
  readonly kind: AnyQueryKind
  readonly plan: unknown
}

/**
 * Reads and checks a query. Throws 400 `required` if there is no query, 400 `unsupported_kind`, or 400 `invalid_query`,
 * which includes a query that is not an object.
 */
export function planQuery(query: unknown, context: QueryContext): PlannedQuery {
  const { kind, fields } = kindOf(query)
  try {
    return { kind, plan: kind.plan(fields, context) }
  } catch (error) {
    throw asInvalidQuery(error)
  }
}

/**
 * Returns the name of a query's kind, for use as a label of metrics. Any text that is not a kind becomes `unknown`, so
 * that clients cannot create new labels.
 */
export function kindName(query: unknown): string {
  const kind = isObject(query) ? query['kind'] : null
  if (typeof kind !== 'string') return 'unknown'
  return Object.hasOwn(KINDS, kind) || WRAPPERS.includes(kind) ? kind : 'unknown'
}

/**
 * Returns a text that describes the shape of a query: its kind and the math of each series. Queries with the same text
 * should be divided in the same way. The query need not be valid.
 */
export function shapeOf(query: unknown): string {
  if (!isObject(query)) return ''
  const { kind, source, series } = query
  if (WRAPPERS.includes(kind) && isObject(source)) return shapeOf(source)
  const maths = Array.isArray(series)
    ? series.map((one: unknown) => isObject(one) && one['math'])
    : []
  // Any value that is not a text becomes '', because it may be an object that cannot be converted to a text.
  const words = [kind, ...maths].map((word) => (typeof word === 'string' ? word : ''))
  return words.join(' ').slice(0, QUERY_SHAPE_UNITS_MAX)
}

/** Returns the number of rows that a query asks for, or 0 if it does not specify one. The query need not be valid. */
export function rowsAsked(query: unknown): number {
  if (!isObject(query)) return 0
  const { kind, source } = query
  const { limit } = WRAPPERS.includes(kind) && isObject(source) ? source : query
  return typeof limit === 'number' ? limit : 0
}

/**
 * Returns whether one thread answers all queries of this kind in a project; see `QueryKind.isOfOneThread`. Throws the
 * same errors as `planQuery`.
 */
export function isOfOneThread(query: unknown): boolean {
  return kindOf(query).kind.isOfOneThread === true
}

/**
 * Returns how the events of a query may be divided in a project whose largest distinct ID number is `lastDistinctId`.
 */
export function divisionOf({ kind, plan }: PlannedQuery, lastDistinctId: number): Division {
  const { dividedBy } = kind
  return typeof dividedBy === 'function' ? dividedBy(plan, lastDistinctId) : dividedBy
}

/** Returns the kind of a query, and the query without its wrapper. Throws the same errors as `planQuery`. */
function kindOf(query: unknown): FoundKind {
  if (query === null || query === undefined) {
    const detail = '`query` is missing. Send an object with a `kind`, such as TrendsQuery.'
    throw new ServiceError('required', detail, { attr: 'query' })
  }
  if (!isObject(query)) throw invalidQuery('query', 'must be an object with a `kind`')
  const name = query['kind']
  const source = query['source']
  if (WRAPPERS.includes(name) && isObject(source) && !WRAPPERS.includes(source['kind'])) {
    return kindOf(source)
  }
  if (typeof name === 'string' && Object.hasOwn(KINDS, name)) {
    const kind = KINDS[name]
    if (kind !== undefined) return { kind, fields: new QueryFields(query) }
  }
  const detail = `\`kind\` must be one of ${Object.keys(KINDS).join(', ')}.`
  throw new ServiceError('unsupported_kind', detail, { attr: 'kind' })
}
