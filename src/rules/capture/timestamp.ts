/**
 * Moments as clients write them, to milliseconds since 1970 in UTC. Nothing here reads a clock or a time
 * zone of the machine: a missing zone means UTC. Runs once per event, so the usual form has a short way
 * and nothing allocates. Source: docs/compatibility/events.md, "Time".
 */
import { RFC_2822_CHARACTERS_MAX } from './limits.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const DAYS_BEFORE_MONTH = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
const DAYS_OF_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const WEEKDAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
const ZONE_HOURS = new Map([
  ['ut', 0],
  ['utc', 0],
  ['gmt', 0],
  ['z', 0],
  ['est', -5],
  ['edt', -4],
  ['cst', -6],
  ['cdt', -5],
  ['mst', -7],
  ['mdt', -6],
  ['pst', -8],
  ['pdt', -7],
])
const RFC_2822 =
  /^(?:([a-z]{3}), ?)?(\d{1,2}) ([a-z]{3}) (\d{2}|\d{4}) (\d{2}:\d{2}(?::\d{2})?) ([+-]\d{4}|[a-z]{1,3})(?: ?\([a-z ]{1,20}\))?$/i

/** The earliest moment that four digits can name: 0000-01-01, milliseconds. */
export const MOMENT_MS_MIN = -62_167_219_200_000
/** The latest moment that four digits can name: the last millisecond of 9999. */
export const MOMENT_MS_MAX = 253_402_300_799_999

/**
 * A moment in milliseconds, from ISO 8601 (calendar, week or ordinal date, with or without a time), RFC
 * 2822, or a count since 1970 of 10, 13, 16 or 19 digits (seconds, milliseconds, microseconds,
 * nanoseconds) as text or number. Null for anything else and for days that do not exist. Digits beyond
 * milliseconds are cut. Source: docs/compatibility/events.md, "Time".
 */
export function parseTimestamp(value: unknown): number | null {
  if (typeof value === 'string') return parseText(value)
  return typeof value === 'number' ? parseCount(value) : null
}

function parseText(text: string): number | null {
  let ms = parseUsualForm(text)
  if (Number.isNaN(ms)) ms = parseIso(text)
  if (Number.isNaN(ms)) ms = parseDigits(text)
  if (Number.isNaN(ms)) ms = parseRfc2822(text)
  return ms >= MOMENT_MS_MIN && ms <= MOMENT_MS_MAX ? ms : null
}

/** `YYYY-MM-DDThh:mm:ss.sssZ`, else NaN. */
function parseUsualForm(text: string): number {
  if (text.length !== 24 || text.charCodeAt(23) !== 0x5a || text.charCodeAt(19) !== 0x2e)
    return Number.NaN
  if (text.charCodeAt(10) !== 0x54 || text.charCodeAt(4) !== 0x2d || text.charCodeAt(7) !== 0x2d) {
    return Number.NaN
  }
  const days = calendarDays(digitsAt(text, 0, 4), digitsAt(text, 5, 2), digitsAt(text, 8, 2))
  return days * DAY_MS + clockMs(text, 11, 23)
}

/** The same of the 24 bytes from `start` on, for who has no text of them. */
export function usualMomentAt(bytes: Uint8Array, start: number): number {
  if (bytes[start + 23] !== 0x5a || bytes[start + 19] !== 0x2e || bytes[start + 10] !== 0x54) {
    return Number.NaN
  }
  if (bytes[start + 4] !== 0x2d || bytes[start + 7] !== 0x2d) return Number.NaN
  if (bytes[start + 13] !== 0x3a || bytes[start + 16] !== 0x3a) return Number.NaN
  const hours = digitsIn(bytes, start + 11, 2)
  const minutes = digitsIn(bytes, start + 14, 2)
  const seconds = digitsIn(bytes, start + 17, 2)
  if (!(hours < 24) || !(minutes < 60) || !(seconds < 60)) return Number.NaN
  const year = digitsIn(bytes, start, 4)
  const days = calendarDays(year, digitsIn(bytes, start + 5, 2), digitsIn(bytes, start + 8, 2))
  const clock = hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS
  return days * DAY_MS + clock + digitsIn(bytes, start + 20, 3)
}

