/** Reads and checks a RetentionQuery. Source: docs/compatibility/queries.md, "RetentionQuery". */
import { isSameJson } from '../../../base/json.ts'
import type { SeriesMatch } from '../../analytics/event-columns.ts'
import {
  type PeriodRules,
  Periods,
  periodStart,
  shiftedPeriodStart,
} from '../../analytics/periods.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import {
  QUERY_CELLS_MAX,
  RETENTION_COLUMNS,
  RETENTION_COLUMNS_MAX,
  RETENTION_ROWS_MAX,
} from '../limits.ts'
import type { CountTest } from '../period-bits.ts'
import { type BreakdownProperty, readQueryBreakdown } from '../query-breakdown.ts'
import { bucketRules } from '../query-buckets.ts'
import type { QueryFields } from '../query-fields.ts'
import { readFilters, readGlobalFilter } from '../query-filters.ts'
import type { QueryContext } from '../query-kind.ts'
import { readRange } from '../query-range.ts'
import { actionSeries, eventSeries, type QuerySeries } from '../query-series.ts'

const PERIODS = ['Day', 'Hour', 'Week', 'Month'] as const
const INTERVALS = { Day: 'day', Hour: 'hour', Week: 'week', Month: 'month' } as const
const TYPES = [
  'retention_recurring',
  'retention_first_time',
  'retention_first_ever_occurrence',
] as const
const DEFAULT_EVENT = '$pageview'

/** A RetentionQuery that can be computed. */
export interface RetentionPlan {
  /** The target and the returning series, as they were requested. */
  readonly entities: readonly [target: QuerySeries, returning: QuerySeries]
  readonly target: SeriesMatch
  /** The events that count as a return. Null means that these are the target events themselves. */
  readonly returning: SeriesMatch | null
  readonly filter: FilterGroup | null
  readonly type: (typeof TYPES)[number]
  readonly periodName: (typeof PERIODS)[number]
  readonly rules: PeriodRules
  /** The first moment of the first row, in milliseconds. */
  readonly fromMs: number
  /** The last moment that counts, in milliseconds. It is before `fromMs` if there are no rows. */
  readonly toMs: number
  readonly rows: number
  readonly columns: number
  readonly isCumulative: boolean
  readonly test: CountTest
  /** The number of the group type. Null means persons. */
  readonly groupTypeIndex: number | null
  readonly breakdown: RetentionBreakdown | null
  readonly hasPersonsUrls: boolean
}

/**
 * The breakdown of a RetentionQuery. For a breakdown by a property, `cohorts` is empty. For one by cohorts, `property`
 * is null.
 */
export interface RetentionBreakdown {
  readonly property: BreakdownProperty | null
  readonly cohorts: readonly (number | 'all')[]
  /** The maximum number of different values. */
  readonly limit: number
}

/** Reads and checks a query. Throws 400, see `invalidQuery`. */
export function readRetention(query: QueryFields, context: QueryContext): RetentionPlan {
  const fields = query.within('retentionFilter')
  fields.choice('timeWindowMode', ['strict_calendar_dates'])
  fields.choice('aggregationType', ['count'])
  fields.refuse('retentionCustomBrackets')
  const periodName = fields.choice('period', PERIODS)
  const columns = fields.whole('totalIntervals', 1, RETENTION_COLUMNS_MAX) ?? RETENTION_COLUMNS
  const target = readEntity(fields, 'targetEntity', context)
  const returning = readEntity(fields, 'returningEntity', context)
  return {
    entities: [target, returning],
    target: target.match,
    returning: isSameJson(target.match, returning.match) ? null : returning.match,
    filter: readGlobalFilter(query, context),
    type: fields.choice('retentionType', TYPES),
    periodName,
    ...reachOf(query, context, periodName, columns),
    columns,
    isCumulative: fields.boolean('cumulative'),
    test: { operator: 'gte', value: fields.whole('minimumOccurrences', 1) ?? 1 },
    groupTypeIndex: query.whole('aggregation_group_type_index', 0, 4),
    breakdown: readBreakdown(query),
    hasPersonsUrls: query.boolean('persons_urls'),
  }
}

/** Returns the periods of the rows of the table. */
export function rowPeriods({ fromMs, toMs, rules }: RetentionPlan): Periods {
  return Periods.covering(fromMs, toMs, rules)
}

/** Returns the range of the rows. The last row is the period that contains the end of the requested range. */
function reachOf(
  query: QueryFields,
  context: QueryContext,
  periodName: (typeof PERIODS)[number],
  columns: number,
) {
  const interval = INTERVALS[periodName]
  const range = readRange(query, interval, context)
  const rules = bucketRules({ interval, timezone: context.timezone })
  const endMs = shiftedPeriodStart(periodStart(range.toMs, rules), 1, rules)
  const fromMs = query.within('dateRange').isGiven('date_from')
    ? periodStart(range.fromMs, rules)
    : shiftedPeriodStart(endMs, -columns, rules)
  const toMs = endMs - 1
  const countMax = Math.min(RETENTION_ROWS_MAX, Math.floor(QUERY_CELLS_MAX / columns))
  const refusal = () => {
    const what = `has too many periods. Choose a shorter range: with ${columns} intervals, there may be at most ${countMax} rows`
    return query.fault('dateRange', what)
  }
  const rows =
    fromMs > toMs ? 0 : Periods.covering(fromMs, toMs, rules, { countMax, refusal }).count
  return { rules, fromMs, toMs, rows }
}

function readEntity(fields: QueryFields, name: string, context: QueryContext): QuerySeries {
  if (!fields.isGiven(name)) return eventSeries(DEFAULT_EVENT, null)
  const entity = fields.within(name)
  const filter = readFilters(entity, 'properties', context)
  if (entity.choice('type', ['events', 'actions']) === 'events') {
    return eventSeries(entity.text('id'), filter)
  }
  return actionSeries(entity, 'id', filter, context)
}

/** Reads the breakdown. Retention uses only the first of several properties. */
function readBreakdown(query: QueryFields): RetentionBreakdown | null {
  const breakdown = readQueryBreakdown(query)
  if (breakdown === null) return null
  const { properties, cohorts, limit } = breakdown
  const [property = null] = properties
  if (property !== null && property.binCount !== null) {
    throw query.fault('breakdownFilter', 'must not request bins, because retention has none')
  }
  return { property, cohorts, limit }
}
