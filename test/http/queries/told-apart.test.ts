/**
 * Answers as tables, in CSV and on shared pages: days are those of the time zone of the project, series and values have
 * distinguishable names, and no number is missing.
 *
 * @lane quick
 */
import t from 'tap'
import { type DecisionDaemon, PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import { parseCsv } from '../../fixtures/persons/persons-port.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const E = { kind: 'EventsNode', event: 'e' }
const DAYS = { date_from: '2024-05-01', date_to: '2024-05-02' }
const RETENTION = {
  kind: 'RetentionQuery',
  dateRange: DAYS,
  retentionFilter: {
    targetEntity: { id: 'e', type: 'events' },
    returningEntity: { id: 'e', type: 'events' },
    totalIntervals: 2,
  },
}
const SERIES = [
  { ...E, custom_name: 'First' },
  { ...E, custom_name: 'Second', math: 'dau' },
]

async function startIn(timezone: string): Promise<DecisionDaemon> {
  const daemon = await shareDecisions()
  const changed = await daemon.ask(`/api/projects/${daemon.idOf()}/`, {
    method: 'PATCH',
    headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    json: { timezone },
  })
  if (changed.status !== 200) throw new Error(JSON.stringify(changed.body))
  // Noon of the days in the project's time zone, and one day before them.
  const events = [
    ['a', '2024-04-30', 'pro'],
    ['a', '2024-05-01', 'pro'],
    ['b', '2024-05-01', 'free'],
    ['b', '2024-05-01', 'free'],
    ['a', '2024-05-02', 'pro'],
    ['c', '2024-05-02', undefined],
  ] as const
  await daemon.capture(
    events.map(([distinct_id, day, plan]) => ({
      event: 'e',
      distinct_id,
      properties: { plan },
      timestamp: `${day}T07:00:00Z`,
    })),
  )
  return daemon
}

async function csvOf(daemon: DecisionDaemon, query: Json): Promise<readonly (readonly string[])[]> {
  const answer = await fetch(`${daemon.url}${daemon.path(1, 'query/?format=csv')}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query }),
  })
  return parseCsv(await answer.text())
}

/** Returns the tables of the shared page of an insight with this query: a list of cells for each row. */
async function sharedOf(daemon: DecisionDaemon, query: Json) {
  const insight = await daemon.api('POST', 'insights/', 1, { name: 'Shared', query })
  const path = `insights/${String(insight.body['id'])}/sharing/`
  const { body } = await daemon.api('PATCH', path, 1, { enabled: true })
  const page = await fetch(`${daemon.url}/shared/${String(body['access_token'])}`)
  const html = await page.text()
  return [...html.matchAll(/<tr>(.*?)<\/tr>/g)].map(([, row = '']) =>
    [...row.matchAll(/<t[dh]>(.*?)<\/t[dh]>/g)].map(([, cell = '']) => cell),
  )
}

t.test('retention tables use the days of the project', async (t) => {
  for (const timezone of ['Asia/Kolkata', 'America/Los_Angeles', 'Pacific/Auckland']) {
    const daemon = await startIn(timezone)
    // In Los Angeles it is seven hours earlier and still the same day.
    const [head, ...rows] = await csvOf(daemon, RETENTION)
    t.strictSame(head, ['Day 0', 'Day 1', 'breakdown_value', 'date'], timezone)
    const expected = [
      ['2', '1', '', '2024-05-01'],
      ['2', '0', '', '2024-05-02'],
    ]
    t.strictSame(rows, expected, timezone)
    const shared = await sharedOf(daemon, RETENTION)
    t.strictSame(
      shared,
      [
        ['date', 'Day 0', 'Day 1'],
        ['2024-05-01', '2', '1'],
        ['2024-05-02', '2', '0'],
      ],
      timezone,
    )
  }
})

t.test('retention uses the hours and weeks of the project', async (t) => {
  const daemon = await startIn('Asia/Kolkata')
  const { retentionFilter } = RETENTION
  const dates = async (period: string, dateRange: Json) => {
    const query = { ...RETENTION, dateRange, retentionFilter: { ...retentionFilter, period } }
    const [head = [], ...rows] = await csvOf(daemon, query)
    return rows.map((row) => row[head.indexOf('date')])
  }
  const hours = { date_from: '2024-05-01T12:00:00', date_to: '2024-05-01T13:00:00' }
  t.strictSame(await dates('Hour', hours), ['2024-05-01 12:00:00', '2024-05-01 13:00:00'])
  t.strictSame(await dates('Week', DAYS), ['2024-04-28'])
  t.strictSame(await dates('Month', DAYS), ['2024-05-01'])
})

t.test(
  'an hour that clocks show twice has two names in tables of retention and trends',
  async (t) => {
    const daemon = await startIn('Europe/Berlin')
    const { retentionFilter } = RETENTION
    await daemon.capture(
      ['pro', 'free'].map((plan) => ({
        event: 'e',
        distinct_id: plan,
        properties: { plan },
        timestamp: '2024-10-27T00:30:00Z',
      })),
    )
    const query = {
      ...RETENTION,
      dateRange: { date_from: '2024-10-27T01:00:00', date_to: '2024-10-27T03:00:00' },
      retentionFilter: { ...retentionFilter, period: 'Hour' },
      breakdownFilter: { breakdown: 'plan' },
    }
    const [head = [], ...rows] = await csvOf(daemon, query)
    t.equal(rows.length, 8, 'four hours for each of two values')
    const dates = new Set(rows.map((row) => row[head.indexOf('date')]))
    const expected = [
      '2024-10-27 01:00:00',
      '2024-10-27 02:00:00+02:00',
      '2024-10-27 02:00:00+01:00',
      '2024-10-27 03:00:00',
    ]
    t.strictSame([...dates], expected)
    const trends = {
      kind: 'TrendsQuery',
      series: [E],
      interval: 'hour',
      dateRange: query.dateRange,
    }
    const [trendsHead = [], ...trendsRows] = await csvOf(daemon, trends)
    const days = trendsRows.map((row) => row[trendsHead.indexOf('day')])
    t.strictSame(days, expected)
  },
)

t.test('a filter on dates that ends with End uses the end of the day', async (t) => {
  const daemon = await startIn('UTC')
  const moments = [0, 1, 2].map((days) => {
    const noon = new Date(Date.now() - days * 86_400_000).toISOString()
    return { event: 'f', distinct_id: `d${days}`, properties: { at: `${noon.slice(0, 10)}T12:00` } }
  })
  await daemon.capture(moments)
  const count = async (operator: string, value: string) => {
    const properties = [{ type: 'event', key: 'at', operator, value }]
    const query = {
      kind: 'TrendsQuery',
      dateRange: { date_from: '-7d' },
      series: [{ kind: 'EventsNode', event: 'f' }],
      trendsFilter: { display: 'BoldNumber' },
      properties,
    }
    const [head = [], row = []] = await csvOf(daemon, query)
    return row[head.indexOf('aggregated_value')]
  }
  t.equal(await count('is_date_before', '-1dEnd'), '2')
  t.equal(await count('is_date_before', '-1dStart'), '1')
  t.equal(await count('is_date_after', '-1dEnd'), '1')
})

t.test('lines of CSV name their series', async (t) => {
  const daemon = await startIn('UTC')
  const trends = { kind: 'TrendsQuery', dateRange: DAYS }
  t.strictSame(await csvOf(daemon, { ...trends, series: SERIES }), [
    ['custom_name', 'day', 'label', 'math', 'series', 'value'],
    ['First', '2024-05-01', 'e', 'total', 'A', '3'],
    ['First', '2024-05-02', 'e', 'total', 'A', '2'],
    ['Second', '2024-05-01', 'e', 'dau', 'B', '2'],
    ['Second', '2024-05-02', 'e', 'dau', 'B', '2'],
  ])
  t.strictSame(await csvOf(daemon, { ...trends, series: [E] }), [
    ['day', 'label', 'value'],
    ['2024-05-01', 'e', '3'],
    ['2024-05-02', 'e', '2'],
  ])
  const totals = { ...trends, series: [E, E], trendsFilter: { display: 'BoldNumber' } }
  const [head = [], ...rows] = await csvOf(daemon, totals)
  t.strictSame(
    rows.map((row) => row[head.indexOf('series')]),
    ['A', 'B'],
    'one number for each series',
  )
  const sticky = { ...trends, kind: 'StickinessQuery', series: [E, E] }
  const [stickyHead = [], ...stickyRows] = await csvOf(daemon, sticky)
  t.strictSame(
    stickyRows.map((row) => row[stickyHead.indexOf('series')]),
    ['A', 'A', 'B', 'B'],
    'stickiness',
  )
})

t.test('shared pages show the figures of web analytics and the events of sessions', async (t) => {
  const daemon = await startIn('UTC')
  const $session_id = '018f4c51-1111-7000-8000-000000000001'
  const sent = ['2024-05-01T08:00:00Z', '2024-05-02T08:00:00Z'].map((timestamp) => ({
    event: '$pageview',
    distinct_id: 'a',
    timestamp,
    properties: { $session_id },
  }))
  await daemon.capture(sent)
  const web = { dateRange: DAYS, properties: [], compareFilter: { compare: true } }
  const trends = { ...web, kind: 'WebTrendsQuery', metrics: ['PageViews', 'Sessions'] }
  t.strictSame(await sharedOf(daemon, trends), [
    [
      'bucket',
      'PageViews',
      'Sessions',
      'previous_bucket',
      'previous_PageViews',
      'previous_Sessions',
    ],
    ['2024-05-01', '2', '1', '2024-04-29', '0', '0'],
    ['2024-05-02', '0', '0', '2024-04-30', '0', '0'],
  ])
  const timeline = {
    kind: 'SessionsTimelineQuery',
    after: '2024-05-01T07:30:00Z',
    before: '2024-05-01T09:00:00Z',
  }
  t.strictSame(await sharedOf(daemon, timeline), [
    ['session', 'timestamp', 'event'],
    [$session_id, '2024-05-01T08:00:00.000Z', '$pageview'],
  ])
})

t.test('shared pages show every number with its series', async (t) => {
  const daemon = await startIn('Asia/Kolkata')
  const trends = { kind: 'TrendsQuery', dateRange: DAYS, series: [E] }
  const breakdownFilter = { breakdown: 'plan' }
  const shown = (query: Json) => sharedOf(daemon, query)

  t.strictSame(await shown({ ...trends, series: SERIES }), [
    ['day', 'First', 'Second'],
    ['2024-05-01', '3', '2'],
    ['2024-05-02', '2', '2'],
  ])
  t.strictSame(await shown({ ...trends, series: [E, { ...E, math: 'dau' }] }), [
    ['day', 'e (total)', 'e (dau)'],
    ['2024-05-01', '3', '2'],
    ['2024-05-02', '2', '2'],
  ])
  t.strictSame(await shown({ ...trends, compareFilter: { compare: true } }), [
    ['day', 'e', 'day (before)', 'e (before)'],
    ['2024-05-01', '3', '2024-04-29', '0'],
    ['2024-05-02', '2', '2024-04-30', '1'],
  ])
  t.strictSame(
    await shown({ ...trends, breakdownFilter: { ...breakdownFilter, breakdown_limit: 1 } }),
    [
      ['day', 'free', '(others)'],
      ['2024-05-01', '2', '1'],
      ['2024-05-02', '0', '2'],
    ],
  )
  t.strictSame(await shown({ ...trends, breakdownFilter }), [
    ['day', 'free', 'pro', '(none)'],
    ['2024-05-01', '2', '1', '0'],
    ['2024-05-02', '0', '1', '1'],
  ])
  t.strictSame(await shown({ ...trends, trendsFilter: { display: 'BoldNumber' } }), [
    ['series', 'value'],
    ['e', '5'],
  ])
  const table = { ...trends, breakdownFilter, trendsFilter: { display: 'ActionsTable' } }
  t.strictSame(await shown({ ...table, compareFilter: { compare: true } }), [
    ['series', 'value'],
    ['free', '2'],
    ['pro', '2'],
    ['(none)', '1'],
    ['pro (before)', '1'],
  ])
  t.strictSame(await shown({ ...trends, series: SERIES, trendsFilter: { formula: 'A/B' } }), [
    ['day', 'Formula (A/B)'],
    ['2024-05-01', '1.5'],
    ['2024-05-02', '1'],
  ])
  const funnel = {
    kind: 'FunnelsQuery',
    dateRange: DAYS,
    series: SERIES.map(({ custom_name }) => ({ ...E, custom_name })),
  }
  const steps = (await shown({ ...funnel, breakdownFilter })).map((row) => row.slice(0, 3))
  t.strictSame(steps, [
    ['breakdown', 'name', 'count'],
    ['free', 'First', '1'],
    ['free', 'Second', '1'],
    ['pro', 'First', '1'],
    ['pro', 'Second', '1'],
    ['(none)', 'First', '1'],
    ['(none)', 'Second', '0'],
  ])
  const times = await shown({ ...funnel, funnelsFilter: { funnelVizType: 'time_to_convert' } })
  t.strictSame(times[0], ['seconds', 'count'])
  t.strictSame(times.at(-1), ['average: 43200', ''], 'one a day later, one at once')
  const split = await shown({ ...RETENTION, breakdownFilter })
  t.strictSame(split, [
    ['date', 'breakdown', 'Day 0', 'Day 1'],
    ['2024-05-01', 'pro', '1', '1'],
    ['2024-05-02', 'pro', '1', '0'],
    ['2024-05-01', '(none)', '0', '0'],
    ['2024-05-02', '(none)', '1', '0'],
    ['2024-05-01', 'free', '1', '0'],
    ['2024-05-02', 'free', '0', '0'],
  ])
  const lifecycle = await shown({ ...trends, kind: 'LifecycleQuery' })
  t.strictSame(lifecycle[0], ['day', 'new', 'returning', 'resurrecting', 'dormant'])
  const sticky = await shown({ ...trends, kind: 'StickinessQuery' })
  t.strictSame(sticky, [
    ['day', 'e'],
    ['1 day', '2'],
    ['2 days', '1'],
  ])
})
