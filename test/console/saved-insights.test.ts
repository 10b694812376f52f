/**
 * Saved insights in Chromium: an insight opens as the question that was saved, under its name, and can be changed,
 * copied, renamed and deleted. Options that the page cannot edit are kept.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject } from '../fixtures/console-data.ts'

interface Insight {
  readonly id: number
  readonly short_id: string
  readonly name: string
  readonly query: { readonly kind: string; readonly source: Readonly<Record<string, unknown>> }
}

const { daemon, browser } = await startConsole(t)
await fillProject(daemon)

async function insights(): Promise<readonly Insight[]> {
  const { results } = await askApi<{ results: readonly Insight[] }>(
    daemon,
    'GET',
    'projects/1/insights/',
  )
  return results
}

async function makeInsight(name: string, source: object): Promise<Insight> {
  const query = { kind: 'InsightVizNode', source, full: true }
  return askApi(daemon, 'POST', 'projects/1/insights/', { name, saved: true, query })
}

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  /** The queries that the page has sent. */
  const asked: Readonly<Record<string, unknown>>[] = []
  page.on('request', (request) => {
    if (!request.url().endsWith('/query/')) return
    const { query } = JSON.parse(request.postData() ?? '{}') as {
      query: Readonly<Record<string, unknown>>
    }
    asked.push(query)
  })

  t.test('a strict funnel with a window opens as the funnel that was saved', async (t) => {
    await window.open('/p/1/explore?way=funnel&range=30d')
    const second = page.getByLabel('Step 2', { exact: true })
    await second.fill('bought')
    await second.press('Enter')
    await page.getByLabel('Order of steps').selectOption({ label: 'Strictly in sequence' })
    await page.getByLabel('Time to complete').fill('3')
    await page.getByLabel('Time to complete').press('Enter')
    await page.waitForURL(/window=3/)
    await window.settled()
    const shown = await page.locator('.funnel').innerText()
    const title = page.getByLabel('Title of the insight')
    await window.shows(t, () => title.inputValue(), 'Funnel: Pageview → bought', 'a title is there')
    await title.fill('Strict three days')
    await window.press('Save')
    await page.getByText('Insight “Strict three days” saved.').waitFor()
    await page.getByRole('heading', { level: 1, name: 'Strict three days' }).waitFor()

    await window.open('/p/1/dashboards')
    asked.length = 0
    await page.getByText('Strict three days').click()
    await page.getByRole('heading', { level: 1, name: 'Strict three days' }).waitFor()
    await page.locator('.funnel').waitFor()
    await window.settled()
    t.equal(await page.getByLabel('Order of steps').inputValue(), 'strict')
    t.equal(await page.getByLabel('Time to complete').inputValue(), '3')
    t.equal(await page.getByLabel('Step 2', { exact: true }).inputValue(), 'bought')
    t.equal(await page.locator('.funnel').innerText(), shown, 'the same numbers')
    t.match(asked.at(-1), {
      kind: 'FunnelsQuery',
      funnelsFilter: { funnelOrderType: 'strict', funnelWindowInterval: 3 },
    })
    t.equal(
      await page.getByRole('button', { name: 'Save', exact: true }).count(),
      0,
      'nothing to save',
    )
    window.isSilent(t)
  })

  t.test('a retention opens with its events and its period', async (t) => {
    const { short_id: id } = await makeInsight('Buyers return', {
      kind: 'RetentionQuery',
      retentionFilter: {
        period: 'Day',
        targetEntity: { id: 'signed up', type: 'events' },
        returningEntity: { id: 'bought', type: 'events' },
      },
    })
    await window.open(`/p/1/explore?insight=${id}`)
    await page.locator('.heat').waitFor()
    t.equal(await page.getByLabel('First event', { exact: true }).inputValue(), 'signed up')
    t.equal(await page.getByLabel('Returning event', { exact: true }).inputValue(), 'bought')
    t.equal(await page.getByLabel('Period', { exact: true }).inputValue(), 'Day')
    window.isSilent(t)
  })

  t.test('an insight is changed, saved, copied, renamed and deleted', async (t) => {
    const board = await askApi<{ id: number }>(daemon, 'POST', 'projects/1/dashboards/', {
      name: 'Shop',
    })
    const made = await makeInsight('Views', {
      kind: 'TrendsQuery',
      series: [{ event: '$pageview' }],
    })
    await askApi(daemon, 'PATCH', `projects/1/insights/${made.id}/`, { dashboards: [board.id] })
    const current = async () => (await insights()).find(({ id }) => id === made.id)

    await window.open(`/p/1/dashboards/${board.id}`)
    await page.getByRole('link', { name: 'Open Views' }).click()
    await page.getByRole('navigation', { name: 'Breadcrumb' }).getByText('Shop').waitFor()
    await page.getByLabel('Interval').selectOption('week')
    await page.getByText('Changed', { exact: true }).waitFor()
    await window.press('Save')
    await page.getByText('The insight is saved.').waitFor()
    await page.getByText('Changed', { exact: true }).waitFor({ state: 'detached' })
    t.match(await current(), {
      query: {
        kind: 'InsightVizNode',
        full: true,
        source: { kind: 'TrendsQuery', interval: 'week' },
      },
    })

    await window.press('Save as')
    await page.getByRole('dialog').getByLabel('Name').fill('Views, again')
    await window.answer('Save')
    await page.getByRole('heading', { level: 1, name: 'Views, again' }).waitFor()
    t.match(await current(), { name: 'Views' }, 'the first one stays')

    await window.press('Rename')
    await page.getByRole('dialog').getByLabel('Name').fill('Weekly views')
    await window.answer('Rename')
    await page.getByRole('heading', { level: 1, name: 'Weekly views' }).waitFor()
    await window.press('Delete')
    await window.answer('Delete')
    await page.waitForURL(new RegExp(`/dashboards/${board.id}$`))
    const names = (await insights()).map(({ name }) => name)
    t.ok(names.includes('Views'))
    t.notOk(names.includes('Weekly views'))
    window.isSilent(t)
  })

  t.test('one click saves a new insight, with a title that says what it asks', async (t) => {
    const board = await askApi<{ id: number }>(daemon, 'POST', 'projects/1/dashboards/', {
      name: 'Team',
    })
    const add = async (label: string, event: string) => {
      await page.getByRole('combobox', { name: label }).click()
      await page.getByRole('option', { name: event }).first().click()
    }
    await window.open(`/p/1/explore?dashboard=${board.id}`)
    await add('Add an event', 'bought')
    await page.waitForURL(/series=.*series=/)
    await add('Add an event', 'All events')
    await page.getByRole('combobox', { name: 'Event C' }).waitFor()
    await add('Break down by property', 'plan')
    await page.waitForURL(/by=/)
    const title = 'Trends: Pageview, bought, All events, by plan'
    await window.shows(
      t,
      () => page.getByLabel('Title of the insight').inputValue(),
      title,
      'title',
    )
    await window.press('Save')
    await page.getByRole('heading', { level: 1, name: title }).waitFor()
    const made = (await insights()).find(({ name }) => name === title)
    t.match(
      made,
      { dashboards: [board.id] },
      'it is on the dashboard from which the page was opened',
    )
    t.match(made, {
      query: {
        source: {
          series: [{ event: '$pageview' }, { event: 'bought' }, { event: null }],
        },
      },
    })
    window.isSilent(t)
  })

  t.test('options that the page cannot edit are kept and take part in the answer', async (t) => {
    const properties = {
      type: 'OR',
      values: [
        { key: 'plan', value: 'pro', operator: 'exact', type: 'event' },
        { key: 'plan', value: 'team', operator: 'exact', type: 'event' },
      ],
    }
    const source = { kind: 'TrendsQuery', series: [{ event: '$pageview' }], properties }
    const { short_id: id } = await makeInsight('Either plan', source)
    asked.length = 0
    await window.open(`/p/1/explore?insight=${id}`)
    await page.getByText('Saved with options that this page cannot edit').waitFor()
    await page.locator('.plot svg').waitFor()
    t.match(asked.at(-1), { kind: 'TrendsQuery', properties })
    await page.reload()
    await page.getByText('Saved with options that this page cannot edit').waitFor()
    await window.press('Edit without these options')
    await page.getByLabel('Event A').waitFor()
    await page.getByText('Changed', { exact: true }).waitFor()

    const long = Array.from({ length: 26 }, (_, at) => ({
      event: `event ${at} ${'x'.repeat(300)}`,
    }))
    const { short_id: longId } = await makeInsight('Long', { ...source, series: long })
    await window.open(`/p/1/explore?insight=${longId}`)
    await page.getByText('Saved with options that this page cannot edit').waitFor()
    await window.settled()
    t.ok(page.url().length < 300, 'a long query is not in the URL')
    await page.reload()
    await page.getByText('Saved with options that this page cannot edit').waitFor()
    await window.settled()
    const { series } = asked.at(-1) ?? {}
    t.equal(Array.isArray(series) && series.length, 26)
    window.isSilent(t)
  })

  t.test('an insight that was deleted is named as such', async (t) => {
    await window.open('/p/1/explore?insight=nothing1')
    await page.getByText('There is no such insight.').waitFor()
    window.isSilent(t)
  })
}
