/**
 * Reads the date range of a query: `dateRange`, the interval and the comparison range. It also determines the moment
 * from which events count. All times are wall-clock times in the time zone of the project. Source:
 * docs/compatibility/queries.md, "Ranges".
 */
import {
  addDays,
  addMonths,
  dateParts,
  endMomentOf,
  endOfDay,
  hourStart,
  isDayOfCalendar,
  momentOf,
  startOfDay,
  startWallOf,
  utcOf,
  type Wall,
  wallOf,
  wallOfUtc,
} from '../../base/time-zone.ts'
import { allFromMs, atEdge, type DateRange, MOMENT } from '../analytics/date-range.ts'
import { earliestStart, type Interval, periodStart } from '../analytics/periods.ts'
import type { QueryFields } from './query-fields.ts'
import type { QueryContext } from './query-kind.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const RELATIVE = /^-?(\d{1,5})([hdwmyqM])$/
const EDGE = /^(?:-?(\d{1,5}))?([dmy])(Start|End)$/

/** A range with known ends in milliseconds, both inclusive. */
export interface QueryRange extends DateRange {
  readonly interval: Interval
  /** The time zone, as a name of the IANA time zone database. */
  readonly timezone: string
  /** True if the start and the end are used as requested. Otherwise they are moved to the edge of an interval. */
  readonly isExplicit: boolean
  /**
   * How the start was given: as a date, as days or longer units before now, as hours, as minutes before now, or as the
   * first event of the project. A comparison range has the form of the original range.
   */
  readonly start: 'absolute' | 'days' | 'hours' | 'minutes' | 'first_event'
  /**
   * True if the interval is day and the start was requested in whole weeks, such as `-14d`. The range then also
   * contains today, so it has one day more than whole weeks. The comparison range begins one day later than it
   * otherwise would, so that both ranges begin on the same weekday.
   */
  readonly isWeekAligned: boolean
}

/** A date after it was read from a text. */
export interface ReadDate {
  /**
   * The moment described by the text, in milliseconds since 1970. If the text counts hours, such as `-3h`, the moment
   * is moved to the start of the hour.
   */
  readonly momentMs: number
  /** Like `momentMs`, but never moved to the start of the hour. */
  readonly exactMs: number
  /** The wall-clock time in the zone at that moment. */
  readonly wall: Wall
  readonly kind: 'absolute' | 'days' | 'hours' | 'minutes'
  readonly hasTime: boolean
}

/** Reads the interval of a query. The default is day. Throws 400 `invalid_query`. */
export function readInterval(query: QueryFields): Interval {
  return query.choice('interval', ['day', 'minute', 'hour', 'week', 'month'])
}

/**
 * Reads the range of `dateRange`. The default is the seven days before today, and today. `interval` decides to which
 * moment the end is moved. Throws 400 `invalid_query` for dates that cannot be read.
 */
export function readRange(
  query: QueryFields,
  interval: Interval,
  context: QueryContext,
): QueryRange {
  const { timezone, nowMs } = context
  const fields = query.within('dateRange')
  const fromText = fields.text('date_from') || null
  const toText = fields.text('date_to') || null
  const isExplicit = fields.boolean('explicitDate')
  const dayStart = (wall: Wall): number => momentOf(startOfDay(wall), timezone)
  const date = (name: string, text: string): ReadDate => {
    const read = readDate(text, timezone, nowMs)
    if (read !== null) return read
    const what = 'must be a date such as 2026-01-31, or a relative one such as -7d or -1mStart'
    throw fields.fault(name, what)
  }
  let fromMs = dayStart(addDays(wallOf(nowMs, timezone), -7))
  let start: QueryRange['start'] = 'days'
  if (fromText === 'all') {
    fromMs = allFromMs((sinceMs) => context.firstEventMs(sinceMs)) ?? fromMs
    start = 'first_event'
  } else if (fromText !== null) {
    const from = date('date_from', fromText)
    start = from.kind
    const isKept =
      from.kind === 'absolute' ||
      from.kind === 'hours' ||
      (from.kind === 'minutes' && interval === 'minute')
    fromMs = isKept ? from.momentMs : dayStart(from.wall)
  }
  const to = toText === null ? null : date('date_to', toText)
  const toMs = isExplicit ? (to?.exactMs ?? nowMs) : endOf(to, interval, timezone, nowMs)
  if (start === 'first_event') {
    fromMs = Math.max(fromMs, earliestStart(toMs, { interval, timezone, weekStart: 'sunday' }))
  }
  return {
    fromMs,
    toMs,
    interval,
    timezone,
    isExplicit,
    start,
    isWeekAligned:
      interval === 'day' && isWholeWeeks(fromText) && (to?.kind ?? 'absolute') === 'absolute',
  }
}

