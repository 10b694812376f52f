/**
 * Determines which events a measure reads for the buckets of a range, and the bucket of each event. A measure of
 * persons that were active within some days up to a bucket also reads events before the range, and divides them into
 * days or hours.
 */
import { addDays, endMomentOf, wallOf } from '../../../base/time-zone.ts'
import { Periods, periodStart, shiftedPeriodStart } from '../../analytics/periods.ts'
import { bucketCount, bucketsOf } from '../query-buckets.ts'
import { eventsFromMs, type QueryRange } from '../query-range.ts'
import type { Measure } from './trend-measures.ts'

const DAY_HOURS = 24

/** The events that a measure reads: from `fromMs` to `toMs`, both inclusive, in milliseconds. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
  /** The number of buckets of the result. */
  readonly bucketCount: number
  /** The periods of the events. Null if all events fall into the only bucket. */
  readonly periods: Periods | null
  /** The window of a measure of active days. Null if the measure has none, or if the range is the only bucket. */
  readonly window: ActiveWindow | null
}

/** For each bucket, the days or hours in which a person must have been active to count in the bucket. */
export interface ActiveWindow {
  /** The number of consecutive periods (days or hours) whose actors are counted in a bucket. */
  readonly length: number
  /** For each bucket, the last of these periods. */
  readonly lastPeriods: Uint32Array
}

/**
 * Returns which events a measure reads for a range, and the buckets of the range. Throws 400 if there are too many
 * buckets.
 */
export function spanOf(measure: Measure, range: QueryRange, isTotal: boolean): Span {
  const { toMs, timezone } = range
  const activeDays = measure.of === 'actors' ? measure.activeDays : null
  if (isTotal) {
    const fromMs =
      activeDays === null ? eventsFromMs(range) : daysBefore(toMs, activeDays, timezone) + 1
    return { fromMs, toMs, bucketCount: 1, periods: null, window: null }
  }
  const buckets = bucketsOf(range)
  const count = bucketCount(range, buckets)
  if (activeDays === null || count === 0) {
    const fromMs = eventsFromMs(range)
    return { fromMs, toMs, bucketCount: count, periods: buckets, window: null }
  }
  const { periods, length } = activePeriods(buckets.startMs(0), toMs, activeDays, range)
  const lastPeriods = Uint32Array.from({ length: count }, (_, bucket) =>
    periods.indexOf(buckets.startMs(bucket)),
  )
  const window = { length, lastPeriods }
  return { fromMs: periods.startMs(0), toMs, bucketCount: count, periods, window }
}

/**
 * Returns the periods in which active persons are counted: hours if the buckets are hours or minutes, otherwise days.
 * The periods begin before the range, so that the first bucket has all the days of its window.
 */
export function activePeriods(
  firstMs: number,
  toMs: number,
  days: number,
  { interval, timezone }: Pick<QueryRange, 'interval' | 'timezone'>,
): { readonly periods: Periods; readonly length: number } {
  const isClock = interval === 'hour' || interval === 'minute'
  const rules = { interval: isClock ? 'hour' : 'day', timezone, weekStart: 'sunday' } as const
  const length = isClock ? days * DAY_HOURS : days
  const fromMs = shiftedPeriodStart(periodStart(firstMs, rules), 1 - length, rules)
  return { periods: Periods.covering(fromMs, toMs, rules), length }
}

function daysBefore(timeMs: number, days: number, timezone: string): number {
  return endMomentOf(addDays(wallOf(timeMs, timezone), -days), timezone)
}
