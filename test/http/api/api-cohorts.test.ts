/**
 * Cohorts over HTTP: definitions, tables of distinct ids, references between cohorts, and errors.
 *
 * @lane quick
 */
import t from 'tap'
import { cohort, parseCsv, startPersons, uuidOf } from '../../fixtures/persons/persons-port.ts'

const PRO = { key: 'plan', value: 'pro', type: 'person' }
const TREE = { type: 'OR', values: [{ type: 'AND', values: [PRO] }] }
const SHOWN = { created_at: '2023-01-02T10:00:00Z' }

t.test('cohorts are listed in pages and can be read by number', async (t) => {
  const { store, ask } = await startPersons(t)
  store.cohorts = [cohort(2), cohort(1, { is_static: true, filters: {}, count: 3 })]
  const { body } = await ask('1/cohorts?limit=1')
  t.strictSame(body, {
    count: 2,
    next: 'https://t.example/api/projects/1/cohorts?limit=1&offset=1',
    previous: null,
    results: [{ ...cohort(2), ...SHOWN }],
  })
  t.strictSame((await ask('1/cohorts/2/')).body, { ...cohort(2), ...SHOWN })
  for (const path of ['1/cohorts/9', '1/cohorts/x', '1/cohorts/0', '2/cohorts/2']) {
    t.match(await ask(path), { status: 404, body: { code: 'not_found' } }, path)
  }
  t.equal(parseCsv((await ask('1/cohorts?format=csv')).text).length, 3)
  t.equal(parseCsv((await ask('1/cohorts/2?format=csv')).text).length, 2)
})

t.test('a dynamic cohort is created from a tree of person filters', async (t) => {
  const { store, ask } = await startPersons(t)
  const forms = [TREE, { properties: TREE }, JSON.stringify({ properties: TREE })]
  for (const filters of forms) {
    const body = { name: ' Pro ', description: 'd', filters, groups: [] }
    const answer = await ask('1/cohorts/', { method: 'POST', body })
    t.match(answer, { status: 201, body: { id: 9, ...SHOWN } })
    t.strictSame(store.commands.pop()?.[2], {
      kind: 'create_cohort',
      cohort: {
        name: 'Pro',
        description: 'd',
        isStatic: false,
        filters: TREE,
        personUuids: [],
        distinctIds: [],
      },
    })
  }
})

t.test('a static cohort is created from uuids, distinct ids or a table', async (t) => {
  const { store, ask } = await startPersons(t)
  const base = { description: '', isStatic: true, filters: null, personUuids: [], distinctIds: [] }
  const post = (query: string, body: unknown, type = 'application/json') =>
    ask(`1/cohorts/${query}`, { method: 'POST', body, headers: { 'Content-Type': type } })
  const uuid = uuidOf(1).toUpperCase()
  const cases: readonly (readonly [string, unknown, string, object])[] = [
    ['', { name: 'a', is_static: true }, 'application/json', {}],
    ['', { name: 'a', is_static: 'True', person_uuids: [uuid] }, '', { personUuids: [uuidOf(1)] }],
    [
      '',
      { name: 'a', is_static: true, _create_static_person_ids: [uuid], filters: {} },
      '',
      { personUuids: [uuidOf(1)] },
    ],
    ['', { name: 'a', is_static: true, distinct_ids: ['x'] }, '', { distinctIds: ['x'] }],
    ['?name=a', 'distinct_id\r\nx\r\n"y,""z"\r\n', 'text/csv', { distinctIds: ['x', 'y,"z'] }],
    ['?name=a', 'x,1\ny,2', 'text/csv; charset=utf-8', { distinctIds: ['x', 'y'] }],
    ['?name=a', 'name;distinct_id\nAnn;x\nBob;"y"', 'text/csv', { distinctIds: ['x', 'y'] }],
    ['?name=a', 'name\tDistinct_ID\nAnn\tx', 'text/csv', { distinctIds: ['x'] }],
    ['?name=a', `id\n${uuidOf(1)}\nnobody`, 'text/csv', { personUuids: [uuidOf(1)] }],
    ['?name=a', 'id\nx\ny', 'text/csv', { distinctIds: ['x', 'y'] }],
    [
      '?name=a',
      `distinct_ids.0,distinct_ids.1,uuid\nx,y,${uuidOf(1)}\n,z,${uuidOf(2)}\n,,${uuidOf(3)}`,
      'text/csv',
      { distinctIds: ['x', 'z'], personUuids: [uuidOf(3)] },
    ],
    [
      '?name=a',
      `uuid,person_id\n${uuidOf(8)},${uuidOf(1)}`,
      'text/csv',
      { personUuids: [uuidOf(1)] },
    ],
    ['?name=a', "distinct_id\n'=y\n'z", 'text/csv', { distinctIds: ['=y', "'=y", "'z"] }],
  ]
  for (const [query, body, type, expected] of cases) {
    t.equal((await post(query, body, type)).status, 201, JSON.stringify(body))
    const command = store.commands.pop()?.[2]
    const wish = type.startsWith('text/csv') ? { needsMembers: true } : {}
    const made = { kind: 'create_cohort', cohort: { name: 'a', ...base, ...expected }, ...wish }
    t.strictSame(command, made)
  }
})

