/**
 * Tests the ranges of queries, their comparison ranges, and their buckets.
 *
 * @lane quick
 */
import t from 'tap'
import {
  bucketCount,
  bucketDays,
  bucketLabels,
  bucketStarts,
  bucketsOf,
} from '../../../src/rules/queries/query-buckets.ts'
import { QueryFields } from '../../../src/rules/queries/query-fields.ts'
import type { QueryContext } from '../../../src/rules/queries/query-kind.ts'
import {
  eventsFromMs,
  type QueryRange,
  readComparedRange,
  readInterval,
  readRange,
  readWholeRange,
} from '../../../src/rules/queries/query-range.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

/** A query at noon on a Thursday, with the given changes. */
interface Sight {
  readonly now?: string
  readonly timezone?: string
  readonly first?: string
}

function contextOf({ now = '2023-06-15T12:00:30Z', timezone = 'UTC', first }: Sight): QueryContext {
  return {
    projectId: 1,
    timezone,
    nowMs: Date.parse(now),
    testAccountFilters: [],
    action: () => null,
    cohortName: () => null,
    firstEventMs: (sinceMs = Number.NEGATIVE_INFINITY) => {
      const firstMs = first === undefined ? Number.NaN : Date.parse(first)
      return firstMs >= sinceMs ? firstMs : null
    },
  }
}

function rangeOf(query: Json, sight: Sight = {}): QueryRange {
  const fields = new QueryFields(query)
  return readRange(fields, readInterval(fields), contextOf(sight))
}

function previousOf(query: Json, sight: Sight = {}): QueryRange {
  const compared = readComparedRange(
    new QueryFields({ compareFilter: { compare: true }, ...query }),
    rangeOf(query, sight),
  )
  if (compared === null) throw new Error('nothing is compared')
  return compared
}

const iso = (timeMs: number): string => new Date(timeMs).toISOString().replace(/\.000Z$/, 'Z')

/** Start, end, and the time from which events count if it is not the start. */
function shown(range: QueryRange): string {
  const fromMs = eventsFromMs(range)
  const events = fromMs === range.fromMs ? '' : ` events ${iso(fromMs)}`
  return `${iso(range.fromMs)} ${iso(range.toMs)}${events}`
}

const dates = (date_from?: string | null, date_to?: string | null, more: Json = {}): Json => ({
  dateRange: { date_from, date_to, ...more },
})
const BEIRUT = { timezone: 'Asia/Beirut' }
const BERLIN = { timezone: 'Europe/Berlin' }
const END = '2023-06-15T23:59:59.999Z'

type Row = readonly [name: string, query: Json, expected: string, sight?: Sight]

