/**
 * Common tasks in Chromium, with the number of clicks that they take. Each task begins on a page of the navigation bar,
 * and no task may take more clicks than listed here. A menu takes two clicks: one opens it, and one chooses. A text
 * that is typed is a field and not a click.
 *
 * @lane browser
 */
import type { Locator } from 'playwright-core'
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi } from '../fixtures/console-data.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { postJson } from '../fixtures/exact-client.ts'
import { exampleMonth, MONTH, MONTH_DAYS } from '../fixtures/example-month.ts'

const BATCH_EVENTS = 500
const DAY_MS = 86_400_000
const EMAIL = 'user-7@example.com'

const { daemon, browser } = await startConsole(t)
const window =
  browser && (await openWindow(browser, { url: daemon.url, permissions: ['clipboard-write'] }))

/** Sends the example month, moved so that it ends today, and everything else that the tasks need. */
async function fill(): Promise<void> {
  const lastMs = Date.parse(`${MONTH}-${MONTH_DAYS}T00:00:00Z`)
  const moved = Math.floor((Date.now() - lastMs) / DAY_MS) * DAY_MS
  const events = exampleMonth()
    .map((event) => ({ ...event, atMs: Date.parse(event.timestamp) + moved }))
    .filter(({ atMs }) => atMs < Date.now())
    .map(({ atMs, ...event }) => ({
      ...event,
      timestamp: new Date(atMs).toISOString(),
      ...(event.distinct_id === EMAIL && {
        properties: { ...event.properties, $set: { email: EMAIL } },
      }),
    }))
  for (let at = 0; at < events.length; at += BATCH_EVENTS) {
    const batch = events.slice(at, at + BATCH_EVENTS)
    await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  }
  await untilStored({ url: daemon.url, personalKey: PERSONAL_KEY }, events.length)
  await postJson(`${daemon.url}/capture/`, { api_key: PROJECT_KEY, event: 'without a person' })
  const make = (path: string, body: object) =>
    askApi<{ readonly id: number }>(daemon, 'POST', `projects/1/${path}/`, body)
  await make('actions', { name: 'Signed up', tags: ['goal'], steps: [{ event: 'signed up' }] })
  const isPro = { key: 'plan', value: 'never', operator: 'exact', type: 'person' }
  await make('feature_flags', {
    key: 'checkout',
    active: true,
    filters: { groups: [{ properties: [isPro], rollout_percentage: 100 }] },
  })
  await make('feature_flags', {
    key: 'ramp',
    active: true,
    filters: { groups: [{ properties: [], rollout_percentage: 10 }] },
  })
  const { id } = await make('dashboards', { name: 'Sales' })
  const series = [{ kind: 'EventsNode', event: 'signed up' }]
  await make('insights', {
    name: 'Sign-ups',
    query: { kind: 'TrendsQuery', series },
    dashboards: [id],
    saved: true,
  })
}

