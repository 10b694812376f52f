/**
 * Visitors without a person, as `posthog-js` sends them. They count in every kind of query except lifecycle, one for
 * each distinct_id, until they are identified.
 *
 * @lane quick
 */
import t from 'tap'
import type { DecisionDaemon } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const at = (day: number, minute = 10) => `2023-01-0${day}T12:${minute}:00Z`
const SESSIONS = '018f38bf-1d00-7a0e-8000-00000000000'

function sent(event: string, distinct_id: string, day: number, minute: number, more: Json): Json {
  const properties = {
    $session_id: `${SESSIONS}${distinct_id.at(-1)}`,
    $pathname: `/${day}`,
    $current_url: `/${day}`,
    ...more,
  }
  return { event, distinct_id, timestamp: at(day, minute), properties }
}

const visited = (name: string, who: string, day: number, minute = 10, more: Json = {}): Json =>
  sent(name, who, day, minute, { $process_person_profile: false, ...more })
const did = (name: string, who: string, day: number, minute = 10, more: Json = {}): Json =>
  sent(name, who, day, minute, more)

const EVENTS: readonly Json[] = [
  visited('$pageview', 'v1', 2),
  visited('$pageview', 'v2', 2),
  did('$pageview', 'p3', 2, 10, { $set: { plan: 'pro', email: 'p3@x.test' } }),
  visited('buy', 'v1', 2, 20),
  visited('$pageview', 'v1', 3),
  did('$pageview', 'p3', 3, 10, { n: 5 }),
  did('buy', 'p3', 3, 20),
  visited('$pageview', 'v2', 4),
  did('$pageview', 'p4', 4, 10, { $set: { plan: 'free' } }),
]
const RANGE = { date_from: '2023-01-02', date_to: '2023-01-04' }
const VIEW = { kind: 'EventsNode', event: '$pageview' }
const DAU = { kind: 'TrendsQuery', series: [{ ...VIEW, math: 'dau' }], dateRange: RANGE }
const FUNNEL = {
  kind: 'FunnelsQuery',
  series: [VIEW, { kind: 'EventsNode', event: 'buy' }],
  dateRange: RANGE,
}

class Asked {
  readonly daemon: DecisionDaemon

  constructor(daemon: DecisionDaemon) {
    this.daemon = daemon
  }

  static async start(): Promise<Asked> {
    const daemon = await shareDecisions()
    await daemon.capture(EVENTS)
    return new Asked(daemon)
  }

  async query(query: Json): Promise<Json> {
    const { status, body } = await this.daemon.api('POST', 'query/', 1, { query })
    if (status !== 200) throw new Error(JSON.stringify(body))
    return body
  }

  async results(query: Json): Promise<readonly Json[]> {
    return (await this.query(query))['results'] as readonly Json[]
  }

  /** Returns the numbers of the first item. */
  async data(query: Json): Promise<unknown> {
    return (await this.results(query))[0]?.['data']
  }

  /** Returns the number of visitors for each day, with a filter on persons. */
  async days(filter: Json): Promise<unknown> {
    return this.data({ ...DAU, properties: [filter] })
  }

  async steps(): Promise<readonly unknown[]> {
    return (await this.results(FUNNEL)).map(({ count }) => count)
  }

  async visitors(): Promise<unknown> {
    const [first] = await this.results({
      kind: 'WebOverviewQuery',
      dateRange: RANGE,
      properties: [],
    })
    return first?.['value']
  }
}

