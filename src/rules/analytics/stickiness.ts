/**
 * Who came back how often: persons with events of a series in exactly so many different periods. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */

import { largestPerson, pageOfMarkedPersons } from './actor-page.ts'
import {
  type ActorPage,
  type AnalyticContext,
  analyticRange,
  globalFilter,
  intervalOf,
  NO_ACTORS,
} from './analytic-query.ts'
import { distinctPeriodCounts } from './distinct-periods.ts'
import type { EventColumns, EventScanner } from './event-columns.ts'
import { Periods } from './periods.ts'
import type { StickinessParameters } from './question-shapes.ts'
import { targetSeries } from './series.ts'

/**
 * The page of persons, by uuid. Weeks begin on Sunday. Throws 400 for what cannot be asked, and as
 * `EventScanner.scan`.
 */
export function stickinessActors(
  parameters: StickinessParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  const series = targetSeries(parameters, context.actions)
  const interval = intervalOf(parameters)
  const rules = { isWidened: false, isRounded: true }
  const range = analyticRange(parameters, context, scanner, rules)
  const filter = globalFilter(parameters, context)
  const wanted = parameters.stickinessDays
  if (wanted === 0) return NO_ACTORS
  const columns = scanner.scan({
    projectId: context.projectId,
    fromMs: range.fromMs,
    toMs: range.toMs,
    filter,
    series: [series.match],
    values: [],
    persons: null,
    nowMs: context.nowMs,
    order: 'any',
  })
  if (columns.count === 0) return NO_ACTORS
  const { earliestMs, latestMs } = extentOf(columns)
  const { timezone } = context
  const periods = Periods.covering(earliestMs, latestMs, {
    interval,
    timezone,
    weekStart: 'sunday',
  })
  const largest = largestPerson(columns.persons, columns.count)
  const { byPerson: counts } = distinctPeriodCounts(columns, periods, largest, scanner)
  const marks = new Uint8Array(counts.length)
  for (let person = 0; person <= largest; person++)
    marks[person] = counts[person] === wanted ? 1 : 0
  return pageOfMarkedPersons(marks, parameters.page, context.projectId, scanner)
}

/** A range may be far longer than there are events. */
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
