/**
 * Who belongs to a cohort of retention, and in which later periods each of them came back. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import {
  addDays,
  addMonths,
  momentOf,
  startOfDay,
  type Wall,
  wallOf,
} from '../../base/time-zone.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import { largestPerson, pageOfMarked } from './actor-page.ts'
import { type AnalyticContext, globalFilter } from './analytic-query.ts'
import { type Interval, momentOfText } from './date-range.ts'
import { distinctPeriodCounts } from './distinct-periods.ts'
import {
  type EventColumns,
  type EventScanner,
  markedPersons,
  type PersonSet,
} from './event-columns.ts'
import { RETENTION_INTERVALS_MAX } from './limits.ts'
import { type PeriodRules, Periods, periodStart } from './periods.ts'
import type { RetentionParameters, RowPage } from './question-shapes.ts'
import { eventSeries, readEntity, readSeries, type Series } from './series.ts'

const TOTAL_INTERVALS_DEFAULT = 11
const HOUR_MS = 3_600_000
const INTERVALS: ReadonlyMap<string, Interval> = new Map([
  ['Hour', 'hour'],
  ['Day', 'day'],
  ['Week', 'week'],
  ['Month', 'month'],
])
/** Seen from the cohort's period. */
const EARLIER = 1
const WITHIN = 2

/** One person of a cohort. */
export interface RetentionRow {
  readonly person: number
  /** 1 or 0 for the cohort's period (always 1) and each one behind it. */
  readonly appearances: readonly number[]
}

/** A page of a cohort, in order. */
export interface RetentionPage {
  readonly rows: readonly RetentionRow[]
  readonly isFull: boolean
  /** Persons of all pages. */
  readonly total: number
  /** How many of them appear in each period. */
  readonly totals: readonly number[]
}

/** The cohort that is asked for. */
interface CohortPlan {
  readonly target: Series
  readonly returning: Series
  readonly filter: FilterGroup | null
  readonly isFirstTime: boolean
  /** The cohort's period and those behind it; further ones are not shown. */
  readonly periods: Periods
  /** Periods of an answer, that of the cohort included. */
  readonly shown: number
  /** First moment that does not count any more. */
  readonly endMs: number
}

/**
 * The page of persons of the cohort: the most active ones first, then by uuid. Throws 400 for what cannot
 * be asked, `invalid_input` without `attr` for an unknown period and for a cohort that the table does not
 * have, and as `EventScanner.scan`.
 */
export function retentionRows(
  parameters: RetentionParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): RetentionPage {
  const plan = planOf(parameters, context)
  const marks = cohortMarks(plan, context, scanner)
  const returns = returnsOf(plan, marks, context, scanner)
  return pageOfRows(marks, returns, plan, parameters.page, context.projectId, scanner)
}

function planOf(parameters: RetentionParameters, context: AnalyticContext): CohortPlan {
  const { targetEntity, returningEntity } = parameters
  const interval = INTERVALS.get(parameters.period ?? 'Day')
  if (interval === undefined) {
    throw new ServiceError('invalid_input', 'period must be Hour, Day, Week or Month')
  }
  const total = parameters.totalIntervals ?? TOTAL_INTERVALS_DEFAULT
  if (total > RETENTION_INTERVALS_MAX) {
    const detail = `total_intervals may be ${RETENTION_INTERVALS_MAX} at most`
    throw new ServiceError('invalid_input', detail, { attr: 'total_intervals' })
  }
  const selected = parameters.selectedInterval ?? 0
  if (selected >= total) {
    const detail = 'selected_interval counts from 0 and must be less than total_intervals'
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
    filter: globalFilter(parameters, context),
    isFirstTime: parameters.retentionType === 'retention_first_time',
    ...periodsOf(parameters.dateTo, interval, total, selected, context),
  }
}

function periodsOf(
  dateTo: string | null,
  interval: Interval,
  total: number,
  selected: number,
  { timezone, nowMs }: AnalyticContext,
): Pick<CohortPlan, 'periods' | 'shown' | 'endMs'> {
  const rules: PeriodRules = { interval, timezone, weekStart: 'sunday' }
  const request = { dateFrom: null, dateTo, interval, timezone, nowMs, firstEventMs: null }
  const isNow = dateTo === null || dateTo === 'all'
  const lastMs = isNow ? nowMs : momentOfText(dateTo, request)
  const { startMs, endMs } = reach(lastMs, total, interval, timezone)
  const all = Periods.covering(periodStart(startMs, rules), endMs - 1, rules)
  const firstMs = all.startMs(selected)
  const lastShownMs = all.startMs(total - 1)
  const shownEndMs = Math.min(endMs, all.startMs(total))
  const periods = Periods.covering(firstMs, lastShownMs, rules)
  return { periods, shown: total - selected, endMs: shownEndMs }
}

