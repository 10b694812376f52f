/**
 * The page "Web" in Chromium: its numbers equal a brute-force count of all stored events.
 *
 * @lane browser
 */
import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { type ConsoleWindow, openWindow, startConsole } from '../fixtures/console.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { postJson } from '../fixtures/exact-client.ts'
import { NaiveWeb } from '../fixtures/queries/naive-web.ts'
import { siteVisits } from '../fixtures/site-visits.ts'

const FROM = '2026-03-02'
const TO = '2026-03-08'
const DAYS = 7
const PAGE = `/p/1/web?range=${FROM}..${TO}`
const ROWS = 5
const TABLES: readonly (readonly [tab: string, by: string])[] = [
  ['Top pages', 'Page'],
  ['Entry pages', 'InitialPage'],
  ['Exit pages', 'ExitPage'],
  ['Channels', 'InitialChannelType'],
  ['Referrers', 'InitialReferringDomain'],
  ['UTM source', 'InitialUTMSource'],
  ['UTM medium', 'InitialUTMMedium'],
  ['Campaigns', 'InitialUTMCampaign'],
  ['Browsers', 'Browser'],
  ['OS', 'OS'],
  ['Devices', 'DeviceType'],
  ['Sizes', 'Viewport'],
  ['Countries', 'Country'],
  ['Regions', 'Region'],
  ['Cities', 'City'],
  ['Languages', 'Language'],
]

const { daemon, browser } = await startConsole(t)
// There are also events in the week before and after the range. They must not be counted.
const sent = siteVisits(7, 120, Date.parse(FROM) - DAYS * 86_400_000, 3 * DAYS)
for (let at = 0; at < sent.length; at += 500) {
  const batch = sent.slice(at, at + 500)
  await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
}
const stored = await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, sent.length)
const naive = new NaiveWeb(stored, [])
const console = browser && (await openWindow(browser, { url: daemon.url }))

type Filter = { key: string; value?: unknown; operator: string; type: string }

function query(properties: readonly Filter[] = []) {
  return { dateRange: { date_from: FROM, date_to: TO }, properties }
}

const whole = (value: unknown) => new Intl.NumberFormat('en').format(Number(value))

