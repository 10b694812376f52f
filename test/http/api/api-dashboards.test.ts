/**
 * Dashboards and their tiles, and sharing of dashboards and insights, over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { send } from '../../fixtures/exact-client.ts'
import { resultsOf, shareOrganization, textOf } from '../../fixtures/organization-daemon.ts'
import { partOf } from '../../fixtures/random-depth.ts'

const daemon = await shareOrganization(t)
const INSIGHTS = daemon.projectPath(1, 'insights/')
const DASHBOARDS = daemon.projectPath(1, 'dashboards/')
const OTHER_DASHBOARDS = daemon.projectPath(2, 'dashboards/')
const FLAGS = daemon.projectPath(1, 'feature_flags/')
const ANNOTATIONS = daemon.projectPath(1, 'annotations/')
const HOSTILE = `</title><script>alert(1)</script><img src=x onerror="alert(2)">&'`
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/

const ann = daemon.somebody({ email: 'ann@dashboards.example', firstName: 'Ann' })
await daemon.settled()

function error(status: number, code: string, attr: string | null = null) {
  return { status, body: { code, attr } }
}

async function made(path: string, body: object): Promise<number> {
  const answer = await daemon.ask('POST', path, body)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  return Number(answer.body['id'])
}

interface ShownTile {
  readonly id: number
  readonly insight: { readonly id: number } | null
  readonly text: { readonly body: string } | null
}

async function tilesOf(path: string): Promise<readonly ShownTile[]> {
  return (await daemon.ask('GET', path)).body['tiles'] as readonly ShownTile[]
}

/** Returns the response to a client without a key. */
async function open(path: string) {
  const { status, headers, body } = await send(`${daemon.decisions.url}${path}`)
  return { status, headers, text: body.toString() }
}

t.test('a dashboard can be created, read, changed, deleted and restored', async (t) => {
  const filters = { date_from: '-7d' }
  const body = { name: 'Board', description: 'd', pinned: true, tags: ['t'], filters }
  const answer = await daemon.ask('POST', DASHBOARDS, body, ann.key)
  t.match(answer, {
    status: 201,
    body: {
      name: 'Board',
      description: 'd',
      pinned: true,
      tags: ['t'],
      created_at: TIME,
      created_by: { id: ann.user.id },
      last_accessed_at: null,
      is_shared: false,
      deleted: false,
      creation_mode: 'default',
      restriction_level: 21,
      effective_restriction_level: 21,
      effective_privilege_level: 37,
      team_id: daemon.decisions.idOf(),
      user_access_level: 'editor',
      access_control_version: 'v2',
      last_refresh: null,
      filters,
      persisted_filters: filters,
      variables: {},
      persisted_variables: null,
      breakdown_colors: [],
      data_color_theme_id: null,
      tiles: [],
    },
  })
  const path = `${DASHBOARDS}${String(answer.body['id'])}/`
  t.strictSame((await daemon.ask('GET', path)).body, answer.body)
  t.match(await daemon.ask('PATCH', path, { name: null, variables: { a: {} } }), {
    status: 200,
    body: { name: null, variables: { a: {} }, persisted_variables: { a: {} }, filters },
  })
  t.match(await daemon.ask('DELETE', path), error(405, 'method_not_allowed'))
  t.match(await daemon.ask('PATCH', path, { deleted: true }), { body: { deleted: true } })
  t.match(await daemon.ask('GET', path), error(404, 'not_found'))
  t.strictSame(resultsOf(await daemon.ask('GET', DASHBOARDS)), [])
  t.match(await daemon.ask('PATCH', path, { deleted: false }), { status: 200 })
  t.match(
    await daemon.ask('GET', path.replace(DASHBOARDS, OTHER_DASHBOARDS)),
    error(404, 'not_found'),
  )
})

t.test('dashboards can be listed', async (t) => {
  for (const [name, pinned] of [
    ['b', false],
    ['a', false],
    ['c', true],
  ] as const) {
    await made(OTHER_DASHBOARDS, { name, pinned, tags: [`${name}-tag`] })
  }
  const names = async (query: string) =>
    resultsOf(await daemon.ask('GET', `${OTHER_DASHBOARDS}?${query}`)).map(({ name }) => name)
  t.strictSame(await names(''), ['c', 'a', 'b'])
  t.strictSame(await names('search=A-T'), ['a'])
  t.strictSame(await names('limit=1&offset=1'), ['a'])
  t.notOk('tiles' in (resultsOf(await daemon.ask('GET', OTHER_DASHBOARDS))[0] ?? {}))
})

