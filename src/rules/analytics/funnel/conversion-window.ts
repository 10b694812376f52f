/**
 * The time that a funnel leaves for its steps. Source: docs/compatibility/analytics.md, "Funnels and correlation".
 */

/** Units of a window. */
export const WINDOW_UNITS = ['minute', 'hour', 'day', 'week', 'month'] as const

/** Unit of a window. */
export type WindowUnit = (typeof WINDOW_UNITS)[number]

/** Length of a window. Days have 24 hours; months are those of the calendar in UTC. */
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
    const date = new Date(startMs)
    const day = date.getUTCDate()
    date.setUTCDate(1)
    date.setUTCMonth(date.getUTCMonth() + count)
    const lastDay = new Date(date)
    lastDay.setUTCMonth(lastDay.getUTCMonth() + 1, 0)
    // Clipped: a month behind 31 January is the end of February.
    date.setUTCDate(Math.min(day, lastDay.getUTCDate()))
    const endMs = date.getTime()
    return Number.isNaN(endMs) ? Number.POSITIVE_INFINITY : endMs
  }
}