/** The expected text of the five tiles. */
function tilesOf(properties: readonly Filter[] = []): readonly string[] {
  const [visitors, views, sessions, duration, bounces] = naive
    .overview(query(properties))
    .map(({ value }) => value)
  const seconds = Math.round(Number(duration))
  const words = seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m ${seconds % 60}s`
  return [whole(visitors), whole(views), whole(sessions), words, `${Number(bounces).toFixed(1)} %`]
}

/** The expected first rows of a table: value, visitors, views. */
function rowsOf(by: string, properties: readonly Filter[] = []): readonly (readonly string[])[] {
  const bounces = by === 'Page' ? { includeBounceRate: true } : {}
  const rows = naive.table({ breakdownBy: by, ...bounces, ...query(properties) }) as readonly [
    Value,
    [number],
    [number],
  ][]
  return rows.slice(0, ROWS).map(([value, [visitors], [views]]) => {
    return [wordsOf(by, value), whole(visitors), whole(views)]
  })
}

type Value = string | null | readonly (string | number | null)[]

function wordsOf(by: string, value: Value): string {
  if (value === null) return '(none)'
  const country = (code: unknown) =>
    new Intl.DisplayNames('en', { type: 'region' }).of(String(code)) ?? String(code)
  if (typeof value === 'object') {
    if (by === 'Viewport') return `${value[0]} × ${value[1]}`
    return `${value[by === 'Region' ? 2 : 1]}, ${country(value[0])}`
  }
  if (by === 'Country') return country(value)
  if (by !== 'Language') return value
  return new Intl.DisplayNames('en', { type: 'language' }).of(value) ?? value
}

const tiles = ({ page }: ConsoleWindow) => page.locator('.tile-number').allInnerTexts()

/** Returns value, visitors and views of the first rows. The share stands between them. */
async function firstRows(window: ConsoleWindow, tab: string) {
  const rows = await window.rows(tab)
  return rows.slice(0, ROWS).map(([value, visitors, , views]) => [value, visitors, views])
}

/** Opens a table. The tables of the other UTM parameters share one menu, and all others have a tab. */
async function choose({ page }: ConsoleWindow, tab: string, by: string) {
  if (tab.startsWith('UTM')) await page.getByLabel('UTM', { exact: true }).selectOption(by)
  else await page.locator('.tabs').getByRole('link', { name: tab, exact: true }).click()
}

async function compare(t: Test, window: ConsoleWindow, properties: readonly Filter[]) {
  await window.shows(t, () => tiles(window), [...tilesOf(properties)], 'tiles')
  for (const [tab, by] of TABLES) {
    await choose(window, tab, by)
    const wanted = rowsOf(by, properties).map((row) => [...row])
    await window.shows(t, () => firstRows(window, tab), wanted, tab)
  }
}

if (console !== null) {
  const window = console
  const { page } = window

  t.test('tiles and tables equal a brute-force count', async (t) => {
    await window.open(PAGE)
    await compare(t, window, [])
    window.isSilent(t)
  })

  t.test('the chart has a point for each day', async (t) => {
    await window.open(PAGE)
    await window.press('Table')
    const chart = page.getByRole('region', { name: 'Figures' })
    const metrics = ['UniqueUsers', 'PageViews']
    const days = naive
      .trends({ ...query(), interval: 'day', metrics })
      .map((item) => metrics.map((metric) => whole(item.metrics[metric])))
    t.equal(days.length, DAYS)
    for (const [place, name] of ['Visitors', 'Views'].entries()) {
      await chart.locator('.tile').filter({ hasText: name }).click()
      const read = async () => (await window.rows(name)).map((row) => row[1])
      const wanted = days.map((numbers) => numbers[place])
      await window.shows(t, read, wanted, name)
    }
    window.isSilent(t)
  })

  t.test('the page has room for its numbers before they arrive', async (t) => {
    const shift = await window.shiftOf(PAGE)
    t.ok(shift < 0.05, `layout shift ${shift}`)
  })

  t.test('the file of a card has all rows of its table', async (t) => {
    await window.open(PAGE)
    await window.settled()
    const asked = page.waitForRequest(/\/query\/$/)
    const download = window.press('Download CSV: Top pages')
    const [file] = await Promise.all([page.waitForEvent('download'), download])
    const { query: sent } = (await asked).postDataJSON() as { query: { limit: number } }
    t.equal(sent.limit, 50_000, 'all rows are requested, not only those of the card')
    t.equal(file.suggestedFilename(), 'top-pages.csv')
    const [head, ...lines] = (await readFile(await file.path(), 'utf8')).trim().split('\r\n')
    t.equal(head, 'page,visitors,views,bounce_rate')
    const all = naive.table({ breakdownBy: 'Page', includeBounceRate: true, ...query() })
    t.strictSame(
      lines.map((line) => line.split(',').slice(0, 3)),
      (all as readonly [Value, [number], [number]][]).map(([value, [visitors], [views]]) =>
        [value, visitors, views].map(String),
      ),
      'a line for each page',
    )
    window.isSilent(t)
  })

  t.test('a click on a row filters the whole page, and a reload keeps the filter', async (t) => {
    const filters: readonly (readonly [tab: string, words: string, Filter])[] = [
      [
        'Browsers',
        '<b>Fire</b>',
        { key: '$browser', value: '<b>Fire</b>', operator: 'exact', type: 'event' },
      ],
      [
        'Referrers',
        'github.com',
        {
          key: '$entry_referring_domain',
          value: 'github.com',
          operator: 'exact',
          type: 'session',
        },
      ],
    ]
    for (const [tab, words, filter] of filters) {
      await window.open(PAGE)
      await page.locator('.tabs').getByRole('link', { name: tab, exact: true }).click()
      await page.locator(`.table[aria-label="${tab}"]`).getByText(words, { exact: true }).click()
      const chips = () => page.locator('.chips li').allInnerTexts()
      await window.shows(t, async () => (await chips()).length, 1, 'one chip')
      t.match((await chips())[0], `${filter.key} is ${words}`)
      t.strictSame(JSON.parse(new URL(page.url()).searchParams.get('filter') ?? ''), filter)
      await compare(t, window, [filter])
      await page.reload()
      await window.shows(t, () => tiles(window), [...tilesOf([filter])], 'after reloading')
      t.equal((await chips()).length, 1)
      await page.locator('.chips button').click()
      await window.shows(t, () => tiles(window), [...tilesOf()], 'without it')
    }
    t.equal(await page.locator('main b:text("Fire")').count(), 0, 'names are shown as text')
    window.isSilent(t)
  })
}
