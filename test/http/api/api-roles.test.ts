/**
 * Roles, memberships and role access over HTTP, and their effect on the flags that members may change.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { resultsOf, startOrganization, textOf } from '../../fixtures/organization-daemon.ts'

const daemon = await startOrganization(t)
const ROLES = 'organizations/@current/roles/'
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/
const NOWHERE = '01900000-0000-7000-8000-000000000000'

const ann = daemon.somebody({ email: 'ann@x.example', firstName: 'Ann' })
const bob = daemon.somebody({ email: 'bob@x.example', firstName: 'Bob' })
const admin = daemon.somebody({ email: 'admin@x.example', level: 8 })
await daemon.settled()

function error(status: number, code: string, attr: string | null = null) {
  return { status, body: { code, attr } }
}

async function makeRole(name: string, level?: number): Promise<string> {
  const body = level === undefined ? { name } : { name, feature_flags_access_level: level }
  const answer = await daemon.ask('POST', ROLES, body)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  return textOf(answer, 'id')
}

async function makeFlag(key: string, as = PERSONAL_KEY): Promise<number> {
  const answer = await daemon.ask('POST', 'projects/1/feature_flags/', { key }, as)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  return Number(answer.body['id'])
}

t.test('a role can be created, read, renamed, listed and deleted', async (t) => {
  const made = await daemon.ask('POST', ROLES, { name: ' Engineers ' }, admin.key)
  t.equal(made.status, 201)
  t.strictSame(Object.keys(made.body), [
    'id',
    'name',
    'feature_flags_access_level',
    'created_at',
    'created_by',
    'members',
    'associated_flags',
  ])
  t.match(made.body, {
    id: UUID,
    name: 'Engineers',
    feature_flags_access_level: 37,
    created_at: TIME,
    created_by: { id: admin.user.id, email: 'admin@x.example', uuid: admin.user.uuid },
    members: '',
    associated_flags: '',
  })
  const path = `${ROLES}${textOf(made, 'id')}/`
  t.strictSame((await daemon.ask('GET', path, undefined, ann.key)).body, made.body)
  const upper = path.replace(textOf(made, 'id'), textOf(made, 'id').toUpperCase())
  t.equal((await daemon.ask('GET', upper)).status, 200)
  const same = await daemon.ask('PATCH', path, { name: 'engineers' })
  t.match(same, { status: 200, body: { name: 'engineers' } }, 'a role may keep its own name')
  const level = await daemon.ask('PATCH', path, { feature_flags_access_level: 21 })
  t.match(level, { status: 200, body: { name: 'engineers', feature_flags_access_level: 21 } })
  t.match(await daemon.ask('PATCH', path, {}), { status: 200, body: { name: 'engineers' } })
  t.match(await daemon.ask('PATCH', path, { id: 'x', members: 'y' }), { status: 200 })
  const second = await makeRole('Zulu', 21)
  const list = await daemon.ask('GET', `${ROLES}?limit=1`, undefined, ann.key)
  t.match(list, {
    status: 200,
    body: { count: 2, previous: null, results: [{ name: 'engineers' }] },
  })
  const next = new URL(textOf(list, 'next'))
  t.equal(next.search, '?limit=1&offset=1')
  const page = await daemon.ask('GET', `${ROLES}${next.search}`)
  t.match(page, { status: 200, body: { next: null, results: [{ id: second }] } })
  t.equal(new URL(textOf(page, 'previous')).search, '?limit=1')
  for (const query of ['?limit=x', '?limit=0', '?limit=-1', '?offset=x', '?limit=99999']) {
    t.equal(resultsOf(await daemon.ask('GET', ROLES + query)).length, 2, query)
  }
  t.strictSame(resultsOf(await daemon.ask('GET', `${ROLES}?offset=5`)), [])
  for (const id of [textOf(made, 'id'), second]) {
    const gone = await daemon.ask('DELETE', `${ROLES}${id}/`)
    t.strictSame([gone.status, gone.body], [204, {}])
    t.match(await daemon.ask('GET', `${ROLES}${id}/`), error(404, 'not_found'))
    t.match(await daemon.ask('DELETE', `${ROLES}${id}/`), error(404, 'not_found'))
  }
})

t.test('an invalid role is refused', async (t) => {
  const id = await makeRole('Straße')
  const cases: readonly (readonly [unknown, string, string | null])[] = [
    [undefined, 'required', 'name'],
    [{}, 'required', 'name'],
    [{ name: null }, 'null', 'name'],
    [{ name: '' }, 'blank', 'name'],
    [{ name: '   ' }, 'blank', 'name'],
    [{ name: 5 }, 'invalid_input', 'name'],
    [{ name: ['x'] }, 'invalid_input', 'name'],
    [{ name: 'x'.repeat(201) }, 'max_length', 'name'],
    [{ name: 'STRAßE' }, 'unique', 'name'],
    [{ name: ' straße ' }, 'unique', 'name'],
    [{ name: 'x', feature_flags_access_level: 5 }, 'invalid_choice', 'feature_flags_access_level'],
    [{ name: 'x', feature_flags_access_level: null }, 'null', 'feature_flags_access_level'],
    [{ name: 'x', feature_flags_access_level: {} }, 'invalid_choice', 'feature_flags_access_level'],
    [[], 'invalid_input', null],
  ]
  const differences = new Differences()
  for (const [body, code, attr] of cases) {
    const answer = await daemon.ask('POST', ROLES, body)
    const wanted = { status: 400, body: { type: 'validation_error', code, attr } }
    differences.match(answer, wanted, JSON.stringify(body))
  }
  t.strictSame(differences.list(), [], 'every invalid value is refused with the name of its field')
  t.match(await daemon.askRaw('POST', ROLES, '{', 'application/json'), error(400, 'parse_error'))
  t.match(
    await daemon.askRaw('POST', ROLES, 'name=x', 'application/x-www-form-urlencoded'),
    error(415, 'unsupported_media_type'),
  )
  const other = await makeRole('Other', 21)
  t.match(
    await daemon.ask('PATCH', `${ROLES}${other}`, { name: 'straße' }),
    error(400, 'unique', 'name'),
  )
  t.match(await daemon.ask('PUT', `${ROLES}${other}`, {}), error(400, 'required', 'name'))
  t.match(await daemon.ask('PATCH', `${ROLES}${NOWHERE}`, '['), error(404, 'not_found'))
  t.match(await daemon.ask('GET', `${ROLES}${NOWHERE}`), error(404, 'not_found'))
  t.match(await daemon.ask('GET', `${ROLES}x`), error(404, 'not_found'))
  t.match(await daemon.ask('GET', `organizations/${NOWHERE}/roles`), error(404, 'not_found'))
  t.match(await daemon.ask('GET', 'organizations/x/roles'), error(404, 'not_found'))
  for (const role of [id, other]) await daemon.ask('DELETE', `${ROLES}${role}/`)
})

t.test('members read roles; administrators and owners change them', async (t) => {
  const id = await makeRole('Guarded')
  const path = `${ROLES}${id}/`
  const members = `${path}role_memberships/`
  for (const read of [ROLES, path, members]) {
    t.equal((await daemon.ask('GET', read, undefined, ann.key)).status, 200, read)
  }
  const writes: readonly (readonly [string, string, unknown])[] = [
    ['POST', ROLES, { name: 'x' }],
    ['PATCH', path, { name: 'x' }],
    ['PUT', path, { name: 'x' }],
    ['DELETE', path, undefined],
    ['POST', members, { user_uuid: ann.user.uuid }],
    ['DELETE', `${members}${NOWHERE}/`, undefined],
    ['POST', ROLES, { name: '' }],
  ]
  for (const [method, path, body] of writes) {
    t.match(await daemon.ask(method, path, body, ann.key), error(403, 'permission_denied'), path)
    t.match(await daemon.ask(method, path, body, null), error(401, 'not_authenticated'), path)
  }
  t.equal((await daemon.ask('DELETE', path, undefined, admin.key)).status, 204)
})

t.test('memberships can be added and removed', async (t) => {
  const id = await makeRole('Crew')
  const path = `${ROLES}${id}/`
  const members = `${path}role_memberships/`
  const joined = await daemon.ask('POST', members, { user_uuid: ann.user.uuid.toUpperCase() })
  t.equal(joined.status, 201)
  t.match(joined.body, {
    id: UUID,
    role_id: id,
    user: { id: ann.user.id, email: 'ann@x.example', first_name: 'Ann' },
    joined_at: TIME,
    updated_at: TIME,
  })
  await daemon.ask('POST', members, { user_uuid: bob.user.uuid })
  t.equal(
    textOf(await daemon.ask('GET', path), 'members'),
    'ann@x.example, bob@x.example',
    'in order of joining',
  )
  t.match(await daemon.ask('GET', `${members}?offset=1`), {
    status: 200,
    body: { count: 2, results: [{ user: { email: 'bob@x.example' } }] },
  })
  const carl = daemon.somebody({ email: 'carl@x.example' })
  daemon.store.users.change(carl.user.id, { isActive: false })
  const refused: readonly (readonly [unknown, string, string | null])[] = [
    [{}, 'required', 'user_uuid'],
    [{ user_uuid: null }, 'null', 'user_uuid'],
    [{ user_uuid: 'x' }, 'invalid_input', 'user_uuid'],
    [{ user_uuid: 7 }, 'invalid_input', 'user_uuid'],
    [{ user_uuid: NOWHERE }, 'invalid_input', null],
    [{ user_uuid: carl.user.uuid }, 'invalid_input', null],
    [{ user_uuid: ann.user.uuid }, 'invalid_input', null],
  ]
  for (const [body, code, attr] of refused) {
    t.match(await daemon.ask('POST', members, body), error(400, code, attr), JSON.stringify(body))
  }
  for (const unknown of [NOWHERE, 'x']) {
    const list = `${ROLES}${unknown}/role_memberships/`
    const answer = await daemon.ask('POST', list, { user_uuid: bob.user.uuid })
    t.match(answer, error(400, 'invalid_input'))
    t.match(await daemon.ask('GET', list), error(404, 'not_found'))
    t.match(await daemon.ask('DELETE', `${list}${NOWHERE}`), error(404, 'not_found'))
    t.match(await daemon.ask('DELETE', `${members}${unknown}`), error(404, 'not_found'))
  }
  const gone = await daemon.ask('DELETE', `${members}${textOf(joined, 'id')}/`)
  t.strictSame([gone.status, gone.body], [204, {}])
  t.equal(textOf(await daemon.ask('GET', path), 'members'), 'bob@x.example')
  daemon.store.users.change(bob.user.id, { isActive: false })
  t.equal(textOf(await daemon.ask('GET', path), 'members'), '', 'a user who leaves loses all roles')
  daemon.store.users.change(bob.user.id, { isActive: true })
  await daemon.settled()
  await daemon.ask('DELETE', path)
})

t.test('role access: interface description 2.5 and 4.2', async (t) => {
  const role = await makeRole('Sharers', 21)
  const flag = await makeFlag('shared')
  const other = await makeFlag('unshared')
  const list = `projects/1/feature_flags/${flag}/role_access/`
  t.strictSame((await daemon.ask('GET', list)).body, {
    count: 0,
    next: null,
    previous: null,
    results: [],
  })
  const made = await daemon.ask('POST', list, { role_id: role })
  t.equal(made.status, 201)
  t.strictSame(Object.keys(made.body), ['id', 'feature_flag', 'role', 'added_at', 'updated_at'])
  const shown = await daemon.ask('GET', `projects/1/feature_flags/${flag}/`)
  t.strictSame(made.body['feature_flag'], shown.body, 'the complete flag')
  t.match(shown.body, { features: {}, can_edit: true })
  const roleShown = await daemon.ask('GET', `${ROLES}${role}/`)
  t.strictSame(made.body['role'], roleShown.body, 'the complete role')
  t.equal(roleShown.body['associated_flags'], 'shared')
  t.match(made.body, { id: Number, added_at: TIME, updated_at: TIME })
  const entry = `${list}${String(made.body['id'])}/`
  t.strictSame((await daemon.ask('GET', entry, undefined, ann.key)).body['role'], roleShown.body)
  const listed = await daemon.ask('GET', list)
  t.strictSame(resultsOf(listed), [made.body])
  t.match(await daemon.ask('GET', `${list}?role_id=${role}`), { body: { count: 1 } })
  t.match(await daemon.ask('GET', `${list}?role_id=${NOWHERE}&added_at=x`), { body: { count: 0 } })
  t.match(await daemon.ask('GET', `${list}?role_id=x`), { body: { count: 0 } })
  t.match(await daemon.ask('GET', `${list}?limit=1&offset=1`), { body: { count: 1, results: [] } })
  await daemon.ask('POST', `projects/1/feature_flags/${other}/role_access/`, { role_id: role })
  t.equal(
    (await daemon.ask('GET', `${ROLES}${role}/`)).body['associated_flags'],
    'shared, unshared',
  )
  const gone = await daemon.ask('DELETE', entry)
  t.strictSame([gone.status, gone.body], [204, {}])
  t.match(await daemon.ask('GET', entry), error(404, 'not_found'))
  t.match(await daemon.ask('DELETE', entry), error(404, 'not_found'))
  t.equal((await daemon.ask('GET', `${ROLES}${role}/`)).body['associated_flags'], 'unshared')
  const again = await daemon.ask('POST', list, { role_id: role })
  t.not(again.body['id'], made.body['id'], 'a number is never reused')
  await daemon.ask('DELETE', `${ROLES}${role}/`)
  t.match(
    await daemon.ask('GET', list),
    { body: { count: 0 } },
    'the access is deleted with its role',
  )
})

t.test('invalid role access is refused', async (t) => {
  const role = await makeRole('Nobody', 21)
  const flag = await makeFlag('alone')
  const list = `projects/1/feature_flags/${flag}/role_access/`
  const refused: readonly (readonly [unknown, string])[] = [
    [undefined, 'required'],
    [{}, 'required'],
    [{ role_id: null }, 'null'],
    [{ role_id: 'x' }, 'invalid_input'],
    [{ role_id: 5 }, 'invalid_input'],
    [{ role_id: NOWHERE }, 'does_not_exist'],
  ]
  for (const [body, code] of refused) {
    t.match(await daemon.ask('POST', list, body), error(400, code, 'role_id'), JSON.stringify(body))
  }
  await daemon.ask('POST', list, { role_id: role })
  t.match(await daemon.ask('POST', list, { role_id: role }), error(400, 'unique', 'role_id'))
  const unknown = 'projects/1/feature_flags/99999999/role_access/'
  t.match(await daemon.ask('GET', unknown), { status: 200, body: { count: 0, results: [] } })
  t.match(await daemon.ask('GET', `${unknown}1`), error(404, 'not_found'))
  t.match(await daemon.ask('POST', unknown, { role_id: 'x' }), error(404, 'not_found'))
  t.match(await daemon.ask('DELETE', `${unknown}1`), error(404, 'not_found'))
  const elsewhere = `projects/2/feature_flags/${flag}/role_access/`
  t.match(await daemon.ask('GET', elsewhere), { status: 200, body: { count: 0 } })
  t.match(await daemon.ask('POST', elsewhere, { role_id: role }), error(404, 'not_found'))
  for (const segment of ['x', '0', '-1', '1.5', '9'.repeat(30)]) {
    const path = `projects/1/feature_flags/${segment}/role_access/`
    t.match(await daemon.ask('GET', path), error(404, 'not_found'), segment)
    t.match(await daemon.ask('POST', path, { role_id: role }), error(404, 'not_found'), segment)
    t.match(await daemon.ask('GET', `${list}${segment}/`), error(404, 'not_found'), segment)
  }
  for (const method of ['PATCH', 'PUT']) {
    const answer = await daemon.ask(method, `${list}1/`, { role_id: role })
    t.match(answer, error(405, 'method_not_allowed'))
    t.equal(answer.headers['allow'], 'GET, DELETE')
  }
  const secret = daemon.store.projects.keys.createSecret({ projectId: 1 }).text
  await daemon.settled()
  t.match(
    await daemon.ask('POST', list, { role_id: role }, secret),
    error(401, 'authentication_failed'),
  )
  await daemon.ask('DELETE', `${ROLES}${role}/`)
})

t.test('access to a deleted flag remains until the flag is removed permanently', async (t) => {
  const role = await makeRole('Keepers', 21)
  const flag = await makeFlag('kept')
  const list = `projects/1/feature_flags/${flag}/role_access/`
  await daemon.ask('POST', list, { role_id: role })
  await daemon.ask('PATCH', `projects/1/feature_flags/${flag}/`, { deleted: true })
  t.match(await daemon.ask('GET', list), { body: { count: 1 } })
  t.equal((await daemon.ask('GET', `${ROLES}${role}/`)).body['associated_flags'], '')
  await makeFlag('kept')
  t.match(await daemon.ask('GET', list), { body: { count: 0 } })
  await daemon.ask('DELETE', `${ROLES}${role}/`)
})

t.test('can_edit and the right to share follow level, default, roles and entries', async (t) => {
  const viewers = await makeRole('Viewers', 21)
  const editors = await makeRole('Editors', 37)
  const flag = await makeFlag('disputed')
  const own = await makeFlag('own', ann.key)
  const list = `projects/1/feature_flags/${flag}/role_access/`
  const setDefault = async (level: 21 | 37 | null): Promise<void> => {
    daemon.store.users.setFlagAccess(level, null)
    await daemon.settled()
  }
  const join = (role: string) =>
    daemon.ask('POST', `${ROLES}${role}/role_memberships/`, { user_uuid: ann.user.uuid })
  /** The results of the list, the flag itself, a change and a share. All must agree. */
  const rights = async (expected: readonly [boolean, boolean], message: string): Promise<void> => {
    const path = `projects/1/feature_flags/${flag}/`
    const shown = await daemon.ask('GET', path, undefined, ann.key)
    const patched = await daemon.ask('PATCH', path, { name: message }, ann.key)
    const shared = await daemon.ask('POST', list, { role_id: 'x' }, ann.key)
    t.equal(shown.body['can_edit'], expected[0], `can_edit: ${message}`)
    t.equal(patched.status, expected[0] ? 200 : 403, `PATCH: ${message}`)
    t.equal(shared.status, expected[1] ? 400 : 403, `share: ${message}`)
    const mine = await daemon.ask('GET', `projects/1/feature_flags/${own}/`, undefined, ann.key)
    t.equal(mine.body['can_edit'], true, 'a user always has access to their own flags')
  }
  await rights([true, true], 'no default, no role')
  await setDefault(21)
  await rights([false, false], 'default 21, no role')
  await join(viewers)
  await rights([false, false], 'default 21, role 21')
  const entry = await daemon.ask('POST', list, { role_id: viewers })
  await rights([true, false], 'default 21, role 21 with an entry')
  const refused = await daemon.ask(
    'DELETE',
    `${list}${String(entry.body['id'])}`,
    undefined,
    ann.key,
  )
  t.match(refused, error(403, 'permission_denied'))
  await setDefault(null)
  await rights([true, true], 'no default, role 21 with an entry')
  await daemon.ask('DELETE', `${list}${String(entry.body['id'])}`)
  await rights([false, true], 'no default, role 21')
  await setDefault(37)
  await rights([true, true], 'default 37, role 21')
  await setDefault(21)
  await join(editors)
  await rights([true, true], 'default 21, roles 21 and 37')
  await daemon.ask('DELETE', `${ROLES}${editors}/`)
  await rights([false, false], 'without the role again')
  const promoted = { level: 8 }
  await daemon.ask('PATCH', `organizations/@current/members/${ann.user.uuid}/`, promoted)
  await rights([true, true], 'an administrator')
  await daemon.ask('PATCH', `organizations/@current/members/${ann.user.uuid}/`, { level: 1 })
  await setDefault(null)
  await daemon.ask('DELETE', `${ROLES}${viewers}/`)
})

