/**
 * The ranges, the chart and the tiles of the page "Web" in Chromium, in a project east of Greenwich: the numbers of the
 * chart add up to the number in the tile, an old answer is never shown as a new one, and the page needs few requests.
 *
 * @lane browser
 */
import type { Route } from 'playwright-core'
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { postJson, send } from '../fixtures/exact-client.ts'

const DAY_MS = 86_400_000
const ZONE = 'Europe/Berlin'
/** As many queries as the page sends for one selection. */
const QUERIES_MAX = 8
const CLS_MAX = 0.05
/** The page, and the interval at which its chart is asked. */
const WEB = '/p/1/web?figure=views'

const nowMs = Date.now()
/** The start of visits: some in each of the last days, and some in a month in which the clocks change. */
const STARTS = [
  ...Array.from({ length: 60 }, (_, index) => nowMs - 600_000 - index * 0.55 * DAY_MS),
  ...Array.from({ length: 62 }, (_, index) => Date.UTC(2026, 2, 1, 0, 30) + index * 0.5 * DAY_MS),
]
const events = STARTS.flatMap((startMs, index) => {
  const session = `018e1b5c-0800-7b85-8000-${String(index).padStart(12, '0')}`
  return Array.from({ length: 1 + (index % 4) }, (_, view) => ({
    event: view === 2 ? '$screen' : '$pageview',
    distinct_id: `visitor-${index % 7}`,
    // Some visits last over midnight. None of the visits reaches into the future.
    timestamp: new Date(startMs + view * 150_000).toISOString(),
    properties: {
      $session_id: session,
      $pathname: index % 3 === 0 ? '/' : '/docs',
      $browser: index % 2 === 0 ? 'Firefox' : 'Chrome',
      $referring_domain: 'news.example',
    },
  }))
})

const { daemon, browser } = await startConsole(t)
const window = browser && (await openWindow(browser, { url: daemon.url }))

await t.test('a project without visits says how to record them', async (t) => {
  if (window === null) return
  await window.open('/p/1/web')
  await window.page.getByText('No visits yet.').waitFor()
  const commands = await window.page.locator('.empty pre code').allInnerTexts()
  t.equal(commands[0], 'npx tenrec snippet install')
  t.match(commands[1], new RegExp(`^<script src="${daemon.url}/static/.*${PROJECT_KEY}`))
  t.match(await window.page.locator('.empty a').getAttribute('href'), /\/p\/1\/setup$/)
  window.isSilent(t)
})

await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch: events })
await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, events.length)
await send(`${daemon.url}/api/projects/1/`, {
  method: 'PATCH',
  headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
  body: JSON.stringify({ timezone: ZONE }),
})

/** An element as the browser has it. */
interface Drawn {
  readonly offsetHeight: number
  getAttribute(name: string): string | null
}

function heightOf(element: unknown): number {
  return (element as Drawn).offsetHeight
}

/** Returns the day some days ago by the clocks of the project. */
function dayAgo(count: number): string {
  return new Date(nowMs - count * DAY_MS).toLocaleDateString('sv', { timeZone: ZONE })
}

const number = (words = '') => Number(words.replaceAll(',', ''))

