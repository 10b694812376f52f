/**
 * Finds the persons that were new, returning, resurrecting or dormant in one period of a series. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import { pageOfPersons, personsMarked } from './actor-page.ts'
import {
  type ActorPage,
  globalFilter,
  type Inquiry,
  NO_ACTORS,
  rangeRequest,
  scanEvents,
} from './analytic-query.ts'
import { dateRange, momentOfText } from './date-range.ts'
import { activityOf, EARLIER, WITHIN } from './distinct-periods.ts'
import { markedPersons } from './event-columns.ts'
import { type PeriodRules, periodStart, shiftedPeriodStart } from './periods.ts'
import type { ParametersOf } from './questions.ts'
import { readSeries } from './series.ts'

type LifecycleInquiry = Inquiry<ParametersOf<'lifecycle'>>

/** The requested period, and the range of events that decide about it. All times are in milliseconds. */
interface LifecycleRange {
  readonly fromMs: number
  readonly toMs: number
  /** The start of the period before the requested one. */
  readonly beforeMs: number
  readonly startMs: number
  /** The start of the period after the requested one. */
  readonly endMs: number
}

/**
 * Returns the page of persons that have the requested status in the period of `targetDate`, in the order of their
 * uuids. The page is empty for an unknown status. Weeks begin on Monday. Throws 400 for an invalid request,
 * `invalid_input` without `attr` for a request without a series, and the same errors as `EventScanner.scan`.
 */
export function lifecycleActors(inquiry: LifecycleInquiry): ActorPage {
  const { parameters, context, scanner } = inquiry
  const [series] = readSeries(parameters, context.actions)
  if (series === undefined) {
    const detail = 'The query needs a series. Send `events`, a list with at least one series.'
    throw new ServiceError('invalid_input', detail)
  }
  // A distinct_id without a person has no creation time, so it cannot be new and is left out.
  const wish = { filter: globalFilter(inquiry), series: [series.match], hasProfile: true }
  const range = lifecycleRange(inquiry)
  const { startMs, endMs } = range
  const fromMs = Math.max(range.fromMs, range.beforeMs)
  const toMs = Math.min(range.toMs, endMs - 1)
  if (range.fromMs > range.toMs || fromMs > toMs) return NO_ACTORS
  const marks = activityOf(scanEvents(inquiry, { fromMs, toMs }, wish), startMs)
  const status = parameters.lifecycleType
  if (status !== 'new' && status !== 'resurrecting') {
    const wanted = status === 'dormant' ? EARLIER : status === 'returning' ? EARLIER | WITHIN : -1
    return pageOfPersons(personsMarked(marks, wanted), inquiry)
  }
  // Indexed by person number. 1 means that the person was created in the period and is active in it, but not in the
  // period before it.
  const created = new Uint8Array(marks.length)
  for (const person of scanner.createdWithin(context.projectId, startMs, endMs).persons) {
    if (marks[person] === WITHIN) created[person] = 1
  }
  // A person that was created in the period is not new if it has older events. This second scan is cheap: such persons
  // are few, and hardly any segment can contain older events of them.
  if (created.includes(1) && range.fromMs < fromMs) {
    const older = { fromMs: range.fromMs, toMs: fromMs }
    const some = { ...wish, persons: markedPersons(created) }
    const { count, persons, timesMs } = scanEvents(inquiry, older, some)
    for (let row = 0; row < count; row++) {
      if ((timesMs[row] ?? 0) < fromMs) created[persons[row] ?? 0] = 0
    }
  }
  const wanted = status === 'new' ? 1 : 0
  const persons = personsMarked(marks, WITHIN).filter((person) => created[person] === wanted)
  return pageOfPersons(persons, inquiry)
}

/**
 * Returns the requested period and the range of the events. The events begin one period before the requested range and
 * end with the last period of the range. If the requested range is empty, the range of the events is empty too.
 */
function lifecycleRange(inquiry: LifecycleInquiry): LifecycleRange {
  const request = rangeRequest(inquiry)
  const { interval, timezone } = request
  const rules: PeriodRules = { interval, timezone, weekStart: 'monday' }
  const range = dateRange(request, { isWidened: false, isRounded: false })
  const startMs = periodStart(momentOfText(inquiry.parameters.targetDate, request), rules)
  const isEmpty = range.fromMs > range.toMs
  return {
    fromMs: shiftedPeriodStart(periodStart(range.fromMs, rules), -1, rules),
    toMs: isEmpty
      ? Number.NEGATIVE_INFINITY
      : shiftedPeriodStart(periodStart(range.toMs, rules), 1, rules) - 1,
    beforeMs: shiftedPeriodStart(startMs, -1, rules),
    startMs,
    endMs: shiftedPeriodStart(startMs, 1, rules),
  }
}
