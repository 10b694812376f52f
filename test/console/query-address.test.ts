/**
 * The URL of the page "Explore" describes its query completely: every query that is written to a URL and read again
 * stays the same, and options that the parameters cannot express are kept.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { RANGES } from '../../src/console/base/days.ts'
import {
  datesOf,
  innerQuery,
  isKeptWhole,
  isSame,
  KINDS,
  onDashboard,
  type Question,
  rangeWords,
  toAddress,
  toQuery,
  type Way,
} from '../../src/console/base/query-address.ts'
import { questionOf } from '../../src/rules/saved/insight-question.ts'
import { runsOf } from '../fixtures/random-depth.ts'

const NAMES = ['$pageview', 'signed up', 'a&b=c', '100 %', 'привет', '"><img src=x>', '#/?']
const name = fc.constantFrom(...NAMES)
const filter = fc.record({
  key: name,
  operator: fc.constantFrom('exact', 'is_not', 'icontains', 'is_set', 'gt'),
  value: fc.oneof(name, fc.integer(), fc.array(name, { minLength: 1, maxLength: 3 })),
  type: fc.constantFrom('event', 'person', 'cohort'),
})
const series = fc.record(
  {
    event: fc.option(name),
    name,
    math: fc.constantFrom('dau', 'weekly_active', 'unique_session', 'sum', 'p90'),
    property: name,
    filters: fc.array(filter, { minLength: 1, maxLength: 2 }),
  },
  { requiredKeys: ['event'] },
)
const entity = fc.record(
  { event: fc.option(name), filters: fc.array(filter, { minLength: 1, maxLength: 2 }) },
  { requiredKeys: ['event'] },
)
const day = fc.integer({ min: 0, max: 3650 }).map((after) => {
  return new Date(Date.UTC(2020, 0, 1 + after)).toISOString().slice(0, 10)
})
const range = fc.oneof(
  fc.constantFrom(...RANGES.map(({ value }) => value), '60d', '90d', '57d', '48h'),
  fc.tuple(day, day).map((days) => days.sort().join('..')),
)
const count = (max: number) => fc.integer({ min: 1, max }).map(String)
const interval = fc.constantFrom('hour', 'day', 'week', 'month')
const compare = fc.constantFrom('1', 'year')
const by = fc.tuple(fc.constantFrom('event', 'person'), name).map(([type, key]) => `${type}:${key}`)
const exclusion = fc.record({ event: name, from: fc.constant(0), to: fc.constant(1) })

/** The parameters of each kind that the builder can write, besides those that all kinds have. */
const PARAMETERS: Readonly<Record<Way, Readonly<Record<string, fc.Arbitrary<unknown>>>>> = {
  trends: {
    series: fc.array(series, { minLength: 1, maxLength: 4 }),
    interval,
    compare,
    by: fc.array(by, { maxLength: 3 }),
    top: count(25),
    formula: fc.constantFrom('A / B * 100', 'A + 1'),
    display: fc.constantFrom('ActionsBar', 'BoldNumber', 'ActionsPie', 'ActionsTable'),
    smoothing: fc.constantFrom('7', '30'),
  },
  funnel: {
    series: fc.array(series, { minLength: 2, maxLength: 4 }),
    interval,
    by: fc.array(by, { maxLength: 1 }),
    order: fc.constantFrom('strict', 'unordered'),
    window: count(90),
    unit: fc.constantFrom('minute', 'hour', 'week', 'month'),
    show: fc.constantFrom('time_to_convert', 'trends'),
    exclude: fc.array(exclusion, { maxLength: 2 }),
    attribution: fc.constantFrom('last_touch', 'all_events', 'step'),
    attributed: fc.constantFrom('0', '1'),
  },
  retention: {
    series: fc.array(entity, { minLength: 1, maxLength: 2 }),
    period: fc.constantFrom('Hour', 'Day', 'Month'),
    periods: count(30),
    first: fc.constantFrom('retention_first_time', 'retention_first_ever_occurrence'),
    cumulative: fc.constant('1'),
    span: range,
  },
  paths: {
    items: fc.constantFrom('$screen', 'custom_event', 'all', 'everything'),
    start: name,
    end: name,
    steps: count(20),
    edges: count(200),
    without: fc.array(name, { maxLength: 3 }),
  },
  lifecycle: { series: fc.array(entity, { minLength: 1, maxLength: 1 }), interval },
  stickiness: {
    series: fc.array(series, { minLength: 1, maxLength: 3 }),
    interval,
    compare,
    cumulative: fc.constant('1'),
  },
}
const COMMON = {
  range,
  filter: fc.array(filter, { maxLength: 3 }),
  internal: fc.constant('hide'),
}

