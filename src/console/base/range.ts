/**
 * The date range of a page and its comparison, in the form in which the URL contains them: `range=30d` or
 * `range=2026-01-01..2026-01-31`, and `compare=1` or `compare=year`.
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
/**
 * For each interval, how many characters at the start of a time identify its period. An hour, for example, is
 * identified by the 13 characters `2026-01-31 14`.
 */
const PERIOD_CHARACTERS: Readonly<Record<string, number>> = { hour: 13, day: 10, month: 7 }

/**
 * The number of minutes since 1970. It is a signal, so that a page that stays open is updated when the next hour or day
 * begins.
 */
const minute = signal(currentMinute())
setInterval(() => {
  minute.value = currentMinute()
}, MINUTE_MS)

function currentMinute(): number {
  return Math.floor(Date.now() / MINUTE_MS)
}

/** The current wall clock time in the time zone of the project, as `2026-01-31 14:05:09`. */
const now = computed(() => {
  const date = new Date(minute.value * MINUTE_MS)
  return date.toLocaleString('sv', { timeZone: project.value.timezone })
})

/** The current day in the time zone of the project. */
export const today = computed(() => now.value.slice(0, 10))

/** The last millisecond of the current hour in the time zone of the project, as ISO 8601. */
const hourEnd = computed(() => {
  const left = 60 - Number(now.value.slice(14, 16))
  return new Date((minute.value + left) * MINUTE_MS - 1).toISOString()
})

/** The range in the URL. If the URL contains none, the default range. */
export const rangeValue = computed(() => query.value.get('range') ?? DEFAULT)

const range = computed(() => rangeOf(rangeValue.value))

/** With what the range is compared. */
export const comparison = computed(() => comparisonOf(query.value.get('compare')))

/** True if the range is compared with another range. */
export const isCompared = computed(() => comparison.value !== 'none')

/** The `compareFilter` for queries, or null for no comparison. */
export const compareFilter = computed(() => compareFilterOf(range.value, comparison.value))

/** True if the range contains the current moment. */
const isRangeOngoing = computed(() => isOngoingRange(range.value, today.value))

/**
 * The range up to the end of the current hour, for pages that compare it with an earlier range. If today were compared
 * with a whole day, the page would show a decline until the evening. The end stays the same for an hour, so that the
 * daemon can reuse its results.
 */
export const dateRangeSoFar = computed<Dates>(() => {
  const { dates } = range.value
  if (!isRangeOngoing.value) return dates
  return { date_from: dates.date_from, date_to: hourEnd.value, explicitDate: true }
})

/** The interval with which the chart has a few dozen points. */
export const interval = computed<Interval>(() => intervalOf(range.value, today.value))

/**
 * Returns true if the period that begins at `start` is not over yet in the time zone of the project. `start` has the
 * form of the period names in a query's answer.
 */
export function isOngoing(start = '', step: unknown = 'day'): boolean {
  if (step === 'week') return Date.parse(today.value) - Date.parse(start.slice(0, 10)) < 7 * DAY_MS
  const characters = PERIOD_CHARACTERS[String(step)]
  return now.value.slice(0, characters) === start.slice(0, characters)
}
