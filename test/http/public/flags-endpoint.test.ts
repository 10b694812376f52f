/**
 * Inputs of decisions besides the flags: stored persons, groups and cohorts, the origin of a request, continuity, and
 * the other resources that SDKs load.
 *
 * @lane quick
 */
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { Environment } from '../../../src/store/lmdb/environment.ts'
import { EVENTS_ENVIRONMENT, EVENTS_TABLES, pairKey } from '../../../src/store/lmdb/keys.ts'
import { send } from '../../fixtures/exact-client.ts'
import {
  type DecisionDaemon,
  type FlagDraft,
  startDecisions,
} from '../../fixtures/flags/decision-daemon.ts'

const everyone = { properties: [], rollout_percentage: 100 }
const PERSONAL_KEY = 'phx_owner_of_everything'

function personFlag(key: string, property: string, value: string): FlagDraft {
  const properties = [{ key: property, value, operator: 'exact', type: 'person' }]
  return { key, filters: { groups: [{ properties, rollout_percentage: 100 }] } }
}

function cohortFlag(key: string, cohortId: number): FlagDraft {
  const properties = [{ key: 'id', value: cohortId, operator: 'in', type: 'cohort' }]
  return { key, filters: { groups: [{ properties, rollout_percentage: 100 }] } }
}

async function values(
  world: DecisionDaemon,
  body: object,
  projectId = 1,
  headers: Readonly<Record<string, string>> = {},
  query = '',
): Promise<Readonly<Record<string, unknown>>> {
  const json = { token: world.key(projectId), ...body }
  const answer = await world.ask(`/flags/?v=1${query}`, { json, headers })
  return answer.body['featureFlags'] as Readonly<Record<string, unknown>>
}

async function keys(...args: Parameters<typeof values>): Promise<string> {
  return Object.keys(await values(...args)).join(' ')
}

const world = await startDecisions(t, 9)

t.test('decisions use stored persons and groups, and the request has priority', async (t) => {
  const tier = [
    { key: 'tier', value: 'gold', operator: 'exact', type: 'group', group_type_index: 0 },
  ]
  await world.putFlags([
    personFlag('pro', 'plan', 'pro'),
    personFlag('known', '$initial_utm_source', 'ads'),
    {
      key: 'gold',
      filters: { aggregation_group_type_index: 0, groups: [{ properties: tier }] },
    },
  ])
  await world.capture([
    { event: 'seen', distinct_id: 'u', properties: { $set: { plan: 'pro', utm_source: 'ads' } } },
    { event: 'seen', distinct_id: '12', properties: { $set: { plan: 'pro' } } },
    {
      event: '$groupidentify',
      distinct_id: 'g',
      properties: { $group_type: 'company', $group_key: 'acme', $group_set: { tier: 'gold' } },
    },
  ])
  const groups = { company: 'acme' }
  // The main thread learns about a new group type a moment after its event can be read.
  await world.until(
    async () => (await values(world, { distinct_id: 'u', groups }))['gold'] === true,
  )
  t.strictSame(await values(world, { distinct_id: 'u', groups }), {
    pro: true,
    known: true,
    gold: true,
  })
  t.match(await values(world, { distinct_id: 12 }), { pro: true, gold: false }, 'a number is an id')
  t.match(await values(world, { distinct_id: 'nobody' }), { pro: false, known: false })
  t.match(
    await values(world, {
      distinct_id: 'u',
      $groups: groups,
      $properties: { plan: 'free' },
      $group_properties: { company: { tier: 'tin' } },
    }),
    { pro: false, known: true, gold: false },
    'the older names of the fields',
  )
  t.match(await values(world, { distinct_id: 'u', person_properties: { plan: null } }), {
    pro: false,
  })
  await world.capture([{ event: 'seen', distinct_id: 'u', properties: { $set: { plan: 'x' } } }])
  t.match(await values(world, { distinct_id: 'u' }), { pro: false }, 'a change of a person applies')
})