t.test('an invalid cohort is refused', async (t) => {
  const { store, ask } = await startPersons(t)
  store.cohorts = [cohort(3, { deleted: true })]
  const named = { name: 'a' }
  const inCohort = (value: unknown) => ({
    ...named,
    filters: [{ type: 'cohort', key: 'id', value }],
  })
  const refused: readonly (readonly [unknown, string, string | null])[] = [
    [undefined, 'required', 'name'],
    [{ filters: TREE }, 'required', 'name'],
    [{ name: ' ', filters: TREE }, 'required', 'name'],
    [{ name: 5, filters: TREE }, 'invalid_input', 'name'],
    [{ name: 'x'.repeat(401), filters: TREE }, 'invalid_input', 'name'],
    [{ ...named, description: 'x'.repeat(1001), filters: TREE }, 'invalid_input', 'description'],
    [{ ...named, is_static: 'maybe' }, 'invalid_input', 'is_static'],
    [named, 'required', 'filters'],
    [{ ...named, filters: null }, 'required', 'filters'],
    [{ ...named, filters: 'null' }, 'required', 'filters'],
    [{ ...named, filters: { properties: null } }, 'required', 'filters'],
    [{ ...named, filters: {} }, 'required', 'filters'],
    [{ ...named, filters: [] }, 'invalid_input', 'filters'],
    [{ ...named, filters: [{ ...PRO, type: 'behavioral' }] }, 'invalid_input', 'filters'],
    [{ ...named, filters: [{ ...PRO, type: 'event' }] }, 'invalid_input', 'filters'],
    [{ ...named, filters: [{ ...PRO, operator: 'like' }] }, 'invalid_input', 'filters'],
    [{ ...named, filters: '{' }, 'invalid_input', 'filters'],
    [inCohort(8), 'invalid_input', 'filters'],
    [inCohort('x'), 'invalid_input', 'filters'],
    [inCohort(3), 'invalid_input', 'filters'],
    [{ ...named, is_static: true, filters: TREE }, 'invalid_input', 'filters'],
    [{ ...named, is_static: true, person_uuids: ['x'] }, 'invalid_input', 'person_uuids'],
    [{ ...named, is_static: true, person_uuids: 'x' }, 'invalid_input', 'person_uuids'],
    [{ ...named, is_static: true, person_uuids: '[]' }, 'invalid_input', 'person_uuids'],
    [{ ...named, is_static: true, distinct_ids: '' }, 'invalid_input', 'distinct_ids'],
    [{ ...named, is_static: true, distinct_ids: [5] }, 'invalid_input', 'distinct_ids'],
    [{ ...named, filters: TREE, distinct_ids: ['x'] }, 'invalid_input', 'distinct_ids'],
    [{ ...named, filters: TREE, person_uuids: [uuidOf(1)] }, 'invalid_input', 'person_uuids'],
    ['{', 'parse_error', null],
    ['[]', 'invalid_input', null],
  ]
  for (const [body, code, attr] of refused) {
    const answer = await ask('1/cohorts/', { method: 'POST', body })
    t.match(answer, { status: 400, body: { code, attr } }, JSON.stringify(body)?.slice(0, 60))
  }
  const headers = { 'Content-Type': 'text/csv' }
  for (const [path, body, code, attr] of [
    ['1/cohorts?name=a', '"x', 'invalid_input', 'csv'],
    ['1/cohorts', 'x', 'required', 'name'],
    ['1/cohorts?name=a&is_static=false', 'x', 'invalid_input', 'distinct_ids'],
    ['1/cohorts?name=a', 'x\n'.repeat(100_001), 'invalid_input', 'csv'],
  ] as const) {
    const answer = await ask(path, { method: 'POST', body, headers })
    t.match(answer, { status: 400, body: { code, attr } })
  }
  t.strictSame(store.commands, [])
  store.result = { kind: 'no_members' }
  const nobody = await ask('1/cohorts?name=a', { method: 'POST', body: 'x', headers })
  t.match(nobody, { status: 400, body: { code: 'invalid_input', attr: 'csv' } })
})

