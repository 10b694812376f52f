/**
 * The time that a funnel leaves for its steps. Source: docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { addMonths, utcOf, wallOfUtc } from '../../../base/time-zone.ts'

/** Units of a window. */
export const WINDOW_UNITS = ['minute', 'hour', 'day', 'week', 'month'] as const

/** Unit of a window. */
export type WindowUnit = (typeof WINDOW_UNITS)[number]

/** Length of a window. Days have 24 hours; months are those of the calendar in UTC, clipped at their end. */
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

/** Answers the last millisecond of a window that begins at a time in milliseconds; it belongs to it. */
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