/**
 * Reads the range of a query that has no buckets. An end without a time of day includes the whole day, whatever
 * `interval` the query contains. Throws the same errors as `readRange`.
 */
export function readWholeRange(query: QueryFields, context: QueryContext): QueryRange {
  const { timezone, nowMs } = context
  const range = readRange(query, readInterval(query), context)
  const toText = query.within('dateRange').text('date_to') || null
  const to = toText === null ? null : readDate(toText, timezone, nowMs)
  const isDay = to?.kind === 'absolute' && !to.hasTime && !range.isExplicit
  return isDay ? { ...range, toMs: endMomentOf(endOfDay(to.wall), timezone) } : range
}

/** Reads the date in a text. Returns null if the text is not a date. */
export function readDate(text: string, timezone: string, nowMs: number): ReadDate | null {
  const absolute = MOMENT.exec(text)
  if (absolute !== null) return readMoment(absolute, timezone)
  const relative = RELATIVE.exec(text)
  const now = wallOf(nowMs, timezone)
  if (relative !== null) return movedBack(Number(relative[1]), relative[2] ?? 'd', timezone, now)
  const edge = EDGE.exec(text)
  if (edge === null) return null
  const unit = edge[2] ?? 'd'
  const moved = movedBack(Number(edge[1] ?? 0), unit, timezone, now)
  if (moved === null) return null
  const read = inDays(startOfDay(atEdge(moved.wall, unit, edge[3])), timezone)
  if (edge[3] !== 'End') return read
  return { ...read, exactMs: endMomentOf(endOfDay(read.wall), timezone) }
}

/**
 * Returns the moment from which events are counted in the buckets of a range. It may be earlier than the start of the
 * range, for example the start of its first day.
 */
export function eventsFromMs({
  fromMs,
  interval,
  timezone,
  isExplicit,
  start,
}: QueryRange): number {
  if (isExplicit) return fromMs
  const rules = { interval, timezone, weekStart: 'sunday' } as const
  switch (interval) {
    case 'minute':
    case 'hour':
      return start === 'absolute' ? periodStart(fromMs, rules) : fromMs
    case 'month':
      return periodStart(fromMs, rules)
    case 'day':
    case 'week': {
      const isKept = interval === 'day' && start === 'hours'
      return isKept ? fromMs : momentOf(startOfDay(wallOf(fromMs, timezone)), timezone)
    }
  }
}

/**
 * Returns the comparison range of a query, or null if the query asks for no comparison. Throws 400 `invalid_query` for
 * a text that cannot be read.
 */
export function readComparedRange(query: QueryFields, range: QueryRange): QueryRange | null {
  const isCompared = query.within('compareFilter').boolean('compare')
  return isCompared ? comparedRange(query, range) : null
}

/**
 * Returns the range described by `compareFilter`, even if the member `compare` is not set. Throws the same errors as
 * `readComparedRange`.
 */
export function comparedRange(query: QueryFields, range: QueryRange): QueryRange {
  const fields = query.within('compareFilter')
  const text = fields.text('compare_to') || null
  if (text === null) return rangeBefore(range)
  const relative = RELATIVE.exec(text)
  const start = startWallOf(range.fromMs, range.timezone)
  const from =
    relative === null
      ? null
      : movedBack(Number(relative[1]), relative[2] ?? 'd', range.timezone, start)
  if (from === null) throw fields.fault('compare_to', 'must be a text such as -1w or -30d')
  return movedTo(range, startWallOf(from.exactMs, range.timezone), false)
}