const RANGES: readonly Row[] = [
  ['nothing', {}, `2023-06-08T00:00:00Z ${END}`],
  ['nulls', dates(null, null), `2023-06-08T00:00:00Z ${END}`],
  ['days', dates('2023-01-02', '2023-01-03'), '2023-01-02T00:00:00Z 2023-01-03T23:59:59.999Z'],
  [
    'times, by day',
    dates('2023-01-02T10:20:30', '2023-01-03 04:05'),
    '2023-01-02T10:20:30Z 2023-01-03T23:59:59.999Z events 2023-01-02T00:00:00Z',
  ],
  [
    'explicit times',
    dates('2023-01-02T10:20:30.5', '2023-01-03T04:05', { explicitDate: true }),
    '2023-01-02T10:20:30.500Z 2023-01-03T04:05:00Z',
  ],
  [
    'an explicit start alone',
    dates('2023-01-02T10:20:30', null, { explicitDate: true }),
    '2023-01-02T10:20:30Z 2023-06-15T12:00:30Z',
  ],
  [
    'offsets are converted',
    dates('2023-01-02T00:30:00+02:00', '2023-01-02T23:30:00-01:00'),
    '2023-01-01T22:30:00Z 2023-01-03T23:59:59.999Z events 2023-01-01T00:00:00Z',
  ],
  [
    'the wall of a zone',
    dates('2023-01-02', '2023-01-02'),
    '2023-01-01T23:00:00Z 2023-01-02T22:59:59.999Z',
    BERLIN,
  ],
  ['weeks back', dates('-2w'), `2023-06-01T00:00:00Z ${END}`],
  ['without a minus', dates('3d', '1d'), '2023-06-12T00:00:00Z 2023-06-14T23:59:59.999Z'],
  ['quarters of 13 weeks', dates('-1q'), `2023-03-16T00:00:00Z ${END}`],
  [
    'months are clipped',
    dates('-1m'),
    '2023-02-28T00:00:00Z 2023-03-31T23:59:59.999Z',
    { now: '2023-03-31T05:00:00Z' },
  ],
  [
    'a year back from a leap day',
    dates('-1y'),
    '2023-02-28T00:00:00Z 2024-02-29T23:59:59.999Z',
    { now: '2024-02-29T05:00:00Z' },
  ],
  ['hours, by day', dates('-24h'), `2023-06-14T12:00:00Z ${END}`],
  ['minutes, by day', dates('-90M'), `2023-06-15T00:00:00Z ${END}`],
  ['edges', dates('-1mStart', '-1mEnd'), '2023-05-01T00:00:00Z 2023-05-31T23:59:59.999Z'],
  ['edges of now', dates('mStart', 'dEnd'), `2023-06-01T00:00:00Z ${END}`],
  [
    'edges, by hour',
    { ...dates('-1dStart', '-1dEnd'), interval: 'hour' },
    '2023-06-14T00:00:00Z 2023-06-14T23:59:59.999Z',
  ],
  [
    'explicit edges',
    dates('-1mStart', '-1mEnd', { explicitDate: true }),
    '2023-05-01T00:00:00Z 2023-05-31T23:59:59.999Z',
  ],
  ['the year', dates('yStart', 'dStart'), `2023-01-01T00:00:00Z ${END}`],
  [
    'all',
    dates('all'),
    `2023-05-05T05:05:00Z ${END} events 2023-05-05T00:00:00Z`,
    { first: '2023-05-05T05:05:00Z' },
  ],
  [
    'all, when every event is old',
    dates('all', '1990-01-01'),
    '1980-05-05T05:05:00Z 1990-01-01T23:59:59.999Z events 1980-05-05T00:00:00Z',
    { first: '1980-05-05T05:05:00Z' },
  ],
  [
    'all, by minute: as many minutes as fit',
    { ...dates('all'), interval: 'minute' },
    '2023-01-27T14:43:00Z 2023-06-15T12:00:59.999Z',
    { first: '2001-01-01T00:00:00Z' },
  ],
  ['all of nothing', dates('all'), `2023-06-08T00:00:00Z ${END}`],
  ['hours', { ...dates('-3h'), interval: 'hour' }, '2023-06-15T09:00:00Z 2023-06-15T12:59:59.999Z'],
  [
    'hours up to a day',
    { ...dates('-1d', '-1d'), interval: 'hour' },
    '2023-06-14T00:00:00Z 2023-06-14T12:59:59.999Z',
  ],
  [
    'hours of a plain day',
    { ...dates('2020-01-09', '2020-01-09'), interval: 'hour' },
    '2020-01-09T00:00:00Z 2020-01-09T00:00:00Z',
  ],
  [
    'hours of times',
    { ...dates('2020-01-09T05:30:00', '2020-01-09T07:45:00'), interval: 'hour' },
    '2020-01-09T05:30:00Z 2020-01-09T07:45:00Z events 2020-01-09T05:00:00Z',
  ],
  [
    'minutes',
    { ...dates('-5M'), interval: 'minute' },
    '2023-06-15T11:55:30Z 2023-06-15T12:00:59.999Z',
  ],
  [
    'hours back, by minute: only the start is cut',
    { ...dates('-2h', '-1h'), interval: 'minute' },
    '2023-06-15T10:00:00Z 2023-06-15T11:34:59.999Z',
    { now: '2023-06-15T12:34:56Z' },
  ],
  [
    'explicit hours back',
    dates('-2h', '-1h', { explicitDate: true }),
    '2023-06-15T10:00:00Z 2023-06-15T11:34:56Z',
    { now: '2023-06-15T12:34:56Z' },
  ],
  [
    'hours back, by week',
    { ...dates('-30h'), interval: 'week' },
    `2023-06-14T06:00:00Z ${END} events 2023-06-14T00:00:00Z`,
  ],
  [
    'minutes back, by hour',
    { ...dates('-5M'), interval: 'hour' },
    '2023-06-15T00:00:00Z 2023-06-15T12:59:59.999Z',
  ],
  [
    'minutes of times',
    { ...dates('2020-01-09T05:30:20', '2020-01-09T05:31:10'), interval: 'minute' },
    '2020-01-09T05:30:20Z 2020-01-09T05:31:10Z events 2020-01-09T05:30:00Z',
  ],
  [
    'a week keeps its first day',
    { ...dates('2023-01-03', '2023-01-12'), interval: 'week' },
    '2023-01-03T00:00:00Z 2023-01-12T23:59:59.999Z',
  ],
  [
    'a month begins on its first',
    { ...dates('2023-01-15', '2023-03-04'), interval: 'month' },
    '2023-01-15T00:00:00Z 2023-03-04T23:59:59.999Z events 2023-01-01T00:00:00Z',
  ],
  [
    'a day of 25 hours',
    dates('2023-10-29', '2023-10-29'),
    '2023-10-28T22:00:00Z 2023-10-29T22:59:59.999Z',
    BERLIN,
  ],
  [
    '24 hours back by the wall',
    { ...dates('-24h'), interval: 'hour' },
    '2023-10-28T12:00:00Z 2023-10-29T13:59:59.999Z',
    { ...BERLIN, now: '2023-10-29T13:20:00Z' },
  ],
  [
    'the second of two equal hours',
    { ...dates('-0h'), interval: 'hour' },
    '2023-10-29T00:00:00Z 2023-10-29T01:59:59.999Z',
    { ...BERLIN, now: '2023-10-29T01:20:00Z' },
  ],
]

