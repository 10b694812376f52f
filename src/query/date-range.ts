/**
 * Ranges of dates as insights write them: relative, as a day, or as a moment, in the time zone of the
 * project. Pure: now is given. Source: docs/COMPATIBILITY.md, "Persons".
 */
import { ServiceError } from '../base/errors.ts'

/** Length of a period. */
export type Interval = 'hour' | 'day' | 'week' | 'month'

/** What a request says; null for what it does not say. */
export interface RangeRequest {
  readonly dateFrom: string | null
  readonly dateTo: string | null
  readonly interval: Interval
  /** Name of the IANA time zone database. */
  readonly timezone: string
  readonly nowMs: number
  /** For `all`: the time of the first event, or null when there is none. */
  readonly firstEventMs: number | null
}

/** Both ends belong to it, in milliseconds. `fromMs` may lie behind `toMs`; then nothing is in it. */
export interface DateRange {
  readonly fromMs: number
  readonly toMs: number
}

/** Wall clock time: year, month from 1, day, hour, minute, second, millisecond. */
type Wall = readonly [number, number, number, number, number, number, number]

const INTERVALS: readonly string[] = ['hour', 'day', 'week', 'month']
const DAY_MS = 86_400_000
const MOMENT =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i
const RELATIVE = /^(?:-(\d{1,5})([hdwmyq])|(?:-(\d{1,5}))?([dmy]))(Start|End)?$/
const formatters = new Map<string, Intl.DateTimeFormat>()

/**
 * The interval of a text: `minute` counts as hour, null as day. Throws 400 `invalid_input` for another.
 */
export function parseInterval(text: string | null): Interval {
  if (text === null) return 'day'
  if (text === 'minute') return 'hour'
  if (!INTERVALS.includes(text)) {
    const detail = 'interval must be hour, day, week or month'
    throw new ServiceError('invalid_input', detail, { attr: 'interval' })
  }
  return text as Interval
}

/** The range that a request means. What cannot be read counts as now, as clients expect. */
export function dateRange(request: RangeRequest): DateRange {
  const { dateFrom, dateTo, interval, timezone, nowMs } = request
  const from = startOf(request)
  const isHourly = isHourlyText(dateTo, interval)
  let to: Wall
  if (dateTo !== null && dateTo === dateFrom) to = widened(from, interval)
  else {
    const given = dateTo === null || dateTo === 'all' ? null : readDate(dateTo, timezone, nowMs)
    const moment = given?.wall ?? wallOf(nowMs, timezone)
    if (given !== null && isHourly) to = given.isRelative ? endOfHour(moment) : moment
    else to = isHourly ? endOfHour(moment) : endOfDay(moment)
  }
  const rounded = roundedStart(from, to, interval)
  return { fromMs: momentOf(rounded, timezone), toMs: momentOf(to, timezone) }
}

