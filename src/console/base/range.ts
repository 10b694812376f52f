/** The time range of a page, from the address: `range=30d`, or `range=2026-01-01..2026-01-31`; `compare=1`. */
import { computed } from '@preact/signals'
import { query } from './address.ts'
import { project } from './session.ts'

/** Ranges that are offered, by their value in the address. */
export const RANGES: readonly (readonly [value: string, label: string])[] = [
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
  ['90d', 'Last 90 days'],
]

const DEFAULT = '7d'

/** What the address says. */
export const rangeValue = computed(() => query.value.get('range') ?? DEFAULT)

/** True if the period before is shown, too. */
export const isCompared = computed(() => query.value.get('compare') === '1')

/** The range as queries take it. Dates are days in the zone of the project, both inclusive. */
export const dateRange = computed<{ date_from: string; date_to?: string }>(() => {
  const [from, to] = rangeValue.value.split('..')
  if (to !== undefined && from !== undefined) return { date_from: from, date_to: to }
  return { date_from: `-${rangeValue.value}` }
})

/** The interval that draws the range with a few dozen points. */
export const interval = computed<'hour' | 'day' | 'week'>(() => {
  const days = rangeDays(rangeValue.value)
  return days <= 2 ? 'hour' : days <= 120 ? 'day' : 'week'
})

/** How many days a range of the address has. */
export function rangeDays(value: string): number {
  const [from = '', to] = value.split('..')
  if (to !== undefined) return (Date.parse(to) - Date.parse(from)) / 86_400_000 + 1
  const [, count, unit] = /^(\d+)([hd])$/.exec(value) ?? []
  return unit === 'h' ? Number(count) / 24 : Number(count ?? 7)
}

/** Characters of a moment that tell its period. */
const PERIOD_CHARACTERS: Readonly<Record<string, number>> = { hour: 13, day: 10, month: 7 }
const DAY_MS = 86_400_000

/** True if the period of a query that begins with `start`, as its series name it, is not over in the project's zone. */
export function isOngoing(start = '', step: unknown = 'day'): boolean {
  const now = new Date().toLocaleString('sv', { timeZone: project.value.timezone })
  if (step === 'week')
    return Date.parse(now.slice(0, 10)) - Date.parse(start.slice(0, 10)) < 7 * DAY_MS
  const characters = PERIOD_CHARACTERS[String(step)]
  return now.slice(0, characters) === start.slice(0, characters)
}
