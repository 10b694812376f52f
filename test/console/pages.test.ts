/**
 * Every page of the console in Chromium: no console errors, no accessibility violations (axe), and names shown as text.
 * Each page is tested in light and dark mode, on a wide window and on a phone.
 *
 * @lane browser
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import type { Route } from 'playwright-core'
import t from 'tap'
import { type ConsoleWindow, openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject, STRANGE } from '../fixtures/console-data.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const WIDTHS = [1280, 320]
/** The page, styles and scripts, without the icon and without the answers to queries. */
const REQUESTS_MAX = 4
const COLORS = ['light', 'dark'] as const

const { daemon, browser } = await startConsole(t)
const made = await fillProject(daemon)
const holdout = await askApi<{ id: number }>(daemon, 'POST', 'projects/1/experiment_holdouts/', {
  name: STRANGE[0],
  description: STRANGE[1],
  filters: [{ rollout_percentage: 5 }],
})
const FUNNEL = { metric_type: 'funnel', series: [{ kind: 'EventsNode', event: '$pageview' }] }
const savedMetric = await askApi<{ id: number }>(
  daemon,
  'POST',
  'projects/1/experiment_saved_metrics/',
  { name: STRANGE[0], description: STRANGE[1], query: FUNNEL },
)
const experiment = await askApi<{ id: number }>(daemon, 'POST', 'projects/1/experiments/', {
  name: STRANGE[0],
  description: STRANGE[1],
  feature_flag_key: 'checkout',
  holdout_id: holdout.id,
  start_date: '2026-01-01T00:00:00Z',
  metrics: [FUNNEL],
  saved_metrics_ids: [{ id: savedMetric.id, metadata: { type: 'secondary' } }],
})

const CARD = 'main .card'
/** All pages, with the element that shows that each one is ready, and the parts that are opened on them. */
const VIEWS: readonly (readonly [path: string, shown?: string, press?: string])[] = [
  ['/p/1/setup', '.ticks'],
  ['/p/1/web', '.tile-number'],
  ['/p/1/web', 'dialog form', 'Share'],
  ['/p/1/live', '.badge'],
  ['/p/1/live?tab=past', 'main tbody tr'],
  ['/p/1/live?tab=lost', CARD],
  ['/p/1/explore', '.plot svg'],
  ['/p/1/explore?by=event:plan&compare=1', '.plot svg'],
  ['/p/1/explore?way=funnel', '.funnel'],
  ['/p/1/explore?way=retention', '.heat'],
  ['/p/1/explore?way=paths', '.sankey'],
  ['/p/1/explore?way=lifecycle', '.plot svg'],
  ['/p/1/explore?way=stickiness', '.plot svg'],
  ['/p/1/dashboards', 'main tbody tr'],
  [`/p/1/dashboards/${made.dashboard}`, '.plot svg'],
  ['/p/1/persons', 'main tbody tr'],
  [`/p/1/persons/${made.person}`, 'main .facts'],
  ['/p/1/groups', 'main tbody tr'],
  [`/p/1/groups/0/${encodeURIComponent(STRANGE[0] ?? '')}`, '.tile-number'],
  ['/p/9/web', 'main .card'],
  ['/p/1/flags', 'main tbody tr'],
  ['/p/1/flags', 'dialog form', 'New flag'],
  [`/p/1/flags/${made.flag}`, 'main .rule'],
  [`/p/1/flags/${made.flag}?tab=edit`, 'main .condition'],
  [`/p/1/flags/${made.flag}?tab=explain&who=person-1`, 'main ol'],
  [`/p/1/flags/${made.flag}?tab=usage`, CARD],
  [`/p/1/flags/${made.flag}?tab=history`, 'main .history'],
  ['/p/1/experiments', 'main tbody tr'],
  ['/p/1/experiments', 'dialog form', 'New experiment'],
  ['/p/1/experiments/holdouts', 'main tbody tr'],
  ['/p/1/experiments/holdouts', 'dialog form', 'New holdout'],
  ['/p/1/experiments/metrics', 'main tbody tr'],
  ['/p/1/experiments/metrics', 'dialog form', 'New saved metric'],
  [`/p/1/experiments/${experiment.id}`, 'main .verdict'],
  [`/p/1/experiments/${experiment.id}`, 'dialog form', 'Ship a variant'],
  ['/p/1/cohorts', 'main tbody tr'],
  ['/p/1/cohorts', 'dialog form', 'New cohort'],
  [`/p/1/cohorts?id=${made.cohort}`, 'dialog form'],
  ['/access', 'main tbody tr'],
  ['/access', 'dialog form', 'New key'],
  ['/access?tab=secret', CARD],
  ['/access?tab=people', 'main tbody tr'],
  ['/access?tab=roles', CARD],
  ['/access?tab=sessions', 'main tbody tr'],
  ['/audit', 'main tbody tr'],
  ['/health', CARD],
  ['/p/1/settings', 'main form'],
  ['/p/1/web', 'dialog .hit', 'Search'],
]

