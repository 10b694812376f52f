/**
 * Personal keys and secret keys over HTTP: created, rolled, revoked, and limited to their purpose.
 *
 * @lane quick
 */
import t from 'tap'
import type { KeyRequest } from '../../../src/rules/access/organization.ts'
import { Differences } from '../../fixtures/differences.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { resultsOf, startOrganization, textOf } from '../../fixtures/organization-daemon.ts'

const daemon = await startOrganization(t)
const ORGANIZATION = 'organizations/@current/'
const KEYS = 'personal_api_keys/'
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/

const ann = daemon.somebody({ email: 'ann@x.example', firstName: 'Ann', distinctId: 'ann-1' })
const admin = daemon.somebody({ email: 'admin@x.example', level: 8 })
await daemon.settled()

function error(status: number, code: string, attr: string | null = null) {
  return { status, body: { code, attr } }
}

t.test('a personal key is shown once, works, and can be changed, rolled and revoked', async (t) => {
  const asked = { label: ' CI ', scopes: ['feature_flag:read'], scoped_teams: [1] }
  const made = await daemon.ask('POST', KEYS, asked, ann.key)
  t.equal(made.status, 201)
  const value = textOf(made, 'value')
  t.match(made.body, {
    label: 'CI',
    value: /^phx_\w{43}$/,
    mask_value: `phx_...${value.slice(-4)}`,
    user_id: ann.user.id,
    scopes: ['feature_flag:read'],
    scoped_teams: [1],
    last_rolled_at: null,
    expires_at: null,
  })
  const flags = (key: string) => daemon.ask('GET', 'projects/1/feature_flags/', undefined, key)
  t.equal((await flags(value)).status, 200)
  const path = `${KEYS}${String(made.body['id'])}/`
  const shown = await daemon.ask('GET', path, undefined, ann.key)
  t.strictSame(shown.body, { ...made.body, value: null })
  t.equal(resultsOf(await daemon.ask('GET', KEYS, undefined, ann.key)).length, 2)
  t.match(await daemon.ask('GET', path), error(404, 'not_found'), 'a key of another user')
  t.match(await daemon.ask('DELETE', path), error(404, 'not_found'))
  t.match(await daemon.ask('PATCH', path, { scopes: 5 }), error(404, 'not_found'))
  const wider = { scopes: ['event:read'], scoped_teams: null }
  t.match(await daemon.ask('PATCH', path, wider, ann.key), {
    status: 200,
    body: { label: 'CI', scopes: ['event:read'], scoped_teams: null },
  })
  t.match(await flags(value), error(403, 'permission_denied'))
  const rolled = await daemon.ask('POST', `${path}roll/`, undefined, ann.key)
  t.match(rolled, { status: 200, body: { id: made.body['id'], last_rolled_at: TIME } })
  t.match(await flags(value), error(401, 'authentication_failed'), 'the old key is invalid')
  t.match(await flags(textOf(rolled, 'value')), error(403, 'permission_denied'))
  t.equal((await daemon.ask('DELETE', path, undefined, ann.key)).status, 204)
  t.match(await flags(textOf(rolled, 'value')), error(401, 'authentication_failed'))
  for (const [method, end] of [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', 'roll/'],
  ] as const) {
    t.match(await daemon.ask(method, path + end, undefined, ann.key), error(404, 'not_found'))
    t.match(
      await daemon.ask(method, `${KEYS}x/${end}`, undefined, ann.key),
      error(404, 'not_found'),
    )
  }
})

