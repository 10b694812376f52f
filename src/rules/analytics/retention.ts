/**
 * Finds the persons of a retention cohort and the later periods in which each of them returned. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import { momentOf, startOfDay, wallOf } from '../../base/time-zone.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import { largestPerson, pageOfPersons, personsMarked } from './actor-page.ts'
import { type ActorPage, globalFilter, type Inquiry, scanEvents } from './analytic-query.ts'
import { momentOfText } from './date-range.ts'
import { activityOf, distinctPeriodCounts, WITHIN } from './distinct-periods.ts'
import { type EventColumns, listedPersons } from './event-columns.ts'
import { RETENTION_INTERVALS_MAX } from './limits.ts'
import {
  type Interval,
  type PeriodRules,
  Periods,
  periodStart,
  shiftedPeriodStart,
  shiftedWall,
} from './periods.ts'
import { countsOf } from './person-aggregates.ts'
import type { ParametersOf } from './questions.ts'
import { eventSeries, readEntity, readSeries, type Series } from './series.ts'

type RetentionInquiry = Inquiry<ParametersOf<'retention'>>

const TOTAL_INTERVALS_DEFAULT = 11
const HOUR_MS = 3_600_000
const INTERVALS: ReadonlyMap<string, Interval> = new Map([
  ['Hour', 'hour'],
  ['Day', 'day'],
  ['Week', 'week'],
  ['Month', 'month'],
])

/** The requested cohort: who belongs to it, which events count as a return, and the periods that are shown. */
interface CohortPlan {
  readonly target: Series
  readonly returning: Series
  readonly filter: FilterGroup | null
  readonly isFirstTime: boolean
  /** The period of the cohort (period 0) and the later periods that are shown. */
  readonly periods: Periods
  /** The number of periods in the answer, including the period of the cohort. */
  readonly shown: number
  /** Events at or after this moment, in milliseconds, are ignored. */
  readonly endMs: number
}

/**
 * Returns the page of persons of the cohort. The persons that returned in most periods come first, and persons with
 * equally many are in the order of their uuids. Throws 400 for an invalid request, `invalid_input` without `attr` for
 * an unknown period or for a cohort that the table does not contain, and the same errors as `EventScanner.scan`.
 */
export function retentionActors(inquiry: RetentionInquiry): ActorPage {
  const plan = planOf(inquiry)
  const cohort = returningActors(plan, cohortOf(plan, inquiry), inquiry)
  const { periods, shown } = plan
  const returns = returnsOf(plan, cohort, inquiry)
  const { persons, count } = returns ?? { persons: cohort, count: 0 }
  const largest = largestPerson(persons, count)
  const scores = new Uint32Array(Math.max((cohort.at(-1) ?? 0) + 1, largest + 1))
  const totals = new Array<number>(shown).fill(0)
  totals[0] = cohort.length
  if (returns !== null) {
    const { byPerson, byPeriod } = distinctPeriodCounts(returns, periods, largest, inquiry.scanner)
    scores.set(byPerson)
    for (let period = 1; period < shown; period++) totals[period] = byPeriod[period] ?? 0
  }
  const page = pageOfPersons(cohort, inquiry, scores, null)
  return { ...page, appearances: appearancesOf(page, returns, plan, largest), totals }
}

function planOf(inquiry: RetentionInquiry): CohortPlan {
  const { parameters, context } = inquiry
  const { targetEntity, returningEntity } = parameters
  const interval = INTERVALS.get(parameters.period ?? 'Day')
  if (interval === undefined) {
    throw new ServiceError('invalid_input', '`period` must be Hour, Day, Week or Month.')
  }
  const total = parameters.totalIntervals ?? TOTAL_INTERVALS_DEFAULT
  if (total > RETENTION_INTERVALS_MAX) {
    const detail = `\`total_intervals\` may be at most ${RETENTION_INTERVALS_MAX}.`
    throw new ServiceError('invalid_input', detail, { attr: 'total_intervals' })
  }
  const selected = parameters.selectedInterval ?? 0
  if (selected >= total) {
    const detail = '`selected_interval` counts from 0 and must be less than `total_intervals`.'
    throw new ServiceError('invalid_input', detail)
  }
  const target =
    targetEntity === undefined
      ? eventSeries('$pageview')
      : readEntity(targetEntity, 'target_entity', context.actions)
  const returning =
    returningEntity === undefined
      ? (readSeries(parameters, context.actions)[0] ?? target)
      : readEntity(returningEntity, 'returning_entity', context.actions)
  return {
    target,
    returning,
    filter: globalFilter(inquiry),
    isFirstTime: parameters.retentionType === 'retention_first_time',
    ...periodsOf(inquiry, interval, total, selected),
  }
}

