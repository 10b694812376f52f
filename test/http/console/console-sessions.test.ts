/**
 * Sessions of the console over HTTP: login, rights, protection against misuse, and expiry.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { LIVE_STREAMS_OF_SESSION_MAX } from '../../../src/http/routes/limits.ts'
import {
  ConsoleClient,
  consoleFolder,
  FROM_CONSOLE,
  SetClock,
  startConsole,
} from '../../fixtures/console-client.ts'
import { Differences } from '../../fixtures/differences.ts'
import { EventStream } from '../../fixtures/event-stream.ts'
import type { JsonAnswer } from '../../fixtures/flags/decision-daemon.ts'
import { PERSONAL_KEY, serveDecisions } from '../../fixtures/flags/decision-daemon.ts'

const HOUR_MS = 3_600_000
const RULES = 'HttpOnly; SameSite=Strict; Path=/; Max-Age='

const cookieOf = ({ headers }: JsonAnswer) => headers['set-cookie']?.[0] ?? ''

function resultsOf({ body }: JsonAnswer) {
  return body['results'] as readonly Readonly<Record<string, unknown>>[]
}

const clock = new SetClock()
const { daemon, store, browser } = await startConsole(t, {}, clock)

/** Creates a key of the owner as a command does. The daemon knows the key when the promise resolves. */
async function makeKey(request: Parameters<typeof store.projects.keys.create>[0]) {
  const made = store.projects.keys.create(request)
  await daemon.settled()
  return made
}

/** Advances the clock by a minute, so that failures of one test do not count in the next one. */
t.beforeEach(() => clock.pass(60_000))

t.test('a wrong key gets a reason and no cookie', async (t) => {
  const client = browser()
  for (const proof of [{ key: 'phx_wrong' }, { key: '' }, { code: 'wrong' }]) {
    const answer = await client.ask('POST', 'console/session/', { json: proof })
    t.match(answer, { status: 401, body: { code: 'authentication_failed', detail: /./ } })
    t.equal(cookieOf(answer), '')
  }
  for (const proof of [{}, { key: PERSONAL_KEY, code: 'x' }, { key: 7 }]) {
    const answer = await client.ask('POST', 'console/session/', { json: proof })
    t.match(answer, { status: 400, body: { attr: 'key' } })
  }
  t.match(await client.ask('GET', 'console/session/'), {
    status: 401,
    body: { code: 'not_authenticated' },
  })
})

t.test('a session shows the key that started it', async (t) => {
  const client = browser()
  const { text, key } = await makeKey({ label: 'of a session', scopes: ['event:read'] })
  t.equal(await client.logIn({ key: text }), 200)
  t.match(await client.ask('GET', 'personal_api_keys/@current/'), {
    status: 200,
    body: { id: key.id, label: 'of a session', scopes: ['event:read'] },
  })
  const linked = browser()
  t.equal(await linked.logIn({ code: store.console.createCode(1) }), 200)
  t.match(await linked.ask('GET', 'personal_api_keys/@current/'), { status: 404 })
})

t.test('a valid key gets a cookie that scripts cannot read', async (t) => {
  const client = browser()
  const answer = await client.ask('POST', 'console/session/', { json: { key: PERSONAL_KEY } })
  t.match(answer, {
    status: 200,
    body: {
      user: { id: 1, email: String, level: 15 },
      scopes: ['*'],
      projects: [
        { id: 1, api_token: 'phc_project_1', timezone: 'UTC' },
        { id: 2, name: 'Project 2', api_token: 'phc_project_2', timezone: 'UTC' },
      ],
    },
  })
  const expiresAtMs = Date.parse(String(answer.body['expires_at']))
  t.ok(Math.abs(expiresAtMs - clock.now() - 12 * HOUR_MS) < 60_000)
  const [pair = '', ...rules] = cookieOf(answer).split('; ')
  t.match(pair, /^tenrec=[\w-]{43}$/)
  t.equal(rules.join('; '), `${RULES}${7 * 24 * 3600}`)
  t.notOk(JSON.stringify(answer.body).includes(PERSONAL_KEY))
  const same = await client.ask('GET', 'console/session/')
  t.match(same, { status: 200, body: { user: { id: 1 }, scopes: ['*'] } })
  t.equal((await client.ask('GET', 'users/@me/')).status, 200)
  t.equal((await client.ask('GET', 'projects/1/feature_flags/')).status, 200)
})

