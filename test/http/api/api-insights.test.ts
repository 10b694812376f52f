/**
 * Insights and annotations over HTTP: created, changed, listed, deleted and limited, with the required rights and the
 * audit log.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { resultsOf, shareOrganization, textOf } from '../../fixtures/organization-daemon.ts'

const daemon = await shareOrganization(t)
const INSIGHTS = daemon.projectPath(1, 'insights/')
const ANNOTATIONS = daemon.projectPath(1, 'annotations/')
const DASHBOARDS = daemon.projectPath(1, 'dashboards/')
const OTHER_INSIGHTS = daemon.projectPath(2, 'insights/')
const OTHER_ANNOTATIONS = daemon.projectPath(2, 'annotations/')
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/
const QUERY = {
  kind: 'InsightVizNode',
  source: { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: '<b>x</b>' }] },
}

const ann = daemon.somebody({ email: 'ann@insights.example', firstName: 'Ann' })
await daemon.settled()

function error(status: number, code: string, attr: string | null = null) {
  return { status, body: { code, attr } }
}

/** Creates an object and returns its number. */
async function made(path: string, body: object, key = PERSONAL_KEY): Promise<number> {
  const answer = await daemon.ask('POST', path, body, key)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  return Number(answer.body['id'])
}

async function namesOf(path: string): Promise<readonly unknown[]> {
  return resultsOf(await daemon.ask('GET', path)).map(
    ({ name, content }) => name ?? content ?? null,
  )
}

t.test('an insight can be created, read, changed, deleted and restored', async (t) => {
  const body = { name: 'Views', query: QUERY, tags: ['a'], saved: true, id: 99, unknown: 1 }
  const answer = await daemon.ask('POST', INSIGHTS, body, ann.key)
  t.match(answer, {
    status: 201,
    body: {
      short_id: /^[0-9A-Za-z]{8}$/,
      name: 'Views',
      derived_name: null,
      query: QUERY,
      filters: {},
      dashboards: [],
      dashboard_tiles: [],
      description: null,
      last_refresh: null,
      refreshing: false,
      saved: true,
      tags: ['a'],
      favorited: false,
      created_by: { id: ann.user.id },
      created_at: TIME,
      updated_at: TIME,
      last_modified_at: TIME,
      user_access_level: 'editor',
      result: null,
      columns: null,
      hasMore: null,
      deleted: false,
      order: null,
      is_cached: false,
      timezone: 'UTC',
    },
  })
  const path = `${INSIGHTS}${String(answer.body['id'])}/`
  t.not(answer.body['id'], 99)
  const shown = (await daemon.ask('GET', path)).body
  const { result, last_refresh, hasMore } = shown
  t.match(result, [{ label: '<b>x</b>', count: 0 }], 'its query is answered')
  t.match([last_refresh, hasMore], [TIME, false])
  const made = { result: null, last_refresh: null, hasMore: null }
  t.strictSame({ ...shown, ...made }, answer.body, 'nothing else differs')
  const changed = await daemon.ask('PATCH', path, {
    name: null,
    derived_name: 'x',
    favorited: true,
  })
  t.match(changed, {
    status: 200,
    body: { name: null, derived_name: 'x', favorited: true, saved: true, query: QUERY },
  })
  t.match(await daemon.ask('DELETE', path), error(405, 'method_not_allowed'))
  t.match(await daemon.ask('PATCH', path, { deleted: true }), { body: { deleted: true } })
  t.match(await daemon.ask('GET', path), error(404, 'not_found'))
  t.notOk((await namesOf(INSIGHTS)).includes(null), 'lists hide it')
  t.match(await daemon.ask('PATCH', path, { deleted: false }), { body: { deleted: false } })
  t.match(await daemon.ask('GET', path), { status: 200, body: { query: QUERY } })
  t.match(await daemon.ask('PATCH', path, { query: null }), { body: { query: null } })
  t.match(await daemon.ask('GET', path.replace(INSIGHTS, OTHER_INSIGHTS)), { status: 404 })
  for (const id of ['0', 'x', '99999', '4294967296', '999999999999999', '-1']) {
    t.match(await daemon.ask('GET', `${INSIGHTS}${id}/`), error(404, 'not_found'), id)
    t.match(await daemon.ask('PATCH', `${INSIGHTS}${id}/`, '{'), error(404, 'not_found'), id)
  }
})