t.test('contexts, runtime, keys and surveys select flags', async (t) => {
  const all = { groups: [everyone] }
  const dependent = [{ key: '77', value: true, operator: 'flag_evaluates_to', type: 'flag' }]
  await world.putFlags(
    [
      { id: 77, key: 'plain', filters: all },
      { key: 'client', evaluationRuntime: 'client', filters: all },
      { key: 'server', evaluationRuntime: 'server', filters: all },
      { key: 'web', evaluationContexts: ['web', 'app'], filters: all },
      { key: 'survey-targeting-1', filters: all },
      { key: 'child', filters: { groups: [{ properties: dependent }] } },
    ],
    2,
  )
  const ask = (body: object, headers = {}, query = '') =>
    keys(world, { distinct_id: 'u', ...body }, 2, headers, query)
  const common = 'web survey-targeting-1 child'
  t.equal(await ask({}), `plain ${common}`, 'an unknown runtime gets flags for all runtimes')
  t.equal(await ask({ evaluation_runtime: 'client' }), `plain client ${common}`)
  t.equal(await ask({ evaluation_runtime: 'SERVER' }), `plain server ${common}`)
  t.equal(await ask({ evaluation_runtime: 'moon' }), `plain client server ${common}`)
  const agents: Record<string, string> = {
    'Mozilla/5.0 (X11) Chrome/120': `plain client ${common}`,
    'posthog-android/3.1': `plain client ${common}`,
    'posthog-node/5.70.0': `plain server ${common}`,
    'posthog-python/7.1': `plain server ${common}`,
    'posthog-rs/0.21.0': `plain server ${common}`,
    'posthog-server/2.2.0': `plain server ${common}`,
    'posthog-unity/1.0': `plain ${common}`,
    'posthog-js/1.449.2': `plain client ${common}`,
    'posthog-ios/3.2': `plain client ${common}`,
    'posthog-server/3.2.1 (Android SDK)': `plain server ${common}`,
    'posthog-node/5.70.0 Mozilla/5.0': `plain server ${common}`,
    'posthog-unity/1.0 Mozilla/5.0': `plain ${common}`,
    'posthog-node/': `plain ${common}`,
    'posthog-python': `plain ${common}`,
    'posthog-/1.0': `plain ${common}`,
    'my-tool/1 curl/8.1': `plain server ${common}`,
    'curl/8.1': `plain server ${common}`,
    'something else': `plain ${common}`,
  }
  for (const [agent, expected] of Object.entries(agents)) {
    t.equal(await ask({}, { 'User-Agent': agent }), expected, agent)
  }
  for (const header of [
    { Origin: 'https://a.example' },
    { Referer: 'x' },
    { 'Sec-Fetch-Site': 'x' },
  ]) {
    t.equal(await ask({}, header), `plain client ${common}`, JSON.stringify(header))
  }
  const both = { 'User-Agent': 'posthog-node/5', 'Sec-Fetch-Mode': 'cors' }
  t.equal(
    await ask({}, both),
    `plain server ${common}`,
    'the name of an SDK usually tells its runtime',
  )
  t.equal(await ask({ evaluation_contexts: [] }), `plain ${common}`)
  t.equal(await ask({ evaluation_contexts: ['app'] }), `plain ${common}`)
  t.equal(await ask({ evaluation_environments: ['api'] }), 'plain survey-targeting-1 child')
  t.match(await values(world, { distinct_id: 'u', flag_keys_to_evaluate: ['child'] }, 2), {
    child: true,
  })
  t.notOk((await ask({ flag_keys: ['child'] })).includes('web'))
  t.equal(await ask({ flag_keys: ['plain', 'nothing'] }), 'plain')
  t.equal(await ask({}, {}, '&only_evaluate_survey_feature_flags=true'), 'survey-targeting-1')
})

/** The identifier decides at 50 %, so it is known for which of the two users the flag is on. */
function halfFlag(key: string): FlagDraft {
  return {
    key,
    ensureExperienceContinuity: true,
    filters: { groups: [{ properties: [], rollout_percentage: 50 }] },
  }
}

/** Ids for which a flag is on or off without continuity. */
async function idWhere(isOn: boolean, projectId: number, prefix: string): Promise<string> {
  for (let index = 0; index < 100; index++) {
    const id = `${prefix}${index}`
    if ((await values(world, { distinct_id: id }, projectId))['half'] === isOn) return id
  }
  throw new Error('every id is decided in the same way')
}

t.test('with continuity a user keeps the bucket of the anonymous id', async (t) => {
  await world.putFlags([halfFlag('half')], 3)
  const anonymous = await idWhere(true, 3, 'anon')
  const user = await idWhere(false, 3, 'user')
  const half = async (body: object) => (await values(world, body, 3))['half']
  const asked = { distinct_id: user, $anon_distinct_id: anonymous }
  t.equal(
    await half(asked),
    true,
    'the person does not exist: the request decides, and nothing is stored',
  )
  await world.capture([], 3)
  t.equal(await half({ distinct_id: user }), false)

  const merge = { $anon_distinct_id: anonymous }
  await world.capture([{ event: '$identify', distinct_id: user, properties: merge }], 3)
  await world.until(async () => {
    await half({ ...asked, $anon_distinct_id: anonymous })
    return (await half({ distinct_id: user })) === true
  })
  t.equal(await half({ distinct_id: anonymous }), true)
  const other = await idWhere(false, 3, 'other')
  t.equal(
    await half({ distinct_id: user, $anon_distinct_id: other }),
    true,
    'the first identifier stays',
  )

  const aliased = 'alias of the user'
  await world.capture(
    [
      { event: 'seen', distinct_id: aliased, properties: {} },
      { event: '$merge_dangerously', distinct_id: aliased, properties: { alias: user } },
    ],
    3,
  )
  t.equal(
    await half({ distinct_id: aliased }),
    true,
    'a person that absorbs another one inherits its identifier',
  )
})

