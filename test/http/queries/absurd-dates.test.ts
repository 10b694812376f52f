/**
 * Queries over `all` in a project with a few events of absurd dates, compared with a project without them. Every kind
 * of query is answered, and ordinary events have the same counts.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const DAY_MS = 86_400_000
const PLAIN = 1
const SPOILED = 2
const VIEW = { kind: 'EventsNode', event: 'view' }
const BUY = { kind: 'EventsNode', event: 'buy' }
const ALL = { dateRange: { date_from: 'all' } }
const ABSURD = [
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00Z',
  '0001-06-01T00:00:00Z',
  '0999-12-31T23:59:59Z',
  '1970-01-01T00:00:00Z',
  '1999-12-31T23:59:59Z',
]

const QUESTIONS: Readonly<Record<string, Json>> = {
  trends: { kind: 'TrendsQuery', series: [VIEW, BUY] },
  'trends by week': { kind: 'TrendsQuery', series: [VIEW], interval: 'week' },
  'trends by month': { kind: 'TrendsQuery', series: [VIEW], interval: 'month' },
  'trends by hour': { kind: 'TrendsQuery', series: [VIEW], interval: 'hour' },
  'one number': {
    kind: 'TrendsQuery',
    series: [VIEW],
    trendsFilter: { display: 'BoldNumber' },
    interval: 'hour',
  },
  'a table of numbers': {
    kind: 'TrendsQuery',
    series: [VIEW, BUY],
    trendsFilter: { display: 'ActionsTable' },
  },
  'weekly active': { kind: 'TrendsQuery', series: [{ ...VIEW, math: 'weekly_active' }] },
  'trends compared': { kind: 'TrendsQuery', series: [VIEW], compareFilter: { compare: true } },
  stickiness: { kind: 'StickinessQuery', series: [VIEW] },
  lifecycle: { kind: 'LifecycleQuery', series: [VIEW] },
  funnel: { kind: 'FunnelsQuery', series: [VIEW, BUY] },
  'funnel over time': {
    kind: 'FunnelsQuery',
    series: [VIEW, BUY],
    funnelsFilter: { funnelVizType: 'trends' },
  },
  paths: { kind: 'PathsQuery', pathsFilter: { includeEventTypes: ['custom_event'] } },
  retention: {
    kind: 'RetentionQuery',
    retentionFilter: { targetEntity: { id: 'view', type: 'events' }, totalIntervals: 5 },
  },
  'retention by hour': {
    kind: 'RetentionQuery',
    retentionFilter: { targetEntity: { id: 'view', type: 'events' }, period: 'Hour' },
  },
  'web overview': { kind: 'WebOverviewQuery', properties: [] },
  'web pages': { kind: 'WebStatsTableQuery', breakdownBy: 'Page', properties: [] },
}

t.test('a few events of absurd dates do not distort answers over all', async (t) => {
  const daemon = await shareDecisions(2)
  const nowMs = Date.now()
  const at = (daysAgo: number) => new Date(nowMs - daysAgo * DAY_MS).toISOString()
  const ordinary = ['ann', 'bob'].flatMap((distinct_id) =>
    [9, 5, 1].flatMap((daysAgo) => [
      { event: 'view', distinct_id, timestamp: at(daysAgo), properties: {} },
      { event: 'buy', distinct_id, timestamp: at(daysAgo - 0.01), properties: {} },
      { event: '$pageview', distinct_id, timestamp: at(daysAgo), properties: { $pathname: '/a' } },
    ]),
  )
  await daemon.capture(ordinary, PLAIN)
  const absurd = ABSURD.flatMap((timestamp) =>
    ['view', 'buy', '$pageview'].map((event) => {
      const properties = { $ignore_sent_at: true }
      return { event, distinct_id: 'clock', timestamp, properties }
    }),
  )
  await daemon.capture([...absurd, ...ordinary], SPOILED)
  const ask = (query: Json, project: number) =>
    daemon.api('POST', 'query/', project, { query: { ...query, ...ALL } })
  for (const [name, query] of Object.entries(QUESTIONS)) {
    const expected = await ask(query, PLAIN)
    const { status, body } = await ask(query, SPOILED)
    t.equal(status, 200, name)
    t.strictSame(body['results'], expected.body['results'], `${name}: the same numbers`)
  }

  const since = { date_from: '0001-01-01', date_to: '2030-01-01' }
  const askSince = (query: Json) =>
    daemon.api('POST', 'query/', SPOILED, { query: { ...query, dateRange: since } })
  const series = [VIEW]
  const bold = { kind: 'TrendsQuery', series, trendsFilter: { display: 'BoldNumber' } }
  const { status, body } = await askSince(bold)
  t.equal(status, 200, 'a single number has no periods, however long its range is')
  const [item] = body['results'] as readonly Json[]
  t.equal(
    item?.['aggregated_value'],
    6 + ABSURD.length - 1,
    'all events except the one of the year 0',
  )
  const chart = await askSince({ kind: 'TrendsQuery', series })
  t.match(chart, { status: 400, body: { code: 'query_too_large', attr: 'interval' } })
  const retention = await askSince({ kind: 'RetentionQuery' })
  t.match(retention, { status: 400, body: { code: 'invalid_query', attr: 'dateRange' } })
})

t.test('all begins with the first plausible event in every time zone', async (t) => {
  const daemon = await shareDecisions(1)
  const zone = { timezone: 'Asia/Kolkata' }
  const changed = await daemon.ask(`/api/projects/${daemon.idOf()}/`, {
    method: 'PATCH',
    headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    json: zone,
  })
  t.equal(changed.status, 200)
  const properties = { $ignore_sent_at: true }
  const events = [...ABSURD, '2024-05-05T19:00:00Z', '2024-05-06T19:00:00Z'].map((timestamp) => ({
    event: 'view',
    distinct_id: 'clock',
    timestamp,
    properties,
  }))
  await daemon.capture(events)
  for (const interval of ['day', 'week', 'month']) {
    const { body } = await daemon.api('POST', 'query/', 1, {
      query: { kind: 'TrendsQuery', series: [VIEW], interval, ...ALL },
    })
    const [item] = body['results'] as readonly { count: number; days: readonly string[] }[]
    t.equal(item?.count, 2, interval)
    t.match(item?.days[0], /^2024-05-0/, `${interval}: the first bucket`)
  }
})