t.test('insights can be listed', async (t) => {
  const short = await daemon.ask('POST', OTHER_INSIGHTS, {
    name: 'Alpha',
    saved: true,
    tags: ['Web'],
  })
  await made(OTHER_INSIGHTS, { name: 'Beta', favorited: true, description: 'of alpha' })
  await made(OTHER_INSIGHTS, { derived_name: 'Gamma', query: QUERY }, ann.key)
  const cases: readonly (readonly [string, readonly unknown[]])[] = [
    ['', [null, 'Beta', 'Alpha']],
    ['saved=true', ['Alpha']],
    ['saved=False', [null, 'Beta']],
    ['favorited=true', ['Beta']],
    ['user=true', ['Beta', 'Alpha']],
    ['user=false', [null, 'Beta', 'Alpha']],
    ['search=ALPHA', ['Beta', 'Alpha']],
    ['search=web', ['Alpha']],
    ['search=gam', [null]],
    [`short_id=${textOf(short, 'short_id')}`, ['Alpha']],
    ['short_id=nothing1', []],
    ['limit=1&offset=1', ['Beta']],
  ]
  for (const [query, names] of cases)
    t.strictSame(await namesOf(`${OTHER_INSIGHTS}?${query}`), names, query)
  const page = await daemon.ask('GET', `${OTHER_INSIGHTS}?limit=2`)
  t.match(page.body, { count: 3, previous: null, results: [{ query: QUERY, result: null }, {}] })
  t.notOk('deleted' in (resultsOf(page)[0] ?? {}))
  t.equal(new URL(textOf(page, 'next')).search, '?limit=2&offset=2')
  t.match(
    await daemon.ask('GET', `${OTHER_INSIGHTS}?saved=x`),
    error(400, 'invalid_input', 'saved'),
  )
})

t.test('a page ends at its limit of units', async (t) => {
  const query = { kind: 'TrendsQuery', text: 'x'.repeat(60_000) }
  for (let i = 0; i < 7; i++) await made(INSIGHTS, { name: 'large', query })
  const page = await daemon.ask('GET', `${INSIGHTS}?search=large`)
  t.match(page.body, { count: 7 })
  const shown = resultsOf(page).length
  t.equal(shown, 4)
  const rest = await daemon.ask('GET', `${INSIGHTS}${new URL(textOf(page, 'next')).search}`)
  t.equal(resultsOf(rest).length, 7 - shown)
  t.equal(rest.body['next'], null)
})

t.test('an invalid insight is refused', async (t) => {
  const cases: readonly (readonly [unknown, string, string | null])[] = [
    [{ name: 'x'.repeat(401) }, 'max_length', 'name'],
    [{ name: 5 }, 'invalid_input', 'name'],
    [{ derived_name: 'x'.repeat(401) }, 'max_length', 'derived_name'],
    [{ description: 'x'.repeat(2001) }, 'max_length', 'description'],
    [{ query: [] }, 'invalid_input', 'query'],
    [{ query: 'x' }, 'invalid_input', 'query'],
    [{ query: { x: 'x'.repeat(65_536) } }, 'invalid_input', 'query'],
    [{ saved: 'x' }, 'invalid_input', 'saved'],
    [{ saved: null }, 'null', 'saved'],
    [{ tags: 'x' }, 'not_a_list', 'tags'],
    [{ tags: [1] }, 'invalid_input', 'tags'],
    [{ tags: ['x'.repeat(256)] }, 'invalid_input', 'tags'],
    [{ tags: Array.from({ length: 51 }, String) }, 'invalid_input', 'tags'],
    [{ dashboards: [99_999] }, 'does_not_exist', 'dashboards'],
    [{ dashboards: [-1] }, 'does_not_exist', 'dashboards'],
    [{ dashboards: ['x'] }, 'invalid_input', 'dashboards'],
    [{ dashboards: Array.from({ length: 101 }, Number) }, 'invalid_input', 'dashboards'],
    [[], 'invalid_input', null],
  ]
  const before = (await daemon.ask('GET', INSIGHTS)).body['count']
  const differences = new Differences()
  for (const [body, code, attr] of cases) {
    const shown = JSON.stringify(body).slice(0, 60)
    const answer = await daemon.ask('POST', INSIGHTS, body)
    differences.match(answer, error(400, code, attr), shown)
  }
  t.strictSame(differences.list(), [], 'every invalid value is refused with the name of its field')
  t.match(await daemon.askRaw('POST', INSIGHTS, '{', 'application/json'), error(400, 'parse_error'))
  t.equal((await daemon.ask('GET', INSIGHTS)).body['count'], before)
})

