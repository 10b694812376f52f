/**
 * Converts between moments and wall clock time in a time zone, by the IANA database of the runtime. An unknown zone
 * counts as UTC. All calculations (adding days, cutting to months) use wall clock time, so that days of 23 and 25 hours
 * come out right. This file also splits ISO 8601 dates into their numbers.
 */
import { ZONE_DAYS_MAX } from './limits.ts'

/** Wall clock time: year, month from 1, day, hour, minute, second, millisecond. */
export type Wall = readonly [number, number, number, number, number, number, number]

/** Clocks move forward and back by multiples of this. */
export const CLOCK_STEP_MS = 15 * 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The calendar repeats after this number of days. */
const DAYS_OF_400_YEARS = 146_097
/** The formatter shows earlier years without their sign. */
const SIGNED_MS_MIN = Date.parse('0001-01-02T00:00:00Z')
/** The last moment that `Date` can represent. */
const LAST_MOMENT_MS = 100_000_000 * DAY_MS
const formatters = new Map<string, Intl.DateTimeFormat | null>()
/**
 * For each zone and UTC day: the offset of its clocks from UTC during the whole day, or null if the clocks change on
 * that day.
 */
const dayOffsets = new Map<string, number | null>()

/** Returns midnight of the day. */
export function startOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 0, 0, 0, 0]
}

/** Returns the last millisecond of the day. */
export function endOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 23, 59, 59, 999]
}

/** Returns the time this number of days later, by wall clock. A negative number means earlier. */
export function addDays(wall: Wall, days: number): Wall {
  return wallOfUtc(utcOf(wall) + days * DAY_MS)
}

/** Returns the time this number of months later, clipped to the last day of the month. */
export function addMonths([year, month, day, ...time]: Wall, months: number): Wall {
  const index = year * 12 + month - 1 + months
  const newYear = Math.floor(index / 12)
  const newMonth = index - newYear * 12 + 1
  return [newYear, newMonth, Math.min(day, lastDayOf(newYear, newMonth)), ...time]
}

/** Returns the last day of a month. Months count from 1. */
export function lastDayOf(year: number, month: number): number {
  return new Date(utcOf([year, month + 1, 0, 0, 0, 0, 0])).getUTCDate()
}

/** Returns the moment in milliseconds at which clocks in UTC show this time. */
export function utcOf([year, month, day, hour, minute, second, millisecond]: Wall): number {
  // `Date.UTC` reads the years 0 to 99 as years of the 20th century.
  const shift = year < 0 || year > 99 ? 0 : 400
  const timeMs = Date.UTC(year + shift, month - 1, day, hour, minute, second, millisecond)
  return shift === 0 ? timeMs : timeMs - DAYS_OF_400_YEARS * DAY_MS
}

/** Returns the wall clock time in UTC at a moment in milliseconds. */
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

/** Returns the wall clock time in the zone. */
export function wallOf(timeMs: number, timezone: string): Wall {
  const formatter = formatterOf(timezone)
  if (formatter === null) return wallOfUtc(timeMs)
  const offsetMs = dayOffset(timeMs, timezone, formatter)
  return offsetMs === null ? wallBy(formatter, timeMs) : wallOfUtc(timeMs + offsetMs)
}

/**
 * Returns the wall clock time in the zone. If a day has no midnight because its clocks skip it, the first moment of
 * that day is returned as midnight. Starts of days are counted back from this value, as if such a day were as long as
 * any other.
 */
export function startWallOf(timeMs: number, timezone: string): Wall {
  const wall = wallOf(timeMs, timezone)
  const midnight = startOfDay(wall)
  return momentOf(midnight, timezone) === timeMs ? midnight : wall
}

/**
 * Returns the offset of a whole day. No zone changes its clocks twice in a day, so equal offsets at both ends cover the
 * day.
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

/** Asks the formatter for the wall clock time. Cost: some microseconds. */
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
 * Returns the moment at which clocks show a time. If there are two, returns the first; if there is none, the moment
 * after the gap.
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
 * Returns the offset from UTC, in milliseconds, at which clocks show a time. There are two for a time that occurs
 * twice, in the order of the moments.
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
 * Returns the last moment of an interval that ends at this time: like `momentOf`, but the later one if there are two.
 */
export function endMomentOf(wall: Wall, timezone: string): number {
  return wall[6] === 999
    ? momentOf(wallOfUtc(utcOf(wall) + 1), timezone) - 1
    : momentOf(wall, timezone)
}

/**
 * Returns the start of the wall clock hour that contains a moment. If a clock is set back, some hours occur twice, and
 * count as two hours. If it is set forward by a part of an hour, the start of an hour may be skipped: that hour then
 * begins at the change.
 */
export function hourStart(timeMs: number, timezone: string): number {
  const [, , , hour, minute, second, millisecond] = wallOf(timeMs, timezone)
  const startMs = timeMs - (minute * 60 + second) * 1000 - millisecond
  if (wallOf(startMs, timezone)[3] === hour && isHourStart(startMs, timezone)) return startMs
  // The clocks changed by a part of an hour within this hour.
  const lastStepMs = Math.floor(timeMs / CLOCK_STEP_MS) * CLOCK_STEP_MS
  for (let stepMs = lastStepMs; stepMs > timeMs - 2 * HOUR_MS; stepMs -= CLOCK_STEP_MS) {
    if (isHourStart(stepMs, timezone)) return stepMs
  }
  return startMs
}

/**
 * Returns true if a wall clock hour begins at this moment: a full hour, or the rest of an hour after a clock change.
 */
export function isHourStart(timeMs: number, timezone: string): boolean {
  const [, , , hour, minute, second, millisecond] = wallOf(timeMs, timezone)
  if (minute === 0 && second === 0 && millisecond === 0) return true
  const [, , , hourBefore] = wallOf(timeMs - 1, timezone)
  return hour !== hourBefore
}

/** An ISO 8601 date, split into its numbers. */
export interface DateParts {
  /** The numbers as written. They may not be a valid day. */
  readonly wall: Wall
  /** True if the date contains a time of day. */
  readonly hasTime: boolean
  /** The offset from UTC in milliseconds; null if the date has none. */
  readonly offsetMs: number | null
}

/**
 * Returns the date of a regular expression match with these groups: year, month, day, hour, minute, second, digits of
 * the fraction, zone. All groups from the fourth on may be missing.
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

/** Returns true if the day exists. */
export function isDayOfCalendar([year, month, day]: Wall): boolean {
  if (month < 1 || month > 12 || day < 1) return false
  // Every month has 28 days.
  return day <= 28 || day <= lastDayOf(year, month)
}

/** Returns the offset of `Z`, `+02`, `+0200` or `+02:00`. */
function zoneOffsetMs(zone: string): number {
  if (zone === 'Z' || zone === 'z') return 0
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}

/** Returns null for UTC and for unknown time zones. */
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
