/**
 * The released posthog-js in a real Chromium, on a page of another origin, against the built daemon:
 * gzip (its default), plain JSON behind a preflight, and the beacon that a closing page sends. Every
 * event is read back, and the browser complains about nothing.
 *
 * @lane browser
 */
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { launchBrowser, startSite } from '../../fixtures/browser.ts'
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type SpawnedDaemon,
  spawnDaemon,
} from '../../fixtures/daemon.ts'
import { type StoredEvent, untilStored } from '../../fixtures/event-pages.ts'
import { closeConnections } from '../../fixtures/exact-client.ts'

const SDK = readFileSync(fileURLToPath(import.meta.resolve('posthog-js/dist/array.full.js')))
const PAGE =
  '<!doctype html><title>Shop</title><body><h1>Shop</h1><script src="/sdk.js"></script></body>'

/** What the SDK is told; the rest is its default. */
interface SdkOptions {
  readonly disable_compression?: boolean
}

/** The part of the SDK's global object that the pages use. */
interface PostHogGlobal {
  init(key: string, options: Record<string, unknown>): void
  capture(event: string, properties?: Record<string, unknown>): void
  identify(distinctId: string, properties?: Record<string, unknown>): void
}

t.teardown(closeConnections)
t.setTimeout(300_000)

/** A request as it went over the wire, and the status of its answer. */
interface Recorded {
  readonly method: string
  readonly path: string
  readonly type: string
  readonly isGzip: boolean
  readonly status: number
}

/**
 * Passes everything on to the daemon, byte by byte, and notes it: a browser shows its debugger neither
 * preflights nor what a closing page sends.
 */