function periodsOf(
  { parameters: { dateTo }, context: { timezone, nowMs } }: RetentionInquiry,
  interval: Interval,
  total: number,
  selected: number,
): Pick<CohortPlan, 'periods' | 'shown' | 'endMs'> {
  const rules: PeriodRules = { interval, timezone, weekStart: 'sunday' }
  const request = { dateFrom: null, dateTo, interval, timezone, nowMs, firstEventMs: null }
  const isNow = dateTo === null || dateTo === 'all'
  const lastMs = isNow ? nowMs : momentOfText(dateTo, request)
  const { startMs, endMs } = reach(lastMs, total, rules)
  const all = Periods.covering(periodStart(startMs, rules), endMs - 1, rules)
  const firstMs = all.startMs(selected)
  const lastShownMs = all.startMs(total - 1)
  const shownEndMs = Math.min(endMs, all.startMs(total))
  const periods = Periods.covering(firstMs, lastShownMs, rules)
  return { periods, shown: total - selected, endMs: shownEndMs }
}

/**
 * Returns the time range of the table. The range ends one period after `lastMs`. Unless the periods are hours, `lastMs`
 * is first moved back to the start of its day. The range begins `total` periods before its end.
 */
function reach(lastMs: number, total: number, rules: PeriodRules) {
  const { interval, timezone } = rules
  if (interval === 'minute' || interval === 'hour') {
    return { startMs: lastMs + HOUR_MS - total * HOUR_MS, endMs: lastMs + HOUR_MS }
  }
  if (interval === 'day') {
    const endMs = shiftedPeriodStart(periodStart(lastMs, rules), 1, rules)
    return { startMs: shiftedPeriodStart(endMs, -total, rules), endMs }
  }
  const end = shiftedWall(startOfDay(wallOf(lastMs, timezone)), 1, interval)
  const start = shiftedWall(end, -total, interval)
  return { startMs: momentOf(start, timezone), endMs: momentOf(end, timezone) }
}

/** Returns the person numbers of the cohort, ascending. */
function cohortOf(plan: CohortPlan, inquiry: RetentionInquiry): Uint32Array {
  const { periods, endMs, isFirstTime, filter, target } = plan
  const { context, scanner } = inquiry
  const startMs = periods.startMs(0)
  const firstMs = isFirstTime ? scanner.firstEventMs(context.projectId) : null
  const range = {
    fromMs: Math.min(firstMs ?? startMs, startMs),
    toMs: Math.min(periods.startMs(1), endMs) - 1,
  }
  const columns = scanEvents(inquiry, range, { filter, series: [target.match] })
  // With first-time retention, the events before the period are scanned too. A person with such an event is not in the
  // cohort.
  return personsMarked(activityOf(columns, startMs), WITHIN)
}

/**
 * Returns the persons of the cohort that have a returning event in the requested period, or all of them if the request
 * names no period.
 */
function returningActors(
  { periods, shown, endMs, filter, returning }: CohortPlan,
  cohort: Uint32Array,
  inquiry: RetentionInquiry,
): Uint32Array {
  const period = inquiry.parameters.appearsIn ?? 0
  if (period === 0) return cohort
  const fromMs = periods.startMs(period)
  const isShown = period < shown && fromMs < endMs
  if (!isShown || cohort.length === 0) return cohort.subarray(0, 0)
  const toMs = Math.min(periods.startMs(period + 1), endMs) - 1
  const persons = listedPersons(cohort)
  const wish = { filter, series: [returning.match], persons, isPersonsOnly: true }
  const columns = scanEvents(inquiry, { fromMs, toMs }, wish)
  const counts = countsOf(columns.persons, columns.count, largestPerson(cohort, cohort.length) + 1)
  return personsMarked(counts, null)
}

/** Returns the returning events of the cohort after its own period, or null if there can be none. */
function returnsOf(
  { periods, endMs, filter, returning }: CohortPlan,
  cohort: Uint32Array,
  inquiry: RetentionInquiry,
): EventColumns | null {
  const fromMs = periods.startMs(1)
  if (cohort.length === 0 || fromMs >= endMs) return null
  const persons = listedPersons(cohort)
  const range = { fromMs, toMs: endMs - 1 }
  return scanEvents(inquiry, range, { filter, series: [returning.match], persons })
}

/** Returns a list for each person of a page: entry i is 1 if the person appears in period i. */
function appearancesOf(
  { actors }: ActorPage,
  returns: EventColumns | null,
  { periods, shown }: CohortPlan,
  largest: number,
): readonly (readonly number[])[] {
  const lists = actors.map(() => {
    const list = new Array<number>(shown).fill(0)
    list[0] = 1
    return list
  })
  if (returns === null) return lists
  const places = new Uint32Array(largest + 1)
  for (const [index, actor] of actors.entries()) {
    if (actor.kind === 'person' && actor.person <= largest) places[actor.person] = index + 1
  }
  const { count, persons, timesMs } = returns
  for (let row = 0; row < count; row++) {
    const place = places[persons[row] ?? 0] ?? 0
    if (place === 0) continue
    const period = periods.indexOf(timesMs[row] ?? 0)
    const list = lists[place - 1]
    if (period > 0 && list !== undefined) list[period] = 1
  }
  return lists
}