/** Returns the elements that make a page wider than its window. */
const TOO_WIDE = `document.documentElement.scrollWidth <= innerWidth ? [] :
  ['the page', ...[...document.querySelectorAll('main *')]
    .filter((one) => one.getBoundingClientRect().right > innerWidth)
    .map((one) => one.outerHTML.slice(0, 100))]`

/** Returns the accessibility violations that axe finds, as `rule: element`. */
async function barriers({ page }: ConsoleWindow): Promise<readonly string[]> {
  const { violations } = (await page.evaluate(
    `axe.run(document, { resultTypes: ['violations'] })`,
  )) as AxeResults
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 150)}`))
}

/** Opens a window in which axe is loaded. */
async function openWithAxe(key?: null): Promise<ConsoleWindow | null> {
  if (browser === null) return null
  const window = await openWindow(browser, {
    url: daemon.url,
    ...(key === undefined ? {} : { key }),
  })
  await window.page.addInitScript({ content: AXE })
  return window
}

const window = await openWithAxe()
if (window !== null) {
  const { page } = window
  for (const [path, shown = 'main', press] of VIEWS) {
    t.test(`${path} ${press ?? ''}`, async (t) => {
      await page.emulateMedia({ colorScheme: 'light' })
      await page.setViewportSize({ width: 1280, height: 900 })
      await window.open(path)
      if (press !== undefined) await page.getByRole('button', { name: press }).first().click()
      await page.locator(shown).first().waitFor()
      await window.settled()
      const text = await page.locator('main').innerText()
      t.notMatch(text, /undefined|\[object|NaN/, 'the text has no missing values')
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 })
        for (const colorScheme of COLORS) {
          await page.emulateMedia({ colorScheme })
          t.strictSame(await barriers(window), [], `${width} px, ${colorScheme}`)
        }
        t.strictSame(await page.evaluate(TOO_WIDE), [], `fits into ${width} px`)
      }
      const foreign = page.locator('main img, main script, main a[href^="javascript" i]')
      t.equal(await foreign.count(), 0, 'no markup from event data')
      t.equal(await page.evaluate('globalThis.isHit'), undefined)
      window.isSilent(t)
    })
  }

  t.test('every name is shown as text', async (t) => {
    const experimentPage = `experiments/${experiment.id}`
    const lists = ['persons', 'groups', 'flags', 'cohorts', 'dashboards']
    for (const view of [
      ...lists,
      `persons/${made.person}`,
      experimentPage,
      'experiments/holdouts',
      'experiments/metrics',
    ]) {
      await window.open(`/p/1/${view}`)
      await page.locator('main tbody tr').first().waitFor()
      await window.settled()
      const text = await page.locator('main').innerText()
      for (const name of view.includes('/') ? STRANGE.slice(0, 1) : STRANGE)
        t.ok(text.includes(name), `${view} has ${name}`)
    }
    t.equal(await page.evaluate('globalThis.isHit'), undefined)
    window.isSilent(t)
  })
}

t.test('the login page has no accessibility violations', async (t) => {
  const login = await openWithAxe(null)
  if (login === null) return
  await login.open('/')
  for (const width of WIDTHS) {
    await login.page.setViewportSize({ width, height: 900 })
    for (const colorScheme of COLORS) {
      await login.page.emulateMedia({ colorScheme })
      t.strictSame(await barriers(login), [], `${width} px, ${colorScheme}`)
    }
  }
  login.isSilent(t)
})

t.test('a chosen dark mode applies before the first paint', async (t) => {
  if (browser === null) return
  const dark = await openWindow(browser, { url: daemon.url, colorScheme: 'light' })
  // A page of the same origin that is not part of the console.
  await dark.page.goto(`${daemon.url}/robots.txt`)
  await dark.page.evaluate(`localStorage.setItem('tenrec-theme', 'dark')`)
  // The time at which the page was marked, on the clock that the browser uses for its first paint.
  await dark.page.addInitScript({
    content: `new MutationObserver((_, observer) => {
      if (document.documentElement.dataset.theme === undefined) return
      globalThis.markedAtMs = performance.now()
      observer.disconnect()
    }).observe(document, { attributes: true, subtree: true })`,
  })
  for (const path of ['/p/1/web', '/p/1/flags']) {
    await dark.open(path)
    await dark.settled()
    const marked = Number(await dark.page.evaluate('globalThis.markedAtMs'))
    const painted = Number(
      await dark.page.evaluate(`performance.getEntriesByName('first-paint')[0].startTime`),
    )
    t.ok(marked > 0 && marked <= painted, `marked at ${marked} ms, painted at ${painted} ms`)
    const ground = await dark.page.evaluate(
      'getComputedStyle(document.documentElement).backgroundColor',
    )
    t.equal(ground, 'rgb(17, 21, 25)')
  }
  await dark.press(/^Account of/)
  await dark.page.getByLabel('Colors').selectOption('light')
  const light = 'getComputedStyle(document.documentElement).backgroundColor'
  t.equal(await dark.page.evaluate(light), 'rgb(246, 247, 249)')
  dark.isSilent(t)
})

t.test('nothing moves if the user prefers reduced motion', async (t) => {
  if (browser === null) return
  const still = await openWindow(browser, { url: daemon.url, reducedMotion: 'reduce' })
  // Unanswered requests keep the loading animation visible.
  await still.page.route('**/api/projects/1/**', () => {})
  await still.page.goto(`${daemon.url}/p/1/persons`)
  await still.page.locator('.loading').first().waitFor()
  const moving = `document.getAnimations().filter(({ playState }) => playState === 'running').length`
  await still.shows(t, () => still.page.evaluate(moving), 0, 'nothing moves')
  await still.page.emulateMedia({ reducedMotion: 'no-preference' })
  await still.shows(t, () => still.page.evaluate(moving), 1, 'and would otherwise')
})

t.test('scripts and styles stay within their size limits', async (t) => {
  if (browser === null) return
  const folder = new URL('../../dist/console/assets/', import.meta.url)
  const gzipped = (name: string) => statSync(new URL(`${name}.gz`, folder)).size
  const files = readdirSync(folder).filter((name) => /\.(js|css)$/.test(name))
  const sum = (names: readonly string[]) => names.reduce((all, name) => all + gzipped(name), 0)
  const all = (kind: string) => files.filter((name) => name.endsWith(kind))
  t.ok(sum(all('.js')) <= 120_000, `all scripts: ${sum(all('.js'))} bytes`)
  t.ok(sum(all('.css')) <= 10_000, `all styles: ${sum(all('.css'))} bytes`)
  for (const path of ['web', 'live']) {
    const fresh = await openWindow(browser, { url: daemon.url })
    const asked: string[] = []
    const held: Route[] = []
    let countMax = REQUESTS_MAX
    await fresh.page.route(/^(?!.*(\/api\/|\.svg))/, (route) => {
      asked.push(route.request().url())
      if (asked.length <= countMax) return route.continue()
      held.push(route)
      return undefined
    })
    await fresh.page.goto(`${daemon.url}/p/1/${path}`, { waitUntil: 'commit' })
    await fresh.page.locator('nav.rail').waitFor()
    t.pass(`${path}: ${REQUESTS_MAX} requests are enough for a first picture`)
    countMax = Infinity
    for (const route of held) await route.continue()
    await fresh.page.locator('main h1').waitFor()
    await fresh.settled()
    const scripts = asked.flatMap((url) => /assets\/(.*\.js)$/.exec(url)?.[1] ?? [])
    t.ok(scripts.length > 1 && sum(scripts) <= 45_000, `scripts of ${path}: ${sum(scripts)} bytes`)
    fresh.isSilent(t)
  }
})