t.test('any key can read its own record, whatever its scopes are', async (t) => {
  const asked = { label: 'narrow', scopes: ['feature_flag:read'], scoped_teams: [2] }
  const made = await daemon.ask('POST', KEYS, asked, ann.key)
  const narrow = textOf(made, 'value')
  for (const path of [`${KEYS}@current/`, `${KEYS}@current`]) {
    const shown = await daemon.ask('GET', path, undefined, narrow)
    t.equal(shown.status, 200)
    t.strictSame(shown.body, { ...made.body, value: null, scoped_organizations: [] }, path)
  }
  t.match(await daemon.ask('GET', `${KEYS}@current/`), {
    status: 200,
    body: { scopes: ['*'], scoped_teams: [], scoped_organizations: [], value: null },
  })
  t.match(
    await daemon.ask('GET', `${KEYS}${String(made.body['id'])}/`, undefined, narrow),
    error(403, 'permission_denied'),
    'reading by number requires the scope',
  )
  const none = await daemon.ask('GET', `${KEYS}@current/`, undefined, null)
  t.match(none, error(401, 'not_authenticated'))
  for (const key of ['phx_nobody', daemon.decisions.key()]) {
    const denied = await daemon.ask('GET', `${KEYS}@current/`, undefined, key)
    t.match(denied, error(401, 'authentication_failed'), key)
  }
  const path = `${KEYS}${String(made.body['id'])}/`
  t.equal((await daemon.ask('DELETE', path, undefined, ann.key)).status, 204)
  const revoked = await daemon.ask('GET', `${KEYS}@current/`, undefined, narrow)
  t.match(revoked, error(401, 'authentication_failed'))
})

t.test('an unknown scope is named in the error; scopes of PostHog are accepted', async (t) => {
  const label = 'scopes'
  const refused = await daemon.ask('POST', KEYS, { label, scopes: ['flags:read'] }, ann.key)
  t.match(refused.body['detail'], /^"flags:read" is not a scope\. .*\bfeature_flag:read\b/)
  const scopes = ['experiment:read', 'session_recording:write', 'query:write', 'event:read']
  const made = await daemon.ask('POST', KEYS, { label, scopes }, ann.key)
  t.match(made, { status: 201, body: { scopes } })
  const path = `${KEYS}${String(made.body['id'])}/`
  const patched = await daemon.ask('PATCH', path, { scopes: ['x:read'] }, ann.key)
  t.match(patched, error(400, 'invalid_input', 'scopes'))
  t.equal((await daemon.ask('DELETE', path, undefined, ann.key)).status, 204)
})

t.test('an invalid personal key is refused', async (t) => {
  const base = { label: 'x', scopes: ['*'] }
  const refused: readonly (readonly [object, string, string])[] = [
    [{}, 'required', 'label'],
    [{ ...base, label: null }, 'null', 'label'],
    [{ ...base, label: '' }, 'blank', 'label'],
    [{ label: 'x' }, 'required', 'scopes'],
    [{ ...base, scopes: null }, 'null', 'scopes'],
    [{ ...base, scopes: '*' }, 'not_a_list', 'scopes'],
    [{ ...base, scopes: [] }, 'invalid_input', 'scopes'],
    [{ ...base, scopes: [5] }, 'invalid_input', 'scopes'],
    [{ ...base, scopes: ['everything'] }, 'invalid_input', 'scopes'],
    [{ ...base, scopes: ['nonsense:read'] }, 'invalid_input', 'scopes'],
    [{ ...base, scopes: ['event:read', 'flags:read'] }, 'invalid_input', 'scopes'],
    [{ ...base, scopes: ['event:delete'] }, 'invalid_input', 'scopes'],
    [{ ...base, scopes: Array(101).fill('event:read') }, 'invalid_input', 'scopes'],
    [{ ...base, scoped_teams: 1 }, 'not_a_list', 'scoped_teams'],
    [{ ...base, scoped_teams: ['1'] }, 'invalid_input', 'scoped_teams'],
    [{ ...base, scoped_teams: [99] }, 'does_not_exist', 'scoped_teams'],
    [{ ...base, expires_at: 'soon' }, 'invalid_input', 'expires_at'],
    [{ ...base, expires_at: '2001-01-01T00:00:00Z' }, 'invalid_input', 'expires_at'],
  ]
  for (const [body, code, attr] of refused) {
    t.match(
      await daemon.ask('POST', KEYS, body),
      error(400, code, attr),
      JSON.stringify(body).slice(0, 80),
    )
  }
})

