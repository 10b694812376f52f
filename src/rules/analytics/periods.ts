/**
 * Calendar periods: the minutes, hours, days, weeks and months of a time zone. A table of their starts is computed once
 * for each query, so that the period of an event is found with an estimate and one or two steps. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { invalidInput, type ServiceError } from '../../base/errors.ts'
import {
  addDays,
  addMonths,
  CLOCK_STEP_MS,
  hourStart,
  isHourStart,
  momentOf,
  startOfDay,
  utcOf,
  type Wall,
  wallOf,
} from '../../base/time-zone.ts'
import { PERIODS_MAX } from './limits.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MINUTE_MS = 60_000
/**
 * The least average length of a period, in milliseconds. A month has at least 28 days. A single day may be shorter than
 * 24 hours when clocks change, but a longer day makes up for it.
 */
const SHORTEST_MS: Readonly<Record<Interval, number>> = {
  minute: MINUTE_MS,
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 28 * DAY_MS,
}
/** The first midnight in UTC at which the year is at least 1 in every time zone. */
const FIRST_TIME_MS = Date.parse('0001-01-02T00:00:00Z')
const INTERVALS = ['hour', 'day', 'week', 'month'] as const

/** The length of a period. */
export type Interval = (typeof INTERVALS)[number] | 'minute'

/**
 * Returns the interval of a text. `minute` counts as hour, and null as day. Throws 400 `invalid_input` for any other
 * text.
 */
export function parseInterval(text: string | null): Interval {
  const name = text === 'minute' ? 'hour' : (text ?? 'day')
  const interval = INTERVALS.find((known) => known === name)
  if (interval === undefined) throw invalidInput('interval', 'must be hour, day, week or month')
  return interval
}

/** The periods that are counted by the calendar and not by the clock. */
export type CalendarInterval = Exclude<Interval, 'minute' | 'hour'>

/** The definition of a period. */
export interface PeriodRules {
  readonly interval: Interval
  /** The time zone, as a name of the IANA time zone database. */
  readonly timezone: string
  readonly weekStart: 'sunday' | 'monday'
}

/** The maximum number of periods, and the error that is thrown if there are more. */
export interface PeriodLimit {
  readonly countMax: number
  readonly refusal: () => ServiceError
}

/** The limit of questions other than charts. Too many periods are answered 400 `invalid_input`. */
const QUESTION_PERIODS: PeriodLimit = {
  countMax: PERIODS_MAX,
  refusal: () =>
    invalidInput(
      'interval',
      `has more than ${PERIODS_MAX} periods. Choose a longer interval`,
      'The range',
    ),
}

/** Receives the start of each period in order, and finally the end of the last period. */
type Add = (startMs: number) => void

/** Returns the start of the period that contains a moment. Both are in milliseconds since 1970. */
export function periodStart(timeMs: number, rules: PeriodRules): number {
  if (rules.interval === 'minute') return Math.floor(timeMs / MINUTE_MS) * MINUTE_MS
  if (rules.interval === 'hour') return hourStart(timeMs, rules.timezone)
  return momentOf(startWall(timeMs, rules), rules.timezone)
}

/**
 * Returns the start of a period so long ago that a range from it to `toMs` has nearly PERIODS_MAX periods, but not
 * more. The range `all` begins at this time if the first event is earlier.
 */
export function earliestStart(toMs: number, rules: PeriodRules): number {
  // Three periods are kept in reserve: the first and the last one are incomplete, and clock changes may add one.
  const spanMs = (PERIODS_MAX - 3) * SHORTEST_MS[rules.interval]
  return periodStart(Math.max(toMs - spanMs, FIRST_TIME_MS), rules)
}

/**
 * Returns the start of the period that is `count` periods later, or earlier if `count` is negative. `startMs` must be
 * the start of a period.
 */
export function shiftedPeriodStart(startMs: number, count: number, rules: PeriodRules): number {
  const { interval, timezone } = rules
  if (interval === 'minute') return startMs + count * MINUTE_MS
  if (interval === 'hour') {
    let timeMs = startMs
    for (let step = 0; step < Math.abs(count); step++) {
      timeMs = count < 0 ? hourStart(timeMs - 1, timezone) : nextHour(timeMs, timezone)
    }
    return timeMs
  }
  if (interval === 'day') return shiftedDay(startMs, count, timezone)
  return momentOf(shiftedWall(startWall(startMs, rules), count, interval), timezone)
}

/**
 * Returns the start of the next hour. If a time zone moves its clocks by a part of an hour, an hour of that day is
 * shorter or longer than 60 minutes.
 */
function nextHour(startMs: number, timezone: string): number {
  let nextMs = hourStart(startMs + HOUR_MS, timezone)
  if (nextMs === startMs) return hourStart(startMs + 2 * HOUR_MS, timezone)
  for (;;) {
    const beforeMs = hourStart(nextMs - 1, timezone)
    if (beforeMs <= startMs) return nextMs
    nextMs = beforeMs
  }
}

/**
 * Moves by one day at a time, because some time zones left out a whole day of the calendar, which must not be counted.
 */
