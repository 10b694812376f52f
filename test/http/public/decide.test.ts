/**
 * `/decide/` and `/flags/` over HTTP: every response version, every refusal, and every request encoding of clients.
 *
 * @lane quick
 */
import { gzipSync } from 'node:zlib'
import LZString from 'lz-string'
import t, { type Test } from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { send } from '../../fixtures/exact-client.ts'
import { startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const CONFIG = {
  config: { enable_collect_everything: true },
  toolbarParams: {},
  editorParams: {},
  isAuthenticated: false,
  supportedCompression: ['gzip', 'gzip-js', 'lz64'],
  sessionRecording: false,
  captureDeadClicks: false,
  capturePerformance: false,
  autocapture_opt_out: false,
  autocaptureExceptions: false,
  errorTracking: { autocaptureExceptions: false, suppressionRules: [] },
  elementsChainAsString: true,
  surveys: false,
  heatmaps: false,
  flagsPersistenceDefault: false,
  defaultIdentifiedOnly: true,
  siteApps: [],
}

const everyone = { properties: [], rollout_percentage: 100 }
const pro = { properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }] }
const NOW_MS = Date.UTC(2027, 0, 15, 12)
const world = await startDecisions(
  t,
  2,
  {},
  { clock: { now: () => NOW_MS, monotonic: () => performance.now() } },
)
const [on] = await world.putFlags([
  { key: 'on', version: 3, filters: { groups: [everyone], payloads: { true: '{"a": 1}' } } },
  { key: 'off', filters: { groups: [{ properties: [], rollout_percentage: 0 }] } },
  {
    key: 'many',
    filters: {
      groups: [{ ...everyone, variant: 'test' }],
      multivariate: {
        variants: [
          { key: 'control', rollout_percentage: 50 },
          { key: 'test', rollout_percentage: 50 },
        ],
      },
      payloads: { test: '"yes"' },
    },
  },
  { key: 'inactive', active: false },
  { key: 'pro', filters: { groups: [pro] } },
  { key: '__proto__', filters: { groups: [everyone] } },
])

/** Removes and checks the members that differ in every answer. */
function timeless(t: Test, body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { requestId, evaluatedAt, ...rest } = body
  t.match(String(requestId), /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/)
  t.equal(evaluatedAt, NOW_MS)
  return rest
}

const VALUES = JSON.parse(
  '{"on":true,"off":false,"many":"test","pro":false,"__proto__":true}',
) as object
const PAYLOADS = { on: '{"a": 1}', many: '"yes"' }

t.test('v1 is the list of enabled keys, and the default of /decide/', async (t) => {
  const expected = { ...CONFIG, featureFlags: ['on', 'many', '__proto__'] }
  for (const query of ['', '?v=1', '?v=', '?v=0', '?v=-3', '?ip=1&_=12&ver=1.2.3']) {
    const { status, body } = await world.decide(`/decide/${query}`, { distinct_id: 'u' })
    t.equal(status, 200)
    t.strictSame(timeless(t, body), expected, query)
  }
})

t.test(
  'v2 has the values of enabled flags, also for a version that is not an integer',
  async (t) => {
    const featureFlags = JSON.parse('{"on":true,"many":"test","__proto__":true}') as object
    for (const version of ['2', '3.1', 'abc', '1e3']) {
      const { body } = await world.decide(`/decide?v=${version}`, { distinct_id: 'u' })
      t.strictSame(timeless(t, body), { ...CONFIG, featureFlags }, version)
    }
  },
)

t.test('v3 has all active flags, payloads as JSON text, and the error flag twice', async (t) => {
  const { body } = await world.decide('/decide/?v=3', { distinct_id: 'u' })
  t.strictSame(timeless(t, body), {
    ...CONFIG,
    featureFlags: VALUES,
    featureFlagPayloads: PAYLOADS,
    errorsWhileComputingFlags: false,
    errorComputingFlags: false,
  })
})

