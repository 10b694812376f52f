/**
 * Shared pages in a browser: a page with the console's program, the static page for browsers without JavaScript, and
 * the page of a link that does not work. Other clients get static pages and JSON.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { consoleFolder } from '../../fixtures/console-client.ts'
import { type RequestOptions, send } from '../../fixtures/exact-client.ts'
import { startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const BROWSER = { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }
const HOSTILE = `</title><script>alert(1)</script><img src=x onerror="alert(1)">$&$1`
const ESCAPED =
  '&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;$&amp;$1'
const INDEX = readFileSync(new URL('../../../src/console/index.html', import.meta.url), 'utf8')

const files = { consoleFolder: consoleFolder(t, { 'index.html': INDEX }) }
const daemon = await startDecisions(t, 1, {}, files)
const insight = await made('insights/', {
  name: HOSTILE,
  query: { kind: 'TrendsQuery', series: [{ event: 'secret event' }] },
})
const board = await made('dashboards/', {
  name: HOSTILE,
  description: HOSTILE,
  tiles: [{ insight }, { text: { body: HOSTILE } }],
})
const sharing = `dashboards/${board}/sharing/`
const token = await share()

async function made(path: string, body: object): Promise<number> {
  return Number((await daemon.api('POST', path, 1, body)).body['id'])
}

async function share(): Promise<string> {
  const { body } = await daemon.api('PATCH', sharing, 1, { enabled: true })
  return String(body['access_token'])
}

async function open(path: string, headers: RequestOptions['headers'] = BROWSER) {
  const answer = await send(`${daemon.url}${path}`, { headers })
  return { ...answer, text: answer.body.toString() }
}

t.test(
  'a browser gets a page that loads the program of the console and holds no content',
  async (t) => {
    for (const place of ['shared', 'embedded']) {
      const { status, headers, text } = await open(`/${place}/${token}`)
      t.equal(status, 200)
      t.match(headers, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-robots-tag': 'noindex',
        'cross-origin-opener-policy': 'same-origin',
        'permissions-policy': /camera=\(\)/,
        'x-content-type-options': 'nosniff',
      })
      t.match(text, `<title>${ESCAPED}</title>`)
      t.match(text, '<html data-shared lang="en">')
      t.match(text, '<script type="module" blocking="render" src="/assets/app.js"></script>')
      t.equal(text.split('<script').length - 1, 1, 'no other script')
      t.notMatch(text, /secret event|<img/)
      t.match(
        text,
        `<noscript><meta http-equiv="refresh" content="0; url=/${place}/${token}?plain=1"></noscript>`,
      )
      t.match(
        text,
        `<noscript><a href="/${place}/${token}?plain=1">Show the numbers as tables</a></noscript>`,
      )
    }
  },
)

t.test('a browser without JavaScript, and any other client, gets the static page', async (t) => {
  const pages = [
    await open(`/shared/${token}?plain=1`),
    await open(`/shared/${token}`, {}),
    await open(`/shared/${token}`, { Accept: '*/*' }),
  ]
  for (const { status, headers, text } of pages) {
    t.equal(status, 200)
    t.match(headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-[^']+';/)
    t.match(text, `<h1>${ESCAPED}</h1>`)
    t.notMatch(text, /<script|<img/)
  }
  const { headers, text } = await open(`/shared/${token}.json`)
  t.equal(headers['content-type'], 'application/json')
  t.match(JSON.parse(text), { dashboard: { name: HOSTILE } })
})

t.test('a link that opens nothing is a page for browsers and JSON for other clients', async (t) => {
  await daemon.api('PATCH', sharing, 1, { enabled: false })
  for (const name of [token, `${token}x`, 'x', 'a'.repeat(32)]) {
    for (const suffix of ['', '?plain=1']) {
      const { status, headers, text } = await open(`/shared/${name}${suffix}`)
      t.equal(status, 404, name)
      t.equal(headers['content-type'], 'text/html; charset=utf-8')
      t.match(headers, { 'cache-control': 'no-store', 'x-robots-tag': 'noindex' })
      t.match(headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-/)
      t.match(text, '<h1>This link opens nothing</h1>')
    }
    const answers = [await open(`/shared/${name}`, {}), await open(`/shared/${name}.json`)]
    for (const { status, text } of answers) {
      t.equal(status, 404)
      t.match(JSON.parse(text), { code: 'not_found' })
    }
  }
  t.equal(await share(), token)
  t.equal((await open(`/shared/${token}`)).status, 200)
})

t.test('a daemon without a console gives browsers the static page', async (t) => {
  const plain = await startDecisions(t, 1, { console: 'false' })
  const { body } = await plain.api('POST', 'dashboards/', 1, { name: 'Board' })
  const path = `dashboards/${String(body['id'])}/sharing/`
  const shared = await plain.api('PATCH', path, 1, { enabled: true })
  const url = `${plain.url}/shared/${String(shared.body['access_token'])}`
  const answer = await send(url, { headers: BROWSER })
  t.match(answer.body.toString(), '<h1>Board</h1>')
})
