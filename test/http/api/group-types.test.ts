/**
 * Group types over HTTP: named, ordered, deleted, and closed to new types. A reused index refers to the new type only.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const TYPES = 'groups_types/'
const METADATA = `${TYPES}update_metadata/`

async function start() {
  const daemon = await shareDecisions()
  const visit = (groups: Json, day = 2): Json => ({
    event: 'visit',
    distinct_id: 'ann',
    timestamp: `2023-01-0${day}T12:00:00Z`,
    properties: { $groups: groups },
  })
  const types = async () => {
    const { body } = await daemon.api('GET', TYPES)
    return (body as unknown as readonly Json[]).map((type) => [
      type['group_type_index'],
      type['group_type'],
    ])
  }
  const series = (typeIndex: number, more: Json = {}) => [
    { kind: 'EventsNode', event: 'visit', math_group_type_index: typeIndex, ...more },
  ]
  const trend = async (query: Json): Promise<unknown> => {
    const dateRange = { date_from: '2023-01-01', date_to: '2023-01-09' }
    const whole = { kind: 'TrendsQuery', dateRange, ...query }
    const { body } = await daemon.api('POST', 'query/', 1, { query: whole })
    return (body['results'] as readonly Json[]).map(({ label, data }) => [label, data])
  }
  const groupCounts = async (typeIndex: number): Promise<unknown> => {
    const [found] = (await trend({
      series: series(typeIndex, { math: 'unique_group' }),
    })) as readonly (readonly [string, readonly number[]])[]
    return found?.[1]
  }
  return { daemon, visit, types, trend, series, groupCounts }
}

t.test(
  'a deleted type frees its index, and the index then refers to the new type only',
  async (t) => {
    const { daemon, visit, types, trend, groupCounts } = await start()
    const junk = { a: '1', b: '1', c: '1', d: '1', e: '1' }
    const identify = { $group_type: 'b', $group_key: '1', $group_set: { name: 'junk' } }
    await daemon.capture([
      visit(junk),
      visit({ ...junk, b: '2' }),
      { event: '$groupidentify', distinct_id: 'ann', properties: identify },
      visit({ company: 'acme' }),
    ])
    const before = await types()
    t.equal(before.length, 5)
    t.notOk(
      before.some(([, type]) => type === 'company'),
      'there is no room',
    )
    t.strictSame(await groupCounts(1), [0, 2, 0, 0, 0, 0, 0, 0, 0])

    t.equal((await daemon.api('DELETE', `${TYPES}1/`)).status, 204)
    t.strictSame(
      await types(),
      before.filter(([index]) => index !== 1),
    )
    t.strictSame(await groupCounts(1), [0, 0, 0, 0, 0, 0, 0, 0, 0], 'its groups no longer count')
    t.equal((await daemon.api('DELETE', `${TYPES}1/`)).status, 404)
    t.equal((await daemon.api('DELETE', `${TYPES}9/`)).status, 400)

    const set = { $group_type: 'company', $group_key: '2', $group_set: { plan: 'pro' } }
    await daemon.capture([
      visit({ company: 'acme' }, 3),
      { event: '$groupidentify', distinct_id: 'ann', properties: set },
    ])
    t.strictSame(
      (await types()).find(([index]) => index === 1),
      [1, 'company'],
    )
    t.strictSame(
      await groupCounts(1),
      [0, 0, 1, 0, 0, 0, 0, 0, 0],
      'earlier events have no company',
    )
    const { body } = await daemon.api('GET', 'groups/?group_type_index=1')
    const keys = (body['results'] as readonly Json[]).map((group) => group['group_key'])
    t.strictSame(keys, ['2'], 'groups of the deleted type are gone')
    const filter = {
      key: 'plan',
      type: 'group',
      group_type_index: 1,
      operator: 'exact',
      value: 'pro',
    }
    const filtered = { kind: 'EventsNode', event: 'visit', properties: [filter] }
    t.strictSame(
      await trend({ series: [filtered] }),
      [['visit', [0, 0, 0, 0, 0, 0, 0, 0, 0]]],
      'group 2 of the deleted type is not company 2',
    )
  },
)

t.test('a type that flags use cannot be deleted', async (t) => {
  const { daemon, visit, types } = await start()
  await daemon.capture([visit({ company: 'acme', team: 'red' })])
  const condition = { properties: [], rollout_percentage: 100 }
  const filters = { groups: [condition], aggregation_group_type_index: 0 }
  const flag = await daemon.api('POST', 'feature_flags/', 1, { key: 'by-company', filters })
  t.equal(flag.status, 201)
  const { status, body } = await daemon.api('DELETE', `${TYPES}0/`)
  t.equal(status, 409)
  t.match(body, { code: 'conflict', attr: 'group_type_index', detail: /by-company/ })
  t.equal((await types()).length, 2)
  await daemon.api('PATCH', `feature_flags/${String(flag.body['id'])}/`, 1, { deleted: true })
  t.equal((await daemon.api('DELETE', `${TYPES}0/`)).status, 204)
})

t.test('a type that a launched experiment counts cannot be deleted', async (t) => {
  const { daemon, visit } = await start()
  await daemon.capture([visit({ company: 'acme' })])
  const made = await daemon.api('POST', 'experiments/', 1, {
    name: 'Companies',
    feature_flag_key: 'of-companies',
    parameters: { aggregation_group_type_index: 0 },
    start_date: new Date(Date.now() - 60_000).toISOString(),
  })
  t.equal(made.status, 201)
  const { id, filters } = made.body['feature_flag'] as Json
  const persons = { ...(filters as Json), aggregation_group_type_index: null }
  const changed = await daemon.api('PATCH', `feature_flags/${String(id)}/`, 1, { filters: persons })
  t.equal(changed.status, 200, 'the experiment still counts companies')
  const path = `experiments/${String(made.body['id'])}/`
  const end_date = new Date().toISOString()
  for (const body of [{}, { end_date }, { archived: true }]) {
    t.equal((await daemon.api('PATCH', path, 1, body)).status, 200)
    t.match(await daemon.api('DELETE', `${TYPES}0/`), {
      status: 409,
      body: { code: 'conflict', attr: 'group_type_index', detail: /"Companies"/ },
    })
  }
  const scopes = ['group:write']
  const key = await daemon.ask('/api/personal_api_keys/', {
    headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    json: { label: 'Groups', scopes },
  })
  const blind = await daemon.ask(daemon.path(1, `${TYPES}0/`), {
    method: 'DELETE',
    headers: { Authorization: `Bearer ${String(key.body['value'])}` },
  })
  t.match(blind, {
    status: 409,
    body: { detail: /^The group type is used by experiments \(1\)\. / },
  })
  await daemon.api('PATCH', path, 1, { deleted: true })
  t.equal((await daemon.api('DELETE', `${TYPES}0/`)).status, 204)
})

t.test('types have names and an order', async (t) => {
  const { daemon, visit, types } = await start()
  await daemon.capture([visit({ company: 'acme', team: 'red' })])
  const company = { group_type_index: 0, name_singular: 'Company', name_plural: 'Companies' }
  const patch = (changes: unknown) => daemon.api('PATCH', METADATA, 1, changes as Json)
  const changed = await patch([
    { ...company, order: 2 },
    { group_type_index: 1, order: 1 },
  ])
  t.equal(changed.status, 200)
  t.strictSame(changed.body, [
    { group_type: 'team', group_type_index: 1, name_singular: null, name_plural: null, order: 1 },
    { group_type: 'company', ...company, order: 2 },
  ])
  t.strictSame((await daemon.api('GET', TYPES)).body, changed.body)
  t.equal((await patch([{ group_type_index: 4, name_plural: 'x' }])).status, 404)
  t.equal((await patch([{ group_type_index: 0, name_plural: 5 }])).status, 400)
  await daemon.api('DELETE', `${TYPES}0/`)
  await daemon.capture([visit({ firm: 'acme' })])
  t.strictSame(
    await types(),
    [
      [1, 'team'],
      [0, 'firm'],
    ],
    'a new type has none of the names',
  )
})

t.test('a closed project accepts no new types', async (t) => {
  const { daemon, visit, types } = await start()
  await daemon.capture([visit({ company: 'acme' })])
  const set = async (group_types_closed: boolean): Promise<void> => {
    const { status, body } = await daemon.api('PATCH', '', 1, { group_types_closed })
    t.equal(status, 200)
    t.equal(body['group_types_closed'], group_types_closed)
  }
  await set(true)
  await daemon.capture([visit({ team: 'red', company: 'init' }, 3)])
  t.strictSame(await types(), [[0, 'company']])
  const { body } = await daemon.api('GET', 'events/?event=visit&limit=1')
  const [event] = body['results'] as readonly { readonly properties: Json }[]
  t.equal(event?.properties['$group_0'], 'init', 'groups of known types are stored')
  await set(false)
  await daemon.capture([visit({ team: 'red' }, 4)])
  t.strictSame(await types(), [
    [0, 'company'],
    [1, 'team'],
  ])
})
