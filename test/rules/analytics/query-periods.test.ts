/**
 * Tests calendar periods in time zones, both those from a table and those computed one by one.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import {
  type Interval,
  type PeriodRules,
  Periods,
  periodStart,
  shiftedPeriodStart,
} from '../../../src/rules/analytics/periods.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const HOUR_MS = 3_600_000

function rulesOf(
  interval: Interval,
  timezone = 'UTC',
  weekStart: PeriodRules['weekStart'] = 'sunday',
): PeriodRules {
  return { interval, timezone, weekStart }
}

function startOf(at: string, rules: PeriodRules): string {
  return new Date(periodStart(Date.parse(at), rules)).toISOString()
}

t.test('every time has the right start of its period', async (t) => {
  const cases: readonly (readonly [at: string, rules: PeriodRules, start: string])[] = [
    ['2023-01-04T10:20:30.400Z', rulesOf('hour'), '2023-01-04T10:00:00.000Z'],
    ['2023-01-04T10:20:30Z', rulesOf('day'), '2023-01-04T00:00:00.000Z'],
    ['2023-01-04T10:20:30Z', rulesOf('week'), '2023-01-01T00:00:00.000Z'],
    ['2023-01-04T10:20:30Z', rulesOf('week', 'UTC', 'monday'), '2023-01-02T00:00:00.000Z'],
    ['2023-01-01T00:00:00Z', rulesOf('week'), '2023-01-01T00:00:00.000Z'],
    ['2023-01-01T23:00:00Z', rulesOf('week', 'UTC', 'monday'), '2022-12-26T00:00:00.000Z'],
    ['2024-02-29T23:59:59.999Z', rulesOf('month'), '2024-02-01T00:00:00.000Z'],
    ['2023-03-01T03:00:00Z', rulesOf('month', 'America/New_York'), '2023-02-01T05:00:00.000Z'],
    ['2023-01-04T10:20:00Z', rulesOf('hour', 'Asia/Kolkata'), '2023-01-04T09:30:00.000Z'],
    ['2023-01-04T10:20:00Z', rulesOf('hour', 'Asia/Kathmandu'), '2023-01-04T10:15:00.000Z'],
    // The clock shows the hour from one to two twice.
    ['2023-11-05T05:30:00Z', rulesOf('hour', 'America/New_York'), '2023-11-05T05:00:00.000Z'],
    ['2023-11-05T06:30:00Z', rulesOf('hour', 'America/New_York'), '2023-11-05T06:00:00.000Z'],
    // The clock is set back by half an hour at two.
    ['2023-04-01T15:10:00Z', rulesOf('hour', 'Australia/Lord_Howe'), '2023-04-01T14:00:00.000Z'],
    ['2023-04-01T15:30:00Z', rulesOf('hour', 'Australia/Lord_Howe'), '2023-04-01T15:30:00.000Z'],
    // The clock is set forward by half an hour at two, so the hour from two to three begins at half past.
    ['2024-10-05T15:29:59Z', rulesOf('hour', 'Australia/Lord_Howe'), '2024-10-05T14:30:00.000Z'],
    ['2024-10-05T15:30:00Z', rulesOf('hour', 'Australia/Lord_Howe'), '2024-10-05T15:30:00.000Z'],
    ['2024-10-05T15:59:59Z', rulesOf('hour', 'Australia/Lord_Howe'), '2024-10-05T15:30:00.000Z'],
    ['2024-10-05T16:10:00Z', rulesOf('hour', 'Australia/Lord_Howe'), '2024-10-05T16:00:00.000Z'],
    // Midnight does not exist, so the day begins at one.
    ['2023-09-03T12:00:00Z', rulesOf('day', 'America/Santiago'), '2023-09-03T04:00:00.000Z'],
    ['1969-12-31T23:30:00Z', rulesOf('hour'), '1969-12-31T23:00:00.000Z'],
  ]
  for (const [at, rules, start] of cases) {
    t.equal(startOf(at, rules), start, `${at} ${rules.interval} ${rules.timezone}`)
  }
})

t.test('days of clock changes have the right number of hours', async (t) => {
  const hoursOf = (day: string, timezone: string): number => {
    const fromMs = periodStart(Date.parse(day), rulesOf('day', timezone))
    const toMs = shiftedPeriodStart(fromMs, 1, rulesOf('day', timezone))
    t.equal(Periods.covering(fromMs, toMs - 1, rulesOf('day', timezone)).count, 1)
    const hours = Periods.covering(fromMs, toMs - 1, rulesOf('hour', timezone))
    t.equal(hours.startMs(0), fromMs)
    t.equal(hours.startMs(hours.count), toMs)
    return hours.count
  }
  t.equal(hoursOf('2023-03-12T12:00:00Z', 'America/Los_Angeles'), 23)
  t.equal(hoursOf('2023-11-05T12:00:00Z', 'America/Los_Angeles'), 25)
  t.equal(hoursOf('2023-03-26T12:00:00Z', 'Europe/Berlin'), 23)
  t.equal(hoursOf('2023-10-29T12:00:00Z', 'Europe/Berlin'), 25)
  t.equal(hoursOf('2023-10-30T12:00:00Z', 'Europe/Berlin'), 24)
  t.equal(
    hoursOf('2023-04-01T13:00:00Z', 'Australia/Lord_Howe'),
    24,
    '24.5 hours, two of them count as one',
  )
  t.equal(
    hoursOf('2024-10-05T20:00:00Z', 'Australia/Lord_Howe'),
    24,
    '23.5 hours, one of them is short',
  )
})

t.test('periods before and after a time', async (t) => {
  const shifted = (at: string, count: number, rules: PeriodRules): string =>
    new Date(shiftedPeriodStart(Date.parse(at), count, rules)).toISOString()
  t.equal(shifted('2023-01-01T00:00:00Z', -1, rulesOf('month')), '2022-12-01T00:00:00.000Z')
  t.equal(shifted('2023-01-01T00:00:00Z', 14, rulesOf('month')), '2024-03-01T00:00:00.000Z')
  t.equal(shifted('2023-01-01T00:00:00Z', 2, rulesOf('week')), '2023-01-15T00:00:00.000Z')
  const berlin = rulesOf('day', 'Europe/Berlin')
  t.equal(shifted('2023-03-25T23:00:00Z', 1, berlin), '2023-03-26T22:00:00.000Z')
  t.equal(shifted('2023-03-26T22:00:00Z', -1, berlin), '2023-03-25T23:00:00.000Z')
  const hours = rulesOf('hour', 'America/New_York')
  t.equal(shifted('2023-11-05T05:00:00Z', 1, hours), '2023-11-05T06:00:00.000Z')
  t.equal(shifted('2023-11-05T06:00:00Z', -2, hours), '2023-11-05T04:00:00.000Z')
})

t.test('the table agrees with the single lookup', async () => {
  const zones = [
    'UTC',
    'America/New_York',
    'Europe/Berlin',
    'Asia/Kathmandu',
    'Australia/Lord_Howe',
  ]
  const rules = fc.record({
    interval: fc.constantFrom<Interval>('hour', 'day', 'week', 'month'),
    timezone: fc.constantFrom(...zones, 'Pacific/Apia', 'America/Santiago', 'America/Havana'),
    weekStart: fc.constantFrom<PeriodRules['weekStart']>('sunday', 'monday'),
  })
  // Around the clock changes of a year, and the day that Samoa skipped.
  const base = fc.constantFrom(
    Date.parse('2011-12-30T12:00:00Z'),
    Date.parse('2023-03-20T00:00:00Z'),
    Date.parse('2023-10-29T00:00:00Z'),
    Date.parse('2023-04-01T00:00:00Z'),
    Date.parse('2024-09-25T00:00:00Z'),
    Date.parse('1960-01-01T00:00:00Z'),
  )
  const offset = fc.integer({ min: 0, max: 20 * 24 * HOUR_MS })
  fc.assert(
    fc.property(rules, base, offset, offset, offset, (rule, baseMs, a, b, c) => {
      const [first = 0, middle = 0, last = 0] = [a, b, c].sort((x, y) => x - y)
      const periods = Periods.covering(baseMs + first, baseMs + last, rule)
      const index = periods.indexOf(baseMs + middle)
      const startMs = periodStart(baseMs + middle, rule)
      return (
        index >= 0 &&
        periods.startMs(index) === startMs &&
        periods.startMs(index + 1) > baseMs + middle &&
        periods.indexOf(periods.startMs(0)) === 0 &&
        periods.indexOf(periods.startMs(0) - 1) === -1 &&
        periods.indexOf(periods.startMs(periods.count)) === -1
      )
    }),
    runsOf(400),
  )
})

t.test('too many periods are refused', async (t) => {
  const asked = () =>
    Periods.covering(Date.parse('1990-01-01'), Date.parse('2023-01-01'), rulesOf('hour'))
  t.throws(asked, { code: 'invalid_input', attr: 'interval' })
})
