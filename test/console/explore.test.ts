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
const NUMBERS = 'main .card .chart .table .link, .funnel-words .link, .heat .link'

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
  return results.map(({ values }, index) =>
    values.slice(0, Math.max(1, results.length - 1 - index)),
  )
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
      const numbers = isPaths
        ? page.locator('[aria-label=Connections] tbody tr')
        : page.locator(NUMBERS)
      await numbers.first().waitFor()
      const urls = linksIn(name === 'retention' ? withoutRunning(answer) : answer)
      t.ok(urls.length > 2, `${urls.length} numbers lead to persons`)
      const totals: number[] = []
      for (const url of urls) totals.push(await totalOf(url))
      // In charts and heat tables the answer is ordered by rows, and the page by columns.
      const shown = isPaths
        ? (await window.rows('Connections')).map((cells) => cells[2])
        : await numbers.evaluateAll((all) =>
            (all as unknown as { innerText: string; ariaLabel: string | null }[]).map(
              (one) => / (\d+) (?:person|people)$/.exec(one.ariaLabel ?? '')?.[1] ?? one.innerText,
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
      await page
        .getByRole('navigation', { name: 'Kinds of questions' })
        .getByText('Stickiness')
        .click()
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
      await window.press('Create')
      await page.getByRole('heading', { name: 'Sales' }).waitFor()
      const dashboard = page.url()
      await window.open(`/p/1/explore?range=30d&${series('bought').join('&')}`)
      await window.press('Save to a dashboard')
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
      await page.getByRole('switch', { name: 'Everyone who has the link' }).check()
      const link = await page.getByRole('dialog').locator('code').innerText()
      const stranger = await openWindow(browser, { url: daemon.url, key: null })
      await stranger.page.goto(link)
      await stranger.page
        .getByRole('region', { name: 'Buyers by day' })
        .locator('.plot svg')
        .waitFor()
      t.match(await stranger.page.locator('body').innerText(), /Sales[\s\S]*Buyers by day/)
      stranger.isSilent(t)
      await page.getByRole('switch', { name: 'Everyone who has the link' }).uncheck()
      await page.getByRole('dialog').locator('code').waitFor({ state: 'detached' })
      const closed = await stranger.page.goto(link)
      t.equal(closed?.status(), 404, 'nothing else is shared')
      window.isSilent(t)
    },
  )

  const FUNNEL = `way=funnel&range=30d&${series('signed up', 'bought').join('&').replaceAll('%2C%22math%22%3A%22dau%22', '')}`

  /** Downloads the CSV of a card. Returns its lines. */
  async function csvOf(name: string): Promise<readonly string[]> {
    const download = window.press(`Download CSV: ${name}`)
    const [file] = await Promise.all([page.waitForEvent('download'), download])
    const text = await (await file.createReadStream()).toArray()
    return Buffer.concat(text as Uint8Array[])
      .toString()
      .trim()
      .split('\r\n')
  }

  t.test('the drop-off of a funnel leads to its persons, also of one value', async (t) => {
    for (const by of ['', '&by=person:plan']) {
      await window.open(`/p/1/explore?${FUNNEL}${by}`)
      await window.settled()
      const link = page.getByRole('button', { name: /dropped off$/ }).first()
      const count = /\d+/.exec(await link.innerText())?.[0]
      t.equal(await listed(() => link.click(), t), count, `${by} as many persons`)
    }
    window.isSilent(t)
  })

  t.test('the file of a funnel has readable columns and no addresses', async (t) => {
    await window.open(`/p/1/explore?${FUNNEL}`)
    await window.settled()
    const [head = '', ...rows] = await csvOf('funnel')
    t.equal(
      head,
      'step,event,persons,percent_of_first_step,percent_of_previous_step,dropped_off,average_seconds,median_seconds',
    )
    t.equal(rows.length, 2)
    t.match(rows[0], /^1,signed up,\d+,100,100,0,/)
    t.match(rows[1], /^2,bought,\d+,/)
    window.isSilent(t)
  })

  t.test('a filter of one event counts only for that event', async (t) => {
    await window.open(`/p/1/explore?range=30d&${series('bought', 'bought').join('&')}`)
    await window.settled()
    await page.getByRole('button', { name: '+ Filter of Event A' }).click()
    await page.getByLabel('Property', { exact: true }).fill('plan')
    await page.getByLabel('Value', { exact: true }).fill('pro')
    await window.press('Add')
    await page.getByRole('list', { name: 'Filters' }).getByText('plan is pro').waitFor()
    await window.settled()
    const sent = new URL(page.url()).searchParams
      .getAll('series')
      .map((one) => JSON.parse(one) as object)
    const filters = [{ key: 'plan', operator: 'exact', value: 'pro', type: 'event' }]
    t.strictSame(sent, [
      { event: 'bought', math: 'dau', filters },
      { event: 'bought', math: 'dau' },
    ])
    window.isSilent(t)
  })

  t.test('totals add up the series, are sorted, and hide lines', async (t) => {
    const counted = ['$pageview', 'bought'].map(
      (event) => `series=${encodeURIComponent(JSON.stringify({ event }))}`,
    )
    await window.open(`/p/1/explore?range=30d&interval=day&${counted.join('&')}`)
    await window.settled()
    const sums = new Map<string, number>()
    for (const event of ['$pageview', 'bought']) {
      const query = { kind: 'TrendsQuery', series: [{ event }], dateRange: { date_from: '-29d' } }
      const { results } = await askApi<{ results: { count: number }[] }>(
        daemon,
        'POST',
        'projects/1/query/',
        { query },
      )
      sums.set(event, results[0]?.count ?? 0)
    }
    const totals = async () =>
      (await window.rows('Totals')).map(([name = '', total]) => [name, Number(total)])
    t.strictSame(await totals(), [...sums])
    await window.press('Total')
    await window.press(/^Total/)
    await window.shows(
      t,
      totals,
      [...sums].toSorted(([, a], [, b]) => a - b),
      'the smallest first',
    )
    // A hidden line has an empty path.
    const drawn = () => page.locator('.plot path:not([d=""])').count()
    const before = await drawn()
    await page.getByRole('region', { name: 'Totals' }).getByLabel('bought').uncheck()
    await window.shows(t, async () => (await drawn()) < before, true, 'one line is hidden')
    window.isSilent(t)
  })

  t.test('paths over all events leave out the technical events of SDKs', async (t) => {
    await window.open('/p/1/explore?way=paths&range=30d&items=all')
    await window.settled()
    const steps = (await window.rows('Connections')).flat().join()
    t.match(steps, /signed up/)
    await page.getByRole('button', { name: 'Count $feature_flag_called as a step' }).waitFor()
    const asked = page.waitForRequest((request) => request.url().endsWith('/query/'))
    await page.getByLabel('Leave out a step').fill('signed up')
    await page.keyboard.press('Enter')
    t.match((await asked).postData(), /"excludeEvents":\["\$feature_flag_called".*"signed up"\]/)
    await window.settled()
    t.notMatch((await window.rows('Connections')).flat().join(), /signed up/)
    window.isSilent(t)
  })

  t.test(
    'a dashboard has a range for all tiles, texts, and tiles in the order of the reader',
    async (t) => {
      const board = await askApi<{ id: number }>(daemon, 'POST', 'projects/1/dashboards/', {
        name: 'Order',
      })
      for (const name of ['First', 'Second']) {
        const source = {
          kind: 'TrendsQuery',
          series: [{ event: 'bought' }],
          dateRange: { date_from: '-6d' },
        }
        await askApi(daemon, 'POST', 'projects/1/insights/', { name, query: source })
      }
      await window.open(`/p/1/dashboards/${board.id}`)
      for (const name of ['First', 'Second']) {
        await window.press('Add tile')
        await window.press(`Add ${name}`)
        await page.getByRole('region', { name, exact: true }).waitFor()
      }
      await window.press('Add tile')
      await page.getByRole('dialog').getByLabel('Text').fill('# Plan\n\n**20 %**')
      await window.press('Add the text')
      await page.getByRole('heading', { name: 'Plan' }).waitFor()
      const titles = () => page.locator('main .tile-card h2').allInnerTexts()
      await window.shows(t, titles, ['First', 'Second', 'Plan'], 'the oldest first')
      await page.getByLabel('Change the tile Second').click()
      await window.press('Move earlier')
      await window.shows(t, titles, ['Second', 'First', 'Plan'], 'moved')
      await page.reload()
      await window.shows(t, titles, ['Second', 'First', 'Plan'], 'and saved')
      // The tiles that were loaded before may still ask for their own range.
      const asked = page.waitForRequest(
        (request) =>
          request.url().endsWith('/query/') &&
          (request.postData() ?? '').includes('"date_from":"-29d"'),
      )
      await page.getByLabel('Range of all tiles').selectOption({ label: 'Last 30 days' })
      await asked
      await page
        .getByRole('region', { name: 'First', exact: true })
        .getByText('Last 30 days')
        .waitFor()
      window.isSilent(t)
    },
  )
}
