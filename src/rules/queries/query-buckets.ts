/**
 * The buckets of a query over time (the periods of its range), and their names. Source: docs/compatibility/queries.md,
 * "Ranges".
 */
import { ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import { timeText } from '../../base/time.ts'
import { offsetsAt, type Wall, wallOf } from '../../base/time-zone.ts'
import type { DateRange } from '../analytics/date-range.ts'
import { type Interval, type PeriodLimit, type PeriodRules, Periods } from '../analytics/periods.ts'
import { CHART_SERIES_POINTS_MAX } from './limits.ts'
import type { QueryRange } from './query-range.ts'

const CHART_PERIODS: PeriodLimit = {
  countMax: CHART_SERIES_POINTS_MAX,
  refusal: () =>
    new ServiceError(
      'query_too_large',
      `A series of the chart would have more than ${CHART_SERIES_POINTS_MAX} points. Choose a longer interval or a shorter range.`,
      { attr: 'interval' },
    ),
}
const MINUTE_MS = 60_000
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Returns the rules for the periods of a query, whose weeks begin on Sunday. */
export function bucketRules({ interval, timezone }: Pick<QueryRange, 'interval' | 'timezone'>) {
  return { interval, timezone, weekStart: 'sunday' } as const satisfies PeriodRules
}

/**
 * Returns the buckets of a range. A range that ends before it begins has one bucket here; use `bucketCount` for the
 * real number. Throws 400 `query_too_large` if there are too many.
 */
export function bucketsOf(range: QueryRange): Periods {
  return Periods.covering(range.fromMs, range.toMs, bucketRules(range), CHART_PERIODS)
}

/**
 * Returns the number of buckets of a range. It is 0 for an empty range, although `Periods.covering` returns a period.
 */
export function bucketCount(range: QueryRange, buckets: Periods): number {
  return range.fromMs > range.toMs ? 0 : buckets.count
}

/**
 * Returns the member `days` of an answer: one text for each bucket, such as `2020-01-09`, or `2020-01-09 13:00:00` with
 * hours and minutes.
 */
export function bucketDays(range: QueryRange, buckets: Periods): readonly string[] {
  return everyBucket(range, buckets, (wall) => bucketDay(wall, range.interval))
}

/** Returns the text of one bucket in `days`. `wall` is the wall-clock time of its start. */
export function bucketDay(wall: Wall, interval: Interval): string {
  const [year, month, day, hour, minute] = wall
  const date = `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`
  const hasClock = interval === 'hour' || interval === 'minute'
  return hasClock ? `${date} ${two(hour)}:${two(minute)}:00` : date
}

const DAY_WITH_CLOCK = /^(\d{4})-(\d{2})-(\d{2}) (\d{2}):(\d{2}):00$/

/**
 * Returns the texts of `days` for a table. When clocks are set back, two hours have the same text. Both then get their
 * offset from UTC, so that all texts are different.
 */
export function tableDays(days: readonly unknown[], timezone: string): readonly unknown[] {
  if (new Set(days).size === days.length) return days
  const seen = new Map<unknown, number>()
  for (const day of days) seen.set(day, (seen.get(day) ?? 0) + 1)
  const shown = new Map<unknown, number>()
  return days.map((day) => {
    const match = (seen.get(day) ?? 0) > 1 ? DAY_WITH_CLOCK.exec(String(day)) : null
    if (match === null) return day
    const [, year, month, date, hour, minute] = match.map(Number)
    const wall: Wall = [year ?? 0, month ?? 1, date ?? 1, hour ?? 0, minute ?? 0, 0, 0]
    const place = shown.get(day) ?? 0
    shown.set(day, place + 1)
    const offsetMs = offsetsAt(wall, timezone)[place]
    return offsetMs === undefined ? day : `${String(day)}${offsetText(offsetMs)}`
  })
}

function offsetText(offsetMs: number): string {
  const minutes = Math.abs(Math.round(offsetMs / MINUTE_MS))
  return `${offsetMs < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
}

/** Returns the member `labels` of an answer: one text for each bucket. */
export function bucketLabels(range: QueryRange, buckets: Periods): readonly string[] {
  return everyBucket(range, buckets, (wall, index) =>
    range.interval === 'week'
      ? weekLabel(wall, wallOf(buckets.startMs(index + 1) - 1, range.timezone), range)
      : bucketLabel(wall, range.interval),
  )
}

/** Returns the starts of the buckets in ISO 8601 form, in UTC. */
export function bucketStarts(range: QueryRange, buckets: Periods): readonly string[] {
  const count = bucketCount(range, buckets)
  return Array.from({ length: count }, (_, index) => timeText(buckets.startMs(index)))
}

/** Returns the member `resolved_date_range` of an answer. */
export function resolvedRange({ fromMs, toMs }: DateRange): JsonObject {
  return { resolved_date_range: { date_from: timeText(fromMs), date_to: timeText(toMs) } }
}

/** Returns a day in the form `9-Jan-2020`. */
export function dayLabel([year, month, day]: Wall): string {
  return `${day}-${MONTHS[month - 1]}-${year}`
}

function everyBucket(
  range: QueryRange,
  buckets: Periods,
  text: (wall: Wall, index: number) => string,
): readonly string[] {
  const count = bucketCount(range, buckets)
  return Array.from({ length: count }, (_, index) =>
    text(wallOf(buckets.startMs(index), range.timezone), index),
  )
}

function bucketLabel(wall: Wall, interval: Exclude<Interval, 'week'>): string {
  const [year, month, day, hour, minute] = wall
  switch (interval) {
    case 'month':
      return `${MONTHS[month - 1]} ${year}`
    case 'day':
      return dayLabel(wall)
    case 'hour':
    case 'minute':
      return `${day}-${MONTHS[month - 1]} ${two(hour)}:${two(minute)}`
  }
}

/** Returns the label of a week: the first and last of its days that are in the range. */
function weekLabel(start: Wall, end: Wall, { fromMs, toMs, timezone }: QueryRange): string {
  const from = latest(start, wallOf(fromMs, timezone))
  const to = earliest(end, wallOf(toMs, timezone))
  const [fromMonth, toMonth] = [MONTHS[from[1] - 1], MONTHS[to[1] - 1]]
  if (from[0] !== to[0]) return `${dayLabel(from)} – ${dayLabel(to)}`
  if (from[1] !== to[1]) return `${from[2]}-${fromMonth} – ${to[2]}-${toMonth}`
  if (from[2] === to[2]) return dayLabel(from)
  return `${from[2]}–${to[2]} ${toMonth}`
}

function latest(left: Wall, right: Wall): Wall {
  return dayNumber(left) < dayNumber(right) ? right : left
}

function earliest(left: Wall, right: Wall): Wall {
  return dayNumber(left) > dayNumber(right) ? right : left
}

/** Returns a number that is greater for a later day, to compare days. */
function dayNumber([year, month, day]: Wall): number {
  return (year * 12 + month) * 31 + day
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