t.test('a key cannot create a key with more rights than its own', async (t) => {
  const soonMs = Date.now() + 3_600_000
  const narrow = daemon.keyOf({
    scopes: ['personal_api_key:write', 'feature_flag:write'],
    projectIds: [1],
    expiresAtMs: soonMs,
  })
  const wide = daemon.store.projects.keys.create({ label: 'wide' }).key
  await daemon.settled()
  const fine = {
    label: 'x',
    scopes: ['feature_flag:read'],
    scoped_teams: [1],
    expires_at: new Date(soonMs).toISOString(),
  }
  t.equal((await daemon.ask('POST', KEYS, fine, narrow)).status, 201)
  const denied = error(403, 'permission_denied')
  for (const change of [
    { scopes: ['*'] },
    { scopes: ['feature_flag:read', 'event:read'] },
    { scoped_teams: [1, 2] },
    { scoped_teams: [] },
    { expires_at: new Date(soonMs + 60_000).toISOString() },
    { expires_at: null },
  ]) {
    const answer = await daemon.ask('POST', KEYS, { ...fine, ...change }, narrow)
    t.match(answer, denied, JSON.stringify(change))
  }
  t.match(await daemon.ask('POST', `${KEYS}${wide.id}/roll/`, undefined, narrow), denied)
  t.match(await daemon.ask('PATCH', `${KEYS}${wide.id}/`, { scopes: ['*'] }, narrow), denied)
  const less = { scopes: ['feature_flag:read'], scoped_teams: [1] }
  t.match(
    await daemon.ask('PATCH', `${KEYS}${wide.id}/`, less, narrow),
    denied,
    'it cannot remove rights',
  )
  t.match(await daemon.ask('PATCH', `${KEYS}${wide.id}/`, { label: 'w' }, narrow), { status: 200 })
  const { status, body } = await daemon.ask('DELETE', `${KEYS}${wide.id}/`, undefined, narrow)
  t.match({ status, body }, denied, 'it cannot revoke that key')
  t.match(body['detail'], /cannot revoke a key that has scopes that the calling key lacks \(\*\)/)
  t.match(await daemon.ask('GET', `${KEYS}${wide.id}/`), { status: 200 })
  t.match(
    await daemon.ask('PATCH', `${KEYS}${wide.id}/`, { expires_at: fine.expires_at }),
    error(400, 'invalid_input', 'expires_at'),
  )
})

t.test('a key can revoke and roll itself and keys that do not have more rights', async (t) => {
  const soonMs = Date.now() + 3_600_000
  const scopes = ['personal_api_key:write', 'feature_flag:write', 'event:read']
  const asking = { scopes, projectIds: [1, 2], expiresAtMs: soonMs }
  const own = daemon.store.projects.keys.create(asking)
  const stronger: readonly KeyRequest[] = [
    { ...asking, scopes: ['*'] },
    { ...asking, scopes: [...scopes, 'event:write'] },
    { ...asking, projectIds: 'all' },
    { ...asking, projectIds: [1, 2, 3] },
    { ...asking, expiresAtMs: soonMs + 1 },
    { scopes, projectIds: [1, 2] },
  ]
  const equal: readonly KeyRequest[] = [
    asking,
    { ...asking, scopes: ['feature_flag:read', 'event:read', 'event:read'], projectIds: [2] },
    { ...asking, expiresAtMs: soonMs - 1 },
  ]
  daemon.store.projects.createProject({ name: 'third' })
  const idsOf = (requests: readonly KeyRequest[]) =>
    requests.map((request) => daemon.store.projects.keys.create(request).key.id)
  const [strong, weak] = [idsOf(stronger), idsOf(equal)]
  await daemon.settled()
  const ask = (method: string, path: string, body?: object) =>
    daemon.ask(method, `${KEYS}${path}`, body, own.text)
  for (const [index, id] of strong.entries()) {
    const of = JSON.stringify(stronger[index])
    for (const [method, path] of [
      ['DELETE', `${id}/`],
      ['POST', `${id}/roll/`],
    ] as const) {
      t.match(await ask(method, path), error(403, 'permission_denied'), `${method} ${of}`)
    }
    t.match(await ask('PATCH', `${id}/`, { scopes: ['event:read'] }), { status: 403 }, of)
    t.match(await ask('GET', `${id}/`), { status: 200 }, 'it is active and listed')
  }
  for (const id of weak) {
    t.equal((await ask('POST', `${id}/roll/`)).status, 200)
    t.equal((await ask('DELETE', `${id}/`)).status, 204)
  }
  t.equal((await ask('DELETE', `${own.key.id}/`)).status, 204, 'the key itself')
  t.match(await ask('GET', ''), error(401, 'authentication_failed'))
})

