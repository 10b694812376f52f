/**
 * Passwords in Chromium: setting one after a login with a link, logging in with it, changing it, and accepting an
 * invitation with one.
 *
 * @lane browser
 */
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'
import { type ConsoleWindow, openWindow, startConsole } from '../fixtures/console.ts'
import { PERSONAL_KEY } from '../fixtures/daemon.ts'
import { jsonOf, send } from '../fixtures/exact-client.ts'

const PASSWORD = 'correct horse battery'
const OTHER = 'another long password'
const EMAIL = 'owner@passwords.example'

const { daemon, dataDir, browser } = await startConsole(t)

/** Fills in the form of the login page. */
async function logInWith(window: ConsoleWindow, email: string, password: string): Promise<void> {
  await window.page.getByLabel('E-mail').fill(email)
  await window.page.getByLabel('Password', { exact: true }).fill(password)
  await window.press('Log in')
}

/** Opens the menu of the user, which stays open while a dialog asks for a password. */
async function openMenu(page: ConsoleWindow['page']): Promise<void> {
  const isOpen = await page.getByRole('button', { name: 'Log out', exact: true }).isVisible()
  if (!isOpen) await page.getByRole('button', { name: /^Account of/ }).click()
}

/** Sets a password in the menu of the user. */
async function choosePassword(
  { page, press, answer }: Pick<ConsoleWindow, 'page' | 'press' | 'answer'>,
  label: string,
  fields: Readonly<Record<string, string>>,
): Promise<void> {
  await openMenu(page)
  await press(label)
  for (const [name, value] of Object.entries(fields)) await page.getByLabel(name).fill(value)
  await answer('Save the password')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

async function loggedIn({ page }: ConsoleWindow): Promise<void> {
  await page.getByRole('button', { name: /^Account of/ }).waitFor()
}

if (browser === null) {
  t.pass('there is no browser')
} else {
  await t.test(
    'a user sets a password after a link, logs in with it, and changes it',
    async (t) => {
      await runCommand('user', 'set', '1', '--email', EMAIL, '--data-dir', dataDir)
      const { out } = await runCommand(
        'login-link',
        '--data-dir',
        dataDir,
        '--base-url',
        daemon.url,
      )
      const window = await openWindow(browser, { url: daemon.url, key: null })
      const bound = {
        page: window.page,
        press: window.press.bind(window),
        answer: window.answer.bind(window),
      }
      await window.page.goto(daemon.url)
      await window.page.getByLabel('E-mail').waitFor()
      // The browser only changes the fragment of the address.
      await window.page.goto(out.trim())
      await loggedIn(window)
      await choosePassword(bound, 'Set a password', { 'New password': PASSWORD })
      await openMenu(window.page)
      await window.press('Log out')
      await logInWith(window, EMAIL, OTHER)
      await window.page.getByText('The e-mail address or the password is wrong.').waitFor()
      t.ok(window.excuse(/401/) > 0)
      await logInWith(window, EMAIL, PASSWORD)
      await loggedIn(window)
      await choosePassword(bound, 'Change password', {
        'Current password': PASSWORD,
        'New password': OTHER,
      })
      await loggedIn(window)
      window.excuse(/401/)
      // The form for a personal key has no user name.
      window.excuse(/username fields/)
      window.isSilent(t)
      const session = await window.page
        .context()
        .request.get(`${daemon.url}/api/console/session/`, {
          headers: { 'X-Tenrec-Console': '1', Origin: daemon.url },
        })
      t.match(await session.json(), { user: { email: EMAIL }, started_with: 'password' })
    },
  )

  await t.test('an invited user chooses a password and is logged in', async (t) => {
    const email = 'guest@passwords.example'
    const invited = await send(`${daemon.url}/api/organizations/@current/invites/`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${PERSONAL_KEY}` },
      body: JSON.stringify({ target_email: email, level: 1 }),
    })
    const window = await openWindow(browser, { url: daemon.url, key: null })
    await window.page.goto(String((jsonOf(invited) as { link: string }).link))
    await window.page.getByLabel('Your first name').fill('Guest')
    await window.page.getByLabel('Choose a password').fill('short')
    await window.press('Accept the invitation')
    await window.page.getByText('Choose a password with at least 10 characters.').waitFor()
    t.ok(window.excuse(/400/) > 0)
    await window.page.getByLabel('Choose a password').fill(PASSWORD)
    await window.press('Accept the invitation')
    await window.page.getByRole('button', { name: 'Account of Guest' }).waitFor()
    window.excuse(/username fields/)
    window.isSilent(t)
  })
}
