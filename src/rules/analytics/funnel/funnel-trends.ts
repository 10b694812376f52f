/**
 * Funnels over time: finds the period in which the attempts of the wanted actors must begin. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { ServiceError } from '../../../base/errors.ts'
import { momentOfText, type RangeRequest } from '../date-range.ts'
import { type PeriodRules, periodStart, shiftedPeriodStart } from '../periods.ts'
import type { Entrance } from './funnel-attempts.ts'
import type { EntranceParameters } from './funnel-shapes.ts'

const MOMENT = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?.{0,6})?$/

/**
 * Returns the period in which wanted actors enter a funnel over time. Returns null if no period begins at
 * `periodStart`; then no actor is wanted. Throws 400 `invalid_input` without `attr` if the request lacks
 * `entrance_period_start` or `drop_off`.
 */
export function entranceAt(
  { isDropOff, periodStart: text }: EntranceParameters,
  request: RangeRequest,
): Entrance | null {
  if (isDropOff === null || text === null) {
    const detail = 'A funnel over time needs `drop_off` and `entrance_period_start`.'
    throw new ServiceError('invalid_input', detail)
  }
  const day = MOMENT.exec(text)?.[1]
  if (day === undefined || !isDay(day)) return null
  // With the interval hour, `momentOfText` does not ignore the time of day.
  const startMs = momentOfText(text, { ...request, interval: 'hour' })
  const { interval, timezone } = request
  const rules: PeriodRules = { interval, timezone, weekStart: 'sunday' }
  if (periodStart(startMs, rules) !== startMs) return null
  return { fromMs: startMs, untilMs: shiftedPeriodStart(startMs, 1, rules) }
}

function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}
