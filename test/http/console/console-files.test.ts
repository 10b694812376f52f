/**
 * The console's files over HTTP: the served paths, their types, encodings and cache times, and the paths that are
 * refused.
 *
 * @lane quick
 */
import t from 'tap'
import { consoleFolder, startConsole } from '../../fixtures/console-client.ts'
import { type RequestOptions, send } from '../../fixtures/exact-client.ts'
import { startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
const BROWSER = { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }
const KEPT = 'public, max-age=31536000, immutable'

t.test('a daemon with a console', async (t) => {
  const { daemon } = await startConsole(t)
  const get = (path: string, options?: RequestOptions) => send(`${daemon.url}${path}`, options)

  t.test('the root is a page under a strict policy for every client', async (t) => {
    for (const headers of [BROWSER, {}, { Accept: '*/*' }]) {
      const answer = await get('/', { headers })
      t.equal(answer.status, 200)
      t.match(answer.body.toString(), '<!doctype html>')
      t.match(answer.headers, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': POLICY,
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'permissions-policy': /camera=\(\)/,
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-cache',
        etag: /^W\/"/,
      })
    }
    const foreign = await get('/', { headers: { Origin: 'https://evil.example' } })
    t.notOk(Object.keys(foreign.headers).some((name) => name.startsWith('access-control-')))
  })

  t.test('the page is revalidated, and answered without a body if it is unchanged', async (t) => {
    const { etag = '' } = (await get('/')).headers
    const again = await get('/', { headers: { 'If-None-Match': etag } })
    t.equal(again.status, 304)
    t.equal(again.body.length, 0)
    t.equal(again.headers['content-security-policy'], POLICY)
  })

  t.test(
    'a file with a hash in its name is cached indefinitely and sent in the best encoding',
    async (t) => {
      const encodings = [
        ['', 'as it is', undefined],
        ['gzip, deflate, br', 'as brotli', 'br'],
        ['gzip', 'as gzip', 'gzip'],
        ['br;q=0, gzip', 'as gzip', 'gzip'],
      ] as const
      for (const [accepted, body, encoding] of encodings) {
        const headers = accepted === '' ? {} : { 'Accept-Encoding': accepted }
        const answer = await get('/assets/app-0A1B2C3D.js', { headers })
        t.equal(answer.status, 200)
        t.equal(answer.body.toString(), body)
        t.equal(answer.headers['content-encoding'], encoding)
        t.equal(answer.headers['cache-control'], KEPT)
        t.equal(answer.headers.vary, 'Accept-Encoding')
        t.equal(answer.headers['content-type'], 'text/javascript; charset=utf-8')
      }
      const style = await get('/assets/app-0A1B2C3D.css', { headers: { 'Accept-Encoding': 'br' } })
      t.equal(
        style.body.toString(),
        'body{}',
        'a file without a compressed version is sent as it is',
      )
      t.equal(style.headers['content-type'], 'text/css; charset=utf-8')
      const head = await get('/assets/app-0A1B2C3D.js', { method: 'HEAD' })
      t.match(head, { status: 200, headers: { 'content-length': '8' } })
    },
  )

  t.test('a client-side path returns the page, for browsers only', async (t) => {
    for (const path of ['/p/1/web', '/p/1/person/a%40b.example', '/access/', '/p/1/web?range=7d']) {
      t.match((await get(path, { headers: BROWSER })).body.toString(), '<!doctype html>', path)
      for (const Accept of ['application/json', 'application/json, text/html', '*/*']) {
        const json = await get(path, { headers: { Accept } })
        t.equal(json.status, 404, `${path} ${Accept}`)
        t.match(JSON.parse(json.body.toString()), { code: 'not_found' })
      }
      t.equal((await get(path, { method: 'POST', headers: BROWSER })).status, 404)
    }
  })

  t.test('the paths of the API and of SDKs are unchanged', async (t) => {
    const { url } = daemon
    for (const path of ['/api', '/api/nothing/', '/api/console/nothing/']) {
      const answer = await get(path, { headers: BROWSER })
      t.match(JSON.parse(answer.body.toString()), { code: 'not_found' }, path)
    }
    t.equal((await get('/api/projects/', { headers: BROWSER })).status, 401)
    t.equal(
      (await get('/decide/', { headers: BROWSER })).headers['content-type'],
      'application/json',
    )
    t.equal((await get('/_livez', { headers: BROWSER })).status, 200)
    const script = await get('/static/array.js', { headers: BROWSER })
    t.notMatch(script.headers['content-type'], /html/)
    const posted = await send(`${url}/capture/`, { method: 'POST', headers: BROWSER, body: '{}' })
    t.equal(posted.headers['content-type'], 'application/json')
  })

  t.test(
    'robots are excluded, browsers find the icon, and /console redirects to the root',
    async (t) => {
      t.equal((await get('/robots.txt')).body.toString(), 'User-agent: *\nDisallow: /\n')
      const icon = await get('/favicon.ico')
      t.match(icon, { status: 200, headers: { 'content-type': 'image/svg+xml' } })
      t.equal(icon.headers['cache-control'], 'no-cache')
      for (const path of ['/console', '/console/']) {
        t.match(await get(path), { status: 302, headers: { location: '/' } })
      }
    },
  )

  t.test('no other file in or around the folder is served', async (t) => {
    const paths = [
      '/notes.txt',
      '/assets/app-0A1B2C3D.js.br',
      '/assets/',
      '/assets',
      '/package.json',
    ]
    for (const path of [
      ...paths,
      '/..%2fpackage.json',
      '/assets/..%2findex.html',
      '//index.html',
    ]) {
      t.equal((await get(path)).status, 404, path)
    }
  })
})

