/**
 * Compares the description of the API with a running daemon. Exactly the served routes are described, the document is
 * valid, and answers match it.
 *
 * @lane quick
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { renderPage } from '../../../src/http/openapi/page.ts'
import { CAPTURE_SCOPE, SCOPES } from '../../../src/rules/access/scopes.ts'
import {
  DOCUMENT,
  faultOf,
  type Json,
  OPERATIONS,
  type PlacedOperation,
  resolve,
} from '../../fixtures/answer-checker.ts'
import { ConsoleClient, FROM_CONSOLE } from '../../fixtures/console-client.ts'
import { Differences } from '../../fixtures/differences.ts'
import { send } from '../../fixtures/exact-client.ts'
import {
  type OrganizationDaemon,
  resultsOf,
  startOrganization,
  textOf,
} from '../../fixtures/organization-daemon.ts'

/** One daemon for all tests, because most of the time is spent on starting it. */
const DAEMON = await startOrganization(t)

/** Returns every object in a JSON value. */
function objectsIn(value: unknown): readonly Json[] {
  if (Array.isArray(value)) return value.flatMap(objectsIn)
  if (typeof value !== 'object' || value === null) return []
  return [value as Json, ...Object.values(value).flatMap(objectsIn)]
}

t.test('the document is valid OpenAPI 3.1', async (t) => {
  t.equal(DOCUMENT['openapi'], '3.1.0')
  const references = objectsIn(DOCUMENT).flatMap(({ $ref }) =>
    typeof $ref === 'string' ? [$ref] : [],
  )
  t.ok(references.length > 300)
  t.strictSame(
    references.filter((reference) => resolve(reference) === undefined),
    [],
  )
  const ids = OPERATIONS.map(({ operation }) => operation.operationId)
  t.equal(new Set(ids).size, ids.length)
  const { securitySchemes = {}, schemas = {}, responses = {} } = DOCUMENT.components
  const tags = (DOCUMENT['tags'] as readonly { name: string }[]).map(({ name }) => name)
  t.equal(new Set(tags).size, tags.length)
  const differences = new Differences()
  for (const { method, path, operation } of OPERATIONS) {
    const { parameters = [], security } = operation
    const place = `${method} ${path}`
    const inPath = parameters.filter((parameter) => parameter.in === 'path')
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const declared = inPath.map(({ name }) => name)
    differences.same(declared, named, `${place} declares its segments`)
    const areRequired = inPath.every(({ required }) => required === true)
    differences.ok(areRequired, `${place} requires its path segments`)
    const names = parameters.map((parameter) => `${parameter.in} ${parameter.name}`)
    differences.equal(new Set(names).size, names.length, `${place} names each parameter once`)
    for (const parameter of parameters) {
      const forms = ['schema', 'content'].filter((form) => Object.hasOwn(parameter, form))
      differences.equal(forms.length, 1, `${place} ${parameter.name} has one form`)
      differences.ok(parameter['description'], `${place} ${parameter.name} has a description`)
    }
    differences.ok(operation.summary.endsWith('.'), `${place} has a summary`)
    const [tag = ''] = operation['tags'] as readonly string[]
    differences.ok(tags.includes(tag), `${place} has a tag of the document`)
    const statuses = Object.keys(operation.responses)
    const canSucceed = statuses.some((status) => status.startsWith('2'))
    differences.ok(canSucceed, `${place} has a success response`)
    for (const door of security) {
      const areKnown = Object.keys(door).every((name) => Object.hasOwn(securitySchemes, name))
      differences.ok(areKnown, `${place} has known security schemes`)
    }
    const hasBody = Object.hasOwn(operation, 'requestBody')
    if (method === 'GET') differences.equal(hasBody, false, `${place} has a body`)
  }
  t.strictSame(differences.list(), [], 'every operation is valid')
  const text = JSON.stringify(DOCUMENT)
  const places = [
    ...Object.keys(schemas).map((name) => `#/components/schemas/${name}`),
    ...Object.keys(responses).map((name) => `#/components/responses/${name}`),
  ]
  t.strictSame(
    places.filter((place) => !text.includes(`"${place}"`)),
    [],
    'every description belongs to an operation',
  )
})

