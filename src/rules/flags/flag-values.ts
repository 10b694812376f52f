/**
 * Reads numbers and dates in flag filters. A number is a JSON number, or a text in the form of a number without spaces
 * or units. A date is relative, such as `-7d`, or a time in one of the forms that events use
 * (rules/capture/timestamp.ts). The value of a property may also be a number of seconds since 1970. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import { addMonths, momentOf, utcOf, wallOfUtc } from '../../base/time-zone.ts'
import { parseTimeText } from '../capture/timestamp.ts'
import {
  type DateRelation,
  NEVER,
  type PropertyTest,
  UNLIMITED,
} from '../filters/operator-tests.ts'
import { sortedText } from '../filters/property-text.ts'
import { TIME_MS_MAX } from './limits.ts'

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i
const NAMED = /^([+-]?)inf(?:inity)?$/i
const RELATIVE = /^-?(\d+)([hdwmy])$/
/** A relative date whose number is this large or larger does not count as a date. */
const RELATIVE_NUMBER_END = 10_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Returns the number that a value stands for, or NaN if it is not a number. */
export function flagNumber(value: unknown): number {
  if (typeof value === 'number') return value
  const text = sortedText(value)
  if (DECIMAL.test(text)) return Number(text)
  const named = NAMED.exec(text)
  if (named === null) return Number.NaN
  return named[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

/**
 * Returns the test that compares the date in a property with the date `wanted`. A relative date counts from the moment
 * of the test.
 */
export function flagDate(relation: DateRelation, wanted: unknown, timezone: string): PropertyTest {
  const fixedMs = isRelativeDate(wanted) ? null : filterMoment(wanted, 0, timezone)
  if (fixedMs === null && !isRelativeDate(wanted)) return NEVER
  return (value, moment = UNLIMITED) => {
    // Reading the current time marks the decision as one that depends on the time, so it is read only for a relative
    // date.
    const timeMs = propertyMoment(value, isRelativeDate(value) ? moment.nowMs : 0, timezone)
    if (timeMs === null) return false
    const limitMs = fixedMs ?? filterMoment(wanted, moment.nowMs, timezone)
    if (limitMs === null) return false
    if (relation === 'exact') return timeMs === limitMs
    return relation === 'before' ? timeMs < limitMs : timeMs > limitMs
  }
}

/** Returns the moment that the value of a filter names, in milliseconds since 1970, or null if it is not a date. */
export function filterMoment(value: unknown, nowMs: number, timezone: string): number | null {
  if (typeof value !== 'string') return null
  return relativeMoment(value, nowMs) ?? absoluteMoment(value, timezone)
}

/** Returns whether a value is a relative date, whose meaning depends on the time of the request. */
function isRelativeDate(value: unknown): boolean {
  return typeof value === 'string' && relativeMoment(value, 0) !== null
}

/** Returns the moment described by a property, in milliseconds since 1970, or null if it is not a date. */
function propertyMoment(value: unknown, nowMs: number, timezone: string): number | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null
  const timeMs = flagNumber(value) * 1000
  if (!Number.isNaN(timeMs)) return Math.abs(timeMs) <= TIME_MS_MAX ? timeMs : null
  return filterMoment(value, nowMs, timezone)
}

function relativeMoment(text: string, nowMs: number): number | null {
  const match = RELATIVE.exec(text)
  if (match === null) return null
  const count = Number(match[1])
  if (count >= RELATIVE_NUMBER_END) return null
  const unit = match[2]
  if (unit === 'm') return monthsBefore(nowMs, count, 1)
  if (unit === 'y') return monthsBefore(nowMs, count, 12)
  if (unit === 'h') return nowMs - count * HOUR_MS
  return nowMs - count * (unit === 'w' ? 7 : 1) * DAY_MS
}

/**
 * Goes back a number of months or years, one step at a time. If a month is too short, a step ends on its last day, and
 * the next step begins there. For example, two months before 31 March is 28 January, because the first step ends on 28
 * February.
 */
function monthsBefore(timeMs: number, steps: number, monthsOfStep: number): number {
  let wall = wallOfUtc(timeMs)
  let rest = steps
  // Every month has the days 1 to 28, so from such a day the remaining steps can be taken at once.
  for (; rest > 0 && wall[2] > 28; rest--) wall = addMonths(wall, -monthsOfStep)
  return utcOf(addMonths(wall, -monthsOfStep * rest))
}

/** Reads a time in one of the forms that events use. A time without a zone is in the time zone of the project. */
function absoluteMoment(text: string, timezone: string): number | null {
  return parseTimeText(text, (wallMs) => momentOf(wallOfUtc(wallMs), timezone))
}