if (browser !== null && window !== null) {
  const { page } = window
  const tile = async (name: string) =>
    number(
      await page.locator('.tile').filter({ hasText: name }).locator('.tile-number').innerText(),
    )
  const isQuery = /\/api\/projects\/1\/query\//
  const chartLabel = () => page.locator('.plot').first().getAttribute('aria-label')

  t.test('the sum of the chart is the tile', async (t) => {
    const ranges = [
      'today',
      'yesterday',
      '24h',
      `${dayAgo(1)}..${dayAgo(0)}`,
      `${dayAgo(3)}..${dayAgo(1)}`,
      `${dayAgo(2)}..${dayAgo(2)}`,
      '7d',
      `${dayAgo(30)}..${dayAgo(0)}`,
      '2026-03-01..2026-03-31',
      '2026-03-29..2026-03-29',
    ]
    for (const range of ranges) {
      await window.open(`${WEB}&range=${range}`)
      await window.settled()
      await window.press('Table')
      const views = await tile('Views')
      t.ok(views > 0, `${range} has views`)
      const sum = async () =>
        (await window.rows('Views')).reduce((all, [, cell]) => all + number(cell), 0)
      await window.shows(t, sum, views, range)
    }
    window.isSilent(t)
  })

  t.test('a click on a day shows its hours', async (t) => {
    await window.open(`${WEB}&range=${dayAgo(6)}..${dayAgo(1)}`)
    await window.settled()
    await page.locator('.plot').first().focus()
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await window.shows(
      t,
      async () => new URL(page.url()).searchParams.get('range'),
      `${dayAgo(1)}..${dayAgo(1)}`,
      'range',
    )
    await window.settled()
    await window.press('Table')
    await window.shows(t, async () => (await window.rows('Views')).length, 24, 'hours')
    window.isSilent(t)
  })

  t.test('an explored day has its events', async (t) => {
    const series = encodeURIComponent(JSON.stringify({ event: '$pageview' }))
    await window.open(`/p/1/explore?series=${series}&range=${dayAgo(1)}..${dayAgo(1)}`)
    await page.locator('.plot svg').waitFor()
    t.equal(await page.getByText('No such events in this range').count(), 0)
    t.equal(await page.getByLabel('Interval').inputValue(), 'hour', 'the interval that is asked')
    window.isSilent(t)
  })

  t.test('an old answer is dimmed until the new one arrives', async (t) => {
    await window.open(`${WEB}&range=30d`)
    await window.settled()
    const views = await tile('Views')
    const height = await page.locator('.report').first().evaluate(heightOf)
    const held: Route[] = []
    await page.route(isQuery, (route) => void held.push(route))
    await page.getByLabel('Time range').selectOption('7d')
    const stale = page.locator('.stale')
    await window.shows(t, () => stale.count(), 6, 'every answer is dimmed')
    t.equal(await tile('Views'), views, 'and keeps its place')
    const opacity =
      '[...document.querySelectorAll(".stale > *")].map((one) => getComputedStyle(one).opacity)'
    const opacities = (await page.evaluate(opacity)) as readonly string[]
    t.ok(
      opacities.every((one) => Number(one) < 0.5),
      opacities.join(),
    )
    t.equal(await page.locator('.report').first().evaluate(heightOf), height)
    for (const route of held) await route.continue()
    await page.unroute(isQuery)
    await window.shows(t, () => stale.count(), 0, 'the new answers are not dimmed')
    t.ok((await tile('Views')) < views)
    window.isSilent(t)
  })

  t.test('without a daemon, an old answer stays dimmed', async (t) => {
    await window.open(`${WEB}&range=30d`)
    await window.settled()
    await page.route('**/*', (route) => route.abort())
    await page.getByLabel('Time range').selectOption('7d')
    const failures = page.locator('.shown[aria-busy=false] > .notice.bad')
    await window.shows(t, () => failures.count(), 6, 'every part says why')
    t.equal(await page.locator('.stale').count(), 6)
    t.equal(await page.getByText('answer to your previous selection').count(), 6)
    await page.unroute('**/*')
    await window.shows(t, () => page.locator('.stale').count(), 0, 'and is asked again')
    window.excuse(/ERR_FAILED/)
    window.isSilent(t)
  })

  t.test('a page with a filter on sessions needs few queries', async (t) => {
    const filter = JSON.stringify({
      key: '$entry_referring_domain',
      value: 'news.example',
      operator: 'exact',
      type: 'session',
    })
    let count = 0
    await page.route(isQuery, (route) => {
      count++
      return route.continue()
    })
    await window.open(`${WEB}&range=30d&filter=${encodeURIComponent(filter)}`)
    await page.locator('.plot svg').waitFor()
    await window.settled()
    t.ok((await tile('Views')) > 0)
    t.ok(count > 0 && count <= QUERIES_MAX, `${count} queries`)
    await page.unroute(isQuery)
    window.isSilent(t)
  })

  t.test('the cursor of a chart does not outlive its labels', async (t) => {
    await window.open(`${WEB}&range=${dayAgo(30)}..${dayAgo(1)}`)
    await window.settled()
    await page.locator('.plot').first().focus()
    await page.keyboard.press('End')
    await page.locator('.tip').waitFor()
    t.match(await page.locator('.tip').innerText(), /Views/)
    await page.getByLabel('Time range').selectOption('7d')
    await window.settled()
    t.equal(await page.locator('.tip').count(), 0)
    t.notMatch(await page.locator('main').innerText(), /undefined|NaN/)
    window.isSilent(t)
  })

  t.test('a period that is not over is marked', async (t) => {
    await window.open(`${WEB}&range=7d`)
    await window.settled()
    const ongoing = page.locator('.plot .lines:not(.before) .ongoing').first()
    t.match(await ongoing.getAttribute('d'), /^M.*L/, 'the last part of the line is dotted')
    await page.locator('.plot').first().focus()
    await page.keyboard.press('End')
    t.match(await page.locator('.tip').innerText(), /so far/)
    const series = encodeURIComponent(JSON.stringify({ event: '$pageview' }))
    await window.open(`/p/1/explore?way=lifecycle&series=${series}&range=7d&interval=day`)
    await page.locator('.plot svg').waitFor()
    const hatched = await page
      .locator('.bars .ongoing')
      .evaluateAll((all) =>
        (all as unknown as readonly Drawn[]).map((one) => one.getAttribute('d')),
      )
    t.ok(hatched.some(Boolean), 'the last bar is hatched')
    window.isSilent(t)
  })

  t.test(
    'retention names the days of the project, and leaves out the period that runs',
    async (t) => {
      const series = encodeURIComponent(JSON.stringify({ event: '$pageview' }))
      await window.open(`/p/1/explore?way=retention&period=Day&series=${series}&series=${series}`)
      await page.locator('.heat tbody tr').first().waitFor()
      const rows = await window.rows('Retention')
      const named = (day: string) =>
        new Date(`${day}T12:00:00Z`).toLocaleDateString('en-GB', {
          day: 'numeric',
          month: 'short',
          year: 'numeric',
        })
      const wanted = rows.map((_, index) => named(dayAgo(rows.length - 1 - index)))
      t.strictSame(
        rows.map(([day]) => day?.replace(/ so far$/, '')),
        wanted,
      )
      t.match(rows.at(-1)?.[0], /so far$/)
      t.equal(rows.at(-2)?.[3], '', 'the running day is not in the row of yesterday')
      t.match(rows.at(-3)?.[3], /%|–/, 'but yesterday is in the row of the day before')
      window.isSilent(t)
    },
  )

  t.test('nothing moves while the page loads', async (t) => {
    const fresh = await openWindow(browser, { url: daemon.url })
    await fresh.page.addInitScript({
      content: `globalThis.shift = 0
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) if (!entry.hadRecentInput) globalThis.shift += entry.value
        }).observe({ type: 'layout-shift', buffered: true })`,
    })
    await fresh.open(`${WEB}&range=30d`)
    await fresh.page.locator('.plot svg').first().waitFor()
    await fresh.settled()
    const shift = Number(await fresh.page.evaluate('globalThis.shift'))
    t.ok(shift <= CLS_MAX, `the layout shifts by ${shift}`)
    fresh.isSilent(t)
  })

  t.test('tiles choose the line, and keys choose the range', async (t) => {
    await window.open('/p/1/web')
    await window.settled()
    t.match(await chartLabel(), /^Visitors, /)
    await page.getByRole('radio', { name: /^Bounce rate/ }).check({ force: true })
    await window.shows(
      t,
      async () => /^Bounce rate, .*%/.test((await chartLabel()) ?? ''),
      true,
      'bounces',
    )
    const range = async () => new URL(page.url()).searchParams.get('range')
    await page.locator('main').focus()
    const keys = {
      d: 'today',
      e: 'yesterday',
      h: '24h',
      w: '7d',
      t: '30d',
      m: 'mtd',
      y: 'ytd',
      a: 'all',
    }
    for (const [key, value] of Object.entries(keys)) {
      await page.keyboard.press(key)
      t.equal(await range(), value, key)
    }
    await page.keyboard.press('d')
    await page.keyboard.press('ArrowLeft')
    t.equal(await range(), 'yesterday')
    await page.keyboard.press('ArrowRight')
    t.equal(await range(), 'today')
    await page.keyboard.press('ArrowRight')
    t.equal(await range(), 'today', 'tomorrow has no numbers')
    await page.keyboard.press('x')
    t.equal(new URL(page.url()).searchParams.get('compare'), '1')
    await window.shows(t, () => page.locator('.lines.before').count(), 1, 'the previous period')
    await page.locator('.table[aria-label="Browsers"]').getByText('Firefox').click()
    await window.shows(t, () => page.locator('.chips li').count(), 1, 'a filter')
    await page.keyboard.press('Escape')
    await window.shows(t, () => page.locator('.chips li').count(), 0, 'no filter')
    await page.keyboard.press('g')
    await page.keyboard.press('e')
    await window.shows(
      t,
      async () => new URL(page.url()).pathname,
      '/p/1/explore',
      'g e opens a page',
    )
    await page.goBack()
    window.excuse(/ERR_ABORTED/)
    window.isSilent(t)
  })

  t.test('details have all rows, a search, an order and a file', async (t) => {
    await window.open('/p/1/web?range=30d')
    await window.settled()
    const visitors = await tile('Visitors')
    const [path, own, share] = (await window.rows('Top pages'))[0] ?? []
    t.equal(
      share,
      `${((100 * number(own)) / visitors).toFixed(1)} %`,
      `${path}: a share of visitors`,
    )
    await window.press('Details: Top pages')
    const rows = () => window.rows('All: Top pages')
    await window.shows(t, async () => (await rows()).length, 2, 'both pages')
    const heads = await page.locator('dialog th').allInnerTexts()
    t.strictSame(heads, ['Page', 'Visitors ↓', 'Share', 'Views', 'Bounce rate'])
    await page.locator('dialog').getByRole('button', { name: 'Page', exact: true }).click()
    await window.shows(
      t,
      async () => (await rows()).map(([name]) => name),
      ['/', '/docs'],
      'by name',
    )
    await page.locator('dialog').getByRole('button', { name: /^Page/ }).click()
    await window.shows(
      t,
      async () => (await rows()).map(([name]) => name),
      ['/docs', '/'],
      'backwards',
    )
    await page.getByLabel('Search top pages').fill('doc')
    await window.shows(t, async () => (await rows()).map(([name]) => name), ['/docs'], 'found')
    const download = page.locator('dialog').getByRole('button', { name: 'Download CSV: Top pages' })
    const [file] = await Promise.all([page.waitForEvent('download'), download.click()])
    t.equal(file.suggestedFilename(), 'top-pages.csv')
    await page.keyboard.press('Escape')
    await window.shows(t, () => page.locator('dialog').count(), 0, 'closed')
    window.isSilent(t)
  })

  t.test('a range without visits leads to other times', async (t) => {
    await window.open('/p/1/web?range=2020-01-01..2020-01-02')
    await page.getByRole('button', { name: 'Show all time' }).click()
    await window.shows(t, async () => (await tile('Views')) > 0, true, 'all time')
    window.isSilent(t)
  })
}
