/**
 * Routes of flags and role access, for each row of the interface description, sections 4.1 and 4.2.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { FLAGS, pathOf, shareInterface } from '../../fixtures/interface-daemon.ts'
import { testRows } from '../../fixtures/interface-rows.ts'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const server = await shareInterface(t)
const { daemon } = server

t.test('the routes of flags', (t) =>
  testRows(
    t,
    ['4.1'],
    [
      [
        '4.1 GET feature_flags',
        async (t) => {
          await server.makeFlag()
          const newest = await server.makeFlag()
          const { status, body } = await server.api('GET', `${FLAGS}?limit=1&offset=0`)
          t.equal(status, 200)
          t.match(body, { count: Number, next: /offset=1/, previous: null })
          t.strictSame(body['results'], [newest])
        },
      ],
      [
        '4.1 POST feature_flags',
        async (t) => {
          const made = await server.api('POST', FLAGS, { key: 'posted', name: 'x' })
          t.match(made, { status: 201, body: { id: Number, key: 'posted', name: 'x' } })
          t.match(await server.api('POST', FLAGS, { name: 'x' }), {
            status: 400,
            body: { type: 'validation_error', code: 'required', attr: 'key' },
          })
        },
      ],
      [
        '4.1 GET feature_flags/:id',
        async (t) => {
          const flag = await server.makeFlag()
          t.match(await server.api('GET', pathOf(flag)), { status: 200, body: flag })
          t.match(await server.api('GET', `${FLAGS}99999999/`), {
            status: 404,
            body: { code: 'not_found' },
          })
        },
      ],
      [
        '4.1 PATCH feature_flags/:id',
        async (t) => {
          const flag = await server.makeFlag({ name: 'before' })
          const { status, body } = await server.api('PATCH', pathOf(flag), { name: 'after' })
          t.equal(status, 200)
          t.match(body, { name: 'after', key: flag['key'], filters: flag['filters'] })
        },
      ],
      [
        '4.1 DELETE feature_flags/:id',
        async (t) => {
          const flag = await server.makeFlag()
          t.match(await server.api('DELETE', pathOf(flag)), { status: 405, body: {} })
          t.equal((await server.api('GET', pathOf(flag))).body['deleted'], false)
        },
      ],
      [
        '4.1 GET feature_flags/:id/activity',
        async (t) => {
          const flag = await server.makeFlag()
          await server.makeFlag()
          const { status, body } = await server.api('GET', `${pathOf(flag)}activity/`)
          t.equal(status, 200)
          t.match(body, {
            total_count: 1,
            results: [{ activity: 'created', item_id: String(flag['id']) }],
          })
        },
      ],
      [
        '4.1 POST feature_flags/:id/dashboard',
        async (t) => {
          const flag = await server.makeFlag()
          const made = await server.api('POST', `${pathOf(flag)}dashboard/`, { name: 'ignored' })
          t.match(made, { status: 200, body: { success: true } })
          t.match((await server.api('GET', pathOf(flag))).body, { usage_dashboard: Number })
        },
      ],
      [
        '4.1 GET feature_flags/activity',
        async (t) => {
          const [one, two] = [await server.makeFlag(), await server.makeFlag()]
          const { status, body } = await server.api('GET', `${FLAGS}activity/?limit=2`)
          t.equal(status, 200)
          t.match(body['results'], [{ item_id: String(two['id']) }, { item_id: String(one['id']) }])
        },
      ],
      [
        '4.1 GET feature_flags/evaluation_reasons',
        async (t) => {
          const [on, off] = [await server.makeFlag(), await server.makeFlag({ active: false })]
          const { body } = await server.api('GET', `${FLAGS}evaluation_reasons/?distinct_id=ann`)
          t.match(body, {
            [String(on['key'])]: {
              value: true,
              evaluation: { reason: 'condition_match', condition_index: 0 },
            },
            [String(off['key'])]: { value: false, evaluation: { reason: 'disabled' } },
          })
          const refused = await server.api('GET', `${FLAGS}evaluation_reasons/`)
          t.match(refused, { status: 400, body: { code: 'required', attr: 'distinct_id' } })
        },
      ],
      [
        '4.1 GET feature_flags/local_evaluation',
        async (t) => {
          const flag = await server.makeFlag()
          const { body, headers } = await server.api('GET', `${FLAGS}local_evaluation/`)
          t.match(body, { flags: Array, group_type_mapping: {}, cohorts: {} })
          const flags = body['flags'] as readonly JsonObject[]
          t.ok(flags.some(({ key }) => key === flag['key']))
          t.match(headers['etag'], /^W\/"[0-9a-f]{16}"$/)
        },
      ],
      [
        '4.1 GET feature_flags/my_flags',
        async (t) => {
          const flag = await server.makeFlag()
          const { status, body } = await server.api('GET', `${FLAGS}my_flags/`)
          t.equal(status, 200)
          t.match(Object.values(body)[0], { feature_flag: { key: flag['key'] }, value: true })
        },
      ],
      [
        '4.1 POST feature_flags/user_blast_radius',
        async (t) => {
          await daemon.capture([
            { event: '$set', distinct_id: 'p', properties: { $set: { plan: 'paid' } } },
            { event: '$set', distinct_id: 'q', properties: { $set: { plan: 'free' } } },
          ])
          const properties = [{ key: 'plan', type: 'person', value: 'paid', operator: 'exact' }]
          const { status, body } = await server.api('POST', `${FLAGS}user_blast_radius/`, {
            condition: { properties, rollout_percentage: 1 },
          })
          t.equal(status, 200)
          t.equal(body['users_affected'], 1)
          t.ok(Number(body['total_users']) >= 2)
        },
      ],
    ],
  ),
)

t.test('the routes of role access', (t) =>
  testRows(
    t,
    ['4.2'],
    [
      [
        '4.2 GET feature_flags/:parent_lookup_feature_flag_id/role_access',
        async (t) => {
          const { flag, access } = await server.makeAccess()
          const { status, body } = await server.api(
            'GET',
            `${pathOf(flag)}role_access/?limit=1&offset=0`,
          )
          t.equal(status, 200)
          t.match(body, { count: 1, next: null, previous: null, results: [{ id: access['id'] }] })
        },
      ],
      [
        '4.2 POST feature_flags/:parent_lookup_feature_flag_id/role_access',
        async (t) => {
          const { flag, role } = await server.makeAccess()
          const again = await server.api('POST', `${pathOf(flag)}role_access/`, {
            role_id: role['id'],
          })
          t.match(again, { status: 400, body: { code: 'unique', attr: 'role_id' } })
        },
      ],
      [
        '4.2 GET feature_flags/:parent_lookup_feature_flag_id/role_access/:id',
        async (t) => {
          const { flag, access } = await server.makeAccess()
          const one = await server.api('GET', `${pathOf(flag)}role_access/${String(access['id'])}/`)
          t.match(one, { status: 200, body: { id: access['id'], role: { id: UUID } } })
          const other = await server.makeFlag()
          const path = `${pathOf(other)}role_access/${String(access['id'])}/`
          t.equal((await server.api('GET', path)).status, 404, 'it belongs to another flag')
        },
      ],
      [
        '4.2 DELETE feature_flags/:parent_lookup_feature_flag_id/role_access/:id',
        async (t) => {
          const { flag, access } = await server.makeAccess()
          const path = `${pathOf(flag)}role_access/${String(access['id'])}/`
          t.match(await server.api('DELETE', path), { status: 204, body: {} })
          t.equal((await server.api('GET', path)).status, 404)
        },
      ],
    ],
  ),
)
