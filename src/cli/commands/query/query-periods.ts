/** Computes the days, weeks or months of `tenrec query`, as the dates on which they begin. */
import { UsageError } from '../../../base/errors.ts'
import type { CommandInput, OptionTexts } from '../../lib/command.ts'

const DAY_MS = 86_400_000
const PERIODS_DEFAULT = 7
const INTERVALS = ['day', 'week', 'month'] as const

/** Length of a period. */
export type QueryInterval = (typeof INTERVALS)[number]

/** Options that choose periods. */
export const PERIOD_OPTIONS: OptionTexts = {
  '--from DATE': `First day, such as 2024-05-01. Default: the start of the last ${PERIODS_DEFAULT} periods.`,
  '--to DATE': 'Last day. Default: today (UTC).',
  '--interval UNIT': 'Length of a period: day, week or month. Default: day.',
}

/** The time range of a query. */
export interface QueryRange {
  readonly interval: QueryInterval
  readonly from: string
  readonly to: string
  /** The first day of each period, ascending. */
  readonly starts: readonly string[]
}

/**
 * Reads the time range from the options. A week begins on Sunday, or on Monday if `isMonday` is true. Throws
 * `UsageError` for an invalid date. The cost grows with the number of periods.
 */
export function queryRange(input: CommandInput, isMonday = false): QueryRange {
  const interval = intervalOf(input.text('interval') ?? 'day')
  const toMs = dateMs('to', input.text('to') ?? isoDate(input.io.clock.now()))
  const lastMs = startOf(toMs, interval, isMonday)
  const from = input.text('from')
  const fromMs =
    from === undefined ? shifted(lastMs, 1 - PERIODS_DEFAULT, interval) : dateMs('from', from)
  if (fromMs > toMs) throw new UsageError('--from is later than --to.')
  const starts: string[] = []
  for (let ms = startOf(fromMs, interval, isMonday); ms <= lastMs; ms = shifted(ms, 1, interval)) {
    starts.push(isoDate(ms))
  }
  return { interval, from: isoDate(fromMs), to: isoDate(toMs), starts }
}

/** Returns the range as parameters of the routes. */
export function datesOf({ from, to }: QueryRange): Readonly<Record<string, string>> {
  return { date_from: from, date_to: to }
}

function intervalOf(text: string): QueryInterval {
  const interval = INTERVALS.find((candidate) => candidate === text)
  if (interval === undefined) throw new UsageError('--interval must be day, week or month.')
  return interval
}

function dateMs(name: string, text: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(ms)) throw new UsageError(`--${name} must be a date such as 2024-05-01.`)
  return ms
}

function startOf(ms: number, interval: QueryInterval, isMonday: boolean): number {
  const date = new Date(ms)
  if (interval === 'month') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
  if (interval === 'day') return ms
  return ms - ((date.getUTCDay() + (isMonday ? 6 : 0)) % 7) * DAY_MS
}

function shifted(ms: number, count: number, interval: QueryInterval): number {
  if (interval !== 'month') return ms + count * DAY_MS * (interval === 'week' ? 7 : 1)
  const date = new Date(ms)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + count, 1)
}

function isoDate(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