function shiftedDay(startMs: number, count: number, timezone: string): number {
  let timeMs = startMs
  let wall = startOfDay(wallOf(startMs, timezone))
  for (let step = 0; step < Math.abs(count); step++) {
    const beforeMs = timeMs
    do {
      wall = addDays(wall, Math.sign(count))
      timeMs = momentOf(wall, timezone)
    } while (timeMs === beforeMs)
  }
  return timeMs
}

/** Returns the wall-clock time that is `count` days, weeks or months later, or earlier if `count` is negative. */
export function shiftedWall(wall: Wall, count: number, interval: CalendarInterval): Wall {
  if (interval === 'month') return addMonths(wall, count)
  return addDays(wall, interval === 'week' ? 7 * count : count)
}

/** A series of periods without gaps, numbered from 0. It covers all time between two moments. */
export class Periods {
  /** The starts of the periods, followed by the end of the last one. */
  readonly #starts: Float64Array
  /** The average number of periods in a millisecond, to estimate the period of a moment. */
  readonly #rate: number

  private constructor(starts: Float64Array) {
    this.#starts = starts
    const spanMs = (starts.at(-1) ?? 0) - (starts[0] ?? 0)
    this.#rate = spanMs > 0 ? (starts.length - 1) / spanMs : 0
  }

  /**
   * Returns the periods from the one that contains `fromMs` to the one that contains `toMs`, both in milliseconds.
   * Throws the error of `limit` if there are too many.
   */
  static covering(
    fromMs: number,
    toMs: number,
    rules: PeriodRules,
    limit: PeriodLimit = QUESTION_PERIODS,
  ): Periods {
    const starts: number[] = []
    const add = (startMs: number): void => {
      // The last start is the end of the last period and does not count as a period.
      if (starts.length > limit.countMax) throw limit.refusal()
      starts.push(startMs)
    }
    if (rules.interval === 'minute') collectMinutes(fromMs, toMs, add)
    else if (rules.interval === 'hour') collectHours(fromMs, toMs, rules.timezone, add)
    else collectDays(fromMs, toMs, rules, rules.interval, add)
    return new Periods(Float64Array.from(starts))
  }

  get count(): number {
    return this.#starts.length - 1
  }

  /** Returns the start of a period in milliseconds. `startMs(count)` is the end of the last period. */
  startMs(index: number): number {
    return this.#starts[index] ?? Number.NaN
  }

  /** Returns the number of the period that contains a moment, or -1 if the moment is outside of all periods. */
  indexOf(timeMs: number): number {
    const starts = this.#starts
    const count = starts.length - 1
    const firstMs = starts[0] ?? 0
    if (timeMs < firstMs || timeMs >= (starts[count] ?? 0)) return -1
    let index = Math.min(count - 1, Math.floor((timeMs - firstMs) * this.#rate))
    while (timeMs < (starts[index] ?? 0)) index--
    while (timeMs >= (starts[index + 1] ?? 0)) index++
    return index
  }
}

/** Returns the number of the period that contains the whole range, or null if no single period does. */
export function onlyPeriod(
  periods: Periods,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): number | null {
  const period = periods.indexOf(fromMs)
  return period >= 0 && toMs < periods.startMs(period + 1) ? period : null
}

function startWall(timeMs: number, { interval, timezone, weekStart }: PeriodRules): Wall {
  const day = startOfDay(wallOf(timeMs, timezone))
  if (interval === 'month') return [day[0], day[1], 1, 0, 0, 0, 0]
  if (interval !== 'week') return day
  const weekday = new Date(utcOf(day)).getUTCDay()
  return addDays(day, -(weekStart === 'sunday' ? weekday : (weekday + 6) % 7))
}

function collectDays(
  fromMs: number,
  toMs: number,
  rules: PeriodRules,
  interval: CalendarInterval,
  add: Add,
): void {
  const first = startWall(fromMs, rules)
  for (let step = 0, startMs = Number.NEGATIVE_INFINITY; startMs <= toMs; step++) {
    const lastMs = startMs
    startMs = momentOf(shiftedWall(first, step, interval), rules.timezone)
    // If the time zone left out a day, that day has the same start as the next day, and it is not a period.
    if (startMs > lastMs) add(startMs)
  }
}

function collectMinutes(fromMs: number, toMs: number, add: Add): void {
  let startMs = Math.floor(fromMs / MINUTE_MS) * MINUTE_MS
  for (; startMs <= toMs; startMs += MINUTE_MS) add(startMs)
  add(startMs)
}

/**
 * Collects the starts of hours. A day of 24 hours is stepped through by hours. A day on which clocks change is searched
 * in shorter steps, because its hours may have another length.
 */
function collectHours(fromMs: number, toMs: number, timezone: string, add: Add): void {
  const firstMs = hourStart(fromMs, timezone)
  add(firstMs)
  let day = startOfDay(wallOf(fromMs, timezone))
  for (let dayMs = momentOf(day, timezone); ; ) {
    day = addDays(day, 1)
    const nextDayMs = momentOf(day, timezone)
    const isPlain = nextDayMs - dayMs === DAY_MS
    const stepMs = isPlain ? HOUR_MS : CLOCK_STEP_MS
    for (let timeMs = dayMs; timeMs < nextDayMs; timeMs += stepMs) {
      if (timeMs <= firstMs || !(isPlain || isHourStart(timeMs, timezone))) continue
      add(timeMs)
      if (timeMs > toMs) return
    }
    dayMs = nextDayMs
  }
}
