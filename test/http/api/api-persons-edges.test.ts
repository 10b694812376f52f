/**
 * Common behavior of all persons routes: keys and scopes, backend failures, tables and formats.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { parseCsv, person, startPersons, uuidOf } from '../../fixtures/persons/persons-port.ts'

t.test('keys and scopes are checked first', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const none = await ask('1/persons/x?format=xml&limit=x', { key: null })
  t.match(none, {
    status: 401,
    headers: { 'www-authenticate': 'Bearer' },
    body: { type: 'authentication_error', code: 'not_authenticated' },
  })
  const unknown = await ask('1/persons/', { key: 'phx_other' })
  t.match(unknown, { status: 401, body: { code: 'authentication_failed' } })
  t.match(await ask('1/persons/', { key: 'phx_log' }), {
    status: 403,
    body: { type: 'authentication_error', code: 'permission_denied' },
  })
  t.equal((await ask('2/persons/', { key: 'phx_read' })).status, 403)
  t.equal((await ask('1/persons/', { key: 'phx_read' })).status, 200)
  t.equal((await ask('7/persons/')).status, 404)
  t.equal((await ask('1/persons/', { key: null, body: { personal_api_key: 'phx_k' } })).status, 200)
  const writes = [
    ['PATCH', '1/persons/1'],
    ['PUT', '1/persons/1'],
    ['DELETE', '1/persons/1'],
    ['POST', '1/persons/1/split'],
    ['POST', '1/persons/1/merge'],
    ['POST', '1/persons/1/update_property'],
    ['POST', '1/persons/1/delete_property'],
  ] as const
  for (const [method, path] of writes) {
    t.equal((await ask(path, { method, body: '{', key: 'phx_read' })).status, 403, path)
  }
  t.strictSame(store.commands, [])
})

t.test(
  'a refusal of the log reaches the client, and the details of a failure do not',
  async (t) => {
    const { store, ask, errors } = await startPersons(t)
    store.persons = [person(1)]
    store.failure = new ServiceError('server_error', 'the disk is full', { retryAfterSeconds: 5 })
    t.match(await ask('1/persons/1', { method: 'DELETE' }), {
      status: 503,
      headers: { 'retry-after': '5' },
      body: { type: 'server_error', code: 'server_error' },
    })
    store.failure = new ServiceError('throttled', 'slow down', { retryAfterSeconds: 1 })
    t.match(await ask('1/persons/'), { status: 429, body: { type: 'throttled_error' } })
    store.failure = new Error('MDB_PANIC')
    const { status, body, text } = await ask('1/persons/')
    t.equal(status, 500)
    t.match(body, { type: 'server_error', code: 'error', attr: null })
    t.notMatch(text, /MDB/)
    t.equal(errors.length, 1)
  },
)

t.test('tables are selected by parameter or header and contain the whole list', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [
    person(2, { properties: { plan: '=1+1', 'a,b': null, ok: true }, distinct_ids: ['x', 'y'] }),
    person(1),
  ]
  const csv = await ask('1/persons/?format=csv&limit=1&offset=1')
  t.equal(csv.headers['content-type'], 'text/csv; charset=utf-8')
  t.match(store.asked.pop(), { limit: 10_000, offset: 0 })
  const columns = 'created_at,distinct_ids.0,distinct_ids.1,id,name,"properties.a,b",properties.ok'
  t.equal(csv.text.split('\r\n')[0], `${columns},properties.plan,uuid`)
  t.strictSame(parseCsv(csv.text).slice(1), [
    ['2023-01-02T10:00:00Z', 'x', 'y', '2', 'p2', '', 'True', "'=1+1", uuidOf(2)],
    ['2023-01-02T10:00:00Z', 'p1', '', '1', 'p1', '', '', 'free', uuidOf(1)],
  ])
  const accepted = await ask('1/persons/', { headers: { Accept: 'text/csv;q=0.9, */*' } })
  t.equal(accepted.text, csv.text)
  for (const Accept of ['*/*', 'application/json, text/csv', 'text/html']) {
    t.equal((await ask('1/persons/', { headers: { Accept } })).body !== undefined, true, Accept)
  }
  const named = await ask('1/persons/?format=json', { headers: { Accept: 'text/csv' } })
  t.not(named.body, undefined, 'the parameter has priority')
  const empty = await ask('2/persons/?format=csv')
  t.match(empty, { status: 200, text: '', headers: { 'content-type': /^text\/csv/ } })
  t.equal(parseCsv((await ask('1/persons/1?format=csv')).text).length, 2)
  const patched = await ask('1/persons/1?format=csv', { method: 'PATCH', body: { properties: {} } })
  t.equal(patched.status, 202)
  t.equal(parseCsv(patched.text).length, 2)
  const split = await ask('1/persons/1/split?format=csv', { method: 'POST' })
  t.ok(parseCsv(split.text)[0]?.includes('success'))
})

t.test('an unknown format is 404, and errors are JSON in every format', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  for (const path of [
    '',
    '1',
    'values',
    'activity',
    '1/activity',
    '1/properties_timeline',
    'cohorts?person_id=1',
  ]) {
    const mark = path.includes('?') ? '&' : '?'
    const { status, body } = await ask(`1/persons/${path}${mark}format=xml`)
    t.equal(status, 404, path)
    t.match(body, { type: 'invalid_request', code: 'not_found', attr: null })
  }
  const unknown = await ask('1/persons/1?format=xml', { method: 'PATCH', body: { properties: {} } })
  t.equal(unknown.status, 404)
  t.strictSame(store.commands, [])
  const refused = await ask('1/persons/?format=csv&limit=x')
  t.match(refused, { status: 400, body: { attr: 'limit' } })
  t.match(await ask('1/persons/9?format=csv'), { status: 404, body: { code: 'not_found' } })
})
