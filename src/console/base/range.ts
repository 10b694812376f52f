/**
 * The time range of a page, as the URL holds it: `range=30d` or `range=2026-01-01..2026-01-31`, and `compare=1` or
 * `compare=year`.
 */
import { computed, signal } from '@preact/signals'
import { query } from './address.ts'
import {
  compareFilterOf,
  comparisonOf,
  type Dates,
  type Interval,
  intervalOf,
  isOngoingRange,
  rangeOf,
} from './days.ts'
import { project } from './session.ts'

const DEFAULT = '7d'
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
/** The number of characters of a timestamp that identify its period. */
const PERIOD_CHARACTERS: Readonly<Record<string, number>> = { hour: 13, day: 10, month: 7 }

/** The current minute. Pages that stay open move on to the next hour and day. */
const minute = signal(currentMinute())
setInterval(() => {
  minute.value = currentMinute()
}, MINUTE_MS)

function currentMinute(): number {
  return Math.floor(Date.now() / MINUTE_MS)
}

/** The current time in the time zone of the project, as `2026-01-31 14:05:09`. */
const now = computed(() => {
  const date = new Date(minute.value * MINUTE_MS)
  return date.toLocaleString('sv', { timeZone: project.value.timezone })
})

/** The current day in the time zone of the project. */
export const today = computed(() => now.value.slice(0, 10))

/** The last millisecond of the current hour of the project's clocks, as an ISO 8601 timestamp. */
const hourEnd = computed(() => {
  const left = 60 - Number(now.value.slice(14, 16))
  return new Date((minute.value + left) * MINUTE_MS - 1).toISOString()
})

/** The range in the URL, or the default. */
export const rangeValue = computed(() => query.value.get('range') ?? DEFAULT)

const range = computed(() => rangeOf(rangeValue.value))

/** What the range is compared with. */
export const comparison = computed(() => comparisonOf(query.value.get('compare')))

/** True if the range is compared with another one. */
export const isCompared = computed(() => comparison.value !== 'none')

/** The `compareFilter` of queries, or null. */
export const compareFilter = computed(() => compareFilterOf(range.value, comparison.value))

/** True if the range contains the current moment. */
const isRangeOngoing = computed(() => isOngoingRange(range.value, today.value))

/**
 * The range up to the current hour, for pages that compare it with an earlier one. A comparison with a whole day would
 * show a decline until the evening. The end is the same for an hour, so the daemon can reuse what it has computed.
 */
export const dateRangeSoFar = computed<Dates>(() => {
  const { dates } = range.value
  if (!isRangeOngoing.value) return dates
  return { date_from: dates.date_from, date_to: hourEnd.value, explicitDate: true }
})

/** The interval that gives the chart a few dozen points. */
export const interval = computed<Interval>(() => intervalOf(range.value, today.value))

/**
 * Returns true if the period that begins with `start` is not over in the project's time zone. `start` is a period name
 * of a query's series.
 */
export function isOngoing(start = '', step: unknown = 'day'): boolean {
  if (step === 'week') return Date.parse(today.value) - Date.parse(start.slice(0, 10)) < 7 * DAY_MS
  const characters = PERIOD_CHARACTERS[String(step)]
  return now.value.slice(0, characters) === start.slice(0, characters)
}
