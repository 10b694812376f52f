/**
 * posthog-js with its default options in Chromium, installed in every supported way: from the npm package, with
 * PostHog's `<script>` tag, and with its loader. The built daemon serves the files. The browser reports no errors, and
 * a first flag is available when the page is reloaded. Features that the project enables are captured, and visitors
 * without cookies are distinguished.
 *
 * @lane browser
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { launchBrowser, startSite } from '../../fixtures/browser.ts'
import { PERSONAL_KEY, type SpawnedDaemon, spawnDaemon } from '../../fixtures/daemon.ts'
import { type EventSource, untilStored } from '../../fixtures/event-pages.ts'
import { closeConnections, jsonOf, send } from '../../fixtures/exact-client.ts'
import type { PageGlobals } from '../../fixtures/flags/flag-page.ts'
import { until } from '../../fixtures/flags/sdk-flags.ts'

const USER_AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36'
const MODULE = readFileSync(fileURLToPath(import.meta.resolve('posthog-js/dist/module.mjs')))

/** How a page includes the SDK: the content of its head. */
interface Way {
  readonly name: string
  readonly head: (host: string, key: string, options: string) => string
}

/**
 * Does the same as PostHog's snippet, with three of the functions that a page may call early. Calls are kept in a list,
 * and `init` loads array.js from the host. The loaded script replaces the list and replays the calls.
 */
const STUB = `
  const list = (window.posthog = window.posthog || [])
  list._i = []
  list.__SV = 1
  list.init = (key, options, name) => {
    const script = document.createElement('script')
    script.crossOrigin = 'anonymous'
    script.async = true
    script.src = options.api_host.replace('.i.posthog.com', '-assets.i.posthog.com') + '/static/array.js'
    document.querySelector('script').before(script)
    for (const call of ['capture', 'identify', 'onFeatureFlags']) {
      list[call] = (...values) => list.push([call, ...values])
    }
    list.people = []
    list._i.push([key, options, name ?? 'posthog'])
  }`

const LOADER: Way = {
  name: 'the loader',
  head: (host, key, options) =>
    `<script src="${host}/static/loader.js" data-project-token="${key}" data-api-host="${host}" data-config='${options}'></script>`,
}

const WAYS: readonly Way[] = [
  {
    name: 'the npm package',
    head: (host, key, options) => `<script type="module">
      import posthog from '/sdk.mjs'
      window.posthog = posthog
      posthog.init('${key}', { api_host: '${host}', ...${options} })
    </script>`,
  },
  {
    name: "PostHog's snippet",
    head: (host, key, options) => `<script>${STUB}
      posthog.init('${key}', { api_host: '${host}', ...${options} })
      posthog.capture('called early')
    </script>`,
  },
  LOADER,
]

t.teardown(closeConnections)
t.setTimeout(300_000)

/** A site whose page has `head`. */
function startShop(t: Test, head: string): Promise<string> {
  const page = `<!doctype html><title>Shop</title><head>${head}</head><body><h1>Shop</h1><button>Buy</button></body>`
  return startSite(t, page, '/sdk.mjs', MODULE)
}

/** A visitor, all errors that the browser reports, and the requests that it sent to the daemon. */
class Visitor {
  readonly page: Page
  readonly said: string[] = []
  readonly answers: string[] = []
  readonly #context: BrowserContext

  private constructor(context: BrowserContext, page: Page, host: string) {
    this.#context = context
    this.page = page
    page.on('console', (message) => this.said.push(`${message.type()}: ${message.text()}`))
    page.on('pageerror', (error) => this.said.push(String(error)))
    page.on('requestfailed', (request) => {
      const reason = request.failure()?.errorText ?? 'failed'
      // Leaving a page cancels pending requests.
      if (reason !== 'net::ERR_ABORTED') this.said.push(`${request.url()}: ${reason}`)
    })
    page.on('response', (response) => {
      const { origin, pathname } = new URL(response.url())
      if (origin === host) this.answers.push(`${pathname} ${response.status()}`)
    })
  }

  static async come(
    browser: Browser,
    site: string,
    host: string,
    userAgent = USER_AGENT,
  ): Promise<Visitor> {
    const context = await browser.newContext({ userAgent })
    const visitor = new Visitor(context, await context.newPage(), host)
    await visitor.page.goto(site)
    return visitor
  }

  go(): Promise<void> {
    return this.#context.close()
  }

  flag(key: string): Promise<unknown> {
    return this.page.evaluate((key) => {
      const { posthog } = globalThis as unknown as PageGlobals
      return posthog.getFeatureFlag?.(key)
    }, key)
  }
}

/** A project of its own, and a function that changes it. */
async function makeProject(daemon: SpawnedDaemon, name: string) {
  const ask = async (method: string, path: string, json: object) => {
    const answer = await send(`${daemon.url}/api/projects/${path}`, {
      method,
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(json),
    })
    if (answer.status >= 300) throw new Error(answer.body.toString())
    return jsonOf(answer) as Readonly<Record<string, unknown>>
  }
  const { id: projectId, api_token: key } = await ask('POST', '', { name })
  const source: EventSource = {
    url: daemon.url,
    personalKey: PERSONAL_KEY,
    projectId: Number(projectId),
  }
  return { source, key: String(key), ask }
}