t.test('a range has the ends that its texts name', async (t) => {
  for (const [name, query, expected, sight] of RANGES)
    t.equal(shown(rangeOf(query, sight)), expected, name)
})

t.test(
  'a question that is not asked over time has whole days, whatever its interval is',
  async (t) => {
    for (const interval of ['minute', 'hour', 'day', 'week', 'month']) {
      const query = { ...dates('2023-06-10', '2023-06-12'), interval }
      const range = readWholeRange(new QueryFields(query), contextOf(BERLIN))
      t.equal(new Date(range.toMs).toISOString(), '2023-06-12T21:59:59.999Z', interval)
    }
  },
)

const PREVIOUS: readonly Row[] = [
  ['days', dates('2020-01-15', '2020-01-19'), '2020-01-10T00:00:00Z 2020-01-14T23:59:59.999Z'],
  ['a day', dates('2020-01-15', '2020-01-15'), '2020-01-14T00:00:00Z 2020-01-14T23:59:59.999Z'],
  [
    'a week back, to the same weekdays',
    dates('-7d'),
    '2023-06-01T00:00:00Z 2023-06-08T23:59:59.999Z',
  ],
  ['without a minus', dates('14d'), '2023-05-18T00:00:00Z 2023-06-01T23:59:59.999Z'],
  ['no whole weeks', dates('-6d'), '2023-06-02T00:00:00Z 2023-06-08T23:59:59.999Z'],
  ['up to a date', dates('-7d', '2023-06-14'), '2023-06-02T00:00:00Z 2023-06-08T23:59:59.999Z'],
  ['up to a relative day', dates('-7d', '-1d'), '2023-06-01T00:00:00Z 2023-06-07T23:59:59.999Z'],
  [
    'by week',
    { ...dates('-7d'), interval: 'week' },
    '2023-05-31T00:00:00Z 2023-06-07T23:59:59.999Z',
  ],
  ['no date', {}, '2023-05-31T00:00:00Z 2023-06-07T23:59:59.999Z'],
  [
    'months',
    { ...dates('2023-02-01', '2023-02-28'), interval: 'month' },
    '2023-01-04T00:00:00Z 2023-01-31T23:59:59.999Z events 2023-01-01T00:00:00Z',
  ],
  [
    'hours',
    { ...dates('2020-01-09T05:00:00', '2020-01-09T08:00:00'), interval: 'hour' },
    '2020-01-09T05:00:00Z 2020-01-09T08:00:00Z',
  ],
  ['hours back, by day', dates('-24h'), '2023-06-13T12:00:00Z 2023-06-14T23:59:59.999Z'],
  [
    'minutes end where the range begins',
    { ...dates('2020-01-09T05:30:20', '2020-01-09T05:32:00'), interval: 'minute' },
    '2020-01-09T05:28:40Z 2020-01-09T05:30:20Z events 2020-01-09T05:28:00Z',
  ],
  [
    'minutes an hour before',
    {
      ...dates('2020-01-09T05:30:20', '2020-01-09T05:32:00'),
      interval: 'minute',
      compareFilter: { compare: true, compare_to: '-1h' },
    },
    '2020-01-09T04:30:20Z 2020-01-09T04:32:00Z events 2020-01-09T04:30:00Z',
  ],
  [
    'over a day of 25 hours',
    dates('2023-10-30', '2023-10-31'),
    '2023-10-27T22:00:00Z 2023-10-29T22:59:59.999Z',
    BERLIN,
  ],
  [
    'two days back',
    { ...dates('2020-01-15', '2020-01-19'), compareFilter: { compare: true, compare_to: '-2d' } },
    '2020-01-13T00:00:00Z 2020-01-17T23:59:59.999Z',
  ],
  [
    'a year back',
    { ...dates('2020-02-29', '2020-03-01'), compareFilter: { compare: true, compare_to: '-1y' } },
    '2019-02-28T00:00:00Z 2019-03-01T23:59:59.999Z',
  ],
  [
    'a day without a midnight',
    dates('2024-03-31', '2024-03-31'),
    '2024-03-29T22:00:00Z 2024-03-30T21:59:59.999Z',
    BEIRUT,
  ],
  [
    'days of which the first has no midnight',
    dates('2024-09-08', '2024-09-10'),
    '2024-09-05T04:00:00Z 2024-09-08T03:59:59.999Z',
    { timezone: 'America/Santiago' },
  ],
  [
    'a week back from a day without a midnight, to the same weekdays',
    dates('-7d'),
    '2024-03-23T22:00:00Z 2024-03-31T20:59:59.999Z',
    { ...BEIRUT, now: '2024-04-07T09:00:00Z' },
  ],
  [
    'a week back from a day without a midnight, named',
    {
      ...dates('2024-03-31', '2024-03-31'),
      compareFilter: { compare: true, compare_to: '-1w' },
    },
    '2024-03-23T22:00:00Z 2024-03-24T21:59:59.999Z',
    BEIRUT,
  ],
  [
    'back to a day without a midnight',
    dates('2024-04-01', '2024-04-01'),
    '2024-03-30T22:00:00Z 2024-03-31T20:59:59.999Z',
    BEIRUT,
  ],
  [
    'a week back, named',
    { ...dates('-7d'), compareFilter: { compare: true, compare_to: '-1w' } },
    '2023-06-01T00:00:00Z 2023-06-08T23:59:59.999Z',
  ],
]

