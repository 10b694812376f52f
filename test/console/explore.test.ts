/**
 * Explore and dashboards in Chromium. Each number equals the count of the persons route behind it, and the dialog lists
 * as many persons. An address contains the whole state of a page, also after going back and for viewers without a key.
 *
 * @lane browser
 */
import t, { type Test } from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject } from '../fixtures/console-data.ts'

const { daemon, browser } = await startConsole(t)
await fillProject(daemon)

const series = (...events: readonly string[]) =>
  events.map((event) => `series=${encodeURIComponent(JSON.stringify({ event, math: 'dau' }))}`)

/** The explored question, and the place of its numbers: cells of a table, or buttons. */
const WAYS: readonly (readonly [name: string, address: string, isChart: boolean])[] = [
  ['trends', ['way=trends', ...series('$pageview', 'bought')].join('&'), true],
  ['trends by plan', ['way=trends', 'by=event:plan', ...series('$pageview')].join('&'), true],
  ['funnel', ['way=funnel', ...series('$pageview', 'signed up', 'bought')].join('&'), false],
  ['retention', 'way=retention&period=Day', false],
  ['lifecycle', 'way=lifecycle', true],
  ['stickiness', 'way=stickiness', true],
  ['paths', 'way=paths', false],
]
const NUMBERS = 'main .card .chart .table .link, .funnel .link, .heat .link'

interface Link {
  readonly url: string
}

interface Edge {
  readonly value: number
  readonly persons_url: Link | null
}

/** Returns all addresses of persons in an answer. */
function linksIn(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, one]) => {
    if (name === 'persons_url') return one === null ? [] : [(one as Link).url]
    if (name !== 'persons_urls') return linksIn(one)
    return (one as readonly (Link | null)[]).flatMap((link) => (link === null ? [] : [link.url]))
  })
}

/** Returns an answer of retention without the numbers of the period that runs, which the page leaves out. */
function withoutRunning(answer: unknown): unknown {
  const { results } = answer as { results: readonly { values: readonly object[] }[] }
  return results.map(({ values }, index) => values.slice(0, Math.max(1, results.length - 1 - index)))
}

