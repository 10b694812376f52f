/**
 * Access to the console in Chromium: sessions, keys, scopes, requests from other origins, and the audit log.
 *
 * @lane browser
 */
import t from 'tap'
import { startSite } from '../fixtures/browser.ts'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture } from '../fixtures/console-data.ts'
import { PERSONAL_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { jsonOf, postJson, send } from '../fixtures/exact-client.ts'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
const HTML = { Accept: 'text/html' }
/** Returns every place in which a page could find a key. */
const READABLE = `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie,
  location.href, document.documentElement.outerHTML])`

const { daemon, browser } = await startConsole(t)
await capture(daemon, [{ event: 'hello', distinct_id: 'ann' }], 1)
await askApi(daemon, 'POST', 'projects/1/feature_flags/', { key: 'seen', name: 'Seen' })

interface Key {
  readonly id: string
  readonly value: string
}

function makeKey(label: string, scopes: readonly string[]): Promise<Key> {
  return askApi(daemon, 'POST', 'personal_api_keys/', { label, scopes })
}

async function statusFor(key: string): Promise<number> {
  const headers = { Authorization: `Bearer ${key}` }
  return (await send(`${daemon.url}/api/users/@me/`, { headers })).status
}

t.test(
  'the console is a page with a content security policy, served only to requests for pages',
  async (t) => {
    for (const path of ['/', '/p/1/flags/7']) {
      const page = await send(`${daemon.url}${path}`, { headers: HTML })
      t.match(page, { status: 200, headers: { 'content-type': /^text\/html/ } })
      t.equal(page.headers['content-security-policy'], POLICY)
    }
    const headers = { Accept: 'application/json' }
    const unknown = await send(`${daemon.url}/p/1/flags/7`, { headers })
    t.equal(unknown.status, 404)
    t.match(jsonOf(unknown), { type: 'invalid_request', code: 'not_found' })
  },
)

t.test('a daemon without a console has neither the page nor sessions', async (t) => {
  const plain = await spawnDaemon({ dataDir: t.testdir(), args: ['--no-console'] })
  t.teardown(() => plain.stop())
  t.equal((await send(`${plain.url}/`, { headers: HTML })).status, 404)
  const session = await postJson(`${plain.url}/api/console/session/`, { key: PERSONAL_KEY })
  t.equal(session.status, 404)
})

if (browser !== null) {
  t.test('a wrong key is reported; a valid key is stored nowhere', async (t) => {
    const window = await openWindow(browser, { url: daemon.url, key: null })
    const { page } = window
    const cookies = () => page.context().cookies()
    await window.open('/p/1/flags?state=true')
    await page.getByText('Log in with a personal key').click()
    await page.getByLabel('Personal API key').fill('phx_wrong')
    await window.press('Log in with the key')
    await page.getByRole('alert').waitFor()
    t.match(await page.getByRole('alert').innerText(), /^The personal API key is not valid\./)
    await page.getByText('Details').click()
    t.match(await page.getByRole('alert').innerText(), 'authentication_failed')
    t.strictSame(await cookies(), [])
    t.ok(window.excuse(/401/) > 0)
    await page.getByLabel('Personal API key').fill(PERSONAL_KEY)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
    await window.settled()
    t.equal(new URL(page.url()).search, '?state=true', 'the browser returns to the requested page')
    t.match(await cookies(), [{ name: 'tenrec', httpOnly: true, sameSite: 'Strict', path: '/' }])
    const [cookie] = await cookies()
    const readable = String(await page.evaluate(READABLE))
    for (const secret of [PERSONAL_KEY, String(cookie?.value)]) t.notOk(readable.includes(secret))
    window.isSilent(t)

    await window.press(/^Account of/)
    await window.press('Log out')
    await page.getByLabel('E-mail').waitFor()
    t.strictSame(await cookies(), [])
    await page.reload()
    await page.getByLabel('E-mail').waitFor()
    t.strictSame(window.complaints, [], 'the browser has no complaints')
  })

  t.test('another origin cannot use the session', async (t) => {
    const { page } = await openWindow(browser, { url: daemon.url })
    const flags = () => askApi<{ count: number }>(daemon, 'GET', 'projects/1/feature_flags/')
    const before = await flags()
    const site = await startSite(
      t,
      '<!doctype html><title>Evil</title>',
      '/none.js',
      Buffer.from(''),
    )
    const statuses: number[] = []
    page.on('response', (response) => {
      if (response.url().includes('/feature_flags/')) statuses.push(response.status())
    })
    // Another port of the same host is the same site, so the browser sends the cookie. The cookie alone must not be
    // enough.
    await page.goto(site)
    await page.evaluate(`fetch('${daemon.url}/api/projects/1/feature_flags/', { method: 'POST',
      mode: 'no-cors', credentials: 'include', body: '{"key":"forged"}' }).catch(() => {})`)
    await page.evaluate(`fetch('${daemon.url}/api/projects/1/feature_flags/', { method: 'POST',
      credentials: 'include', headers: { 'X-Tenrec-Console': '1' }, body: '{"key":"forged"}' })
      .catch(() => {})`)
    await page.goto(`${daemon.url}/robots.txt`)
    await page.evaluate(
      `fetch('/api/projects/1/feature_flags/', { method: 'POST', body: '{"key":"forged"}' })`,
    )
    t.ok(statuses.length >= 2, 'the requests were sent')
    t.notOk(
      statuses.some((status) => status < 400 && status !== 204),
      statuses.join(),
    )
    t.equal((await flags()).count, before.count)
  })

  t.test('a revoked key ends its session at the next click, and the address is kept', async (t) => {
    const { id, value } = await makeKey('soon revoked', ['*'])
    const window = await openWindow(browser, { url: daemon.url, key: value })
    const { page } = window
    await window.open('/p/1/persons')
    await page.locator('main tbody tr').first().waitFor()
    await askApi(daemon, 'DELETE', `personal_api_keys/${id}/`)
    await page.getByRole('link', { name: 'Flags' }).click()
    await page.getByLabel('E-mail').waitFor()
    t.equal(new URL(page.url()).pathname, '/p/1/flags')
    t.ok(window.excuse(/401/) > 0)
    await page.getByText('Log in with a personal key').click()
    await page.getByLabel('Personal API key').fill(PERSONAL_KEY)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
    window.isSilent(t)
  })

  t.test(
    'a user who may only read flags sees no controls for changes and no error messages',
    async (t) => {
      const { value } = await makeKey('reads flags', ['feature_flag:read'])
      const window = await openWindow(browser, { url: daemon.url, key: value })
      const { page } = window
      await window.open('/')
      await page.locator('main tbody tr').first().waitFor()
      t.strictSame(await page.locator('nav.rail li').allInnerTexts(), ['Flags', 'Access'])
      t.equal(await page.getByRole('switch').isDisabled(), true)
      await page.locator('main tbody tr td').last().click()
      await page.getByRole('heading', { name: 'seen' }).waitFor()
      const changes = page.getByRole('button', { name: /save|delete|new|restore|rehearse/i })
      for (const path of [
        page.url(),
        `${page.url()}?tab=history`,
        '/access',
        '/access?tab=sessions',
      ]) {
        await window.open(path.replace(daemon.url, ''))
        await window.settled()
        t.equal(await changes.count(), 0, path)
      }
      t.equal(await page.locator('.toast, [role=alert]').count(), 0)
      window.isSilent(t)
    },
  )

  t.test('a key is shown once, works, and stops working once it is revoked', async (t) => {
    const window = await openWindow(browser, { url: daemon.url })
    const { page } = window
    await window.open('/access')
    await window.press('New key')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Label').fill('for a script')
    await window.answer('Create key')
    const value = await dialog.locator('code').innerText()
    t.match(value, /^phx_/)
    t.equal(await statusFor(value), 200)
    await page.keyboard.press('Escape')
    await page.getByRole('cell', { name: 'for a script' }).waitFor()
    t.notOk(String(await page.evaluate(READABLE)).includes(value), 'shown once')
    const row = page.getByRole('row', { name: /for a script/ })
    await row.getByRole('button', { name: 'Revoke' }).click()
    await window.answer('Revoke')
    await row.waitFor({ state: 'detached' })
    t.equal(await statusFor(value), 401)

    await window.open('/audit')
    await page.locator('main tbody tr').first().waitFor()
    const rows = (await window.rows('Changes')).map((cells) => cells.join(' '))
    for (const [what, source] of [
      ['revoked the personal key', 'Console'],
      ['created the personal key', 'Console'],
    ] as const) {
      const isOf = (cells: string) => cells.includes(what) && cells.includes(source)
      t.ok(rows.some(isOf), `${what} stands in the audit log`, { rows })
    }
    t.notOk(String(await page.evaluate(READABLE)).includes(value))
    window.isSilent(t)
  })
}