/** Any of the ISO forms, else NaN. */
function parseIso(text: string): number {
  if (text.length < 8 || text.length > 40 || text.charCodeAt(4) !== 0x2d) return Number.NaN
  const year = digitsAt(text, 0, 4)
  let days = Number.NaN
  let dateEnd = 10
  if (text.charCodeAt(5) === 0x57) {
    if (text.charCodeAt(8) === 0x2d)
      days = weekDays(year, digitsAt(text, 6, 2), digitsAt(text, 9, 1))
  } else if (text.charCodeAt(7) === 0x2d) {
    days = calendarDays(year, digitsAt(text, 5, 2), digitsAt(text, 8, 2))
  } else {
    days = ordinalDays(year, digitsAt(text, 5, 3))
    dateEnd = 8
  }
  if (text.length === dateEnd) return days * DAY_MS
  const separator = text.charCodeAt(dateEnd)
  if (separator !== 0x54 && separator !== 0x74 && separator !== 0x20) return Number.NaN
  const clockStart = dateEnd + 1
  let clockEnd = clockStart
  while (clockEnd < text.length && isClockUnit(text.charCodeAt(clockEnd))) clockEnd++
  return days * DAY_MS + clockMs(text, clockStart, clockEnd) - zoneMs(text, clockEnd, text.length)
}

/** Milliseconds of `hh:mm`, `hh:mm:ss` or `hh:mm:ss.f` with 1 to 9 digits, else NaN. */
function clockMs(text: string, start: number, end: number): number {
  const length = end - start
  if (length !== 5 && length !== 8 && (length < 10 || length > 18)) return Number.NaN
  const hours = digitsAt(text, start, 2)
  const minutes = digitsAt(text, start + 3, 2)
  if (text.charCodeAt(start + 2) !== 0x3a || !(hours < 24) || !(minutes < 60)) return Number.NaN
  let ms = hours * HOUR_MS + minutes * MINUTE_MS
  if (length === 5) return ms
  const seconds = digitsAt(text, start + 6, 2)
  if (text.charCodeAt(start + 5) !== 0x3a || !(seconds < 60)) return Number.NaN
  ms += seconds * SECOND_MS
  if (length === 8) return ms
  if (text.charCodeAt(start + 8) !== 0x2e) return Number.NaN
  const fractionDigits = length - 9
  const fraction = digitsAt(text, start + 9, fractionDigits)
  return ms + Math.floor((fraction * SECOND_MS) / 10 ** fractionDigits)
}

/** Milliseconds east of UTC of '', `Z`, `±hh`, `±hhmm` or `±hh:mm`, else NaN. */
function zoneMs(text: string, start: number, end: number): number {
  const length = end - start
  if (length === 0) return 0
  const first = text.charCodeAt(start)
  if (length === 1) return first === 0x5a || first === 0x7a ? 0 : Number.NaN
  if (first !== 0x2b && first !== 0x2d) return Number.NaN
  const hours = digitsAt(text, start + 1, 2)
  let minutes = 0
  if (length === 5) minutes = digitsAt(text, start + 3, 2)
  else if (length === 6 && text.charCodeAt(start + 3) === 0x3a)
    minutes = digitsAt(text, start + 4, 2)
  else if (length !== 3) return Number.NaN
  if (!(hours < 24) || !(minutes < 60)) return Number.NaN
  const ms = hours * HOUR_MS + minutes * MINUTE_MS
  return first === 0x2d ? -ms : ms
}

/** Days since 1970-01-01 of a day of the calendar; NaN when there is no such day. */
function calendarDays(year: number, month: number, day: number): number {
  if (!(month >= 1 && month <= 12) || !(day >= 1)) return Number.NaN
  const isLateInLeapYear = month > 2 && isLeapYear(year)
  const isFebruary29 = month === 2 && day === 29 && isLeapYear(year)
  if (day > (DAYS_OF_MONTH[month - 1] ?? 0) && !isFebruary29) return Number.NaN
  return (
    daysBeforeYear(year) + (DAYS_BEFORE_MONTH[month - 1] ?? 0) + (isLateInLeapYear ? day : day - 1)
  )
}