t.test('a session is found among the other cookies of its host', async (t) => {
  const client = browser()
  t.equal(await client.logIn(), 200)
  const { cookie } = client
  for (const Cookie of [`${cookie}; theme=dark`, `theme=dark; ${cookie}`, `a=b;${cookie};c=d`])
    t.equal((await client.ask('GET', 'users/@me/', { headers: { Cookie } })).status, 200, Cookie)
  const Cookie = `x${cookie}; theme=${cookie}`
  t.equal((await client.ask('GET', 'users/@me/', { headers: { Cookie } })).status, 401)
})

t.test('with TLS the cookie is bound to this host and never sent unencrypted', async (t) => {
  const client = browser()
  const tls = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'events.example' }
  const answer = await client.ask('POST', 'console/session/', {
    json: { key: PERSONAL_KEY },
    headers: tls,
  })
  t.match(cookieOf(answer), /^__Host-tenrec=[\w-]{43}; .*; Path=\/; .*; Secure$/)
  t.equal((await client.ask('GET', 'console/session/', { headers: tls })).status, 200)
  t.equal((await client.ask('GET', 'console/session/')).status, 401, 'not sent unencrypted')
  client.cookie = client.cookie.replace('__Host-', '')
  t.equal((await client.ask('GET', 'console/session/', { headers: tls })).status, 401)
})

t.test(
  'a request that does not come from the console is refused and changes nothing',
  async (t) => {
    const client = browser()
    await client.logIn()
    const { length: keysBefore } = store.projects.keys.list()
    const json = { label: 'forged', scopes: ['*'] }
    const own = `http://127.0.0.1:${daemon.daemon.port}`
    const forged: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
      ['no header', { 'X-Tenrec-Console': '' }],
      ['another header', { 'X-Tenrec-Console': '0' }],
      ['another site', { 'Sec-Fetch-Site': 'cross-site' }],
      ['a neighbor of the site', { 'Sec-Fetch-Site': 'same-site' }],
      ['typed by hand', { 'Sec-Fetch-Site': 'none' }],
      ['another origin', { 'Sec-Fetch-Site': '', Origin: 'https://evil.example' }],
      ['the same host with another port', { 'Sec-Fetch-Site': '', Origin: 'http://127.0.0.1:1' }],
      ['an opaque origin', { 'Sec-Fetch-Site': '', Origin: 'null' }],
      ['own origin, another site', { 'Sec-Fetch-Site': 'cross-site', Origin: own }],
    ]
    const differences = new Differences()
    const refused = { status: 403, body: { code: 'csrf_failed' } }
    for (const [name, headers] of forged) {
      for (const method of ['POST', 'GET']) {
        const path = method === 'GET' ? 'users/@me/' : 'personal_api_keys/'
        const body = method === 'GET' ? {} : { json }
        const answer = await client.ask(method, path, { ...body, headers })
        differences.match(answer, refused, `${method}: ${name}`)
      }
      const logOut = await client.ask('DELETE', 'console/session/', { headers })
      differences.equal(logOut.status, 403, `logout: ${name}`)
      const proof = { key: PERSONAL_KEY }
      const logIn = await client.ask('POST', 'console/session/', { json: proof, headers })
      differences.match(logIn, refused, `login: ${name}`)
      differences.equal(cookieOf(logIn), '', `login: ${name}: the cookie`)
    }
    t.strictSame(differences.list(), [], 'every forged request is refused')
    const silent = { 'Sec-Fetch-Site': '' }
    const unnamed = await client.ask('POST', 'personal_api_keys/', { json, headers: silent })
    t.equal(unnamed.status, 403, 'a change without an origin')
    t.equal(store.projects.keys.list().length, keysBefore)
    const read = await client.ask('GET', 'users/@me/', { headers: silent })
    t.equal(
      read.status,
      200,
      'browsers send no origin when they read their own origin over plain HTTP',
    )
    const headers = { ...silent, Origin: own }
    const made = await client.ask('POST', 'personal_api_keys/', { json, headers })
    t.equal(made.status, 201, 'the own origin is allowed')
  },
)

