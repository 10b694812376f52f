/**
 * Browser SDKs and flags, against the built daemon. The current posthog-js (`/flags/`, remote configuration) and an
 * older release (`/decide/`) run in Chromium on a page of another origin. posthog-js-lite runs in Node. Through each
 * SDK, every user gets the decisions of the daemon. Changes that a page makes (properties, groups, login, reloading
 * flags) have the documented effect.
 *
 * @lane browser
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'
import { PostHog as PostHogLite } from 'posthog-js-lite'
import t, { type Test } from 'tap'
import { launchBrowser, startSite } from '../../fixtures/browser.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../../fixtures/daemon.ts'
import { untilStored } from '../../fixtures/event-pages.ts'
import { closeConnections } from '../../fixtures/exact-client.ts'
import {
  PAGE,
  type PageGlobals,
  type Shown,
  showAll,
  Visit,
} from '../../fixtures/flags/flag-page.ts'
import {
  type Decided,
  requestOf,
  type Shop,
  startShop,
  until,
} from '../../fixtures/flags/sdk-flags.ts'
import type { FlagValue } from '../../fixtures/flags/shop-flags.ts'
import { SHOP_USERS, type ShopUser } from '../../fixtures/flags/shop-users.ts'

/** A release of posthog-js. */
interface Release {
  readonly name: string
  readonly script: string
  /** The route from which it requests flags. */
  readonly flagsPath: string
  /**
   * Whether it loads remote configuration, sends its device ID, and delays its first request when flags are
   * bootstrapped.
   */
  readonly isCurrent: boolean
}

const RELEASES: readonly Release[] = [
  {
    name: 'posthog-js',
    script: fileURLToPath(import.meta.resolve('posthog-js/dist/array.full.js')),
    flagsPath: '/flags/',
    isCurrent: true,
  },
  {
    name: 'posthog-js 1.150',
    script: fileURLToPath(import.meta.resolve('posthog-js-1.150/dist/array.full.js')),
    flagsPath: '/decide/',
    isCurrent: false,
  },
]

t.teardown(closeConnections)
t.setTimeout(300_000)

const shop: Shop = await startShop(t, 'some')
const host = shop.daemon.url
const source = { url: host, personalKey: PERSONAL_KEY }

/** Returns the differences between the flags of a user in an SDK and the decisions of the daemon. */
function surprisesOf(
  user: ShopUser,
  { values, payloads }: Shown,
  expected: Decided,
): readonly string[] {
  const surprises: string[] = []
  for (const { key } of shop.flags) {
    const wanted = expected.values.get(key)
    const wantedPayload = JSON.stringify(expected.payloads.get(key) ?? null)
    const payload = JSON.stringify(payloads[key] ?? null)
    if (values[key] !== wanted)
      surprises.push(`${key} of ${user.id}: ${values[key]}, not ${wanted}`)
    else if (payload !== wantedPayload) surprises.push(`payload ${key} of ${user.id}: ${payload}`)
  }
  return surprises
}

const expected = new Map(
  await Promise.all(
    SHOP_USERS.map(async (user) => [user, await shop.ask(requestOf(user, 'client'))] as const),
  ),
)

t.test('posthog-js-lite shows all users the decisions of the daemon', async (t) => {
  const surprises: string[] = []
  const failures: unknown[] = []
  for (const [user, wanted] of expected) {
    const client = openLite(user.id, failures)
    client.setPersonPropertiesForFlags(user.overrides as never, false)
    client.register({ $groups: user.groups })
    // False, because the id was identified earlier.
    const values = (await client.reloadFeatureFlagsAsync(false)) ?? {}
    const payloads = client.getFeatureFlagPayloads() ?? {}
    surprises.push(...surprisesOf(user, { values, payloads }, wanted))
  }
  t.strictSame(failures, [])
  t.strictSame(surprises.slice(0, 20), [], `${surprises.length} unexpected values`)
})

function openLite(distinctId: string | null, failures: unknown[]): PostHogLite {
  const client = new PostHogLite(PROJECT_KEY, {
    host,
    persistence: 'memory',
    preloadFeatureFlags: false,
    ...(distinctId === null ? {} : { bootstrap: { distinctId, isIdentifiedId: true } }),
  })
  client.on('error', (error) => failures.push(error))
  return client
}