/** Returns the range of the same length directly before `range`, or one day later if `range` is week-aligned. */
function rangeBefore(range: QueryRange): QueryRange {
  const { fromMs, timezone, interval, isWeekAligned } = range
  const from = startWallOf(fromMs, timezone)
  const earlier = wallOfUtc(utcOf(from) - wallLengthMs(range))
  if (interval === 'minute') {
    return { ...range, fromMs: momentOf(earlier, timezone), toMs: fromMs }
  }
  const start = addDays(withClockOf(earlier, from), isWeekAligned ? 1 : 0)
  return movedTo(range, start, true)
}

function movedTo(range: QueryRange, from: Wall, isClockKept: boolean): QueryRange {
  const { timezone, toMs } = range
  const end = wallOfUtc(utcOf(from) + wallLengthMs(range))
  const to = isClockKept ? withClockOf(end, startWallOf(toMs, timezone)) : end
  return {
    ...range,
    fromMs: momentOf(from, timezone),
    toMs: endMomentOf(to, timezone),
  }
}

/** Returns the length of a range by the clock on the wall: a day of 23 hours counts as one of 24. */
function wallLengthMs({ fromMs, toMs, timezone }: QueryRange): number {
  return utcOf(startWallOf(toMs, timezone)) - utcOf(startWallOf(fromMs, timezone))
}

function withClockOf([year, month, day]: Wall, clock: Wall): Wall {
  return [year, month, day, clock[3], clock[4], clock[5], clock[6]]
}

function endOf(to: ReadDate | null, interval: Interval, timezone: string, nowMs: number): number {
  const wall = to?.wall ?? wallOf(nowMs, timezone)
  if (interval !== 'hour' && interval !== 'minute') return endMomentOf(endOfDay(wall), timezone)
  if (to?.kind === 'absolute') return to.momentMs
  const exactMs = to?.exactMs ?? nowMs
  if (interval === 'hour') return hourStart(exactMs, timezone) + HOUR_MS - 1
  return Math.floor(exactMs / MINUTE_MS) * MINUTE_MS + MINUTE_MS - 1
}

function isWholeWeeks(text: string | null): boolean {
  const match = /^-?(\d{1,5})d$/.exec(text ?? '')
  return match !== null && Number(match[1]) > 0 && Number(match[1]) % 7 === 0
}

function readMoment(match: RegExpExecArray, timezone: string): ReadDate | null {
  const { wall, hasTime, offsetMs } = dateParts(match)
  const [, , , hour, minute, second] = wall
  if (!isDayOfCalendar(wall) || hour > 23 || minute > 59 || second > 59) return null
  const momentMs = offsetMs === null ? momentOf(wall, timezone) : utcOf(wall) - offsetMs
  const shown = offsetMs === null ? wall : wallOf(momentMs, timezone)
  return { wall: shown, momentMs, exactMs: momentMs, kind: 'absolute', hasTime }
}

/** Returns the date that is `count` units before `now`, a wall-clock time. Returns null if it is before the year 1. */
function movedBack(count: number, unit: string, timezone: string, now: Wall): ReadDate | null {
  if (unit === 'h' || unit === 'M') {
    // Hours are subtracted from the wall-clock time, so that 24 hours before now has the same time of day, even if
    // clocks changed.
    const earlier = wallOfUtc(utcOf(now) - count * (unit === 'h' ? HOUR_MS : MINUTE_MS))
    const exactMs = momentOf(earlier, timezone)
    const momentMs = unit === 'h' ? hourStart(exactMs, timezone) : exactMs
    const kind = unit === 'h' ? 'hours' : 'minutes'
    return { wall: wallOf(momentMs, timezone), momentMs, exactMs, kind, hasTime: true }
  }
  const days = { d: 1, w: 7, q: 91 }[unit]
  const wall =
    days === undefined
      ? addMonths(now, -count * (unit === 'y' ? 12 : 1))
      : addDays(now, -count * days)
  return wall[0] < 1 ? null : inDays(wall, timezone)
}

function inDays(wall: Wall, timezone: string): ReadDate {
  const momentMs = momentOf(wall, timezone)
  return { wall, momentMs, exactMs: momentMs, kind: 'days', hasTime: false }
}
