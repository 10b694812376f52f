/**
 * Feature flags over HTTP: the routes that read, list and change them, and the rights that they require.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import {
  type FlagsFileChunk,
  type FlagsFileTask,
  flagsFileChunk,
} from '../../../src/engine/threads/flags-file.ts'
import type { Flag, FlagSet } from '../../../src/rules/flags/types.ts'
import { OrganizationStore } from '../../../src/store/catalog/organization-store.ts'
import { Differences } from '../../fixtures/differences.ts'
import { send } from '../../fixtures/exact-client.ts'
import {
  type DecisionDaemon,
  type JsonAnswer,
  PERSONAL_KEY,
} from '../../fixtures/flags/decision-daemon.ts'
import { makeSet } from '../../fixtures/flags/flag-set.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const daemon = await shareDecisions(3)
const FLAGS = 'feature_flags/'
const FIELDS = [
  'active',
  'analytics_dashboards',
  'bucketing_identifier',
  'can_edit',
  'created_at',
  'created_by',
  'deleted',
  'ensure_experience_continuity',
  'evaluation_contexts',
  'evaluation_runtime',
  'evaluation_tags',
  'experiment_set',
  'features',
  'filters',
  'has_encrypted_payloads',
  'has_enriched_analytics',
  'id',
  'is_remote_configuration',
  'is_simple_flag',
  'key',
  'last_modified_by',
  'name',
  'performed_rollback',
  'rollback_conditions',
  'rollout_percentage',
  'status',
  'surveys',
  'tags',
  'updated_at',
  'usage_dashboard',
  'user_access_level',
  'version',
]
const REQUIRED_SHAPE = {
  status: 400,
  body: { type: 'validation_error', code: 'required', attr: 'key', detail: /key/ },
}

type Api = (method: string, path: string, json?: unknown) => Promise<JsonAnswer>

/** The private routes of a project. */
function apiOf(source: DecisionDaemon, projectId: number): Api {
  return (method, path, json) => source.api(method, path, projectId, json)
}

async function create(api: Api, key: string, more: JsonObject = {}): Promise<JsonObject> {
  const answer = await api('POST', FLAGS, { key, ...more })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return answer.body
}

function keysOf(answer: JsonAnswer): readonly unknown[] {
  const { results } = answer.body
  return Array.isArray(results) ? results.map(({ key }: { key: unknown }) => key) : []
}

const api = apiOf(daemon, 1)

t.test('a flag can be created, read, changed, deleted and restored', async (t) => {
  const made = await api('POST', FLAGS, { key: 'beta' })
  t.equal(made.status, 201)
  t.strictSame(Object.keys(made.body).sort(), FIELDS)
  t.match(made.body, {
    key: 'beta',
    name: '',
    filters: { groups: [{ properties: [], rollout_percentage: null }] },
    deleted: false,
    active: true,
    created_by: { id: 1, first_name: 'Owner', email: 'owner@localhost', is_email_verified: true },
    created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/,
    is_simple_flag: true,
    rollout_percentage: null,
    ensure_experience_continuity: false,
    experiment_set: [],
    features: {},
    rollback_conditions: null,
    performed_rollback: null,
    can_edit: true,
    tags: [],
    usage_dashboard: null,
    analytics_dashboards: [],
    has_enriched_analytics: false,
    version: 1,
    status: 'ACTIVE',
    surveys: [],
  })
  const path = `${FLAGS}${String(made.body['id'])}/`
  t.strictSame((await api('GET', path)).body, made.body)
  t.strictSame((await api('GET', path.slice(0, -1))).body, made.body, 'without the trailing slash')
  const patched = await api('PATCH', path, { name: 'Beta', active: false, version: 1 })
  t.match(patched, { status: 200, body: { name: 'Beta', active: false, version: 2 } })
  t.equal(patched.body['status'], 'INACTIVE')
  t.match(await api('PUT', path, { name: 'x' }), REQUIRED_SHAPE)
  t.match(await api('PUT', path, { key: 'beta', name: 'x' }), { status: 200, body: { name: 'x' } })
  const sentBack = await api('PATCH', path, (await api('GET', path)).body)
  t.match(
    sentBack,
    { status: 200, body: { name: 'x', version: 4 } },
    'a flag that was read can be sent back',
  )
  const gone = await api('PATCH', path, { deleted: true })
  t.match(gone, { status: 200, body: { deleted: true, status: 'DELETED' } })
  t.match(await api('GET', path), { status: 200, body: { deleted: true } })
  t.equal((await api('GET', FLAGS)).body['count'], 0)
  t.match(await api('PATCH', path, { deleted: false }), { status: 200, body: { deleted: false } })
  t.equal((await api('GET', FLAGS)).body['count'], 1)
})