t.test('a new role takes the default of the organization', async (t) => {
  daemon.store.users.setFlagAccess(21, null)
  const first = await daemon.ask('POST', ROLES, { name: 'By default' })
  t.equal(first.body['feature_flags_access_level'], 21)
  const second = await daemon.ask('POST', ROLES, { name: 'Given', feature_flags_access_level: 37 })
  t.equal(second.body['feature_flags_access_level'], 37)
  daemon.store.users.setFlagAccess(null, null)
  for (const { id } of resultsOf(await daemon.ask('GET', ROLES))) {
    await daemon.ask('DELETE', `${ROLES}${String(id)}/`)
  }
})

t.test(
  'role access uses the scopes of flags, and roles use the scopes of the organization',
  async (t) => {
    const flag = await makeFlag('scoped')
    const list = `projects/1/feature_flags/${flag}/role_access/`
    const rows: readonly (readonly [string, string, string])[] = [
      ['GET', list, 'feature_flag:read'],
      ['GET', `${list}1/`, 'feature_flag:read'],
      ['POST', list, 'feature_flag:write'],
      ['DELETE', `${list}1/`, 'feature_flag:write'],
      ['GET', ROLES, 'organization:read'],
      ['GET', `${ROLES}${NOWHERE}/`, 'organization:read'],
      ['GET', `${ROLES}${NOWHERE}/role_memberships/`, 'organization:read'],
      ['POST', ROLES, 'organization:write'],
      ['PATCH', `${ROLES}${NOWHERE}/`, 'organization:write'],
      ['DELETE', `${ROLES}${NOWHERE}/`, 'organization:write'],
      ['POST', `${ROLES}${NOWHERE}/role_memberships/`, 'organization:write'],
      ['DELETE', `${ROLES}${NOWHERE}/role_memberships/${NOWHERE}/`, 'organization:write'],
    ]
    const scopes = [
      'feature_flag:read',
      'feature_flag:write',
      'organization:read',
      'organization:write',
    ]
    const keys = new Map(scopes.map((scope) => [scope, daemon.keyOf({ scopes: [scope] })]))
    const log = daemon.keyOf({ scopes: ['activity_log:read', 'project:write'] })
    const limited = daemon.keyOf({ projectIds: [2] })
    await daemon.settled()
    const differences = new Differences()
    for (const [method, path, needed] of rows) {
      for (const [scope, key] of keys) {
        const isEnough = scope === needed || scope === needed.replace('read', 'write')
        const { status } = await daemon.ask(method, path, undefined, key)
        differences.equal(status !== 403, isEnough, `${method} ${path} with ${scope}: ${status}`)
      }
      for (const [key, refusal] of [
        [log, error(403, 'permission_denied')],
        [limited, error(403, 'permission_denied')],
        ['phx_unknown', error(401, 'authentication_failed')],
      ] as const) {
        const answer = await daemon.ask(method, path, undefined, key)
        differences.match(answer, refusal, `${method} ${path} with another key`)
      }
    }
    t.strictSame(differences.list(), [], 'exactly the scope of the row is sufficient')
  },
)