t.test('a range is compared with the previous one, or with one a given time earlier', async (t) => {
  for (const [name, query, expected, sight] of PREVIOUS)
    t.equal(shown(previousOf(query, sight)), expected, name)
  t.equal(readComparedRange(new QueryFields({ compareFilter: {} }), rangeOf({})), null)
})

t.test('an invalid range is refused', async (t) => {
  const attr = (query: Json): unknown => {
    try {
      previousOf(query)
    } catch (error) {
      return (error as { readonly attr?: unknown }).attr
    }
    return null
  }
  for (const text of [
    'soon',
    '-3x',
    '2023-02-30',
    '2023-01-01T25:00:00',
    '-99999y',
    '--7d',
    'all ',
  ]) {
    t.equal(attr(dates(text)), 'dateRange.date_from', text)
    t.equal(attr(dates('-7d', text)), 'dateRange.date_to', text)
  }
  t.equal(attr(dates('-7d', 'all')), 'dateRange.date_to')
  t.equal(attr({ interval: 'year' }), 'interval')
  t.equal(
    attr({ compareFilter: { compare: true, compare_to: '2023-01-01' } }),
    'compareFilter.compare_to',
  )
})

function bucketsShown(query: Json, sight: Sight = {}) {
  const range = rangeOf(query, sight)
  const buckets = bucketsOf(range)
  const days = bucketDays(range, buckets)
  t.equal(bucketCount(range, buckets), days.length)
  return { days, labels: bucketLabels(range, buckets), starts: bucketStarts(range, buckets) }
}

