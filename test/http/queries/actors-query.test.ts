/**
 * Persons and groups as rows over HTTP: columns, order, filters, pages, and the actors behind other queries.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'
import { atFullDepth } from '../../fixtures/random-depth.ts'

/** More than are read and sorted for one answer. */
const MANY = 10_500
const BATCH = 3500

async function startQueries(events: readonly Json[]) {
  const daemon = await shareDecisions()
  for (let first = 0; first < events.length; first += BATCH) {
    await daemon.capture(events.slice(first, first + BATCH))
  }
  const ask = async (query: Json): Promise<Json> => {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    return status === 200 ? body : { status, code: body['code'], attr: body['attr'] }
  }
  const rows = async (query: Json): Promise<readonly (readonly unknown[])[]> => {
    const { results } = await ask({ kind: 'ActorsQuery', ...query })
    return (results ?? []) as readonly (readonly unknown[])[]
  }
  /** Returns the first column; of a properties column, their values. */
  const firsts = async (query: Json) => (await rows(query)).map(([first]) => first)
  return { daemon, ask, rows, firsts }
}

const at = (day: number, hour = 12) => `2023-01-0${day}T${hour}:00:00Z`
const seen = (distinct_id: string, day: number, more: Json = {}): Json => {
  return { event: 'view', distinct_id, timestamp: at(day), properties: more }
}
const EVENTS: readonly Json[] = [
  seen('a', 2, { $set: { email: 'Zoe@x.test', n: 2, tag: 'first' }, $groups: { firm: 'acme' } }),
  seen('b', 3, { $set: { name: 'Berta', n: 10 }, $groups: { firm: 'acme' } }),
  seen('c', 4, { $set: { email: 'adam@x.test', tag: 'last' }, $groups: { firm: 'init' } }),
  seen('a', 3),
  seen('a', 4, { $groups: { firm: 'init' } }),
  seen('b', 4),
  {
    event: '$groupidentify',
    distinct_id: 'a',
    timestamp: at(2),
    properties: {
      $group_type: 'firm',
      $group_key: 'acme',
      $group_set: { name: 'Acme', size: 9 },
    },
  },
]
const RANGE = { date_from: '2023-01-02', date_to: '2023-01-04' }
const SERIES = [{ kind: 'EventsNode', event: 'view' }]
const STICKINESS = { kind: 'StickinessQuery', series: SERIES, dateRange: RANGE }
const STICKY_GROUPS = {
  ...STICKINESS,
  series: [{ ...SERIES[0], math: 'unique_group', math_group_type_index: 0 }],
}
const RETENTION = {
  kind: 'RetentionQuery',
  dateRange: RANGE,
  retentionFilter: {
    targetEntity: { id: 'view', type: 'events' },
    returningEntity: { id: 'view', type: 'events' },
    totalIntervals: 3,
  },
}
const behind = (source: Json, more: Json = {}): Json => {
  return { source: { kind: 'InsightActorsQuery', source, ...more } }
}

