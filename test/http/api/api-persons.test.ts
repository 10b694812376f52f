/**
 * The persons routes over HTTP: parameters, answers and errors. A list in memory replaces the store.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { NOW_MS, person, startPersons, uuidOf } from '../../fixtures/persons/persons-port.ts'

const ACTOR = { userId: 7, firstName: 'Ann', email: 'ann@x.example' }

t.test('a list of persons is a page with the six members of a person', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [
    person(2, { created_at: '2023-01-02T10:00:00.120Z', distinct_ids: ['a-b-c-d-e', 'x'] }),
    person(1),
  ]
  const { status, body } = await ask('1/persons')
  t.equal(status, 200)
  t.strictSame(body, {
    count: 2,
    next: null,
    previous: null,
    results: [
      {
        id: 2,
        name: 'p2',
        distinct_ids: ['a-b-c-d-e', 'x'],
        properties: { plan: 'free' },
        created_at: '2023-01-02T10:00:00.120000Z',
        uuid: uuidOf(2),
      },
      {
        id: 1,
        name: 'p1',
        distinct_ids: ['p1'],
        properties: { plan: 'free' },
        created_at: '2023-01-02T10:00:00Z',
        uuid: uuidOf(1),
      },
    ],
  })
  t.strictSame((await ask('@current/persons/')).body, body)
  t.strictSame((await ask('2/persons/')).body, {
    count: 0,
    next: null,
    previous: null,
    results: [],
  })
})

t.test('parameters of the list come from query and body, and the body has priority', async (t) => {
  const { store, ask } = await startPersons(t)
  const base = { projectId: 1, nowMs: NOW_MS, limit: 100, offset: 0 }
  const filter = { key: 'plan', value: 'pro' }
  const parsed = { type: 'AND', values: [{ key: 'plan', type: 'person', value: 'pro' }] }
  const properties = encodeURIComponent(JSON.stringify([filter]))
  const cases: readonly (readonly [string, unknown, object])[] = [
    ['', undefined, {}],
    [
      '?distinct_id=a%20b&email=e&search=s&cohort=5',
      undefined,
      { distinctId: 'a b', email: 'e', search: 's', cohortId: 5 },
    ],
    ['?email=&search=&limit=&offset=&properties=&cohort=', undefined, {}],
    ['?email=q&search=q', { email: 'b' }, { email: 'b', search: 'q' }],
    ['?limit=5', { limit: 7, offset: '3' }, { limit: 7, offset: 3 }],
    ['?limit=0', undefined, {}],
    ['?limit=99999', undefined, { limit: 10_000 }],
    ['?is_identified=true&unknown=x', undefined, {}],
    [`?properties=${properties}`, undefined, { properties: parsed }],
    ['', { properties: [filter] }, { properties: parsed }],
    ['', { properties: JSON.stringify([filter]) }, { properties: parsed }],
    [`?properties=${properties}`, { properties: [] }, { properties: parsed }],
    [
      `?properties=${encodeURIComponent(JSON.stringify(filter))}&properties=${properties}`,
      undefined,
      { properties: { type: 'AND', values: [parsed.values[0], parsed.values[0]] } },
    ],
    ['', { distinct_id: 12 }, { distinctId: '12' }],
    ['', '', {}],
  ]
  const differences = new Differences()
  for (const [query, body, expected] of cases) {
    const { status } = await ask(`1/persons/${query}`, { body })
    const name = `${query} ${JSON.stringify(body)}`
    differences.equal(status, 200, name)
    differences.same(sorted(store.asked.pop()), sorted({ ...base, ...expected }), name)
  }
  t.strictSame(differences.list(), [], 'every parameter reaches the store')
})

function sorted(value: unknown): unknown {
  return Object.fromEntries(Object.entries(value as object).sort())
}

t.test('an invalid parameter of the list is refused by name', async (t) => {
  const { store, ask } = await startPersons(t)
  const refused: readonly (readonly [string, string])[] = [
    ...['-1', 'x', '1.5', '1e3', '0x1'].map((text) => ['limit', text] as const),
    ...['-1', 'x', 'NaN'].map((text) => ['offset', text] as const),
    ['cohort', 'x'],
    ...['{', '5', '"x"', '[1]', 'true', '['.repeat(5000)].map(
      (text) => ['properties', text] as const,
    ),
  ]
  const differences = new Differences()
  for (const [attr, text] of refused) {
    const answer = await ask(`1/persons/?${attr}=${encodeURIComponent(text)}`)
    const body = { type: 'validation_error', code: 'invalid_input', attr }
    differences.match(answer, { status: 400, body }, `${attr}=${text.slice(0, 20)}`)
  }
  t.strictSame(differences.list(), [], 'every parameter is refused by name')
  for (const [given, attr] of [
    [{ limit: -5 }, 'limit'],
    [{ email: {} }, 'email'],
    [{ search: ['x'] }, 'search'],
    [[1], null],
    ['5', null],
    [`{"a":${'['.repeat(200)}${']'.repeat(200)}}`, null],
  ] as const) {
    const { status, body } = await ask('1/persons/', { body: given })
    t.equal(status, 400)
    t.match(body, { code: 'invalid_input', attr })
  }
  const broken = await ask('1/persons/', { body: '{' })
  t.match(broken, { status: 400, body: { code: 'parse_error', attr: null } })
  const form = await ask('1/persons/', {
    body: 'a=1',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  })
  t.match(form, { status: 415, body: { code: 'unsupported_media_type' } })
  t.strictSame(store.asked, [])
})

t.test('pages are linked by absolute URLs', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [5, 4, 3, 2, 1].map((id) => person(id))
  const links = async (query: string, body?: unknown): Promise<readonly unknown[]> => {
    const page = (await ask(`1/persons/${query}`, { body })).body as Record<string, unknown>
    return [page['next'], page['previous']]
  }
  const url = 'https://t.example/api/projects/1/persons/'
  t.strictSame(await links('?limit=2&email=a+b'), [`${url}?limit=2&email=a+b&offset=2`, null])
  t.strictSame(await links('?limit=2&offset=2'), [
    `${url}?limit=2&offset=4`,
    `${url}?limit=2&offset=0`,
  ])
  t.strictSame(await links('?offset=4&limit=2'), [null, `${url}?offset=2&limit=2`])
  t.strictSame(await links('?limit=5'), [`${url}?limit=5&offset=5`, null], 'a full last page')
  t.strictSame(await links('?limit=5&offset=5'), [null, `${url}?limit=5&offset=0`])
  t.strictSame(await links('?offset=1'), [null, null])
  t.strictSame(await links('?search=offset', { limit: 2 }), [
    `${url}?search=offset&limit=2&offset=2`,
    null,
  ])
})

t.test('one person is found by number and by any form of the uuid', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(17, { distinct_ids: ['a-b-c-d-e', 'x'] })]
  const first = await ask('1/persons/17/')
  t.match(first, { status: 200, body: { id: 17, distinct_ids: ['x', 'a-b-c-d-e'] } })
  for (const form of [uuidOf(17), uuidOf(17).toUpperCase(), uuidOf(17).replaceAll('-', '')]) {
    t.strictSame((await ask(`1/persons/${form}`)).body, first.body)
  }
  for (const path of ['18', '0', '9'.repeat(20), uuidOf(18)]) {
    t.match(await ask(`1/persons/${path}`), {
      status: 404,
      body: { type: 'invalid_request', code: 'not_found', attr: null },
    })
  }
  t.equal((await ask('2/persons/17')).status, 404, 'persons of another project are not found')
  for (const path of ['x', '-1', '1.0', 'user@example.com', '%00', '1e1', '9'.repeat(21)]) {
    const { status, body } = await ask(`1/persons/${path}`)
    t.equal(status, 400, path)
    t.match(body, { type: 'validation_error', code: 'invalid_input', detail: /distinct_id/ })
  }
})

t.test('PATCH and PUT set the named properties', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const set = { plan: 'pro', gone: null, deep: { a: [1] } }
  for (const method of ['PATCH', 'PUT']) {
    const { status, body } = await ask('1/persons/1', { method, body: { properties: set } })
    t.equal(status, 202)
    t.match(body, { id: 1, uuid: uuidOf(1) })
    const command = { kind: 'set_properties', person: 1, set }
    t.strictSame(store.commands.pop(), [1, ACTOR, command])
  }
  const inQuery = `1/persons/1?properties=${encodeURIComponent('{"a":1}')}`
  t.equal((await ask(inQuery, { method: 'PATCH' })).status, 202)
  t.match(store.commands.pop(), [1, ACTOR, { set: { a: 1 } }])
  const odd = '{"properties":{"__proto__":{"x":1},"n\\u0000":"\\ud800","ok":1}}'
  t.equal((await ask('1/persons/1', { method: 'PATCH', body: odd })).status, 202)
  t.strictSame(store.commands.pop()?.[2], {
    kind: 'set_properties',
    person: 1,
    set: JSON.parse('{"n\ufffd":"\ufffd","ok":1}'),
  })
})

t.test('PATCH refuses a body that sets nothing', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const cases: readonly (readonly [unknown, string])[] = [
    [undefined, 'required'],
    [{}, 'required'],
    [{ properties: null }, 'required'],
    [{ properties: [1] }, 'invalid_input'],
    [{ properties: 'text' }, 'invalid_input'],
    [{ properties: 5 }, 'invalid_input'],
  ]
  for (const [body, code] of cases) {
    const answer = await ask('1/persons/1', { method: 'PATCH', body })
    t.match(answer, { status: 400, body: { type: 'validation_error', code, attr: 'properties' } })
  }
  t.match(await ask('1/persons/1', { method: 'PATCH', body: '{' }), {
    status: 400,
    body: { code: 'parse_error' },
  })
  t.strictSame(store.commands, [])
  for (const body of ['{', {}, { properties: { a: 1 } }]) {
    const answer = await ask('1/persons/2', { method: 'PATCH', body })
    t.match(
      answer,
      { status: 404, body: { code: 'not_found' } },
      'an unknown person is reported first',
    )
  }
  store.result = { kind: 'too_large', bytesMax: 524_288 }
  const large = await ask('1/persons/1', { method: 'PATCH', body: { properties: { a: 1 } } })
  t.match(large, {
    status: 400,
    body: { code: 'invalid_input', attr: 'properties', detail: /524288/ },
  })
})

t.test('update_property takes key and value from body or query', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const post = (query: string, body?: unknown) =>
    ask(`1/persons/1/update_property/${query}`, { method: 'POST', body })
  const cases: readonly (readonly [string, unknown, object])[] = [
    ['?key=plan&value=5', undefined, { plan: '5' }],
    ['', { key: 'plan', value: 5 }, { plan: 5 }],
    ['?key=q&value=q', { key: 'b', value: false }, { b: false }],
    ['?key=a', { value: { x: [] } }, { a: { x: [] } }],
    ['?key=a&value=', undefined, { a: '' }],
    ['?key=constructor&value=1', undefined, { constructor: '1' }],
  ]
  for (const [query, body, set] of cases) {
    t.match(await post(query, body), { status: 202, body: { id: 1 } })
    t.strictSame(store.commands.pop()?.[2], { kind: 'set_properties', person: 1, set })
  }
  const refused: readonly (readonly [string, unknown, string, string])[] = [
    ['', undefined, 'required', 'value'],
    ['?key=a', undefined, 'required', 'value'],
    ['?key=a', { value: null }, 'required', 'value'],
    ['?value=a', undefined, 'required', 'key'],
    ['?key=&value=a', undefined, 'required', 'key'],
    ['', { key: {}, value: 1 }, 'invalid_input', 'key'],
    ['?key=__proto__&value=a', undefined, 'invalid_input', 'key'],
  ]
  for (const [query, body, code, attr] of refused) {
    t.match(await post(query, body), { status: 400, body: { code, attr } })
  }
  t.strictSame(store.commands, [])
})

t.test('delete_property takes $unset', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const path = '1/persons/1/delete_property'
  const answer = await ask(path, { method: 'POST', body: { $unset: 'plan', properties: {} } })
  t.match(answer, { status: 201, body: { id: 1, success: true } })
  t.strictSame(store.commands.pop()?.[2], { kind: 'delete_property', person: 1, key: 'plan' })
  t.equal((await ask(`${path}?$unset=a`, { method: 'POST' })).status, 201)
  t.match(store.commands.pop()?.[2], { key: 'a' })
  for (const [body, code] of [
    [undefined, 'required'],
    [{ $unset: '' }, 'required'],
    [{ $unset: ['a'] }, 'invalid_input'],
  ] as const) {
    const refused = await ask(path, { method: 'POST', body })
    t.match(refused, { status: 400, body: { code, attr: '$unset' } })
  }
  t.strictSame(store.commands, [])
})

t.test('DELETE answers 202 without a body and can delete the events too', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const cases: readonly (readonly [string, unknown, boolean])[] = [
    ['', undefined, false],
    ['?delete_events=true', undefined, true],
    ['?delete_events=1', undefined, true],
    ['?delete_events', undefined, true],
    ['?delete_events=false', undefined, false],
    ['?delete_events=False', undefined, false],
    ['?delete_events=0', undefined, false],
    ['', { delete_events: true }, true],
    ['?delete_events=true', { delete_events: false }, false],
    ['', { delete_events: 0 }, false],
    ['', { delete_events: null }, false],
  ]
  for (const [query, body, deletesEvents] of cases) {
    const answer = await ask(`1/persons/1/${query}`, { method: 'DELETE', body })
    t.match(answer, { status: 202, text: '' })
    const command = { kind: 'delete_person', person: 1, deletesEvents }
    t.strictSame(store.commands.pop(), [1, ACTOR, command], query)
  }
  t.match(await ask('1/persons/9', { method: 'DELETE' }), { status: 404 })
  t.match(await ask(`1/persons/${uuidOf(1)}?format=csv`, { method: 'DELETE' }), { status: 202 })
})

t.test('split keeps one distinct_id', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const path = '1/persons/1/split'
  const cases: readonly (readonly [string, unknown, string | null])[] = [
    ['', undefined, null],
    ['', { properties: {} }, null],
    ['', { main_distinct_id: '' }, null],
    ['', { main_distinct_id: null }, null],
    ['', { main_distinct_id: 'a' }, 'a'],
    ['?main_distinct_id=b', undefined, 'b'],
  ]
  for (const [query, body, mainDistinctId] of cases) {
    const answer = await ask(`${path}${query}`, { method: 'POST', body })
    t.match(answer, { status: 201, body: { id: 1, success: true } })
    const command = { kind: 'split_person', person: 1, mainDistinctId }
    t.strictSame(store.commands.pop()?.[2], command)
  }
  store.result = { kind: 'unknown_distinct_id' }
  const unknown = await ask(path, { method: 'POST', body: { main_distinct_id: 'z' } })
  t.match(unknown, { status: 400, body: { code: 'invalid_input', attr: 'main_distinct_id' } })
})

t.test('merge joins all listed persons into one, or none of them', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1), person(2), person(3)]
  const post = (body: unknown, id = '1') => ask(`1/persons/${id}/merge/`, { method: 'POST', body })
  t.match(await post({ ids: [2, uuidOf(3), '2'] }), { status: 201, body: { id: 1, success: true } })
  t.strictSame(
    store.commands.splice(0).map(([, , command]) => command),
    [2, 3].map((id) => ({ kind: 'merge_persons', into: uuidOf(1), from: uuidOf(id) })),
  )
  for (const [body, status, code] of [
    [{}, 400, 'required'],
    [{ ids: [] }, 400, 'invalid_input'],
    [{ ids: 2 }, 400, 'invalid_input'],
    [{ ids: ['x'] }, 400, 'invalid_input'],
    [{ ids: [{}] }, 400, 'invalid_input'],
    [{ ids: [2, 1] }, 400, 'invalid_input'],
    [{ ids: [2, 9] }, 404, 'not_found'],
    [{ ids: Array(1001).fill(2) }, 400, 'invalid_input'],
  ] as const) {
    t.match(await post(body), { status, body: { code } }, JSON.stringify(body).slice(0, 40))
  }
  t.match(await post({ ids: [2] }, '9'), { status: 404 })
  t.strictSame(store.commands, [])
})

t.test('values are returned as an array', async (t) => {
  const { store, ask } = await startPersons(t)
  store.values = [{ name: 'pro', count: 2 }]
  t.strictSame((await ask('1/persons/values/')).body, [])
  t.strictSame((await ask('1/persons/values/?key=&value=x')).body, [])
  t.strictSame(store.asked, [])
  t.strictSame((await ask('1/persons/values?key=plan')).body, store.values)
  t.strictSame(store.asked.pop(), { projectId: 1, key: 'plan', contains: null })
  await ask('1/persons/values?key=plan&value=%25_')
  t.strictSame(store.asked.pop(), { projectId: 1, key: 'plan', contains: '%_' })
  t.equal((await ask('1/persons/values?key=plan&format=csv')).text, 'count,name\r\n2,pro\r\n')
})

t.test('POST on the list and other wrong methods are answered with 405 and a hint', async (t) => {
  const { ask } = await startPersons(t)
  const post = await ask('1/persons/', { method: 'POST', body: {} })
  t.match(post, {
    status: 405,
    headers: { allow: 'GET' },
    body: { type: 'invalid_request', code: 'method_not_allowed', detail: /\$identify/, attr: null },
  })
  for (const [path, method] of [
    ['1/persons/', 'DELETE'],
    ['1/persons/1/', 'POST'],
    ['1/persons/values/', 'POST'],
    ['1/persons/cohorts/', 'POST'],
    ['1/persons/activity/', 'POST'],
    ['1/persons/1/split/', 'GET'],
    ['1/persons/1/update_property/', 'PATCH'],
    ['1/persons/1/delete_property/', 'GET'],
    ['1/persons/1/properties_timeline/', 'POST'],
  ] as const) {
    t.match(
      await ask(path, { method }),
      { status: 405, body: { code: 'method_not_allowed' } },
      path,
    )
  }
})
