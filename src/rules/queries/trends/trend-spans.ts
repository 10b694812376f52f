/**
 * Which events a measure looks at for the buckets of a range, and where each falls. Persons who were active
 * within days up to a bucket are counted by finer periods, which begin before the range.
 */
import { addDays, endMomentOf, wallOf } from '../../../base/time-zone.ts'
import { Periods, periodStart, shiftedPeriodStart } from '../../analytics/periods.ts'
import { bucketCount, bucketsOf } from '../query-buckets.ts'
import { eventsFromMs, type QueryRange } from '../query-range.ts'
import type { Measure } from './trend-measures.ts'

const DAY_HOURS = 24

/** Events from `fromMs` to `toMs`, both included, milliseconds. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
  /** Buckets of the result. */
  readonly bucketCount: number
  /** Where events fall; null: into the one bucket that there is. */
  readonly periods: Periods | null
  /** Of a measure of active days: null when it has none, or when the range is the only bucket. */
  readonly window: ActiveWindow | null
}

/** How buckets are made of finer periods. */
export interface ActiveWindow {
  /** Periods up to that of the bucket, and with it, that count. */
  readonly length: number
  /** For each bucket the period that it is counted as of. */
  readonly lastPeriods: Uint32Array
}

/** The span of a range. Throws 400 for too many buckets. */
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

/** Days, or hours for buckets by the clock: so many that those of the first bucket are complete. */
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
