/**
 * Takes the screenshots of the documents: `npm run screenshots`. A daemon in a temporary folder receives the example
 * month, Debian's Chromium opens the console, and docs/images/ receives one file for each page. The same sources give
 * the same numbers. Only the small rate chart on "Live" depends on the machine.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { startBrowser } from '../fixtures/browser.ts'
import { logIn } from '../fixtures/console.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import {
  type ExampleEvent,
  exampleMinute,
  exampleMonth,
  MONTH,
  MONTH_DAYS,
} from '../fixtures/example-month.ts'

const FOLDER = 'docs/images'
const BATCH_EVENTS = 500
/** The time at which "Live" is opened, according to its events. */
const LIVE_MS = Date.parse(`${MONTH}-${MONTH_DAYS}T14:02:11Z`)
const LIVE_STEP_MS = 100
/** Charts are drawn a moment after their numbers have arrived. */
const SETTLED_MS = 2000
const MINUTE_MS = 60_000
const IMAGE_BYTES_MAX = 200_000
const RANGE = `range=${MONTH}-01..${MONTH}-${MONTH_DAYS}`

/** A screenshot: its address, its color scheme, and the condition that shows that the page is ready. */
interface Picture {
  readonly name: string
  readonly path: string
  readonly colorScheme: 'light' | 'dark'
  readonly height: number
  prepare?(page: Page): Promise<void>
}

const FUNNEL = [{ event: '$pageview' }, { event: 'signed up' }, { event: 'purchase' }].map(
  (step) => `series=${encodeURIComponent(JSON.stringify(step))}`,
)

const FLAG = {
  key: 'new-checkout',
  name: 'Checkout on one page',
  active: true,
  tags: ['checkout'],
  filters: {
    groups: [
      {
        properties: [
          { key: 'plan', value: ['pro', 'team'], operator: 'exact', type: 'person' },
          { key: '$os', value: ['Windows', 'Linux'], operator: 'exact', type: 'person' },
        ],
        rollout_percentage: 100,
      },
      { properties: [], rollout_percentage: 20 },
    ],
    multivariate: {
      variants: [
        { key: 'control', rollout_percentage: 50 },
        { key: 'one-page', rollout_percentage: 50 },
      ],
    },
  },
}

const folder = mkdtempSync(join(tmpdir(), 'tenrec-screenshots-'))
const daemon = await spawnDaemon({ dataDir: join(folder, 'data') })
const browser = await startBrowser(['--hide-scrollbars', '--font-render-hinting=none'])
try {
  const events = exampleMonth()
  await sendEvents(events)
  // Visitors who are online now.
  const recent = exampleMinute(Date.now() - 2 * MINUTE_MS)
  await sendEvents(recent)
  const all = events.length + recent.length
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, all)
  await create('feature_flags', FLAG)
  const pictures: readonly Picture[] = [
    { name: 'web', path: `/p/1/web?${RANGE}`, colorScheme: 'light', height: 800 },
    {
      name: 'funnel',
      path: `/p/1/explore?way=funnel&${FUNNEL.join('&')}&${RANGE}`,
      colorScheme: 'light',
      height: 520,
    },
    { name: 'flag', path: '/p/1/flags/1', colorScheme: 'dark', height: 900 },
    {
      name: 'events',
      path: '/p/1/live',
      colorScheme: 'light',
      height: 700,
      async prepare(page) {
        for (const event of exampleMinute(LIVE_MS)) {
          await sendEvents([event])
          await page.waitForTimeout(LIVE_STEP_MS)
        }
      },
    },
  ]
  mkdirSync(FOLDER, { recursive: true })
  for (const picture of pictures) await take(picture)
} finally {
  await browser.close()
  await daemon.stop()
  closeConnections()
  rmSync(folder, { recursive: true, force: true })
}

async function take({ name, path, colorScheme, height, prepare }: Picture): Promise<void> {
  const context = await logIn(browser, daemon, PERSONAL_KEY, {
    viewport: { width: 1280, height },
    colorScheme,
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
  })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(String(error)))
  await page.goto(daemon.url + path)
  await page.waitForSelector('main')
  await prepare?.(page)
  await page.waitForSelector('.loading', { state: 'detached' })
  await page.waitForTimeout(SETTLED_MS)
  const file = join(FOLDER, `${name}.png`)
  await page.screenshot({ path: file })
  await context.close()
  const bytes = statSync(file).size
  process.stdout.write(`${file}: ${bytes.toLocaleString('en')} bytes\n`)
  if (faults.length > 0) throw new Error(`${path}: ${faults.join(', ')}`)
  if (bytes > IMAGE_BYTES_MAX) throw new Error(`${file} is larger than ${IMAGE_BYTES_MAX} bytes`)
}

async function sendEvents(events: readonly ExampleEvent[]): Promise<void> {
  for (let at = 0; at < events.length; at += BATCH_EVENTS) {
    const batch = events.slice(at, at + BATCH_EVENTS)
    const answer = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
    if (answer.status !== 200) throw new Error(`the events were answered ${answer.status}`)
  }
}

async function create(thing: string, value: object): Promise<void> {
  const answer = await send(`${daemon.url}/api/projects/1/${thing}/`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
    body: Buffer.from(JSON.stringify(value)),
  })
  if (answer.status !== 201) throw new Error(`${thing}: ${answer.status} ${answer.body.toString()}`)
}