t.test('visitors count in every kind of query except lifecycle', async (t) => {
  const asked = await Asked.start()
  t.strictSame(await asked.data(DAU), [3, 2, 2])
  const total = { ...DAU, series: [VIEW], trendsFilter: { display: 'BoldNumber' } }
  t.match(await asked.results(total), [{ aggregated_value: 7 }])
  const weekly = { ...DAU, series: [{ ...VIEW, math: 'weekly_active' }] }
  t.strictSame(await asked.data(weekly), [3, 3, 4])
  const first = { ...DAU, series: [{ ...VIEW, math: 'first_time_for_user' }] }
  t.strictSame(await asked.data(first), [3, 0, 1])
  const byPlan = { breakdown: 'plan', breakdown_type: 'person' }
  const items = await asked.results({ ...DAU, breakdownFilter: byPlan })
  t.strictSame(
    items.map(({ breakdown_value, data }) => [breakdown_value, data]).sort(),
    [
      ['$$_posthog_breakdown_null_$$', [2, 1, 1]],
      ['free', [0, 0, 1]],
      ['pro', [1, 1, 0]],
    ],
    'like persons without the property',
  )
  t.strictSame(await asked.steps(), [4, 2])
  t.equal(await asked.visitors(), 4)
  const pages = {
    kind: 'WebStatsTableQuery',
    breakdownBy: 'Page',
    dateRange: RANGE,
    properties: [],
  }
  const rows = (await asked.results(pages)) as unknown as readonly (readonly [string, number[]])[]
  t.strictSame(rows.map(([page, [visitors]]) => [page, visitors]).sort(), [
    ['/2', 3],
    ['/3', 2],
    ['/4', 2],
  ])
  const entity = { id: '$pageview', type: 'events' }
  const retention = await asked.results({
    kind: 'RetentionQuery',
    dateRange: RANGE,
    retentionFilter: { targetEntity: entity, returningEntity: entity, totalIntervals: 3 },
  })
  t.strictSame(
    ((retention[0]?.['values'] ?? []) as readonly Json[]).map(({ count }) => count),
    [3, 2, 1],
  )
  t.strictSame(await asked.data({ ...DAU, kind: 'StickinessQuery', series: [VIEW] }), [1, 3, 0])
  const paths = await asked.results({ kind: 'PathsQuery', dateRange: RANGE })
  const bought = paths.filter(({ target }) => target === '2_buy')
  t.strictSame(bought.map(({ source, value }) => [source, value]).sort(), [
    ['1_/2', 1],
    ['1_/3', 1],
  ])
  const lifecycle = { ...DAU, kind: 'LifecycleQuery', series: [VIEW] }
  const statuses = (await asked.results(lifecycle)).map(({ status, data }) => [status, data])
  t.strictSame(statuses, [
    ['new', [1, 0, 1]],
    ['returning', [0, 1, 0]],
    ['resurrecting', [0, 0, 0]],
    ['dormant', [0, 0, -1]],
  ])
})

t.test('they have no properties and are in no cohort', async (t) => {
  const asked = await Asked.start()
  const plan = { key: 'plan', type: 'person' }
  t.strictSame(await asked.days({ ...plan, value: 'pro', operator: 'exact' }), [1, 1, 0])
  t.strictSame(await asked.days({ ...plan, value: 'pro', operator: 'is_not' }), [2, 1, 2])
  t.strictSame(await asked.days({ ...plan, operator: 'is_set', value: 'is_set' }), [1, 1, 1])
  t.strictSame(await asked.days({ ...plan, operator: 'is_not_set' }), [2, 1, 1])
  const listed = { name: 'listed', is_static: true, distinct_ids: ['p3', 'v1'] }
  const values = [{ ...plan, value: 'pro', operator: 'is_not' }]
  const other = { name: 'other', filters: { properties: { type: 'AND', values } } }
  for (const [cohort, inside] of [
    [listed, [1, 1, 0]],
    [other, [0, 0, 1]],
  ] as const) {
    const { body } = await asked.daemon.api('POST', 'cohorts/', 1, cohort)
    const member = { key: 'id', type: 'cohort', value: body['id'] }
    t.strictSame(await asked.days({ ...member, operator: 'in' }), inside, cohort.name)
    const outside = [3, 2, 2].map((count, day) => count - (inside[day] ?? 0))
    t.strictSame(await asked.days({ ...member, operator: 'not_in' }), outside, cohort.name)
  }
})