/** Visits the page, produces a pageview and a click, and receives the first flag when the page is reloaded. */
async function visit(t: Test, browser: Browser, daemon: SpawnedDaemon, way: Way): Promise<void> {
  const { source, key, ask } = await makeProject(daemon, way.name)
  const site = await startShop(t, way.head(daemon.url, key, '{}'))
  const visitor = await Visitor.come(browser, site, daemon.url)
  t.teardown(() => visitor.go())
  const [pageview] = await untilStored(source, 1, 'event=$pageview')
  t.match(pageview?.properties, { $current_url: site, $lib: 'web', $lib_version: '1.449.2' })
  if (way.name === "PostHog's snippet") await untilStored(source, 1, 'event=called%20early')
  t.notOk(
    visitor.answers.some((answer) => answer.startsWith('/flags/')),
    'there are no flags',
  )
  const filters = { groups: [{ properties: [], rollout_percentage: 100 }] }
  await ask('POST', `${source.projectId}/feature_flags/`, { key: 'first', filters })
  await visitor.page.reload()
  await until(async () => (await visitor.flag('first')) === true)
  await visitor.page.click('button')
  const [click] = await untilStored(source, 1, 'event=$autocapture')
  t.match(click, { properties: { $event_type: 'click' }, elements_chain: /^button.*text="Buy"/ })
  t.strictSame(visitor.said, [], 'the browser reports no errors')
  t.notOk(visitor.answers.some((answer) => /surveys|recorder|autocapture/.test(answer)))
  t.strictSame(
    visitor.answers.filter((answer) => !/ (200|304)$/.test(answer)),
    [],
  )
}

/** Checks that features enabled by the project are loaded and captured. */
async function throwSomething(t: Test, browser: Browser, daemon: SpawnedDaemon): Promise<void> {
  const { source, key, ask } = await makeProject(daemon, 'all on')
  const settings = {
    autocapture_opt_out: true,
    autocapture_exceptions_opt_in: true,
    autocapture_web_vitals_opt_in: true,
  }
  await ask('PATCH', `${source.projectId}/`, settings)
  const site = await startShop(t, LOADER.head(daemon.url, key, '{}'))
  const visitor = await Visitor.come(browser, site, daemon.url)
  t.teardown(() => visitor.go())
  const file = (name: string) => `/static/1.449.2/${name}.js 200`
  await until(async () => visitor.answers.includes(file('exception-autocapture')))
  await until(async () => visitor.answers.includes(file('web-vitals-with-attribution')))
  await visitor.page.click('button')
  await visitor.page.evaluate(() => {
    setTimeout(() => {
      throw new RangeError('out of stock')
    })
  })
  const [exception] = await untilStored(source, 1, 'event=$exception')
  t.match(exception?.properties, {
    $exception_list: [{ type: 'RangeError', value: 'out of stock' }],
  })
  const vitals = await untilStored(source, 1, 'event=$web_vitals')
  t.match(Object.keys(vitals[0]?.properties ?? {}).join(), /\$web_vitals_(FCP|LCP|INP|CLS)_value/)
  t.strictSame(await untilStored(source, 0, 'event=$autocapture'), [], 'clicks are not captured')
  t.match(visitor.said.join('\n'), /^RangeError: out of stock$/, 'nothing else is captured')
}

/** Two visitors without cookies. One of them reloads the page. */
async function visitWithoutCookies(
  t: Test,
  browser: Browser,
  daemon: SpawnedDaemon,
): Promise<void> {
  const { source, key } = await makeProject(daemon, 'without cookies')
  const options = '{"cookieless_mode":"always"}'
  const site = await startShop(t, LOADER.head(daemon.url, key, options))
  const first = await Visitor.come(browser, site, daemon.url)
  t.teardown(() => first.go())
  await untilStored(source, 1, 'event=$pageview')
  await first.page.reload()
  await untilStored(source, 2, 'event=$pageview')
  const second = await Visitor.come(browser, site, daemon.url, `${USER_AGENT} Second/1.0`)
  t.teardown(() => second.go())
  const pageviews = await untilStored(source, 3, 'event=$pageview')
  const [one, again, other] = pageviews.map(({ distinct_id: id }) => id)
  t.match(one, /^cookieless_/)
  t.equal(again, one, 'it is the same visitor')
  t.match(other, /^cookieless_/)
  t.not(other, one, 'another visitor')
  for (const { properties, person_mode: mode } of pageviews) {
    t.equal(mode, 'propertyless')
    t.match(properties, { $cookieless_mode: true, $session_id: /-7/, $host: new URL(site).host })
    t.notOk('$ip' in properties || '$raw_user_agent' in properties)
  }
  t.strictSame([...first.said, ...second.said], [])
}

t.test('posthog-js in Chromium with its default options', async (t) => {
  // The SDK treats a browser that reports automation as a bot and sends nothing.
  const browser = await launchBrowser(t, ['--disable-blink-features=AutomationControlled'])
  if (browser === null) return
  const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
  t.teardown(() => daemon.stop())
  const tests = WAYS.map((way) => t.test(way.name, (t) => visit(t, browser, daemon, way)))
  await Promise.all(tests)
  await t.test('exceptions and web vitals are captured if the project enables them', (t) =>
    throwSomething(t, browser, daemon),
  )
  await t.test('visitors without cookies are distinguished', (t) =>
    visitWithoutCookies(t, browser, daemon),
  )
})
