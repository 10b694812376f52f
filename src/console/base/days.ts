/**
 * The date ranges of pages. In the URL, a range is a name (`mtd`), a number of days or hours (`90d`, `48h`), or two days
 * (`2026-01-01..2026-01-31`). A range of days includes its first and its last day. Nothing here reads a clock: the
 * caller passes the current day in the time zone of the project.
 */

/** A range of days. It includes both `from` and `to`. */
export interface DayRange {
  readonly from: string
  readonly to: string
}

/**
 * The start and the end of a range in the form that queries accept. A relative date such as `-7d` keeps its meaning
 * when the query is saved.
 */
export interface Dates {
  readonly date_from: string
  readonly date_to?: string
  readonly explicitDate?: boolean
}

/** A range that the menu offers. */
export interface RangeOption {
  /** The value in the URL. */
  readonly value: string
  readonly label: string
  /** The key that chooses the range on the page "Web". Absent if there is none. */
  readonly letter?: string
  readonly dates: Dates
  /** Returns the days of the range. Returns null if it does not consist of whole days, or if its start is unknown. */
  readonly days: (today: string) => DayRange | null
  /**
   * By how many months the start of the range moves to the previous or the next period. With 0, the range moves by its
   * own number of days.
   */
  readonly months: number
}

/** The length of the intervals into which a chart divides its range. */
export type Interval = 'hour' | 'day' | 'week' | 'month'

const DAY_MS = 86_400_000
const HOUR_DAYS_MAX = 2
const DAY_DAYS_MAX = 120
const WEEK_DAYS_MAX = 800

/** Returns the day that is `count` days later. */
function addDays(day: string, count: number): string {
  return new Date(Date.parse(day) + count * DAY_MS).toISOString().slice(0, 10)
}

/** Returns the first day of the month that is `count` months after the month of a day. */
function monthStart(day: string, count = 0): string {
  const [year = 1970, month = 1] = day.split('-').map(Number)
  return new Date(Date.UTC(year, month - 1 + count, 1)).toISOString().slice(0, 10)
}

/** Returns the number of days of a range. */
export function dayCount({ from, to }: DayRange): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1
}

function lastDays(count: number): Pick<RangeOption, 'dates' | 'days' | 'months'> {
  return {
    dates: { date_from: count === 1 ? 'dStart' : `-${count - 1}d` },
    days: (today) => ({ from: addDays(today, 1 - count), to: today }),
    months: 0,
  }
}

/** The ranges of the menu. "Last 7 days" are today and the six days before it. */
export const RANGES: readonly RangeOption[] = [
  { value: 'today', label: 'Today', letter: 'd', ...lastDays(1) },
  {
    value: 'yesterday',
    label: 'Yesterday',
    letter: 'e',
    dates: { date_from: '-1dStart', date_to: '-1dEnd' },
    days: (today) => ({ from: addDays(today, -1), to: addDays(today, -1) }),
    months: 0,
  },
  {
    value: '24h',
    label: 'Last 24 hours',
    letter: 'h',
    dates: { date_from: '-23h' },
    days: () => null,
    months: 0,
  },
  { value: '7d', label: 'Last 7 days', letter: 'w', ...lastDays(7) },
  { value: '28d', label: 'Last 28 days', ...lastDays(28) },
  { value: '30d', label: 'Last 30 days', letter: 't', ...lastDays(30) },
  { value: '91d', label: 'Last 91 days', ...lastDays(91) },
  {
    value: 'mtd',
    label: 'Month to date',
    letter: 'm',
    dates: { date_from: 'mStart' },
    days: (today) => ({ from: monthStart(today), to: today }),
    months: 1,
  },
  {
    value: 'lastmonth',
    label: 'Last month',
    letter: 'p',
    dates: { date_from: '-1mStart', date_to: '-1mEnd' },
    days: (today) => ({ from: monthStart(today, -1), to: addDays(monthStart(today), -1) }),
    months: 1,
  },
  {
    value: 'ytd',
    label: 'Year to date',
    letter: 'y',
    dates: { date_from: 'yStart' },
    days: (today) => ({ from: `${today.slice(0, 4)}-01-01`, to: today }),
    months: 12,
  },
  {
    value: '12m',
    label: 'Last 12 months',
    letter: 'l',
    dates: { date_from: '-11mStart' },
    days: (today) => ({ from: monthStart(today, -11), to: today }),
    months: 12,
  },
  {
    value: 'all',
    label: 'All time',
    letter: 'a',
    dates: { date_from: 'all' },
    days: () => null,
    months: 0,
  },
]

const DAY = /^\d{4}-\d{2}-\d{2}$/

/**
 * Returns the days of a range that is written as `from..to`, or null for another text. If the days are in the wrong
 * order, they are swapped.
 */
export function customDays(value: string): DayRange | null {
  const [from = '', to = '', ...more] = value.split('..')
  const isRange = [from, to].every((day) => DAY.test(day) && !Number.isNaN(Date.parse(day)))
  if (!isRange || more.length > 0) return null
  return from <= to ? { from, to } : { from: to, to: from }
}

/**
 * Returns the range for a value in the URL. Besides the ranges of the menu, the URL may contain any number of days
 * (`90d`) or hours (`48h`), or two days. An unknown value stands for the range `7d`.
 */