t.test(
  'a new flag with the key of a deleted flag removes the deleted one permanently',
  async (t) => {
    const old = await create(api, 'again')
    const path = `${FLAGS}${String(old['id'])}/`
    await api('PATCH', path, { deleted: true })
    const fresh = await create(api, 'again')
    t.not(fresh['id'], old['id'])
    t.match(await api('GET', path), { status: 404, body: { code: 'not_found' } })
    t.match(await api('PATCH', path, { deleted: false }), { status: 404 })
  },
)

t.test('DELETE is answered with 405 and an empty body, and changes nothing', async (t) => {
  const flag = await create(api, 'kept')
  for (const id of [flag['id'], 999_999, 'x']) {
    const answer = await api('DELETE', `${FLAGS}${String(id)}/`)
    t.equal(answer.status, 405)
    t.equal(answer.headers['content-length'], '0')
    t.equal(answer.headers['allow'], 'GET, PATCH, PUT')
  }
  t.match(await api('GET', `${FLAGS}${String(flag['id'])}/`), { body: { deleted: false } })
})

t.test('simple flags return their percentage', async (t) => {
  const rows: readonly (readonly [JsonObject, boolean, number | null])[] = [
    [{ groups: [{ properties: [], rollout_percentage: 30 }] }, true, 30],
    [{ groups: [{ rollout_percentage: 12.5 }] }, true, 12.5],
    [{ groups: [{ rollout_percentage: 30 }, { rollout_percentage: 10 }] }, false, null],
    [{ groups: [{ properties: [{ key: 'a', type: 'person', value: 1 }] }] }, false, null],
    [{ groups: [{ rollout_percentage: 5 }], aggregation_group_type_index: 0 }, false, null],
  ]
  for (const [index, [filters, isSimple, percentage]] of rows.entries()) {
    const flag = await create(api, `simple-${index}`, { filters })
    t.equal(flag['is_simple_flag'], isSimple)
    t.equal(flag['rollout_percentage'], percentage)
  }
})

t.test('a change that is based on an outdated version is a conflict', async (t) => {
  const flag = await create(api, 'locked')
  const path = `${FLAGS}${String(flag['id'])}/`
  await api('PATCH', path, { name: 'theirs' })
  const late = { version: 1, original_flag: flag }
  const refused = await api('PATCH', path, { ...late, name: 'mine' })
  t.match(refused, {
    status: 409,
    body: { type: 'server_error', code: 'conflict', attr: null, detail: /name/ },
  })
  t.match(await api('PATCH', path, { ...late, active: false }), { status: 200 })
  t.match(await api('PATCH', path, { version: 1, name: 'mine' }), { status: 200 })
})