t.test('the known scopes are exactly those that an operation requires', async (t) => {
  const needed = OPERATIONS.flatMap(({ operation }) =>
    operation.security.flatMap(({ personalKey }) => (personalKey ?? []) as readonly string[]),
  )
  t.strictSame([...new Set([...needed, CAPTURE_SCOPE])].sort(), [...SCOPES].sort())
})

t.test('every schema is valid JSON Schema', async (t) => {
  const ajv = new Ajv2020({ strict: true, validateFormats: false, allowUnionTypes: true })
  ajv.addVocabulary(['components'])
  ajv.addSchema({ $id: 'document', components: { schemas: DOCUMENT.components['schemas'] } })
  const differences = new Differences()
  for (const name of Object.keys(DOCUMENT.components['schemas'] ?? {})) {
    const $ref = `document#/components/schemas/${name}`
    differences.equal(compileFault(ajv, { $ref }), null, name)
  }
  t.strictSame(differences.list(), [], 'every schema can be compiled')
})

/** Returns the message of the error that a schema causes, or null. */
function compileFault(ajv: Ajv2020, schema: Json): string | null {
  try {
    ajv.compile(schema)
    return null
  } catch (error) {
    return String(error)
  }
}

/** Returns a path as a client would request it. */
function filled(path: string, segments: Readonly<Record<string, string>>): string {
  return path.replace(/[:{](\w+)\}?/g, (_, name: string) => segments[name] ?? '1')
}

t.test('exactly the served routes are described', async (t) => {
  const { decisions } = DAEMON
  const { body } = await send(`${decisions.url}/metrics`)
  const routes = new Set(
    [...body.toString().matchAll(/http_request_duration_seconds_count\{route="([^"]+)"\}/g)].map(
      ([, route = '']) => route,
    ),
  )
  routes.delete('unknown')
  // Paths that are served outside of the route table.
  t.ok(routes.delete('console'))
  t.ok(routes.size > 60, `${routes.size} routes`)
  const served: string[] = []
  const differences = new Differences()
  for (const route of routes) {
    const answer = await send(`${decisions.url}${filled(route, {})}`, { method: 'PROPFIND' })
    differences.equal(answer.status, 405, route)
    const path = route.replace(/:(\w+)/g, '{$1}')
    for (const method of String(answer.headers['allow']).split(', ')) {
      served.push(`${method} ${path}`)
    }
  }
  t.strictSame(differences.list(), [], 'every route refuses an unknown method')
  const described = OPERATIONS.map(({ method, path }) => `${method} ${path}`)
  // A second name of a described route. See routes/private-api.ts.
  const isAlias = (one: string) =>
    described.includes(one.replace('/api/environments/', '/api/projects/'))
  t.strictSame(
    served.filter((one) => !described.includes(one) && !isAlias(one)),
    [],
    'every served route is described',
  )
  t.strictSame(
    described.filter((one) => !served.includes(one)),
    [],
    'every described route is served',
  )
})