t.test('posthog-js-lite loads flags again when the properties of its user change', async (t) => {
  const failures: unknown[] = []
  const client = openLite(null, failures)
  t.teardown(() => client.shutdown())
  const loads: Record<string, FlagValue>[] = []
  client.onFeatureFlags((flags) => loads.push({ ...flags }))
  const change = async (action: () => void): Promise<Record<string, FlagValue>> => {
    const before = loads.length
    action()
    await until(() => loads.length > before)
    return loads.at(-1) ?? {}
  }
  const first = await change(() => client.reloadFeatureFlags())
  const anonymous = client.getDistinctId()
  const wanted = await shop.ask({ distinct_id: anonymous, evaluation_runtime: 'client' })
  t.equal(first['variants'], wanted.values.get('variants'))
  t.strictSame(client.getFeatureFlagPayload('variants'), wanted.payloads.get('variants'))
  t.equal(client.isFeatureEnabled('exact'), false)
  t.equal((await change(() => client.setPersonPropertiesForFlags({ plan: 'pro' })))['exact'], true)
  t.equal((await change(() => client.group('company', 'company-2')))['company-key'], true)
  client.capture('in the shop')
  await client.flush()
  await untilStored(source, 1, `distinct_id=${anonymous}&event=in%20the%20shop`)
  const visitor = await visitorUnlike(anonymous, 'lite')
  const known = await change(() => client.identify(visitor))
  t.equal(known['continuity'], wanted.values.get('continuity'))
  t.equal(
    client.getFeatureFlag('variants'),
    (await shop.ask({ distinct_id: visitor })).values.get('variants'),
  )
  await client.flush()
  const called = await untilStored(source, 1, `distinct_id=${visitor}&event=%24feature_flag_called`)
  t.match(called[0]?.properties, { $feature_flag: 'variants', $lib: 'js', $lib_version: '4.12.1' })
  t.strictSame(failures, [])
})

/** Returns an id for which the flag with continuity has another value than for the given id. */
async function visitorUnlike(anonymous: string, name: string): Promise<string> {
  const other = (await shop.ask({ distinct_id: anonymous })).values.get('continuity')
  for (let number = 0; number < 100; number++) {
    const id = `visitor ${name} ${number}`
    if ((await shop.ask({ distinct_id: id })).values.get('continuity') !== other) return id
  }
  throw new Error('all visitors are alike')
}

/** Returns the ids that a release can send. */
t.test('posthog-js in Chromium', async (t) => {
  const browser = await launchBrowser(t)
  if (browser === null) return
  for (const release of RELEASES) await testRelease(t, browser, release)
})

