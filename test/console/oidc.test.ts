/**
 * Logins with OpenID Connect in Chromium, at a complete provider on this machine: a login that ends on the page the
 * user asked for, logins in two tabs, and a refused login.
 *
 * @lane browser
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { providerConfig } from '../fixtures/identity-provider.ts'
import { startRealProvider } from '../fixtures/real-provider.ts'

const LABEL = 'Log in with Example'
const provider = await startRealProvider(t)
const config = providerConfig(t, provider.issuer, { oidc_label: LABEL })
const { daemon, dataDir, browser } = await startConsole(t, ['--config', config])
await provider.register(daemon.url, {
  ann: { email: 'ann@example.com', email_verified: true, given_name: 'Ann' },
  bob: { email: 'bob@example.com', email_verified: true, given_name: 'Bob' },
})

/** Fills in the pages of the provider. */
async function logInAtProvider(page: Page, login: string): Promise<void> {
  await page.getByPlaceholder('Enter any login').fill(login)
  await page.getByPlaceholder('and password').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
}

/** Agrees that Tenrec may read the address, which the provider asks once. */
async function agree(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Continue' }).click()
}

if (browser === null) {
  t.pass('there is no browser')
} else {
  const person = ['--email', 'ann@example.com', '--first-name', 'Ann']
  await runCommand('user', 'create', ...person, '--data-dir', dataDir)

  await t.test('a user logs in and sees the page that was asked for', async (t) => {
    const window = await openWindow(browser, { url: daemon.url, key: null })
    const { page } = window
    await page.goto(`${daemon.url}/p/1/events?x=1`)
    const tab = await page.context().newPage()
    await tab.goto(daemon.url)
    await tab.getByRole('button', { name: LABEL }).click()
    await tab.getByPlaceholder('Enter any login').waitFor()
    await window.press(LABEL)
    await logInAtProvider(page, 'ann')
    await agree(page)
    await page.getByRole('button', { name: 'Account of Ann' }).waitFor()
    t.equal(page.url(), `${daemon.url}/p/1/events?x=1`)
    await logInAtProvider(tab, 'ann')
    await tab.getByRole('button', { name: 'Account of Ann' }).waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Account of Ann' }).waitFor()
    await page.goBack()
    t.notMatch(page.url(), /code=/)
    window.excuse(/another host|username fields/)
  })

  await t.test('an administrator gives a role in a project, and makes it private', async (t) => {
    const window = await openWindow(browser, { url: daemon.url })
    const { page } = window
    await window.open('/access?tab=people')
    await page.getByRole('cell', { name: provider.issuer }).waitFor()
    await window.open('/access?tab=project')
    await window.press('Add member')
    await page.getByRole('dialog').getByLabel('Member', { exact: true }).selectOption({
      label: 'ann@example.com',
    })
    await page.getByLabel('Role in this project').selectOption({ label: 'viewer' })
    await window.answer('Add member')
    const rows = () => window.rows('Project members')
    const row = ['Ann', 'ann@example.com', 'member', 'viewer', 'Remove']
    await window.shows(t, rows, [row], 'the member is listed')
    await page.keyboard.press('Escape')
    await window.press('Make private')
    await window.answer('Make private')
    await page.getByText('This project is private. Only').waitFor()
    window.isSilent(t)
  })

  await t.test('somebody without a user is told why', async (t) => {
    const window = await openWindow(browser, { url: daemon.url, key: null })
    const { page } = window
    await page.goto(daemon.url)
    await window.press(LABEL)
    await logInAtProvider(page, 'bob')
    await agree(page)
    await page.getByText('There is no user with the e-mail address bob@example.com.').waitFor()
    t.equal(page.url(), `${daemon.url}/`)
    t.ok(window.excuse(/403/) > 0)
    window.excuse(/another host|username fields/)
  })
}