function ordinalDays(year: number, dayOfYear: number): number {
  if (!(dayOfYear >= 1) || dayOfYear > (isLeapYear(year) ? 366 : 365)) return Number.NaN
  return daysBeforeYear(year) + dayOfYear - 1
}

function weekDays(year: number, week: number, weekday: number): number {
  if (!(week >= 1 && week <= 53) || !(weekday >= 1 && weekday <= 7)) return Number.NaN
  const days = firstMonday(year) + (week - 1) * 7 + weekday - 1
  return week === 53 && firstMonday(year) + 52 * 7 === firstMonday(year + 1) ? Number.NaN : days
}

/** Monday of the week that has 4 January in it. */
function firstMonday(year: number): number {
  const january4 = daysBeforeYear(year) + 3
  return january4 - weekdayIndex(january4)
}

/** 0 is Monday. */
function weekdayIndex(days: number): number {
  return (((days + 3) % 7) + 7) % 7
}

function daysBeforeYear(year: number): number {
  const last = year - 1
  return (
    last * 365 + Math.floor(last / 4) - Math.floor(last / 100) + Math.floor(last / 400) - 719_162
  )
}

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

function parseDigits(text: string): number {
  const length = text.length
  if (length !== 10 && length !== 13 && length !== 16 && length !== 19) return Number.NaN
  const wholeMs = digitsAt(text, 0, 10) * SECOND_MS
  if (length === 10) return wholeMs
  // What is finer than milliseconds is cut, but must be digits.
  return Number.isNaN(digitsAt(text, 13, length - 13))
    ? Number.NaN
    : wholeMs + digitsAt(text, 10, 3)
}

function parseCount(count: number): number | null {
  if (!Number.isInteger(count)) return null
  if (count >= 1e9 && count < 1e10) return count * SECOND_MS
  if (count >= 1e12 && count < 1e13) return count
  if (count >= 1e15 && count < 1e16) return Math.floor(count / 1e3)
  return count >= 1e18 && count < 1e19 ? Math.floor(count / 1e6) : null
}

function parseRfc2822(text: string): number {
  if (text.length > RFC_2822_CHARACTERS_MAX) return Number.NaN
  const match = RFC_2822.exec(text)
  if (match === null) return Number.NaN
  const [, weekday, day, month, year = '', clock = '', zone = ''] = match
  let fullYear = Number(year)
  if (year.length === 2) fullYear += fullYear < 50 ? 2000 : 1900
  const days = calendarDays(fullYear, MONTHS.indexOf((month ?? '').toLowerCase()) + 1, Number(day))
  if (weekday !== undefined && WEEKDAYS.indexOf(weekday.toLowerCase()) !== weekdayIndex(days)) {
    return Number.NaN
  }
  const isNumeric = zone.startsWith('+') || zone.startsWith('-')
  const eastMs = isNumeric
    ? zoneMs(zone, 0, zone.length)
    : (ZONE_HOURS.get(zone.toLowerCase()) ?? Number.NaN) * HOUR_MS
  return days * DAY_MS + clockMs(clock, 0, clock.length) - eastMs
}

/** The number that `count` decimal digits at `start` stand for; NaN when one of them is no digit. */
function digitsAt(text: string, start: number, count: number): number {
  let value = 0
  for (let position = start; position < start + count; position++) {
    const digit = text.charCodeAt(position) - 0x30
    if (!(digit >= 0 && digit <= 9)) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

function digitsIn(bytes: Uint8Array, start: number, count: number): number {
  let value = 0
  for (let position = start; position < start + count; position++) {
    const digit = (bytes[position] ?? 0) - 0x30
    if (!(digit >= 0 && digit <= 9)) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

function isClockUnit(unit: number): boolean {
  return (unit >= 0x30 && unit <= 0x3a) || unit === 0x2e
}