async function totalOf(url: string): Promise<number> {
  const answer = await askApi<{ total: number }>(daemon, 'GET', url.replace(/^.*\/api\//, ''))
  return answer.total
}

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window

  /** Opens a number. Returns the count in the title of the dialog and the number of listed persons. */
  async function listed(press: () => Promise<void>, t: Test): Promise<string> {
    await press()
    const dialog = page.getByRole('dialog')
    const total = await dialog.locator('[data-total]').getAttribute('data-total')
    const rows = await dialog.locator('tbody tr').count()
    t.equal(rows, Math.min(100, Number(total)), 'the dialog lists as many persons')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    return String(total)
  }

  for (const [name, address, isChart] of WAYS) {
    t.test(`numbers of ${name} equal the counts of the persons behind them`, async (t) => {
      const answered = page.waitForResponse(
        (response) =>
          response.url().includes('/query/') &&
          (response.request().postData() ?? '').includes('persons_urls'),
      )
      await window.open(`/p/1/explore?range=30d&interval=day&${address}`)
      const answer: unknown = await (await answered).json()
      await window.settled()
      if (isChart) await window.press('Table')
      const isPaths = name === 'paths'
      const numbers = isPaths ? page.locator('[aria-label=Edges] tbody tr') : page.locator(NUMBERS)
      await numbers.first().waitFor()
      const urls = linksIn(name === 'retention' ? withoutRunning(answer) : answer)
      t.ok(urls.length > 2, `${urls.length} numbers lead to persons`)
      const totals: number[] = []
      for (const url of urls) totals.push(await totalOf(url))
      // In charts and heat tables the answer is ordered by rows, and the page by columns.
      const shown = isPaths
        ? (await window.rows('Edges')).map((cells) => cells.at(-1))
        : await numbers.evaluateAll((all) =>
            (all as unknown as { innerText: string; ariaLabel: string | null }[]).map(
              (one) => / (\d+) persons$/.exec(one.ariaLabel ?? '')?.[1] ?? one.innerText,
            ),
          )
      const sorted = (list: readonly unknown[]) =>
        list.map((one) => Math.abs(Number(one))).sort((a, b) => a - b)
      const ofTotals = sorted(totals)
      if (isPaths) {
        const { results } = answer as { results: readonly Edge[] }
        t.strictSame(
          shown,
          results.map(({ value }) => String(value)),
          'every edge is shown',
        )
        const linked = results.filter((one) => one.persons_url !== null)
        t.strictSame(
          totals,
          linked.map(({ value }) => value),
          'each number is a total',
        )
      } else t.strictSame(sorted(shown), ofTotals, 'each number is a total')
      const above = shown.findIndex((one) => Math.abs(Number(one)) > 1)
      const total = await listed(() => numbers.nth(above).click(), t)
      if (!isPaths) t.equal(Number(total), Math.abs(Number(shown[above])))
      window.isSilent(t)
    })
  }

  t.test(
    'the address contains the state of the page: back, forward and reload restore it',
    async (t) => {
      await window.open('/p/1/explore?range=30d')
      await page.getByRole('navigation', { name: 'Ways' }).getByText('Stickiness').click()
      await page.getByLabel('Interval').selectOption('week')
      await page.locator('.plot svg').waitFor()
      const last = page.url()
      t.match(last, /way=stickiness.*interval=week/)
      await page.reload()
      t.equal(page.url(), last)
      await window.shows(t, () => page.getByLabel('Interval').inputValue(), 'week', 'reloaded')
      await page.goBack()
      await window.shows(t, () => page.getByLabel('Interval').inputValue(), 'day', 'one back')
      await page.goBack()
      await page.locator('nav [aria-current=page]').getByText('Trends').waitFor()
      await page.goForward()
      await page.goForward()
      t.equal(page.url(), last)
      await window.shows(t, () => page.getByLabel('Interval').inputValue(), 'week', 'forward')

      await window.open('/p/1/persons')
      await page.locator('main tbody tr').first().waitFor()
      const search = page.getByRole('searchbox')
      await search.fill('p11@shop')
      await page.waitForURL(/search=p11/)
      await window.shows(t, async () => (await window.rows('Persons')).length, 1, 'found')
      await page.locator('main tbody tr').first().click()
      await page.waitForURL(/persons\/[\w-]{36}$/)
      await page.goBack()
      await window.shows(t, () => search.inputValue(), 'p11@shop', 'what was searched')
      await page.getByRole('link', { name: 'Persons' }).click()
      await page.waitForURL(/persons$/)
      await window.shows(t, () => search.inputValue(), '', 'nothing is searched any more')
      await window.shows(
        t,
        async () => (await window.rows('Persons')).length > 5,
        true,
        'everybody',
      )
      t.match(page.url(), /persons$/)
      window.isSilent(t)
    },
  )

  t.test(
    'an insight is added to a dashboard, and the shared link opens without a key',
    async (t) => {
      await window.open('/p/1/dashboards')
      await window.press('New dashboard')
      await page.getByRole('dialog').getByLabel('Name').fill('Sales')
      await window.press('Make it')
      await page.getByRole('heading', { name: 'Sales' }).waitFor()
      const dashboard = page.url()
      await window.open(`/p/1/explore?range=30d&${series('bought').join('&')}`)
      await window.press('Save')
      await page.getByRole('dialog').getByLabel('Name').fill('Buyers by day')
      await page.getByLabel('On the dashboard').selectOption({ label: 'Sales' })
      await window.answer('Save')
      await page.getByText('Insight “Buyers by day” saved.').waitFor()
      await window.press('Table')
      const explored = await window.rows('Trends')

      await window.open(dashboard.replace(daemon.url, ''))
      const card = page.getByRole('region', { name: 'Buyers by day' })
      await card.getByRole('button', { name: 'Table', exact: true }).click()
      await window.shows(t, () => window.rows('Trends'), explored, 'the same numbers')
      await window.press('Share')
      await page.getByRole('switch').check()
      const link = await page.getByRole('dialog').locator('code').innerText()
      const stranger = await openWindow(browser, { url: daemon.url, key: null })
      await stranger.page.goto(link)
      t.match(await stranger.page.locator('body').innerText(), /Sales[\s\S]*Buyers by day/)
      stranger.isSilent(t)
      await page.getByRole('switch').uncheck()
      await page.getByRole('dialog').locator('code').waitFor({ state: 'detached' })
      const closed = await stranger.page.goto(link)
      t.equal(closed?.status(), 404, 'nothing else is shared')
      window.isSilent(t)
    },
  )
}
