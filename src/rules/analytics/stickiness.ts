/**
 * Finds the persons that have events of a series in exactly the given number of different periods. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */

import { largestPerson, pageOfPersons, personsMarked } from './actor-page.ts'
import {
  type ActorPage,
  analyticRange,
  globalFilter,
  type Inquiry,
  NO_ACTORS,
  scanEvents,
} from './analytic-query.ts'
import { distinctPeriodCounts } from './distinct-periods.ts'
import type { EventColumns } from './event-columns.ts'
import { Periods, parseInterval } from './periods.ts'
import type { ParametersOf } from './questions.ts'
import { targetSeries } from './series.ts'

/**
 * Returns the page of persons, in the order of their uuids. Weeks begin on Sunday. Throws 400 for an invalid request,
 * and the same errors as `EventScanner.scan`.
 */
export function stickinessActors(inquiry: Inquiry<ParametersOf<'stickiness'>>): ActorPage {
  const { parameters, context, scanner } = inquiry
  const series = targetSeries(parameters, context.actions)
  const interval = parseInterval(parameters.interval)
  const range = analyticRange(inquiry, { isWidened: false, isRounded: true })
  const filter = globalFilter(inquiry)
  const wanted = parameters.stickinessDays
  if (wanted === 0) return NO_ACTORS
  const columns = scanEvents(inquiry, range, { filter, series: [series.match] })
  if (columns.count === 0) return NO_ACTORS
  const { earliestMs, latestMs } = extentOf(columns)
  const { timezone } = context
  const rules = { interval, timezone, weekStart: 'sunday' } as const
  const periods = Periods.covering(earliestMs, latestMs, rules)
  const largest = largestPerson(columns.persons, columns.count)
  const { byPerson } = distinctPeriodCounts(columns, periods, largest, scanner)
  return pageOfPersons(personsMarked(byPerson, wanted), inquiry)
}

/**
 * Returns the times of the first and the last event. Periods are computed only between them, because the range may be
 * far longer.
 */
function extentOf({ count, timesMs }: EventColumns) {
  let earliestMs = Number.POSITIVE_INFINITY
  let latestMs = Number.NEGATIVE_INFINITY
  for (let row = 0; row < count; row++) {
    const timeMs = timesMs[row] ?? 0
    if (timeMs < earliestMs) earliestMs = timeMs
    if (timeMs > latestMs) latestMs = timeMs
  }
  return { earliestMs, latestMs }
}