/** ISO 8601 with the offset of a zone; the last millisecond of a second stands for its last microsecond. */
export function isoInZone(timeMs: number, timezone: string): string {
  const wall = wallOf(timeMs, timezone)
  const localMs = utcOf(wall)
  const offsetMinutes = Math.round((localMs - timeMs) / 60_000)
  const text = new Date(localMs).toISOString()
  const fraction = text.slice(19, 23)
  const digits = fraction === '.000' ? '' : `${fraction}${fraction === '.999' ? '999' : '000'}`
  const sign = offsetMinutes < 0 ? '-' : '+'
  const minutes = Math.abs(offsetMinutes)
  return `${text.slice(0, 19)}${digits}${sign}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
}

/** Only then hours and minutes of a date survive. */
function isHourlyText(text: string | null, interval: Interval): boolean {
  return interval === 'hour' || (text?.includes('h') ?? false)
}

function startOf({ dateFrom, interval, timezone, nowMs, firstEventMs }: RangeRequest): Wall {
  const weekAgo = startOfDay(addDays(wallOf(nowMs, timezone), -7))
  if (dateFrom === null) return weekAgo
  if (dateFrom === 'all') return firstEventMs === null ? weekAgo : wallOf(firstEventMs, timezone)
  const given = readDate(dateFrom, timezone, nowMs)
  const wall = given?.wall ?? wallOf(nowMs, timezone)
  if (!isHourlyText(dateFrom, interval)) return startOfDay(wall)
  if (given === null) return startOfDay(wall)
  return given.isRelative ? startOfHour(wall) : wall
}

interface ReadDate {
  readonly wall: Wall
  readonly isRelative: boolean
}

function readDate(text: string, timezone: string, nowMs: number): ReadDate | null {
  const absolute = MOMENT.exec(text)
  if (absolute !== null) return readMoment(absolute, timezone)
  const relative = RELATIVE.exec(text)
  if (relative === null) return null
  const count = Number(relative[1] ?? relative[3] ?? '0')
  const unit = relative[2] ?? relative[4] ?? 'd'
  const wall = movedBack(wallOf(nowMs, timezone), count, unit, timezone)
  if (!isRepresentable(wall)) return null
  return { wall: atEdge(wall, unit, relative[5]), isRelative: true }
}

function readMoment(match: RegExpExecArray, timezone: string): ReadDate | null {
  const field = (index: number): number => Number(match[index] ?? '0')
  const milliseconds = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3))
  const wall: Wall = [field(1), field(2), field(3), field(4), field(5), field(6), milliseconds]
  const normal = wallOfUtc(utcOf(wall))
  if (normal.some((value, index) => value !== wall[index])) return null
  const zone = match[8]
  if (zone === undefined) return { wall, isRelative: false }
  return { wall: wallOf(utcOf(wall) - offsetMs(zone), timezone), isRelative: false }
}

function offsetMs(zone: string): number {
  if (zone.toUpperCase() === 'Z') return 0
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}

function movedBack(wall: Wall, count: number, unit: string, timezone: string): Wall {
  switch (unit) {
    case 'h':
      return wallOf(momentOf(wall, timezone) - count * 3_600_000, timezone)
    case 'w':
      return addDays(wall, -7 * count)
    case 'q':
      return addDays(wall, -7 * 13 * count)
    case 'm':
      return addMonths(wall, -count)
    case 'y':
      return addMonths(wall, -12 * count)
    default:
      return addDays(wall, -count)
  }
}

/** `mStart`, `mEnd`, `yStart`, `yEnd`; `dStart` is the day itself. */
function atEdge(wall: Wall, unit: string, edge: string | undefined): Wall {
  const [year, month] = wall
  if (edge === undefined || (unit !== 'm' && unit !== 'y')) return wall
  if (edge === 'Start') return [year, unit === 'm' ? month : 1, 1, 0, 0, 0, 0]
  const last = unit === 'm' ? new Date(Date.UTC(year, month, 0)) : new Date(Date.UTC(year, 12, 0))
  return wallOfUtc(last.getTime())
}

/** When both ends are written alike, the end goes to the end of the period that begins there. */
function widened(from: Wall, interval: Interval): Wall {
  if (interval === 'hour') return wallOfUtc(utcOf(from) + 3_600_000)
  if (interval === 'week') return endOfDay(addDays(from, 6))
  if (interval === 'month') return endOfDay(addDays(addMonths(from, 1), -1))
  return endOfDay(from)
}

/** Back to the start of the week (Sunday), month or, in ranges of two hours and more, hour. */
function roundedStart(from: Wall, to: Wall, interval: Interval): Wall {
  if (interval === 'month') return [from[0], from[1], 1, 0, 0, 0, 0]
  if (interval === 'week') return startOfDay(addDays(from, -new Date(utcOf(from)).getUTCDay()))
  if (interval === 'hour' && utcOf(to) - utcOf(from) >= 2 * 3_600_000) return startOfHour(from)
  return from
}

function startOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 0, 0, 0, 0]
}

function endOfDay([year, month, day]: Wall): Wall {
  return [year, month, day, 23, 59, 59, 999]
}

function startOfHour([year, month, day, hour]: Wall): Wall {
  return [year, month, day, hour, 0, 0, 0]
}

function endOfHour([year, month, day, hour]: Wall): Wall {
  return [year, month, day, hour, 59, 59, 999]
}

function addDays(wall: Wall, days: number): Wall {
  return wallOfUtc(utcOf(wall) + days * DAY_MS)
}

/** Clipped to the last day of the month. */
function addMonths([year, month, day, ...time]: Wall, months: number): Wall {
  const index = year * 12 + month - 1 + months
  const newYear = Math.floor(index / 12)
  const newMonth = (index % 12) + 1
  const lastDay = new Date(Date.UTC(newYear, newMonth, 0)).getUTCDate()
  return [newYear, newMonth, Math.min(day, lastDay), ...time]
}

/** Far back, numbers of days and months leave what a date can say. */
function isRepresentable([year]: Wall): boolean {
  return year >= 1 && year <= 9999
}

/** The wall clock time as if it were UTC. */
function utcOf([year, month, day, hour, minute, second, millisecond]: Wall): number {
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  date.setUTCHours(hour, minute, second, millisecond)
  return date.getTime()
}

function wallOfUtc(timeMs: number): Wall {
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
function wallOf(timeMs: number, timezone: string): Wall {
  if (timezone === 'UTC') return wallOfUtc(timeMs)
  const parts = new Map(
    formatterOf(timezone)
      .formatToParts(timeMs)
      .map(({ type, value }) => [type, Number(value)]),
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
function momentOf(wall: Wall, timezone: string): number {
  const localMs = utcOf(wall)
  if (timezone === 'UTC') return localMs
  const offsetAt = (timeMs: number): number => utcOf(wallOf(timeMs, timezone)) - timeMs
  const before = localMs - offsetAt(localMs - DAY_MS)
  if (utcOf(wallOf(before, timezone)) === localMs) return before
  const after = localMs - offsetAt(localMs + DAY_MS)
  return utcOf(wallOf(after, timezone)) === localMs ? after : before
}

function formatterOf(timezone: string): Intl.DateTimeFormat {
  let formatter = formatters.get(timezone)
  if (formatter === undefined) {
    formatter = new Intl.DateTimeFormat('en-US', {
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
    formatters.set(timezone, formatter)
  }
  return formatter
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
