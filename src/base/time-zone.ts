/**
 * Wall clock time in a time zone and back, by the IANA database of the runtime; a zone that is unknown
 * counts as UTC. Whatever is done to a clock (days added, months cut) is done to its numbers, so that days
 * of 23 and 25 hours come out right. And dates in ISO 8601, cut into such numbers.
 */
import { ZONE_DAYS_MAX } from './limits.ts'

/** Wall clock time: year, month from 1, day, hour, minute, second, millisecond. */
export type Wall = readonly [number, number, number, number, number, number, number]

/** Clocks are put forward and back by multiples of this. */
export const CLOCK_STEP_MS = 15 * 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The calendar repeats itself after them. */
const DAYS_OF_400_YEARS = 146_097
/** The formatter shows earlier years without their sign. */
const SIGNED_MS_MIN = Date.parse('0001-01-02T00:00:00Z')
/** The last moment that `Date` knows. */
const LAST_MOMENT_MS = 100_000_000 * DAY_MS
const formatters = new Map<string, Intl.DateTimeFormat | null>()
/** Zone and day of UTC -> how far its clocks are ahead all day long; null: they are moved on that day. */
const dayOffsets = new Map<string, number | null>()

/** Midnight of the day. */
export function startOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 0, 0, 0, 0]
}

/** Last millisecond of the day. */
export function endOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 23, 59, 59, 999]
}

/** So many days later by the clock; negative: earlier. */
export function addDays(wall: Wall, days: number): Wall {
  return wallOfUtc(utcOf(wall) + days * DAY_MS)
}

/** So many months later, clipped to the last day of the month. */
export function addMonths([year, month, day, ...time]: Wall, months: number): Wall {
  const index = year * 12 + month - 1 + months
  const newYear = Math.floor(index / 12)
  const newMonth = index - newYear * 12 + 1
  return [newYear, newMonth, Math.min(day, lastDayOf(newYear, newMonth)), ...time]
}

/** The last day of a month, which counts from 1. */
export function lastDayOf(year: number, month: number): number {
  return new Date(utcOf([year, month + 1, 0, 0, 0, 0, 0])).getUTCDate()
}

/** The wall clock time as if it were UTC. */
export function utcOf([year, month, day, hour, minute, second, millisecond]: Wall): number {
  // `Date.UTC` takes the years 0 to 99 for those of another century.
  const shift = year < 0 || year > 99 ? 0 : 400
  const timeMs = Date.UTC(year + shift, month - 1, day, hour, minute, second, millisecond)
  return shift === 0 ? timeMs : timeMs - DAYS_OF_400_YEARS * DAY_MS
}

/** What clocks in UTC show at a time in milliseconds. */
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

/** What clocks in the zone show. */
export function wallOf(timeMs: number, timezone: string): Wall {
  const formatter = formatterOf(timezone)
  if (formatter === null) return wallOfUtc(timeMs)
  const offsetMs = dayOffset(timeMs, timezone, formatter)
  return offsetMs === null ? wallBy(formatter, timeMs) : wallOfUtc(timeMs + offsetMs)
}

/**
 * What clocks in the zone show, but midnight for the first moment of a day whose clocks left midnight out. Starts of
 * days are counted back by it: a day that begins at one o'clock is as long as any other.
 */
export function startWallOf(timeMs: number, timezone: string): Wall {
  const wall = wallOf(timeMs, timezone)
  const midnight = startOfDay(wall)
  return momentOf(midnight, timezone) === timeMs ? midnight : wall
}

/** No zone moves its clocks twice within a day, so that equal ends tell of all between. */
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

/** What takes some microseconds. */
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

/** The moment at which clocks show a time; the first one of two, and the one after a gap. */
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
 * How far clocks are ahead of UTC when they show a time, milliseconds: twice for a time that they show twice, in the
 * order of the moments.
 */
export function offsetsAt(wall: Wall, timezone: string): readonly number[] {
  const localMs = utcOf(wall)
  const firstMs = momentOf(wall, timezone)
  const first = localMs - firstMs
  const later = utcOf(wallOf(firstMs + DAY_MS, timezone)) - (firstMs + DAY_MS)
  const isTwice = later !== first && utcOf(wallOf(localMs - later, timezone)) === localMs
  return isTwice ? [first, later] : [first]
}

/** As `momentOf` for the last millisecond of something: of two moments the later one. */
export function endMomentOf(wall: Wall, timezone: string): number {
  return wall[6] === 999
    ? momentOf(wallOfUtc(utcOf(wall) + 1), timezone) - 1
    : momentOf(wall, timezone)
}

/**
 * The beginning of the hour that clocks show at a moment. A clock that is put back shows some hours twice, and they are
 * two hours. One that is put forward by a part of an hour may skip the beginning of an hour: it begins then.
 */
export function hourStart(timeMs: number, timezone: string): number {
  const [, , , hour, minute, second, millisecond] = wallOf(timeMs, timezone)
  const startMs = timeMs - (minute * 60 + second) * 1000 - millisecond
  if (wallOf(startMs, timezone)[3] === hour && isHourStart(startMs, timezone)) return startMs
  // Clocks were moved by a part of an hour in between.
  const lastStepMs = Math.floor(timeMs / CLOCK_STEP_MS) * CLOCK_STEP_MS
  for (let stepMs = lastStepMs; stepMs > timeMs - 2 * HOUR_MS; stepMs -= CLOCK_STEP_MS) {
    if (isHourStart(stepMs, timezone)) return stepMs
  }
  return startMs
}

/** Whether clocks begin to show an hour: a full one, or what a moved clock has left of it. */
export function isHourStart(timeMs: number, timezone: string): boolean {
  const [, , , hour, minute, second, millisecond] = wallOf(timeMs, timezone)
  if (minute === 0 && second === 0 && millisecond === 0) return true
  const [, , , hourBefore] = wallOf(timeMs - 1, timezone)
  return hour !== hourBefore
}

/** A date in ISO 8601, cut into its numbers. */
export interface DateParts {
  /** As written: it may be no day of any calendar. */
  readonly wall: Wall
  /** It names a time of day. */
  readonly hasTime: boolean
  /** How far its clock is ahead of UTC, in milliseconds; null when it does not say. */
  readonly offsetMs: number | null
}

/**
 * What a pattern with these groups has found: year, month, day, hour, minute, second, digits of its
 * fraction, zone. All from the fourth on may be missing.
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

/** Whether a calendar has the day. */
export function isDayOfCalendar([year, month, day]: Wall): boolean {
  if (month < 1 || month > 12 || day < 1) return false
  // Every month has 28.
  return day <= 28 || day <= lastDayOf(year, month)
}

/** `Z`, `+02`, `+0200` or `+02:00`. */
function zoneOffsetMs(zone: string): number {
  if (zone === 'Z' || zone === 'z') return 0
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}

/** Null for UTC and for what is no time zone. */
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
