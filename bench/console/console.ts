/**
 * Question: how soon does the console show its page and answer a click on a slow machine, and what do open consoles
 * cost clients that send events (open-consoles.ts)?
 * Workload: events of 90 days. Chromium, with its CPU slowed down four times through its own protocol, opens a chart,
 * then its numbers as a table of more than 1,000 rows, then the persons behind one of them.
 * Baseline: the same page without the slow-down.
 * Reconsider: drawing complete tables in parts, if an interaction takes more than 200 ms.
 */
import { existsSync } from 'node:fs'
import { type Browser, chromium, type Page } from 'playwright-core'
import { type Daemon, PERSONAL_KEY, PROJECT_KEY } from '../daemon.ts'
import { type Bench, type BenchContext, interleaved } from '../harness.ts'
import { median } from '../samples.ts'
import { measureOpenConsoles } from './open-consoles.ts'

export const CONSOLE: Bench = {
  name: 'console',
  group: 'operations',
  question: 'How soon does the console show its page, and what do open consoles cost senders?',
  workload:
    'Chromium at a quarter of its speed; 1,000 events/s beside five streams and polls of Health',
  isOnlyByName: true,
  needsDaemon: true,
  run: measure,
}

const CHROMIUM = process.env['TENREC_CHROMIUM'] || '/usr/bin/chromium'
const SLOW_DOWN = 4
const HOURS = 1080
const ROWS_MIN = 1000
const PAGE = '/p/1/explore?range=45d&interval=hour'
const LCP_MS_MAX = 1200
const INP_MS_MAX = 200

/** A script that records the largest paint and the longest interaction, as the browser reports them. */
const WATCH = `globalThis.lcpMs = 0; globalThis.inpMs = 0
new PerformanceObserver((list) => { for (const { startTime } of list.getEntries()) lcpMs = startTime })
  .observe({ type: 'largest-contentful-paint', buffered: true })
new PerformanceObserver((list) => {
  for (const { duration, interactionId } of list.getEntries())
    if (interactionId > 0) inpMs = Math.max(inpMs, duration)
}).observe({ type: 'event', durationThreshold: 16, buffered: true })`

interface Times {
  readonly lcpMs: number
  readonly inpMs: number
}

async function measure(context: BenchContext): Promise<void> {
  if (!existsSync(CHROMIUM)) throw new Error(`there is no ${CHROMIUM}; TENREC_CHROMIUM names one`)
  const daemon = await context.startDaemon()
  await fill(daemon)
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu'],
  })
  context.cleanUpWith(() => browser.close())
  const [slow = [], usual = []] = await interleaved(context.rounds(5), [
    () => visit(browser, daemon, SLOW_DOWN),
    () => visit(browser, daemon, 1),
  ])
  const state = (figure: string, of: (times: Times) => number, max: number) =>
    context.report({
      figure,
      value: median(slow.map(of)),
      unit: 'ms',
      baseline: median(usual.map(of)),
      target: { of: 'value', bound: 'at most', limit: max },
      note: `CPU slowed down ${SLOW_DOWN} times; baseline: the same without it`,
    })
  state('largest paint of the page', ({ lcpMs }) => lcpMs, LCP_MS_MAX)
  state(`longest interaction, ${ROWS_MIN} rows`, ({ inpMs }) => inpMs, INP_MS_MAX)
  await browser.close()
  await daemon.stop()
  await measureOpenConsoles(context)
}

/** Sends one event for each hour of the last 90 days. */
async function fill(daemon: Daemon): Promise<void> {
  const batch = Array.from({ length: HOURS }, (_, hour) => ({
    event: '$pageview',
    distinct_id: `person-${hour % 50}`,
    timestamp: new Date(Date.now() - hour * 3_600_000).toISOString(),
  }))
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
  const headers = { 'Content-Type': 'application/json' }
  const answer = await fetch(`${daemon.url}/batch/`, { method: 'POST', headers, body })
  if (!answer.ok) throw new Error(`the events were refused with ${answer.status}`)
  await daemon.drain()
}

/** Opens the page in a new window, presses the given buttons, and returns the recorded values. */
async function visit(browser: Browser, { url }: Daemon, rate: number): Promise<Times> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  const page = await context.newPage()
  await page.goto(url)
  await page.getByLabel('Personal API key').fill(PERSONAL_KEY)
  await page.keyboard.press('Enter')
  await page.locator('nav.rail').waitFor()
  const protocol = await context.newCDPSession(page)
  await protocol.send('Emulation.setCPUThrottlingRate', { rate })
  await page.addInitScript({ content: WATCH })
  await page.goto(url + PAGE)
  await page.locator('.plot svg').waitFor()
  await page.waitForTimeout(500)
  const lcpMs = Number(await page.evaluate('lcpMs'))
  await interact(page)
  const inpMs = Number(await page.evaluate('inpMs'))
  await context.close()
  if (lcpMs === 0 || inpMs === 0) throw new Error('the browser noted nothing')
  return { lcpMs, inpMs }
}

async function interact(page: Page): Promise<void> {
  const rows = page.locator('.chart tbody tr')
  await page.getByRole('button', { name: 'Table', exact: true }).click()
  await rows.nth(ROWS_MIN - 1).waitFor({ state: 'attached' })
  await rows.first().getByRole('button').click()
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Chart', exact: true }).click()
  await page.locator('.plot svg').waitFor()
  await page.waitForTimeout(500)
}