t.test('tiles hold insights or texts and layouts, and can be removed', async (t) => {
  const one = await made(DASHBOARDS, { name: 'one' })
  const two = await made(DASHBOARDS, { name: 'two' })
  const insight = await made(INSIGHTS, { name: 'i', dashboards: [one, two, one] })
  const board = `${DASHBOARDS}${one}/`
  const [tile] = await tilesOf(board)
  t.match(tile, {
    insight: { id: insight, dashboards: [one, two], result: null },
    text: null,
    layouts: {},
    color: null,
    order: null,
    is_cached: false,
  })
  const layouts = { sm: { x: 0, y: 0, w: 6, h: 5 } }
  const texted = await daemon.ask(
    'PATCH',
    board,
    {
      tiles: [
        { ...tile, layouts, color: 'blue' },
        { text: { body: '# hi' }, layouts },
      ],
    },
    ann.key,
  )
  t.match(texted.body['tiles'], [
    { id: tile?.id, layouts, color: 'blue', insight: { id: insight } },
    { layouts, insight: null, text: { body: '# hi', created_by: { id: ann.user.id } } },
  ])
  const [, text] = await tilesOf(board)
  const rewritten = { tiles: [{ id: text?.id, text: { body: 'bye' } }] }
  t.match((await daemon.ask('PATCH', board, rewritten)).body['tiles'], [
    { color: 'blue' },
    {
      layouts,
      text: { body: 'bye', created_by: { id: ann.user.id }, last_modified_by: { id: 1 } },
    },
  ])
  const shown = await daemon.ask('GET', `${INSIGHTS}${insight}/`)
  t.match(shown.body['dashboard_tiles'], [
    { id: tile?.id, dashboard_id: one, deleted: false },
    { dashboard_id: two },
  ])
  await daemon.ask('PATCH', `${DASHBOARDS}${two}/`, { deleted: true })
  t.match((await daemon.ask('GET', `${INSIGHTS}${insight}/`)).body, { dashboards: [one] })
  await daemon.ask('PATCH', `${DASHBOARDS}${two}/`, { deleted: false })
  await daemon.ask('PATCH', `${INSIGHTS}${insight}/`, { dashboards: [two] })
  t.match(await tilesOf(board), [{ id: text?.id }])
  await daemon.ask('PATCH', board, { tiles: [{ insight: { id: insight } }, { insight }] })
  t.match(await tilesOf(board), [{ id: text?.id }, { insight: { id: insight } }], 'once')
  await daemon.ask('PATCH', `${INSIGHTS}${insight}/`, { deleted: true })
  t.match(await tilesOf(board), [{ id: text?.id }])
  await daemon.ask('PATCH', `${INSIGHTS}${insight}/`, { deleted: false })
  t.equal((await tilesOf(board)).length, 2)
  await daemon.ask('PATCH', board, { tiles: [{ id: text?.id, deleted: true }] })
  t.match(await tilesOf(board), [{ insight: { id: insight } }])
})