t.test('an annotation can be created, read, changed and deleted', async (t) => {
  const body = {
    content: 'Released <1>',
    date_marker: '2024-05-01T12:00:00+02:00',
    scope: 'project',
  }
  const answer = await daemon.ask('POST', ANNOTATIONS, { ...body, creation_type: 'GIT' }, ann.key)
  t.match(answer, {
    status: 201,
    body: {
      content: 'Released <1>',
      date_marker: '2024-05-01T10:00:00Z',
      creation_type: 'USR',
      scope: 'project',
      dashboard_item: null,
      dashboard_id: null,
      created_by: { id: ann.user.id },
      created_at: TIME,
      updated_at: TIME,
      deleted: false,
    },
  })
  const path = `${ANNOTATIONS}${String(answer.body['id'])}/`
  t.strictSame((await daemon.ask('GET', path)).body, answer.body)
  const insight = await made(INSIGHTS, {})
  const changed = await daemon.ask('PATCH', path, { dashboard_item: insight, date_marker: null })
  t.match(changed, { status: 200, body: { dashboard_item: insight, date_marker: null } })
  t.match(await daemon.ask('DELETE', path), error(405, 'method_not_allowed'))
  t.match(await daemon.ask('PATCH', path, { deleted: true }), { body: { deleted: true } })
  t.match(await daemon.ask('GET', path), error(404, 'not_found'))
  t.strictSame(await namesOf(`${ANNOTATIONS}?deleted=true`), ['Released <1>'])
  t.match(await daemon.ask('PATCH', path, { deleted: false }), { status: 200 })
  const cases: readonly (readonly [object, string, string])[] = [
    [{ content: 'x'.repeat(8193) }, 'max_length', 'content'],
    [{ date_marker: 'soon' }, 'invalid_input', 'date_marker'],
    [{ scope: 'team' }, 'invalid_choice', 'scope'],
    [{ dashboard_item: 99_999 }, 'does_not_exist', 'dashboard_item'],
    [{ dashboard_id: 99_999 }, 'does_not_exist', 'dashboard_id'],
  ]
  for (const [fields, code, attr] of cases) {
    t.match(await daemon.ask('POST', ANNOTATIONS, fields), error(400, code, attr), attr)
  }
})

t.test('annotations can be listed', async (t) => {
  const insight = await made(OTHER_INSIGHTS, {})
  await made(OTHER_ANNOTATIONS, { content: 'old', date_marker: '2020-01-01', scope: 'project' })
  await made(OTHER_ANNOTATIONS, {
    content: 'new',
    date_marker: '2024-01-01',
    dashboard_item: insight,
  })
  await made(OTHER_ANNOTATIONS, { content: 'never', scope: 'dashboard' })
  const moment = encodeURIComponent(new Date(Date.now() + 60_000).toISOString())
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['', ['new', 'old', 'never']],
    ['search=NE', ['new', 'never']],
    ['scope=project', ['old']],
    [`dashboardItemId=${insight}`, ['new']],
    ['apply_all=true', ['old', 'never']],
    ['apply_all=false', ['new']],
    ['deleted=true', []],
    [`before=${moment}`, ['new', 'old', 'never']],
    [`after=${moment}`, []],
    ['limit=1', ['new']],
  ]
  for (const [query, texts] of cases) {
    t.strictSame(await namesOf(`${OTHER_ANNOTATIONS}?${query}`), texts, query)
  }
  const late = await daemon.ask('GET', `${OTHER_ANNOTATIONS}?after=x`)
  t.match(late, error(400, 'invalid_input', 'after'))
})

t.test('all projects see an annotation of the organization', async (t) => {
  const id = await made(ANNOTATIONS, { content: 'all', scope: 'organization' })
  const elsewhere = `${OTHER_ANNOTATIONS}${id}/`
  t.match(await daemon.ask('GET', elsewhere), { status: 200, body: { content: 'all' } })
  t.ok((await namesOf(OTHER_ANNOTATIONS)).includes('all'))
  const limited = daemon.keyOf({ projectIds: [daemon.decisions.idOf(2)] })
  await daemon.settled()
  for (const [method, path, body] of [
    ['PATCH', elsewhere, { content: 'mine' }],
    ['POST', OTHER_ANNOTATIONS, { scope: 'organization' }],
  ] as const) {
    const answer = await daemon.ask(method, path, body, limited)
    t.match(answer, error(403, 'permission_denied'), method)
  }
  t.match(await daemon.ask('PATCH', elsewhere, { scope: 'project' }), { status: 200 })
  t.match(await daemon.ask('GET', `${ANNOTATIONS}${id}/`), error(404, 'not_found'))
  t.match(await daemon.ask('GET', elsewhere), { status: 200, body: { scope: 'project' } })
})