t.test('columns, order, filters and pages work', async (t) => {
  const { daemon, ask, rows, firsts } = await startQueries(EVENTS)
  const { results, ...members } = await ask({ kind: 'ActorsQuery', orderBy: ['created_at'] })
  const people = results as readonly (readonly unknown[])[]
  const [person, id, deletion] = people[0] ?? []
  t.match(person, {
    id,
    properties: { email: 'Zoe@x.test', n: 2 },
    is_identified: false,
    created_at: '2023-01-02T12:00:00Z',
    distinct_ids: ['a'],
  })
  t.equal(deletion, 1)
  t.match(members, {
    columns: ['person', 'id', 'person.$delete'],
    types: ['Tuple', 'String', 'UInt8'],
    limit: 100,
    offset: 0,
    hasMore: false,
    missing_actors_count: 0,
  })
  const select = ['properties.n -- number', 'created_at', 'matched_recordings', 'properties.none']
  t.strictSame(
    (await rows({ select }))[0],
    [null, '2023-01-04T12:00:00Z', [], null],
    'newest first',
  )

  const tags = { select: ['properties.tag'] }
  t.strictSame(await firsts(tags), ['first', 'last', null])
  t.strictSame(await firsts({ ...tags, orderBy: ['properties.tag DESC'] }), ['last', 'first', null])
  t.strictSame(await firsts({ ...tags, orderBy: ['person'] }), ['first', 'last', null], 'by e-mail')
  const byNumber = { select: ['properties.n'], orderBy: ['properties.n desc, id ASC'] }
  t.strictSame(await firsts(byNumber), [10, 2, null])
  const ids = await firsts({ select: ['id'] })
  t.strictSame(ids, [...ids].sort())
  t.strictSame(await firsts({ select: ['id'], orderBy: ['actor_id DESC'] }), [...ids].reverse())
  t.strictSame(
    (await firsts({ select: ['person'] })).map((one) => (one as Json)['id']),
    ids,
    'persons by uuid',
  )

  const oldest = { select: ['properties.n'], orderBy: ['created_at ASC'] }
  t.strictSame(await firsts({ ...oldest, limit: 2 }), [2, 10])
  t.strictSame(await firsts({ ...oldest, limit: 2, offset: 1 }), [10, null])
  t.match(await ask({ kind: 'ActorsQuery', ...oldest, limit: 2 }), { hasMore: true })
  t.match(await ask({ kind: 'ActorsQuery', ...oldest, limit: 3 }), { hasMore: false })
  t.strictSame(await firsts({ ...oldest, offset: 3 }), [])

  t.strictSame(await firsts({ ...oldest, search: 'ZOE' }), [2])
  t.strictSame(await firsts({ ...oldest, search: 'bert' }), [10])
  t.strictSame(
    await firsts({ ...oldest, search: String(ids[0]).slice(2) }).then((f) => f.length),
    1,
  )
  const large = [{ key: 'n', type: 'person', operator: 'gt', value: 5 }]
  t.strictSame(await firsts({ ...oldest, properties: large }), [10])
  t.strictSame(await firsts({ ...oldest, properties: large, search: 'zoe' }), [])
  const cohort = { name: 'some', is_static: true, distinct_ids: ['a', 'c'] }
  const { body } = await daemon.api('POST', 'cohorts/', 1, cohort)
  const members2 = [{ key: 'id', type: 'cohort', value: body['id'] }]
  t.strictSame(await firsts({ ...oldest, fixedProperties: members2 }), [2, null])
  const { status } = await daemon.api('DELETE', `persons/${String(ids[0])}/`, 1)
  t.equal(status, 202)
  t.strictSame(await firsts({ select: ['id'] }), ids.slice(1), 'a deleted person is gone')
})

