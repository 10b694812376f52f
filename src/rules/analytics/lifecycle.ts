/**
 * Who was new, returning, resurrecting or dormant in one period of a series. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import { largestPerson, pageOfMarkedPersons } from './actor-page.ts'
import {
  type ActorPage,
  type AnalyticContext,
  globalFilter,
  intervalOf,
  NO_ACTORS,
  rangeRequest,
} from './analytic-query.ts'
import { dateRange, momentOfText } from './date-range.ts'
import {
  type EventColumns,
  type EventScanner,
  markedPersons,
  type PersonSet,
} from './event-columns.ts'
import { type PeriodRules, periodStart, shiftedPeriodStart } from './periods.ts'
import type { LifecycleParameters } from './question-shapes.ts'
import { readSeries } from './series.ts'

/** When a person had events, seen from the period that is asked for. */
const BEFORE = 1
const WITHIN = 2

/** The period that is asked for and what is looked at for it; times in milliseconds. */
interface Stretch {
  readonly fromMs: number
  readonly toMs: number
  /** Start of the period before. */
  readonly beforeMs: number
  readonly startMs: number
  /** Start of the period behind. */
  readonly endMs: number
}

/**
 * The page of persons with the asked status in the period of `targetDate`, by uuid; nobody for an unknown
 * status. Weeks begin on Monday. Throws 400 for what cannot be asked, `invalid_input` without `attr` for
 * a request without a series, and as `EventScanner.scan`.
 */
export function lifecycleActors(
  parameters: LifecycleParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  const [series] = readSeries(parameters, context.actions)
  if (series === undefined) {
    const detail = 'a series is needed: send events, a list with at least one series'
    throw new ServiceError('invalid_input', detail)
  }
  const filter = globalFilter(parameters, context)
  const stretch = stretchOf(parameters, context, scanner)
  const { projectId, nowMs } = context
  const fromMs = Math.max(stretch.fromMs, stretch.beforeMs)
  const toMs = Math.min(stretch.toMs, stretch.endMs - 1)
  if (stretch.fromMs > stretch.toMs || fromMs > toMs) return NO_ACTORS
  const request = { projectId, filter, series: [series.match], values: [], nowMs }
  const scan = (fromMs: number, toMs: number, persons: PersonSet | null): EventColumns =>
    scanner.scan({ ...request, fromMs, toMs, persons, order: 'any' })
  const marks = activity(scan(fromMs, toMs, null), stretch)
  const status = parameters.lifecycleType
  if (status === 'new' || status === 'resurrecting') {
    const created = createdWithin(marks, stretch, projectId, scanner)
    // Of few persons, created lately: their older events decide, and hardly any segment can have some.
    if (created.includes(1) && stretch.fromMs < fromMs) {
      const { count, persons, timesMs } = scan(stretch.fromMs, fromMs, markedPersons(created))
      for (let row = 0; row < count; row++) {
        if ((timesMs[row] ?? 0) < fromMs) created[persons[row] ?? 0] = 0
      }
    }
    keepNew(marks, created, status === 'new')
  } else keepStatus(marks, status)
  return pageOfMarkedPersons(marks, parameters.page, projectId, scanner)
}

/** From one period before the range to the end of its last one; empty when the range is. */
function stretchOf(
  parameters: LifecycleParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): Stretch {
  const { timezone } = context
  const rules: PeriodRules = { interval: intervalOf(parameters), timezone, weekStart: 'monday' }
  const request = rangeRequest(parameters, context, scanner)
  const range = dateRange(request, { isWidened: false, isRounded: false })
  const startMs = periodStart(momentOfText(parameters.targetDate, request), rules)
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

/** For each P when it had events: `BEFORE`, `WITHIN`, or both. */
function activity(columns: EventColumns, { startMs }: Stretch): Uint8Array {
  const { count, persons, timesMs } = columns
  const marks = new Uint8Array(largestPerson(persons, count) + 1)
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    marks[person] = (marks[person] ?? 0) | ((timesMs[row] ?? 0) >= startMs ? WITHIN : BEFORE)
  }
  return marks
}

/** For each P 1 when it was active in the period and not before it, and was created in it. */
function createdWithin(
  marks: Uint8Array,
  { startMs, endMs }: Stretch,
  projectId: number,
  scanner: EventScanner,
): Uint8Array {
  const created = new Uint8Array(marks.length)
  for (const person of scanner.createdWithin(projectId, startMs, endMs)) {
    if (marks[person] === WITHIN) created[person] = 1
  }
  return created
}

/** Of those who were active in the period and not before it the new ones, or all others. */
function keepNew(marks: Uint8Array, isNew: Uint8Array, isNewWanted: boolean): void {
  const wanted = isNewWanted ? 1 : 0
  for (let person = 0; person < marks.length; person++) {
    if (marks[person] !== WITHIN || isNew[person] !== wanted) marks[person] = 0
  }
}

/** Takes away the marks of everybody who has another status. */
function keepStatus(marks: Uint8Array, status: string): void {
  const wanted = status === 'dormant' ? BEFORE : status === 'returning' ? BEFORE | WITHIN : -1
  for (let person = 0; person < marks.length; person++) {
    if (marks[person] !== wanted) marks[person] = 0
  }
}