const hours = (date_from: string, date_to: string): Json => ({
  ...dates(date_from, date_to),
  interval: 'hour',
})

t.test('buckets have days, labels and starts', async (t) => {
  t.strictSame(bucketsShown(dates('2020-01-09', '2020-01-10'), BERLIN), {
    days: ['2020-01-09', '2020-01-10'],
    labels: ['9-Jan-2020', '10-Jan-2020'],
    starts: ['2020-01-08T23:00:00Z', '2020-01-09T23:00:00Z'],
  })
  t.strictSame(bucketsShown(dates('2020-01-10', '2020-01-09')).days, [])
  t.strictSame(bucketsShown({ ...dates('2023-01-31', '2023-03-01'), interval: 'month' }), {
    days: ['2023-01-01', '2023-02-01', '2023-03-01'],
    labels: ['Jan 2023', 'Feb 2023', 'Mar 2023'],
    starts: ['2023-01-01T00:00:00Z', '2023-02-01T00:00:00Z', '2023-03-01T00:00:00Z'],
  })
  t.strictSame(bucketsShown(hours('2023-03-26T01:00:00', '2023-03-26T03:30:00'), BERLIN), {
    days: ['2023-03-26 01:00:00', '2023-03-26 03:00:00'],
    labels: ['26-Mar 01:00', '26-Mar 03:00'],
    starts: ['2023-03-26T00:00:00Z', '2023-03-26T01:00:00Z'],
  })
  t.strictSame(bucketsShown(hours('2023-10-29T01:00:00', '2023-10-29T03:00:00'), BERLIN), {
    days: [1, 2, 2, 3].map((hour) => `2023-10-29 0${hour}:00:00`),
    labels: [1, 2, 2, 3].map((hour) => `29-Oct 0${hour}:00`),
    starts: [23, 0, 1, 2].map(
      (hour) => `2023-10-${hour === 23 ? 28 : 29}T${String(hour).padStart(2, '0')}:00:00Z`,
    ),
  })
  t.strictSame(
    bucketsShown({ ...dates('2023-01-02T23:59:30', '2023-01-03T00:01:00'), interval: 'minute' })
      .labels,
    ['2-Jan 23:59', '3-Jan 00:00', '3-Jan 00:01'],
  )
})

t.test('weeks begin on Sunday, and their labels are the days within the range', async (t) => {
  const weeks = (from: string, to: string) => {
    const { days, labels } = bucketsShown({ ...dates(from, to), interval: 'week' })
    return days.map((day, index) => `${day} ${labels[index]}`)
  }
  t.strictSame(weeks('2023-01-03', '2023-01-12'), ['2023-01-01 3–7 Jan', '2023-01-08 8–12 Jan'])
  t.strictSame(weeks('2022-12-30', '2023-01-08'), [
    '2022-12-25 30–31 Dec',
    '2023-01-01 1–7 Jan',
    '2023-01-08 8-Jan-2023',
  ])
  t.strictSame(weeks('2023-01-29', '2023-02-04'), ['2023-01-29 29-Jan – 4-Feb'])
  t.strictSame(weeks('2020-12-28', '2021-01-02'), ['2020-12-27 28-Dec-2020 – 2-Jan-2021'])
})
