/**
 * Converts between moments and wall clock time in a time zone, with the IANA database of the runtime. An unknown zone
 * counts as UTC. All calculations (such as adding days or rounding down to months) use wall clock time, so that the
 * results are right for days of 23 and 25 hours. This file also splits ISO 8601 dates into their numbers.
 */
import { ZONE_DAYS_MAX } from './limits.ts'

/** A wall clock time: year, month from 1, day, hour, minute, second, millisecond. */
export type Wall = readonly [number, number, number, number, number, number, number]

/** Every change of clocks is a multiple of this time. */
export const CLOCK_STEP_MS = 15 * 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The number of days in 400 years. After 400 years, the Gregorian calendar repeats. */
const DAYS_OF_400_YEARS = 146_097
/** In a moment before this one, the year may be 0 or negative, and the formatter leaves out the sign of a year. */
const SIGNED_MS_MIN = Date.parse('0001-01-02T00:00:00Z')
/** The last moment that `Date` can represent. */
const LAST_MOMENT_MS = 100_000_000 * DAY_MS
const formatters = new Map<string, Intl.DateTimeFormat | null>()
/**
 * For each zone and UTC day: the offset of the zone from UTC during the whole day, or null if clocks change on that
 * day.
 */
const dayOffsets = new Map<string, number | null>()

/** Returns the midnight at which the day of a wall clock time begins. */
export function startOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 0, 0, 0, 0]
}

/** Returns the last millisecond of the day of a wall clock time. */
export function endOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 23, 59, 59, 999]
}

/** Returns the wall clock time this number of days later. A negative number means earlier. */
export function addDays(wall: Wall, days: number): Wall {
  return wallOfUtc(utcOf(wall) + days * DAY_MS)
}

/**
 * Returns the wall clock time this number of months later. If that month is too short for the day, it is the last day
 * of the month.
 */
export function addMonths([year, month, day, ...time]: Wall, months: number): Wall {
  const index = year * 12 + month - 1 + months
  const newYear = Math.floor(index / 12)
  const newMonth = index - newYear * 12 + 1
  return [newYear, newMonth, Math.min(day, lastDayOf(newYear, newMonth)), ...time]
}

/** Returns the number of the last day of a month. Months count from 1. */
export function lastDayOf(year: number, month: number): number {
  return new Date(utcOf([year, month + 1, 0, 0, 0, 0, 0])).getUTCDate()
}

/** Returns the moment at which clocks in UTC show a wall clock time, in milliseconds since 1970. */
export function utcOf([year, month, day, hour, minute, second, millisecond]: Wall): number {
  // `Date.UTC` reads the years 0 to 99 as years of the 20th century.
  const shift = year < 0 || year > 99 ? 0 : 400
  const timeMs = Date.UTC(year + shift, month - 1, day, hour, minute, second, millisecond)
  return shift === 0 ? timeMs : timeMs - DAYS_OF_400_YEARS * DAY_MS
}

/** Returns the wall clock time in UTC at a moment (milliseconds since 1970). */
export function wallOfUtc(timeMs: number): Wall {
  const date = new Date(timeMs)
  return [
    date.getUTCFullYear(),
    date.getUTCMonth() + 1,
    date.getUTCDate(),
    date.getUTCHours(),
    date.getUTCMinutes(),
    date.getUTCSeconds(),
    date.getUTCMilliseconds(),
  ]
}

/** Returns the wall clock time in a zone at a moment. */
export function wallOf(timeMs: number, timezone: string): Wall {
  const formatter = formatterOf(timezone)
  if (formatter === null) return wallOfUtc(timeMs)
  const offsetMs = dayOffset(timeMs, timezone, formatter)
  return offsetMs === null ? wallBy(formatter, timeMs) : wallOfUtc(timeMs + offsetMs)
}

/**
 * Returns the wall clock time in a zone at a moment. If clocks skip midnight, the day begins later, for example at
 * 01:00. For the first moment of such a day, the result is 00:00 of the day all the same, so that the starts of earlier
 * days can be computed by subtracting whole days.
 */
export function startWallOf(timeMs: number, timezone: string): Wall {
  const wall = wallOf(timeMs, timezone)
  const midnight = startOfDay(wall)
  return momentOf(midnight, timezone) === timeMs ? midnight : wall
}

/**
 * Returns the offset of a zone from UTC during the whole UTC day of a moment, or null if the offset changes on that
 * day. No zone changes its clocks twice in a day, so the offset is constant if it is the same at the start and at the
 * end of the day.
 */
function dayOffset(
  timeMs: number,
  timezone: string,
  formatter: Intl.DateTimeFormat,
): number | null {
  if (timeMs < SIGNED_MS_MIN) return null
  const day = Math.floor(timeMs / DAY_MS)
  const key = `${timezone} ${day}`
  const known = dayOffsets.get(key)
  if (known !== undefined) return known
  const offsetAt = (momentMs: number): number => utcOf(wallBy(formatter, momentMs)) - momentMs
  const first = offsetAt(day * DAY_MS)
  const last = offsetAt(Math.min((day + 1) * DAY_MS - 1, LAST_MOMENT_MS))
  const offset = first === last ? first : null
  if (dayOffsets.size >= ZONE_DAYS_MAX) dayOffsets.clear()
  dayOffsets.set(key, offset)
  return offset
}

/** Returns the wall clock time that the formatter of a zone shows. Cost: some microseconds. */
function wallBy(formatter: Intl.DateTimeFormat, timeMs: number): Wall {
  const parts = new Map(
    formatter.formatToParts(timeMs).map(({ type, value }) => [type, Number(value)]),
  )
  const part = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0
  const millisecond = ((timeMs % 1000) + 1000) % 1000
  return [
    part('year'),
    part('month'),
    part('day'),
    part('hour') % 24,
    part('minute'),
    part('second'),
    millisecond,
  ]
}