t.test('v4 and above have the details', async (t) => {
  for (const version of ['4', '5', '99']) {
    const { body } = await world.decide(`/decide/?v=${version}`, { distinct_id: 'u' })
    const { flags, ...rest } = timeless(t, body)
    t.strictSame(rest, { ...CONFIG, errorsWhileComputingFlags: false })
    t.strictSame(Object.keys(flags as object), ['on', 'off', 'many', 'pro', '__proto__'])
    t.strictSame((flags as Record<string, unknown>)['on'], {
      key: 'on',
      enabled: true,
      variant: null,
      reason: {
        code: 'condition_match',
        condition_index: 0,
        description: 'Matched condition set 1',
      },
      metadata: {
        id: on?.id,
        version: 3,
        description: null,
        payload: '{"a": 1}',
        has_experiment: false,
      },
    })
    t.match((flags as Record<string, unknown>)['many'], { enabled: true, variant: 'test' })
    t.match((flags as Record<string, unknown>)['off'], {
      enabled: false,
      variant: null,
      reason: { code: 'out_of_rollout_bound', condition_index: 0 },
      metadata: { payload: null },
    })
  }
})

t.test('/flags/ has details in v2, values in v1, and configuration on request', async (t) => {
  const shape = async (query: string) => {
    const { body } = await world.decide(`/flags/${query}`, { distinct_id: 'u' })
    const members = timeless(t, body)
    return [
      'featureFlags' in members ? 'values' : 'details',
      'supportedCompression' in members ? 'with configuration' : 'alone',
    ].join(' ')
  }
  t.equal(await shape('?v=2'), 'details alone')
  t.equal(await shape('?v=3'), 'details alone')
  t.equal(await shape('?v=2&config=true'), 'details with configuration')
  t.equal(await shape('?v=2&config=false'), 'details alone')
  t.equal(await shape('?config=1'), 'details alone')
  t.equal(await shape('?v=1'), 'values alone')
  t.equal(await shape('?v=x'), 'values alone')
  t.equal(await shape('?v=1&config=true'), 'values with configuration')
  t.equal(await shape(''), 'details with configuration')
  t.equal(await shape('?config=true'), 'details with configuration')
  const { body } = await world.decide('/flags/?v=1', { distinct_id: 'u' })
  t.strictSame(timeless(t, body), {
    featureFlags: VALUES,
    featureFlagPayloads: PAYLOADS,
    errorsWhileComputingFlags: false,
    errorComputingFlags: false,
  })
})

t.test('a project without flags, and disable_flags, give empty containers', async (t) => {
  const empty = { flags: {}, errorsWhileComputingFlags: false }
  t.strictSame(
    timeless(t, (await world.decide('/flags/?v=2', { distinct_id: 'u' }, 2)).body),
    empty,
  )
  for (const value of [true, 'true', '1']) {
    const { status, body } = await world.decide('/flags/?v=2', { disable_flags: value })
    t.equal(status, 200, 'distinct_id is not required')
    t.strictSame(timeless(t, body), empty)
  }
  const { body } = await world.decide('/decide/?v=3', { disable_flags: true, distinct_id: 'u' })
  t.match(body, { featureFlags: {}, featureFlagPayloads: {}, errorsWhileComputingFlags: false })
  t.strictSame(body['featureFlags'], {})
})

