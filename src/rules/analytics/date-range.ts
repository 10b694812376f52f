/**
 * Date ranges as insights write them: relative dates, days or moments in the time zone of the project. The functions
 * are pure; the caller passes the current time. Source: docs/compatibility/persons.md, "Persons".
 */
import {
  addDays,
  addMonths,
  dateParts,
  endMomentOf,
  endOfDay,
  hourStart,
  lastDayOf,
  momentOf,
  startOfDay,
  startWallOf,
  utcOf,
  type Wall,
  wallOf,
  wallOfUtc,
} from '../../base/time-zone.ts'
import { earliestStart, type Interval, periodStart } from './periods.ts'

/** The range of a request. Members that the request does not contain are null. */
export interface RangeRequest {
  readonly dateFrom: string | null
  readonly dateTo: string | null
  readonly interval: Interval
  /** The time zone, as a name of the IANA time zone database. */
  readonly timezone: string
  readonly nowMs: number
  /**
   * The time in milliseconds at which the range `all` starts, or null if there are no events. Other ranges ignore it.
   */
  readonly firstEventMs: number | null
  /** If true, dates are exactly the moments that they name, and neither end is moved. The default is false. */
  readonly isExplicit?: boolean
}

/**
 * The rules by which a question moves the ends of a range. Source: docs/compatibility/analytics.md, "Analytic person
 * routes".
 */
export interface RangeRules {
  /** If true, two identical ends mean one whole interval. */
  readonly isWidened: boolean
  /**
   * If true, the start moves back to the start of its week or month or, in ranges of at least two hours, of its hour.
   */
  readonly isRounded: boolean
  /** The number of days by which the range begins earlier. The start is then not rounded. */
  readonly daysBefore?: number | undefined
}

/** A date range in milliseconds. Both ends are inclusive. If `fromMs` is greater than `toMs`, the range is empty. */
export interface DateRange {
  readonly fromMs: number
  readonly toMs: number
}

/** The range of all events. */
export const ALWAYS: DateRange = {
  fromMs: Number.NEGATIVE_INFINITY,
  toMs: Number.POSITIVE_INFINITY,
}

/**
 * The range `all` ignores events before the year 2000, because they come from clocks that were never set. PostHog
 * ignores events before 2015, but an import may contain older events that are correct.
 */
const ALL_FROM_MS_MIN = Date.UTC(2000, 0, 1)

const INSIGHT_RULES: RangeRules = { isWidened: true, isRounded: true }
const HOUR_MS = 3_600_000
/** Matches a date or a date with a time of day in ISO 8601 form. `dateParts` reads its capture groups. */
export const MOMENT =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i
const RELATIVE = /^(?:-(\d{1,5})([hdwmyq])|(?:-(\d{1,5}))?([dmy]))(Start|End)?$/

/**
 * Returns the start of the range `all` in milliseconds: the first event of the year 2000 or later or, if there is no
 * such event, the first event. Returns null if there are no events. `firstEventMs` must do the same as
 * `EventScanner.firstEventMs`.
 */
export function allFromMs(firstEventMs: (sinceMs?: number) => number | null): number | null {
  return firstEventMs(ALL_FROM_MS_MIN) ?? firstEventMs()
}

/** Returns the date range of a request. A date that cannot be read means today, because clients rely on this. */
export function dateRange(request: RangeRequest, rules: RangeRules = INSIGHT_RULES): DateRange {
  const { dateFrom, timezone, interval, isExplicit = false } = request
  let fromMs = startOf(request)
  const toMs = endOf(request, fromMs, rules)
  if (dateFrom === 'all') {
    fromMs = Math.max(fromMs, earliestStart(toMs, { interval, timezone, weekStart: 'sunday' }))
  }
  if (rules.daysBefore !== undefined) {
    const earlier = addDays(startWallOf(fromMs, timezone), -rules.daysBefore)
    return { fromMs: momentOf(earlier, timezone), toMs }
  }
  const isRounded = rules.isRounded && !isExplicit
  return { fromMs: isRounded ? roundedStart(fromMs, toMs, interval, timezone) : fromMs, toMs }
}

/**
 * Returns the moment that a text names, read like `dateFrom`, in milliseconds since 1970. A day means its midnight. A
 * time of day counts only if the interval is hour or `isExplicit` is true. A text that cannot be read means the
 * midnight at which today begins.
 */
export function momentOfText(text: string, request: RangeRequest): number {
  return startOf({ ...request, dateFrom: text })
}

/** Returns whether a text is a date or a moment of the calendar in ISO 8601 form. */
export function isMoment(text: string): boolean {
  const match = MOMENT.exec(text)
  return match !== null && readMoment(match, 'UTC') !== null
}

/**
 * Returns the time in ISO 8601 form with the offset of a zone. The time has microseconds. A time that ends in .999 is
 * written with .999999, because it stands for the end of the second.
 */
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

/** Returns whether the time of day in a date counts. If it does not, the date means the whole day. */
function isTimeKept(
  text: string,
  { kind }: ReadDate,
  { interval, isExplicit = false }: RangeRequest,
): boolean {
  return kind === 'absolute' && (isExplicit || interval === 'hour' || text.includes('h'))
}

/**
 * Returns the start of the range. Relative hours such as `-6h` are subtracted from the current moment and not from the
 * wall-clock time, because a clock shows one hour twice when daylight saving time ends.
 */