t.test(
  'a user who hands out a secret key needs lasting read access to flag definitions',
  async (t) => {
    const secrets = 'projects/1/secret_keys/'
    const made = await daemon.ask('POST', secrets, { label: 'x' })
    const path = `${secrets}${String(made.body['id'])}/`
    const project = { scopes: ['project:write'] }
    const both = { scopes: ['project:write', 'feature_flag:read'] }
    const lacking = [
      daemon.keyOf(project),
      daemon.keyOf({ ...both, expiresAtMs: Date.now() + 1e6 }),
    ]
    const enough = daemon.keyOf(both)
    await daemon.settled()
    for (const key of lacking) {
      for (const target of [secrets, `${path}roll/`]) {
        t.match(await daemon.ask('POST', target, {}, key), error(403, 'permission_denied'))
      }
      // The right is checked before the body.
      const wrong = await daemon.ask('POST', secrets, { label: '' }, key)
      t.match(wrong, error(403, 'permission_denied'))
    }
    t.equal((await daemon.ask('POST', `${path}roll/`, undefined, enough)).status, 200)
    t.equal((await daemon.ask('DELETE', path, undefined, lacking[0])).status, 204)
    const again = await daemon.ask('POST', secrets, {}, enough)
    t.equal(again.status, 201)
    await daemon.ask('DELETE', `${secrets}${String(again.body['id'])}/`)
  },
)

t.test('a personal key can send events if it may write them', async (t) => {
  const rows: readonly (readonly [KeyRequest, number, string | null])[] = [
    [{}, 200, null],
    [{ scopes: ['event:write'], projectIds: [2] }, 200, null],
    [{ scopes: ['event:read', 'person:write', 'project:write'] }, 401, 'invalid_personal_api_key'],
    [{ scopes: ['personal_api_key:write'] }, 401, 'invalid_personal_api_key'],
    [{ scopes: ['event:write'], projectIds: [1] }, 400, 'invalid_project'],
  ]
  const keys = rows.map(([request]) => daemon.keyOf(request))
  await daemon.settled()
  const event = { event: 'sent with a personal key', distinct_id: 'd' }
  for (const [index, [request, status, code]] of rows.entries()) {
    const key = keys[index] ?? ''
    const shapes: readonly (readonly [string, object])[] = [
      ['/capture/', { api_key: key, project_id: 2, ...event }],
      ['/batch/', { api_key: key, project_id: 2, batch: [event] }],
      ['/batch/?project_id=2', { api_key: key, batch: [{ ...event, pad: 'x'.repeat(200_000) }] }],
      ['/s/', { api_key: key, project_id: 2, ...event }],
    ]
    for (const [path, json] of shapes) {
      const answer = await daemon.decisions.ask(path, { json })
      t.match(
        answer,
        { status, body: code === null ? { status: 1 } : { code } },
        `${path} ${JSON.stringify(request)}`,
      )
    }
  }
})

