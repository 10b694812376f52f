/**
 * Reads the parts of a query that all tables of web analytics share: the range and the comparison range, filters on
 * events, persons and sessions, and the goal. Source: docs/compatibility/queries.md, "Web analytics".
 */
import type { DateRange } from '../../analytics/date-range.ts'
import type { SeriesMatch } from '../../analytics/event-columns.ts'
import { type FilterGroup, filtersOf } from '../../filters/filter-group.ts'
import { QUERY_FILTERS_MAX } from '../limits.ts'
import { QueryFields } from '../query-fields.ts'
import { readFilter, readGlobalFilter } from '../query-filters.ts'
import type { QueryContext } from '../query-kind.ts'
import { comparedRange, type QueryRange, readRange } from '../query-range.ts'
import { actionSeries } from '../query-series.ts'
import { isSessionProperty } from './session-property-columns.ts'
import { namedSeries } from './sessions.ts'

const CLEANED = 'is_cleaned_path_exact'

/** A filter of a query. All filters must hold. */
export type WebFilter =
  /** A filter on properties of events, persons and cohorts. */
  | { readonly kind: 'events'; readonly tree: FilterGroup }
  /** A filter whose keys are properties of sessions. */
  | { readonly kind: 'sessions'; readonly tree: FilterGroup }
  /**
   * A filter on the property `key`, which contains a path. After path cleaning, the value must equal one of the
   * `paths`, which are also cleaned.
   */
  | {
      readonly kind: 'paths'
      readonly of: 'event' | 'person' | 'session'
      readonly key: string
      readonly paths: readonly string[]
    }

/** The parts that all queries of web analytics share. */
export interface WebPlan {
  readonly current: QueryRange
  /** The comparison range. Null means none. */
  readonly previous: QueryRange | null
  readonly filters: readonly WebFilter[]
  /** The events that meet the goal. Null means that there is no goal. */
  readonly goal: SeriesMatch | null
}

/** Reads the members that all queries of web analytics share. Throws 400 `invalid_query`. */
export function readWebPlan(query: QueryFields, context: QueryContext): WebPlan {
  query.refuse('includeRevenue', 'includeAvgTimeOnPage')
  const current = readRange(query, 'day', context)
  const compare = query.within('compareFilter')
  const isCompared = compare.boolean('compare') || Boolean(compare.text('compare_to'))
  // The comparison range of a week-aligned range is aligned too, unless the range has an explicit end.
  const isWeekAligned = current.isWeekAligned && !query.within('dateRange').text('date_to')
  return {
    current,
    previous: isCompared ? comparedRange(query, { ...current, isWeekAligned }) : null,
    filters: readWebFilters(query, context),
    goal: readGoal(query, context),
  }
}

/** Returns the range that contains both ranges and the time between them. */
export function rangeOf({ current, previous }: WebPlan): DateRange {
  return {
    fromMs: Math.min(current.fromMs, previous?.fromMs ?? current.fromMs),
    toMs: Math.max(current.toMs, previous?.toMs ?? current.toMs),
  }
}

/** Returns the filters without the filters on the event property `key`. */
export function withoutKey(filters: readonly WebFilter[], key: string): readonly WebFilter[] {
  return filters.filter((filter) => keyOf(filter) !== key)
}

/** Returns a copy of the filters. Each filter on the event property `from` tests the event property `key` instead. */
export function withKey(
  filters: readonly WebFilter[],
  from: string,
  key: string,
): readonly WebFilter[] {
  return filters.map((filter) => {
    if (keyOf(filter) !== from) return filter
    return filter.kind === 'paths'
      ? { ...filter, key }
      : { ...filter, tree: keyed(filter.tree, key) }
  })
}

/** Returns the event property that a filter tests, or null if the filter tests anything else. */
function keyOf(filter: WebFilter): string | null {
  if (filter.kind === 'paths') return filter.of === 'event' ? filter.key : null
  const [first, ...others] = filtersOf(filter.tree)
  if (filter.kind === 'sessions' || first === undefined) return null
  const isOne = first.type === 'event' && others.every(({ key }) => key === first.key)
  return isOne ? first.key : null
}

function keyed(tree: FilterGroup, key: string): FilterGroup {
  const values = tree.values.map((value) =>
    'values' in value ? keyed(value, key) : { ...value, key },
  )
  return { ...tree, values }
}

function readWebFilters(query: QueryFields, context: QueryContext): readonly WebFilter[] {
  const items = query.objects('properties')
  if (items.length > QUERY_FILTERS_MAX) {
    throw query.fault('properties', `may have at most ${QUERY_FILTERS_MAX} filters`)
  }
  const filterTestAccounts = query.boolean('filterTestAccounts')
  const tests = readGlobalFilter(new QueryFields({ filterTestAccounts }), context)
  return [
    ...items.flatMap((item) => readWebFilter(item, context)),
    ...(tests === null ? [] : [{ kind: 'events' as const, tree: tests }]),
  ]
}

function readWebFilter(item: QueryFields, context: QueryContext): readonly WebFilter[] {
  const type = item.text('type') ?? 'event'
  if (type === 'session' && !isSessionProperty(item.text('key') ?? '')) {
    throw item.fault('key', 'must be the name of a session property')
  }
  if (item.text('operator') === CLEANED) return [readPathFilter(item)]
  if (type !== 'session') {
    const tree = readFilter(item, context)
    return tree === null ? [] : [{ kind: 'events', tree }]
  }
  const plain = item.renewed({ ...item.json, type: 'event' })
  const tree = readFilter(plain, context)
  return tree === null ? [] : [{ kind: 'sessions', tree }]
}

function readPathFilter(item: QueryFields): WebFilter {
  const of = item.choice('type', ['event', 'person', 'session'])
  const key = item.text('key') ?? ''
  if (key === '') throw item.fault('key', 'is missing. Send the name of a property')
  const value = item.value('value')
  const paths: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (paths.every((path) => typeof path === 'string')) return { kind: 'paths', of, key, paths }
  throw item.fault('value', 'must be a path or a list of paths')
}

function readGoal(query: QueryFields, context: QueryContext): SeriesMatch | null {
  if (query.value('conversionGoal') === undefined) return null
  const goal = query.within('conversionGoal')
  const name = goal.text('customEventName')
  if (name !== null) return namedSeries([name])
  if (goal.value('actionId') === undefined) {
    throw query.fault('conversionGoal', 'must have a `customEventName` or an `actionId`')
  }
  const { exists, match } = actionSeries(goal, 'actionId', null, context)
  if (!exists)
    throw query.fault(
      'conversionGoal',
      'refers to an action that does not exist. Take its number from the list of actions',
    )
  return match
}
