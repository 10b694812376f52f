/**
 * Wall clock time in a time zone and back, by the IANA database of the runtime. Whatever is done to a
 * clock (days added, months cut) is done to its numbers, so that days of 23 and 25 hours come out right.
 */

/** Wall clock time: year, month from 1, day, hour, minute, second, millisecond. */
export type Wall = readonly [number, number, number, number, number, number, number]

/** Clocks are put forward and back by multiples of this. */
export const CLOCK_STEP_MS = 15 * 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const formatters = new Map<string, Intl.DateTimeFormat>()

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
  const newMonth = (index % 12) + 1
  const lastDay = new Date(Date.UTC(newYear, newMonth, 0)).getUTCDate()
  return [newYear, newMonth, Math.min(day, lastDay), ...time]
}

/** The wall clock time as if it were UTC. */
export function utcOf([year, month, day, hour, minute, second, millisecond]: Wall): number {
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  date.setUTCHours(hour, minute, second, millisecond)
  return date.getTime()
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
export function momentOf(wall: Wall, timezone: string): number {
  const localMs = utcOf(wall)
  if (timezone === 'UTC') return localMs
  const offsetAt = (timeMs: number): number => utcOf(wallOf(timeMs, timezone)) - timeMs
  const before = localMs - offsetAt(localMs - DAY_MS)
  if (utcOf(wallOf(before, timezone)) === localMs) return before
  const after = localMs - offsetAt(localMs + DAY_MS)
  return utcOf(wallOf(after, timezone)) === localMs ? after : before
}

/** As `momentOf` for the last millisecond of something: of two moments the later one. */
export function endMomentOf(wall: Wall, timezone: string): number {
  return wall[6] === 999
    ? momentOf(wallOfUtc(utcOf(wall) + 1), timezone) - 1
    : momentOf(wall, timezone)
}

/** The full hour before a moment. A clock that is put back shows some hours twice, and they are two hours. */
export function hourStart(timeMs: number, timezone: string): number {
  const [, , , , minute, second, millisecond] = wallOf(timeMs, timezone)
  const startMs = timeMs - (minute * 60 + second) * 1000 - millisecond
  if (isFullHour(startMs, timezone)) return startMs
  // Clocks were moved by a part of an hour in between.
  const lastStepMs = Math.floor(timeMs / CLOCK_STEP_MS) * CLOCK_STEP_MS
  for (let stepMs = lastStepMs; stepMs > timeMs - 2 * HOUR_MS; stepMs -= CLOCK_STEP_MS) {
    if (isFullHour(stepMs, timezone)) return stepMs
  }
  return startMs
}

/** Whether clocks show a full hour. */
export function isFullHour(timeMs: number, timezone: string): boolean {
  const [, , , , minute, second, millisecond] = wallOf(timeMs, timezone)
  return minute === 0 && second === 0 && millisecond === 0
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
