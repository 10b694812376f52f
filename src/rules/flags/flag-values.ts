/**
 * Numbers and dates in flag filters. Numbers: as they are, or texts that are written like one, without
 * spaces or units. Dates: relative ones such as `-7d`, times as events have them (rules/capture/timestamp.ts),
 * and on the side of the property also seconds since 1970. Source: docs/compatibility/decisions.md, "Flag decisions".
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
/** A relative number this large or larger is no date. */
const RELATIVE_NUMBER_END = 10_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The number that a value stands for; NaN when it is none. */
export function flagNumber(value: unknown): number {
  if (typeof value === 'number') return value
  const text = sortedText(value)
  if (DECIMAL.test(text)) return Number(text)
  const named = NAMED.exec(text)
  if (named === null) return Number.NaN
  return named[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

/** The test of a date against another, which is relative to the moment of the test when it says so. */
export function flagDate(relation: DateRelation, wanted: unknown, timezone: string): PropertyTest {
  const fixedMs = isRelativeDate(wanted) ? null : filterMoment(wanted, 0, timezone)
  if (fixedMs === null && !isRelativeDate(wanted)) return NEVER
  return (value, moment = UNLIMITED) => {
    // Whoever asks for the time makes the decision one of this moment.
    const timeMs = propertyMoment(value, isRelativeDate(value) ? moment.nowMs : 0, timezone)
    if (timeMs === null) return false
    const limitMs = fixedMs ?? filterMoment(wanted, moment.nowMs, timezone)
    if (limitMs === null) return false
    if (relation === 'exact') return timeMs === limitMs
    return relation === 'before' ? timeMs < limitMs : timeMs > limitMs
  }
}

/** The moment in ms since 1970 that the value of a filter names, or null when it is no date. */
export function filterMoment(value: unknown, nowMs: number, timezone: string): number | null {
  if (typeof value !== 'string') return null
  return relativeMoment(value, nowMs) ?? absoluteMoment(value, timezone)
}

/** Whether the value of a filter changes its meaning with the time of the request. */
function isRelativeDate(value: unknown): boolean {
  return typeof value === 'string' && relativeMoment(value, 0) !== null
}

/** The moment in ms since 1970 that a property names, or null when it is no date. */
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

/** Goes back step by step; a day that the month does not have becomes its last, and stays so. */
function monthsBefore(timeMs: number, steps: number, monthsOfStep: number): number {
  let wall = wallOfUtc(timeMs)
  let rest = steps
  // No month lacks an earlier day.
  for (; rest > 0 && wall[2] > 28; rest--) wall = addMonths(wall, -monthsOfStep)
  return utcOf(addMonths(wall, -monthsOfStep * rest))
}

/** As events name their times; without a zone it is one of the clocks of the project. */
function absoluteMoment(text: string, timezone: string): number | null {
  return parseTimeText(text, (wallMs) => momentOf(wallOfUtc(wallMs), timezone))
}