t.test('the list is in pages, newest first', async (t) => {
  const own = apiOf(daemon, 2)
  t.strictSame((await own('GET', FLAGS)).body, {
    count: 0,
    next: null,
    previous: null,
    results: [],
  })
  for (const key of ['a', 'b', 'c', 'd', 'e']) await create(own, key)
  t.strictSame(keysOf(await own('GET', FLAGS)), ['e', 'd', 'c', 'b', 'a'])
  const url = `${daemon.url}${daemon.path(2, FLAGS)}`
  // The header takes precedence. Other keys in the query string do not appear in links.
  const page = await own('GET', `${FLAGS}?offset=2&zoo=1&limit=2&personal_api_key=phx_other`)
  t.strictSame(keysOf(page), ['c', 'b'])
  t.match(page.body, {
    count: 5,
    next: `${url}?limit=2&offset=4&zoo=1`,
    previous: `${url}?limit=2&zoo=1`,
  })
  t.match((await own('GET', `${FLAGS}?limit=2&offset=4`)).body, { next: null })
  t.match((await own('GET', `${FLAGS}?offset=99`)).body, { count: 5, results: [], next: null })
  for (const query of ['limit=0', 'limit=-1', 'limit=x', 'offset=x', 'offset=-3', 'limit=99999']) {
    t.equal(keysOf(await own('GET', `${FLAGS}?${query}`)).length, 5, query)
  }
  t.strictSame(keysOf(await own('GET', `${FLAGS}?order=key`)), ['a', 'b', 'c', 'd', 'e'])
  t.strictSame(keysOf(await own('GET', `${FLAGS}?order=-key&limit=1`)), ['e'])
  t.strictSame(keysOf(await own('GET', `${FLAGS}?order=created_at&limit=1`)), ['a'])
  t.strictSame(keysOf(await own('GET', `${FLAGS}?order=secret&limit=1`)), ['e'])
})

t.test('the list can be filtered', async (t) => {
  const own = apiOf(daemon, 3)
  const multivariate = { variants: [{ key: 'a', rollout_percentage: 100 }] }
  const groups = [{ properties: [], rollout_percentage: 100 }]
  await create(own, 'plain', { name: 'The OLD one', created_at: '2020-01-01T00:00:00Z' })
  await create(own, 'off', { active: false, tags: ['Web'] })
  await create(own, 'many', { filters: { groups, multivariate }, tags: ['ios', 'web'] })
  await create(own, 'remote', { is_remote_configuration: true, evaluation_runtime: 'server' })
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ['active=true', ['remote', 'many', 'plain']],
    ['active=false', ['off']],
    ['active=perhaps', ['off']],
    ['active=STALE', ['plain']],
    ['search=old', ['plain']],
    ['search=MAN', ['many']],
    ['search=%25', []],
    ['type=boolean', ['remote', 'off', 'plain']],
    ['type=multivariant', ['many']],
    ['type=experiment', []],
    ['type=remote_config', ['remote']],
    ['type=other', ['remote', 'many', 'off', 'plain']],
    ['created_by_id=1', ['remote', 'many', 'off', 'plain']],
    ['created_by_id=2', []],
    ['tags=["web"]', ['many', 'off']],
    ['tags=["ios","x"]', ['many']],
    ['tags=[', ['remote', 'many', 'off', 'plain']],
    ['excluded_properties=["many","off"]', ['remote', 'plain']],
    ['evaluation_runtime=server', ['remote']],
    ['active=true&type=boolean&search=r', ['remote']],
  ]
  const differences = new Differences()
  for (const [query, expected] of rows) {
    const answer = await own('GET', `${FLAGS}?${query.replace(/"/g, '%22')}`)
    differences.same(keysOf(answer), expected, query)
    differences.equal(answer.body['count'], expected.length, `${query}: the count`)
  }
  t.strictSame(differences.list(), [], 'every filter finds its flags')
})

t.test('the reason of a change is in the log, and not in the flag', async (t) => {
  const { body: made } = await api('POST', FLAGS, { key: 'reasoned', note: ' For the launch ' })
  t.notOk(Object.hasOwn(made, 'note'))
  const path = `${FLAGS}${String(made['id'])}/`
  await api('PATCH', path, { name: 'x', note: 'Because' })
  await api('PATCH', path, { name: 'y' })
  const { body } = await api('GET', `${path}activity/`)
  const entries = body['results'] as { detail: { note?: string } }[]
  t.strictSame(
    entries.map(({ detail }) => detail.note),
    [undefined, 'Because', 'For the launch'],
  )
  t.match(await api('PATCH', path, { name: 'z', note: 'n'.repeat(2001) }), {
    status: 400,
    body: { code: 'max_length', attr: 'note' },
  })
  t.match((await api('GET', path)).body, { name: 'y' })
})

