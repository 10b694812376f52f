/**
 * The analytic routes over HTTP: the tasks that they send to worker threads, and the shape of their answers.
 *
 * @lane quick
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import type { AnalyticAnswer, AnalyticQuery } from '../../../src/rules/analytics/analytics.ts'
import {
  listedAnswer,
  NOW_MS,
  parseCsv,
  startPersons,
  uuidOf,
} from '../../fixtures/persons/persons-port.ts'

const BASE = 'https://t.example/api/projects/1/persons'

function actor(id: number, value: number | null = null) {
  return {
    type: 'person',
    id: uuidOf(id),
    uuid: uuidOf(id),
    created_at: '2023-01-02T10:00:00Z',
    properties: { plan: 'pro' },
    is_identified: false,
    name: `p${id}`,
    distinct_ids: [`p${id}`, `q${id}`],
    matched_recordings: [],
    value_at_data_point: value,
  }
}

const FULL: AnalyticAnswer = {
  ...listedAnswer([actor(1, 2)]),
  isFull: true,
  missingPersons: 1,
}
const SERIES = encodeURIComponent(JSON.stringify([{ id: 'a', order: 0 }]))

/** A valid request to each route. */
const QUERIES = {
  trends: 'entity_id=a&entity_type=events',
  stickiness: 'entity_id=a&entity_type=events&stickiness_days=2',
  lifecycle: `events=${SERIES}&target_date=2023-01-02&lifecycle_type=new`,
  retention: 'selected_interval=1',
  funnel: `events=${SERIES}&funnel_step=1`,
  'funnel/correlation': `events=${SERIES}&funnel_correlation_person_entity=%7B%22id%22%3A%22b%22%7D`,
  path: 'path_start_key=1_a',
} as const

const names = Object.keys(QUERIES) as (keyof typeof QUERIES)[]

t.test('every route sends its query about the project', async (t) => {
  const { store, ask } = await startPersons(t)
  for (const name of names) {
    t.equal((await ask(`1/persons/${name}/?${QUERIES[name]}&limit=7&offset=3`)).status, 200, name)
    const query = store.asked.pop() as AnalyticQuery
    const kind = name === 'funnel/correlation' ? 'correlation' : name
    t.equal(query.question.kind, kind)
    const page = kind === 'correlation' ? { limit: 100, offset: 0 } : { limit: 7, offset: 3 }
    t.strictSame(query.question.parameters.page, page)
    const { projectId, nowMs, timezone, testAccountFilters } = query
    t.strictSame({ projectId, nowMs, timezone }, { projectId: 1, nowMs: NOW_MS, timezone: 'UTC' })
    t.equal(testAccountFilters.length, 1)
  }
})

t.test('the route of funnels also accepts a correlation query', async (t) => {
  const { store, ask } = await startPersons(t)
  await ask(`1/persons/funnel/?${QUERIES['funnel/correlation']}`)
  t.match(store.asked, [{ question: { kind: 'correlation' } }])
})

t.test('trends, funnels, correlations and paths have the full response envelope', async (t) => {
  const { store, ask } = await startPersons(t)
  store.answer = FULL
  for (const name of ['trends', 'funnel', 'path'] as const) {
    const query = QUERIES[name]
    const { body } = await ask(`1/persons/${name}/?${query}&limit=1&offset=2`)
    const link = (offset: number): string => `${BASE}/${name}/?${query}&limit=1&offset=${offset}`
    t.strictSame(body, {
      results: [{ people: [actor(1, 2)], count: 1 }],
      next: link(3),
      initial: link(0),
      missing_persons: 1,
      is_cached: false,
      last_refresh: new Date(NOW_MS).toISOString(),
    })
  }
  const { body } = await ask(
    `1/persons/funnel/correlation/?${QUERIES['funnel/correlation']}&funnel_correlation_person_limit=1`,
  )
  t.match(body, {
    next: /funnel_correlation_person_limit=1&funnel_correlation_person_offset=1$/,
    initial: /funnel_correlation_person_offset=0$/,
  })
})

t.test('lifecycle and stickiness have a smaller envelope, and retention has its own', async (t) => {
  const { store, ask } = await startPersons(t)
  store.answer = FULL
  for (const name of ['lifecycle', 'stickiness'] as const) {
    const { body } = await ask(`1/persons/${name}/?${QUERIES[name]}`)
    const next = `${BASE}/${name}/?${QUERIES[name]}&offset=100`
    t.strictSame(body, { results: [{ people: [actor(1, 2)], count: 1 }], next })
  }
  const came = { person: actor(1, 2), appearances: [1, 0, 1] }
  store.answer = { ...listedAnswer([came]), missingPersons: 1 }
  t.strictSame((await ask('1/persons/retention')).body, {
    result: [{ person: actor(1, 2), appearances: [1, 0, 1] }],
    next: null,
    missing_persons: 1,
  })
})

