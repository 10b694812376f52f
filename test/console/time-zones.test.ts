/**
 * The numbers of the console in three time zones, in Chromium: the numbers on the pages Web and Explore, on a dashboard
 * and on its shared page equal a brute-force count of all stored events in the time zone of the project. In the tested
 * range, no zone changes its clocks. ranges.test.ts tests a month with such a change.
 *
 * @lane browser
 */
import t, { type Test } from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi } from '../fixtures/console-data.ts'
import { PERSONAL_KEY } from '../fixtures/daemon.ts'
import { type StoredEvent, untilStored } from '../fixtures/event-pages.ts'
import { postJson } from '../fixtures/exact-client.ts'
import { NaiveWeb } from '../fixtures/queries/naive-web.ts'
import { siteVisits } from '../fixtures/site-visits.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const FROM = '2026-03-02'
const TO = '2026-03-08'
const DAYS = 7
const VIEW = '$pageview'
const EVENTS_PER_REQUEST = 500
/** The zones, and by how many minutes their clocks are ahead of UTC. */
const ZONES: readonly (readonly [zone: string, aheadMinutes: number])[] = [
  ['Asia/Kathmandu', 345],
  ['America/Caracas', -240],
  ['Pacific/Apia', 780],
]

const { daemon, browser } = await startConsole(t)
// Visits begin in the week before the range and end in the week after it, so that each zone has other days at the ends.
const sent = siteVisits(11, 120, Date.parse(FROM) - DAYS * DAY_MS, 3 * DAYS)
const whole = (value: unknown) => new Intl.NumberFormat('en').format(Number(value))
const days = Array.from({ length: DAYS }, (_, index) =>
  new Date(Date.parse(FROM) + index * DAY_MS).toISOString().slice(0, 10),
)

interface Site {
  readonly id: number
  /** All stored events, with the time that the clocks of the zone showed in place of UTC. */
  readonly events: readonly StoredEvent[]
}

/** Creates a project in a zone, with all visits. */
async function createSite(zone: string, aheadMinutes: number): Promise<Site> {
  const project = await askApi<{ id: number; api_token: string }>(daemon, 'POST', 'projects/', {
    name: zone,
    timezone: zone,
  })
  for (let at = 0; at < sent.length; at += EVENTS_PER_REQUEST) {
    const batch = sent.slice(at, at + EVENTS_PER_REQUEST)
    await postJson(`${daemon.url}/batch/`, { api_key: project.api_token, batch })
  }
  const source = { url: daemon.url, personalKey: PERSONAL_KEY, projectId: project.id }
  const stored = await untilStored(source, sent.length)
  const byClock = (timestamp: string) =>
    new Date(Date.parse(timestamp) + aheadMinutes * MINUTE_MS).toISOString()
  const events = stored.map((event) => ({ ...event, timestamp: byClock(event.timestamp) }))
  return { id: project.id, events }
}

/** Returns the views of each day of the range. */
function viewsByDay({ events }: Site): readonly (readonly StoredEvent[])[] {
  return days.map((day) =>
    events.filter(({ event, timestamp }) => event === VIEW && timestamp.startsWith(day)),
  )
}

const personsOf = (events: readonly StoredEvent[]) =>
  new Set(events.map(({ person_id }) => person_id)).size

