/**
 * Organization, members, the current user, projects, personal keys and secret keys over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { linesOf, runCommand as run } from '../../fixtures/command-line.ts'
import { Differences } from '../../fixtures/differences.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { startOrganization, textOf } from '../../fixtures/organization-daemon.ts'

const daemon = await startOrganization(t)
const ORGANIZATION = 'organizations/@current/'
const MEMBERS = `${ORGANIZATION}members/`
const RESOURCES = `${ORGANIZATION}resource_access/`
const KEYS = 'personal_api_keys/'
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/
const NOWHERE = '01900000-0000-7000-8000-000000000000'

const ann = daemon.somebody({ email: 'ann@x.example', firstName: 'Ann', distinctId: 'ann-1' })
const admin = daemon.somebody({ email: 'admin@x.example', level: 8 })
const limited = daemon.keyOf({ projectIds: [2] })
await daemon.settled()
const [owner] = daemon.store.users.list()

function error(status: number, code: string, attr: string | null = null) {
  return { status, body: { code, attr } }
}

t.test('the organization is found by its id or @current', async (t) => {
  const answer = await daemon.ask('GET', ORGANIZATION, undefined, ann.key)
  t.match(answer, {
    status: 200,
    body: {
      name: 'Default',
      created_at: TIME,
      membership_level: 1,
      projects: [{ id: 1 }, { id: 2, name: 'Project 2' }],
    },
  })
  const id = textOf(answer, 'id')
  t.equal((await daemon.ask('GET', `organizations/${id}`)).body['id'], id)
  t.equal((await daemon.ask('GET', `organizations/${id.toUpperCase()}/`)).status, 200)
  for (const other of [NOWHERE, 'x', '1', '@me']) {
    t.match(await daemon.ask('GET', `organizations/${other}/`), error(404, 'not_found'), other)
  }
  t.match(await daemon.ask('GET', ORGANIZATION, undefined, null), {
    ...error(401, 'not_authenticated'),
    headers: { 'www-authenticate': 'Bearer' },
  })
  t.match(
    await daemon.ask('GET', ORGANIZATION, undefined, limited),
    error(403, 'permission_denied'),
  )
})

t.test('the organization and its projects are listed', async (t) => {
  const one = await daemon.ask('GET', ORGANIZATION, undefined, ann.key)
  for (const path of ['organizations/', 'organizations']) {
    const list = await daemon.ask('GET', path, undefined, ann.key)
    t.equal(list.status, 200)
    t.strictSame(list.body, { count: 1, next: null, previous: null, results: [one.body] }, path)
  }
  const behind = await daemon.ask('GET', 'organizations/?limit=1&offset=1')
  t.match(behind, { status: 200, body: { count: 1, next: null, results: [] } })

  const id = textOf(one, 'id')
  const all = await daemon.ask('GET', 'projects/', undefined, ann.key)
  for (const name of [id, id.toUpperCase(), '@current']) {
    const list = await daemon.ask('GET', `organizations/${name}/projects/`, undefined, ann.key)
    t.equal(list.status, 200, name)
    t.strictSame(list.body, all.body, name)
  }
  const second = await daemon.ask('GET', `${ORGANIZATION}projects/?limit=1&offset=1`)
  t.match(second, {
    status: 200,
    body: { count: 2, next: null, previous: /offset=0|limit=1/, results: [{ id: 2 }] },
  })
  t.match(await daemon.ask('GET', `organizations/${NOWHERE}/projects/`), error(404, 'not_found'))

  const events = daemon.keyOf({ scopes: ['event:read'] })
  const organizations = daemon.keyOf({ scopes: ['organization:read'] })
  await daemon.settled()
  for (const path of ['organizations/', `${ORGANIZATION}projects/`]) {
    t.match(await daemon.ask('GET', path, undefined, null), error(401, 'not_authenticated'), path)
    t.match(await daemon.ask('GET', path, undefined, events), error(403, 'permission_denied'), path)
    const denied = await daemon.ask('GET', path, undefined, limited)
    t.match(denied, error(403, 'permission_denied'), path)
    const posted = await daemon.ask('POST', path, { name: 'x' })
    t.match(posted, { ...error(405, 'method_not_allowed'), headers: { allow: 'GET' } }, path)
  }
  t.equal((await daemon.ask('GET', 'organizations/', undefined, organizations)).status, 200)
  const projects = await daemon.ask('GET', `${ORGANIZATION}projects/`, undefined, organizations)
  t.match(projects, error(403, 'permission_denied'), 'the scope is project:read')
})

t.test('members are listed, promoted and removed by users with a higher level', async (t) => {
  const list = await daemon.ask('GET', MEMBERS, undefined, ann.key)
  t.match(list, {
    status: 200,
    body: {
      count: 3,
      results: [
        { id: owner?.uuid, level: 15, user: { email: 'owner@localhost' } },
        {
          id: ann.user.uuid,
          level: 1,
          joined_at: TIME,
          user: { id: ann.user.id, distinct_id: 'ann-1', first_name: 'Ann' },
        },
        { level: 8 },
      ],
    },
  })
  t.match(await daemon.ask('GET', `${MEMBERS}?limit=1&offset=2`), {
    body: { next: null, previous: /offset=1$/, results: [{ level: 8 }] },
  })
  const eve = daemon.somebody({ email: 'eve@x.example' })
  await daemon.settled()
  const path = `${MEMBERS}${eve.user.uuid}/`
  t.match(await daemon.ask('GET', path), { status: 200, body: { id: eve.user.uuid, level: 1 } })
  t.match(await daemon.ask('PATCH', path, { level: 8 }, admin.key), {
    status: 200,
    body: { level: 8 },
  })
  t.match(await daemon.ask('PATCH', path, {}, admin.key), { status: 200, body: { level: 8 } })
  const denied = error(403, 'permission_denied')
  t.match(
    await daemon.ask('PATCH', path, { level: 15 }, admin.key),
    denied,
    "a level above the caller's own",
  )
  t.match(
    await daemon.ask('PATCH', `${MEMBERS}${admin.user.uuid}`, { level: 1 }, admin.key),
    denied,
  )
  t.match(await daemon.ask('DELETE', `${MEMBERS}${admin.user.uuid}`, undefined, admin.key), denied)
  t.match(await daemon.ask('PATCH', `${MEMBERS}${owner?.uuid}`, { level: 1 }, admin.key), denied)
  t.match(await daemon.ask('DELETE', `${MEMBERS}${owner?.uuid}`, undefined, admin.key), denied)
  t.match(await daemon.ask('PATCH', path, { level: 1 }, ann.key), denied)
  t.match(await daemon.ask('DELETE', path, undefined, ann.key), denied)
  t.match(await daemon.ask('PATCH', path, { level: 5 }), error(400, 'invalid_choice', 'level'))
  t.match(await daemon.ask('PATCH', path, { level: null }), error(400, 'null', 'level'))
  for (const unknown of [NOWHERE, 'x']) {
    t.match(await daemon.ask('GET', MEMBERS + unknown), error(404, 'not_found'))
    t.match(await daemon.ask('PATCH', MEMBERS + unknown, { level: 5 }), error(404, 'not_found'))
    t.match(await daemon.ask('DELETE', MEMBERS + unknown), error(404, 'not_found'))
  }
  t.match(await daemon.ask('PATCH', path, { level: 15 }), { status: 200, body: { level: 15 } })
  t.equal((await daemon.ask('DELETE', path)).status, 204)
  t.match(await daemon.ask('GET', path), error(404, 'not_found'))
  t.equal((await daemon.ask('GET', MEMBERS)).body['count'], 3)
  t.match(
    await daemon.ask('GET', 'users/@me', undefined, eve.key),
    error(401, 'authentication_failed'),
    'the keys stop working at once',
  )
  t.match(await daemon.ask('POST', MEMBERS, {}), error(400, 'required', 'email'))
})

t.test('the default level for flags can be set, changed and removed', async (t) => {
  const body = { resource: 'feature flags', access_level: 21 }
  t.match(await daemon.ask('GET', RESOURCES), { status: 200, body: { count: 0, results: [] } })
  t.match(await daemon.ask('GET', `${RESOURCES}1`), error(404, 'not_found'))
  const refused: readonly (readonly [object, string, string])[] = [
    [{}, 'required', 'resource'],
    [{ resource: 'insights', access_level: 21 }, 'invalid_choice', 'resource'],
    [{ resource: null, access_level: 21 }, 'invalid_choice', 'resource'],
    [{ resource: 'feature flags' }, 'required', 'access_level'],
    [{ ...body, access_level: 8 }, 'invalid_choice', 'access_level'],
    [{ ...body, access_level: null }, 'null', 'access_level'],
  ]
  for (const [sent, code, attr] of refused) {
    t.match(await daemon.ask('POST', RESOURCES, sent), error(400, code, attr))
  }
  t.match(await daemon.ask('POST', RESOURCES, body, ann.key), error(403, 'permission_denied'))
  const made = await daemon.ask('POST', RESOURCES, body, admin.key)
  t.match(made, { status: 201, body: { id: 1, ...body, created_by: { id: admin.user.id } } })
  t.match(await daemon.ask('POST', RESOURCES, body), error(400, 'unique', 'resource'))
  const changed = await daemon.ask('PATCH', `${RESOURCES}1/`, { access_level: 37 })
  t.match(changed, { status: 200, body: { access_level: 37, created_at: made.body['created_at'] } })
  t.match(await daemon.ask('GET', `${RESOURCES}1/`), { status: 200, body: changed.body })
  t.match(await daemon.ask('GET', RESOURCES), { body: { count: 1, results: [changed.body] } })
  t.match(await daemon.ask('PATCH', `${RESOURCES}2/`, { access_level: 5 }), error(404, 'not_found'))
  t.equal((await daemon.ask('DELETE', `${RESOURCES}1/`)).status, 204)
  t.match(await daemon.ask('DELETE', `${RESOURCES}1/`), error(404, 'not_found'))
})

t.test('a key returns its user', async (t) => {
  const me = await daemon.ask('GET', 'users/@me/', undefined, ann.key)
  t.match(me, {
    status: 200,
    body: {
      id: ann.user.id,
      uuid: ann.user.uuid,
      distinct_id: 'ann-1',
      first_name: 'Ann',
      email: 'ann@x.example',
      team: { id: 1, api_token: 'phc_project_1' },
      organization: { name: 'Default', membership_level: 1 },
      organizations: [{ name: 'Default' }],
    },
  })
  t.equal((await daemon.ask('GET', `users/${ann.user.uuid}`, undefined, ann.key)).status, 200)
  t.match(await daemon.ask('GET', `users/${ann.user.uuid}`), error(404, 'not_found'))
  t.match(await daemon.ask('GET', 'users/@me', undefined, limited), {
    status: 200,
    body: { team: { id: 2 }, organization: { projects: [{ id: 2 }] } },
  })
  t.match(
    await daemon.ask('GET', 'users/@me', undefined, 'phc_project_1'),
    error(401, 'authentication_failed'),
  )
})

t.test('projects can be listed, created and changed', async (t) => {
  t.match(await daemon.ask('GET', 'projects/', undefined, ann.key), {
    status: 200,
    body: { count: 2, next: null, previous: null, results: [{ id: 1 }, { id: 2 }] },
  })
  t.match(await daemon.ask('GET', 'projects/', undefined, limited), {
    body: { count: 1, results: [{ id: 2 }] },
  })
  t.match(await daemon.ask('GET', 'projects/@current/', undefined, limited), { body: { id: 2 } })
  t.match(
    await daemon.ask('GET', 'projects/1/', undefined, limited),
    error(403, 'permission_denied'),
  )
  t.match(await daemon.ask('GET', 'projects/9/'), error(404, 'not_found'))
  const filters = [{ key: 'email', value: '@x.example', operator: 'not_icontains', type: 'person' }]
  const settings = {
    timezone: 'Europe/Berlin',
    anonymize_ips: true,
    autocapture_opt_out: false,
    autocapture_exceptions_opt_in: true,
    autocapture_web_vitals_opt_in: false,
    test_account_filters: filters,
  }
  const made = await daemon.ask('POST', 'projects', { name: ' Shop ', ...settings }, admin.key)
  t.equal(made.status, 201)
  t.match(made.body, {
    id: 3,
    name: 'Shop',
    api_token: /^phc_\w{43}$/,
    ...settings,
    effective_membership_level: 8,
    created_at: TIME,
  })
  t.strictSame((await daemon.ask('GET', 'projects/3', undefined, admin.key)).body, made.body)
  const event = { api_key: textOf(made, 'api_token'), event: 'e', distinct_id: 'd' }
  t.equal((await daemon.decisions.ask('/capture/', { json: event })).status, 200, 'usable at once')
  const changed = await daemon.ask('PATCH', 'projects/3/', {
    timezone: 'UTC',
    test_account_filters: [],
  })
  t.match(changed, { status: 200, body: { name: 'Shop', timezone: 'UTC', anonymize_ips: true } })
  t.strictSame(changed.body['test_account_filters'], [])
  t.match(await daemon.ask('PATCH', 'projects/2/', { name: 'Two' }, limited), {
    body: { name: 'Two' },
  })
  const refused: readonly (readonly [object, string, string])[] = [
    [{ name: '' }, 'blank', 'name'],
    [{ name: null }, 'null', 'name'],
    [{ name: 'x'.repeat(201) }, 'max_length', 'name'],
    [{ timezone: 'Mars/Olympus' }, 'invalid_choice', 'timezone'],
    [{ timezone: 5 }, 'invalid_input', 'timezone'],
    [{ anonymize_ips: 'yes' }, 'invalid_input', 'anonymize_ips'],
    [{ anonymize_ips: null }, 'null', 'anonymize_ips'],
    [{ autocapture_opt_out: 1 }, 'invalid_input', 'autocapture_opt_out'],
    [{ test_account_filters: {} }, 'not_a_list', 'test_account_filters'],
    [{ test_account_filters: ['x'] }, 'invalid_input', 'test_account_filters'],
    [{ test_account_filters: Array(101).fill({}) }, 'invalid_input', 'test_account_filters'],
    [
      { test_account_filters: [{ a: 'x'.repeat(65_536) }] },
      'invalid_input',
      'test_account_filters',
    ],
  ]
  for (const [body, code, attr] of refused) {
    const answer = await daemon.ask('PATCH', 'projects/3/', body)
    t.match(answer, error(400, code, attr), JSON.stringify(body).slice(0, 60))
  }
  t.match(await daemon.ask('POST', 'projects/', {}), error(400, 'required', 'name'))
  const denied = error(403, 'permission_denied')
  t.match(await daemon.ask('POST', 'projects/', {}, ann.key), denied)
  t.match(await daemon.ask('POST', 'projects/', {}, limited), denied)
  t.match(await daemon.ask('PATCH', 'projects/3/', { name: '' }, ann.key), denied)
  t.match(await daemon.ask('DELETE', 'projects/3/'), error(405, 'method_not_allowed'))
})

t.test('each route requires its scope', async (t) => {
  const rows: readonly (readonly [string, string, string])[] = [
    ['GET', ORGANIZATION, 'organization:read'],
    ['GET', MEMBERS, 'organization:read'],
    ['GET', `${MEMBERS}${NOWHERE}`, 'organization:read'],
    ['PATCH', `${MEMBERS}${NOWHERE}`, 'organization:write'],
    ['DELETE', `${MEMBERS}${NOWHERE}`, 'organization:write'],
    ['GET', RESOURCES, 'organization:read'],
    ['GET', `${RESOURCES}1`, 'organization:read'],
    ['POST', RESOURCES, 'organization:write'],
    ['PATCH', `${RESOURCES}1`, 'organization:write'],
    ['DELETE', `${RESOURCES}1`, 'organization:write'],
    ['GET', 'users/@me', 'user:read'],
    ['GET', 'projects', 'project:read'],
    ['POST', 'projects', 'project:write'],
    ['GET', 'projects/1', 'project:read'],
    ['PATCH', 'projects/1', 'project:write'],
    ['GET', 'projects/1/secret_keys', 'project:read'],
    ['POST', 'projects/1/secret_keys/99/roll', 'project:write'],
    ['DELETE', 'projects/1/secret_keys/99', 'project:write'],
    ['GET', KEYS, 'personal_api_key:read'],
    ['GET', `${KEYS}999`, 'personal_api_key:read'],
    ['POST', KEYS, 'personal_api_key:write'],
    ['PATCH', `${KEYS}999`, 'personal_api_key:write'],
    ['POST', `${KEYS}999/roll`, 'personal_api_key:write'],
    ['DELETE', `${KEYS}999`, 'personal_api_key:write'],
  ]
  const things = ['organization', 'user', 'project', 'personal_api_key']
  const scopes = things.flatMap((thing) => [`${thing}:read`, `${thing}:write`])
  const keys = new Map(scopes.map((scope) => [scope, daemon.keyOf({ scopes: [scope] })]))
  await daemon.settled()
  const differences = new Differences()
  for (const [method, path, needed] of rows) {
    for (const [scope, key] of keys) {
      const isEnough = scope === needed || scope === needed.replace(':read', ':write')
      const { status } = await daemon.ask(method, path, undefined, key)
      differences.equal(status !== 403, isEnough, `${method} ${path} with ${scope}: ${status}`)
    }
  }
  t.strictSame(differences.list(), [], 'exactly the scope of the row is sufficient')
})

t.test('a link never contains the key', async (t) => {
  const query = `personal_api_key=${PERSONAL_KEY}&limit=1&b=2&a=1`
  const answer = await daemon.ask('GET', `${MEMBERS}?${query}`, undefined, null)
  t.equal(answer.status, 200)
  t.equal(new URL(textOf(answer, 'next')).search, '?a=1&b=2&limit=1&offset=1')
})

t.test('a running daemon notices the changes of commands', async (t) => {
  const flags = ['--data-dir', daemon.decisions.dataDir, '--json']
  await run('user', 'create', '--email', 'cleo@x.example', ...flags)
  const [key] = linesOf(await run('key', 'create', '--user', 'cleo@x.example', ...flags))
  await run('role', 'create', '--name', 'Viewers', '--level', 'view', ...flags)
  await run('role', 'add', 'Viewers', 'cleo@x.example', ...flags)
  await daemon.settled()
  const text = String(key?.['key'])
  t.match(await daemon.ask('GET', 'users/@me/', undefined, text), {
    status: 200,
    body: { email: 'cleo@x.example' },
  })
  t.match(await daemon.ask('GET', 'organizations/@current/roles/', undefined, text), {
    body: { results: [{ name: 'Viewers', members: 'cleo@x.example', created_by: null }] },
  })
  await run('user', 'deactivate', 'cleo@x.example', ...flags)
  await daemon.settled()
  t.equal((await daemon.ask('GET', 'users/@me/', undefined, text)).status, 401)
})