t.test('other origins are refused, and public routes ignore the cookie', async (t) => {
  const client = browser()
  await client.logIn()
  const Origin = 'https://evil.example'
  const preflight = await client.ask('OPTIONS', 'console/session/', { headers: { Origin } })
  const names = Object.keys(preflight.headers).filter((name) => name.startsWith('access-control-'))
  t.strictSame(names, [])
  const captured = await daemon.ask('/capture/', {
    json: { event: 'x', distinct_id: 'y' },
    headers: { Cookie: client.cookie, 'X-Tenrec-Console': '1' },
  })
  t.equal(captured.status, 401)
})

t.test('a key in the request has priority over the session', async (t) => {
  const client = browser()
  await client.logIn()
  const headers = { Authorization: 'Bearer phx_wrong' }
  t.equal((await client.ask('GET', 'users/@me/', { headers })).status, 401)
  const keyed = { Authorization: `Bearer ${PERSONAL_KEY}`, 'X-Tenrec-Console': '' }
  t.equal((await client.ask('GET', 'users/@me/', { headers: keyed })).status, 200)
  t.equal((await client.ask('GET', 'console/session/', { headers: keyed })).status, 403)
  client.cookie = ''
  t.equal((await client.ask('GET', 'console/session/', { headers: keyed })).status, 401)
})

t.test('a session has the current rights of its key', async (t) => {
  const { text, key } = await makeKey({ scopes: ['feature_flag:read'], projectIds: [2] })
  const client = browser()
  const answer = await client.ask('POST', 'console/session/', { json: { key: text } })
  t.match(answer.body, { scopes: ['feature_flag:read'], projects: [{ id: 2 }] })
  t.equal((answer.body['projects'] as readonly object[]).length, 1)
  const flags = (project: number) => client.ask('GET', `projects/${project}/feature_flags/`)
  t.equal((await flags(2)).status, 200)
  t.match(await flags(1), { status: 403, body: { code: 'permission_denied' } })
  const json = { key: 'new', filters: { groups: [{ properties: [], rollout_percentage: 9 }] } }
  const write = () => client.ask('POST', 'projects/2/feature_flags/', { json })
  t.match(await write(), { status: 403, body: { code: 'permission_denied' } })
  for (const path of ['projects/', 'users/@me/', 'console/sessions/', 'personal_api_keys/']) {
    t.equal((await client.ask('GET', path)).status, 403, path)
  }
  store.projects.keys.change(key.id, { scopes: ['feature_flag:write'] })
  await daemon.settled()
  t.equal((await write()).status, 201)
  t.strictSame((await client.ask('GET', 'console/session/')).body['scopes'], ['feature_flag:write'])
  t.equal((await client.ask('DELETE', 'console/session/')).status, 204, 'a key without rights')
})