t.test('totals are returned on request', async (t) => {
  const { store, ask } = await startPersons(t)
  store.answer = { ...FULL, total: 12, totals: [12, 3] }
  for (const name of names) {
    const path = `1/persons/${name}/?${QUERIES[name]}&include_total=`
    const { body } = await ask(`${path}true`)
    t.match(body, { total: 12 }, name)
    t.equal(Object.hasOwn(body as object, 'totals'), name === 'retention')
    const plain = await ask(`${path}false`)
    t.notOk(Object.hasOwn(plain.body as object, 'total'), name)
  }
})

t.test('a body has priority over the query string, and links repeat its limit', async (t) => {
  const { store, ask } = await startPersons(t)
  store.answer = FULL
  const body = { events: [{ id: 'b' }], funnel_step: 2, limit: 1 }
  const answer = await ask(`1/persons/funnel/?events=${SERIES}&offset=1`, { method: 'POST', body })
  t.match(store.asked, [
    { question: { parameters: { events: [{ id: 'b' }], step: 2, page: { limit: 1, offset: 1 } } } },
  ])
  const start = `${BASE}/funnel/?events=${SERIES}`
  t.match(answer.body, { next: `${start}&offset=2&limit=1`, initial: `${start}&offset=0&limit=1` })
})

t.test('tables have one line for each person', async (t) => {
  const { store, ask } = await startPersons(t)
  store.answer = listedAnswer([actor(1, 2), actor(2)])
  const table = parseCsv((await ask(`1/persons/trends/?${QUERIES.trends}&format=csv`)).text)
  t.equal(table.length, 3)
  t.strictSame(table[0]?.slice(0, 4), ['created_at', 'distinct_ids.0', 'distinct_ids.1', 'id'])
  store.answer = listedAnswer([{ person: actor(1, 2), appearances: [1, 0] }])
  const csv = await ask('1/persons/retention/', { headers: { Accept: 'text/csv' } })
  const [header = [], row = []] = parseCsv(csv.text)
  t.equal(row[header.indexOf('appearances.1')], '0')
  t.equal(row[header.indexOf('person.name')], 'p1')
  store.answer = listedAnswer([])
  t.equal((await ask(`1/persons/trends/?${QUERIES.trends}&format=csv`)).text, '')
  t.match(await ask(`1/persons/trends/?${QUERIES.trends}&format=xml`), { status: 404 })
})

t.test('an invalid query is refused', async (t) => {
  const { store, ask } = await startPersons(t)
  const cases: readonly (readonly [string, string, string | null])[] = [
    ['trends/?entity_type=events&limit=x', 'invalid_input', 'limit'],
    ['trends/?entity_type=events&offset=-1', 'invalid_input', 'offset'],
    ['trends/?entity_type=events&properties={', 'invalid_input', 'properties'],
    ['funnel/?funnel_step=x', 'invalid_input', 'funnel_step'],
    ['path/?path_groupings=x', 'invalid_input', 'path_groupings'],
  ]
  for (const [path, code, attr] of cases) {
    t.match(await ask(`1/persons/${path}`), { status: 400, body: { code, attr } }, path)
  }
  for (const [name, query] of [
    ['target_date', 'lifecycle_type=new'],
    ['lifecycle_type', 'target_date=2023-01-01'],
  ] as const) {
    const answer = await ask(`1/persons/lifecycle/?${query}`)
    t.match(answer, { status: 400, body: { message: 'Missing parameter', detail: name } })
  }
  t.strictSame(store.asked, [], 'no task reached a thread')
  for (const [code, status] of [
    ['query_timeout', 504],
    ['query_too_large', 400],
    ['server_error', 503],
    ['required', 400],
  ] as const) {
    store.failure = new ServiceError(code, 'no')
    t.match(await ask(`1/persons/trends/?${QUERIES.trends}`), { status, body: { code } })
  }
})

t.test('routes require a key, a project and the right method', async (t) => {
  const { ask } = await startPersons(t)
  for (const name of names) {
    t.match(await ask(`1/persons/${name}`, { key: null }), { status: 401 }, name)
    t.match(await ask(`1/persons/${name}`, { key: 'phx_log' }), { status: 403 }, name)
    t.match(await ask(`9/persons/${name}`), { status: 404 }, name)
    t.match(await ask(`1/persons/${name}`, { method: 'DELETE' }), { status: 405 }, name)
    const isPosted = name.startsWith('funnel') || name === 'path'
    const answer = await ask(`1/persons/${name}?${QUERIES[name]}`, { method: 'POST', body: {} })
    t.equal(answer.status, isPosted ? 200 : 405, name)
  }
})

t.test('a query is canceled when its client disconnects', async (t) => {
  const { store, port } = await startPersons(t)
  store.isStalled = true
  const socket = connect(port, '127.0.0.1')
  const head = `GET /api/projects/1/persons/trends/?${QUERIES.trends} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer phx_k\r\n\r\n`
  socket.write(head)
  while (store.asked.length === 0) await sleep(5)
  t.equal(store.canceledCount, 0)
  socket.destroy()
  for (let attempt = 0; attempt < 6000 && store.canceledCount === 0; attempt++) await sleep(10)
  t.equal(store.canceledCount, 1)
})
