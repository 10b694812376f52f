/**
 * The event list over HTTP: parameters, paging and errors. A list in memory replaces the store.
 *
 * @lane quick
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../../src/base/clock.ts'
import { ServiceError } from '../../../src/base/errors.ts'
import { rowsText, rowText } from '../../../src/base/rows-writer.ts'
import type { EventQueries } from '../../../src/engine/threads/call-table.ts'
import {
  decodeEventCursor,
  EVENT_ROUTES,
  encodeEventCursor,
} from '../../../src/http/routes/events.ts'
import type { RouteDirectory } from '../../../src/http/server/auth.ts'
import { TrustedProxies } from '../../../src/http/server/url.ts'
import type { EventListQuery, EventView } from '../../../src/rules/events/event-queries.ts'
import { jsonOf, startServer, talk } from '../../fixtures/http-client.ts'

/** Newest first. Events of the same time are listed by arrival, latest first. */
class EventsInMemory implements EventQueries {
  readonly events: EventView[] = []
  readonly queries: EventListQuery[] = []
  failure: Error | null = null

  add(timestampMs: number, name = 'viewed'): void {
    const id = this.events.length + 1
    const timestamp = new Date(timestampMs).toISOString()
    this.events.push({
      id,
      uuid: `00000000-0000-4000-8000-${String(id).padStart(12, '0')}`,
      event: name,
      distinct_id: 'd',
      timestamp,
      created_at: timestamp,
      properties: {},
      person: null,
      person_id: '',
      person_mode: 'full',
      elements_chain: '',
    })
  }

  async listEvents(query: EventListQuery) {
    this.queries.push(query)
    if (this.failure !== null) throw this.failure
    const { cursor, limit } = query
    const rest = this.events
      .map((event) => ({ event, ms: Date.parse(event.timestamp) }))
      .sort((a, b) => b.ms - a.ms || b.event.id - a.event.id)
      .filter(({ event, ms }) => {
        if (cursor === undefined) return true
        return ms < cursor.timestampMs || (ms === cursor.timestampMs && event.id < cursor.id)
      })
    const page = rest.slice(0, limit)
    const last = rest.length > limit ? page.at(-1) : undefined
    const nextCursor = last === undefined ? null : { timestampMs: last.ms, id: last.event.id }
    const text = rowsText(
      'json',
      page.map(({ event }) => event),
    )
    return { ...text, nextCursor }
  }

  async getEvent(projectId: number, uuid: string) {
    const found = this.events.find((event) => projectId === 1 && event.uuid === uuid)
    return found === undefined ? null : rowText('json', found)
  }

  async listWarnings(_projectId: number, limit: number) {
    const warning = { type: 'message_size_too_large', timestamp: '', details: {}, count: 3 }
    return rowsText(
      'json',
      Array.from({ length: Math.min(limit, 2) }, () => warning),
    )
  }
}

const UNLIMITED = {
  keyScopes: [],
  projectIds: 'all',
  keyProjectIds: 'all',
  expiresAtMs: null,
} as const
const DIRECTORY: RouteDirectory = {
  personalKeyByText: (text) => {
    if (text === 'phx_k') return { scopes: ['event:read'], ...UNLIMITED }
    return text === 'phx_flags' ? { scopes: ['feature_flag:write'], ...UNLIMITED } : null
  },
  projectById: (id) => (id <= 2 ? { id, apiKey: `phc_${id}`, isIpAnonymized: false } : null),
  projectByKey: () => null,
  projectBySecretKey: () => null,
  projects: () => [],
  organization: () => null,
}

interface Page {
  readonly next: string | null
  readonly results: readonly EventView[]
}