t.test('a person keeps its own identifier when it absorbs another one', async (t) => {
  await world.putFlags([halfFlag('half')], 4)
  const on = await idWhere(true, 4, 'on')
  const off = await idWhere(false, 4, 'off')
  const half = async (body: object) => (await values(world, body, 4))['half']
  const people = ['first', 'second', 'third'].map((id) => ({ event: 'seen', distinct_id: id }))
  await world.capture(people, 4)
  await half({ distinct_id: 'first', $anon_distinct_id: off })
  await half({ distinct_id: 'second', $anon_distinct_id: on })
  await world.capture([], 4)
  t.equal(await half({ distinct_id: 'first' }), false)
  t.equal(await half({ distinct_id: 'second' }), true)
  const merge = (into: string, alias: string) => ({
    event: '$merge_dangerously',
    distinct_id: into,
    properties: { alias },
  })
  await world.capture([merge('first', 'second')], 4)
  t.equal(await half({ distinct_id: 'first' }), false)
  t.equal(await half({ distinct_id: 'second' }), false, 'both ids now belong to one person')
  await world.capture([merge('third', 'first')], 4)
  t.equal(await half({ distinct_id: 'third' }), false, 'its identifier is still used')

  await world.capture(
    [off, on].map((id) => ({ event: 'seen', distinct_id: id })),
    4,
  )
  await half({ distinct_id: off, $anon_distinct_id: off })
  await world.capture([merge(on, off)], 4)
  t.equal(await half({ distinct_id: on }), false, 'also kept if both ids of a request are equal')
})

t.test('if nothing can be written, only flags with continuity fail', async (t) => {
  const full = await startDecisions(t, 1, { 'disk-reserve': '16TiB' })
  await full.putFlags([halfFlag('half'), { key: 'everyone' }])
  const asked = { distinct_id: 'u', $anon_distinct_id: 'anonymous' }
  const { status, body } = await full.decide('/flags/?v=2', asked)
  t.equal(status, 200)
  t.match(body, {
    errorsWhileComputingFlags: true,
    flags: {
      half: { enabled: false, failed: true, reason: { code: 'override_unavailable' } },
      everyone: { enabled: true },
    },
  })
  const plain = await full.decide('/flags/?v=2', { distinct_id: 'u' })
  t.match(
    plain.body,
    { errorsWhileComputingFlags: false },
    'without an identifier to store there is no error',
  )
})

t.test('cohorts apply as soon as their change is answered', async (t) => {
  await world.capture([{ event: 'seen', distinct_id: 'member', properties: {} }], 5)
  await world.putFlags([cohortFlag('static', 1), cohortFlag('dynamic', 2)], 5)
  const missing = await world.decide('/flags/?v=2', { distinct_id: 'member' }, 5)
  t.match(missing.body, {
    errorsWhileComputingFlags: true,
    flags: { static: { enabled: false, failed: true, metadata: { payload: null } } },
  })
  t.strictSame(await values(world, { distinct_id: 'member' }, 5), {}, 'never a plain false')
  const filters = {
    properties: {
      type: 'OR',
      values: [
        {
          type: 'AND',
          values: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }],
        },
      ],
    },
  }
  const members = { name: 'a', is_static: true, distinct_ids: ['member'] }
  t.equal((await world.api('POST', 'cohorts/', 5, members)).status, 201)
  t.equal((await world.api('POST', 'cohorts/', 5, { name: 'b', filters })).status, 201)
  t.strictSame(await values(world, { distinct_id: 'member' }, 5), { static: true, dynamic: false })
  t.strictSame(await values(world, { distinct_id: 'x', person_properties: { plan: 'pro' } }, 5), {
    static: false,
    dynamic: true,
  })
  const deleted = await world.api('PATCH', 'cohorts/2/', 5, { deleted: true })
  t.equal(deleted.status, 200)
  t.strictSame(await values(world, { distinct_id: 'x' }, 5), { static: false })
})