/** Any state of the builder, as the URL has it. */
const address = fc.constantFrom(...(Object.keys(KINDS) as Way[])).chain((way) =>
  fc.record({ ...COMMON, ...PARAMETERS[way] }, { requiredKeys: [] }).map((values) => {
    const made = new URLSearchParams({ way })
    for (const [parameter, value] of Object.entries(values)) {
      for (const one of [value].flat()) {
        made.append(parameter, typeof one === 'string' ? one : JSON.stringify(one))
      }
    }
    return made
  }),
)

const plain = (query: Question) => JSON.parse(JSON.stringify(query)) as Question
const TODAY = '2026-11-30'
const reread = (query: Question) => toQuery(new URLSearchParams(toAddress(query).toString()), TODAY)

t.test('every query of the builder reads back equal, from parameters that the page edits', (t) => {
  fc.assert(
    fc.property(address, (made) => {
      const query = toQuery(made, TODAY)
      const saved = plain(query)
      const found = toAddress(saved)
      if (isKeptWhole(found)) throw new Error(`kept whole: ${JSON.stringify(saved)}`)
      t.strictSame(plain(reread(saved)), saved)
    }),
    runsOf(3000),
  )
  t.end()
})

t.test('an option that the page does not know is kept, wherever it is', (t) => {
  const option = fc.constantFrom<(query: Record<string, unknown>) => void>(
    (query) => (query['samplingFactor'] = 0.1),
    (query) => (query['aggregation_group_type_index'] = 1),
    (query) => (query['dateRange'] = { date_from: '-3m', date_to: '-2mEnd' }),
    (query) => (query['compareFilter'] = { compare: true, compare_to: '-5d' }),
    (query) => (query['dateRange'] = { date_from: '2026-01-01T05:30:00' }),
    (query) => (query['properties'] = { type: 'OR', values: [{ key: 'a' }, { key: 'b' }] }),
    (query) => (query['properties'] = [{ type: 'hogql', value: '1' }]),
    (query) =>
      (query['series'] = [{ event: 'a', math: 'sum', math_multiplier: 2 }, { event: 'b' }]),
    (query) => (query['funnelsFilter'] = { exclusions: [{ event: 'x' }], layout: 'vertical' }),
    (query) => (query['breakdownFilter'] = { breakdown: 'x', breakdown_histogram_bin_count: 5 }),
  )
  fc.assert(
    fc.property(address, option, (made, change) => {
      const saved: Question = plain(toQuery(made, TODAY))
      change(saved)
      const whole = toAddress(saved)
      if (!isKeptWhole(whole)) throw new Error(`not kept: ${whole.toString()}`)
      t.strictSame(plain(reread(saved)), saved)
    }),
    runsOf(500),
  )
  t.end()
})

t.test('a query without default members opens in the builder', (t) => {
  const event = { event: 'signed up' }
  const saved: readonly Question[] = [
    { kind: 'TrendsQuery', series: [event] },
    { kind: 'TrendsQuery', series: [event], dateRange: { date_from: '-8w' } },
    { kind: 'TrendsQuery', series: [event], dateRange: { date_from: '-60d' }, properties: [] },
    {
      kind: 'TrendsQuery',
      series: [event],
      dateRange: { date_from: '2026-01-01', date_to: '2026-01-31' },
      compareFilter: { compare: true, compare_to: '-12m' },
    },
    { kind: 'TrendsQuery', series: [event], breakdownFilter: { breakdown: 'plan' } },
    { kind: 'TrendsQuery', series: [event], trendsFilter: { display: 'BoldNumber' } },
    {
      kind: 'FunnelsQuery',
      series: [event, { event: null }],
      funnelsFilter: { funnelOrderType: 'strict', funnelWindowInterval: 3 },
    },
    {
      kind: 'RetentionQuery',
      retentionFilter: {
        period: 'Day',
        targetEntity: { id: 'signed up', type: 'events' },
        returningEntity: { id: 'card created', type: 'events' },
      },
    },
    { kind: 'PathsQuery', pathsFilter: { startPoint: '/' } },
    { kind: 'LifecycleQuery', series: [event] },
    { kind: 'StickinessQuery', series: [event], interval: 'week' },
    {
      kind: 'TrendsQuery',
      series: [event],
      properties: { type: 'AND', values: [{ type: 'AND', values: [{ key: 'a', value: 'b' }] }] },
    },
  ]
  for (const query of saved) {
    const found = toAddress(query)
    t.notOk(isKeptWhole(found), `${query.kind}: ${found.toString()}`)
    t.ok(isSame(toQuery(found, TODAY), query), JSON.stringify(toQuery(found, TODAY)))
  }
  t.end()
})