t.test('the actors behind a number are listed', async (t) => {
  const { ask, rows, firsts } = await startQueries(EVENTS)
  const tag = { select: ['properties.tag', 'appearances'], orderBy: ['length(appearances) DESC'] }
  t.strictSame(await rows({ ...tag, ...behind(RETENTION) }), [['first', [0, 1, 2]]])
  t.strictSame(await rows({ ...tag, ...behind(RETENTION, { interval: 1 }), orderBy: null }), [
    ['first', [0, 1]],
    [null, [0, 1]],
  ])
  const names = { select: ['properties.tag'] }
  t.strictSame(await firsts({ ...names, ...behind(STICKINESS, { day: 1 }) }), ['last'])
  const source = { kind: 'StickinessActorsQuery', source: STICKINESS, day: 2 }
  t.strictSame(await firsts({ ...names, source }), [null])
  const wrapped = { kind: 'InsightVizNode', source: STICKINESS }
  t.strictSame(await firsts({ ...names, ...behind(wrapped, { day: 3 }) }), ['first'])

  const groups = behind(STICKY_GROUPS, { day: 2 })
  const [[acme] = []] = await rows({ select: ['group'], ...groups })
  t.match(acme, {
    id: 'acme',
    type: 'group',
    group_key: 'acme',
    group_type_index: 0,
    properties: { name: 'Acme', size: 9 },
    group_properties: { name: 'Acme' },
    created_at: '2023-01-02T12:00:00Z',
  })
  const sized = { select: ['id', 'properties.size', 'created_at'] }
  const single = behind(STICKY_GROUPS, { day: 1 })
  t.strictSame(await rows({ ...sized, ...single, search: 'IN' }), [['init', null, null]])
  t.strictSame(await rows({ ...sized, ...groups, search: 'ac' }).then((found) => found.length), 1)
  t.strictSame(await rows({ ...sized, ...groups, search: 'other' }), [])

  const actors = { kind: 'ActorsQuery' }
  const [unsupported, invalid] = ['unsupported_kind', 'invalid_query']
  const refused: readonly (readonly [Json, string, string])[] = [
    [{ select: ['toDate(1)'] }, invalid, 'select.0'],
    [{ select: ['event_count'] }, invalid, 'select.0'],
    [{ select: ['id', 'event_count'], ...behind(STICKINESS, { day: 1 }) }, invalid, 'select.1'],
    [{ orderBy: ['id', 'random()'] }, invalid, 'orderBy.1'],
    [{ orderBy: ['event_count DESC'], ...behind(RETENTION) }, invalid, 'orderBy.0'],
    [{ limit: 0 }, invalid, 'limit'],
    [{ limit: 50_001 }, invalid, 'limit'],
    [{ offset: -1 }, invalid, 'offset'],
    [{ properties: [{ key: 'n', value: 1, type: 'event' }] }, invalid, 'properties'],
    [{ fixedProperties: [{ key: 'n', value: 1 }] }, invalid, 'fixedProperties'],
    [{ source: { kind: 'HogQLQuery', query: 'select 1' } }, unsupported, 'source.kind'],
    [{ source: { ...STICKINESS } }, unsupported, 'source.kind'],
    [behind({ kind: 'NopeQuery' }), unsupported, 'kind'],
    [behind({ kind: 'EventsQuery' }), unsupported, 'source.source.kind'],
    [{ source: { kind: 'InsightActorsQuery' } }, invalid, 'source.source'],
    [{ source: { kind: 'StickinessActorsQuery', source: RETENTION } }, invalid, 'source.source'],
    [behind(STICKINESS), invalid, 'source.day'],
    [behind(STICKINESS, { day: 1, compare: 'previous' }), invalid, 'source.compare'],
    [behind(STICKINESS, { day: 1, series: 1 }), invalid, 'source.series'],
    [behind(RETENTION, { interval: 3 }), invalid, 'source.interval'],
  ]
  for (const [query, code, attr] of refused) {
    t.strictSame(await ask({ ...actors, ...query }), { status: 400, code, attr }, attr)
  }
  const lifecycle = { kind: 'LifecycleQuery', series: SERIES, dateRange: RANGE }
  for (const [pick, attr] of [
    [{ status: 'new' }, 'source.day'],
    [{ day: 'someday', status: 'new' }, 'source.day'],
    [{ day: '2023-01-02' }, 'source.status'],
    [{ day: '2023-01-02', status: 'old' }, 'source.status'],
  ] as const) {
    const query = { ...actors, ...behind(lifecycle, pick) }
    t.strictSame(await ask(query), { status: 400, code: invalid, attr }, attr)
  }
  const outside = behind(lifecycle, { day: '2023-02-01', status: 'new' })
  t.strictSame(await firsts({ select: ['id'], ...outside }), [], 'a day outside of the range')
})

t.test('of very many persons only those of the page are read', { skip: atFullDepth }, async (t) => {
  const startMs = Date.parse('2023-01-02T00:00:00Z')
  const { firsts } = await startQueries(
    Array.from({ length: MANY }, (_, index) => ({
      event: index % 2 === 0 ? 'view' : 'other',
      distinct_id: `u${index}`,
      timestamp: new Date(startMs + index * 1000).toISOString(),
      properties: { $set: { n: index } },
    })),
  )
  const views = { ...STICKINESS, series: [{ kind: 'EventsNode', event: null }] }
  const newest = { select: ['properties.n'], orderBy: ['created_at DESC'], limit: 3, offset: 1 }
  const source = behind(views, { day: 1 })
  const expected = [MANY - 2, MANY - 3, MANY - 4]
  t.strictSame(await firsts({ ...newest, ...source }), expected)
  t.strictSame(await firsts(newest), expected)
  const even = behind(STICKINESS, { day: 1 })
  t.strictSame(await firsts({ ...newest, ...even }), [MANY - 4, MANY - 6, MANY - 8])
  const oldest = { ...newest, orderBy: ['created_at'] }
  t.strictSame(await firsts({ ...oldest, ...source }), [1, 2, 3])
  const ids = await firsts({ select: ['id'], ...source, limit: 50_000 })
  t.equal(ids.length, MANY)
  t.strictSame(ids, [...ids].sort())
  t.strictSame(await firsts({ select: ['id'], ...source, limit: 5, offset: 7 }), ids.slice(7, 12))
  const last = { select: ['id'], orderBy: ['id DESC'], limit: 2 }
  t.strictSame(await firsts({ ...last, ...source }), ids.slice(-2).reverse())
  t.strictSame(await firsts(last), ids.slice(-2).reverse())
  const found = { ...newest, ...source, search: `u${MANY - 50}`, offset: 0 }
  t.strictSame(await firsts(found), [MANY - 50])
})