export function rangeOf(value: string): RangeOption {
  const option = RANGES.find((one) => one.value === value)
  if (option !== undefined) return option
  const days = customDays(value)
  if (days !== null) {
    return {
      value,
      label: 'Custom range',
      // The range ends at the last moment of its last day, so that it includes this day at every interval. In an hourly
      // query, a date without a time would stand for the midnight at which the day begins.
      dates: { date_from: days.from, date_to: `${days.to}T23:59:59.999` },
      days: () => days,
      months: wholeMonths(days),
    }
  }
  const [, digits = '', unit] = /^(\d{1,4})([dh])$/.exec(value) ?? []
  const count = Number(digits)
  if (count === 0) return rangeOf('7d')
  if (unit === 'd') return { value, label: `Last ${count} days`, ...lastDays(count) }
  const dates = { date_from: `-${count - 1}h` }
  return { value, label: `Last ${count} hours`, dates, days: () => null, months: 0 }
}

/** Returns how many calendar months a range consists of. Returns 0 if it does not consist of whole months. */
function wholeMonths({ from, to }: DayRange): number {
  const next = addDays(to, 1)
  if (!from.endsWith('-01') || !next.endsWith('-01')) return 0
  const [start = 0, end = 0] = [from, next].map((day) => {
    const [year = 0, month = 0] = day.split('-').map(Number)
    return 12 * year + month
  })
  return end - start
}

/** Returns the interval with which the chart of a range has a few dozen points. */
export function intervalOf(range: RangeOption, today: string): Interval {
  if (range.value === 'all') return 'week'
  if (range.value === '12m') return 'month'
  const days = range.days(today)
  const count = days === null ? Number.parseInt(range.value, 10) / 24 : dayCount(days)
  if (count <= HOUR_DAYS_MAX) return 'hour'
  if (count <= DAY_DAYS_MAX) return 'day'
  return count <= WEEK_DAYS_MAX ? 'week' : 'month'
}

/** Returns true if a range contains the current moment, so that its numbers may still grow. */
export function isOngoingRange(range: RangeOption, today: string): boolean {
  return (range.days(today)?.to ?? today) >= today
}

/**
 * Returns the value in the URL for the period before a range (`direction` -1) or after it (1). Returns null if there is
 * no such period. A period that is not over ends today.
 */
export function movedRange(value: string, today: string, direction: -1 | 1): string | null {
  const range = rangeOf(value)
  const days = range.days(today)
  if (days === null) return value === 'all' || direction === 1 ? null : 'yesterday'
  const moved = movedDays(days, range.months, direction)
  if (moved.from > today) return null
  const clipped = { from: moved.from, to: moved.to < today ? moved.to : today }
  const known = RANGES.find((one) => {
    const its = one.days(today)
    return one.months === range.months && its?.from === clipped.from && its.to === clipped.to
  })
  return known?.value ?? `${clipped.from}..${clipped.to}`
}

function movedDays(days: DayRange, months: number, direction: number): DayRange {
  if (months === 0) {
    const count = direction * dayCount(days)
    return { from: addDays(days.from, count), to: addDays(days.to, count) }
  }
  const from = monthStart(days.from, direction * months)
  return { from, to: addDays(monthStart(from, months), -1) }
}

/** What a range is compared with: nothing, the previous period, or the same days of the previous year. */
export type Comparison = 'none' | 'previous' | 'year'

/** Returns the comparison that a value in the URL stands for. */
export function comparisonOf(value: string | null): Comparison {
  return value === 'year' ? 'year' : value === '1' ? 'previous' : 'none'
}

/**
 * Returns the `compareFilter` for a range, or null for no comparison. The current month up to today is compared with
 * the same days of the previous month.
 */
export function compareFilterOf(range: RangeOption, comparison: Comparison) {
  if (comparison === 'none' || range.value === 'all') return null
  const months = comparison === 'year' ? 12 : range.months
  return months === 0 ? { compare: true } : { compare: true, compare_to: `-${months}m` }
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']

/** Returns the days of a range in words: `30 Nov 2026`, `24–30 Nov 2026` or `29 Oct – 4 Nov 2026`. */
export function daysText({ from, to }: DayRange): string {
  const [end, endMonth, endYear] = partsOf(to)
  const [start, startMonth, startYear] = partsOf(from)
  if (from === to) return `${end} ${endMonth} ${endYear}`
  if (startYear !== endYear)
    return `${start} ${startMonth} ${startYear} – ${end} ${endMonth} ${endYear}`
  if (startMonth !== endMonth) return `${start} ${startMonth} – ${end} ${endMonth} ${endYear}`
  return `${start}–${end} ${endMonth} ${endYear}`
}

function partsOf(day: string): readonly [day: number, month: string, year: string] {
  const [year = '', month = '', date = ''] = day.split('-')
  return [Number(date), MONTHS[Number(month) - 1] ?? '', year]
}

/**
 * Returns a name for an interval of a chart: `Fri 6 Nov`, `6 Nov, 14:00`, `1–7 Nov 2026` or `Nov 2026`. `bucket` is the
 * start of the interval in the form of the query's answer.
 */
export function bucketText(bucket: string, interval: string): string {
  const day = bucket.slice(0, 10)
  const [date, month, year] = partsOf(day)
  switch (interval) {
    case 'hour':
      return `${date} ${month}, ${bucket.slice(11, 16)}`
    case 'week':
      return daysText({ from: day, to: addDays(day, 6) })
    case 'month':
      return `${month} ${year}`
    default:
      return `${WEEKDAYS[new Date(day).getUTCDay()]} ${date} ${month}`
  }
}
