/**
 * The page "Events" in Chromium: events as they arrive, past events page by page, lost events, and names that contain
 * markup.
 *
 * @lane browser
 */
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { LIVE_STREAMS_OF_SESSION_MAX } from '../../src/http/routes/limits.ts'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { postJson } from '../fixtures/exact-client.ts'

/** Longer than it takes until an event is shown. */
const QUIET_MS = 1500

const { daemon, browser } = await startConsole(t)
const source = { url: daemon.url, personalKey: PERSONAL_KEY }
const window = browser && (await openWindow(browser, { url: daemon.url }))

async function capture(...batch: readonly object[]): Promise<void> {
  const answer = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  if (answer.status !== 200) throw new Error(answer.body.toString())
}

if (window !== null) {
  const { page } = window
  const names = async () => (await window.rows('Events')).map(([, name]) => name)

  t.test(
    'an event appears on the open page; pause stops the list; filters select events',
    async (t) => {
      await window.open('/p/1/live')
      await page.getByText('Live', { exact: true }).and(page.locator('.badge')).waitFor()
      await capture({ event: 'first', distinct_id: 'ann' })
      await window.shows(t, names, ['first'], 'comes as it is written')

      await window.press('Pause')
      await capture({ event: 'second', distinct_id: 'bob' })
      await page.getByRole('button', { name: 'Resume (1 new)' }).waitFor()
      t.strictSame(await names(), ['first'])
      await window.press(/Resume/)
      await window.shows(t, names, ['second', 'first'], 'what was held')

      await page.getByLabel('Distinct ID').fill('ann')
      await window.shows(t, names, ['first'], 'only hers')
      t.match(page.url(), 'distinct_id=ann')
      await page.getByText('Live', { exact: true }).and(page.locator('.badge')).waitFor()
      await capture({ event: 'third', distinct_id: 'bob' }, { event: 'fourth', distinct_id: 'ann' })
      await window.shows(t, names, ['fourth', 'first'], 'still only hers')
      await page.reload()
      await window.shows(t, names, ['fourth', 'first'], 'after reloading')
      window.isSilent(t)
    },
  )

  t.test(
    'several tabs watch at the same time, and one tab too many closes the oldest stream',
    async (t) => {
      const tabs = [page]
      const badge = (tab: typeof page, state: string) =>
        tab.getByText(state, { exact: true }).and(tab.locator('.badge')).waitFor()
      await window.open('/p/1/live?event=tabs')
      await badge(page, 'Live')
      while (tabs.length <= LIVE_STREAMS_OF_SESSION_MAX) {
        const tab = await page.context().newPage()
        tabs.push(tab)
        await tab.goto(page.url())
        await badge(tab, 'Live')
      }
      await badge(page, 'Closed')
      await page
        .getByText(`at most ${LIVE_STREAMS_OF_SESSION_MAX} streams can be open at a time`)
        .waitFor()
      await capture({ event: 'tabs', distinct_id: 'ann' })
      for (const tab of tabs.slice(1))
        await tab.getByRole('cell', { name: 'tabs' }).first().waitFor()
      await window.press('Continue here')
      await window.shows(t, names, ['tabs'], 'what it missed')
      for (const tab of tabs.slice(1)) await tab.close()
      window.isSilent(t)
    },
  )

  t.test('a project with events is never called empty while the page connects', async (t) => {
    const release: (() => void)[] = []
    await page.route(/\/events\/\?/, async (route) => {
      await new Promise<void>((resolve) => release.push(resolve))
      await route.continue()
    })
    await window.open('/p/1/live')
    while (release.length === 0) await page.waitForTimeout(25)
    await page.waitForTimeout(QUIET_MS)
    t.equal(await page.getByText('No events yet.').count(), 0)
    t.equal(await page.locator('main .loading').count(), 1)
    for (const go of release) go()
    await page.locator('main tbody tr').first().waitFor()
    await page.unroute(/\/events\/\?/)
    window.isSilent(t)
  })

  t.test('a row opens with properties, outcome, person and a command', async (t) => {
    const properties = { plan: "it's", $pathname: '/here' }
    await capture({ event: 'opened', distinct_id: 'cleo', properties })
    const [event] = await untilStored(source, 1, 'event=opened')
    await window.open('/p/1/live?event=opened')
    await page.locator('main tr.opens td').first().click()
    const drawer = page.getByRole('dialog')
    await drawer.getByText('stored', { exact: true }).waitFor()
    t.match(page.url(), `open=${event?.uuid}`)
    t.match(await drawer.innerText(), "it's")
    const person = drawer.getByRole('link', { name: event?.person_id ?? '' })
    t.equal(await person.getAttribute('href'), `/p/1/persons/${event?.person_id}`)
    await page.keyboard.press('Escape')
    await page.waitForURL((url) => !url.searchParams.has('open'))
    window.isSilent(t)
  })

  t.test(
    'an event without distinct_id is listed as lost, with the reason and a sample',
    async (t) => {
      await window.open('/p/1/live?tab=lost')
      await page.getByText('No event was rejected in the last week.').waitFor()
      await capture({ event: 'nobody did it', properties: { plan: 'pro' } })
      await page.locator('.lost summary').click()
      t.match(await page.locator('.lost summary').innerText(), /^Events without a distinct ID 1 /)
      const samples = await window.rows('Samples of no_distinct_id')
      t.equal(samples.length, 1)
      t.match(samples[0]?.join(), 'nobody did it')
      window.isSilent(t)
    },
  )

  t.test('past events are read page by page, and the address keeps the page', async (t) => {
    const HOUR_MS = 3_600_000
    const day = (count: number) => new Date(Date.now() - count * 24 * HOUR_MS).toISOString()
    const plan = (index: number) => (index % 2 === 0 ? 'pro' : 'free')
    const batch = Array.from({ length: 60 }, (_, index) => ({
      event: 'old',
      distinct_id: `old-${index}`,
      timestamp: new Date(Date.now() - 72 * HOUR_MS - index * 1000).toISOString(),
      properties: { plan: plan(index) },
    }))
    await capture(...batch, { event: 'old', distinct_id: 'older', timestamp: day(40) })
    await untilStored(source, batch.length + 1, 'event=old')
    const ids = async () => (await window.rows('Past events')).map(([, , id]) => id)
    const wanted = (from: number, to: number) =>
      batch.slice(from, to).map(({ distinct_id: id }) => id)
    await window.open('/p/1/live')
    await page.getByRole('link', { name: 'Past events' }).click()
    await page.getByLabel('Event', { exact: true }).fill('old')
    await window.shows(t, ids, wanted(0, 50), 'the newest events of the last seven days')
    await page.getByRole('link', { name: 'Older events' }).click()
    await window.shows(t, ids, wanted(50, 60), 'the second page')
    await page.reload()
    await window.shows(t, ids, wanted(50, 60), 'the address has the page')
    await page.locator('main tr.opens td').first().click()
    await page.getByRole('dialog').getByText('stored', { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'Newest events' }).click()
    await window.shows(t, ids, wanted(0, 50), 'back to the first page')
    await page.goBack()
    await window.shows(t, ids, wanted(50, 60), 'the back button')

    await page.getByLabel('Time range', { exact: true }).selectOption('all')
    await window.shows(
      t,
      async () => (await ids())[0],
      'old-0',
      'another range begins at its start',
    )
    t.notMatch(page.url(), /cursor/)
    await page.getByRole('link', { name: 'Older events' }).click()
    await window.shows(t, ids, [...wanted(50, 60), 'older'], 'all time reaches back further')
    const saved = page.waitForEvent('download')
    await window.press(/^Download CSV: /)
    const file = await readFile(await (await saved).path(), 'utf8')
    t.equal(file.split('\n').filter((line) => line.includes(',old,')).length, 61, 'all pages')

    await window.open(
      `/p/1/live?tab=past&event=old&range=${day(41).slice(0, 10)}..${day(39).slice(0, 10)}`,
    )
    await window.shows(t, ids, ['older'], 'the days of a range')
    const isPro = { key: 'plan', operator: 'exact', value: 'pro', type: 'event' }
    const filter = encodeURIComponent(JSON.stringify(isPro))
    await window.open(`/p/1/live?tab=past&event=old&filter=${filter}`)
    const pro = batch.filter((_, index) => plan(index) === 'pro').map(({ distinct_id: id }) => id)
    await window.shows(t, ids, pro, 'a filter on a property')
    await window.open('/p/1/live?tab=past&event=nothing')
    await page.getByText('No events match. Choose a longer range, or remove a filter.').waitFor()
    window.isSilent(t)
  })

  t.test('every name is shown as text', async (t) => {
    const rtl = '\u202eمرحبا\u202c'
    const strange = [
      '<img src=x onerror="globalThis.isHit=1">',
      '"><script>globalThis.isHit=1</script>',
      rtl,
      '🦔'.repeat(20),
      '{{7*7}} <%= 7 %> javascript:alert(1)',
    ]
    const long = 'x'.repeat(10_240)
    const batch = strange.map((name) => {
      const properties = { [name]: name, $pathname: name, $current_url: `javascript:${name}`, long }
      const session = { $session_id: '0190a5b2-0000-7000-8000-000000000001', utm_source: name }
      return { event: name, distinct_id: name, properties: { ...properties, ...session } }
    })
    await capture(...batch, ...batch.map((one) => ({ ...one, event: '$pageview' })), {
      event: 'long',
      distinct_id: 'dora',
      properties: { $pathname: long },
    })
    await untilStored(source, 1, 'event=long')
    for (const name of strange) {
      await window.open(`/p/1/live?event=${encodeURIComponent(name)}`)
      await window.shows(t, names, [name], `${name} in the list`)
      await page.locator('main tr.opens td').first().click()
      const drawer = page.getByRole('dialog')
      await drawer.getByText('stored', { exact: true }).waitFor()
      t.ok((await drawer.innerText()).includes(name), `${name} in the drawer`)
    }
    const paths = ['web', 'web?pages=InitialPage&sources=InitialUTMSource', 'live', 'live?tab=past']
    for (const path of paths) {
      await window.open(`/p/1/${path}`)
      await page.locator('main tr.opens').first().waitFor()
      await page.waitForTimeout(QUIET_MS)
      const { width } = (await page.locator('main').boundingBox()) ?? { width: Infinity }
      t.ok(width <= 1280, `${path} is not wider than the window`)
      const foreign = page.locator('main img, main a:not([href^="/"])')
      t.equal(await foreign.count(), 0, `${path} has no images or links from event data`)
    }
    t.not(await page.evaluate((): unknown => Reflect.get(globalThis, 'isHit')), 1)
    window.isSilent(t)
  })
}