t.test('a secret key of a project reads flag definitions and nothing else', async (t) => {
  const secrets = 'projects/1/secret_keys/'
  const made = await daemon.ask('POST', secrets, { label: 'server' }, admin.key)
  t.match(made, { status: 201, body: { label: 'server', value: /^phs_\w{43}$/, project_id: 1 } })
  const key = textOf(made, 'value')
  const path = `${secrets}${String(made.body['id'])}/`
  t.match(await daemon.ask('GET', secrets, undefined, ann.key), {
    status: 200,
    body: { count: 1, results: [{ ...made.body, value: null }] },
  })
  const definitions = 'projects/1/feature_flags/local_evaluation'
  t.equal((await daemon.ask('GET', definitions, undefined, key)).status, 200)
  t.equal(
    (await daemon.ask('GET', 'projects/@current/feature_flags/local_evaluation', undefined, key))
      .status,
    200,
  )
  t.equal(
    (await daemon.ask('GET', `${definitions}?token=phc_project_1`, undefined, key)).status,
    200,
  )
  const denied = error(403, 'permission_denied')
  t.match(
    await daemon.ask('GET', 'projects/2/feature_flags/local_evaluation', undefined, key),
    denied,
  )
  t.match(await daemon.ask('GET', `${definitions}?token=phc_project_2`, undefined, key), denied)
  const failed = error(401, 'authentication_failed')
  t.match(await daemon.ask('GET', `${definitions}?token=phc_no`, undefined, key), failed)
  for (const closed of ['projects/1/', 'projects/1/feature_flags/', 'users/@me/', ORGANIZATION]) {
    t.match(await daemon.ask('GET', closed, undefined, key), failed, closed)
  }
  t.match(await daemon.ask('DELETE', path.replace('/1/', '/2/')), error(404, 'not_found'))
  t.match(await daemon.ask('POST', `projects/1/secret_keys/999/roll`), error(404, 'not_found'))
  t.match(await daemon.ask('POST', secrets, {}, ann.key), denied)
  t.match(await daemon.ask('POST', secrets, { label: '' }), error(400, 'blank', 'label'))
  const rolled = await daemon.ask('POST', `${path}roll/`)
  t.match(rolled, { status: 200, body: { id: made.body['id'], last_rolled_at: TIME } })
  t.match(await daemon.ask('GET', definitions, undefined, key), failed)
  const fresh = textOf(rolled, 'value')
  t.equal((await daemon.ask('GET', definitions, undefined, fresh)).status, 200)
  t.equal((await daemon.ask('DELETE', path)).status, 204)
  t.match(await daemon.ask('GET', definitions, undefined, fresh), failed)
  t.match(await daemon.ask('GET', secrets), { body: { count: 0 } })
})

t.test('revoked, expired, foreign and mistyped keys are refused', async (t) => {
  const keys = daemon.store.projects.keys
  const revoked = keys.create()
  keys.revoke(revoked.key.id)
  const expired = daemon.keyOf({ expiresAtMs: Date.now() - 1 })
  const gone = daemon.somebody({ email: 'gone@x.example' })
  daemon.store.users.change(gone.user.id, { isActive: false })
  await daemon.settled()
  const invalid = [
    revoked.text,
    expired,
    gone.key,
    'phc_project_1',
    `${PERSONAL_KEY}x`,
    PERSONAL_KEY.slice(0, -1),
    PERSONAL_KEY.toUpperCase(),
    'phx_',
    'x'.repeat(5000),
  ]
  const differences = new Differences()
  for (const path of [
    'users/@me/',
    ORGANIZATION,
    'projects/',
    KEYS,
    'projects/1/feature_flags/1/role_access/',
  ]) {
    for (const key of invalid) {
      const answer = await daemon.ask('GET', path, undefined, key)
      const name = `${path} ${key.slice(0, 20)}`
      differences.match(answer, error(401, 'authentication_failed'), name)
      differences.equal(answer.headers['www-authenticate'], 'Bearer', name)
    }
    const anonymous = await daemon.ask('GET', path, undefined, null)
    differences.match(anonymous, error(401, 'not_authenticated'), `${path} without a key`)
  }
  t.strictSame(differences.list(), [], 'no route accepts the key')
  daemon.store.users.change(gone.user.id, { isActive: true })
  await daemon.settled()
  t.equal((await daemon.ask('GET', 'users/@me/', undefined, gone.key)).status, 200)
})
