/**
 * Shared dashboards in Chromium: readers without a key see the charts of the console, the range and the time, and no
 * links to other pages. Texts are Markdown, and names with markup stay text.
 *
 * @lane browser
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import t from 'tap'
import { startSite } from '../fixtures/browser.ts'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject, STRANGE } from '../fixtures/console-data.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const { daemon, browser } = await startConsole(t)
await fillProject(daemon)
const ask = <Body>(method: string, path: string, body?: object) =>
  askApi<Body>(daemon, method, `projects/1/${path}`, body)

const [HOSTILE = ''] = STRANGE
const RANGE = { dateRange: { date_from: '-13d' } }
const SERIES = [{ event: '$pageview' }, { event: 'bought' }]
const { id: board } = await ask<{ id: number }>('POST', 'dashboards/', {
  name: 'Sales',
  description: HOSTILE,
})
const INSIGHTS: Readonly<Record<string, object>> = {
  [HOSTILE]: {
    kind: 'TrendsQuery',
    series: [{ event: '$pageview', custom_name: HOSTILE }, { event: 'bought' }],
    ...RANGE,
  },
  'Path to a purchase': { kind: 'FunnelsQuery', series: SERIES, ...RANGE, persons_urls: true },
  'They return': { kind: 'RetentionQuery', retentionFilter: { period: 'Day' } },
  Revenue: {
    kind: 'TrendsQuery',
    series: [{ event: 'bought', math: 'sum', math_property: 'amount' }],
    trendsFilter: { display: 'BoldNumber' },
    ...RANGE,
  },
  'Wrong query': { kind: 'TrendsQuery', series: [{ event: 'x', math: 'nonsense' }] },
  'All names': { kind: 'EventsQuery', select: ['event', 'count()'], after: '-14d' },
}
for (const [name, source] of Object.entries(INSIGHTS)) {
  await ask('POST', 'insights/', {
    name,
    saved: true,
    query: { kind: 'InsightVizNode', source },
    dashboards: [board],
  })
}
const TEXT = `**Goal for Q4:** 20 %\n\n- [plan](https://plan.example)\n\n${HOSTILE}\n\n[bad](javascript:alert(1))`
await ask('PATCH', `dashboards/${board}/`, { tiles: [{ text: { body: TEXT } }] })
const sharing = await ask<{ access_token: string }>('PATCH', `dashboards/${board}/sharing/`, {
  enabled: true,
})
const PATH = `/shared/${sharing.access_token}`

if (browser !== null) {
  t.test('the page Web is shared with its range, its filters and its numbers', async (t) => {
    const window = await openWindow(browser, { url: daemon.url })
    const { page } = window
    const filter = { key: '$pathname', operator: 'exact', value: '/', type: 'event' }
    const address = new URLSearchParams({ range: '28d', filter: JSON.stringify(filter) })
    await window.open(`/p/1/web?${address.toString()}&pages=InitialPage`)
    await page.locator('.tile .tile-number', { hasText: /\d/ }).first().waitFor()
    await window.settled()
    const tiles = await page.locator('.tile-number').allInnerTexts()
    const shown = (await window.rows('Entry pages')).map(([path, visitors = '']) => [
      path,
      visitors.split(' ').at(-1),
    ])
    await window.press('Share')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill(HOSTILE)
    await window.answer('Create dashboard')
    await page.getByRole('dialog', { name: 'Share this dashboard' }).waitFor()
    await dialog.getByRole('switch', { name: /Everyone who has the link/ }).click()
    const link = await dialog
      .getByRole('link', { name: 'Open the shared page' })
      .getAttribute('href')
    await page.keyboard.press('Escape')
    await page.locator('.tile-number').first().waitFor()
    await window.settled()
    t.strictSame(await page.locator('.tile-number').allInnerTexts(), tiles, 'on the dashboard')
    window.isSilent(t)

    const stranger = await openWindow(browser, { url: daemon.url, key: null })
    await stranger.page.goto(String(link))
    await stranger.page.getByRole('heading', { level: 1, name: HOSTILE }).waitFor()
    t.strictSame(await stranger.page.locator('.tile-number').allInnerTexts(), tiles, 'for a reader')
    const entries = (await stranger.rows('InitialPage')).map(([path, visitors]) => [path, visitors])
    t.strictSame(entries, shown)
    t.equal(await stranger.page.locator('.plot svg').count(), 1)
    const text = await stranger.page.locator('main').innerText()
    t.match(text, /Last 28 days/)
    t.notMatch(text, /undefined|NaN|\[object/)
    t.equal(await stranger.page.evaluate('globalThis.isHit'), undefined)
    stranger.isSilent(t)
  })

  t.test(
    'a stranger sees charts, ranges, texts and the time, and nothing that leads elsewhere',
    async (t) => {
      const stranger = await openWindow(browser, { url: daemon.url, key: null })
      const { page } = stranger
      await page.addInitScript({ content: AXE })
      const asked: string[] = []
      page.on('request', (request) => asked.push(new URL(request.url()).pathname))
      await page.goto(daemon.url + PATH)
      await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor()
      t.equal(await page.title(), 'Sales')
      await page.locator('.plot svg path').first().waitFor()
      const region = (name: string) => page.getByRole('region', { name, exact: true })
      t.match(
        await region('Path to a purchase').innerText(),
        /Last 14 days[\s\S]*\d+ people, 100\.0 %/,
      )
      t.match(await region('They return').innerText(), /100 %/)
      t.match(await region('Revenue').innerText(), /\d,\d{3}/)
      t.match(await region('Wrong query').innerText(), /math/)
      t.match(await region('All names').innerText(), /signed up/)
      const text = region('Text')
      t.equal(await text.locator('strong').innerText(), 'Goal for Q4:')
      t.equal(await text.getByRole('link').count(), 1)
      t.equal(await text.getByRole('link').getAttribute('href'), 'https://plan.example/')
      const whole = await page.locator('main').innerText()
      t.match(whole, /Updated \d+ \w+ \d{4}/)
      t.ok(whole.includes(HOSTILE), 'markup is text')
      t.notMatch(whole, /undefined|NaN|\[object|\$\$_posthog|aggregated_value/)
      t.equal(await page.evaluate('globalThis.isHit'), undefined)
      t.equal(await page.locator('main img, main script, nav').count(), 0)
      t.equal(
        await page.locator('main .funnel .link, main .heat .link, main .numbers .link').count(),
        0,
      )
      t.equal(await page.getByText('Copy as curl').count(), 0)
      const others = asked.filter(
        (path) => path !== PATH && path !== `${PATH}.json` && !path.startsWith('/assets/'),
      )
      t.strictSame(others, [], 'nothing but the page, its files and its content is requested')
      const { violations } = (await page.evaluate('axe.run(document)')) as AxeResults
      const found = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      t.strictSame(
        found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 150)}`)),
        [],
      )
      stranger.isSilent(t)
    },
  )

  t.test(
    'a reader who is logged in gets no more than a stranger, and may be on another site',
    async (t) => {
      const window = await openWindow(browser, { url: daemon.url })
      const cookies: (string | undefined)[] = []
      window.page.on('request', (request) => {
        if (request.url().endsWith('.json'))
          void request.allHeaders().then(({ cookie }) => cookies.push(cookie))
      })
      await window.page.goto(daemon.url + PATH.replace('shared', 'embedded'))
      await window.page.locator('.plot svg path').first().waitFor()
      await window.shows(
        t,
        async () => cookies,
        [undefined],
        'the content is read without a cookie',
      )
      t.equal(await window.page.locator('main .funnel .link').count(), 0)
      window.isSilent(t)
    },
  )

  t.test('without JavaScript the page leads to tables', async (t) => {
    const context = await browser.newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(daemon.url + PATH)
    await page.waitForURL(/plain=1/)
    await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor()
    t.ok((await page.locator('table').count()) >= 4)
    await context.close()
  })

  t.test('a link with a password asks for it, once in a tab', async (t) => {
    const owner = await openWindow(browser, { url: daemon.url })
    await owner.open(`/p/1/dashboards/${board}`)
    await owner.press('Share')
    const dialog = owner.page.getByRole('dialog', { name: 'Share this dashboard' })
    await dialog.getByLabel('Ask for a password').check()
    await dialog.getByText('Nobody can open the link until you set a password.').waitFor()
    await dialog.getByLabel('Password', { exact: true }).fill('correct horse')
    await dialog.getByLabel('Note').fill(HOSTILE)
    await dialog.getByRole('button', { name: 'Set password' }).click()
    await dialog.getByRole('button', { name: `Remove ${HOSTILE}` }).waitFor()
    await dialog.getByLabel('Let readers change the time range').check()
    await owner.page.getByText('The sharing is changed.').first().waitFor()
    t.ok(owner.excuse(/^400 .*\/query\/$|status of 400/) > 0)
    owner.isSilent(t)

    const stranger = await openWindow(browser, { url: daemon.url, key: null })
    const { page } = stranger
    await page.goto(daemon.url + PATH)
    await page.getByRole('heading', { name: 'This page needs a password' }).waitFor()
    t.equal(await page.title(), 'Shared page')
    t.notMatch(await page.content(), /Sales|Goal for Q4/)
    await page.getByLabel('Password').fill('battery staple')
    await stranger.press('Open')
    await page.getByText('The password is wrong.').waitFor()
    await page.getByLabel('Password').fill('correct horse')
    await stranger.press('Open')
    await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor()
    t.equal(await page.title(), 'Sales')
    t.strictSame(await page.context().cookies(), [], 'no cookie')
    const funnel = page.getByRole('region', { name: 'Path to a purchase' })
    t.match(await funnel.innerText(), /Last 14 days/)
    await page.getByLabel('Time range').selectOption('Last 7 days')
    await stranger.shows(
      t,
      async () => /Last 7 days/.test(await funnel.innerText()),
      true,
      'the range of the chart',
    )
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Sales' }).waitFor()
    t.match(await funnel.innerText(), /Last 7 days/, 'the address keeps the range')
    t.equal(stranger.excuse(/401/), 4, 'two refusals, and what the browser says about them')
    // A link has no user name that a password manager could store.
    stranger.excuse(/Password forms should have/)
    stranger.isSilent(t)
    const other = await openWindow(browser, { url: daemon.url, key: null })
    await other.page.goto(daemon.url + PATH)
    await other.page.getByLabel('Password').waitFor()

    await dialog.getByRole('button', { name: `Remove ${HOSTILE}` }).click()
    await dialog.getByText('Nobody can open the link').waitFor()
    await page.reload()
    await page.getByLabel('Password').waitFor()
    await dialog.getByLabel('Ask for a password').uncheck()
    await owner.shows(t, () => dialog.getByLabel('Note').count(), 0, 'no password')
  })

  t.test('another site shows the page in a frame only if the link allows it', async (t) => {
    const embedded = daemon.url + PATH.replace('shared', 'embedded')
    const frame = `<!doctype html><title>Site</title><iframe src="${embedded}"></iframe>`
    const site = await startSite(t, frame, '/none.js', new Uint8Array())
    const stranger = await openWindow(browser, { url: daemon.url, key: null })
    const inside = stranger.page.frameLocator('iframe').getByRole('heading', { name: 'Sales' })
    await stranger.page.goto(site)
    await stranger.shows(
      t,
      async () => stranger.complaints.some((one) => /frame-ancestors/.test(one)),
      true,
      'the browser refuses the frame',
    )
    t.equal(await inside.count(), 0)

    const owner = await openWindow(browser, { url: daemon.url })
    await owner.open(`/p/1/dashboards/${board}`)
    await owner.press('Share')
    const dialog = owner.page.getByRole('dialog', { name: 'Share this dashboard' })
    await dialog.getByLabel('Let other sites embed the page').check()
    const code = dialog.locator('pre code').filter({ hasText: '<iframe' })
    t.match(await code.innerText(), `src="${embedded}"`)
    await stranger.page.goto(site)
    await inside.waitFor()
    await dialog.getByLabel('Last day of the link').fill('2020-01-01')
    await owner.page.keyboard.press('Tab')
    await stranger.page.goto(daemon.url)
    await stranger.shows(
      t,
      async () => (await stranger.page.request.get(embedded)).status(),
      404,
      'an expired link',
    )
    await dialog.getByLabel('Last day of the link').fill('')
    await owner.page.keyboard.press('Tab')
    await stranger.shows(
      t,
      async () => (await stranger.page.request.get(embedded)).status(),
      200,
      'without a last day',
    )
  })

  t.test('replacing the link asks first, and the old link shows a page', async (t) => {
    const window = await openWindow(browser, { url: daemon.url })
    const { page } = window
    await window.open(`/p/1/dashboards/${board}`)
    await window.press('Share')
    await window.press('Replace the link')
    const question = page.getByRole('dialog', { name: 'Replace the link?' })
    await question.waitFor()
    const before = await ask<{ access_token: string }>('GET', `dashboards/${board}/sharing/`)
    t.equal(before.access_token, sharing.access_token, 'nothing has happened yet')
    await question.getByRole('button', { name: 'Replace the link' }).click()
    await page.getByText('The dashboard has a new link.').waitFor()
    // One tile has a wrong query on purpose.
    t.ok(window.excuse(/^400 .*\/query\/$|status of 400/) > 0)
    window.isSilent(t)
    const stranger = await openWindow(browser, { url: daemon.url, key: null })
    const answer = await stranger.page.goto(daemon.url + PATH)
    t.equal(answer?.status(), 404)
    await stranger.page.getByRole('heading', { name: 'This link opens nothing' }).waitFor()
  })
}