t.test('errors are checked in the order body, key, project, distinct_id', async (t) => {
  const key = world.key()
  const personal = 'phx_owner_of_everything'
  const json = { 'Content-Type': 'application/json' }
  const cases: readonly (readonly [string, string, number, string, string | null])[] = [
    ['/decide/', '', 401, 'no_api_key', null],
    ['/flags/', '', 400, 'malformed_data', null],
    ['/decide/', '{', 400, 'malformed_data', null],
    ['/decide/', '[]', 400, 'malformed_data', null],
    ['/flags/', '"text"', 400, 'malformed_data', null],
    ['/flags/', 'null', 400, 'malformed_data', null],
    ['/decide/?compression=zip', JSON.stringify({ token: key }), 400, 'malformed_data', null],
    ['/decide/', '{}', 401, 'no_api_key', null],
    ['/flags/', '{}', 401, 'no_api_key', null],
    ['/decide/', '{"token":""}', 401, 'no_api_key', null],
    ['/decide/', '{"token":"phc_wrong"}', 401, 'invalid_api_key', null],
    ['/flags/', '{"token":["a"]}', 401, 'invalid_api_key', null],
    ['/flags/', `{"token":"${'k'.repeat(500)}"}`, 401, 'invalid_api_key', null],
    ['/flags/', '{"token":"constructor","distinct_id":"u"}', 401, 'invalid_api_key', null],
    ['/decide/', `{"api_key":"${personal}"}`, 400, 'invalid_project', 'project_id'],
    ['/flags/', `{"token":"${personal}","project_id":null}`, 400, 'invalid_project', 'project_id'],
    ['/flags/', '{"token":"phx_wrong","distinct_id":"u"}', 401, 'invalid_personal_api_key', null],
    ['/decide/', '{"api_key":"phx_wrong"}', 401, 'invalid_personal_api_key', null],
    ['/decide/', '{"api_key":"phx_wrong","project_id":"x"}', 400, 'invalid_project', 'project_id'],
    ['/decide/', '{"api_key":"phx_wrong","project_id":1}', 401, 'invalid_personal_api_key', null],
    ['/decide/', `{"api_key":"${personal}","project_id":9}`, 400, 'invalid_project', 'project_id'],
    [
      '/decide/',
      `{"api_key":"${personal}","project_id":"x"}`,
      400,
      'invalid_project',
      'project_id',
    ],
    [
      '/decide/',
      `{"api_key":"${personal}","project_id":{"toString":1,"valueOf":2}}`,
      400,
      'invalid_project',
      'project_id',
    ],
    ['/decide/', `{"token":"${key}"}`, 400, 'missing_distinct_id', null],
    ['/flags/', `{"token":"${key}","distinct_id":null}`, 400, 'missing_distinct_id', null],
    ['/flags/', `{"token":"${key}","distinct_id":{}}`, 400, 'missing_distinct_id', null],
  ]
  const differences = new Differences()
  for (const [path, text, status, code, attr] of cases) {
    const name = `${path} ${text.slice(0, 60)}`
    const answer = await world.ask(path, { method: 'POST', headers: json, body: text })
    differences.match(answer, { status, body: { code, attr } }, name)
    const { detail } = answer.body
    differences.equal(typeof detail, 'string', `${name}: the type in the detail`)
    const key = /phx_|phc_/.exec(String(detail))?.[0]
    differences.equal(key, undefined, `${name}: a key in the detail`)
  }
  t.strictSame(differences.list(), [], 'every refusal has its code and contains no key')
})

t.test(
  'a body above the limit is answered with 413, also if only its decoded form is too large',
  async (t) => {
    const token = world.key()
    const body = JSON.stringify({
      token,
      distinct_id: 'u',
      person_properties: { a: 'x'.repeat(300_000) },
    })
    for (const sent of [Buffer.from(body), gzipSync(body)]) {
      const answer = await world.ask('/flags/?v=2', { method: 'POST', body: sent })
      t.equal(answer.status, 413)
      t.match(answer.body, { code: 'request_too_large' })
    }
  },
)

t.test('the key is found in all its positions, and a personal key with its project', async (t) => {
  const key = world.key()
  const flagsOf = async (path: string, body: object) => {
    const answer = await world.ask(path, { json: { distinct_id: 'u', ...body } })
    return Object.keys((answer.body['flags'] ?? answer.body) as object).length
  }
  for (const name of ['token', '$token', 'api_key'])
    t.equal(await flagsOf('/flags?v=2', { [name]: key }), 5)
  t.equal(await flagsOf(`/flags/?v=2&token=${key}`, {}), 5)
  t.equal(await flagsOf(`/flags/?v=2&api_key=${key}`, {}), 5)
  const personal = 'phx_owner_of_everything'
  t.equal(await flagsOf('/flags/?v=2', { api_key: personal, project_id: 1 }), 5)
  t.equal(await flagsOf('/flags/?v=2&project_id=1', { token: personal }), 5)
  t.equal(await flagsOf('/flags/?v=2', { personal_api_key: personal, project_id: '1' }), 5)
  t.equal(await flagsOf('/flags/?v=2', { api_key: personal, project_id: 2 }), 0)
})