t.test(
  'the document is served with an ETag and without a key, as JSON and as a page',
  async (t) => {
    const { decisions } = DAEMON
    const ask = (path: string, headers = {}) => send(`${decisions.url}${path}`, { headers })
    const first = await ask('/api/schema/')
    t.equal(first.status, 200)
    t.strictSame(JSON.parse(first.body.toString()), DOCUMENT)
    const etag = String(first.headers['etag'])
    t.match(etag, /^"[0-9a-f]{16}"$/)
    const again = await ask('/api/schema', { 'If-None-Match': etag })
    t.equal(again.status, 304)
    t.equal(again.body.length, 0)
    t.strictSame((await ask('/openapi.json')).body, first.body, 'served where tools look for it')
    const page = await ask('/api/docs/')
    t.equal(page.headers['content-type'], 'text/html; charset=utf-8')
    t.match(page.headers['content-security-policy'], /default-src 'none'/)
    t.strictSame((await ask('/api/schema/?format=html')).body, page.body)
    t.equal((await ask('/api/schema/?format=yaml')).status, 404)
    const text = page.body.toString()
    t.notMatch(text, /<(script|link|img|iframe)|@import|url\(|(src|href)="(https?:)?\/\//)
    const ids = OPERATIONS.map(({ operation }) => operation.operationId)
    t.strictSame(
      ids.filter((id) => !text.includes(`id="${id}"`)),
      [],
      'the page shows every operation',
    )
    const anchors = new Set([...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
    const links = [...text.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
    t.strictSame(
      links.filter((link) => !anchors.has(link)),
      [],
    )
  },
)

t.test('the page escapes all text', async (t) => {
  const operation = { operationId: 'a', summary: '<b>&"', tags: ['<i>'], responses: {} }
  const page = renderPage({
    info: { title: '<script>', version: '1', description: '' },
    tags: [{ name: '<i>', description: '' }],
    paths: { '/<u>': { get: operation } },
  })
  t.notMatch(page, /<(script|b|i|u)>/)
  t.match(page, '&lt;b&gt;&amp;&quot;')
})

/** Checks answers against the document. Each answer must be described by its own operation. */
class Checker {
  readonly #differences = new Differences()

  check(placed: PlacedOperation, status: number, body: unknown): void {
    const { method, path, operation } = placed
    const name = `${method} ${path} ${status}`
    this.#differences.ok(Object.hasOwn(operation.responses, status), `${name} is described`)
    this.#differences.equal(faultOf(placed, status, body), null, `${name} matches its description`)
  }

  /** Checks the status of an answer and compares the answer with its description. */
  checkStatus(placed: PlacedOperation, found: CheckedAnswer, status: number, name: string): void {
    const text = (): string => `${name}: ${JSON.stringify(found.body).slice(0, 200)}`
    this.#differences.equal(found.status, status, text)
    this.check(placed, found.status, found.body)
  }

  list(): readonly string[] {
    return this.#differences.list()
  }
}

interface CheckedAnswer {
  readonly status: number
  readonly body: unknown
}

function placed(id: string): PlacedOperation {
  const found = OPERATIONS.find(({ operation }) => operation.operationId === id)
  if (found === undefined) throw new Error(`${id} is not described`)
  return found
}

/** Routes whose paths contain no project. */
const NAMED_BY_TOKEN = ['getDefinitions', 'getSdkDefinitions', 'listSdkFlags']

/** Parameters that a GET requires. */
const QUERIES: Readonly<Record<string, string>> = {
  listPersonValues: '?key=plan',
  listEventValues: '?key=$elements_chain',
  listSessionValues: '?key=$entry_pathname',
  getEvaluationReasons: '?distinct_id=ann',
  explainFeatureFlag: '?distinct_id=ann',
  listGroups: '?group_type_index=0',
  findGroup: '?group_type_index=0&group_key=acme',
  getTrendsPersons: '?events=[{"id":"signed_up"}]&entity_type=events&entity_id=signed_up',
  getStickinessPersons:
    '?events=[{"id":"signed_up"}]&entity_type=events&entity_id=signed_up&stickiness_days=1',
  getLifecyclePersons: `?events=[{"id":"signed_up"}]&lifecycle_type=new&target_date=${new Date().toISOString().slice(0, 10)}`,
  getRetentionPersons:
    '?target_entity={"id":"signed_up","type":"events"}&total_intervals=1&selected_interval=0',
  getFunnelPersons: '?events=[{"id":"signed_up"}]&funnel_step=1',
  getCorrelationPersons:
    '?events=[{"id":"signed_up"}]&funnel_correlation_person_entity={"id":"other"}',
  getEventsCapture: '?data={"event":"e","distinct_id":"x","api_key":"phc_project_1"}',
}

/** Creates an object of every kind, checks those answers too, and returns the values for paths. */
async function fill(daemon: OrganizationDaemon, checker: Checker): Promise<Record<string, string>> {
  const { decisions } = daemon
  await decisions.capture([
    {
      event: 'signed_up',
      distinct_id: 'ann',
      properties: {
        $set: { email: 'ann@example.com', plan: 'pro' },
        $groups: { company: 'acme' },
        $elements_chain: 'a.b:text="x"',
      },
    },
    {
      event: '$groupidentify',
      distinct_id: 'ann',
      properties: { $group_type: 'company', $group_key: 'acme', $group_set: { size: 3 } },
    },
    { event: '$create_alias', distinct_id: 'ann', properties: { alias: '' } },
  ])
  const made: Record<string, string> = { project_id: '1', org_id: '@current', user_id: '@me' }
  const write = async (id: string, json?: unknown): Promise<Json> => {
    const operation = placed(id)
    const path = filled(operation.path, made).replace('/api/', '')
    const answer = await daemon.ask(operation.method, path, json)
    checker.check(operation, answer.status, answer.body)
    return answer.body
  }
  const events = await decisions.api('GET', 'events/?event=signed_up')
  const [event] = events.body['results'] as readonly { uuid: string; person_id: string }[]
  made['uuid'] = event?.uuid ?? ''
  const definitions = await decisions.api('GET', 'event_definitions/?search=signed_up')
  made['definition'] = String(resultsOf(definitions)[0]?.['id'])
  made['person'] = event?.person_id ?? ''
  made['action_id'] = String(
    (await write('createAction', { name: 'a', steps: [{ event: 'x' }] }))['id'],
  )
  const filters = { properties: [{ key: 'plan', value: 'pro', type: 'person' }] }
  made['cohort_id'] = String((await write('createCohort', { name: 'c', filters }))['id'])
  await write('createCohort', { name: 'static', is_static: true, distinct_ids: ['ann'] })
  const groups = [{ properties: [], rollout_percentage: 100 }]
  const flag = await write('createFeatureFlag', { key: 'f', filters: { groups } })
  made['flag'] = String(flag['id'])
  made['parent_lookup_feature_flag_id'] = String(flag['id'])
  const variants = [{ key: 'a', name: 'A', rollout_percentage: 100 }]
  await write('createFeatureFlag', { key: 'g', filters: { groups, multivariate: { variants } } })
  made['id'] = made['flag']
  await write('patchFeatureFlag', { name: 'first' })
  await write('createFlagDashboard')
  await write('countBlastRadius', { condition: { properties: [], rollout_percentage: 50 } })
  const scheduled = {
    record_id: made['flag'],
    model_name: 'FeatureFlag',
    payload: { operation: 'ramp', value: { steps: [{ rollout_percentage: 50 }], guards: [{}] } },
    scheduled_at: new Date(Date.now() + 86_400_000).toISOString(),
  }
  await write('previewScheduledChange', scheduled)
  made['scheduled'] = String((await write('createScheduledChange', scheduled))['id'])
  made['role_id'] = String((await write('createRole', { name: 'r' }))['id'])
  const user = await daemon.ask('GET', 'users/@me/')
  made['user_uuid'] = textOf(user, 'uuid')
  await write('createRoleMembership', { user_uuid: made['user_uuid'] })
  made['member'] = String((await write('createMember', { email: 'member@example.com' }))['id'])
  await write('createProjectMember', { user_uuid: made['member'], level: 1 })
  made['entry'] = String((await write('createRoleAccess', { role_id: made['role_id'] }))['id'])
  await write('createResourceAccess', { resource: 'feature flags', access_level: 37 })
  await write('createProject', { name: 'p' })
  const secret = await write('createSecretKey', { label: 's' })
  made['id'] = String(secret['id'])
  await write('rollSecretKey')
  made['personalKey'] = String(
    (await write('createPersonalKey', { label: 'k', scopes: ['*'] }))['id'],
  )
  const insight = await write('createInsight', { name: 'i', query: { kind: 'TrendsQuery' } })
  const tiles = [{ insight: insight['id'] }, { text: { body: 't' } }]
  const dashboard = await write('createDashboard', { name: 'd', tiles })
  made['dashboard'] = String(dashboard['id'])
  made['annotation'] = String((await write('createAnnotation', { content: 'a' }))['id'])
  const share = [{ properties: [], rollout_percentage: 5 }]
  const holdout = await write('createExperimentHoldout', { name: 'h', filters: share })
  made['holdout'] = String(holdout['id'])
  const metric = { metric_type: 'funnel', series: [{ kind: 'EventsNode', event: 'signed_up' }] }
  const saved = await write('createExperimentSavedMetric', { name: 's', query: metric })
  made['savedMetric'] = String(saved['id'])
  const experiment = await write('createExperiment', {
    name: 'e',
    feature_flag_key: 'of-an-experiment',
    holdout_id: holdout['id'],
    metrics: [metric],
    saved_metrics_ids: [{ id: saved['id'], metadata: { type: 'secondary' } }],
  })
  made['experiment'] = String(experiment['id'])
  made['id'] = made['experiment']
  await write('launchExperiment')
  await write('pauseExperiment')
  await write('resumeExperiment')
  await write('endExperiment', { conclusion: 'won' })
  await write('shipExperimentVariant', { variant_key: 'test' })
  await write('duplicateExperiment', { name: 'f' })
  made['id'] = String(insight['id'])
  made['insight'] = made['id']
  await write('patchInsight', { saved: true })
  made['id'] = made['dashboard']
  await write('patchDashboard', { tiles: [{ text: { body: 'u' } }] })
  await write('patchDashboardSharing', { enabled: true, settings: { legend: true } })
  made['share'] = String((await write('refreshDashboardSharing'))['access_token'])
  made['id'] = made['person']
  await write('updatePersonProperty', { key: 'team', value: 1 })
  await write('deletePersonProperty', { $unset: 'team' })
  await write('patchPerson', { properties: { level: 2 } })
  await write('createErasure', { event: 'nothing of this name' })
  await write('createErasure', { event: 'signed_up', dry_run: true })
  await write('putEventRetention', { days: 30, dry_run: true })
  await write('putEventRetention', { events: [{ event: 'nothing of this name', days: 30 }] })
  await write('runEventRetention', { dry_run: true })
  await write('postFunnelPersons', { events: [{ id: 'signed_up' }], funnel_step: 1 })
  return made
}

/** The value of `id` in a path. */
function idFor(path: string, made: Readonly<Record<string, string>>): string {
  if (path.includes('/persons/')) return made['person'] ?? ''
  if (path.includes('/event_definitions/')) return made['definition'] ?? ''
  if (path.includes('/role_access/')) return made['entry'] ?? ''
  if (path.includes('/feature_flags/')) return made['flag'] ?? ''
  if (path.includes('/personal_api_keys/')) return made['personalKey'] ?? ''
  if (path.includes('/insights/')) return made['insight'] ?? ''
  if (path.includes('/dashboards/')) return made['dashboard'] ?? ''
  if (path.includes('/annotations/')) return made['annotation'] ?? ''
  if (path.includes('/experiments/')) return made['experiment'] ?? ''
  if (path.includes('/experiment_holdouts/')) return made['holdout'] ?? ''
  if (path.includes('/experiment_saved_metrics/')) return made['savedMetric'] ?? ''
  if (path.includes('/scheduled_changes/')) return made['scheduled'] ?? ''
  return '1'
}

t.test('answers match the document', async (t) => {
  const daemon = DAEMON
  const checker = new Checker()
  const made = await fill(daemon, checker)
  const client = new ConsoleClient(daemon.decisions)
  t.equal(await client.logIn(), 200)
  let count = 0
  for (const one of OPERATIONS) {
    const { method, path, operation } = one
    const isJson = JSON.stringify(operation.responses['200'] ?? '').includes('application/json')
    if (method !== 'GET' || !isJson) continue
    const isShared = /^\/(shared|embedded)\//.test(path)
    const token = isShared ? `${made['share']}.json` : daemon.decisions.key()
    const segments = {
      event_id: made['uuid'] ?? '',
      ...made,
      id: idFor(path, made),
      user_uuid: made[path.includes('/explicit_members/') ? 'member' : 'user_uuid'] ?? '',
      token,
      key: 'f',
    }
    const query =
      operation.operationId === 'listCohortsOfPerson'
        ? `?person_id=${made['person']}`
        : NAMED_BY_TOKEN.includes(operation.operationId)
          ? `?token=${token}`
          : (QUERIES[operation.operationId] ?? '')
    if (query === '' && path.startsWith('/') && /^\/(batch|e|i|track|engage|s)\b/.test(path))
      continue
    const url = filled(path, segments) + query
    const isOfrep = path.startsWith('/ofrep/')
    const isSession = path === '/api/console/session/'
    const keyHeaders = isOfrep
      ? { 'X-API-Key': daemon.decisions.key() }
      : { Authorization: 'Bearer phx_owner_of_everything' }
    const headers = isSession ? { ...FROM_CONSOLE, Cookie: client.cookie } : keyHeaders
    const answer = await daemon.decisions.ask(encodeURI(url), { headers })
    const isMissing = operation.operationId === 'getFlagRemoteConfig'
    checker.checkStatus(one, answer, isMissing ? 404 : 200, url)
    count++
  }
  t.strictSame(checker.list(), [], 'every answer is described and matches its description')
  t.ok(count > 50, `${count} routes were requested`)
})

t.test('decisions and refusals match the document', async (t) => {
  const daemon = DAEMON
  const { decisions } = daemon
  const checker = new Checker()
  await decisions.putFlags([{ key: 'f' }])
  const body = { distinct_id: 'ann' }
  for (const version of ['', '?v=1', '?v=2', '?v=3', '?v=4']) {
    for (const id of ['postFlags', 'postDecide']) {
      const operation = placed(id)
      const answer = await decisions.decide(`${operation.path}/${version}`, body)
      checker.checkStatus(operation, answer, 200, `${id} ${version}`)
    }
  }
  const headers = { 'X-API-Key': decisions.key() }
  const context = { targetingKey: 'ann' }
  for (const [id, key, json, status] of [
    ['evaluateFlags', '', { context }, 200],
    ['evaluateFlag', 'f', { context }, 200],
    ['evaluateFlag', 'none', { context }, 404],
    ['evaluateFlag', 'f', {}, 400],
  ] as const) {
    const operation = placed(id)
    const answer = await decisions.ask(filled(operation.path, { key }), { headers, json })
    checker.checkStatus(operation, answer, status, `${id} ${key}`)
  }
  for (const [id, path, status, key] of [
    ['getPerson', 'projects/1/persons/9999/', 404, undefined],
    ['listPersons', 'projects/1/persons/?cohort=x', 400, undefined],
    ['listPersons', 'projects/1/persons/', 401, null],
    ['getFeatureFlag', 'projects/77/feature_flags/1/', 404, undefined],
  ] as const) {
    const answer = await daemon.ask('GET', path, undefined, key)
    checker.checkStatus(placed(id), answer, status, path)
  }
  const captured = await decisions.ask('/capture/', { json: { event: 'e' } })
  checker.checkStatus(placed('postEventsCapture'), captured, 401, '/capture/')
  t.strictSame(checker.list(), [], 'every answer is described and matches its description')
})
