/**
 * Runs the steps of the Playwright example in docs/TESTING-YOUR-APP.md in a browser, with the application from that
 * page.
 *
 * @lane browser
 */
import { mkdirSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { launchBrowser } from '../../fixtures/browser.ts'
import { startDevelopmentDaemon } from '../../fixtures/development-daemon.ts'
import { writePageFiles } from '../../fixtures/page-files.ts'

interface App {
  readonly url: string
  close(): Promise<void>
}

type StartApp = (options: { readonly url: string; readonly key: string }) => Promise<App>

t.test('a click signs up the visitor of the page, and a flag changes the button', async (t) => {
  const browser = await launchBrowser(t)
  if (browser === null) return
  const folder = t.testdir()
  writePageFiles(folder)
  mkdirSync(join(folder, 'node_modules'))
  for (const name of ['posthog-js', 'posthog-node']) {
    symlinkSync(resolve('node_modules', name), join(folder, 'node_modules', name))
  }
  const daemon = await startDevelopmentDaemon(t)
  const { startApp } = (await import(pathToFileURL(join(folder, 'app.mjs')).href)) as {
    readonly startApp: StartApp
  }
  // The application looks for the browser SDK in its working directory.
  const app = await startApp({ url: daemon.ready.url, key: daemon.ready.project_api_key })
  t.teardown(() => app.close())

  const page = await browser.newPage()
  await page.goto(app.url)
  await page.getByRole('button', { name: 'Sign up' }).click()
  const signedUp = await daemon.events({ event: 'signed_up', count: '1', wait: '60000' })
  t.equal(signedUp.count, 1)
  const [{ distinct_id = '' } = {}] = signedUp.results
  const views = { event: '$pageview', distinct_id, count: '1', wait: '60000' }
  t.match(await daemon.events(views), { count_reached: true })

  await daemon.reset()
  const { status } = await daemon.ask('POST', '/api/projects/1/feature_flags/', {
    key: 'new-button',
    active: true,
    filters: { groups: [{ rollout_percentage: 100 }] },
  })
  t.equal(status, 201)
  await page.goto(app.url)
  await page.getByRole('button', { name: 'Join' }).waitFor()
})
