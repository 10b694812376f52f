/**
 * The console in Chromium behind nginx, as OPERATIONS.md sets it up. The configuration is the one on that page, with
 * local addresses. It uses TLS, a public address, and a path for the console.
 *
 * @lane browser
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { launchBrowser } from '../fixtures/browser.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { openWindow } from '../fixtures/console.ts'
import { PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { freePort } from '../fixtures/free-port.ts'
import { isMissing, nginxWords, startProxy } from '../fixtures/proxy.ts'

const HOST = 'events.example.com'
const PUBLIC_URL = `https://${HOST}`

t.teardown(closeConnections)
t.setTimeout(300_000)

/** Returns the nginx block of the documents with each address replaced by a local one. */
function documentedServer(places: Readonly<Record<string, string>>): string {
  const text = readFileSync(new URL('../../docs/OPERATIONS.md', import.meta.url), 'utf8')
  const block = /^```nginx\n([\s\S]*?)^```/m.exec(text)?.[1] ?? ''
  return Object.entries(places).reduce((before, [documented, here]) => {
    t.ok(before.includes(documented), `the documents have ${documented}`)
    return before.replace(documented, here)
  }, block)
}

const skip = isMissing('nginx', '-v') || isMissing('openssl', 'version')
t.test(
  'behind nginx with TLS the console works as it does without a proxy',
  { skip },
  async (t) => {
    const folder = t.testdir({ proxy: {} })
    const port = await freePort()
    const browser = await launchBrowser(t, [`--host-resolver-rules=MAP ${HOST} 127.0.0.1:${port}`])
    if (browser === null) return
    const dataDir = join(folder, 'data')
    const args = ['--public-url', PUBLIC_URL, '--console-path', '/console/']
    const daemon = await spawnDaemon({ dataDir, args })
    t.teardown(() => daemon.stop())
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
    execFileSync(
      'openssl',
      `req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=${HOST} -keyout ${key} -out ${certificate}`.split(
        ' ',
      ),
      { stdio: 'ignore' },
    )
    const server = documentedServer({
      '127.0.0.1:8000': `127.0.0.1:${daemon.port}`,
      'listen 443': `listen 127.0.0.1:${port}`,
      [`/etc/ssl/${HOST}.pem`]: certificate,
      [`/etc/ssl/private/${HOST}.key`]: key,
    })
    const proxy = { folder: join(folder, 'proxy'), port }
    await startProxy(t, 'nginx', nginxWords(proxy.folder, server), proxy)

    const window = await openWindow(browser, {
      url: PUBLIC_URL,
      key: null,
      ignoreHTTPSErrors: true,
    })
    const { page } = window
    const { out: link } = await runCommand('login-link', '--data-dir', dataDir, ...args)
    t.match(link, `${PUBLIC_URL}/console/#login=`)
    await page.goto(link.trim())
    await page.getByRole('link', { name: 'Events', exact: true }).click()
    t.equal(page.url(), `${PUBLIC_URL}/console/p/1/live`)
    t.match(await page.context().cookies(), [
      { name: '__Host-tenrec', secure: true, httpOnly: true, sameSite: 'Strict', path: '/' },
    ])

    await page.getByText('Live', { exact: true }).and(page.locator('.badge')).waitFor()
    for (const event of ['first', 'second']) {
      const body = { api_key: PROJECT_KEY, event, distinct_id: 'ann' }
      t.equal((await postJson(`${daemon.url}/capture/`, body)).status, 200)
      const newest = async () => (await window.rows('Events'))[0]?.[1]
      await window.shows(t, newest, event, 'comes as it is written')
    }
    await page.reload()
    await page.getByRole('cell', { name: 'second', exact: true }).waitFor()

    await page.getByRole('link', { name: 'Flags' }).click()
    await window.press('New flag')
    await page.getByLabel('Key', { exact: true }).fill('behind')
    await window.answer('Create flag')
    await page.getByRole('heading', { name: 'behind' }).waitFor()
    t.match(page.url(), new RegExp(`^${PUBLIC_URL}/console/p/1/flags/\\d+\\?tab=edit$`))
    window.isSilent(t)
    await page.goto(`${PUBLIC_URL}/metrics`)
    t.ok(window.excuse(/404/) > 0, 'metrics are not reachable from outside')
  },
)