t.test('an unreadable person fails only the flags that need it', async (t) => {
  await world.putFlags([{ key: 'everyone' }, personFlag('pro', 'plan', 'pro')], 6)
  await world.capture(
    [{ event: 'seen', distinct_id: 'u', properties: { $set: { plan: 'pro' } } }],
    6,
  )
  const { dataDir } = world
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: EVENTS_TABLES })
  environment.write(() => {
    const persons = environment.table('persons')
    for (const { key, value } of persons.getRange({ start: pairKey(6, 0), end: pairKey(7, 0) })) {
      const damaged = Buffer.from(value)
      damaged[40] = (damaged[40] ?? 0) ^ 0xff
      persons.putSync(Buffer.from(key), damaged)
    }
  })
  await environment.close()
  const { status, body } = await world.decide('/decide/?v=3', { distinct_id: 'u' }, 6)
  t.equal(status, 200)
  t.match(body, {
    errorsWhileComputingFlags: true,
    errorComputingFlags: true,
    featureFlagPayloads: {},
  })
  t.strictSame(body['featureFlags'], { everyone: true })
  const details = await world.decide('/flags/?v=2', { distinct_id: 'u' }, 6)
  t.match(details.body, {
    errorsWhileComputingFlags: true,
    flags: {
      everyone: { enabled: true },
      pro: { enabled: false, variant: null, failed: true, reason: { code: 'person_unavailable' } },
    },
  })
  const { everyone: sound } = details.body['flags'] as Record<string, object>
  t.notOk('failed' in (sound ?? {}))
  const other = await world.decide('/flags/?v=2', { distinct_id: 'nobody' }, 6)
  t.match(other.body, { errorsWhileComputingFlags: false })
})

t.test('remote configuration says whether there are flags and does not read files', async (t) => {
  const config = async (projectId: number) =>
    (await world.ask(`/array/${world.key(projectId)}/config`)).body
  t.match(await config(7), {
    token: world.key(7),
    hasFeatureFlags: false,
    autocapture_opt_out: false,
    supportedCompression: ['gzip', 'gzip-js', 'lz64'],
  })
  const [flag] = await world.putFlags([{ key: 'a', active: false }], 7)
  t.match(await config(7), { hasFeatureFlags: false }, 'an inactive flag does not count')
  await world.putFlags([{ key: 'a', ...(flag === undefined ? {} : { id: flag.id }) }], 7)
  t.match(await config(7), { hasFeatureFlags: true })
  t.notOk('surveys' in (await config(7)), 'posthog-js loads surveys.js if it is there at all')
  const script = await send(`${world.url}/array/${world.key(7)}/config.js`)
  t.equal(script.status, 200)
  t.match(script.headers['content-type'], /^application\/javascript/)
  t.equal(script.headers['cache-control'], 'public, max-age=300')
  const page: { _POSTHOG_REMOTE_CONFIG?: Record<string, unknown> } = {}
  runInNewContext(script.body.toString(), { window: page })
  t.strictSame(JSON.parse(JSON.stringify(page._POSTHOG_REMOTE_CONFIG)), {
    [world.key(7)]: { config: await config(7), siteApps: [] },
  })
  for (const path of [
    '/array/phc_none/config',
    '/array/phc_none/config.js',
    // A token is looked up and is never part of a file path.
    '/array/..%2f..%2fpackage.json%00/config',
    '/array/%252e%252e/config.js',
    '/array/..%5c..%5cformat/config.js',
    '/static/..%2f..%2fpackage.json',
  ]) {
    t.equal((await world.ask(path)).status, 404, path)
  }
  for (const [path, name] of [
    ['/api/surveys/?token=x', 'surveys'],
    ['/api/early_access_features/', 'earlyAccessFeatures'],
    ['/api/web_experiments', 'experiments'],
    ['/api/product_tours/', 'product_tours'],
  ] as const) {
    const { status, body } = await world.ask(path)
    t.equal(status, 200)
    t.strictSame(body[name], [], path)
  }
})