/**
 * Returns the moment at which clocks in a zone show a wall clock time. If there are two such moments, returns the first
 * one. If clocks skip the time, returns the moment at which they skip it.
 */
export function momentOf(wall: Wall, timezone: string): number {
  const localMs = utcOf(wall)
  if (formatterOf(timezone) === null) return localMs
  const offsetAt = (timeMs: number): number => utcOf(wallOf(timeMs, timezone)) - timeMs
  const before = localMs - offsetAt(localMs - DAY_MS)
  if (utcOf(wallOf(before, timezone)) === localMs) return before
  const after = localMs - offsetAt(localMs + DAY_MS)
  return utcOf(wallOf(after, timezone)) === localMs ? after : before
}

/**
 * Returns the offset from UTC, in milliseconds, that a zone has when its clocks show a wall clock time. If clocks show
 * the time twice, there are two offsets, in the order of the moments.
 */
export function offsetsAt(wall: Wall, timezone: string): readonly number[] {
  const localMs = utcOf(wall)
  const firstMs = momentOf(wall, timezone)
  const first = localMs - firstMs
  const later = utcOf(wallOf(firstMs + DAY_MS, timezone)) - (firstMs + DAY_MS)
  const isTwice = later !== first && utcOf(wallOf(localMs - later, timezone)) === localMs
  return isTwice ? [first, later] : [first]
}

/**
 * Returns the last moment of an interval that ends at this wall clock time. A time that ends with 999 ms stands for the
 * whole millisecond: the interval ends 1 ms before the moment at which the next millisecond begins. For other times,
 * the result is that of `momentOf`.
 */
export function endMomentOf(wall: Wall, timezone: string): number {
  return wall[6] === 999
    ? momentOf(wallOfUtc(utcOf(wall) + 1), timezone) - 1
    : momentOf(wall, timezone)
}

/**
 * Returns the start of the wall clock hour that contains a moment. If clocks are set back, some hours occur twice and
 * count as two hours. If clocks are set forward by a part of an hour, they may skip the start of an hour. That hour
 * then begins at the moment of the change.
 */
export function hourStart(timeMs: number, timezone: string): number {
  const [, , , hour, minute, second, millisecond] = wallOf(timeMs, timezone)
  const startMs = timeMs - (minute * 60 + second) * 1000 - millisecond
  if (wallOf(startMs, timezone)[3] === hour && isHourStart(startMs, timezone)) return startMs
  // Within this hour, clocks were set forward or back by a part of an hour.
  const lastStepMs = Math.floor(timeMs / CLOCK_STEP_MS) * CLOCK_STEP_MS
  for (let stepMs = lastStepMs; stepMs > timeMs - 2 * HOUR_MS; stepMs -= CLOCK_STEP_MS) {
    if (isHourStart(stepMs, timezone)) return stepMs
  }
  return startMs
}

/**
 * Returns true if a wall clock hour begins at this moment. An hour begins when clocks show a full hour, or when a clock
 * change sets them to a time in another hour.
 */
export function isHourStart(timeMs: number, timezone: string): boolean {
  const [, , , hour, minute, second, millisecond] = wallOf(timeMs, timezone)
  if (minute === 0 && second === 0 && millisecond === 0) return true
  const [, , , hourBefore] = wallOf(timeMs - 1, timezone)
  return hour !== hourBefore
}

/** An ISO 8601 date, split into its numbers. */
export interface DateParts {
  /** The numbers as they are written. The day may not exist in the calendar, as in 2023-02-30. */
  readonly wall: Wall
  /** True if the date contains a time of day. */
  readonly hasTime: boolean
  /** The offset from UTC in milliseconds, or null if the date contains none. */
  readonly offsetMs: number | null
}

/**
 * Returns the date in a match of a regular expression. Its groups must be: year, month, day, hour, minute, second,
 * digits of the fraction, zone. All groups from the fourth on may be missing.
 */
export function dateParts(match: RegExpExecArray): DateParts {
  const field = (index: number): number => {
    const digits = match[index]
    return digits === undefined ? 0 : Number(digits)
  }
  const fraction = match[7]
  const millisecond = fraction === undefined ? 0 : Number(fraction.padEnd(3, '0').slice(0, 3))
  const zone = match[8]
  return {
    wall: [field(1), field(2), field(3), field(4), field(5), field(6), millisecond],
    hasTime: match[4] !== undefined,
    offsetMs: zone === undefined ? null : zoneOffsetMs(zone),
  }
}

/** Returns true if the day exists in the calendar. */
export function isDayOfCalendar([year, month, day]: Wall): boolean {
  if (month < 1 || month > 12 || day < 1) return false
  // Every month has at least 28 days.
  return day <= 28 || day <= lastDayOf(year, month)
}

/** Returns the offset that `Z`, `+02`, `+0200` or `+02:00` stands for, in milliseconds. */
function zoneOffsetMs(zone: string): number {
  if (zone === 'Z' || zone === 'z') return 0
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}

/** Returns the formatter of a time zone, or null for UTC and for unknown time zones. */
function formatterOf(timezone: string): Intl.DateTimeFormat | null {
  if (timezone === 'UTC') return null
  let formatter = formatters.get(timezone)
  if (formatter === undefined) {
    formatter = makeFormatter(timezone)
    formatters.set(timezone, formatter)
  }
  return formatter
}

function makeFormatter(timezone: string): Intl.DateTimeFormat | null {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      calendar: 'gregory',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  } catch {
    return null
  }
}
