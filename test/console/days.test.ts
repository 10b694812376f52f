/**
 * The date ranges of the console: which days they contain, how they are sent to the API, and how the user moves them.
 *
 * @lane quick
 */
import t from 'tap'
import {
  bucketText,
  compareFilterOf,
  comparisonOf,
  customDays,
  dayCount,
  daysText,
  intervalOf,
  isOngoingRange,
  movedRange,
  RANGES,
  rangeOf,
} from '../../src/console/base/days.ts'

const TODAY = '2026-11-29'
const daysOf = (value: string, today = TODAY) => {
  const days = rangeOf(value).days(today)
  return days === null ? null : `${days.from}..${days.to}`
}

t.test('a range has as many days as its name says', async (t) => {
  const counts = { today: 1, yesterday: 1, '7d': 7, '28d': 28, '30d': 30, '91d': 91, '90d': 90 }
  for (const [value, count] of Object.entries(counts)) {
    const range = rangeOf(value)
    const days = range.days(TODAY)
    t.equal(days && dayCount(days), count, range.label)
  }
  t.equal(daysOf('7d'), '2026-11-23..2026-11-29')
  t.strictSame(rangeOf('7d').dates, { date_from: '-6d' })
  t.strictSame(rangeOf('24h').dates, { date_from: '-23h' }, '24 hours with the current one')
  t.equal(daysOf('mtd'), '2026-11-01..2026-11-29')
  t.equal(daysOf('lastmonth'), '2026-10-01..2026-10-31')
  t.equal(daysOf('lastmonth', '2026-01-15'), '2025-12-01..2025-12-31')
  t.equal(daysOf('ytd'), '2026-01-01..2026-11-29')
  t.equal(daysOf('12m'), '2025-12-01..2026-11-29')
  t.equal(daysOf('all'), null)
})

t.test('a custom range includes its last day at every interval', async (t) => {
  const day = { date_from: '2026-11-28', date_to: '2026-11-28T23:59:59.999' }
  t.strictSame(rangeOf('2026-11-28..2026-11-28').dates, day)
  t.equal(intervalOf(rangeOf('2026-11-28..2026-11-28'), TODAY), 'hour')
  t.strictSame(customDays('2026-11-28..2026-11-02'), { from: '2026-11-02', to: '2026-11-28' })
  for (const value of ['2026-13-01..2026-12-01', '..', '2026-11-01', '1..2', '0d', 'x', '']) {
    t.equal(customDays(value), null, value)
    t.equal(rangeOf(value).value, '7d', `${value} is the default`)
  }
})

t.test('a chart has at most about 120 points', async (t) => {
  const intervals = RANGES.map((range) => [range.value, intervalOf(range, TODAY)])
  t.strictSame(Object.fromEntries(intervals), {
    today: 'hour',
    yesterday: 'hour',
    '24h': 'hour',
    '7d': 'day',
    '28d': 'day',
    '30d': 'day',
    '91d': 'day',
    mtd: 'day',
    lastmonth: 'day',
    ytd: 'week',
    '12m': 'month',
    all: 'week',
  })
  t.equal(intervalOf(rangeOf('48h'), TODAY), 'hour')
  t.equal(intervalOf(rangeOf('2026-11-26..2026-11-28'), TODAY), 'day')
  t.equal(intervalOf(rangeOf('2020-01-01..2026-11-28'), TODAY), 'month')
})

t.test('the arrows move to the previous and next period', async (t) => {
  const rows: readonly (readonly [value: string, before: string | null, after: string | null])[] = [
    ['today', 'yesterday', null],
    ['yesterday', '2026-11-27..2026-11-27', 'today'],
    ['2026-11-27..2026-11-27', '2026-11-26..2026-11-26', 'yesterday'],
    ['7d', '2026-11-16..2026-11-22', null],
    ['2026-11-16..2026-11-22', '2026-11-09..2026-11-15', '7d'],
    ['24h', 'yesterday', null],
    ['mtd', 'lastmonth', null],
    ['lastmonth', '2026-09-01..2026-09-30', 'mtd'],
    ['2026-03-01..2026-03-31', '2026-02-01..2026-02-28', '2026-04-01..2026-04-30'],
    ['2026-07-01..2026-09-30', '2026-04-01..2026-06-30', '2026-10-01..2026-11-29'],
    ['ytd', '2025-01-01..2025-12-31', null],
    ['2025-01-01..2025-12-31', '2024-01-01..2024-12-31', 'ytd'],
    ['12m', '2024-12-01..2025-11-30', null],
    ['2026-11-20..2026-11-25', '2026-11-14..2026-11-19', '2026-11-26..2026-11-29'],
    ['all', null, null],
  ]
  for (const [value, before, after] of rows) {
    t.equal(movedRange(value, TODAY, -1), before, `before ${value}`)
    t.equal(movedRange(value, TODAY, 1), after, `after ${value}`)
  }
})

t.test('a range is compared with the previous period, or with a year ago', async (t) => {
  const compared = (value: string, text: string | null) =>
    compareFilterOf(rangeOf(value), comparisonOf(text))
  t.equal(compared('7d', null), null)
  t.strictSame(compared('7d', '1'), { compare: true })
  t.strictSame(compared('mtd', '1'), { compare: true, compare_to: '-1m' })
  t.strictSame(compared('ytd', '1'), { compare: true, compare_to: '-12m' })
  t.strictSame(compared('7d', 'year'), { compare: true, compare_to: '-12m' })
  t.equal(compared('all', '1'), null, 'nothing is before all time')
})

t.test('only a range that contains today still grows', async (t) => {
  const ongoing = RANGES.filter((range) => isOngoingRange(range, TODAY)).map(({ value }) => value)
  t.notOk(ongoing.includes('yesterday') || ongoing.includes('lastmonth'))
  t.equal(ongoing.length, RANGES.length - 2)
  t.equal(isOngoingRange(rangeOf('2026-11-01..2026-11-28'), TODAY), false)
  t.equal(isOngoingRange(rangeOf('2026-11-01..2026-12-28'), TODAY), true)
})

t.test('days and buckets have names', async (t) => {
  t.equal(daysText({ from: TODAY, to: TODAY }), '29 Nov 2026')
  t.equal(daysText({ from: '2026-11-23', to: TODAY }), '23–29 Nov 2026')
  t.equal(daysText({ from: '2026-10-29', to: '2026-11-04' }), '29 Oct – 4 Nov 2026')
  t.equal(daysText({ from: '2025-12-01', to: TODAY }), '1 Dec 2025 – 29 Nov 2026')
  t.equal(bucketText('2026-11-06', 'day'), 'Fri 6 Nov')
  t.equal(bucketText('2026-11-06 14:00:00', 'hour'), '6 Nov, 14:00')
  t.equal(bucketText('2026-11-01', 'week'), '1–7 Nov 2026')
  t.equal(bucketText('2026-11-01', 'month'), 'Nov 2026')
})