t.test('a session ends with its key and with its user', async (t) => {
  const opened = async (request: Parameters<typeof makeKey>[0]) => {
    const made = await makeKey(request)
    const client = browser()
    t.equal(await client.logIn({ key: made.text }), 200)
    return { ...made, ask: () => client.ask('GET', 'users/@me/') }
  }
  const endedBy = (reason: RegExp) => ({ status: 401, body: { detail: reason } })
  const owner = browser()
  await owner.logIn()
  const revoked = await opened({})
  t.equal((await owner.ask('DELETE', `personal_api_keys/${revoked.key.id}/`)).status, 204)
  t.match(await revoked.ask(), endedBy(/because its personal key was revoked/), 'at once')
  const rolled = await opened({})
  t.equal((await owner.ask('POST', `personal_api_keys/${rolled.key.id}/roll/`)).status, 200)
  t.match(await rolled.ask(), endedBy(/because its personal key was revoked or replaced/))
  const expiring = await opened({ expiresAtMs: clock.now() + HOUR_MS })
  clock.pass(HOUR_MS)
  t.match(await expiring.ask(), endedBy(/its personal key .* has expired/))
  const user = store.users.create({ email: 'ann@example.com' })
  const anns = await opened({ userId: user.id })
  const linked = browser()
  t.equal(await linked.logIn({ code: store.console.createCode(user.id) }), 200)
  store.users.change(user.id, { isActive: false })
  await daemon.settled()
  t.match(await anns.ask(), endedBy(/because its user was deactivated/))
  t.match(await linked.ask('GET', 'users/@me/'), endedBy(/because its user was deactivated/))
  t.equal(await browser().logIn({ code: store.console.createCode(user.id) }), 401)
})

t.test(
  'a session ends after 12 hours without a request, and after 7 days in any case',
  async (t) => {
    const idle = browser()
    await idle.logIn()
    const busy = browser()
    await busy.logIn()
    const status = async (client: ConsoleClient) => (await client.ask('GET', 'users/@me/')).status
    for (let hours = 0; hours < 7 * 24 - 11; hours += 11) {
      t.equal(await status(busy), 200, `after ${hours} hours`)
      // The time of use is written after the answer.
      const { id } = resultsOf(await busy.ask('GET', 'console/sessions/'))[0] ?? {}
      await daemon.until(async () => {
        const [own] = store.console.list(1, clock.now()).filter((session) => session.id === id)
        store.refresh()
        return own !== undefined && clock.now() - own.lastSeenAtMs < HOUR_MS
      })
      clock.pass(11 * HOUR_MS)
      if (hours === 11) {
        t.match(await idle.ask('GET', 'users/@me/'), {
          status: 401,
          body: { detail: /because it was not used for 12 hours/ },
        })
      }
    }
    const late = await busy.ask('GET', 'console/session/')
    const leftMs = Date.parse(String(late.body['expires_at'])) - clock.now()
    t.ok(late.status === 200 && leftMs < 12 * HOUR_MS, 'the remaining hours are reported')
    clock.pass(leftMs + 1000)
    t.match(await busy.ask('GET', 'users/@me/'), {
      status: 401,
      body: { code: 'authentication_failed', detail: /because you logged in more than 7 days ago/ },
    })
  },
)

t.test('a stream or an idle page does not keep a session alive', async (t) => {
  const client = browser()
  await client.logIn()
  const alone = { 'X-Tenrec-Console': 'unattended' }
  const headers = { ...FROM_CONSOLE, ...alone, Cookie: client.cookie }
  const stream = await EventStream.open(`${daemon.url}/api/projects/1/events/stream/`, headers)
  t.teardown(() => stream.close())
  clock.pass(11 * HOUR_MS)
  t.equal((await client.ask('GET', 'users/@me/', { headers: alone })).status, 200)
  // Streams are checked every second, on the clock that was advanced.
  await sleep(1500)
  clock.pass(HOUR_MS)
  await stream.ended
  t.equal((await client.ask('GET', 'users/@me/', { headers: alone })).status, 401)
})

t.test('each tab has its own stream, and one too many closes the oldest', async (t) => {
  const client = browser()
  await client.logIn()
  const headers = { ...FROM_CONSOLE, Cookie: client.cookie }
  const streams: EventStream[] = []
  t.teardown(() => {
    for (const stream of streams) stream.close()
  })
  const open = async () => {
    const url = `${daemon.url}/api/projects/1/events/stream/?event=${streams.length}`
    streams.push(await EventStream.open(url, headers))
  }
  for (let tab = 0; tab <= LIVE_STREAMS_OF_SESSION_MAX; tab++) await open()
  await streams[0]?.ended
  t.match(streams[0]?.messages.at(-1), { event: 'replaced', data: { detail: /a newer one/ } })
  const events = streams.map((_, tab) => ({ event: String(tab), distinct_id: 'ann' }))
  await daemon.capture(events.map((event) => ({ ...event, properties: {} })))
  for (const [tab, stream] of streams.entries()) {
    if (tab === 0) continue
    await stream.have(1)
    t.strictSame(
      stream.events.map(({ event }) => event),
      [String(tab)],
    )
  }
})