async function startRecorder(t: Test, target: string): Promise<{ url: string; seen: Recorded[] }> {
  const seen: Recorded[] = []
  const server = createServer((incoming, outgoing) => {
    const { method = '', url: path = '', headers } = incoming
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const body = Buffer.concat(chunks)
      const forwarded = request(`${target}${path}`, { method, headers }, (answer) => {
        const { statusCode: status = 0 } = answer
        const isGzip = body[0] === 0x1f && body[1] === 0x8b
        seen.push({ method, path, type: headers['content-type'] ?? '', isGzip, status })
        outgoing.writeHead(status, answer.headers)
        answer.pipe(outgoing)
      })
      forwarded.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

/** One visitor, and what his browser complained about. */
class Visit {
  readonly page: Page
  readonly complaints: string[] = []
  readonly #context: BrowserContext

  private constructor(context: BrowserContext, page: Page) {
    this.#context = context
    this.page = page
    page.on('console', (message) => {
      if (message.type() === 'error' || /CORS/i.test(message.text())) {
        this.complaints.push(`${message.type()}: ${message.text()}`)
      }
    })
    page.on('pageerror', (error) => this.complaints.push(String(error)))
    page.on('requestfailed', (request) => {
      this.complaints.push(`${request.url()}: ${request.failure()?.errorText ?? 'failed'}`)
    })
  }

  static async begin(browser: Browser, site: string, url: string, sdk: SdkOptions): Promise<Visit> {
    const context = await browser.newContext()
    const page = await context.newPage()
    const visit = new Visit(context, page)
    await page.goto(site)
    const options = {
      api_host: url,
      // Feature flags and remote configuration are asked for elsewhere.
      advanced_disable_flags: true,
      // Otherwise a headless browser counts as a robot.
      opt_out_useragent_filter: true,
      autocapture: false,
      disable_session_recording: true,
      disable_surveys: true,
      ...sdk,
    }
    await page.evaluate(
      ([key, settings]) => {
        const { posthog } = globalThis as unknown as { posthog: PostHogGlobal }
        posthog.init(key, settings)
      },
      [PROJECT_KEY, options] as const,
    )
    return visit
  }

  capture(event: string, properties: Record<string, unknown> = {}): Promise<void> {
    return this.page.evaluate(
      ([name, values]) => {
        const { posthog } = globalThis as unknown as { posthog: PostHogGlobal }
        posthog.capture(name, values)
      },
      [event, properties] as const,
    )
  }

  identify(distinctId: string, properties: Record<string, unknown>): Promise<void> {
    return this.page.evaluate(
      ([id, values]) => {
        const { posthog } = globalThis as unknown as { posthog: PostHogGlobal }
        posthog.identify(id, values)
      },
      [distinctId, properties] as const,
    )
  }

  /** Closes the page as a visitor does, so that it may send its last words. */
  async leave(): Promise<void> {
    await this.page.close({ runBeforeUnload: true })
    await new Promise((resolve) => setTimeout(resolve, 500))
  }

  async end(): Promise<void> {
    await this.#context.close()
  }
}

function only(events: readonly StoredEvent[], name: string): StoredEvent {
  const [event, ...others] = events.filter((candidate) => candidate.event === name)
  if (event === undefined || others.length > 0) {
    throw new Error(`${others.length + (event === undefined ? 0 : 1)} events ${name}`)
  }
  return event
}

/** When the process of a daemon started, in milliseconds since 1970; known to the second. */
async function startOf({ url }: SpawnedDaemon): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text()
  const [, seconds] = /^process_start_time_seconds (\d+)$/m.exec(page) ?? []
  return (Number(seconds) - 1) * 1000
}

function checkVisit(
  t: Test,
  events: readonly StoredEvent[],
  { site, daemonStartMs }: { readonly site: string; readonly daemonStartMs: number },
): void {
  const pageview = only(events, '$pageview')
  t.match(pageview.properties, {
    $current_url: site,
    title: 'Shop',
    $lib: 'web',
    $lib_version: '1.449.2',
    token: PROJECT_KEY,
  })
  const anonymous = pageview.distinct_id
  t.equal(pageview.properties['distinct_id'], anonymous)
  t.match(only(events, 'added to cart'), {
    distinct_id: anonymous,
    properties: { price: 12.5, name: 'größe 💻' },
  })
  const many = events.filter(({ event }) => event === 'in a batch')
  t.strictSame(
    many.map(({ properties }) => properties['index']),
    [0, 1, 2, 3, 4],
  )
  t.match(only(events, '$identify'), {
    distinct_id: 'visitor',
    properties: { $anon_distinct_id: anonymous, $set: { email: 'visitor@example.com' } },
  })
  t.match(only(events, 'last words'), { distinct_id: 'visitor', properties: { goodbye: true } })
  t.equal(new Set(events.map(({ uuid }) => uuid)).size, events.length, 'nothing twice')
  const seenAtMs = Date.parse(pageview.timestamp)
  t.ok(seenAtMs >= daemonStartMs, 'the page was seen after the daemon had started')
  t.ok(seenAtMs <= Date.parse(pageview.created_at), 'and before the event arrived')
}

/** Does everything that a visitor does, checks what was stored, and answers what was sent. */
async function visitShop(
  t: Test,
  browser: Browser,
  daemon: SpawnedDaemon,
  sdk: SdkOptions,
): Promise<readonly Recorded[]> {
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  const site = await startSite(t, PAGE, '/sdk.js', SDK)
  const recorder = await startRecorder(t, daemon.url)
  const visit = await Visit.begin(browser, site, recorder.url, sdk)
  t.teardown(() => visit.end())
  await visit.capture('added to cart', { price: 12.5, name: 'größe 💻' })
  for (let index = 0; index < 5; index++) await visit.capture('in a batch', { index })
  await visit.identify('visitor', { email: 'visitor@example.com' })
  t.equal((await untilStored(source, 8)).length, 8, 'sent without being asked')
  await visit.capture('last words', { goodbye: true })
  await visit.leave()
  await untilStored(source, 1, 'event=last%20words')
  checkVisit(t, await untilStored(source, 9), { site, daemonStartMs: await startOf(daemon) })
  t.strictSame(visit.complaints, [])
  for (const sent of recorder.seen) {
    t.match(sent, { path: /^\/(e|i\/v0\/e)\//, method: /^(POST|OPTIONS)$/, status: 200 })
  }
  return recorder.seen
}

t.test('posthog-js in Chromium', async (t) => {
  const browser = await launchBrowser(t)
  if (browser === null) return
  const start = async (t: Test): Promise<SpawnedDaemon> => {
    const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
    t.teardown(() => daemon.stop())
    return daemon
  }

  await t.test('as it comes: gzip, and a beacon when the page closes', async (t) => {
    const seen = await visitShop(t, browser, await start(t), {})
    for (const sent of seen) {
      t.match(sent, { method: 'POST', type: /^text\/plain/, isGzip: true }, 'without a preflight')
    }
    t.ok(seen.length >= 2 && seen.length < 9, `several events share one of ${seen.length} requests`)
  })

  await t.test('without compression: JSON behind a preflight, base64 in the beacon', async (t) => {
    const seen = await visitShop(t, browser, await start(t), { disable_compression: true })
    const forms = seen.map(({ method, type }) => `${method} ${type.split(';')[0]}`)
    t.strictSame([...new Set(forms)].sort(), [
      'OPTIONS ',
      'POST application/json',
      'POST application/x-www-form-urlencoded',
    ])
    t.notOk(seen.some(({ isGzip }) => isGzip))
  })
})