t.test('different queries are not the same', (t) => {
  const query: Question = {
    kind: 'RetentionQuery',
    dateRange: { date_from: '-7d' },
    retentionFilter: { targetEntity: { id: 'a', type: 'events' } },
  }
  t.notOk(isSame(query, { ...query, dateRange: {} }))
  t.notOk(isSame(query, { ...query, retentionFilter: {} }))
  const every = { targetEntity: { id: null, type: 'events' } }
  t.notOk(isSame({ ...query, retentionFilter: every }, { ...query, retentionFilter: {} }))
  const trends: Question = { kind: 'TrendsQuery', series: [{ event: 'a' }], interval: 'day' }
  t.notOk(isSame(trends, { ...trends, interval: 'week' }))
  t.notOk(isSame(trends, { ...trends, kind: 'StickinessQuery' }))
  t.notOk(isSame(trends, { ...trends, series: [{ event: 'a' }, { event: 'a' }] }))
  t.end()
})

t.test('the inner query of a display node is found, and damaged parameters are ignored', (t) => {
  const source = { kind: 'TrendsQuery', series: [] }
  t.strictSame(
    innerQuery({ kind: 'InsightVizNode', source: { kind: 'DataTableNode', source } }),
    source,
  )
  t.equal(innerQuery({ kind: 'InsightVizNode' }), null)
  t.equal(innerQuery(null), null)
  const damaged = new URLSearchParams('way=x&series={&series=3&filter=[]&q=%%%&by=plan&top=many')
  t.strictSame(toQuery(damaged, TODAY), {
    kind: 'TrendsQuery',
    series: [{ kind: 'EventsNode', event: '$pageview' }],
    interval: 'day',
    trendsFilter: {},
    dateRange: { date_from: '-6d' },
    properties: [],
  })
  t.end()
})

t.test('the console applies the filters of a dashboard exactly as the daemon does', (t) => {
  const dates = fc.constantFrom(
    {},
    { date_from: '-29d', date_to: null },
    { date_from: '2026-01-01', date_to: '2026-01-31' },
    { date_from: null, date_to: null },
  )
  const filters = fc.oneof(fc.constant({}), fc.record({ properties: fc.array(filter) }))
  const group = { type: 'OR', values: [{ key: 'a' }, { key: 'b' }] }
  fc.assert(
    fc.property(address, dates, filters, fc.boolean(), (made, range, more, isGroup) => {
      const query = plain({ ...toQuery(made, TODAY), ...(isGroup && { properties: group }) })
      const all = { ...range, ...more } as Parameters<typeof onDashboard>[1]
      const asked = questionOf(query, { ...range, ...more }) as Question
      t.strictSame(plain(onDashboard(query, all)), plain(asked))
    }),
    runsOf(500),
  )
  t.end()
})

t.test('the range of a query in words', (t) => {
  const words = (dateRange?: object) =>
    rangeWords({ kind: 'TrendsQuery', ...(dateRange && { dateRange }) })
  t.equal(words({ date_from: '-29d' }), 'Last 30 days')
  t.equal(words({ date_from: '-8w' }), 'Last 57 days')
  t.equal(words({ date_from: '2026-01-05', date_to: '2026-01-11' }), '5–11 Jan 2026')
  t.equal(words(), 'Last 8 days')
  t.equal(words({ date_from: '2026-01-05T10:00:00' }), null)
  t.equal(rangeWords({ kind: 'RetentionQuery' }), null)
  t.strictSame(datesOf('30d'), { date_from: '-29d', date_to: null })
  t.end()
})
