/**
 * The released posthog-js in Chromium, on a page of another origin, against the built daemon: gzip (the default), plain
 * JSON after a preflight request, and the beacon of a closing page. Every event is read back, and the browser reports
 * no errors.
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

/** The options of the SDK. The others keep their defaults. */
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

/** A request as it was sent over the network, and the status of its answer. */
interface Recorded {
  readonly method: string
  readonly path: string
  readonly type: string
  readonly isGzip: boolean
  readonly status: number
}

/**
 * A proxy that forwards everything to the daemon byte by byte and records it. The debugger of a browser shows neither
 * preflights nor the requests of a closing page.
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

/** One visitor, and the errors that the browser reported. */
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
      // Feature flags and remote configuration are tested elsewhere.
      advanced_disable_flags: true,
      // Otherwise a headless browser counts as a bot.
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

  /** Closes the page as a visitor does, so that it can send its last events. */
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

/** Returns the start time of a daemon process in milliseconds since 1970, accurate to the second. */
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
  t.equal(new Set(events.map(({ uuid }) => uuid)).size, events.length, 'no event is stored twice')
  const seenAtMs = Date.parse(pageview.timestamp)
  t.ok(seenAtMs >= daemonStartMs, 'the page was opened after the start of the daemon')
  t.ok(seenAtMs <= Date.parse(pageview.created_at), 'the page was opened before the event arrived')
}

/** Performs all actions of a visitor, checks the stored events, and returns the requests. */
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
  t.equal((await untilStored(source, 8)).length, 8, 'events that the SDK sends automatically')
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

  await t.test('default options: gzip, and a beacon when the page closes', async (t) => {
    const seen = await visitShop(t, browser, await start(t), {})
    for (const sent of seen) {
      t.match(
        sent,
        { method: 'POST', type: /^text\/plain/, isGzip: true },
        'no preflight request is needed',
      )
    }
    t.ok(seen.length >= 2 && seen.length < 9, `several events share one of ${seen.length} requests`)
  })

  await t.test(
    'without compression: JSON after a preflight request, base64 in the beacon',
    async (t) => {
      const seen = await visitShop(t, browser, await start(t), { disable_compression: true })
      const forms = seen.map(({ method, type }) => `${method} ${type.split(';')[0]}`)
      t.strictSame([...new Set(forms)].sort(), [
        'OPTIONS ',
        'POST application/json',
        'POST application/x-www-form-urlencoded',
      ])
      t.notOk(seen.some(({ isGzip }) => isGzip))
    },
  )
})
