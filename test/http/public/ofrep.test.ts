/**
 * OpenFeature's remote evaluation protocol, as its description defines it and with its released provider.
 *
 * @lane quick
 */
import { OFREPProvider } from '@openfeature/ofrep-provider'
import { OpenFeature } from '@openfeature/server-sdk'
import t from 'tap'
import { send } from '../../fixtures/exact-client.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const everyone = { properties: [], rollout_percentage: 100 }
const pro = { properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }] }
const ALL = '/ofrep/v1/evaluate/flags'
const world = await shareDecisions()
const [on] = await world.putFlags([
  { key: 'on', version: 2, filters: { groups: [everyone], payloads: { true: '{"a":1}' } } },
  {
    key: 'many',
    filters: {
      groups: [{ ...pro, variant: 'test' }],
      multivariate: {
        variants: [
          { key: 'control', rollout_percentage: 50 },
          { key: 'test', rollout_percentage: 50 },
        ],
      },
    },
  },
  { key: 'inactive', active: false },
  { key: 'company', filters: { aggregation_group_type_index: 0, groups: [everyone] } },
  {
    key: 'broken',
    filters: { groups: [{ properties: [{ key: 'id', value: 9, type: 'cohort' }] }] },
  },
])
await world.capture([
  { event: 'seen', distinct_id: 'u', properties: { $set: { plan: 'pro' } } },
  {
    event: '$groupidentify',
    distinct_id: 'u',
    properties: { $group_type: 'company', $group_key: 'acme', $group_set: {} },
  },
])

const bearer = { Authorization: `Bearer ${world.key()}` }

function ask(path: string, json: unknown, headers: Readonly<Record<string, string>> = bearer) {
  return world.ask(path, { json, headers })
}

t.test('one flag has a value, a reason, and its payload in the metadata', async (t) => {
  const context = { targetingKey: 'u' }
  const simple = await ask(`${ALL}/on`, { context })
  t.equal(simple.status, 200)
  t.strictSame(simple.body, {
    key: 'on',
    value: true,
    reason: 'TARGETING_MATCH',
    metadata: {
      flagId: on?.id,
      version: 2,
      reason: 'condition_match',
      conditionIndex: 0,
      payload: '{"a":1}',
    },
  })
  t.match((await ask(`${ALL}/many`, { context })).body, {
    value: 'test',
    variant: 'test',
    reason: 'SPLIT',
  })
  t.match((await ask(`${ALL}/many`, { context: { ...context, plan: 'free' } })).body, {
    value: false,
    reason: 'DEFAULT',
  })
  t.match((await ask(`${ALL}/inactive`, { context })).body, { value: false, reason: 'DISABLED' })
  await world.until(async () => {
    const $groups = { company: 'acme' }
    const { body } = await ask(`${ALL}/company`, { context: { ...context, $groups } })
    return body['value'] === true
  })
  t.match((await ask(`${ALL}/company`, { context })).body, { value: false })
})

