/**
 * Flags and role access, for each row of the interface description, sections 2.3, 2.4, 2.5 and 3.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { FLAGS, pathOf, ROLES, shareInterface } from '../../fixtures/interface-daemon.ts'
import { testRows } from '../../fixtures/interface-rows.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z$/
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const HALF = { groups: [{ properties: [], rollout_percentage: 50 }] }

const server = await shareInterface(t)
const { daemon } = server

/** Returns the value of a field after a flag is created with a value and after the field is changed. */
async function written(
  t: Test,
  field: string,
  first: unknown,
  second: unknown,
  expected = second,
): Promise<void> {
  const flag = await server.makeFlag({ [field]: first })
  t.strictSame(flag[field], first)
  const changed = await server.api('PATCH', pathOf(flag), { [field]: second })
  t.equal(changed.status, 200)
  t.strictSame(changed.body[field], expected)
  t.strictSame((await server.api('GET', pathOf(flag))).body[field], expected)
}

/** Checks a field that requests cannot change. */
async function readOnly(
  t: Test,
  field: string,
  expected: unknown,
  attempt: unknown,
): Promise<void> {
  const flag = await server.makeFlag({ [field]: attempt })
  t.match(flag, { [field]: expected })
  const changed = await server.api('PATCH', pathOf(flag), { [field]: attempt })
  t.equal(changed.status, 200)
  t.strictSame(changed.body[field], flag[field])
}

t.test('the fields of flags', (t) =>
  testRows(
    t,
    ['2.3'],
    [
      ['2.3 id', (t) => readOnly(t, 'id', Number, 999_999)],
      ['2.3 name', (t) => written(t, 'name', 'About it', 'Something else')],
      ['2.3 key', (t) => written(t, 'key', 'key-one', 'key_Two')],
      [
        '2.3 filters',
        (t) =>
          written(t, 'filters', HALF, { groups: [{ rollout_percentage: 7 }], more: { of: 1 } }),
      ],
      ['2.3 deleted', (t) => written(t, 'deleted', false, true)],
      ['2.3 active', (t) => written(t, 'active', true, false)],
      [
        '2.3 created_by',
        (t) => {
          const user = {
            id: Number,
            uuid: UUID,
            distinct_id: String,
            first_name: String,
            email: /@/,
          }
          return readOnly(t, 'created_by', { ...user, is_email_verified: Boolean }, { id: 9 })
        },
      ],
      [
        '2.3 created_at',
        (t) => written(t, 'created_at', '2024-01-02T03:04:05Z', '2023-01-02T03:04:05Z'),
      ],
      [
        '2.3 is_simple_flag',
        async (t) => {
          await readOnly(t, 'is_simple_flag', true, false)
          const properties = [{ key: 'a', type: 'person', value: 'b' }]
          t.equal(
            (await server.makeFlag({ filters: { groups: [{ properties }] } }))['is_simple_flag'],
            false,
          )
        },
      ],
      [
        '2.3 rollout_percentage',
        async (t) => {
          t.equal((await server.makeFlag({ filters: HALF }))['rollout_percentage'], 50)
          await readOnly(t, 'rollout_percentage', null, 20)
        },
      ],
      [
        '2.3 ensure_experience_continuity',
        (t) => written(t, 'ensure_experience_continuity', true, false),
      ],
      ['2.3 experiment_set', (t) => readOnly(t, 'experiment_set', [], [1])],
      ['2.3 features', (t) => readOnly(t, 'features', {}, { a: 1 })],
      [
        '2.3 rollback_conditions',
        (t) => written(t, 'rollback_conditions', { a: [1] }, { b: null }),
      ],
      [
        '2.3 performed_rollback',
        async (t) => {
          await written(t, 'performed_rollback', null, true)
          const flag = await server.makeFlag({ performed_rollback: true })
          const enabled = await server.api('PATCH', pathOf(flag), { active: true })
          t.equal(enabled.body['performed_rollback'], false, 'enabling the flag restores it')
        },
      ],
      ['2.3 can_edit', (t) => readOnly(t, 'can_edit', true, false)],
      ['2.3 tags', (t) => written(t, 'tags', ['one'], [' Two ', 'two', 'x'], ['two', 'x'])],
      [
        '2.3 usage_dashboard',
        async (t) => {
          await readOnly(t, 'usage_dashboard', null, 3)
          const flag = await server.makeFlag()
          await server.api('POST', `${pathOf(flag)}dashboard/`)
          t.match((await server.api('GET', pathOf(flag))).body, { usage_dashboard: Number })
        },
      ],
      [
        '2.3 analytics_dashboards',
        async (t) => {
          const flag = await server.makeFlag()
          t.strictSame(flag['analytics_dashboards'], [])
          await server.api('POST', `${pathOf(flag)}dashboard/`)
          const { usage_dashboard: id } = (await server.api('GET', pathOf(flag))).body
          const changed = await server.api('PATCH', pathOf(flag), { analytics_dashboards: [id] })
          t.strictSame(changed.body['analytics_dashboards'], [id])
          const refused = await server.api('PATCH', pathOf(flag), {
            analytics_dashboards: [99_999],
          })
          t.match(refused, { status: 400, body: { code: 'does_not_exist' } })
        },
      ],
      ['2.3 has_enriched_analytics', (t) => written(t, 'has_enriched_analytics', true, false)],
    ],
  ),
)