t.test('the time of use is written at most once a minute', async (t) => {
  const client = browser()
  await client.logIn()
  const seen = async () => {
    const rows = resultsOf(await client.ask('GET', 'console/sessions/'))
    return rows.find((row) => row['is_current'])?.['last_seen_at']
  }
  const first = await seen()
  clock.pass(50_000)
  t.equal(await seen(), first)
  clock.pass(11_000)
  await daemon.until(async () => (await seen()) !== first)
})

t.test('users can list and end their own sessions', async (t) => {
  const user = store.users.create({ email: 'bob@example.com' })
  const { text } = await makeKey({ userId: user.id, label: 'laptop' })
  const weak = await makeKey({ userId: user.id, scopes: ['personal_api_key:write'] })
  const [first, second, third] = [browser(), browser(), browser()]
  const headers = { 'User-Agent': `Browser ${'x'.repeat(400)}`, 'X-Forwarded-For': '192.0.2.7' }
  await first.ask('POST', 'console/session/', { json: { key: text }, headers })
  await second.logIn({ code: store.console.createCode(user.id) })
  await third.logIn({ key: weak.text })
  const rows = resultsOf(await first.ask('GET', 'console/sessions/'))
  t.match(rows, [
    { key_label: 'Personal key', is_current: false },
    { key_label: null, is_current: false, address: '127.0.0.1' },
    { key_label: 'laptop', is_current: true, address: '192.0.2.7', user_agent: /^Browser x{292}$/ },
  ])
  t.equal(rows.length, 3, 'sessions of other users are not shown')
  t.notMatch(JSON.stringify(rows), /hash|token/)
  const [, linked, own] = rows.map(({ id }) => `console/sessions/${String(id)}/`)
  t.match(
    await third.ask('DELETE', linked ?? ''),
    { status: 403 },
    'a key with fewer rights cannot end a session with more rights',
  )
  t.equal((await first.ask('DELETE', linked ?? '')).status, 204)
  t.match(await second.ask('GET', 'console/session/'), {
    status: 401,
    body: { detail: /because you logged out, or it was ended on the page Access/ },
  })
  t.equal((await first.ask('DELETE', linked ?? '')).status, 404)
  const stranger = browser()
  await stranger.logIn()
  t.equal((await stranger.ask('DELETE', own ?? '')).status, 404, 'a session of another user')
  const out = await first.ask('DELETE', 'console/session/')
  t.equal(out.status, 204)
  t.equal(cookieOf(out), `tenrec=; ${RULES}0`)
  t.equal(resultsOf(await third.ask('GET', 'console/sessions/')).length, 1)
})

t.test('the number of sessions of a user is limited', async (t) => {
  const user = store.users.create({ email: 'carl@example.com' })
  const { text } = await makeKey({ userId: user.id })
  const clients = Array.from({ length: 51 }, browser)
  const statuses = new Set<number>()
  for (const client of clients) {
    statuses.add(await client.logIn({ key: text }))
    clock.pass(1)
  }
  t.strictSame([...statuses], [200], 'all users are logged in')
  for (const [index, status] of [
    [0, 401],
    [1, 200],
    [50, 200],
  ] as const) {
    const answer = await clients[index]?.ask('GET', 'console/session/')
    t.equal(answer?.status, status, `session ${index}`)
  }
})