t.test(
  'a number equals the count of actors behind it, and a row identifies its visitor',
  async (t) => {
    const asked = await Asked.start()
    const [item] = await asked.results({ ...DAU, persons_urls: true })
    const [first] = (item?.['persons_urls'] ?? []) as readonly { readonly url: string }[]
    const path = first?.url.replace(asked.daemon.path(1, ''), '') ?? ''
    const { body } = await asked.daemon.api('GET', path)
    const [page] = body['results'] as readonly { readonly people: readonly Json[]; count: number }[]
    t.strictSame(
      page?.people.map(({ distinct_ids }) => distinct_ids),
      [['p3']],
    )
    t.match([body['total'], page?.count, body['missing_persons']], [3, 1, 2])
    const { body: one } = await asked.daemon.api('GET', `${path}&limit=1`)
    t.match(one, { total: 3, missing_persons: 0, results: [{ count: 1 }] }, 'persons come first')
    const source = { kind: 'InsightActorsQuery', source: DAU, day: '2023-01-02', series: 0 }
    const select = [
      'person',
      'id',
      'properties.plan',
      'created_at',
      'event_count',
      'event_distinct_ids',
    ]
    const idOf = async (distinctId: string): Promise<unknown> => {
      const one = { kind: 'EventsQuery', select: ['person_id'], after: '2023-01-01', limit: 1 }
      const properties = [{ key: 'distinct_id', value: distinctId }]
      return ((await asked.results({ ...one, properties })) as unknown as unknown[][])[0]?.[0]
    }
    const [v1, v2, p3] = [await idOf('v1'), await idOf('v2'), await idOf('p3')]
    const visitor = (id: unknown, name: string) => [{ id }, id, null, null, 1, [name]]
    const all = [visitor(v1, 'v1'), visitor(v2, 'v2')]
    const known = [{ id: p3, distinct_ids: ['p3'] }, p3, 'pro', String, 1, ['p3']]
    const byId = (rows: readonly unknown[][]) =>
      [...rows].sort(([, one], [, other]) => (String(one) < String(other) ? -1 : 1))
    const inOrder = byId([...all, known])
    const orders: readonly (readonly [string, readonly unknown[][]])[] = [
      ['id', inOrder],
      ['id DESC', [...inOrder].reverse()],
      ['created_at', [known, ...byId(all)]],
      ['created_at DESC', [known, ...byId(all)]],
      ['person', inOrder.filter((row) => row === known).concat(byId(all))],
      ['event_count DESC', inOrder],
    ]
    for (const [orderBy, rows] of orders) {
      const query = { kind: 'ActorsQuery', source, select, orderBy: [orderBy] }
      const actors = await asked.query(query)
      t.match(actors, { results: rows, hasMore: false, missing_actors_count: 2 }, orderBy)
      t.equal((actors['results'] as readonly unknown[]).length, 3)
      const pages = await Promise.all(
        [0, 1, 2].map((offset) => asked.query({ ...query, limit: 1, offset })),
      )
      t.match(
        pages.flatMap(({ results }) => results),
        rows,
        'page by page',
      )
      const missing = pages.map((one) => Number(one['missing_actors_count']))
      t.equal(
        missing.reduce((sum, one) => sum + one, 0),
        2,
      )
    }
    const ids = async (more: Json): Promise<readonly unknown[]> => {
      const query = { kind: 'ActorsQuery', source, select: ['id'], ...more }
      return ((await asked.results(query)) as unknown as unknown[][]).flat()
    }
    t.strictSame(await ids({ search: 'V2' }), [v2])
    t.strictSame(await ids({ search: String(v1).slice(3) }), [v1])
    t.strictSame(await ids({ search: 'p3@x' }), [p3])
    const without = { key: 'plan', type: 'person', operator: 'is_not_set' }
    t.strictSame(await ids({ properties: [without] }), [v1, v2].sort())
    const byEvents = {
      kind: 'EventsQuery',
      select: ['distinct_id', 'count()'],
      after: '2023-01-01',
    }
    t.strictSame(
      [...((await asked.query({ ...byEvents, before: '2023-01-05' }))['results'] as [])].sort(),
      [
        ['p3', 3],
        ['p4', 1],
        ['v1', 3],
        ['v2', 2],
      ],
    )
  },
)

t.test('a visitor who is identified later counts once', async (t) => {
  const asked = await Asked.start()
  const identify = { event: '$identify', distinct_id: 'p3', timestamp: at(5) }
  await asked.daemon.capture([{ ...identify, properties: { $anon_distinct_id: 'v1' } }])
  t.strictSame(await asked.data(DAU), [2, 1, 2])
  t.strictSame(await asked.steps(), [3, 1])
  t.equal(await asked.visitors(), 3)
  t.strictSame(await asked.days({ key: 'plan', value: 'pro', type: 'person' }), [1, 1, 0])
  const fresh = { event: '$identify', distinct_id: 'new', timestamp: at(5) }
  await asked.daemon.capture([{ ...fresh, properties: { $anon_distinct_id: 'v2' } }])
  t.strictSame(await asked.data(DAU), [2, 1, 2], 'a separate person')
  const [, , resurrecting] = await asked.results({ ...DAU, kind: 'LifecycleQuery', series: [VIEW] })
  t.strictSame(resurrecting?.['data'], [1, 0, 1], 'created later than the event arrived')
})

t.test(
  'erased events of a visitor do not count, nor do kept events of a deleted person',
  async (t) => {
    const asked = await Asked.start()
    await asked.daemon.api('POST', 'erasures/', 1, { distinct_id: 'v1' })
    await asked.daemon.until(async () => (await asked.visitors()) === 3)
    t.strictSame(await asked.data(DAU), [2, 1, 2])
    t.strictSame(await asked.steps(), [3, 1])
    const { body } = await asked.daemon.api('GET', 'persons/?distinct_id=p3')
    const [person] = body['results'] as readonly Json[]
    await asked.daemon.api('DELETE', `persons/${String(person?.['id'])}/`)
    t.strictSame(await asked.data(DAU), [1, 0, 2])
    await asked.daemon.capture([visited('$pageview', 'p3', 4)])
    t.strictSame(await asked.data(DAU), [1, 0, 3], 'a visitor from now on')
  },
)

