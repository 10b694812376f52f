/**
 * The released posthog-node 5 (`/flags/`) and 3 (`/decide/`) against the built daemon. Remote decisions, local
 * decisions of the SDKs and the answers of the daemon without an SDK are the same. Known differences are listed, and
 * the test fails if one of them does not occur any more.
 *
 * @lane all
 */
import { PostHog, type PostHogOptions } from 'posthog-node'
import { PostHog as PostHog3, type PostHogOptions as PostHogOptions3 } from 'posthog-node-3'
import t, { type Test } from 'tap'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { type StoredEvent, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import {
  type Difference,
  isAscii,
  isListed,
  VERSION_3_DIFFERS,
  VERSION_3_OPEN,
  VERSION_3_UNSURE,
  VERSION_5_DIFFERS,
  VERSION_5_OPEN,
  VERSION_5_UNSURE,
} from '../fixtures/flags/sdk-differences.ts'
import {
  type Decided,
  requestOf,
  type Shop,
  startShop,
  until,
} from '../fixtures/flags/sdk-flags.ts'
import type { FlagValue, ShopFlag } from '../fixtures/flags/shop-flags.ts'
import { SHOP_USERS, type ShopUser } from '../fixtures/flags/shop-users.ts'

/** The call of an SDK for one user, and its result. */
interface SdkOptions {
  readonly groups: Record<string, string>
  readonly personProperties: Record<string, string>
  readonly groupProperties?: Record<string, Record<string, string>>
  readonly onlyEvaluateLocally?: boolean
}

/** One answer of an SDK for one user. A flag without a decision has no value. */
interface Answer {
  readonly user: ShopUser
  readonly expected: Decided
  readonly values: Readonly<Record<string, FlagValue | undefined>>
  readonly payloads: Readonly<Record<string, unknown>>
}

const ANSWERS_MIN = 300 * 30
const ALL_AT_ONCE = 8

t.teardown(closeConnections)
t.setTimeout(300_000)

/** The SDKs log two things that are expected here: fallbacks to the server and deprecations. */
console.debug = () => {}
console.warn = () => {}

/** The types of the SDKs allow only strings. The SDKs send any JSON value. */
function remoteOptions(user: ShopUser): SdkOptions {
  return { groups: { ...user.groups }, personProperties: texts(user.overrides) }
}

function localOptions(user: ShopUser): SdkOptions {
  const groups = Object.entries(user.groupProperties)
  return {
    groups: { ...user.groups },
    personProperties: texts(user.properties),
    groupProperties: Object.fromEntries(groups.map(([type, value]) => [type, texts(value)])),
    onlyEvaluateLocally: true,
  }
}

function texts(properties: Readonly<Record<string, unknown>>): Record<string, string> {
  return properties as Record<string, string>
}

/** Requests the flags of all users, a few at a time. */
async function askForAll<T>(ask: (user: ShopUser) => Promise<T>): Promise<readonly T[]> {
  const results: T[] = []
  for (let start = 0; start < SHOP_USERS.length; start += ALL_AT_ONCE) {
    const users = SHOP_USERS.slice(start, start + ALL_AT_ONCE)
    results.push(...(await Promise.all(users.map(ask))))
    // Version 3 computes without a pause. Between users, connections need time to notice that they were closed.
    await new Promise((resolve) => setImmediate(resolve))
  }
  return results
}

/**
 * Compares all answers of an SDK with the expected ones. Every different or missing value must be in the list, and
 * every entry of the list must occur. Payloads are compared where the values are equal.
 */
function checkAnswers(
  t: Test,
  flags: readonly ShopFlag[],
  answers: readonly Answer[],
  listed: {
    readonly differing: readonly Difference[]
    readonly isOpen: (key: string, user: ShopUser) => boolean
  },
): void {
  const surprises: string[] = []
  const occurred = new Set<Difference>()
  let equalCount = 0
  for (const { user, expected, values, payloads } of answers) {
    for (const { key } of flags) {
      const value = values[key]
      const wanted = expected.values.get(key)
      const name = `${key} of ${user.id}: ${String(value)}, not ${String(wanted)}`
      if (value === undefined && wanted !== undefined) {
        if (!listed.isOpen(key, user)) surprises.push(name)
        continue
      }
      if (value === wanted) {
        equalCount++
        const payload = JSON.stringify(payloads[key])
        // Local evaluation omits a falsy payload.
        const wantedPayload = expected.payloads.get(key)
        if (
          payload !== JSON.stringify(wantedPayload) &&
          !(payload === undefined && !wantedPayload)
        ) {
          surprises.push(`${key} of ${user.id} has the payload ${payload}`)
        }
        continue
      }
      const known = listed.differing.filter((difference) => isListed([difference], key, user))
      for (const difference of known) occurred.add(difference)
      if (known.length === 0) surprises.push(name)
    }
  }
  t.strictSame(surprises.slice(0, 20), [], `${surprises.length} unexpected values`)
  t.strictSame(
    listed.differing.filter((difference) => !occurred.has(difference)),
    [],
    'all listed differences occur',
  )
  t.ok(equalCount >= ANSWERS_MIN, `${equalCount} equal answers`)
}

/** A client that records its requests, as `POST /flags/ 200`. */
function recording(): { requests: string[]; fetch: typeof fetch } {
  const requests: string[] = []
  return {
    requests,
    fetch: async (input, init) => {
      const answer = await fetch(input, init)
      requests.push(`${init?.method ?? 'GET'} ${new URL(String(input)).pathname} ${answer.status}`)
      return answer
    },
  }
}

const shop: Shop = await startShop(t, 'all')
const host = shop.daemon.url
const expected = await askForAll((user) => shop.ask(requestOf(user, 'server')))
const secret = String((await shop.api('POST', 'secret_keys/', { label: 'SDK' }))['value'])

/** Clients that are shut down with the test. */
function version5(t: Test, options: PostHogOptions = {}): PostHog {
  const client = new PostHog(PROJECT_KEY, { host, ...options })
  t.teardown(() => client.shutdown())
  return client
}

function version3(t: Test, options: PostHogOptions3 = {}): PostHog3 {
  const client = new PostHog3(PROJECT_KEY, { host, ...options })
  t.teardown(() => client.shutdownAsync())
  return client
}

/** Combines users, expected values and answers. */
function answersOf(given: readonly Pick<Answer, 'values' | 'payloads'>[]): readonly Answer[] {
  return given.map(({ values, payloads }, index) => {
    const user = SHOP_USERS[index]
    const wanted = expected[index]
    if (user === undefined || wanted === undefined) throw new Error('more answers than users')
    return { user, expected: wanted, values, payloads }
  })
}

function parsed(payloads: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> {
  const entries = Object.entries(payloads ?? {})
  return Object.fromEntries(entries.map(([key, text]) => [key, JSON.parse(String(text))]))
}

t.test('the test has enough users and flags, and all values occur', async (t) => {
  t.ok(SHOP_USERS.length >= 300)
  t.ok(SHOP_USERS.filter(isAscii).length >= 300)
  t.ok(shop.flags.length >= 30)
  const seen = new Set(
    expected.flatMap(({ values }) => [...values].map(([key, value]) => `${key} ${value}`)),
  )
  for (const key of [
    'half',
    'cohort',
    'cohort-static',
    'company-half',
    'depends-chain',
    'enrolled',
  ]) {
    t.ok(seen.has(`${key} true`) && seen.has(`${key} false`), key)
  }
  for (const variant of ['control', 'test', 'third']) t.ok(seen.has(`variants ${variant}`))
  const missing = shop.flags
    .filter(({ key }) => !expected[0]?.values.has(key))
    .map(({ key }) => key)
  t.strictSame(missing, ['inactive', 'client-only'])
})

t.test('posthog-node 5 returns the decisions of the daemon', async (t) => {
  const client = version5(t)
  const given = await askForAll(async (user) => {
    const { featureFlags, featureFlagPayloads } = await client.getAllFlagsAndPayloads(
      user.id,
      remoteOptions(user),
    )
    return { values: featureFlags ?? {}, payloads: featureFlagPayloads ?? {} }
  })
  checkAnswers(t, shop.flags, answersOf(given), { differing: [], isOpen: () => false })
})

t.test('posthog-node 3 returns the decisions of the daemon', async (t) => {
  const client = version3(t)
  const given = await askForAll(async (user) => {
    const { featureFlags, featureFlagPayloads } = await client.getAllFlagsAndPayloads(
      user.id,
      remoteOptions(user),
    )
    // It parses a payload only when that single payload is requested.
    return { values: featureFlags ?? {}, payloads: parsed(featureFlagPayloads) }
  })
  checkAnswers(t, shop.flags, answersOf(given), {
    differing: [
      {
        flags: ['client-only'],
        reason: 'its requests say nothing of a server, but Sec-Fetch-Mode',
      },
    ],
    isOpen: (key) => key === 'server-only',
  })
})

t.test('posthog-node 5 decides locally as the daemon does', async (t) => {
  const client = version5(t, { personalApiKey: PERSONAL_KEY })
  await client.waitForLocalEvaluationReady()
  const reasons = new Set<string>()
  const given = await askForAll(async (user) => {
    const all = await client.evaluateFlags(user.id, localOptions(user))
    const values: Record<string, FlagValue | undefined> = {}
    const payloads: Record<string, unknown> = {}
    for (const key of all.keys) {
      values[key] = all.getFlag(key, { sendFeatureFlagEvents: false })
      payloads[key] = all.getFlagPayload(key)
    }
    for (const [key, reason] of Object.entries(all.unresolvedFlags)) {
      if (!isListed(VERSION_5_UNSURE, key, user)) reasons.add(`${key}: ${reason}`)
    }
    return { values, payloads }
  })
  t.strictSame(
    [...reasons].sort(),
    [...VERSION_5_OPEN].map(([key, reason]) => `${key}: ${reason}`).sort(),
  )
  checkAnswers(t, shop.flags, answersOf(given), {
    differing: VERSION_5_DIFFERS,
    isOpen: (key, user) =>
      key === 'configured' || VERSION_5_OPEN.has(key) || isListed(VERSION_5_UNSURE, key, user),
  })
})

t.test('posthog-node 3 decides locally as the daemon does', async (t) => {
  const client = version3(t, { personalApiKey: PERSONAL_KEY })
  const given = await askForAll(async (user) => {
    const { featureFlags, featureFlagPayloads } = await client.getAllFlagsAndPayloads(
      user.id,
      localOptions(user),
    )
    return { values: featureFlags ?? {}, payloads: parsed(featureFlagPayloads) }
  })
  checkAnswers(t, shop.flags, answersOf(given), {
    differing: VERSION_3_DIFFERS,
    isOpen: (key, user) =>
      key === 'configured' || VERSION_3_OPEN.includes(key) || isListed(VERSION_3_UNSURE, key, user),
  })
})

t.test('only flags that cannot be decided locally are requested from the daemon', async (t) => {
  const { requests, fetch } = recording()
  const client = version5(t, { secretKey: secret, fetch })
  await client.waitForLocalEvaluationReady()
  t.strictSame(requests, ['GET /flags/definitions 200'], 'with the secret key of the project')
  const user = SHOP_USERS.findIndex(
    ({ isStored, groups }) => isStored && groups['company'] === 'company-1',
  )
  const { id, properties } = SHOP_USERS[user] ?? {}
  const options = { personProperties: texts(properties ?? {}) }
  const wanted = expected[user]?.values
  t.equal(await client.getFeatureFlag('variants', id ?? '', options), wanted?.get('variants'))
  t.equal(await client.isFeatureEnabled('exact', id ?? '', options), wanted?.get('exact'))
  t.equal(requests.length, 1)
  for (const key of ['cohort-static', 'continuity', 'between', 'configured']) {
    t.equal(await client.getFeatureFlag(key, id ?? '', options), wanted?.get(key), key)
  }
  t.strictSame(
    requests.slice(1),
    Array.from({ length: 4 }, () => 'POST /flags/ 200'),
  )
  const { keys } = await client.evaluateFlags(id ?? '', { ...options, flagKeys: ['depends-chain'] })
  t.strictSame(keys, ['depends-chain'])
  t.equal(await client.getFeatureFlag('nothing', id ?? ''), undefined)
})

t.test('payloads are the stored JSON, with local and remote evaluation', async (t) => {
  const user = expected.findIndex(
    ({ payloads }) => payloads.has('payload-object') && payloads.has('company-half'),
  )
  const known = SHOP_USERS[user]
  const payloads = expected[user]?.payloads
  if (known === undefined || payloads === undefined) throw new Error('nobody has both payloads')
  const keys = [
    'payload-object',
    'payload-text',
    'payload-number',
    'variants',
    'company-half',
    'exact',
  ]
  const clients: readonly (PostHog | PostHog3)[] = [
    version5(t),
    version5(t, { secretKey: secret }),
    version3(t),
    version3(t, { personalApiKey: PERSONAL_KEY }),
  ]
  for (const client of clients) {
    const { onlyEvaluateLocally, ...options } = localOptions(known)
    for (const key of keys) {
      const payload = await client.getFeatureFlagPayload(key, known.id, undefined, options)
      t.strictSame(payload ?? null, payloads.get(key) ?? null, key)
    }
  }
})

t.test('remote configuration is available with a personal key and with a secret key', async (t) => {
  for (const key of [PERSONAL_KEY, secret]) {
    const client = version5(t, { secretKey: key })
    t.strictSame(await client.getRemoteConfigPayload('configured'), { limit: 5 })
  }
})

t.test('definitions are not sent again until they change', async (t) => {
  const { requests, fetch } = recording()
  const options = { personalApiKey: PERSONAL_KEY, featureFlagsPollingInterval: 100, fetch }
  const client = version5(t, options)
  await client.waitForLocalEvaluationReady()
  const local = { onlyEvaluateLocally: true, sendFeatureFlagEvents: false }
  t.equal(await client.getFeatureFlag('nobody', 'u', local), false)
  await until(() => requests.length > 2)
  t.strictSame([...new Set(requests)], ['GET /flags/definitions 200', 'GET /flags/definitions 304'])
  t.equal(requests.filter((request) => request.endsWith(' 200')).length, 1)
  const path = `feature_flags/${shop.id('nobody')}/`
  await shop.api('PATCH', path, {
    filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
  })
  await until(async () => (await client.getFeatureFlag('nobody', 'u', local)) === true)
  t.equal(requests.filter((request) => request.endsWith(' 200')).length, 2)
  await shop.api('PATCH', path, {
    filters: { groups: [{ properties: [], rollout_percentage: 0 }] },
  })
})

t.test('an SDK with an invalid key reports it and uses the decisions of the daemon', async (t) => {
  const wrong = [
    () => version5(t, { personalApiKey: 'phx_wrong' }),
    () => version5(t, { secretKey: 'phs_wrong' }),
    () => version3(t, { personalApiKey: 'phx_wrong' }),
  ]
  for (const open of wrong) {
    const client = open()
    const failures: unknown[] = []
    client.on('error', (error) => failures.push(error))
    await until(() => failures.length > 0)
    t.match(
      String(failures[0]),
      /Your project key or secret key is invalid|Your personalApiKey is invalid/,
    )
    t.equal(await client.getFeatureFlag('everyone', 'u', { sendFeatureFlagEvents: false }), true)
  }
})

t.test('contexts exclude flags, with local and remote evaluation', async (t) => {
  for (const key of [undefined, PERSONAL_KEY]) {
    for (const [context, isOn] of [
      ['docs', true],
      ['app', undefined],
    ] as const) {
      const secretKey = key === undefined ? {} : { secretKey: key }
      const client = version5(t, { evaluationContexts: [context], ...secretKey })
      if (key !== undefined) await client.waitForLocalEvaluationReady()
      const flags = await client.getAllFlags('u')
      t.equal(flags['in-documents'], isOn)
      t.equal(flags['everyone'], true)
    }
  }
})

t.test(
  'the daemon records which flags were called and whether they were decided locally',
  async (t) => {
    const far = version5(t)
    const near = version5(t, { secretKey: secret })
    const old = version3(t)
    const variant = await far.getFeatureFlag('variants', 'caller of 5')
    await far.getFeatureFlag('variants', 'caller of 5')
    t.equal(
      await near.getFeatureFlag('variants', 'near caller of 5'),
      (await shop.ask({ distinct_id: 'near caller of 5' })).values.get('variants'),
    )
    await old.getFeatureFlag('variants', 'caller of 3')
    await Promise.all([far.shutdown(), near.shutdown(), old.shutdownAsync()])
    const source = { url: host, personalKey: PERSONAL_KEY }
    await untilStored(source, 1, 'distinct_id=caller%20of%205')
    const called = async (distinctId: string): Promise<StoredEvent> => {
      const events = await untilStored(source, 1, `distinct_id=${encodeURIComponent(distinctId)}`)
      const [event] = events.filter((candidate) => candidate.event === '$feature_flag_called')
      if (event === undefined || events.length > 1) throw new Error('not one event')
      return event
    }
    t.match((await called('caller of 5')).properties, {
      $feature_flag: 'variants',
      $feature_flag_response: variant,
      '$feature/variants': variant,
      $feature_flag_id: shop.id('variants'),
      $feature_flag_version: 1,
      $feature_flag_reason: 'Matched condition set 1',
      $feature_flag_request_id: /^[0-9a-f-]{36}$/,
      $feature_flag_evaluated_at: Number,
      $feature_flag_has_experiment: false,
      locally_evaluated: false,
    })
    t.match((await called('near caller of 5')).properties, {
      $feature_flag: 'variants',
      $feature_flag_id: shop.id('variants'),
      $feature_flag_reason: 'Evaluated locally',
      locally_evaluated: true,
    })
    t.match((await called('caller of 3')).properties, {
      $feature_flag: 'variants',
      $feature_flag_response: (await shop.ask({ distinct_id: 'caller of 3' })).values.get(
        'variants',
      ),
      locally_evaluated: false,
    })
  },
)
