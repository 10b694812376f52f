/**
 * Groups and group types over HTTP: lists with cursors, single groups, changes and errors.
 *
 * @lane quick
 */
import t from 'tap'
import type { GroupView } from '../../../src/rules/persons/group-shapes.ts'
import { parseCsv, startPersons } from '../../fixtures/persons/persons-port.ts'

const ACME: GroupView = {
  group_type_index: 0,
  group_key: 'acme',
  group_properties: { size: 5 },
  created_at: '2023-01-02T10:00:00.000Z',
}
const SHOWN = { ...ACME, created_at: '2023-01-02T10:00:00Z' }

t.test('group types are returned as an array', async (t) => {
  const { ask } = await startPersons(t)
  for (const path of ['1/groups_types', '1/groups_types/']) {
    t.strictSame((await ask(path)).body, [
      {
        group_type: 'company',
        group_type_index: 0,
        name_singular: null,
        name_plural: null,
        order: null,
      },
    ])
  }
  t.equal(parseCsv((await ask('1/groups_types?format=csv')).text).length, 2)
})

t.test('groups are listed with cursors', async (t) => {
  const { store, ask } = await startPersons(t)
  store.groups = [ACME]
  store.nextCursor = 'acmé/ "1"'
  const first = await ask('1/groups/?group_type_index=0&limit=1&search=ac')
  t.match(first, { status: 200, body: { previous: null, results: [SHOWN] } })
  t.strictSame(store.asked.pop(), {
    projectId: 1,
    typeIndex: 0,
    search: 'ac',
    limit: 1,
    cursor: null,
  })
  const next = new URL((first.body as { next: string }).next)
  t.equal(next.origin, 'https://t.example')
  store.nextCursor = null
  const second = await ask(`1/groups/${next.search}`)
  t.match(second.body, { next: null })
  t.match(store.asked.pop(), { cursor: 'acmé/ "1"', limit: 1, search: 'ac' })
  await ask('1/groups/?group_type_index=4&limit=5000')
  t.match(store.asked.pop(), { typeIndex: 4, limit: 1000, search: null })
  t.equal(parseCsv((await ask('1/groups/?group_type_index=0&format=csv')).text).length, 2)
})

t.test('one group is found by type and key', async (t) => {
  const { store, ask } = await startPersons(t)
  store.groups = [ACME]
  const found = await ask('1/groups/find?group_type_index=0&group_key=acme')
  t.strictSame(found.body, SHOWN)
  const unknown = await ask('1/groups/find/?group_type_index=1&group_key=acme')
  t.match(unknown, { status: 404, body: { code: 'not_found' } })
})

t.test('a property of a group can be set', async (t) => {
  const { store, ask } = await startPersons(t)
  store.groups = [ACME]
  const path = '1/groups/update_property/?group_type_index=0&group_key=acme'
  const answer = await ask(path, { method: 'POST', body: { key: 'size', value: 6 } })
  t.match(answer, { status: 200, body: SHOWN })
  t.strictSame(store.commands.pop()?.[2], {
    kind: 'set_group_properties',
    typeIndex: 0,
    key: 'acme',
    set: { size: 6 },
  })
  const unknown = await ask(`${path}x`, { method: 'POST', body: { key: 'a', value: 1 } })
  t.match(unknown, { status: 404, body: { code: 'not_found' } })
  store.commands.length = 0
  for (const [body, code, attr] of [
    [{ key: 'a' }, 'required', 'value'],
    [{ value: 1 }, 'required', 'key'],
    [{ key: '__proto__', value: 1 }, 'invalid_input', 'key'],
  ] as const) {
    t.match(await ask(path, { method: 'POST', body }), { status: 400, body: { code, attr } })
  }
  store.result = { kind: 'too_large', bytesMax: 9 }
  const large = await ask(path, { method: 'POST', body: { key: 'a', value: 1 } })
  t.match(large, { status: 400, body: { attr: 'properties' } })
})

t.test('invalid requests are refused', async (t) => {
  const { store, ask } = await startPersons(t)
  const refused: readonly (readonly [string, string, string])[] = [
    ['groups/', 'required', 'group_type_index'],
    ['groups/?group_type_index=', 'required', 'group_type_index'],
    ['groups/?group_type_index=5', 'invalid_input', 'group_type_index'],
    ['groups/?group_type_index=-1', 'invalid_input', 'group_type_index'],
    ['groups/?group_type_index=company', 'invalid_input', 'group_type_index'],
    ['groups/?group_type_index=0&limit=x', 'invalid_input', 'limit'],
    ['groups/?group_type_index=0&cursor=!!', 'invalid_input', 'cursor'],
    ['groups/find?group_type_index=0', 'required', 'group_key'],
    ['groups/find?group_key=a', 'required', 'group_type_index'],
  ]
  for (const [path, code, attr] of refused) {
    t.match(await ask(`1/${path}`), { status: 400, body: { code, attr } }, path)
  }
  t.strictSame(store.asked, [])
  const paths = ['groups_types', 'groups?group_type_index=0', 'groups/find?group_key=a']
  for (const path of paths) {
    t.equal((await ask(`1/${path}`, { key: null })).status, 401)
    t.equal((await ask(`1/${path}`, { key: 'phx_log' })).status, 403)
    t.equal((await ask(`1/${path}`, { key: 'phx_read' })).status, path.includes('find') ? 400 : 200)
  }
  const path = '1/groups/update_property/'
  t.equal((await ask(path, { method: 'POST', key: 'phx_read' })).status, 403)
  t.match(await ask(path), { status: 405, headers: { allow: 'POST' } })
  t.match(await ask('1/groups/?format=xml'), { status: 404, body: { code: 'not_found' } })
})