async function start(t: Parameters<typeof startServer>[0], publicUrl: string | null = null) {
  const queries = new EventsInMemory()
  const trustedProxies = new TrustedProxies([])
  const { port, errors } = await startServer(t, (server) => {
    const directory = DIRECTORY
    const services = { directory, queries, publicUrl, trustedProxies, clock: SYSTEM_CLOCK }
    server.routes(EVENT_ROUTES.map((route) => route.bind(services)))
  })
  const get = async (path: string, headers = 'Authorization: Bearer phx_k\r\n') => {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: t.example:99\r\n${headers}\r\n`
    const received = await talk(port, bytes, { answers: 1 })
    return { status: received.statuses[0], body: jsonOf(received) }
  }
  return { queries, get, errors }
}

const EVENTS = '/api/projects/1/events'

t.test('parameters are translated into a query', async (t) => {
  const { queries, get } = await start(t)
  await get(EVENTS)
  t.same(queries.queries.pop(), { projectId: 1, limit: 100 })
  const filters = [{ key: 'plan', value: ['pro', 1], operator: 'is_not', type: 'person' }]
  const parameters = new URLSearchParams({
    distinct_id: 'a b',
    person_id: '{0190A5E0-0000-7000-8000-00000000000F}',
    event: '$pageview',
    after: '2024-05-01',
    before: '2024-05-01T12:00:00.5+02:00',
    properties: JSON.stringify(filters),
    limit: '7',
    unknown: 'x',
  })
  await get(`/api/projects/@current/events/?${parameters.toString()}`)
  t.same(queries.queries.pop(), {
    projectId: 1,
    limit: 7,
    distinctId: 'a b',
    personId: '0190a5e0-0000-7000-8000-00000000000f',
    event: '$pageview',
    afterMs: Date.parse('2024-05-01T00:00:00Z'),
    beforeMs: Date.parse('2024-05-01T10:00:00.500Z'),
    properties: filters,
  })
  await get(`${EVENTS}?distinct_id=&after=&limit=&properties=&cursor=&person_id=`)
  t.same(queries.queries.pop(), { projectId: 1, limit: 100 }, 'an empty value means absent')
})

t.test('a limit is at most 1000; 0 means the default', async (t) => {
  const { queries, get } = await start(t)
  const limits = { '0': 100, '1': 1, '1000': 1000, '1001': 1000, '1000000000000000000': 1000 }
  for (const [limit, expected] of Object.entries(limits)) {
    t.equal((await get(`${EVENTS}?limit=${limit}`)).status, 200)
    t.equal(queries.queries.pop()?.limit, expected, limit)
  }
})

t.test('an invalid parameter is refused by name', async (t) => {
  const { queries, get } = await start(t)
  const refused: readonly (readonly [string, string])[] = [
    ...['-1', 'NaN', '1.5', '1e3', 'ten', '+-1'].map((text) => ['limit', text] as const),
    ...['yesterday', '2024-02-30', '-7d'].map((text) => ['after', text] as const),
    ['before', '{}'],
    ['person_id', '12'],
    ...['abc', '!!', 'MTIz', 'eDox'].map((text) => ['cursor', text] as const),
    ...['{', '{}', 'null', '"x"', '[1]', '[{}]', '[{"key":1,"value":1}]', '[{"key":"a"}]'].map(
      (text) => ['properties', text] as const,
    ),
    ['properties', '[{"key":"a","value":{}}]'],
    ['properties', '[{"key":"a","value":null}]'],
    ['properties', '[{"key":"a","value":1,"negation":"no"}]'],
    ['properties', '[{"key":"a","value":1,"operator":"like"}]'],
    ['properties', '[{"key":"a","value":1,"type":"cohort"}]'],
    ['properties', JSON.stringify(Array(101).fill({ key: 'a', value: 1 }))],
    ['properties', '['.repeat(5000)],
  ]
  for (const [attr, text] of refused) {
    const answer = await get(`${EVENTS}?${attr}=${encodeURIComponent(text)}`)
    t.match(answer, {
      status: 400,
      body: { type: 'validation_error', code: 'invalid_input', attr },
    })
  }
  t.same(queries.queries, [])
  const isSet = encodeURIComponent('[{"key":"a","operator":"is_set"}]')
  t.equal((await get(`${EVENTS}?properties=${isSet}`)).status, 200, 'is_set needs no value')
})

t.test('next leads through all events exactly once while new events arrive', async (t) => {
  const { queries, get } = await start(t)
  for (let index = 0; index < 25; index++) queries.add(1_700_000_000_000 + (index >> 2) * 1000)
  const seen: number[] = []
  let path: string | null = `${EVENTS}/?limit=4&event=viewed&x=a+b`
  let pageCount = 0
  while (path !== null) {
    const { status, body } = await get(path)
    t.equal(status, 200)
    const page = body as Page
    seen.push(...page.results.map(({ id }) => id))
    if (page.next !== null) {
      const url: URL = new URL(page.next)
      t.equal(url.origin, 'http://t.example:99')
      t.equal(url.pathname, `${EVENTS}/`)
      t.same([url.searchParams.get('event'), url.searchParams.get('x')], ['viewed', 'a b'])
      t.equal(url.searchParams.getAll('cursor').length, 1)
    }
    path = page.next?.replace('http://t.example:99', '') ?? null
    if (pageCount++ < 3) queries.add(1_800_000_000_000 + pageCount)
  }
  t.equal(pageCount, 7)
  t.same(
    seen,
    Array.from({ length: 25 }, (_, index) => 25 - index),
  )
})

t.test('next uses the public URL and ignores a forged header', async (t) => {
  const configured = await start(t, 'https://events.example')
  const plain = await start(t)
  const forged =
    'Authorization: Bearer phx_k\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nForwarded: host=evil.example\r\n'
  for (const [server, origin] of [
    [configured, 'https://events.example'],
    [plain, 'http://t.example:99'],
  ] as const) {
    server.queries.add(1)
    server.queries.add(2)
    const { body } = await server.get(`${EVENTS}?limit=1`, forged)
    t.ok((body as Page).next?.startsWith(`${origin}${EVENTS}?limit=1&cursor=`))
  }
})

t.test('one event can be read by any form of its uuid', async (t) => {
  const { queries, get } = await start(t)
  queries.add(5, 'bought')
  const uuid = queries.events[0]?.uuid ?? ''
  for (const form of [uuid, uuid.toUpperCase(), uuid.replaceAll('-', ''), `%7B${uuid}%7D`]) {
    t.match(await get(`${EVENTS}/${form}/`), { status: 200, body: { event: 'bought', uuid } })
  }
  const missing = await get(`${EVENTS}/${uuid.replace('1', '2')}`)
  t.match(missing, { status: 404, body: { code: 'not_found', type: 'invalid_request' } })
  const foreign = await get(`/api/projects/2/events/${uuid}/`)
  t.same(foreign, missing, 'an event of another project is not found')
  t.equal((await get(`${EVENTS}/1`)).status, 404)
})

t.test('warnings are returned in the envelope of a list', async (t) => {
  const { get } = await start(t)
  const { status, body } = await get('/api/projects/1/ingestion_warnings?limit=1')
  t.equal(status, 200)
  t.match(body, { next: null, results: [{ type: 'message_size_too_large', count: 3 }] })
  const bad = await get('/api/projects/1/ingestion_warnings?limit=x')
  t.match(bad, { status: 400, body: { attr: 'limit' } })
})

t.test('all routes require a key with the scope event:read', async (t) => {
  const { get, queries } = await start(t)
  for (const path of [EVENTS, `${EVENTS}/x/`, '/api/projects/1/ingestion_warnings']) {
    t.equal((await get(path, '')).status, 401)
    t.equal((await get(path, 'Authorization: Bearer phx_flags\r\n')).status, 403)
  }
  t.equal(
    (await get(`${EVENTS}?limit=x`, '')).status,
    401,
    'the key is checked before the parameters',
  )
  t.same(queries.queries, [])
})

t.test(
  'a refusal from the store reaches the client, and the details of a failure do not',
  async (t) => {
    const { get, queries, errors } = await start(t)
    queries.failure = new ServiceError('server_error', 'too many reads', { retryAfterSeconds: 2 })
    t.match(await get(EVENTS), { status: 503, body: { code: 'server_error' } })
    queries.failure = new Error('MDB_PANIC in data.mdb')
    const { status, body } = await get(EVENTS)
    t.equal(status, 500)
    t.notMatch(JSON.stringify(body), /MDB/)
    t.equal(errors.length, 1)
  },
)

t.test('a cursor can be passed in a URL', async (t) => {
  for (const cursor of [
    { timestampMs: 0, id: 1 },
    { timestampMs: -62_167_219_200_000, id: 999_999_999_999_999 },
    { timestampMs: 253_402_300_799_999, id: 1 },
  ]) {
    const text = encodeEventCursor(cursor)
    t.match(text, /^[A-Za-z0-9_-]+$/)
    t.same(decodeEventCursor(text), cursor)
  }
})