t.test('each route requires its scopes', async (t) => {
  const rows = [
    ['GET', INSIGHTS, 'insight:read'],
    ['POST', INSIGHTS, 'insight:write'],
    ['GET', `${INSIGHTS}99999/`, 'insight:read'],
    ['PATCH', `${INSIGHTS}99999/`, 'insight:write'],
    ['GET', DASHBOARDS, 'dashboard:read'],
    ['POST', DASHBOARDS, 'dashboard:write'],
    ['GET', `${DASHBOARDS}99999/`, 'dashboard:read'],
    ['PATCH', `${DASHBOARDS}99999/`, 'dashboard:write'],
    ['GET', ANNOTATIONS, 'annotation:read'],
    ['POST', ANNOTATIONS, 'annotation:write'],
    ['GET', `${ANNOTATIONS}99999/`, 'annotation:read'],
    ['PATCH', `${ANNOTATIONS}99999/`, 'annotation:write'],
    ['GET', `${INSIGHTS}99999/sharing/`, 'sharing_configuration:read'],
    ['GET', `${DASHBOARDS}99999/sharing/`, 'sharing_configuration:read'],
  ] as const
  const scopes = [...new Set(rows.map(([, , scope]) => scope)), 'event:write']
  const keys = scopes.map((scope) => [scope, daemon.keyOf({ scopes: [scope] })] as const)
  const limited = daemon.keyOf({ projectIds: [daemon.decisions.idOf(2)] })
  await daemon.settled()
  const differences = new Differences()
  for (const [method, path, needed] of rows) {
    for (const [scope, key] of keys) {
      const isEnough = scope === needed || scope === needed.replace(':read', ':write')
      const { status } = await daemon.ask(method, path, method === 'GET' ? undefined : {}, key)
      differences.equal(status !== 403, isEnough, `${method} ${path} with ${scope}: ${status}`)
    }
    const denied = await daemon.ask(method, path, undefined, limited)
    differences.match(
      denied,
      error(403, 'permission_denied'),
      `${method} ${path} in another project`,
    )
    const anonymous = await daemon.ask(method, path, undefined, null)
    differences.match(anonymous, error(401, 'not_authenticated'), `${method} ${path} without a key`)
  }
  t.strictSame(differences.list(), [], 'exactly the scope of the row is sufficient')
})

t.test('saving a query requires the right to run it', async (t) => {
  const query = { kind: 'TrendsQuery', series: [{ event: 'secret' }] }
  const filters = { properties: [{ key: 'email', value: 'a', type: 'person' }] }
  const scopes = ['insight:write', 'dashboard:write'] as const
  const writer = daemon.keyOf({ scopes })
  const asker = daemon.keyOf({ scopes: [...scopes, 'query:read'] })
  await daemon.settled()
  for (const [path, member, value, other] of [
    [INSIGHTS, 'query', query, { ...query, interval: 'week' }],
    [DASHBOARDS, 'filters', filters, { date_from: '-1d' }],
  ] as const) {
    const refused = {
      status: 403,
      body: { code: 'permission_denied', detail: /query:read/ },
    }
    const named = await daemon.ask('POST', path, { name: 'plain' }, writer)
    t.match(named, { status: 201 }, `${path} without the right`)
    t.match(await daemon.ask('POST', path, { [member]: value }, writer), refused, path)
    const saved = await daemon.ask('POST', path, { [member]: value }, asker)
    t.match(saved, { status: 201 }, path)
    const place = `${path}${String(saved.body['id'])}/`
    t.match(await daemon.ask('PATCH', place, { [member]: other }, writer), refused, place)
    const same = { name: 'x', [member]: value }
    t.match(
      await daemon.ask('PATCH', place, same, writer),
      { status: 200 },
      'the object that was read',
    )
    t.match(await daemon.ask('PATCH', place, { [member]: other }, asker), { status: 200 }, place)
  }
})

t.test('each change is logged once, with the object that it created', async (t) => {
  const insight = await made(INSIGHTS, { name: 'noted' }, ann.key)
  await daemon.ask('PATCH', `${INSIGHTS}${insight}/`, { saved: true }, ann.key)
  const annotation = await made(ANNOTATIONS, { content: 'noted' }, ann.key)
  await daemon.ask('PATCH', `${INSIGHTS}${insight}/`, { saved: 'x' }, ann.key)
  const log = resultsOf(await daemon.ask('GET', 'organizations/@current/audit_log/?limit=4'))
  t.match(log.toReversed(), [
    {
      method: 'POST',
      object_id: String(insight),
      status: 201,
      project_id: daemon.decisions.idOf(),
    },
    { method: 'PATCH', object_id: String(insight), status: 200 },
    { method: 'POST', object_id: String(annotation), status: 201 },
    { method: 'PATCH', object_id: String(insight), status: 400 },
  ])
  t.notMatch(JSON.stringify(log), /noted/)
})