t.test('a code works once and expires after ten minutes', async (t) => {
  const code = store.console.createCode(1)
  const client = browser()
  const answer = await client.ask('POST', 'console/session/', { json: { code } })
  t.match(answer, { status: 200, body: { user: { id: 1 }, scopes: ['*'] } })
  const json = { label: 'x', scopes: ['*'] }
  t.equal((await client.ask('POST', 'personal_api_keys/', { json })).status, 201, 'all rights')
  t.equal(await browser().logIn({ code }), 401)
  const late = store.console.createCode(1)
  clock.pass(600_001)
  t.equal(await browser().logIn({ code: late }), 401)
  const oldest = store.console.createCode(1)
  // Of several codes from the same millisecond any may be the oldest.
  clock.pass(1)
  const others = Array.from({ length: 100 }, () => store.console.createCode(1))
  t.equal(
    await browser().logIn({ code: oldest }),
    401,
    'if there are too many codes, the oldest becomes invalid',
  )
  t.equal(await browser().logIn({ code: others.at(-1) ?? '' }), 200)
})

t.test('after five failures in a minute the address must wait', async (t) => {
  const client = browser()
  const tryKey = (key: string, address: string) => {
    const headers = { 'X-Forwarded-For': address }
    return client.ask('POST', 'console/session/', { json: { key }, headers })
  }
  for (let count = 0; count < 8; count++) {
    t.equal((await tryKey(PERSONAL_KEY, '192.0.2.1')).status, 200, 'successful logins do not count')
  }
  for (let count = 0; count < 5; count++) t.equal((await tryKey('x', '192.0.2.1')).status, 401)
  const refused = await tryKey(PERSONAL_KEY, '192.0.2.1')
  t.match(refused, { status: 429, body: { code: 'throttled' } })
  t.match(refused.headers['retry-after'], /^(?:1[012]|[1-9])$/)
  t.equal((await tryKey(PERSONAL_KEY, '192.0.2.2')).status, 200, 'other addresses do not wait')
  clock.pass(12_000)
  t.equal((await tryKey(PERSONAL_KEY, '192.0.2.1')).status, 200)
})

t.test('logins, changes and logouts are in the audit log', async (t) => {
  const client = browser()
  const headers = { 'X-Forwarded-For': '192.0.2.9' }
  const ask = (method: string, path: string, json?: unknown) =>
    client.ask(method, path, { headers, ...(json === undefined ? {} : { json }) })
  await ask('POST', 'console/session/', { key: 'phx_wrong' })
  await ask('POST', 'console/session/', { key: PERSONAL_KEY })
  await ask('POST', 'personal_api_keys/', { label: 'of the console', scopes: ['*'] })
  const entries = async () =>
    resultsOf(await ask('GET', 'organizations/@current/audit_log/?limit=3'))
  const [made, begun, before] = await entries()
  const same = { source: 'console', user: { id: 1 }, personal_api_key_id: 1, address: '192.0.2.9' }
  t.match(made, { ...same, method: 'POST', route: '/api/personal_api_keys/', status: 201 })
  const session = { route: '/api/console/session/', object_id: /^\d+$/ }
  t.match(begun, { ...same, ...session, method: 'POST', status: 200 })
  t.not(before?.['status'], 401, 'failed logins of strangers are not logged')
  await ask('DELETE', 'console/session/')
  const code = store.console.createCode(1)
  await ask('POST', 'console/session/', { code })
  const [linked, ended] = await entries()
  t.match(ended, { ...same, ...session, method: 'DELETE', status: 204 })
  t.match(linked, { source: 'console', user: { id: 1 }, personal_api_key_id: null, status: 200 })
  t.notMatch(JSON.stringify(await entries()), new RegExp(`${code}|${client.cookie}`))
})

t.test('sessions survive a restart, and only hashes of them are stored', async (t) => {
  const client = browser()
  await client.logIn()
  const code = store.console.createCode(1)
  await daemon.stop()
  await store.close()
  const again = await serveDecisions(
    t,
    daemon.dataDir,
    {},
    { clock, consoleFolder: consoleFolder(t) },
  )
  const after = new ConsoleClient(again)
  after.cookie = client.cookie
  t.equal((await after.ask('GET', 'users/@me/')).status, 200)
  t.equal(await new ConsoleClient(again).logIn({ code }), 200)
  after.cookie = `tenrec=${'A'.repeat(43)}`
  t.equal((await after.ask('GET', 'users/@me/')).status, 401)
})