t.test('a console below another path', async (t) => {
  const { daemon } = await startConsole(t, { 'console-path': '/see/it' })
  const page = await send(`${daemon.url}/see/it/`)
  t.equal(page.status, 200)
  t.match(page.body.toString(), 'src="/see/it/assets/app-0A1B2C3D.js"')
  t.equal((await send(`${daemon.url}/see/it/assets/app-0A1B2C3D.js`)).status, 200)
  for (const path of ['/see/it', '/console']) {
    t.match(await send(daemon.url + path), { status: 302, headers: { location: '/see/it/' } })
  }
  t.equal((await send(`${daemon.url}/see/it/p/1/web`, { headers: BROWSER })).status, 200)
  for (const path of ['/', '/p/1/web', '/assets/app-0A1B2C3D.js', '/see/itself']) {
    t.equal((await send(daemon.url + path, { headers: BROWSER })).status, 404, path)
  }
  t.equal((await send(`${daemon.url}/robots.txt`)).status, 200)
})

t.test('a disabled console', async (t) => {
  const { daemon, store, browser } = await startConsole(t, { console: 'false' })
  for (const path of ['/', '/console', '/p/1/web', '/robots.txt', '/favicon.ico']) {
    const answer = await send(daemon.url + path, { headers: BROWSER })
    t.equal(answer.status, 404, path)
    t.match(JSON.parse(answer.body.toString()), { code: 'not_found' })
  }
  const client = browser()
  t.equal(await client.logIn(), 404)
  t.equal(await client.logIn({ code: store.console.createCode(1) }), 404)
  t.equal((await client.ask('GET', 'console/sessions/')).status, 404)
  client.cookie = 'tenrec=whatever'
  t.equal((await client.ask('GET', 'projects/')).status, 401, 'a cookie is not a key')
})

t.test('a build without a console starts and reports it', async (t) => {
  const folders = [consoleFolder(t, {}), new URL('nothing/', consoleFolder(t, {}))]
  for (const folder of folders) {
    const daemon = await startDecisions(t, 1, {}, { consoleFolder: folder })
    const answer = await send(`${daemon.url}/`)
    t.equal(answer.status, 404)
    t.match(JSON.parse(answer.body.toString()), {
      code: 'not_found',
      detail: /no console.*npm run build/,
    })
    t.equal((await send(`${daemon.url}/_readyz`)).status, 200)
    await daemon.stop()
  }
})