function startOf(request: RangeRequest): number {
  const { dateFrom, timezone, nowMs, firstEventMs } = request
  const dayStart = (wall: Wall): number => momentOf(startOfDay(wall), timezone)
  const today = wallOf(nowMs, timezone)
  if (dateFrom === null) return dayStart(addDays(today, -7))
  if (dateFrom === 'all') return firstEventMs ?? dayStart(addDays(today, -7))
  const given = readDate(dateFrom, timezone, nowMs)
  if (given === null) return dayStart(today)
  if (given.kind === 'hours') return hourStart(given.momentMs, timezone)
  return isTimeKept(dateFrom, given, request) ? given.momentMs : dayStart(given.wall)
}

function endOf(request: RangeRequest, fromMs: number, { isWidened }: RangeRules): number {
  const { dateFrom, dateTo, interval, timezone, nowMs, isExplicit = false } = request
  const dayEnd = (wall: Wall): number => endMomentOf(endOfDay(wall), timezone)
  const today = wallOf(nowMs, timezone)
  if (dateTo === null || dateTo === 'all') {
    return interval === 'hour' ? hourStart(nowMs, timezone) + HOUR_MS - 1 : dayEnd(today)
  }
  if (isWidened && !isExplicit && dateTo === dateFrom) return widened(fromMs, interval, timezone)
  const given = readDate(dateTo, timezone, nowMs)
  if (given === null) return dayEnd(today)
  if (given.kind === 'hours') return hourStart(given.momentMs, timezone) + HOUR_MS - 1
  if (!isTimeKept(dateTo, given, request)) return dayEnd(given.wall)
  return given.isZoned ? given.momentMs : endMomentOf(given.wall, timezone)
}

interface ReadDate {
  readonly wall: Wall
  readonly momentMs: number
  /**
   * `absolute` is a date, `hours` is relative such as `-6h`, and `days` is relative in days or longer units such as
   * `-2w`.
   */
  readonly kind: 'absolute' | 'hours' | 'days'
  /** True if the text contains an offset from UTC. */
  readonly isZoned: boolean
}

function readDate(text: string, timezone: string, nowMs: number): ReadDate | null {
  const absolute = MOMENT.exec(text)
  if (absolute !== null) return readMoment(absolute, timezone)
  const relative = RELATIVE.exec(text)
  if (relative === null) return null
  const count = Number(relative[1] ?? relative[3] ?? '0')
  const unit = relative[2] ?? relative[4] ?? 'd'
  if (unit === 'h') {
    const momentMs = nowMs - count * HOUR_MS
    return { wall: wallOf(momentMs, timezone), momentMs, kind: 'hours', isZoned: false }
  }
  const moved = movedBack(wallOf(nowMs, timezone), count, unit)
  if (!isRepresentable(moved)) return null
  const wall = atEdge(moved, unit, relative[5])
  return { wall, momentMs: momentOf(wall, timezone), kind: 'days', isZoned: false }
}

function readMoment(match: RegExpExecArray, timezone: string): ReadDate | null {
  const { wall, offsetMs } = dateParts(match)
  const normal = wallOfUtc(utcOf(wall))
  if (normal.some((value, index) => value !== wall[index])) return null
  if (offsetMs === null) {
    return { wall, momentMs: momentOf(wall, timezone), kind: 'absolute', isZoned: false }
  }
  const momentMs = utcOf(wall) - offsetMs
  return { wall: wallOf(momentMs, timezone), momentMs, kind: 'absolute', isZoned: true }
}

function movedBack(wall: Wall, count: number, unit: string): Wall {
  switch (unit) {
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

/**
 * Returns the first or last day of the month (`unit` m) or year (`unit` y) that contains the given wall-clock time;
 * `edge` is Start or End. For any other unit, or without an edge, it returns the wall-clock time itself.
 */
export function atEdge(wall: Wall, unit: string, edge: string | undefined): Wall {
  const [year, month] = wall
  if (edge === undefined || (unit !== 'm' && unit !== 'y')) return wall
  if (edge === 'Start') return [year, unit === 'm' ? month : 1, 1, 0, 0, 0, 0]
  const last = unit === 'm' ? month : 12
  return [year, last, lastDayOf(year, last), 0, 0, 0, 0]
}

/**
 * Returns the end of the interval that begins at `fromMs`. A range whose ends are the same date means this whole
 * interval.
 */
function widened(fromMs: number, interval: Interval, timezone: string): number {
  if (interval === 'hour') return fromMs + HOUR_MS
  const from = wallOf(fromMs, timezone)
  let last = from
  if (interval === 'week') last = addDays(from, 6)
  if (interval === 'month') last = addDays(addMonths(from, 1), -1)
  return endMomentOf(endOfDay(last), timezone)
}

/**
 * Returns the start of the week (from Sunday) or month that contains `fromMs`. With the interval hour, it returns the
 * start of the hour if the range is at least two hours long. In all other cases, it returns `fromMs`.
 */
function roundedStart(fromMs: number, toMs: number, interval: Interval, timezone: string): number {
  if (interval === 'hour') {
    return toMs - fromMs >= 2 * HOUR_MS ? hourStart(fromMs, timezone) : fromMs
  }
  if (interval === 'day') return fromMs
  return periodStart(fromMs, { interval, timezone, weekStart: 'sunday' })
}

/**
 * Returns whether the year of a relative date has at most four digits and is not before the year 1, as ISO 8601
 * requires.
 */
function isRepresentable([year]: Wall): boolean {
  return year >= 1 && year <= 9999
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
