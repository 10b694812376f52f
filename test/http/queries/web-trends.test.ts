/**
 * Figures of a site over time: they add up to the figures of the whole range, also over a change of the clocks.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { type Json, type QueryCase, QueryCases } from '../../fixtures/queries/query-cases.ts'

const HOUR_MS = 3_600_000
const NOW = '2024-11-02T14:20:00Z'
/** A visit begins every five hours, for five weeks. In Berlin the clocks go back on 27 October. */
const STARTS = Array.from(
  { length: 170 },
  (_, index) => Date.parse(NOW) - (index + 1) * 5 * HOUR_MS,
)
const view = (index: number, startMs: number, minute: number) => ({
  event: minute === 1 ? '$screen' : '$pageview',
  distinct_id: `visitor-${index % 9}`,
  timestamp: new Date(startMs + minute * 60_000).toISOString(),
  properties: { $session_id: `018e1b5c-0800-7b85-8000-${String(index).padStart(12, '0')}` },
})
const CASE: QueryCase = {
  id: 'trends',
  title: '',
  now: NOW,
  requires: ['clock'],
  project: { timezone: 'Europe/Berlin' },
  request: {},
  expect: {},
  events: [
    ...STARTS.flatMap((startMs, index) =>
      // Some visits are bounces, and some last over midnight.
      [0, 1, 200].slice(0, 1 + (index % 3)).map((minute) => view(index, startMs, minute)),
    ),
    // Without a session a view is in neither answer.
    { ...view(1, Date.parse(NOW) - HOUR_MS, 0), properties: {} },
  ],
}
const RANGES: Readonly<Record<string, Json>> = {
  today: { date_from: 'dStart' },
  'today so far': { date_from: 'dStart', date_to: '2024-11-02T15:59:59.999', explicitDate: true },
  yesterday: { date_from: '-1dStart', date_to: '-1dEnd' },
  '24 hours': { date_from: '-23h' },
  '2 days': { date_from: '2024-10-30', date_to: '2024-10-31' },
  '3 days': { date_from: '-2d' },
  '7 days': { date_from: '-6d' },
  '31 days': { date_from: '-30d' },
  'a month with a change of the clocks': { date_from: '-1mStart', date_to: '-1mEnd' },
  'the day of the change': { date_from: '2024-10-27', date_to: '2024-10-27' },
}
const METRICS = ['PageViews', 'Sessions', 'SessionDuration', 'Bounces'] as const

interface Item {
  readonly bucket: string
  readonly metrics: Readonly<Record<string, number>>
  readonly previous?: Item | null
}

t.test('the figures of all periods add up to the overview', async (t) => {
  const cases = await QueryCases.start(t, [CASE])
  const ask = (query: Json) => cases.ask(0, CASE, 'POST', 'query/', { query })
  for (const [name, dateRange] of Object.entries(RANGES)) {
    const shared = { dateRange, compareFilter: { compare: true }, properties: [] }
    const overview = await ask({ kind: 'WebOverviewQuery', ...shared })
    const [, views, sessions, seconds, bounces] = overview.body['results'] as {
      value: number
      previous: number
    }[]
    const counted = Number(sessions?.value)
    t.ok(counted > 0, `${name} has sessions`)
    for (const interval of ['hour', 'day', 'week']) {
      const trends = { kind: 'WebTrendsQuery', metrics: METRICS, interval, ...shared }
      const items = (await ask(trends)).body['results'] as readonly Item[]
      const sums = METRICS.map((metric) =>
        items.reduce((sum, { metrics }) => sum + (metrics[metric] ?? 0), 0),
      )
      const expected = [
        views?.value,
        counted,
        Math.round(Number(seconds?.value) * counted),
        Math.round((Number(bounces?.value) / 100) * counted),
      ]
      t.strictSame(sums, expected, `${name} by ${interval}`)
      if (interval !== 'day') continue
      const before = items.reduce((sum, one) => sum + (one.previous?.metrics['PageViews'] ?? 0), 0)
      t.equal(before, views?.previous, `${name}: the period before`)
    }
  }

  const day = { date_from: '2024-10-27', date_to: '2024-10-27' }
  const hours = await ask({ kind: 'WebTrendsQuery', interval: 'hour', dateRange: day })
  const items = hours.body['results'] as readonly Item[]
  t.equal(items.length, 25, 'a day on which the clocks go back has 25 hours')
  t.strictSame(Object.keys(items[0]?.metrics ?? {}), ['UniqueUsers'], 'visitors are the default')

  const refused = (more: Json) => ask({ kind: 'WebTrendsQuery', ...more })
  t.match(await refused({ metrics: ['Luck'] }), { status: 400, body: { attr: 'metrics' } })
  t.match(await refused({ interval: 'year' }), { status: 400, body: { attr: 'interval' } })
  const century = { date_from: '1900-01-01', date_to: '2000-01-01' }
  t.match(await refused({ interval: 'hour', dateRange: century }), {
    status: 400,
    body: { code: 'query_too_large', attr: 'interval' },
  })
  const withoutGoal = { metrics: ['TotalConversions'] }
  t.match(await refused(withoutGoal), { status: 400, body: { attr: 'metrics' } })

  const table = { kind: 'WebTrendsQuery', dateRange: day, compareFilter: { compare: true } }
  const answer = await fetch(`${cases.daemon.url}${cases.daemon.path(2, 'query/?format=csv')}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query: table }),
  })
  const [head] = (await answer.text()).split('\r\n')
  t.equal(head, 'UniqueUsers,bucket,previous_UniqueUsers,previous_bucket')
})