t.test('refusals have the error codes of the protocol', async (t) => {
  const context = { targetingKey: 'u' }
  const cases: readonly (readonly [string, unknown, number, object])[] = [
    [`${ALL}/nothing`, { context }, 404, { key: 'nothing', errorCode: 'FLAG_NOT_FOUND' }],
    [`${ALL}/on`, {}, 400, { key: 'on', errorCode: 'INVALID_CONTEXT' }],
    [`${ALL}/on`, { context: 'u' }, 400, { key: 'on', errorCode: 'INVALID_CONTEXT' }],
    [`${ALL}/on`, { context: {} }, 400, { key: 'on', errorCode: 'TARGETING_KEY_MISSING' }],
    [
      `${ALL}/on`,
      { context: { targetingKey: {} } },
      400,
      { key: 'on', errorCode: 'INVALID_CONTEXT' },
    ],
    [`${ALL}/on`, { context: { ...context, $groups: 1 } }, 400, { errorCode: 'INVALID_CONTEXT' }],
    [`${ALL}/on`, [], 400, { errorCode: 'PARSE_ERROR' }],
    [ALL, { context: {} }, 400, { errorCode: 'TARGETING_KEY_MISSING' }],
    [`${ALL}/broken`, { context }, 500, { key: 'broken', errorCode: 'GENERAL' }],
  ]
  for (const [path, body, status, expected] of cases) {
    const answer = await ask(path, body)
    t.equal(answer.status, status, `${path} ${JSON.stringify(body)}`)
    t.match(answer.body, expected)
    t.type(answer.body['errorDetails'], 'string')
  }
  const broken = await world.ask(ALL, { method: 'POST', headers: bearer, body: '{' })
  t.equal(broken.status, 400)
  t.match(broken.body, { errorCode: 'PARSE_ERROR' })
  t.equal((await ask(ALL, { context }, {})).status, 401)
  t.equal((await ask(ALL, { context }, { 'X-API-Key': 'phc_none' })).status, 401)
  t.equal((await world.ask(ALL, { method: 'PUT', headers: bearer, body: '{}' })).status, 405)
})

t.test('all flags are returned at once, and not sent again while nothing changes', async (t) => {
  const json = { context: { targetingKey: 'u' } }
  const headers = { 'X-API-Key': world.key(), Origin: 'https://shop.example' }
  const first = await ask(ALL, json, headers)
  t.equal(first.status, 200)
  t.match(first.body, {
    flags: [
      { key: 'on', value: true },
      { key: 'many', value: 'test' },
      { key: 'company', value: false },
      { key: 'broken', errorCode: 'GENERAL' },
    ],
  })
  t.equal(first.headers['access-control-expose-headers'], 'ETag')
  t.equal(first.headers['access-control-allow-origin'], 'https://shop.example')
  const known = { ...headers, 'If-None-Match': String(first.headers.etag) }
  const again = await ask(ALL, json, known)
  t.equal(again.status, 304)
  t.equal(again.headers.etag, first.headers.etag)
  const other = await ask(ALL, { context: { targetingKey: 'u', plan: 'free' } }, known)
  t.equal(other.status, 200)
  t.not(other.headers.etag, first.headers.etag)
  const preflight = await send(`${world.url}${ALL}`, {
    method: 'OPTIONS',
    headers: { Origin: 'https://shop.example', 'Access-Control-Request-Headers': 'x-api-key' },
  })
  t.equal(preflight.status, 204)
  t.equal(preflight.headers['access-control-allow-headers'], 'x-api-key')
  const configuration = await world.ask('/ofrep/v1/configuration', { headers: bearer })
  t.match(configuration.body, { name: 'Tenrec', capabilities: {} })
})

t.test('the released provider returns the same decisions as other clients', async (t) => {
  const provider = new OFREPProvider({
    baseUrl: world.url,
    headers: [['Authorization', `Bearer ${world.key()}`]],
  })
  await OpenFeature.setProviderAndWait(provider)
  t.teardown(() => OpenFeature.close())
  const client = OpenFeature.getClient()
  const context = { targetingKey: 'u' }
  const details = await client.getBooleanDetails('on', false, context)
  t.match(details, {
    value: true,
    reason: 'TARGETING_MATCH',
    flagMetadata: { payload: '{"a":1}', version: 2 },
  })
  t.equal(await client.getStringValue('many', 'default', context), 'test')
  const free = { ...context, plan: 'free' }
  t.match(await client.getStringDetails('many', 'default', free), {
    value: 'default',
    errorCode: 'TYPE_MISMATCH',
  })
  t.match(await client.getBooleanDetails('nothing', true, context), {
    value: true,
    errorCode: 'FLAG_NOT_FOUND',
  })
  t.match(await client.getBooleanDetails('on', false, {}), {
    value: false,
    errorCode: 'TARGETING_KEY_MISSING',
  })
})
