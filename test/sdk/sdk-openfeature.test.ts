/**
 * OpenFeature's server SDK with its released provider for remote evaluation, against the built daemon. Decisions equal
 * those of other clients, with OpenFeature's types, reasons, defaults and error codes.
 *
 * @lane all
 */
import { OFREPApi } from '@openfeature/ofrep-core'
import { OFREPProvider } from '@openfeature/ofrep-provider'
import { type Client, type EvaluationContext, OpenFeature } from '@openfeature/server-sdk'
import t from 'tap'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import { requestOf, startShop } from '../fixtures/flags/sdk-flags.ts'
import { SHOP_USERS, type ShopUser } from '../fixtures/flags/shop-users.ts'

t.teardown(closeConnections)
t.setTimeout(300_000)

const shop = await startShop(t, 'some')
const baseUrl = shop.daemon.url
const authorised = { headers: [['Authorization', `Bearer ${PROJECT_KEY}`]] as [string, string][] }

/** The decisions of the daemon without OpenFeature. */
const expected = new Map(
  await Promise.all(
    SHOP_USERS.map(async (user) => [user, await shop.ask(requestOf(user, 'server'))] as const),
  ),
)

/** The person and the groups of a user, as an evaluation context of JSON values. */
function contextOf(user: ShopUser): EvaluationContext {
  const context = { ...user.overrides, targetingKey: user.id, $groups: { ...user.groups } }
  return context as EvaluationContext
}

/** A client of its own for each domain, because providers are global. */
async function openClient(
  domain: string,
  headers: [string, string][] = authorised.headers,
): Promise<Client> {
  await OpenFeature.setProviderAndWait(domain, new OFREPProvider({ baseUrl, headers }))
  return OpenFeature.getClient(domain)
}

t.teardown(() => OpenFeature.close())

t.test('flags of all users, requested at once, equal the decisions of the daemon', async (t) => {
  const api = new OFREPApi(baseUrl)
  const surprises: string[] = []
  for (const [user, { values, payloads }] of expected) {
    const answer = await api.postBulkEvaluateFlags({ context: contextOf(user) }, authorised)
    const { flags = [] } = answer.httpStatus === 200 ? answer.value : {}
    if (flags.length !== values.size) surprises.push(`${flags.length} flags of ${user.id}`)
    for (const flag of flags) {
      if (!('value' in flag)) {
        surprises.push(`${flag.key} of ${user.id}: ${flag.errorCode}`)
        continue
      }
      const { key = '', value, variant } = flag
      const wanted = values.get(key)
      const payload = (flag.metadata as { payload?: unknown } | undefined)?.payload
      const isPayload =
        payload === undefined ? !payloads.has(key) : isSame(payload, payloads.get(key))
      if (value !== wanted || (typeof wanted === 'string' && variant !== wanted) || !isPayload) {
        surprises.push(`${key} of ${user.id}: ${String(value)}, not ${String(wanted)}`)
      }
    }
  }
  t.strictSame(surprises.slice(0, 20), [], `${surprises.length} unexpected values`)
})

function isSame(text: unknown, value: unknown): boolean {
  return typeof text === 'string' && JSON.stringify(JSON.parse(text)) === JSON.stringify(value)
}

t.test('flags requested one by one have the decided value and type', async (t) => {
  const client = await openClient('one by one')
  const surprises: string[] = []
  const asked = new Set<string>()
  for (const [index, [user, { values }]] of [...expected].entries()) {
    const keys = [...values.keys()]
    // Each user gets another flag.
    const key = keys[index % keys.length] ?? ''
    const value = values.get(key)
    asked.add(key)
    const details =
      typeof value === 'string'
        ? await client.getStringDetails(key, 'default', contextOf(user))
        : await client.getBooleanDetails(key, value !== true, contextOf(user))
    if (details.value !== value || details.errorCode !== undefined) {
      surprises.push(`${key} of ${user.id}: ${details.value}, ${details.errorMessage}`)
    }
  }
  t.strictSame(surprises.slice(0, 20), [], `${surprises.length} unexpected values`)
  t.ok(asked.size >= 30, `${asked.size} flags`)
})

t.test('reasons, variants and payloads are returned', async (t) => {
  const client = await openClient('details')
  const context = { targetingKey: 'nobody known', plan: 'pro' }
  t.match(await client.getBooleanDetails('payload-text', false, context), {
    value: true,
    reason: 'TARGETING_MATCH',
    flagMetadata: { payload: '"text"', flagId: shop.id('payload-text'), version: 1 },
  })
  t.match(await client.getStringDetails('override-first', 'default', context), {
    value: 'third',
    variant: 'third',
    reason: 'SPLIT',
    flagMetadata: { reason: 'condition_match', conditionIndex: 0 },
  })
  t.match(await client.getBooleanDetails('nobody', true, context), {
    value: false,
    reason: 'DEFAULT',
    flagMetadata: { reason: 'out_of_rollout_bound' },
  })
  t.match(await client.getBooleanDetails('inactive', true, context), {
    value: false,
    reason: 'DISABLED',
  })
  t.match(await client.getBooleanDetails('company-key', false, context), { value: false })
  const $groups = { company: 'company-2' }
  t.match(await client.getBooleanDetails('company-key', false, { ...context, $groups }), {
    value: true,
    flagMetadata: { reason: 'condition_match' },
  })
})

t.test('without a value the default is returned, with the reason of the failure', async (t) => {
  const client = await openClient('failures')
  const context = { targetingKey: 'u' }
  const failures = [
    [await client.getBooleanDetails('nothing', true, context), true, 'FLAG_NOT_FOUND'],
    [await client.getStringDetails('größe', 'x', context), 'x', 'FLAG_NOT_FOUND'],
    [await client.getBooleanDetails('everyone', false, {}), false, 'TARGETING_KEY_MISSING'],
    [
      await client.getBooleanDetails('everyone', false, { targetingKey: '' }),
      false,
      'TARGETING_KEY_MISSING',
    ],
    [
      await client.getBooleanDetails('everyone', false, { ...context, $groups: 'x' }),
      false,
      'INVALID_CONTEXT',
    ],
    [await client.getStringDetails('everyone', 'x', context), 'x', 'TYPE_MISMATCH'],
    [await client.getBooleanDetails('variants', true, context), true, 'TYPE_MISMATCH'],
    [await client.getNumberDetails('payload-number', 3, context), 3, 'TYPE_MISMATCH'],
    [await client.getObjectDetails('payload-object', { a: 1 }, context), { a: 1 }, 'TYPE_MISMATCH'],
  ] as const
  for (const [details, value, errorCode] of failures) {
    t.strictSame(details.value, value, details.flagKey)
    t.match(details, { errorCode, reason: 'ERROR' }, details.flagKey)
  }
})

t.test('an invalid project key gets no value', async (t) => {
  for (const [index, headers] of [
    [['Authorization', 'Bearer phc_wrong']],
    [['X-API-Key', 'phx_wrong']],
    [],
  ].entries()) {
    const client = await openClient(`wrong key ${index}`, headers as [string, string][])
    const details = await client.getBooleanDetails('everyone', false, { targetingKey: 'u' })
    t.match(details, { value: false, reason: 'ERROR', errorCode: 'GENERAL' })
  }
})