/** The end lies one period behind the last moment, the start all periods before the end. */
function reach(lastMs: number, total: number, interval: Interval, timezone: string) {
  if (interval === 'hour') {
    return { startMs: lastMs + HOUR_MS - total * HOUR_MS, endMs: lastMs + HOUR_MS }
  }
  const moved = (wall: Wall, count: number): Wall =>
    interval === 'month'
      ? addMonths(wall, count)
      : addDays(wall, interval === 'week' ? 7 * count : count)
  const end = moved(startOfDay(wallOf(lastMs, timezone)), 1)
  return { startMs: momentOf(moved(end, -total), timezone), endMs: momentOf(end, timezone) }
}

/** For each P 1 when it is in the cohort. */
function cohortMarks(
  plan: CohortPlan,
  context: AnalyticContext,
  scanner: EventScanner,
): Uint8Array {
  const startMs = plan.periods.startMs(0)
  const firstMs = plan.isFirstTime ? scanner.firstEventMs(context.projectId) : null
  const toMs = Math.min(plan.periods.startMs(1), plan.endMs) - 1
  const fromMs = Math.min(firstMs ?? startMs, startMs)
  const spanMs = [fromMs, toMs] as const
  const { count, persons, timesMs } = scan(plan, plan.target, spanMs, null, context, scanner)
  const marks = new Uint8Array(largestPerson(persons, count) + 1)
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    marks[person] = (marks[person] ?? 0) | ((timesMs[row] ?? 0) >= startMs ? WITHIN : EARLIER)
  }
  // Who was there earlier is not there for the first time.
  for (let person = 0; person < marks.length; person++) {
    marks[person] = marks[person] === WITHIN ? 1 : 0
  }
  return marks
}

/** The returning events of the cohort behind its period. */
function returnsOf(
  plan: CohortPlan,
  marks: Uint8Array,
  context: AnalyticContext,
  scanner: EventScanner,
): EventColumns | null {
  const fromMs = plan.periods.startMs(1)
  const isAnybody = marks.includes(1)
  if (!isAnybody || fromMs >= plan.endMs) return null
  const spanMs = [fromMs, plan.endMs - 1] as const
  return scan(plan, plan.returning, spanMs, markedPersons(marks), context, scanner)
}

function scan(
  { filter }: CohortPlan,
  series: Series,
  [fromMs, toMs]: readonly [fromMs: number, toMs: number],
  persons: PersonSet | null,
  { projectId, nowMs }: AnalyticContext,
  scanner: EventScanner,
): EventColumns {
  return scanner.scan({
    projectId,
    fromMs,
    toMs,
    filter,
    series: [series.match],
    values: [],
    persons,
    nowMs,
    order: 'any',
  })
}

function pageOfRows(
  marks: Uint8Array,
  returns: EventColumns | null,
  plan: CohortPlan,
  page: RowPage,
  projectId: number,
  scanner: EventScanner,
): RetentionPage {
  const largest = returns === null ? 0 : largestPerson(returns.persons, returns.count)
  const totals = new Array<number>(plan.shown).fill(0)
  const counts = new Uint32Array(Math.max(marks.length, largest + 1))
  if (returns !== null) {
    const found = distinctPeriodCounts(returns, plan.periods, largest, scanner)
    counts.set(found.byPerson)
    for (let period = 1; period < plan.shown; period++) totals[period] = found.byPeriod[period] ?? 0
  }
  const { persons, isFull, total } = pageOfMarked(marks, counts, page, projectId, scanner)
  const rows = persons.map((person) => {
    const appearances = new Array<number>(plan.shown).fill(0)
    appearances[0] = 1
    return { person, appearances }
  })
  if (returns !== null) fill(rows, returns, plan.periods, largest)
  totals[0] = total
  return { rows, isFull, total, totals }
}

function fill(
  rows: readonly { readonly person: number; readonly appearances: number[] }[],
  { count, persons, timesMs }: EventColumns,
  periods: Periods,
  largest: number,
): void {
  const rowNumbers = new Uint32Array(largest + 1)
  rows.forEach(({ person }, index) => {
    if (person <= largest) rowNumbers[person] = index + 1
  })
  for (let row = 0; row < count; row++) {
    const number = rowNumbers[persons[row] ?? 0] ?? 0
    if (number === 0) continue
    const period = periods.indexOf(timesMs[row] ?? 0)
    const appearances = rows[number - 1]?.appearances
    if (period > 0 && appearances !== undefined) appearances[period] = 1
  }
}
