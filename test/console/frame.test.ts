/**
 * The frame around every page of the console in Chromium: projects that the user may not see, narrow screens, the end of
 * a session, and the page Setup in the navigation rail.
 *
 * @lane browser
 */
import t from 'tap'
import { type ConsoleWindow, openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture } from '../fixtures/console-data.ts'

const { daemon, browser } = await startConsole(t)
await capture(
  daemon,
  [
    { event: 'hello', distinct_id: 'ann' },
    { event: '$identify', distinct_id: 'ann', properties: { $anon_distinct_id: 'before' } },
  ],
  2,
)
const second = await askApi<{ id: number }>(daemon, 'POST', 'projects/', { name: 'Second' })

interface Key {
  readonly id: number
  readonly value: string
}

function makeKey(scopes: readonly string[], projects: readonly number[] | null = null) {
  const label = scopes.join(' ').slice(0, 100)
  return askApi<Key>(daemon, 'POST', 'personal_api_keys/', {
    label,
    scopes,
    scoped_teams: projects,
  })
}

/** Collects the requests of project routes from now on. */
function projectRequests({ page }: ConsoleWindow): readonly string[] {
  const asked: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/projects/')) asked.push(request.url())
  })
  return asked
}

const FRAME = 'main h1'

if (browser !== null) {
  t.test('a project without access is named, and nothing of another project is read', async (t) => {
    const { value } = await makeKey(['*'], [1])
    for (const [key, id] of [
      [undefined, '9'],
      [undefined, '01'],
      [undefined, 'x'],
      [value, String(second.id)],
    ] as const) {
      const window = await openWindow(browser, { url: daemon.url, ...(key && { key }) })
      const { page } = window
      const asked = projectRequests(window)
      for (const path of ['web', 'flags', 'settings', 'persons/1']) {
        await window.open(`/p/${id}/${path}`)
        await page.getByRole('heading', { name: `You have no access to project ${id}` }).waitFor()
        t.equal(await page.locator('main .tile, main form, main table').count(), 0, path)
      }
      await window.press(/Search/)
      await page.getByRole('dialog').getByRole('combobox').fill('hello')
      await page.keyboard.press('Escape')
      t.strictSame(asked, [], `no request about a project below /p/${id}`)
      await window.open(`/p/${id}/flags`)
      await page.locator('main').getByRole('link', { name: 'Default project' }).click()
      await page.waitForURL('**/p/1/flags')
      await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
      await window.settled()
      window.isSilent(t)
      await page.context().close()
    }
  })

  t.test('a page without a project keeps the project that was open before', async (t) => {
    const window = await openWindow(browser, { url: daemon.url })
    const { page } = window
    await window.open(`/p/${second.id}/flags`)
    await page.locator(FRAME).waitFor()
    await page.locator('nav.rail').getByRole('link', { name: 'Health' }).click()
    await page.waitForURL('**/health')
    await page.locator('nav.rail').getByRole('link', { name: 'Cohorts' }).click()
    await page.waitForURL(`**/p/${second.id}/cohorts`)
    await window.settled()
    window.isSilent(t)
  })

  t.test(
    'on a narrow screen the project, all pages and the account are within reach',
    async (t) => {
      const viewport = { width: 390, height: 800 }
      const window = await openWindow(browser, { url: daemon.url, viewport })
      const { page } = window
      await window.open('/p/1/flags')
      await page.locator(FRAME).waitFor()
      const project = page.getByLabel('Project')
      const boxes = await Promise.all(
        [project, page.locator('.rail-search'), page.locator('.user')].map((one) =>
          one.boundingBox(),
        ),
      )
      const [chosen, search, user] = boxes.map(
        (box) => box ?? { x: -1, y: -1, width: 0, height: 0 },
      )
      t.ok(chosen && search && user && chosen.width >= 100, 'the project can be read')
      t.ok(chosen && search && chosen.x + chosen.width <= search.x, 'search does not cover it')
      t.ok(search && user && search.x + search.width <= user.x)
      t.ok(user && user.x + user.width <= viewport.width, 'the account is on the screen')
      await project.selectOption('Second')
      await page.waitForURL(`**/p/${second.id}/flags`)

      const shown = () => page.locator('nav.rail li:visible').count()
      t.equal(await shown(), 4, 'four pages in the bar')
      await window.press('More')
      t.ok((await shown()) >= 12, 'all pages')
      await page.locator('nav.rail').getByRole('link', { name: 'Settings' }).click()
      await page.waitForURL(`**/p/${second.id}/settings`)
      await window.shows(t, shown, 4, 'the bar closes after a choice')
      await window.press(/^Account of/)
      await page.getByLabel('Colors').selectOption('dark')
      const scheme = 'getComputedStyle(document.documentElement).colorScheme'
      t.equal(await page.evaluate(scheme), 'dark')
      await window.press('Log out')
      await page.getByLabel('E-mail').waitFor()
      window.excuse(/401/)
      window.isSilent(t)
    },
  )

  t.test('the file of a page is requested together with the session', async (t) => {
    const other = await openWindow(browser, { url: daemon.url })
    let release: () => void = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    await other.page.route('**/api/console/session/', async (route) => {
      await held
      await route.continue()
    })
    const asked = other.page.waitForRequest(/\/assets\/web-.*\.js$/)
    await other.page.goto(`${daemon.url}/p/1/web`, { waitUntil: 'commit' })
    await asked
    release()
    await other.page.getByRole('heading', { level: 1, name: 'Web' }).waitFor()
    await other.settled()
    other.isSilent(t)
  })

  t.test('the login page says why the session has ended', async (t) => {
    const { id, value } = await makeKey(['feature_flag:read'])
    const window = await openWindow(browser, { url: daemon.url, key: value })
    const { page } = window
    await window.open('/p/1/flags')
    await page.locator(FRAME).waitFor()
    await askApi(daemon, 'DELETE', `personal_api_keys/${id}/`)
    await page.reload()
    await page.getByText('Your session has ended, because its personal key was revoked').waitFor()
    t.ok(window.excuse(/401/) > 0)
    await page.getByText('Log in with a personal key').click()
    await page.getByLabel('Personal API key').fill('phx_wrong')
    await window.press('Log in with the key')
    await page.getByRole('alert').waitFor()
    t.ok(window.excuse(/401/) > 0)
    t.match(new URL(page.url()).pathname, '/p/1/flags')
    window.isSilent(t)
  })

  t.test('Setup leaves the rail when all steps are done', async (t) => {
    // Backups and proxies are not visible to this key.
    const { value } = await makeKey(['project:read', 'event_definition:read', 'feature_flag:write'])
    const window = await openWindow(browser, { url: daemon.url, key: value })
    const { page } = window
    await window.open('/p/1/flags')
    const setup = page.locator('nav.rail').getByRole('link', { name: 'Setup' })
    await setup.waitFor()
    await askApi(daemon, 'POST', 'projects/1/feature_flags/', { key: 'first', name: 'First' })
    await page.reload()
    const stored = () => page.evaluate(`localStorage.getItem('tenrec-setup')`)
    await window.shows(t, stored, '{"1":true}', 'the browser remembers it')
    t.equal(await setup.count(), 0)
    await page.reload()
    await page.locator(FRAME).waitFor()
    t.equal(await setup.count(), 0)
    window.isSilent(t)
  })
}