t.test('the activity log of one flag and of all flags is returned', async (t) => {
  const flag = await create(api, 'logged')
  const path = `${FLAGS}${String(flag['id'])}/`
  await api('PATCH', path, { active: false })
  await api('PATCH', path, { active: false })
  const own = await api('GET', `${path}activity`)
  t.match(own.body, {
    results: [
      {
        activity: 'updated',
        user: { first_name: 'Owner', email: 'owner@localhost' },
        item_id: String(flag['id']),
        detail: { changes: [{ field: 'active', before: true, after: false }] },
      },
      { activity: 'created' },
    ],
    next: null,
    previous: null,
    total_count: 2,
  })
  const url = `${daemon.url}${daemon.path(1, FLAGS)}activity/`
  const page = await api('GET', `${FLAGS}activity/?page=2&limit=1`)
  t.match(page.body, {
    results: [{ activity: 'created' }],
    next: `${url}?limit=1&page=3`,
    previous: `${url}?limit=1&page=1`,
  })
  for (const query of ['page=0', 'page=x', 'limit=0', 'limit=-5', 'limit=1.5']) {
    t.match(await api('GET', `${path}activity/?${query}`), {
      status: 400,
      body: { type: 'validation_error', code: 'invalid_input', attr: query.split('=')[0] },
    })
  }
  for (const id of ['999999', 'x']) {
    const unknown = await api('GET', `${FLAGS}${id}/activity/`)
    t.equal(unknown.status, 404)
    t.equal(unknown.headers['content-length'], '0')
  }
})

t.test('the dashboard of a flag is a separate object', async (t) => {
  const flag = await create(api, 'watched')
  const path = `${FLAGS}${String(flag['id'])}/`
  t.match(await api('POST', `${path}dashboard/`, { any: 'thing' }), {
    status: 200,
    body: { success: true },
  })
  const shown = (await api('GET', path)).body
  t.type(shown['usage_dashboard'], 'number')
  const added = await api('PATCH', path, { analytics_dashboards: [shown['usage_dashboard']] })
  t.strictSame(added.body['analytics_dashboards'], [shown['usage_dashboard']])
  t.match(await api('POST', `${FLAGS}999999/dashboard/`), { status: 404 })
})