t.test('invalid dashboards and tiles are refused', async (t) => {
  const board = `${DASHBOARDS}${await made(DASHBOARDS, {})}/`
  const other = await made(daemon.projectPath(2, 'insights/'), {})
  const cases: readonly (readonly [object, string, string])[] = [
    [{ name: 'x'.repeat(401) }, 'max_length', 'name'],
    [{ description: null }, 'null', 'description'],
    [{ filters: [] }, 'invalid_input', 'filters'],
    [{ filters: 'x' }, 'invalid_input', 'filters'],
    [{ filters: { x: 'x'.repeat(16_384) } }, 'invalid_input', 'filters'],
    [{ filters: { date_from: 'nonsense' } }, 'invalid_input', 'filters.date_from'],
    [{ filters: { date_from: '2024-02-30' } }, 'invalid_input', 'filters.date_from'],
    [{ filters: { date_from: 7 } }, 'invalid_input', 'filters.date_from'],
    [{ filters: { date_from: '-7d', date_to: 'all' } }, 'invalid_input', 'filters.date_to'],
    [{ filters: { date_from: '-7d', explicitDate: 'x' } }, 'invalid_input', 'filters.explicitDate'],
    [{ filters: { properties: 'x' } }, 'invalid_input', 'filters.properties'],
    [
      { filters: { properties: [{ key: 'a', operator: 'odd' }] } },
      'invalid_input',
      'filters.properties.0.operator',
    ],
    [
      { filters: { properties: [{ key: 'a', type: 'hogql' }] } },
      'invalid_input',
      'filters.properties.0.type',
    ],
    [{ variables: { x: 'x'.repeat(16_384) } }, 'invalid_input', 'variables'],
    [{ use_template: 'DEFAULT_APP' }, 'invalid_input', 'use_template'],
    [{ use_dashboard: 1 }, 'invalid_input', 'use_dashboard'],
    [{ tiles: {} }, 'not_a_list', 'tiles'],
    [{ tiles: [{}] }, 'invalid_input', 'tiles'],
    [{ tiles: [{ id: 99_999, color: 'x' }] }, 'invalid_input', 'tiles'],
    [{ tiles: [{ insight: other }] }, 'does_not_exist', 'tiles'],
    [{ tiles: [{ insight: 2 ** 40 }] }, 'does_not_exist', 'tiles'],
    [{ tiles: [{ text: { body: 'x'.repeat(4001) } }] }, 'invalid_input', 'tiles'],
    [{ tiles: [{ text: {} }] }, 'invalid_input', 'tiles'],
    [
      { tiles: [{ text: { body: 'x' }, layouts: { x: 'x'.repeat(2048) } }] },
      'invalid_input',
      'layouts',
    ],
  ]
  const differences = new Differences()
  for (const [body, code, attr] of cases) {
    const shown = JSON.stringify(body).slice(0, 60)
    const answer = await daemon.ask('PATCH', board, body)
    const found = [answer.status, answer.body['code'], answer.body['attr']]
    differences.same(found, [400, code, attr], shown)
  }
  t.strictSame(differences.list(), [], 'every invalid value is refused with the name of its field')
  const tiles = Array.from({ length: 200 }, () => ({ text: { body: 'x' } }))
  t.match(await daemon.ask('PATCH', board, { tiles }), { status: 200 })
  const full = await daemon.ask('PATCH', board, { name: 'full', tiles: [{ text: { body: 'x' } }] })
  t.match(full, error(400, 'invalid_input'))
  t.match(
    await daemon.ask('GET', board),
    { body: { name: null } },
    'a refused request changes nothing',
  )
})

t.test('filters that are valid in queries are accepted', async (t) => {
  for (const filters of [
    { date_from: '-7d', date_to: null },
    { date_from: 'all', properties: [] },
    { date_from: 'mStart', date_to: '-1d', properties: null },
    { date_from: '2024-01-01', date_to: '2024-01-31T12:00:00+02:00', explicitDate: true },
    { properties: [{ key: 'plan', type: 'person', operator: 'exact', value: ['pro'] }] },
    { properties: [{ key: '$channel_type', type: 'session', operator: 'exact', value: 'Direct' }] },
  ]) {
    const answer = await daemon.ask('POST', DASHBOARDS, { filters })
    t.match(answer, { status: 201, body: { filters } }, JSON.stringify(filters))
  }
  const refused = await daemon.ask('POST', DASHBOARDS, { filters: { date_to: 'soon' } })
  t.match(refused, error(400, 'invalid_input', 'filters.date_to'))
})

t.test('the dashboard of a flag is an ordinary dashboard', async (t) => {
  const flag = await made(FLAGS, { key: 'with-dashboard' })
  await daemon.ask('POST', `${FLAGS}${flag}/dashboard/`)
  const { body } = await daemon.ask('GET', `${FLAGS}${flag}/`)
  const name = 'Generated Dashboard: with-dashboard Usage'
  const dashboard = await daemon.ask('GET', `${DASHBOARDS}${String(body['usage_dashboard'])}/`)
  t.match(dashboard, { status: 200, body: { name } })
  const own = await made(DASHBOARDS, {})
  const changed = await daemon.ask('PATCH', `${FLAGS}${flag}/`, {
    analytics_dashboards: [own],
  })
  t.match(changed, { status: 200, body: { analytics_dashboards: [own] } })
})

