/**
 * Dates in flag filters: relative ones such as `-7d`, dates and times with or without an offset, and on
 * the side of the property also seconds since 1970. Source: docs/COMPATIBILITY.md, "Flag decisions".
 */

import { wallTimeToUtc } from '../../base/time-zone.ts'
import { numberOf } from './number-filters.ts'

const RELATIVE = /^-?(\d+)([hdwmy])$/
/** A relative number this large or larger is no date. */
const RELATIVE_NUMBER_END = 10_000
const ABSOLUTE =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|z|[+-]\d{2}:?\d{2})?)?$/
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** What a date may be at most, either way, as for `Date`. */
const TIME_MS_MAX = 8.64e15

/** The moment in ms since 1970 that the value of a filter names, or null when it is no date. */
export function filterMoment(value: unknown, nowMs: number, timezone: string): number | null {
  if (typeof value !== 'string') return null
  return relativeMoment(value, nowMs) ?? absoluteMoment(value, timezone)
}

/** Whether the value of a filter changes its meaning with the time of the request. */
export function isRelativeDate(value: unknown): boolean {
  return typeof value === 'string' && relativeMoment(value, 0) !== null
}

/** The moment in ms since 1970 that a property names, or null when it is no date. */
export function propertyMoment(value: unknown, nowMs: number, timezone: string): number | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null
  const seconds = numberOf(value)
  if (seconds !== null) {
    const timeMs = seconds * 1000
    return Math.abs(timeMs) <= TIME_MS_MAX ? timeMs : null
  }
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
  const date = new Date(timeMs)
  let year = date.getUTCFullYear()
  let month = date.getUTCMonth()
  let day = date.getUTCDate()
  for (let step = 0; step < steps; step++) {
    month -= monthsOfStep
    while (month < 0) {
      month += 12
      year--
    }
    if (day > 28) day = Math.min(day, daysOfMonth(year, month))
  }
  const timeOfDayMs = ((timeMs % DAY_MS) + DAY_MS) % DAY_MS
  return dayMs(year, month, day) + timeOfDayMs
}

function daysOfMonth(year: number, month: number): number {
  return new Date(dayMs(year, month + 1, 0)).getUTCDate()
}

/** As `Date.UTC`, which takes the years 0 to 99 for those of another century. */
function dayMs(year: number, month: number, day: number): number {
  return new Date(0).setUTCFullYear(year, month, day)
}

function absoluteMoment(text: string, timezone: string): number | null {
  const match = ABSOLUTE.exec(text)
  if (match === null) return null
  const field = (index: number): number => Number(match[index] ?? '0')
  const [year, month, day] = [field(1), field(2) - 1, field(3)]
  const [hour, minute, second] = [field(4), field(5), field(6)]
  if (month < 0 || month > 11 || day < 1 || day > daysOfMonth(year, month)) return null
  if (hour > 23 || minute > 59 || second > 60) return null
  const fraction = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3))
  const wallMs = dayMs(year, month, day) + ((hour * 60 + minute) * 60 + second) * 1000 + fraction
  const zone = match[8]
  if (zone === undefined) return wallTimeToUtc(wallMs, timezone)
  return wallMs - offsetMs(zone)
}

function offsetMs(zone: string): number {
  if (zone === 'Z' || zone === 'z') return 0
  const digits = zone.slice(1).replace(':', '')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}
