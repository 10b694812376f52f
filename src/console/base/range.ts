/** The time range of a page, as the URL holds it: `range=30d` or `range=2026-01-01..2026-01-31`, and `compare=1`. */
import { computed } from '@preact/signals'
import { query } from './address.ts'
import { project } from './session.ts'

/** The offered ranges, by their value in the URL. */
export const RANGES: readonly (readonly [value: string, label: string])[] = [
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
  ['90d', 'Last 90 days'],
]

const DEFAULT = '7d'

/** The range in the URL, or the default. */
export const rangeValue = computed(() => query.value.get('range') ?? DEFAULT)

/** True if the previous period is shown for comparison. */
export const isCompared = computed(() => query.value.get('compare') === '1')

/** The range as queries accept it. Dates are days in the time zone of the project, and both are inclusive. */
export const dateRange = computed<{ date_from: string; date_to?: string }>(() => {
  const [from, to] = rangeValue.value.split('..')
  if (to !== undefined && from !== undefined) return { date_from: from, date_to: to }
  return { date_from: `-${rangeValue.value}` }
})

/** The interval that gives the chart a few dozen points. */
export const interval = computed<'hour' | 'day' | 'week'>(() => {
  const days = rangeDays(rangeValue.value)
  return days <= 2 ? 'hour' : days <= 120 ? 'day' : 'week'
})

/** Returns the number of days of a range. */
export function rangeDays(value: string): number {
  const [from = '', to] = value.split('..')
  if (to !== undefined) return (Date.parse(to) - Date.parse(from)) / 86_400_000 + 1
  const [, count, unit] = /^(\d+)([hd])$/.exec(value) ?? []
  return unit === 'h' ? Number(count) / 24 : Number(count ?? 7)
}

/** The number of characters of a timestamp that identify its period. */
const PERIOD_CHARACTERS: Readonly<Record<string, number>> = { hour: 13, day: 10, month: 7 }
const DAY_MS = 86_400_000

/**
 * Returns true if the period that begins with `start` is not over in the project's time zone. `start` is a period name
 * of a query's series.
 */
export function isOngoing(start = '', step: unknown = 'day'): boolean {
  const now = new Date().toLocaleString('sv', { timeZone: project.value.timezone })
  if (step === 'week')
    return Date.parse(now.slice(0, 10)) - Date.parse(start.slice(0, 10)) < 7 * DAY_MS
  const characters = PERIOD_CHARACTERS[String(step)]
  return now.slice(0, characters) === start.slice(0, characters)
}