if (window !== null) {
  await fill()
  const { page } = window
  const dialog = page.getByRole('dialog')
  let [clicks, fields, keys] = [0, 0, 0]
  const button = (name: string | RegExp, within: Locator = page.locator('body')) =>
    within.getByRole('button', { name, exact: typeof name === 'string' })
  async function click(target: Locator): Promise<void> {
    clicks++
    await target.first().click()
  }
  /** Chooses an option of a menu of the browser. */
  async function choose(label: string, option: string): Promise<void> {
    clicks += 2
    await page.getByLabel(label, { exact: true }).selectOption(option)
  }
  /** Chooses a suggestion of a field: the first click opens the list, and the second chooses. */
  async function suggest(label: string | RegExp, option: string): Promise<void> {
    await click(page.getByRole('combobox', { name: label, exact: typeof label === 'string' }))
    await click(page.getByRole('option', { name: option }))
  }
  async function type(field: Locator, text: string): Promise<void> {
    fields++
    await field.fill(text)
  }
  async function press(key: string): Promise<void> {
    keys++
    await page.keyboard.press(key)
  }
  const tab = (name: string) => page.locator('.tabs').getByRole('link', { name, exact: true })
  const row = (label: string, text: string) =>
    page.locator(`.table[aria-label="${label}"] tbody tr`).filter({ hasText: text })
  const dropOff = ['$pageview', 'signed up']
    .map((event) => `series=${encodeURIComponent(JSON.stringify({ event }))}`)
    .join('&')

  interface Task {
    readonly name: string
    /** The page on which the task begins. */
    readonly from: string
    /** The most clicks that the task may take. */
    readonly most: number
    /** Carries out the task, and waits until the page shows its result. */
    readonly run: () => Promise<unknown>
  }
  const TASKS: readonly Task[] = [
    {
      name: 'yesterday’s top pages',
      from: 'web',
      most: 0,
      async run() {
        await press('e')
        await page.waitForURL(/range=yesterday/)
        await row('Top pages', '/').first().waitFor()
      },
    },
    {
      name: 'the campaign that brings sign-ups',
      from: 'web',
      most: 2,
      async run() {
        await click(button('Signed up'))
        await click(tab('Campaigns'))
        await page.locator('.table th').filter({ hasText: 'Conversions' }).first().waitFor()
        await row('Campaigns', 'autumn').waitFor()
      },
    },
    {
      name: 'a funnel of three steps with a breakdown, saved',
      from: 'explore',
      most: 8,
      async run() {
        await click(tab('Funnel'))
        await suggest('Step 2', 'signed up')
        await suggest('Add a step', 'purchase')
        await suggest('Break down by property', '$device_type')
        await click(button('Save'))
        await page.getByText(/^Insight “.*” saved\.$/).waitFor()
        await page.getByRole('list', { name: 'Funnel' }).getByText('Mobile').first().waitFor()
      },
    },
    {
      name: 'share a dashboard',
      from: 'dashboards',
      most: 3,
      async run() {
        await click(row('Dashboards', 'Sales'))
        await click(button('Share'))
        await click(page.getByRole('switch', { name: 'Everyone who has the link' }))
        await dialog.locator('code').waitFor()
      },
    },
    {
      name: 'a person by e-mail, and why not the flag',
      from: 'web',
      most: 1,
      async run() {
        await press('Control+k')
        await type(dialog.getByRole('combobox'), EMAIL)
        await press('Enter')
        await page.waitForURL(/persons\/.+/)
        await click(row('Flags', 'checkout'))
        await page.getByText('doesn’t match').waitFor()
      },
    },
    {
      name: 'a flag from 10 to 50 %, with its effect',
      from: 'flags',
      most: 3,
      async run() {
        await click(row('Feature flags', 'ramp').locator('b'))
        await click(button('50 %'))
        await dialog.getByText('Gain the flag').waitFor()
        await click(button('Save now', dialog))
        await page.getByText('ramp is saved.').waitFor()
      },
    },
    {
      name: 'a flag with variants and payloads',
      from: 'flags',
      most: 6,
      async run() {
        await click(button('New flag'))
        await type(dialog.getByLabel('Key'), 'colors')
        await click(button('Create flag', dialog))
        await click(button('Use variants'))
        await type(page.getByLabel('Payload of control'), '{"color":"gray"}')
        await type(page.getByLabel('Payload of test'), '{"color":"red"}')
        const rule = page.getByRole('region', { name: 'Rule 1' })
        await type(rule.getByLabel('Share in %', { exact: true }), '100')
        await click(page.getByLabel('Switch the flag on with this change'))
        await click(button('Review and save'))
        await click(button('Save now', dialog))
        await page.getByText('colors is saved.').waitFor()
      },
    },
    {
      name: 'a cohort of those who drop off',
      from: `explore?way=funnel&${dropOff}`,
      most: 3,
      async run() {
        await click(button(/dropped off$/))
        await click(button('Save as cohort', dialog))
        await click(button('Save', dialog.last()))
        await page.getByText(/^Cohort “.*” with .* saved\.$/).waitFor()
      },
    },
    {
      name: 'invite somebody who may only read',
      from: '/access',
      most: 5,
      async run() {
        await click(tab('Members'))
        await click(button('Invite'))
        await type(dialog.getByLabel('E-mail'), 'reader@example.com')
        await choose('Role', '0')
        await click(button('Create invite link', dialog))
        await dialog.locator('code').waitFor()
      },
    },
    {
      name: 'make a key',
      from: '/access',
      most: 2,
      async run() {
        const keysCard = page.getByRole('region', { name: 'My personal keys', exact: true })
        await click(button('New key', keysCard))
        await type(dialog.getByLabel('Label'), 'Grafana')
        await click(button('Create key', dialog))
        await dialog.locator('code').waitFor()
      },
    },
    {
      name: 'why an event got lost',
      from: 'live',
      most: 2,
      async run() {
        await click(tab('Rejected events'))
        await click(page.getByText('Events without a distinct ID'))
        await page.getByText('without a person').first().waitFor()
      },
    },
    {
      name: 'this month with the last one',
      from: 'web',
      most: 0,
      async run() {
        await press('m')
        await press('x')
        await page.waitForURL(/compare=1/)
        await page.locator('.legend').getByText('Previous period').waitFor()
      },
    },
    {
      name: 'visitors from Germany with a phone',
      from: 'web',
      most: 3,
      async run() {
        await click(row('Countries', 'Germany'))
        await click(tab('Devices'))
        await click(row('Devices', 'Mobile'))
        await page.getByRole('list', { name: 'Filters' }).getByText('Mobile').waitFor()
      },
    },
    {
      name: 'the numbers of a chart as CSV',
      from: 'web',
      most: 1,
      async run() {
        const file = page.waitForEvent('download')
        await click(button('Download CSV: Visitors'))
        await file
      },
    },
    {
      name: 'the time zone',
      from: 'settings',
      most: 1,
      async run() {
        await type(page.getByLabel('Time zone'), 'New York')
        await click(button('Save settings'))
        await page.getByText('Settings saved.').waitFor()
      },
    },
    {
      name: 'delete a person',
      from: 'persons',
      most: 3,
      async run() {
        await click(page.locator('main tbody tr').nth(3).locator('td'))
        await click(button('Delete'))
        await click(button('Delete person', dialog))
        await page.getByText(/^Person deleted/).waitFor()
      },
    },
    {
      name: 'annotate a chart',
      from: 'web',
      most: 2,
      async run() {
        clicks++
        await page.locator('.plot .axis').click({ position: { x: 300, y: 8 } })
        await type(dialog.getByLabel('Text'), 'Newsletter')
        await click(button('Add annotation', dialog))
        await page.locator('.note-mark').first().waitFor()
      },
    },
    {
      name: 'how long events are kept',
      from: 'settings',
      most: 3,
      async run() {
        await type(page.getByLabel('Keep events for this many days'), '20')
        await click(button('Preview'))
        await click(button(/^Delete and keep/))
        await click(button(/^Delete and keep/, dialog))
        await page.getByText(/^Events are kept for 20 days from now on/).waitFor()
      },
    },
  ]

  for (const { name, from, most, run } of TASKS) {
    t.test(name, async (t) => {
      await window.open(from.startsWith('/') ? from : `/p/1/${from}`)
      await window.settled()
      ;[clicks, fields, keys] = [0, 0, 0]
      await run()
      t.comment(`${clicks} clicks, ${fields} fields, ${keys} keys`)
      t.ok(clicks <= most, `${clicks} clicks, and at most ${most}`)
      window.isSilent(t)
    })
  }
}