t.test('events of a deleted person still count as events, but have no actor', async (t) => {
  const asked = await Asked.start()
  const data = async (series: Json, more: Json = {}): Promise<readonly unknown[]> => {
    const query = { ...DAU, series: [{ ...VIEW, ...series }], ...more }
    return (await asked.results(query)).map((item) => item['data'])
  }
  const byPlan = { breakdownFilter: { breakdown: 'plan', breakdown_type: 'person' } }
  const both = { series: [VIEW, { ...VIEW, math: 'avg_count_per_actor' }] }
  const summed = { math: 'sum', math_property: 'n' }
  const isNot = { key: 'plan', operator: 'is_not', value: 'free', type: 'person' }
  const of = { key: '$pathname', value: '/3', type: 'event' }
  t.strictSame(await data({}), [[3, 2, 2]])
  t.strictSame(await data({}, byPlan), [
    [1, 1, 0],
    [0, 0, 1],
    [2, 1, 1],
  ])
  const { body } = await asked.daemon.api('GET', 'persons/?distinct_id=p3')
  const [person] = body['results'] as readonly Json[]
  await asked.daemon.api('DELETE', `persons/${String(person?.['id'])}/`)
  for (const after of ['a deletion', 'a visit']) {
    t.strictSame(await data({}), [[3, 2, 2]], after)
    t.strictSame(await data({}, { trendsFilter: { display: 'ActionsLineGraphCumulative' } }), [
      [3, 5, 7],
    ])
    t.strictSame(await data({ properties: [of] }), [[0, 2, 0]])
    t.strictSame(await data({ properties: [isNot] }), [[3, 2, 1]])
    t.strictSame(await data(summed), [[0, 5, 0]])
    t.strictSame(await data({}, byPlan), [
      [0, 0, 1],
      [3, 2, 1],
    ])
    t.strictSame(await data({}, both), [
      [3, 2, 2],
      [1, 1, 1],
    ])
    t.strictSame(await data({ math: 'dau' }), [[2, 1, 2]])
    await asked.daemon.capture([visited('other', 'p3', 4)])
  }
  const actors = { kind: 'ActorsQuery', select: ['id'] }
  const source = {
    kind: 'InsightActorsQuery',
    day: '2023-01-02',
    source: { ...DAU, series: [VIEW] },
  }
  t.equal((await asked.results({ ...actors, source })).length, 2, 'there are no actors behind them')
})

t.test('events of a visitor are found by the uuid that they show', async (t) => {
  const asked = await Asked.start()
  const rows = async (more: Json): Promise<readonly unknown[]> =>
    asked.results({ kind: 'EventsQuery', after: 'all', before: '2023-02-01', ...more })
  const shown = (await rows({ select: ['distinct_id', 'person_id'] })) as readonly string[][]
  const uuidOf = new Map(shown.map(([distinctId = '', uuid = '']) => [distinctId, uuid]))
  const count = async (personId: unknown) => rows({ select: ['distinct_id', 'count()'], personId })
  t.strictSame(await count(uuidOf.get('v1')), [['v1', 3]])
  t.strictSame(await count(uuidOf.get('v2')?.toUpperCase()), [['v2', 2]])
  t.strictSame(await count(uuidOf.get('p3')), [['p3', 3]])
  t.strictSame(await count('5d3c9a0e-4d0c-5f0e-8f55-2f3b5f0a9c11'), [], 'no person')
  const listed = async (uuid: unknown): Promise<readonly unknown[]> => {
    const { body } = await asked.daemon.api('GET', `events/?person_id=${String(uuid)}`)
    return ((body['results'] ?? []) as readonly Json[]).map(
      ({ distinct_id, person_id }) => `${String(distinct_id)} ${person_id === uuid}`,
    )
  }
  const rows2 = (id: string) =>
    rows({ select: ['person_id'], properties: [{ key: 'distinct_id', value: id }] })
  t.strictSame(await listed(uuidOf.get('v1')), ['v1 true', 'v1 true', 'v1 true'])
  t.strictSame(await listed(uuidOf.get('p3')), ['p3 true', 'p3 true', 'p3 true'])
  await asked.daemon.capture([did('$identify', 'p3', 5, 10, { $anon_distinct_id: 'v1' })])
  t.strictSame(await count(uuidOf.get('v1')), [], 'the visitor is a person now')
  t.strictSame(await listed(uuidOf.get('v1')), [])
  const { body } = await asked.daemon.api('GET', 'persons/?distinct_id=p3')
  const [person] = body['results'] as readonly Json[]
  await asked.daemon.api('DELETE', `persons/${String(person?.['id'])}/`)
  await asked.daemon.capture([visited('$pageview', 'p3', 4), visited('$pageview', 'v1', 4)])
  for (const id of ['p3', 'v1']) {
    const rows = (await rows2(id)) as readonly string[][]
    const uuids = [...new Set(rows.map(([uuid]) => uuid))]
    for (const uuid of uuids) {
      const shownWith = rows.filter(([one]) => one === uuid).length
      t.equal((await listed(uuid)).filter((row) => String(row).startsWith(id)).length, shownWith)
    }
  }
})