t.test(
  'definitions are on all SDK paths, with and without a slash, and answer 304 when unchanged',
  async (t) => {
    await world.putFlags([{ key: 'a' }, { key: 'off', active: false }, cohortFlag('c', 1)], 8)
    const leaf = { key: 'plan', value: 'pro', operator: 'exact', type: 'person' }
    const filters = { properties: { type: 'OR', values: [{ type: 'AND', values: [leaf] }] } }
    t.equal((await world.api('POST', 'cohorts/', 8, { name: 'c', filters })).status, 201)
    const bearer = (key: string) => ({ Authorization: `Bearer ${key}` })
    const token = `token=${world.key(8)}`
    for (const path of ['/flags/definitions', '/api/feature_flag/local_evaluation']) {
      for (const slash of ['', '/']) {
        const url = `${path}${slash}?${token}&send_cohorts`
        const { status, body, headers } = await world.ask(url, { headers: bearer(PERSONAL_KEY) })
        t.equal(status, 200, url)
        t.match(body, {
          group_type_mapping: {},
          flags: [{ key: 'a', active: true }, { key: 'off' }, {}],
        })
        t.strictSame(Object.keys(body['cohorts'] as object), ['1'])
        const etag = String(headers.etag)
        t.match(etag, /^W\/"[0-9a-f]{16}"$/)
        for (const known of [etag, etag.slice(2)]) {
          const again = await send(`${world.url}${url}`, {
            headers: { ...bearer(PERSONAL_KEY), 'If-None-Match': known },
          })
          t.equal(again.status, 304)
          t.equal(again.headers.etag, etag)
          t.equal(again.body.length, 0)
        }
      }
    }
    const plain = await world.ask(`/api/feature_flag/local_evaluation?${token}`, {
      headers: bearer(PERSONAL_KEY),
    })
    t.strictSame(plain.body['cohorts'], {})
    const list = await world.ask(`/api/feature_flag/?${token}`, {
      headers: bearer(PERSONAL_KEY),
      body: '{}',
    })
    t.match(list.body, {
      results: [{ key: 'a', active: true, is_simple_flag: true, rollout_percentage: null }, {}, {}],
    })
    const refusals: readonly (readonly [string, Record<string, string>, number, string])[] = [
      ['', {}, 401, 'not_authenticated'],
      [`?${token}`, bearer(world.key(8)), 401, 'authentication_failed'],
      ['?token=phc_none', bearer(PERSONAL_KEY), 401, 'authentication_failed'],
    ]
    for (const [query, headers, status, code] of refusals) {
      const answer = await world.ask(`/flags/definitions${query}`, { headers })
      t.equal(answer.status, status)
      t.match(answer.body, { code })
    }
  },
)

t.test('definitions always belong to the project that the request names', async (t) => {
  await world.putFlags([{ key: 'only-here' }], 7)
  const mine = world.key(7)
  const made = await world.api('POST', 'feature_flags/', 7, { key: 'mine-too' })
  t.equal(made.status, 201)
  const keys: string[] = []
  for (const projects of [[7], [6, 7]]) {
    const answer = await world.ask('/api/personal_api_keys/', {
      headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
      json: {
        label: 'k',
        scopes: ['feature_flag:read'],
        scoped_teams: projects.map((id) => world.idOf(id)),
      },
    })
    t.equal(answer.status, 201, JSON.stringify(answer.body))
    keys.push(String(answer.body['value']))
  }
  const [ofOne = '', ofTwo = ''] = keys
  const paths = [
    '/flags/definitions/?send_cohorts',
    '/api/feature_flag/local_evaluation/',
    '/api/feature_flag/',
  ]
  for (const path of paths) {
    const ask = async (key: string, named: Record<string, string> = {}, query = '') => {
      const headers = { Authorization: `Bearer ${key}`, ...named }
      const { status, body } = await world.ask(
        query === '' ? path : `${path.split('?')[0]}?${query}`,
        { headers },
      )
      const flags = (body['flags'] ?? body['results'] ?? []) as readonly { key: string }[]
      return status === 200
        ? flags.map((flag) => flag.key).sort()
        : [status, body['code'], body['attr']]
    }
    const own = ['a', 'mine-too', 'only-here']
    const header = { 'X-PostHog-Project-Api-Key': mine }
    for (const key of [PERSONAL_KEY, ofTwo]) {
      t.strictSame(await ask(key), [400, 'invalid_project', 'token'], path)
    }
    for (const key of [PERSONAL_KEY, ofOne, ofTwo]) t.strictSame(await ask(key, header), own, path)
    t.strictSame(await ask(ofOne), own, `${path}: the key gives access to one project`)
    const other = { 'X-PostHog-Project-Api-Key': world.key(6) }
    t.strictSame(await ask(PERSONAL_KEY, other, `token=${mine}`), own, 'token has priority')
    t.strictSame(await ask(ofOne, other), [403, 'permission_denied', null])
    const unknown = { 'X-PostHog-Project-Api-Key': 'phc_nobody' }
    t.strictSame(await ask(PERSONAL_KEY, unknown), [401, 'authentication_failed', null])
  }
})