t.test('each route requires its rights', async (t) => {
  const store = new OrganizationStore(daemon.dataDir)
  t.teardown(() => store.close())
  const keyOf = (scopes: readonly string[], more: object = {}): string =>
    store.projects.keys.create({ scopes, ...more }).text
  const read = keyOf(['feature_flag:read'])
  const write = keyOf(['feature_flag:write'])
  const log = keyOf(['activity_log:read'])
  const second = keyOf(['*'], { projectIds: [daemon.idOf(2)] })
  await daemon.settled()
  const flag = await create(api, 'guarded')
  const path = `${FLAGS}${String(flag['id'])}/`
  const rows: readonly (readonly [string, string, string])[] = [
    ['GET', FLAGS, 'feature_flag:read'],
    ['GET', path, 'feature_flag:read'],
    ['GET', `${FLAGS}local_evaluation/`, 'feature_flag:read'],
    ['GET', `${FLAGS}my_flags/`, 'feature_flag:read'],
    ['GET', `${FLAGS}evaluation_reasons/?distinct_id=a`, 'feature_flag:read'],
    ['GET', `${path}remote_config/`, 'feature_flag:read'],
    ['POST', `${FLAGS}user_blast_radius/`, 'feature_flag:read'],
    ['GET', `${FLAGS}activity/`, 'activity_log:read'],
    ['GET', `${path}activity/`, 'activity_log:read'],
    ['POST', FLAGS, 'feature_flag:write'],
    ['PATCH', path, 'feature_flag:write'],
    ['PUT', path, 'feature_flag:write'],
    ['DELETE', path, 'feature_flag:write'],
    ['POST', `${path}dashboard/`, 'feature_flag:write'],
  ]
  const ask = (
    method: string,
    path: string,
    authorization: string | null,
    project = `${daemon.idOf()}`,
  ) =>
    daemon.ask(`/api/projects/${project}/${path}`, {
      method,
      headers: authorization === null ? {} : { Authorization: authorization },
      json: { key: 'guarded', condition: {} },
    })
  const differences = new Differences()
  for (const [method, path, scope] of rows) {
    const name = `${method} ${path.replace(/\d+/, ':id')}`
    const anonymous = await ask(method, path, null)
    differences.match(anonymous, { status: 401, body: { code: 'not_authenticated' } }, name)
    differences.equal(anonymous.headers['www-authenticate'], 'Bearer', name)
    for (const wrong of ['Bearer phx_unknown', `Bearer ${daemon.key()}`]) {
      const answer = await ask(method, path, wrong)
      const failed = { status: 401, body: { code: 'authentication_failed' } }
      differences.match(answer, failed, `${name} with ${wrong}`)
    }
    for (const [held, key] of [
      ['feature_flag:read', read],
      ['feature_flag:write', write],
      ['activity_log:read', log],
    ] as const) {
      const includes = held === scope || held === scope.replace(':read', ':write')
      const { status } = await ask(method, path, `Bearer ${key}`)
      differences.equal(status !== 403, includes, `${name} with ${held}`)
    }
    const elsewhere = await ask(method, path, `Bearer ${second}`)
    differences.equal(elsewhere.status, 403, `${name} with a key of another project`)
    for (const project of ['99999', 'x']) {
      const { status } = await ask(method, path, `Bearer ${PERSONAL_KEY}`, project)
      differences.equal(status, 404, `${name} in project ${project}`)
    }
  }
  t.strictSame(differences.list(), [], 'every route accepts exactly the keys of its scope')
  t.match(
    await ask('GET', path, `Bearer ${second}`, `${daemon.idOf(2)}`),
    { status: 404 },
    'a flag of another project',
  )
})

t.test('can_edit: a user whose roles may only view a flag cannot change it', async (t) => {
  const store = new OrganizationStore(daemon.dataDir)
  t.teardown(() => store.close())
  const { id, uuid } = store.users.create({ email: 'viewer@flags.example', firstName: 'Vera' })
  const { text } = store.projects.keys.create({ userId: id })
  const { role } = store.roles.create({ name: 'Viewers', level: 21, createdById: 1 })
  store.roles.addMember(role.id, uuid)
  await daemon.settled()
  const asViewer = (method: string, path: string, json?: unknown) =>
    daemon.ask(daemon.path(1, path), {
      method,
      headers: { Authorization: `Bearer ${text}` },
      ...(json === undefined ? {} : { json }),
    })
  const flag = await create(api, 'closed')
  const path = `${FLAGS}${String(flag['id'])}/`
  t.match(await asViewer('GET', path), {
    status: 200,
    body: { can_edit: false, user_access_level: 'viewer' },
  })
  const denied = { status: 403, body: { code: 'permission_denied', attr: null } }
  t.match(
    await asViewer('PATCH', path, { active: 'bad' }),
    denied,
    'the right is checked before the body',
  )
  t.match(await asViewer('PUT', path, { key: 'closed' }), denied)
  t.match(await asViewer('POST', `${path}dashboard/`), denied)
  t.match(await asViewer('PATCH', `${FLAGS}999999/`, { active: 'bad' }), { status: 404 })
  const own = await asViewer('POST', FLAGS, { key: 'of-vera' })
  t.match(own, { status: 201, body: { can_edit: true, created_by: { first_name: 'Vera' } } })
  const changed = await asViewer('PATCH', `${FLAGS}${String(own.body['id'])}/`, { name: 'x' })
  t.match(changed, { status: 200, body: { last_modified_by: { first_name: 'Vera' } } })
})

