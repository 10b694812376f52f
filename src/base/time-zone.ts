/**
 * From the time on a wall clock to the moment, by the IANA database of the runtime.
 */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const formatters = new Map<string, Intl.DateTimeFormat | null>()

/**
 * The moment at which clocks in the zone show a time, given as if it were UTC: the first one of two, and
 * for a time that clocks skip the one after the gap. A zone that is unknown counts as UTC.
 */
export function wallTimeToUtc(wallMs: number, timezone: string): number {
  if (timezone === 'UTC') return wallMs
  const formatter = formatterOf(timezone)
  if (formatter === null) return wallMs
  const before = wallMs - offsetAt(wallMs - DAY_MS, formatter)
  if (before + offsetAt(before, formatter) === wallMs) return before
  const after = wallMs - offsetAt(wallMs + DAY_MS, formatter)
  return after + offsetAt(after, formatter) === wallMs ? after : before
}

/** What clocks of the zone are ahead of UTC at a moment, in ms. */
function offsetAt(timeMs: number, formatter: Intl.DateTimeFormat): number {
  const fields = new Map<string, number>()
  for (const { type, value } of formatter.formatToParts(timeMs)) fields.set(type, Number(value))
  const field = (name: Intl.DateTimeFormatPartTypes): number => fields.get(name) ?? 0
  const wall = new Date(0)
  wall.setUTCFullYear(field('year'), field('month') - 1, field('day'))
  wall.setUTCHours(field('hour') % 24, field('minute'), field('second'))
  return wall.getTime() - Math.floor(timeMs / 1000) * 1000
}

function formatterOf(timezone: string): Intl.DateTimeFormat | null {
  const known = formatters.get(timezone)
  if (known !== undefined) return known
  const made = makeFormatter(timezone)
  formatters.set(timezone, made)
  return made
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