t.test('sharing can be enabled, changed, renewed and disabled', async (t) => {
  const insight = await made(INSIGHTS, { name: 'Shared', query: { kind: 'Unknown' } })
  const board = await made(DASHBOARDS, { name: 'Open', tiles: [{ insight }] })
  for (const [path, name] of [
    [`${DASHBOARDS}${board}/`, 'dashboard'],
    [`${INSIGHTS}${insight}/`, 'insight'],
  ] as const) {
    const sharing = `${path}sharing/`
    const never = { created_at: null, enabled: false, access_token: null, settings: null }
    const rest = {
      password_required: false,
      share_passwords: [],
      expires_at: null,
      range_changes_allowed: false,
      embedding_allowed: false,
    }
    t.strictSame((await daemon.ask('GET', sharing)).body, { ...never, ...rest })
    t.match(await daemon.ask('POST', `${sharing}refresh/`), error(400, 'invalid_input'))
    const settings = { noHeader: true, legend: false, unknown: 1 }
    t.strictSame((await daemon.ask('PATCH', sharing, { settings })).body, { ...never, ...rest })
    const on = await daemon.ask('PATCH', sharing, { enabled: true, settings })
    t.match(on.body, { enabled: true, created_at: TIME, access_token: /^[\w-]{32}$/ })
    t.strictSame(on.body['settings'], { noHeader: true, legend: false })
    t.strictSame((await daemon.ask('GET', sharing)).body, on.body)
    const token = textOf(on, 'access_token')
    for (const [type, address] of [
      ['scene', 'shared'],
      ['embed', 'embedded'],
    ] as const) {
      const shown = await open(`/${address}/${token}.json`)
      t.equal(shown.status, 200)
      const body = JSON.parse(shown.text) as Readonly<Record<string, unknown>>
      t.match(body, { type, accessToken: token, themes: [], noHeader: true })
      t.match(body[name], { id: name === 'insight' ? insight : board, created_by: null })
      t.notOk('legend' in body)
      t.notMatch(shown.text, /@/, 'it contains no address of a user')
    }
    t.match(await daemon.ask('GET', DASHBOARDS), { body: { results: [] } })
    const renewed = textOf(await daemon.ask('POST', `${sharing}refresh/`), 'access_token')
    t.not(renewed, token)
    t.equal((await open(`/shared/${token}`)).status, 404)
    t.equal((await open(`/shared/${renewed}/`)).status, 200)
    t.match(await daemon.ask('PATCH', path, { deleted: true }), { status: 200 })
    t.equal((await open(`/shared/${renewed}`)).status, 404)
    t.match(await daemon.ask('GET', sharing), error(404, 'not_found'))
    t.match(await daemon.ask('PATCH', path, { deleted: false }), { status: 200 })
    t.match(await daemon.ask('PATCH', sharing, { enabled: false }), { body: { enabled: false } })
    t.equal((await open(`/embedded/${renewed}`)).status, 404)
    const again = await daemon.ask('PATCH', sharing, { enabled: true, settings: null })
    t.match(again.body, { access_token: renewed, settings: {}, created_at: on.body['created_at'] })
    t.match(
      await daemon.ask('PATCH', sharing, { settings: { legend: 1 } }),
      error(400, 'invalid_input', 'settings'),
    )
  }
  const log = resultsOf(await daemon.ask('GET', 'organizations/@current/audit_log/?limit=1'))
  t.match(log, [{ method: 'PATCH', object_id: String(insight), status: 400 }])
})

t.test('a user who may share can change the shared object', async (t) => {
  const board = await made(DASHBOARDS, {})
  const sharing = `${DASHBOARDS}${board}/sharing/`
  const only = daemon.keyOf({ scopes: ['sharing_configuration:write'] })
  const reader = daemon.keyOf({ scopes: ['sharing_configuration:write', 'dashboard:read'] })
  const both = daemon.keyOf({ scopes: ['sharing_configuration:write', 'dashboard:write'] })
  await daemon.settled()
  const denied = error(403, 'permission_denied')
  for (const key of [only, reader]) {
    t.match(await daemon.ask('PATCH', sharing, { enabled: true }, key), denied)
    t.match(await daemon.ask('POST', `${sharing}refresh/`, undefined, key), denied)
  }
  t.match(await daemon.ask('PATCH', sharing, { enabled: true }, both), { body: { enabled: true } })
  t.match(await daemon.ask('POST', `${sharing}refresh/`, undefined, both), { status: 200 })
})