t.test('invalid flags are refused', async (t) => {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const post = (body: string | Uint8Array, type = 'application/json', method = 'POST') =>
    daemon.ask(daemon.path(1, FLAGS), {
      method,
      headers: { ...headers, 'Content-Type': type },
      body,
    })
  for (const body of ['{', '{"key":"a",}', 'key=a', Buffer.from([0x22, 0xff, 0x22])]) {
    t.match(await post(body), {
      status: 400,
      body: { type: 'invalid_request', code: 'parse_error', attr: null },
    })
  }
  t.match(await post('a=b', 'application/x-www-form-urlencoded'), {
    status: 415,
    body: { type: 'invalid_request', code: 'unsupported_media_type' },
  })
  for (const body of ['[]', 'null', '"x"', '5', `${'['.repeat(200)}${']'.repeat(200)}`]) {
    t.match(await post(body), {
      status: 400,
      body: { type: 'validation_error', code: 'invalid_input', attr: null },
    })
  }
  const deep = `{"key":"deep","filters":{"groups":[${'['.repeat(200)}${']'.repeat(200)}]}}`
  t.match(await post(deep), { status: 400, body: { code: 'invalid_input' } })
  t.match(await post(''), REQUIRED_SHAPE)
  t.match(await post('{}', 'application/json; charset=utf-8'), REQUIRED_SHAPE)
  for (const [method, path] of [
    ['PATCH', FLAGS],
    ['DELETE', FLAGS],
    ['POST', `${FLAGS}activity/`],
    ['POST', `${FLAGS}my_flags/`],
    ['GET', `${FLAGS}user_blast_radius/`],
    ['GET', `${FLAGS}1/dashboard/`],
    ['PATCH', `${FLAGS}1/activity/`],
    ['POST', `${FLAGS}1/remote_config/`],
    ['POST', `${FLAGS}1/`],
  ] as const) {
    const answer = await api(method, path)
    t.match(answer, { status: 405, body: { code: 'method_not_allowed' } }, `${method} ${path}`)
    t.ok(answer.headers['allow'])
  }
})

t.test('hostile names and large filters are accepted', async (t) => {
  for (const key of ['__proto__', 'constructor', 'toString']) {
    const filters = JSON.parse('{"groups":[{"__proto__":{"x":1}}],"__proto__":{"y":1}}') as unknown
    const made = await api('POST', FLAGS, { key, filters })
    t.match(made, { status: 201, body: { key } })
    t.strictSame(made.body['filters'], { groups: [{}] })
  }
  const reasons = await api('GET', `${FLAGS}evaluation_reasons/?distinct_id=u`)
  const names = new Set(Object.keys(reasons.body))
  t.ok(names.has('__proto__') && names.has('constructor'))
  const words = ['a', '\u0000', '\ud800', '😀', '<script>']
  const properties = [{ key: '\u0000a', type: 'person', value: words, operator: 'exact' }]
  const odd = await create(api, 'odd', { filters: { groups: [{ properties }] }, name: '\ud800' })
  t.equal(odd['name'], '\ufffd', 'lone surrogates cannot be stored')
  const value = 'x'.repeat(1024 * 1024 - 200)
  const large = { groups: [{ properties: [{ key: 'a', type: 'person', value }] }] }
  const made = await api('POST', FLAGS, { key: 'large', filters: large })
  t.equal(made.status, 201)
  t.strictSame((await api('GET', `${FLAGS}${String(made.body['id'])}/`)).body['filters'], large)
  const tooLarge = {
    groups: [{ properties: [{ key: 'a', type: 'person', value: `${value}${value}` }] }],
  }
  t.match(await api('POST', FLAGS, { key: 'larger', filters: tooLarge }), {
    status: 400,
    body: { code: 'invalid_input', attr: 'filters' },
  })
  const huge = { key: 'huge', name: 'n'.repeat(5 * 1024 * 1024) }
  t.match(await api('POST', FLAGS, huge), { status: 413 })
})

