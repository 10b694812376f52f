/**
 * The conversion window of a funnel: the time within which an actor must do the steps. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { addMonths, utcOf, wallOfUtc } from '../../../base/time-zone.ts'

/** The units of a window. */
export const WINDOW_UNITS = ['minute', 'hour', 'day', 'week', 'month'] as const

/** The unit of a window. */
export type WindowUnit = (typeof WINDOW_UNITS)[number]

/**
 * The length of a window. Days have 24 hours. Months are calendar months in UTC. A day that the last month does not
 * have becomes its last day: one month from January 31 ends on February 28 or 29.
 */
export interface ConversionWindow {
  readonly count: number
  readonly unit: WindowUnit
}

const UNIT_MS: Readonly<Record<Exclude<WindowUnit, 'month'>, number>> = {
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
}

/** Returns a function that computes the last millisecond of a window, inclusive, from its start in milliseconds. */
export function windowEnd({ count, unit }: ConversionWindow): (startMs: number) => number {
  if (unit !== 'month') {
    const lengthMs = count * UNIT_MS[unit]
    return (startMs) => startMs + lengthMs
  }
  return (startMs) => {
    const endMs = utcOf(addMonths(wallOfUtc(startMs), count))
    return Number.isNaN(endMs) ? Number.POSITIVE_INFINITY : endMs
  }
}