/** The expected text of the tiles of the page Web. */
function tilesOf(naive: NaiveWeb): readonly string[] {
  const [visitors, views, sessions, duration, bounces] = naive
    .overview({ dateRange: { date_from: FROM, date_to: TO }, properties: [] })
    .map(({ value }) => value)
  const seconds = Math.round(Number(duration))
  const words = seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m ${seconds % 60}s`
  return [whole(visitors), whole(views), whole(sessions), words, `${Number(bounces).toFixed(1)} %`]
}

async function testZone(t: Test, site: Site): Promise<void> {
  if (browser === null) return
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  const naive = new NaiveWeb(site.events, [])
  const views = viewsByDay(site)
  const query = { dateRange: { date_from: FROM, date_to: TO }, properties: [] }

  await window.open(`/p/${site.id}/web?range=${FROM}..${TO}`)
  const tiles = () => page.locator('.tile-number').allInnerTexts()
  await window.shows(t, tiles, [...tilesOf(naive)], 'tiles of Web')
  await window.press('Table')
  const visitors = naive
    .trends({ ...query, interval: 'day', metrics: ['UniqueUsers'] })
    .map(({ metrics }) => whole(metrics['UniqueUsers']))
  const byDay = async () => (await window.rows('Visitors')).map((row) => row[1])
  await window.shows(t, byDay, visitors, 'visitors of each day of Web')
  const pages = naive.table({
    breakdownBy: 'Page',
    includeBounceRate: true,
    ...query,
  }) as readonly [string, [number], [number]][]
  const topPages = async () =>
    (await window.rows('Top pages')).map(([path, seen, , viewed]) => [path, seen, viewed])
  const wantedPages = pages.map(([path, [seen], [viewed]]) => [path, whole(seen), whole(viewed)])
  await window.shows(t, topPages, wantedPages, 'pages of Web')

  const series = [{ event: VIEW }, { event: VIEW, math: 'dau' }]
  const asked = series.map((one) => `series=${encodeURIComponent(JSON.stringify(one))}`).join('&')
  await window.open(`/p/${site.id}/explore?way=trends&interval=day&range=${FROM}..${TO}&${asked}`)
  await window.settled()
  await window.press('Table')
  const explored = async () => {
    const rows = page.locator('main .card .chart .table tbody tr')
    const texts = await rows.evaluateAll((all) =>
      (all as unknown as readonly { cells: Iterable<{ innerText: string }> }[]).map(({ cells }) =>
        [...cells].slice(1).map(({ innerText }) => innerText.trim()),
      ),
    )
    return texts
  }
  const wanted = views.map((events) => [whole(events.length), whole(personsOf(events))])
  await window.shows(t, explored, wanted, 'numbers of each day of Explore')

  const number = whole(personsOf(views.flat()))
  const shared = await createDashboard(site.id)
  const tile = async () => {
    const region = page.getByRole('region', { name: 'Persons of the week', exact: true })
    return (await region.locator('.numbers b').allInnerTexts()).map((text) => text.trim())
  }
  await window.open(`/p/${site.id}/dashboards/${shared.dashboard}`)
  await window.shows(t, tile, [number], 'the number of a dashboard')
  await page.goto(`${daemon.url}/shared/${shared.token}`)
  await window.shows(t, tile, [number], 'the number of its shared page')
  window.isSilent(t)
}

/** Creates a dashboard with one number and a link that shares it. */
async function createDashboard(project: number): Promise<{ dashboard: number; token: string }> {
  const path = `projects/${project}/dashboards/`
  const { id } = await askApi<{ id: number }>(daemon, 'POST', path, { name: 'Numbers' })
  await askApi(daemon, 'POST', `projects/${project}/insights/`, {
    name: 'Persons of the week',
    saved: true,
    dashboards: [id],
    query: {
      kind: 'InsightVizNode',
      source: {
        kind: 'TrendsQuery',
        series: [{ event: VIEW, math: 'dau' }],
        trendsFilter: { display: 'BoldNumber' },
        dateRange: { date_from: FROM, date_to: TO },
      },
    },
  })
  const sharing = await askApi<{ access_token: string }>(daemon, 'PATCH', `${path}${id}/sharing/`, {
    enabled: true,
  })
  return { dashboard: id, token: sharing.access_token }
}

const numbers: string[] = []
for (const [zone, aheadMinutes] of ZONES) {
  t.test(`the numbers of a project in ${zone} equal a brute-force count`, async (t) => {
    const site = await createSite(zone, aheadMinutes)
    numbers.push(
      viewsByDay(site)
        .map((events) => events.length)
        .join(' '),
    )
    await testZone(t, site)
  })
}

t.test('the zones differ in their numbers, so that a wrong zone would be noticed', async (t) => {
  t.equal(new Set(numbers).size, ZONES.length, numbers.join(', '))
})