/** Returns the filters of a flag with this many characters. */
function longFilters(characters: number): JsonObject {
  const property = { key: 'a', type: 'person', operator: 'exact', value: 'x'.repeat(characters) }
  return { groups: [{ properties: [property], rollout_percentage: 100 }] }
}

t.test('a long file with flags is written by a thread while the client reads it', async (t) => {
  const own = apiOf(await shareDecisions(), 1)
  const busySeconds = async () => {
    const { body } = await send(`${daemon.url}/metrics`)
    const line = /^worker_busy_seconds_total\{threads="long_readers"\} (\S+)$/m
    return Number(line.exec(body.toString())?.[1] ?? 0)
  }
  const keys = ['long-1', 'long-2', 'long-3', 'long-4']
  for (const key of keys) await create(own, key, { filters: longFilters(100_000) })
  const before = await busySeconds()
  const answer = await own('GET', `${FLAGS}file/`)
  t.match(answer, { status: 200, headers: { 'transfer-encoding': 'chunked' } })
  t.ok((await busySeconds()) > before, 'a thread for long reads has worked')
  const flags = answer.body['flags'] as readonly JsonObject[]
  t.strictSame(
    flags.map(({ key }) => key),
    keys,
  )
  const { body: plan } = await own('POST', `${FLAGS}plan/`, { flags, sample: 0 })
  t.match(plan, { faults: [], flags: keys.map((key) => ({ key, action: 'none' })) })
})

t.test('the parts of a long file are one file, whatever happens between them', async (t) => {
  const drafts = [1, 2, 3, 4, 5, 6].map((id) => {
    return { id, key: `flag-${id}`, filters: longFilters(100_000) }
  })
  const set = makeSet(drafts)
  const start = { projectId: 1, timezone: 'UTC', afterId: 0 }
  const fileOf = (setOf: (part: number) => FlagSet) => {
    const texts: string[] = []
    let rest: FlagsFileTask | null = start
    while (rest !== null) {
      const made: FlagsFileChunk = flagsFileChunk(rest, setOf(texts.length))
      texts.push(Buffer.from(made.piece).toString())
      rest = made.rest
    }
    return { texts, keys: (JSON.parse(texts.join('')) as { flags: Flag[] }).flags.map(keyOf) }
  }
  const whole = fileOf(() => set)
  t.ok(whole.texts.length >= 2)
  t.ok(whole.texts.every((text) => text.length < 400_000))
  t.strictSame(whole.keys, set.flags.map(keyOf))
  const cut = { ...set, flags: [] }
  t.strictSame(fileOf((part) => (part === 0 ? set : cut)).keys[0], 'flag-1')
  t.strictSame(fileOf(() => cut).texts, ['{"flags":[]}'])
})

function keyOf({ key }: Pick<Flag, 'key'>): string {
  return key
}

t.test('many simultaneous changes are all made, one after the other', async (t) => {
  const flag = await create(api, 'busy')
  const path = `${FLAGS}${String(flag['id'])}/`
  const names = Array.from({ length: 20 }, (_, index) => `n${index}`)
  const answers = await Promise.all(names.map((name) => api('PATCH', path, { name })))
  t.ok(answers.every(({ status }) => status === 200))
  const { body } = await api('GET', path)
  t.equal(body['version'], 21)
  const made = await Promise.all(names.map(() => api('POST', FLAGS, { key: 'once' })))
  t.strictSame(made.map(({ status }) => status).sort(), [
    201,
    ...Array.from({ length: 19 }, () => 400),
  ])
})
