/**
 * Tests date ranges around changes of the clock, and ranges that begin with an event of long ago.
 *
 * @lane quick
 */
import t from 'tap'
import { dateRange, type RangeRequest } from '../../../src/rules/analytics/date-range.ts'
import { PERIODS_MAX } from '../../../src/rules/analytics/limits.ts'
import { periodStart, shiftedPeriodStart } from '../../../src/rules/analytics/periods.ts'

const BERLIN: RangeRequest = {
  dateFrom: null,
  dateTo: null,
  interval: 'hour',
  timezone: 'Europe/Berlin',
  // 02:30 of that night, the second time the clock shows it.
  nowMs: Date.parse('2024-10-27T01:30:00Z'),
  firstEventMs: null,
}

function texts(changes: Partial<RangeRequest>): readonly string[] {
  const rules = { isWidened: true, isRounded: false }
  const { fromMs, toMs } = dateRange({ ...BERLIN, ...changes }, rules)
  return [fromMs, toMs].map((timeMs) => new Date(timeMs).toISOString())
}

t.test('a range of hours counts elapsed hours', async (t) => {
  t.strictSame(texts({ dateFrom: '-1h', dateTo: '-0h' }), [
    '2024-10-27T00:00:00.000Z',
    '2024-10-27T01:59:59.999Z',
  ])
  const nowMs = Date.parse('2024-10-27T22:40:00Z')
  t.equal(texts({ nowMs, dateFrom: '-21h' })[0], '2024-10-27T01:00:00.000Z')
})

t.test('the current hour is the right one of the two equal hours', async (t) => {
  t.equal(texts({})[1], '2024-10-27T01:59:59.999Z')
  const nowMs = Date.parse('2024-10-27T00:30:00Z')
  t.equal(texts({ nowMs })[1], '2024-10-27T00:59:59.999Z')
})

t.test('a time with an offset is exact', async (t) => {
  t.strictSame(texts({ dateFrom: '2024-10-27T02:15:00+01:00', dateTo: '2024-10-27T01:45:00Z' }), [
    '2024-10-27T01:15:00.000Z',
    '2024-10-27T01:45:00.000Z',
  ])
})

t.test('explicit ends are exact times', async (t) => {
  const ends = { dateFrom: '2024-10-26T10:15', dateTo: '2024-10-26T10:15', isExplicit: true }
  const moment = '2024-10-26T08:15:00.000Z'
  t.strictSame(texts({ ...ends, interval: 'month' }), [moment, moment])
  const range = { ...BERLIN, ...ends, interval: 'month', dateTo: '2024-10-27' } as const
  const { fromMs, toMs } = dateRange(range)
  t.equal(new Date(fromMs).toISOString(), moment, 'the start is not the start of the month')
  t.equal(
    new Date(toMs).toISOString(),
    '2024-10-26T22:00:00.000Z',
    'the end is not the end of the day',
  )
})

t.test('equal ends are one hour, also at a midnight that occurs twice', async (t) => {
  const nowMs = Date.parse('2024-11-03T18:00:00Z')
  const date = { dateFrom: '2024-11-03', dateTo: '2024-11-03' }
  t.strictSame(texts({ ...date, timezone: 'America/Havana', nowMs }), [
    '2024-11-03T04:00:00.000Z',
    '2024-11-03T05:00:00.000Z',
  ])
})

t.test(
  'days before a range begin at midnight, even if clocks skip the midnight of its start',
  async (t) => {
    const day = '2024-09-08'
    const request = { ...BERLIN, interval: 'day', dateFrom: day, dateTo: day } as const
    const rules = { isWidened: true, isRounded: true, daysBefore: 6 }
    const { fromMs } = dateRange({ ...request, timezone: 'America/Santiago' }, rules)
    t.equal(new Date(fromMs).toISOString(), '2024-09-02T04:00:00.000Z')
  },
)

t.test('all has no more periods than a query may have', async (t) => {
  const firstEventMs = Date.parse('0001-06-01T00:00:00Z')
  const [from = '', to = ''] = texts({ dateFrom: 'all', firstEventMs })
  const hours = (Date.parse(to) - Date.parse(from)) / 3_600_000
  t.ok(hours < PERIODS_MAX && hours > PERIODS_MAX - 10, `${hours} hours`)
})

t.test('an hour with a skipped first half begins after the skip', async (t) => {
  const rules = {
    interval: 'hour',
    timezone: 'Australia/Lord_Howe',
    weekStart: 'sunday',
  } as const
  // At 02:00 the clock was set to 02:30.
  const startMs = periodStart(Date.parse('2024-10-05T15:45:00Z'), rules)
  t.equal(new Date(startMs).toISOString(), '2024-10-05T15:30:00.000Z')
  const nextMs = shiftedPeriodStart(startMs, 1, rules)
  t.equal(new Date(nextMs).toISOString(), '2024-10-05T16:00:00.000Z')
  t.equal(shiftedPeriodStart(nextMs, -1, rules), startMs)
  const beforeMs = shiftedPeriodStart(startMs, -1, rules)
  t.equal(new Date(beforeMs).toISOString(), '2024-10-05T14:30:00.000Z')
  t.equal(shiftedPeriodStart(beforeMs, 1, rules), startMs)
})
