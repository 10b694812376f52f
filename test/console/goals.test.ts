/**
 * Goals in Chromium: they are made in the settings and in the setup, and chosen on the page "Web", whose numbers equal
 * a brute-force count of all stored events.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi } from '../fixtures/console-data.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { postJson } from '../fixtures/exact-client.ts'
import { NaiveWeb } from '../fixtures/queries/naive-web.ts'
import { siteVisits } from '../fixtures/site-visits.ts'

const [FROM, TO, DAYS] = ['2026-03-02', '2026-03-08', 7] as const
const WEB = `/p/1/web?range=${FROM}..${TO}`
const HOSTILE = '<img src=x onerror="globalThis.isHit=1">'
const GOAL = { conversionGoal: { customEventName: 'signed up' } }
const QUERY = { dateRange: { date_from: FROM, date_to: TO }, properties: [], ...GOAL }

const { daemon, browser } = await startConsole(t)
const sent = siteVisits(7, 120, Date.parse(FROM) - DAYS * 86_400_000, 3 * DAYS)
for (let at = 0; at < sent.length; at += 500) {
  await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch: sent.slice(at, at + 500) })
}
const stored = await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, sent.length)
const naive = new NaiveWeb(stored, [])
const window = browser && (await openWindow(browser, { url: daemon.url }))
const whole = (value: unknown) => new Intl.NumberFormat('en').format(Number(value))
const share = (value: unknown) => `${(100 * Number(value)).toFixed(1)} %`

interface Listed {
  readonly results: readonly { readonly id: number; readonly name: string }[]
}

if (window !== null) {
  const { page } = window
  const actions = () => askApi<Listed>(daemon, 'GET', 'projects/1/actions/')

  t.test('the setup offers the own events as goals', async (t) => {
    await window.open('/p/1/web')
    await window.settled()
    t.equal(await page.getByRole('group', { name: 'Goal' }).count(), 0, 'no goal, no choice')
    await window.open('/p/1/setup')
    const step = page.locator('.ticks li').filter({ hasText: 'What is a success' })
    await step.getByRole('img', { name: 'To do' }).waitFor()
    await step.getByRole('button', { name: 'Make a goal of signed up' }).click()
    await step.getByRole('img', { name: 'Done' }).waitFor()
    t.match((await actions()).results, [{ name: 'signed up' }])
    window.isSilent(t)
  })

  t.test('tiles, chart and tables with a goal equal a brute-force count', async (t) => {
    await window.open(WEB)
    await window.press('signed up')
    const [, conversions, converted, rate] = naive.overview(QUERY).map(({ value }) => value)
    const plain = naive.overview({ ...QUERY, conversionGoal: undefined })
    const tile = (name: string) =>
      page.locator('.tile').filter({ hasText: name }).locator('.tile-number')
    await window.shows(
      t,
      async () => [
        await tile('Visitors').innerText(),
        await tile('Conversions').innerText(),
        await tile('Conversion rate').innerText(),
        await tile('Converted people').innerText(),
      ],
      [plain[0]?.value, conversions].map(whole).concat(share(Number(rate) / 100), whole(converted)),
      'tiles',
    )
    t.match(new URL(page.url()).searchParams.get('goal'), /^\d+$/)
    const days = naive.trends({
      ...QUERY,
      interval: 'day',
      metrics: ['UniqueUsers', 'TotalConversions', 'UniqueConversions'],
    })
    await window.press('Table')
    const charts = [
      ['Conversions', days.map(({ metrics }) => whole(metrics['TotalConversions']))],
      ['Converted people', days.map(({ metrics }) => whole(metrics['UniqueConversions']))],
      ['Visitors', null],
      [
        'Conversion rate',
        days.map(({ metrics }) =>
          share(Number(metrics['UniqueConversions']) / Number(metrics['UniqueUsers'])),
        ),
      ],
    ] as const
    for (const [name, wanted] of charts) {
      await page.locator('.tile').filter({ hasText: name }).click()
      if (wanted === null) continue
      await window.shows(
        t,
        async () => (await window.rows(name)).map((row) => row[1]),
        wanted,
        name,
      )
    }
    for (const [tab, by] of [
      ['Channels', 'InitialChannelType'],
      ['Top pages', 'Page'],
      ['Countries', 'Country'],
      ['Browsers', 'Browser'],
    ] as const) {
      const rows = naive.table({ breakdownBy: by, ...QUERY }) as readonly (readonly [
        unknown,
        ...(readonly [number])[],
      ])[]
      const wanted = rows
        .slice(0, 5)
        .map(([, visitors, all, , ratio]) => [
          whole(visitors?.[0]),
          whole(all?.[0]),
          share(ratio?.[0]),
        ])
      const read = async () => (await window.rows(tab)).slice(0, 5).map((row) => row.slice(1))
      await window.shows(t, read, wanted, tab)
    }
    await window.press('Details: Browsers')
    const dialog = page.getByRole('dialog', { name: 'Browsers' })
    await dialog.getByRole('columnheader', { name: 'Converted people' }).waitFor()
    await page.keyboard.press('Escape')
    await page.reload()
    await tile('Conversion rate').waitFor()
    const goal = page.getByRole('button', { name: 'signed up', exact: true })
    t.equal(await goal.getAttribute('aria-pressed'), 'true', 'the goal is marked')
    await goal.click()
    await window.shows(t, () => page.locator('.tile').count(), 5, 'the tiles of the goal are gone')
    t.notOk(new URL(page.url()).searchParams.has('goal'))
    window.isSilent(t)
  })

  t.test('goals are added, renamed and removed in the settings', async (t) => {
    await window.open('/p/1/settings')
    await window.press('Add goal')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('What counts').selectOption('page')
    await dialog.getByLabel('Path').fill('/docs/*')
    await dialog.getByLabel('Name').fill(HOSTILE)
    await window.answer('Add goal')
    const goals = () => window.rows('Goals')
    const first = async () =>
      (await goals()).map((row) => row.slice(0, 2).map((one) => one.split('\n')[0]))
    await window.shows(
      t,
      first,
      [
        ['signed up', 'Event signed up'],
        [HOSTILE, 'Page /docs/*'],
      ],
      'both goals',
    )
    const { results } = await actions()
    const made = results.find(({ name }) => name === HOSTILE)?.id
    await page
      .getByRole('row')
      .filter({ hasText: HOSTILE })
      .getByRole('button', { name: 'Rename' })
      .click()
    await dialog.getByLabel('Name').fill('Reads the docs')
    await window.answer('Rename')
    await window.shows(t, async () => (await first()).at(-1)?.[0], 'Reads the docs', 'renamed')

    await window.open(`${WEB}&goal=${made}&figure=conversions`)
    const views = stored.filter(
      ({ event, properties, timestamp }) =>
        event === '$pageview' &&
        String(properties['$pathname']).startsWith('/docs/') &&
        timestamp >= FROM &&
        timestamp.slice(0, 10) <= TO,
    )
    const number = page.locator('.tile').filter({ hasText: 'Conversions' }).locator('.tile-number')
    await window.shows(t, () => number.innerText(), whole(views.length), 'views of the pages')

    await window.open('/p/1/settings')
    const row = page.getByRole('row').filter({ hasText: 'Reads the docs' })
    await row.getByRole('button', { name: 'Remove' }).click()
    await window.answer('Remove')
    await window.shows(t, async () => (await goals()).length, 1, 'one goal is left')
    t.match(
      (await actions()).results.map(({ name }) => name),
      ['signed up'],
    )
    t.equal(await page.evaluate('globalThis.isHit'), undefined)
    window.isSilent(t)

    await window.open(`${WEB}&goal=${made}`)
    await page.getByText('refers to an action that does not exist').first().waitFor()
    await window.press('deleted')
    await window.settled()
    t.ok(window.excuse(/^400 .*\/query\/$|status of 400/) > 0)
    window.isSilent(t)
  })

  t.test('three goals have a button, and the others share a menu', async (t) => {
    const names = ['bought', 'asked', 'read']
    for (const name of names) {
      const body = { name, tags: ['goal'], steps: [{ event: name }] }
      await askApi(daemon, 'POST', 'projects/1/actions/', body)
    }
    await window.open(WEB)
    const goals = page.getByRole('group', { name: 'Goal' })
    const shown = () => goals.getByRole('button').allInnerTexts()
    await window.shows(t, async () => (await shown()).length, 3, 'three buttons')
    const before = await shown()
    const other = [...names, 'signed up'].find((name) => !before.includes(name)) ?? ''
    await page.getByLabel('Other goals').selectOption(other)
    await window.shows(t, shown, [...before.slice(0, 2), other], 'the chosen goal has a button')
    t.equal(await goals.getByRole('button', { pressed: true }).innerText(), other)
    await goals.getByRole('button', { name: other, exact: true }).click()
    await window.shows(t, shown, before, 'no goal is chosen')
    window.isSilent(t)
  })
}