t.test('the fields of roles', (t) =>
  testRows(
    t,
    ['2.4'],
    [
      ['2.4 id', async (t) => t.match(await server.makeRole(), { id: UUID })],
      ['2.4 name', async (t) => t.match(await server.makeRole(), { name: /^Role \d+$/ })],
      [
        '2.4 feature_flags_access_level',
        async (t) => {
          const role = await server.makeRole()
          t.equal(role['feature_flags_access_level'], 37)
          const path = `${ROLES}${String(role['id'])}/`
          const changed = await server.organization('PATCH', path, {
            feature_flags_access_level: 21,
          })
          t.match(changed, { status: 200, body: { feature_flags_access_level: 21 } })
          const refused = await server.organization('PATCH', path, {
            feature_flags_access_level: 5,
          })
          t.match(refused, { status: 400, body: { code: 'invalid_choice' } })
        },
      ],
      ['2.4 created_at', async (t) => t.match(await server.makeRole(), { created_at: TIME })],
      [
        '2.4 created_by',
        async (t) => t.match(await server.makeRole(), { created_by: { id: Number, email: /@/ } }),
      ],
      [
        '2.4 members',
        async (t) => {
          const role = await server.makeRole()
          t.equal(role['members'], '')
          const path = `${ROLES}${String(role['id'])}/`
          const user = role['created_by'] as JsonObject
          const joined = await server.organization('POST', `${path}role_memberships/`, {
            user_uuid: user['uuid'],
          })
          t.equal(joined.status, 201)
          t.equal((await server.organization('GET', path)).body['members'], user['email'])
        },
      ],
      [
        '2.4 associated_flags',
        async (t) => {
          const { flag, role } = await server.makeAccess()
          t.equal(role['associated_flags'], '')
          const { body } = await server.organization('GET', `${ROLES}${String(role['id'])}/`)
          t.equal(body['associated_flags'], flag['key'])
        },
      ],
    ],
  ),
)

t.test('the fields of role access', (t) =>
  testRows(
    t,
    ['2.5'],
    [
      ['2.5 id', async (t) => t.match((await server.makeAccess()).access, { id: Number })],
      [
        '2.5 feature_flag',
        async (t) => {
          const { flag, access } = await server.makeAccess()
          t.strictSame(access['feature_flag'], flag)
        },
      ],
      [
        '2.5 role',
        async (t) => {
          const { role, access } = await server.makeAccess()
          t.match(access['role'], { id: role['id'], name: role['name'], members: '' })
        },
      ],
      [
        '2.5 role_id',
        async (t) => {
          const { access, flag } = await server.makeAccess()
          t.notOk('role_id' in access, 'it is written and not read')
          const missing = await server.api('POST', `${pathOf(flag)}role_access/`, {})
          t.match(missing, { status: 400, body: { code: 'required', attr: 'role_id' } })
        },
      ],
      [
        '2.5 added_at',
        async (t) => t.match((await server.makeAccess()).access, { added_at: TIME }),
      ],
      [
        '2.5 updated_at',
        async (t) => t.match((await server.makeAccess()).access, { updated_at: TIME }),
      ],
    ],
  ),
)

t.test('states and transitions', (t) =>
  testRows(
    t,
    ['3'],
    [
      [
        '3 PATCH with deleted true',
        async (t) => {
          const flag = await server.makeFlag()
          t.equal(await server.decided(flag['key']), true)
          t.match(await server.api('PATCH', pathOf(flag), { deleted: true }), {
            body: { deleted: true },
          })
          t.match(await server.api('GET', pathOf(flag)), { status: 200, body: { deleted: true } })
          t.equal(await server.decided(flag['key']), undefined)
          const list = await server.api('GET', `${FLAGS}?search=${String(flag['key'])}`)
          t.strictSame(list.body['results'], [])
        },
      ],
      [
        '3 DELETE flag',
        async (t) => {
          const flag = await server.makeFlag()
          t.match(await server.api('DELETE', pathOf(flag)), { status: 405, body: {} })
          t.strictSame((await server.api('GET', pathOf(flag))).body, flag, 'nothing has changed')
        },
      ],
      [
        '3 PATCH with active',
        async (t) => {
          const flag = await server.makeFlag()
          await server.api('PATCH', pathOf(flag), { active: false })
          t.equal(await server.decided(flag['key']), undefined)
          await server.api('PATCH', pathOf(flag), { active: true })
          t.equal(await server.decided(flag['key']), true)
        },
      ],
      [
        '3 Events without a name or distinct_id',
        async (t) => {
          const batch = [
            { event: '', distinct_id: 'silent' },
            { distinct_id: 'silent' },
            { event: 'heard', distinct_id: '' },
            { event: 'unheard' },
          ]
          const sent = await daemon.ask('/batch/', { json: { api_key: daemon.key(), batch } })
          t.match(sent, { status: 200, body: { status: 1 } })
          await daemon.capture([{ event: 'heard', distinct_id: 'somebody' }])
          const { body } = await server.api('GET', 'events/?limit=1000')
          const events = body['results'] as readonly JsonObject[]
          t.equal(events.filter(({ event }) => event === 'heard').length, 1)
          t.equal(events.filter(({ distinct_id }) => distinct_id === 'silent').length, 0)
          t.equal(events.filter(({ event }) => event === 'unheard').length, 0)
        },
      ],
    ],
  ),
)