async function testRelease(t: Test, browser: Browser, release: Release): Promise<void> {
  const { name, flagsPath, isCurrent } = release
  const place = {
    browser,
    site: await startSite(t, PAGE, '/sdk.js', readFileSync(release.script)),
    host,
  }

  await t.test(`${name} shows all users the decisions of the daemon`, async (t) => {
    const visit = await Visit.begin(t, place)
    await visit.loaded()
    const users = SHOP_USERS
    const withPayload = shop.flags.filter(({ filters }) => filters['payloads'] !== undefined)
    const keys = [...withPayload.map(({ key }) => key), 'half', 'exact']
    const shown = await showAll(visit.page, users, keys)
    const surprises = users.flatMap((user, index) => {
      const wanted = expected.get(user)
      if (wanted === undefined) throw new Error(`nothing is expected for ${user.id}`)
      return surprisesOf(user, shown[index] ?? { values: {}, payloads: {} }, wanted)
    })
    t.ok(users.length >= 300)
    t.strictSame(surprises.slice(0, 20), [], `${surprises.length} unexpected values`)
    t.strictSame(visit.complaints, [])
    const flagAnswers = visit.answers.filter((answer) => answer === `${flagsPath} 200`)
    t.equal(flagAnswers.length, users.length + 1)
    const config = `/array/${PROJECT_KEY}/config.js 200`
    t.equal(visit.answers.includes(config), isCurrent)
  })

  await t.test(
    `${name} reports its flags to the page, and reports them again when they change`,
    async (t) => {
      const visit = await Visit.begin(t, place)
      await visit.loaded()
      const anonymous = await visit.distinctId()
      const { values, payloads } = await shop.ask({
        distinct_id: anonymous,
        evaluation_runtime: 'client',
        // The device ID is the anonymous id.
        ...(isCurrent ? { $device_id: anonymous } : {}),
      })
      const on = [...values].filter(([, value]) => value !== false)
      const load = await visit.firstLoad()
      t.strictSame([...load.keys].sort(), on.map(([key]) => key).sort(), 'keys of the callback')
      t.strictSame(load.variants, Object.fromEntries(on), 'values of the callback')
      t.equal(await visit.flag('variants'), values.get('variants'))
      const shown = await visit.page.evaluate(() => {
        const { posthog } = globalThis as unknown as PageGlobals
        return [
          posthog.isFeatureEnabled('everyone'),
          posthog.isFeatureEnabled('nobody'),
          posthog.getFeatureFlagPayload('variants'),
          posthog.getFeatureFlagPayload('payload-text'),
        ]
      })
      t.strictSame(shown, [true, false, payloads.get('variants'), 'text'])

      await visit.change(() => visit.call('setPersonPropertiesForFlags', { plan: 'pro' }))
      t.equal(await visit.flag('exact'), true, 'a property of the person')
      t.equal(await visit.flag('company-key'), false)
      await visit.change(() => visit.call('group', 'company', 'company-2'))
      t.equal(await visit.flag('company-key'), true, 'a group')

      const path = `feature_flags/${shop.id('nobody')}/`
      const rollout = (rollout_percentage: number) => ({
        filters: { groups: [{ properties: [], rollout_percentage }] },
      })
      await shop.api('PATCH', path, rollout(100))
      await visit.change(() => visit.call('reloadFeatureFlags'))
      t.equal(await visit.flag('nobody'), true, 'a changed flag')
      await shop.api('PATCH', path, rollout(0))

      const called = await untilStored(
        source,
        1,
        `event=%24feature_flag_called&distinct_id=${anonymous}`,
      )
      const variants = called.find(({ properties }) => properties['$feature_flag'] === 'variants')
      t.match(variants?.properties, {
        $feature_flag_response: values.get('variants'),
        $lib: 'web',
        ...(isCurrent
          ? {
              $feature_flag_id: shop.id('variants'),
              $feature_flag_version: 1,
              $feature_flag_reason: 'Matched condition set 1',
            }
          : {}),
      })
      t.strictSame(visit.complaints, [])
    },
  )

  await t.test(`${name} keeps the flags with continuity of a visitor after login`, async (t) => {
    const visit = await Visit.begin(t, place, { person_profiles: 'always' })
    await visit.loaded()
    const anonymous = await visit.distinctId()
    const before = await visit.flag('continuity')
    await visit.call('capture', 'in the shop')
    await untilStored(source, 1, `event=in%20the%20shop&distinct_id=${anonymous}`)
    const visitor = await visitorUnlike(anonymous, name)
    await visit.change(() => visit.call('identify', visitor))
    t.equal(await visit.distinctId(), visitor)
    t.equal(await visit.flag('continuity'), before, 'the value is the same as before login')
    const { values } = await shop.ask({ distinct_id: visitor })
    t.equal(
      await visit.flag('variants'),
      values.get('variants'),
      'the value is the one of the new id',
    )
    await untilStored(source, 1, `event=%24identify&distinct_id=${encodeURIComponent(visitor)}`)
    const kept = async () => (await shop.ask({ distinct_id: visitor })).values.get('continuity')
    await until(async () => (await kept()) === before)
    await visit.change(() => visit.call('reloadFeatureFlags'))
    t.equal(await visit.flag('continuity'), before, 'the value stays the same')
    t.strictSame(visit.complaints, [])
  })

  await t.test(`${name} has bootstrapped flags before the first answer`, async (t) => {
    const { values, payloads } = await shop.ask({
      distinct_id: 'bootstrapped',
      evaluation_runtime: 'client',
    })
    const visit = await Visit.begin(t, place, {
      bootstrap: {
        distinctID: 'bootstrapped',
        isIdentifiedID: true,
        // A value that only the page can have, so that the two sources can be distinguished.
        featureFlags: { ...Object.fromEntries(values), nobody: true },
        featureFlagPayloads: Object.fromEntries(payloads),
      },
    })
    await visit.loaded()
    t.strictSame((await visit.firstLoad()).variants['variants'], values.get('variants'))
    t.equal((await visit.firstLoad()).variants['nobody'], true)
    if (isCurrent) t.notOk(visit.answers.includes(`${flagsPath} 200`), 'nothing was asked')
    await visit.call('reloadFeatureFlags')
    await until(async () => (await visit.flag('nobody')) === false)
    t.equal(await visit.flag('variants'), values.get('variants'))
    t.strictSame(visit.complaints, [])
  })

  if (isCurrent) {
    await t.test(`${name} does not request flags for a project without flags`, async (t) => {
      const project = await shop.api('POST', '../../projects/', { name: 'Without flags' })
      const key = String(project['api_token'])
      const visit = await Visit.begin(t, place, {}, key)
      await visit.call('capture', 'in the shop')
      await until(() =>
        visit.answers.some((answer) => answer.startsWith('/e/') || answer.startsWith('/i/v0/e/')),
      )
      t.strictSame(visit.answers.slice(0, 1), [`/array/${key}/config.js 200`])
      t.notOk(visit.answers.some((answer) => answer.startsWith('/flags/')))
      t.strictSame(visit.complaints, [])
    })
  }
}
