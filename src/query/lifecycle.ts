/**
 * Who was new, returning, resurrecting or dormant in one period of a series. Source:
 * docs/COMPATIBILITY.md, "Analytic person routes".
 */
import { ServiceError } from '../base/errors.ts'
import type { LifecycleParameters } from '../wire/analytics.ts'
import { largestPerson, markedPersons, pageOfPersons } from './actor-page.ts'
import {
  type ActorPage,
  type AnalyticContext,
  globalFilter,
  intervalOf,
  NO_ACTORS,
  rangeRequest,
} from './analytic-query.ts'
import { dateRange, momentOfText } from './date-range.ts'
import type { EventColumns, EventScanner } from './event-columns.ts'
import { type PeriodRules, periodStart, shiftedPeriodStart } from './periods.ts'
import { readSeries } from './series.ts'

/** When a person had events, seen from the period that is asked for. */
const EARLIER = 1
const BEFORE = 2
const WITHIN = 4

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
  const { lifecycleType } = parameters
  const needsHistory = lifecycleType === 'new' || lifecycleType === 'resurrecting'
  const fromMs = needsHistory ? stretch.fromMs : Math.max(stretch.fromMs, stretch.beforeMs)
  const toMs = Math.min(stretch.toMs, stretch.endMs - 1)
  if (stretch.fromMs > stretch.toMs || fromMs > toMs) return NO_ACTORS
  const columns = scanner.scan({
    projectId,
    fromMs,
    toMs,
    filter,
    series: [series.match],
    values: [],
    persons: null,
    nowMs,
    order: 'any',
  })
  const marks = activity(columns, stretch)
  keepStatus(marks, lifecycleType, (person) => {
    const createdMs = scanner.personCreatedMs(projectId, person)
    return createdMs >= stretch.startMs && createdMs < stretch.endMs
  })
  return pageOfPersons(markedPersons(marks), parameters.page, projectId, scanner)
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

function activity(columns: EventColumns, { beforeMs, startMs }: Stretch): Uint8Array {
  const { count, persons, timesMs } = columns
  const marks = new Uint8Array(largestPerson(persons, count) + 1)
  for (let row = 0; row < count; row++) {
    const timeMs = timesMs[row] ?? 0
    const person = persons[row] ?? 0
    const mark = timeMs >= startMs ? WITHIN : timeMs >= beforeMs ? BEFORE : EARLIER
    marks[person] = (marks[person] ?? 0) | mark
  }
  return marks
}

/** Takes away the marks of everybody who has another status. */
function keepStatus(
  marks: Uint8Array,
  status: string,
  isCreatedWithin: (person: number) => boolean,
): void {
  for (let person = 0; person < marks.length; person++) {
    const mark = marks[person] ?? 0
    if (mark !== 0 && !hasStatus(mark, person, status, isCreatedWithin)) marks[person] = 0
  }
}

function hasStatus(
  mark: number,
  person: number,
  status: string,
  isCreatedWithin: (person: number) => boolean,
): boolean {
  const isWithin = (mark & WITHIN) !== 0
  const isBefore = (mark & BEFORE) !== 0
  if (status === 'dormant') return isBefore && !isWithin
  if (status === 'returning') return isBefore && isWithin
  if (status === 'new') return mark === WITHIN && isCreatedWithin(person)
  if (status !== 'resurrecting' || !isWithin || isBefore) return false
  return mark !== WITHIN || !isCreatedWithin(person)
}
