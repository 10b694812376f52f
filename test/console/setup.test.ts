/**
 * The page "Setup" in Chromium: the first steps, the check marks that appear when a step is done, and the note that
 * visitors who are not logged in are not persons by default.
 *
 * @lane browser
 */
import t from 'tap'
import { launchBrowser, startSite } from '../fixtures/browser.ts'
import { openConsole } from '../fixtures/console.ts'
import { PERSONAL_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections } from '../fixtures/exact-client.ts'

/** The SDK treats a browser that reports automation as a bot and sends nothing. */
const NO_ROBOT = ['--disable-blink-features=AutomationControlled']
const USER_AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36'

t.teardown(closeConnections)
t.setTimeout(300_000)

t.test(
  'an event from the shown snippet, sent from another origin, ticks its step on the open page',
  async (t) => {
    const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
    t.teardown(() => daemon.stop())
    const window = await openConsole(t, daemon)
    const browser = await launchBrowser(t, NO_ROBOT)
    if (window === null || browser === null) return
    const { page } = window

    await window.open('/')
    await page.waitForURL('**/p/1/setup')
    const first = page.locator('.ticks li').first()
    await first.getByRole('img', { name: 'To do' }).waitFor()
    for (const way of ['<script>', 'PostHog snippet']) {
      await page.getByRole('link', { name: way, exact: true }).click()
      const snippet = await page.locator('pre code').last().innerText()
      t.match(snippet, daemon.url)
      const site = await startSite(
        t,
        `<!doctype html><title>Shop</title><head>${snippet}</head><body>Shop</body>`,
        '/none.js',
        new Uint8Array(),
      )
      const visitor = await browser.newPage({ userAgent: USER_AGENT })
      const answered = visitor.waitForResponse(
        (response) => /\/(e|i\/v0\/e)\//.test(response.url()) && response.ok(),
      )
      await visitor.goto(site)
      await answered
      if (way === '<script>') await first.getByRole('img', { name: 'Done' }).waitFor()
      await visitor.close()
    }
    await window.open('/')
    await page.waitForURL('**/p/1/web')
    const visitors = () => page.locator('.tile-number').first().innerText()
    await window.shows(t, visitors, '2', 'both visitors count')
    const persons = await fetch(`${daemon.url}/api/projects/1/persons/`, {
      headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    })
    t.match(await persons.json(), { count: 0 })
    window.isSilent(t)
  },
)