t.test('PATCH changes only the members in its body', async (t) => {
  const { store, ask } = await startPersons(t)
  store.cohorts = [cohort(1), cohort(2, { is_static: true, filters: {} })]
  const cases: readonly (readonly [number, unknown, object])[] = [
    [1, { name: 'b' }, { name: 'b' }],
    [1, { deleted: true }, { deleted: true }],
    [1, { deleted: false, description: '' }, { deleted: false, description: '' }],
    [1, { filters: TREE, is_static: false }, { filters: TREE }],
    [2, { filters: {}, distinct_ids: ['x'] }, { distinctIds: ['x'] }],
    [2, { person_uuids: [uuidOf(3)] }, { personUuids: [uuidOf(3)] }],
    [1, {}, {}],
  ]
  for (const [id, body, changes] of cases) {
    const answer = await ask(`1/cohorts/${id}`, { method: 'PATCH', body })
    t.match(answer, { status: 200, body: { id } }, JSON.stringify(body))
    t.strictSame(store.commands.pop()?.[2], { kind: 'update_cohort', id, changes })
  }
  const headers = { 'Content-Type': 'text/csv' }
  const table = await ask('1/cohorts/2', { method: 'PATCH', body: 'x\ny', headers })
  t.equal(table.status, 200)
  t.match(store.commands.pop()?.[2], { changes: { distinctIds: ['x', 'y'] } })
  const refused: readonly (readonly [number, unknown, string])[] = [
    [1, { name: '' }, 'name'],
    [1, { is_static: true }, 'is_static'],
    [1, { distinct_ids: ['x'] }, 'distinct_ids'],
    [2, { filters: TREE }, 'filters'],
  ]
  for (const [id, body, attr] of refused) {
    const answer = await ask(`1/cohorts/${id}`, { method: 'PATCH', body })
    t.match(answer, { status: 400, body: { code: 'invalid_input', attr } })
  }
  t.equal((await ask('1/cohorts/1', { method: 'PATCH', body: 'x', headers })).status, 400)
  t.equal((await ask('1/cohorts/9', { method: 'PATCH', body: '{' })).status, 404)
  t.strictSame(store.commands, [])
})

t.test('a cohort cannot refer to itself, not even through other cohorts', async (t) => {
  const { store, ask } = await startPersons(t)
  const refersTo = (value: number) => ({
    properties: { type: 'AND', values: [{ key: 'id', type: 'cohort', value }] },
  })
  store.cohorts = [
    cohort(1),
    cohort(2, { filters: refersTo(1) }),
    cohort(3, { filters: refersTo(2) }),
  ]
  for (const value of [1, 2, 3]) {
    const body = { filters: refersTo(value) }
    const answer = await ask('1/cohorts/1', { method: 'PATCH', body })
    t.match(answer, { status: 400, body: { code: 'invalid_input', attr: 'filters' } })
  }
  const fine = await ask('1/cohorts/3', { method: 'PATCH', body: { filters: refersTo(1) } })
  t.equal(fine.status, 200)
  store.result = { kind: 'circle' }
  const late = await ask('1/cohorts/3', { method: 'PATCH', body: { filters: refersTo(1) } })
  t.match(late, { status: 400, body: { code: 'invalid_input', attr: 'filters' } })
})

t.test('methods, scopes and formats', async (t) => {
  const { store, ask } = await startPersons(t)
  store.cohorts = [cohort(1)]
  t.match(await ask('1/cohorts/1', { method: 'DELETE' }), {
    status: 405,
    headers: { allow: 'GET, PATCH, PUT' },
    body: { code: 'method_not_allowed', detail: /deleted/ },
  })
  t.match(await ask('1/cohorts', { method: 'PATCH' }), { headers: { allow: 'GET, POST' } })
  t.equal((await ask('1/cohorts', { key: null })).status, 401)
  t.equal((await ask('1/cohorts', { key: 'phx_log' })).status, 403)
  t.equal((await ask('1/cohorts', { key: 'phx_read' })).status, 200)
  t.equal((await ask('1/cohorts', { key: 'phx_read', method: 'POST', body: '{' })).status, 403)
  t.equal((await ask('1/cohorts/1', { key: 'phx_read', method: 'PATCH' })).status, 403)
  t.match(await ask('1/cohorts?format=xml'), { status: 404, body: { code: 'not_found' } })
})