t.test('every request encoding of clients is read', async (t) => {
  const text = JSON.stringify({
    token: world.key(),
    distinct_id: 'ünïcode',
    person_properties: { plan: 'pro' },
  })
  const base64 = Buffer.from(text).toString('base64')
  const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const plain = { 'Content-Type': 'text/plain' }
  const cases: readonly (readonly [string, Record<string, string>, string | Buffer])[] = [
    ['?v=3', {}, text],
    ['?v=3', { 'Content-Type': 'application/json' }, text],
    ['?v=3', plain, text],
    ['?v=3', form, text],
    ['?v=3', form, `data=${encodeURIComponent(base64)}`],
    ['?v=3&compression=base64', form, `data=${encodeURIComponent(base64)}`],
    ['?v=3', form, `data=${base64.replaceAll('=', '')}`],
    ['?v=3', form, `data=${encodeURIComponent(text)}`],
    ['?v=3', form, encodeURIComponent(base64)],
    ['?v=3', plain, base64],
    ['?v=3', plain, encodeURIComponent(base64)],
    ['?v=3&compression=base64', plain, `data=${encodeURIComponent(base64)}`],
    ['?v=3', plain, gzipSync(text)],
    ['?v=3&compression=gzip-js', plain, gzipSync(text)],
    ['?v=3&compression=gzip', {}, gzipSync(text)],
    ['?v=3', { 'Content-Encoding': 'gzip' }, gzipSync(text)],
    ['?v=3', form, `data=${encodeURIComponent(LZString.compressToBase64(text))}&compression=lz64`],
    ['?v=3&compression=lz64', form, `data=${encodeURIComponent(LZString.compressToBase64(text))}`],
    ['?v=3', {}, text.replace('"pro"', '"pro","x":NaN,"y":-Infinity')],
    ['?v=3', {}, `\ufeff${text}`],
    [
      '?v=3',
      {},
      Buffer.concat([Buffer.from(text.slice(0, -2)), Buffer.from(',"z":"\xff"}}', 'latin1')]),
    ],
  ]
  const differences = new Differences()
  for (const [query, headers, body] of cases) {
    const answer = await world.ask(`/decide/${query}`, { method: 'POST', headers, body })
    const label = `${query} ${JSON.stringify(headers)} ${String(body).slice(0, 20)}`
    const wanted = { status: 200, body: { featureFlags: { on: true, pro: true } } }
    differences.match(answer, wanted, label)
  }
  t.strictSame(differences.list(), [], 'every encoding is read')
})

t.test(
  'GET and HEAD return configuration without flags, and other methods are unchanged',
  async (t) => {
    const empty = { errorsWhileComputingFlags: false, flags: {} }
    const decide = await world.ask('/decide/')
    t.equal(decide.status, 200)
    t.strictSame(timeless(t, decide.body), { ...CONFIG, featureFlags: {}, ...empty })
    const flags = await world.ask('/flags/?v=2', { body: '{}' })
    t.equal(flags.status, 200, 'a GET with a body')
    t.strictSame(timeless(t, flags.body), { ...CONFIG, ...empty })
    for (const path of ['/decide/', '/flags']) {
      const head = await send(`${world.url}${path}`, { method: 'HEAD' })
      t.equal(head.status, 200)
      t.equal(head.body.length, 0)
      const wrong = await world.ask(path, { method: 'PUT', body: '{}' })
      t.equal(wrong.status, 405)
      t.equal(wrong.headers.allow, 'GET, HEAD, POST, OPTIONS')
    }
    const options = await send(`${world.url}/decide/`, { method: 'OPTIONS' })
    t.equal(options.status, 200)
    t.equal(options.body.toString(), '{"status":1}')
    t.equal((await send(`${world.url}/flags/`, { method: 'OPTIONS' })).status, 204)
  },
)

t.test('CORS headers are on answers, refusals and preflights', async (t) => {
  const headers = { Origin: 'https://shop.example', 'Access-Control-Request-Headers': 'x-trace' }
  const body = JSON.stringify({ token: world.key(), distinct_id: 'u' })
  const all = [
    await send(`${world.url}/decide/?v=3`, { method: 'POST', headers, body }),
    await send(`${world.url}/decide/?v=3`, { method: 'POST', headers, body: '{}' }),
    await send(`${world.url}/flags/?v=2`, { method: 'OPTIONS', headers }),
    await send(`${world.url}/flags/`, { method: 'PUT', headers, body: '{}' }),
    await send(`${world.url}/array/${world.key()}/config.js`, { headers }),
    await send(`${world.url}/array/phc_none/config`, { headers }),
  ]
  t.strictSame(
    all.map(({ status }) => status),
    [200, 401, 204, 405, 200, 404],
  )
  for (const answer of all) {
    t.equal(answer.headers['access-control-allow-origin'], 'https://shop.example')
    t.equal(answer.headers['access-control-allow-credentials'], 'true')
    t.equal(answer.headers['access-control-allow-headers'], 'x-trace')
    t.equal(answer.headers.vary, 'Origin')
  }
})
