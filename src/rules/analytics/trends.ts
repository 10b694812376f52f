/**
 * Who is behind a point of a trend: everyone with an event of the series in the range, with the number
 * that the chart computes of the events of each. Source: docs/compatibility/analytics.md, "Analytic person routes".
 */

import { allOf } from '../filters/filter-group.ts'
import { propertyText } from '../filters/property-text.ts'
import { largestPerson, pageOfMarked } from './actor-page.ts'
import {
  type ActorPage,
  type AnalyticContext,
  analyticRange,
  globalFilter,
} from './analytic-query.ts'
import { breakdownFilter } from './breakdown.ts'
import type { EventColumns, EventScanner, ValueColumn, ValueRequest } from './event-columns.ts'
import { aggregatesByPerson } from './person-aggregates.ts'
import type { TrendsParameters } from './question-shapes.ts'
import { PROPERTY_MATH, type Series, targetSeries } from './series.ts'

/** Days that a point of such a series looks back. */
const DAYS_BEFORE: ReadonlyMap<string, number> = new Map([
  ['weekly_active', 7],
  ['monthly_active', 30],
])

/**
 * The page of persons, or of groups with the math `unique_group`: highest value first, without a value
 * last, then by uuid (groups: by key). Throws 400 for what cannot be asked, and as `EventScanner.scan`.
 */
export function trendsActors(
  parameters: TrendsParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  const series = targetSeries(parameters, context.actions)
  const daysBefore = DAYS_BEFORE.get(series.math)
  const range = analyticRange(parameters, context, scanner, {
    isWidened: true,
    isRounded: true,
    ...(daysBefore === undefined ? {} : { daysBefore }),
  })
  const columns = scanner.scan({
    projectId: context.projectId,
    fromMs: range.fromMs,
    toMs: range.toMs,
    filter: allOf([globalFilter(parameters, context), breakdownFilter(parameters.breakdown)]),
    series: [series.match],
    values: valuesOf(series),
    persons: null,
    nowMs: context.nowMs,
    order: 'any',
    isPersonsOnly: true,
  })
  if (series.math !== 'unique_group')
    return personPage(columns, series, parameters, context, scanner)
  return groupPage(columns, series.mathGroupTypeIndex ?? 0, parameters)
}

function valuesOf({ math, mathProperty, mathGroupTypeIndex }: Series): readonly ValueRequest[] {
  if (math === 'unique_group') return [{ kind: 'group_key', typeIndex: mathGroupTypeIndex ?? 0 }]
  if (!PROPERTY_MATH.includes(math)) return []
  return [{ kind: 'event_property', key: mathProperty ?? '' }]
}

function personPage(
  columns: EventColumns,
  { math }: Series,
  parameters: TrendsParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  const counts = countsByPerson(columns)
  const [values] = columns.values
  const results =
    values !== undefined && PROPERTY_MATH.includes(math)
      ? aggregatesByPerson(columns, values, math, counts.length)
      : counts
  const page = pageOfMarked(counts, results, parameters.page, context.projectId, scanner)
  const actors = page.persons.map((person) => {
    const value = results[person] ?? Number.NaN
    return { kind: 'person' as const, person, value: Number.isFinite(value) ? value : null }
  })
  return { actors, isFull: page.isFull, total: page.total }
}

function countsByPerson({ count, persons }: EventColumns): Uint32Array {
  const counts = new Uint32Array(largestPerson(persons, count) + 1)
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    counts[person] = (counts[person] ?? 0) + 1
  }
  return counts
}

function groupPage(
  columns: EventColumns,
  typeIndex: number,
  { page: { limit, offset } }: TrendsParameters,
): ActorPage {
  const [keys] = columns.values
  const groups = keys === undefined ? [] : countsByKey(keys, columns.count)
  const total = groups.length
  const actors = groups
    .sort((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1))
    .slice(offset, offset + limit)
    .map(({ key, count }) => ({ kind: 'group' as const, typeIndex, key, value: count }))
  return { actors, isFull: actors.length >= limit, total }
}

/** Events without a key belong to no group. */
function countsByKey({ ids, values }: ValueColumn, count: number) {
  const counts = new Uint32Array(values.length)
  for (let row = 0; row < count; row++) {
    const id = ids[row] ?? 0
    counts[id] = (counts[id] ?? 0) + 1
  }
  const groups: { readonly key: string; readonly count: number }[] = []
  for (let id = 1; id < values.length; id++) {
    const key = propertyText(values[id])
    const number = counts[id] ?? 0
    if (key !== '' && number > 0) groups.push({ key, count: number })
  }
  return groups
}