t.test(
  'a shared page shows names as text, runs no scripts and is in no frame of another origin',
  async (t) => {
    const insight = await made(INSIGHTS, { name: HOSTILE, description: HOSTILE })
    const tiles = [{ insight }, { text: { body: HOSTILE } }]
    const board = await made(DASHBOARDS, { name: HOSTILE, description: HOSTILE, tiles })
    const sharing = `${DASHBOARDS}${board}/sharing/`
    const token = textOf(await daemon.ask('PATCH', sharing, { enabled: true }), 'access_token')
    for (const address of ['shared', 'embedded']) {
      const { status, headers, text } = await open(`/${address}/${token}`)
      t.equal(status, 200)
      t.equal(headers['content-type'], 'text/html; charset=utf-8')
      t.match(headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-[^']+';/)
      t.match(headers['content-security-policy'], /frame-ancestors 'none'$/)
      t.notOk('x-frame-options' in headers)
      t.match(headers, { 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' })
      t.notMatch(text, /<script|<img|onerror="/)
      t.equal(text.split('&lt;script&gt;alert(1)').length - 1, 6, 'title, heading and texts')
    }
    for (const address of [
      'x',
      `${token}x`,
      `${token}.png`,
      `${token}.json.json`,
      '%ff',
      'a'.repeat(5000),
    ]) {
      const { status, text } = await open(`/shared/${address}`)
      t.match(
        { status, body: JSON.parse(text) as object },
        error(404, 'not_found'),
        address.slice(0, 40),
      )
    }
    const posted = await send(`${daemon.decisions.url}/shared/${token}`, { method: 'PUT' })
    t.equal(posted.status, 405)
  },
)

t.test('any value in any field is accepted or refused without a server error', async (t) => {
  const insight = await made(INSIGHTS, {})
  const board = await made(DASHBOARDS, { tiles: [{ insight }] })
  const note = await made(ANNOTATIONS, {})
  const [tile] = await tilesOf(`${DASHBOARDS}${board}/`)
  const values: readonly unknown[] = [
    null,
    true,
    0,
    -1,
    1.5,
    1e300,
    2 ** 32,
    '',
    'x',
    '\ud800',
    '\u0000',
    [],
    [null],
    [[]],
    {},
    { id: {} },
    { body: null },
    JSON.parse('{"__proto__": {"id": 1}}'),
    { a: [{ b: '<' }] },
  ]
  const insightFields = ['name', 'derived_name', 'description', 'query', 'saved', 'favorited']
  const boardFields = ['name', 'description', 'pinned', 'filters', 'variables', 'use_template']
  const fields: readonly (readonly [string, readonly string[]])[] = [
    [`${INSIGHTS}${insight}/`, [...insightFields, 'tags', 'dashboards', 'deleted']],
    [`${DASHBOARDS}${board}/`, [...boardFields, 'use_dashboard', 'tags', 'tiles', 'deleted']],
    [
      `${ANNOTATIONS}${note}/`,
      ['content', 'date_marker', 'dashboard_item', 'dashboard_id', 'scope', 'deleted'],
    ],
    [
      `${DASHBOARDS}${board}/sharing/`,
      [
        'enabled',
        'settings',
        'password_required',
        'expires_at',
        'range_changes_allowed',
        'embedding_allowed',
      ],
    ],
  ]
  const differences = new Differences()
  const ask = async (path: string, body: object) => {
    const name = (): string => `${path} ${JSON.stringify(body)}`
    const { status } = await daemon.ask('PATCH', path, body)
    differences.oneOf(status, [200, 400, 403], name)
    const { status: shown } = await daemon.ask('GET', path)
    differences.oneOf(shown, [200, 404], () => `shown after ${name()}`)
    if (shown === 404) await daemon.ask('PATCH', path, { deleted: false })
  }
  for (const [path, names] of fields) {
    for (const [turn, name] of names.entries()) {
      for (const value of partOf(values, turn)) await ask(path, { [name]: value })
    }
  }
  for (const name of ['id', 'insight', 'text', 'layouts', 'color', 'deleted']) {
    for (const value of values) {
      const known = { id: tile?.id, [name]: value }
      await ask(`${DASHBOARDS}${board}/`, {
        tiles: [name === 'deleted' ? { deleted: value } : known],
      })
    }
  }
  t.strictSame(
    differences.list(),
    [],
    'every value is accepted or refused, and the object can still be read',
  )
})

t.test('a dashboard can be read without running its queries', async (t) => {
  const insight = await made(INSIGHTS, {
    query: { kind: 'TrendsQuery', series: [{ event: 'nothing' }] },
  })
  const path = `${DASHBOARDS}${await made(DASHBOARDS, { tiles: [{ insight }] })}/`
  const read = async (query: string) => {
    const { status, body } = await daemon.ask('GET', `${path}${query}`)
    t.equal(status, 200)
    const [tile] = body['tiles'] as readonly object[]
    return tile
  }
  const id = insight
  t.match(await read(''), { last_refresh: TIME, insight: { id, result: [{ count: 0 }] } })
  const none = { last_refresh: null, error: null, insight: { id, result: null, error: null } }
  t.match(await read('?results=false'), none)
})
