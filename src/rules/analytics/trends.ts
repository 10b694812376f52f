/**
 * Finds the actors behind a point of a trend: all actors with an event of the series in the range, with the number that
 * the chart computes from the events of each actor. Source: docs/compatibility/analytics.md, "Analytic person routes".
 */

import { allOf } from '../filters/filter-group.ts'
import { propertyText } from '../filters/property-text.ts'
import {
  type FoundGroup,
  largestPerson,
  pageOfGroups,
  pageOfPersons,
  personsMarked,
} from './actor-page.ts'
import {
  type ActorPage,
  analyticRange,
  globalFilter,
  type Inquiry,
  scanEvents,
} from './analytic-query.ts'
import { breakdownFilter } from './breakdown.ts'
import type { ValueColumn, ValueRequest } from './event-columns.ts'
import { aggregatesByPerson, countsOf } from './person-aggregates.ts'
import type { ParametersOf } from './questions.ts'
import { PROPERTY_MATH, type Series, targetSeries } from './series.ts'

/**
 * For the math `weekly_active` and `monthly_active`: the number of days before a point of the chart whose events are
 * taken into account as well.
 */
const DAYS_BEFORE: ReadonlyMap<string, number> = new Map([
  ['weekly_active', 7],
  ['monthly_active', 30],
])

/**
 * Returns the page of persons, or of groups for the math `unique_group`. The highest value comes first, and actors
 * without a value come last. Actors with equal values are in the order of their uuids (persons) or keys (groups).
 * Throws 400 for an invalid request, and the same errors as `EventScanner.scan`.
 */
export function trendsActors(inquiry: Inquiry<ParametersOf<'trends'>>): ActorPage {
  const { parameters, context } = inquiry
  const series = targetSeries(parameters, context.actions)
  const { math } = series
  const daysBefore = DAYS_BEFORE.get(math)
  const range = analyticRange(inquiry, { isWidened: true, isRounded: true, daysBefore })
  const { count, persons, values } = scanEvents(inquiry, range, {
    filter: allOf([globalFilter(inquiry), breakdownFilter(parameters.breakdown)]),
    series: [series.match],
    values: valuesOf(series),
    isPersonsOnly: true,
  })
  const [column] = values
  if (math === 'unique_group' && column !== undefined) {
    return pageOfGroups(groupsOf(column, count), series.mathGroupTypeIndex ?? 0, inquiry)
  }
  const counts = countsOf(persons, count, largestPerson(persons, count) + 1)
  const isAggregate = column !== undefined && PROPERTY_MATH.includes(math)
  const scores = isAggregate ? aggregatesByPerson(persons, count, column, math) : counts
  return pageOfPersons(personsMarked(counts, null), inquiry, scores)
}

function valuesOf({ math, mathProperty, mathGroupTypeIndex }: Series): readonly ValueRequest[] {
  if (math === 'unique_group') return [{ kind: 'group_key', typeIndex: mathGroupTypeIndex ?? 0 }]
  if (!PROPERTY_MATH.includes(math)) return []
  return [{ kind: 'event_property', key: mathProperty ?? '' }]
}

/** Returns the groups with the number of their events. Events without a group key are left out. */
function groupsOf({ ids, values }: ValueColumn, count: number): readonly FoundGroup[] {
  const counts = countsOf(ids, count, values.length)
  return values
    .map((value, id) => ({ key: id === 0 ? '' : propertyText(value), value: counts[id] ?? 0 }))
    .filter(({ key, value }) => key !== '' && value > 0)
}
