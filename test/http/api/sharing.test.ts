/**
 * The restrictions of shared links over HTTP: passwords, an expiry, other ranges and frames. A link shows nothing that
 * its restrictions forbid, in any form. If a link does not work, the answer does not show why.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Passwords } from '../../../src/http/console/passwords.ts'
import {
  ACCOUNT_FAILURES_PER_HOUR_MAX,
  LOGIN_FAILURES_PER_MINUTE_MAX,
} from '../../../src/http/server/limits.ts'
import { SHARE_PASSWORDS_MAX, SHARE_PROOF_MS_MAX } from '../../../src/rules/saved/limits.ts'
import { shareProof } from '../../../src/rules/saved/shared-access.ts'
import { consoleFolder } from '../../fixtures/console-client.ts'
import { type RequestOptions, send } from '../../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const BROWSER = { Accept: 'text/html' }
const SECRET = 'Secret board'
const PASSWORD = 'correct horse'
const INDEX = readFileSync(new URL('../../../src/console/index.html', import.meta.url), 'utf8')

const daemon = await startDecisions(
  t,
  1,
  { trusted_proxies: '127.0.0.0/8' },
  { consoleFolder: consoleFolder(t, { 'index.html': INDEX }) },
)
await daemon.capture([
  { event: 'secret event', distinct_id: 'd', timestamp: new Date().toISOString() },
])

interface Link {
  readonly sharing: string
  readonly token: string
}

/** Creates a shared dashboard with an insight, and returns its link. */
async function share(access: object = {}): Promise<Link> {
  const made = async (path: string, body: object) =>
    Number((await daemon.api('POST', path, 1, body)).body['id'])
  const insight = await made('insights/', {
    name: SECRET,
    query: { kind: 'TrendsQuery', series: [{ event: 'secret event' }] },
  })
  const board = await made('dashboards/', { name: SECRET, tiles: [{ insight }] })
  const sharing = `dashboards/${board}/sharing/`
  const { body } = await daemon.api('PATCH', sharing, 1, { enabled: true, ...access })
  return { sharing, token: String(body['access_token']) }
}

async function open(path: string, headers: RequestOptions['headers'] = {}) {
  const answer = await send(`${daemon.url}${path}`, { headers })
  return { ...answer, text: answer.body.toString() }
}

let lastAddress = 0

/** Sends a password from an address of its own, because failures are limited for each address. */
async function unlock(token: string, password: unknown, address = `10.1.0.${++lastAddress}`) {
  const answer = await send(`${daemon.url}/shared/${token}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Forwarded-For': address },
    body: JSON.stringify({ password }),
  })
  const body = JSON.parse(answer.body.toString()) as Readonly<Record<string, unknown>>
  return { ...answer, body }
}

/** Every form in which a link is read. */
const FORMS: readonly (readonly [path: string, headers: RequestOptions['headers']])[] = [
  ['shared/*', BROWSER],
  ['shared/*?plain=1', BROWSER],
  ['shared/*', {}],
  ['shared/*.json', {}],
  ['shared/*.json?range=7d', {}],
  ['embedded/*', BROWSER],
  ['embedded/*', {}],
  ['embedded/*.json', BROWSER],
]

t.test('a link with a password shows nothing without it', async (t) => {
  const { sharing, token } = await share({ password_required: true })
  const early = await daemon.api('POST', 'dashboards/99/sharing/passwords/', 1, {})
  t.equal(early.status, 404)
  t.match(await unlock(token, PASSWORD), { status: 401 }, 'a link without a password stays closed')
  const made = await daemon.api('POST', `${sharing}passwords/`, 1, {
    raw_password: PASSWORD,
    note: 'for the board',
  })
  t.match(made, { status: 201, body: { password: PASSWORD, note: 'for the board', id: 1 } })
  const shown = await daemon.api('GET', sharing, 1)
  t.match(shown.body, { password_required: true, share_passwords: [{ id: 1, is_active: true }] })
  t.notMatch(JSON.stringify(shown.body), /scrypt|correct horse/)

  for (const [form, headers] of FORMS) {
    for (const proof of ['', 'x', `1.${Date.now() + 9e9}.${'a'.repeat(43)}`]) {
      const own = proof === '' ? headers : { ...headers, Authorization: `Bearer ${proof}` }
      const { status, text } = await open(`/${form.replace('*', token)}`, own)
      t.notMatch(text, /Secret|secret event/, `${form} ${proof}`)
      // The page of the console's program has no content. It asks for the password.
      t.equal(status, form.endsWith('*') && headers === BROWSER ? 200 : 401, form)
    }
  }
  const { text: page } = await open(`/shared/${token}`, BROWSER)
  t.match(page, '<title>Shared page</title>')

  for (const wrong of ['', `${PASSWORD} `]) {
    t.match(await unlock(token, wrong), { status: 401, body: { code: 'authentication_failed' } })
  }
  for (const odd of [null, 7, {}, 'x'.repeat(201)]) {
    t.match(await unlock(token, odd), { status: 400 })
  }
  const { status, body, headers } = await unlock(token, PASSWORD)
  t.equal(status, 200)
  t.match(headers, { 'cache-control': 'no-store' })
  t.notOk('set-cookie' in headers, 'no cookie')
  const proof = { Authorization: `Bearer ${String(body['shareToken'])}` }
  t.match((await open(`/shared/${token}.json`, proof)).text, SECRET)
  t.match((await open(`/embedded/${token}`, proof)).text, SECRET)

  const other = await share({ password_required: true })
  await daemon.api('POST', `${other.sharing}passwords/`, 1, { raw_password: PASSWORD })
  t.equal((await open(`/shared/${other.token}.json`, proof)).status, 401, 'not for another link')
  const renewed = await daemon.api('POST', `${sharing}refresh/`, 1)
  const again = String(renewed.body['access_token'])
  t.equal((await open(`/shared/${again}.json`, proof)).status, 401, 'not for a new link')
  t.equal((await open(`/shared/${token}.json`, proof)).status, 404)
  t.equal((await unlock(token, PASSWORD)).status, 404)

  const fresh = await unlock(again, PASSWORD)
  const next = { Authorization: `Bearer ${String(fresh.body['shareToken'])}` }
  t.equal((await open(`/shared/${again}.json`, next)).status, 200)
  t.equal((await daemon.api('DELETE', `${sharing}passwords/1/`, 1)).status, 204)
  t.equal(
    (await open(`/shared/${again}.json`, next)).status,
    401,
    'a removed password opens nothing',
  )
  await daemon.api('POST', `${sharing}passwords/`, 1, { raw_password: PASSWORD })
  t.equal((await open(`/shared/${again}.json`, next)).status, 401, 'nor the same password later')
  t.equal((await daemon.api('DELETE', `${sharing}passwords/7/`, 1)).status, 404)

  const log = await open('/api/organizations/@current/audit_log/?limit=4', {
    Authorization: `Bearer ${PERSONAL_KEY}`,
  })
  const { results } = JSON.parse(log.text) as { results: readonly object[] }
  const path = /dashboards\/:id\/sharing\/passwords\//
  const board = /\d+/.exec(sharing)?.[0]
  t.match(results, [
    { method: 'DELETE', route: path, status: 404 },
    { method: 'POST', route: path, status: 201, object_id: board },
    { method: 'DELETE', route: path, status: 204, object_id: board },
  ])
})

t.test('passwords have rules, and a link has a few of them', async (t) => {
  const { sharing } = await share()
  const passwords = `${sharing}passwords/`
  const add = (body: object) => daemon.api('POST', passwords, 1, body)
  t.match(await add({}), { status: 400, body: { attr: 'password_required' } })
  await daemon.api('PATCH', sharing, 1, { password_required: true })
  t.match(await add({ raw_password: 'short12' }), { status: 400, body: { attr: 'raw_password' } })
  t.match(await add({ note: 'x'.repeat(101) }), { status: 400, body: { attr: 'note' } })
  const random = await add({ raw_password: '' })
  t.match(random, { status: 201, body: { password: /^[\w-]{20}$/, note: '' } })
  for (let index = 1; index < SHARE_PASSWORDS_MAX; index++) await add({})
  const hashed = t.capture(Passwords.prototype, 'hash')
  t.match(await add({}), { status: 400, body: { code: 'invalid_input' } })
  t.strictSame(hashed(), [], 'a password without room is not hashed')
  const off = await daemon.api('PATCH', sharing, 1, { password_required: false })
  t.match(off.body, { password_required: false })
})

t.test('a proof is bound to the link, to the password and to a time', async (t) => {
  const sharing = { token: 'a'.repeat(32), isEnabled: true, settings: {}, createdAtMs: 0 }
  const { isUnlocked } = await import('../../../src/rules/saved/shared-access.ts')
  const password = { id: 3, hash: 'h', note: '', createdAtMs: 0, createdById: null }
  const access = {
    isPasswordRequired: true,
    passwords: [password],
    expiresAtMs: null,
    isRangeChangeable: false,
    isEmbeddable: false,
  }
  const link = { ...sharing, access }
  const { text } = shareProof(link.token, password, 1000)
  t.ok(isUnlocked(link, text, 1000 + SHARE_PROOF_MS_MAX - 1))
  t.notOk(isUnlocked(link, text, 1000 + SHARE_PROOF_MS_MAX), 'it expires')
  t.notOk(isUnlocked({ ...link, token: 'b'.repeat(32) }, text, 1000))
  const others = [{ ...password, hash: 'i' }]
  t.notOk(isUnlocked({ ...link, access: { ...access, passwords: others } }, text, 1000))
  const [id, until, mac] = text.split('.')
  for (const forged of [
    `4.${until}.${mac}`,
    `${id}.${Number(until) + 1}.${mac}`,
    `${id}.0${until}.${mac}`,
    `${id}.${until}.${'A'.repeat(43)}`,
    `${id}.${until}.`,
    `${text}.`,
  ]) {
    t.notOk(isUnlocked(link, forged, 1000), forged)
  }
})

t.test('failures are limited for each link and each address', async (t) => {
  // Without a password nothing has to be hashed.
  const { token } = await share({ password_required: true })
  let refused = null
  for (let count = 0; count <= ACCOUNT_FAILURES_PER_HOUR_MAX && refused === null; count++) {
    const answer = await unlock(token, 'wrong password')
    if (answer.status === 429) refused = answer
  }
  t.match(refused?.body, { code: 'throttled', detail: /for this shared page/ })
  t.equal((await unlock(token, PASSWORD)).status, 429, 'also for the right password')
  const statuses: unknown[] = []
  for (let count = 0; count <= LOGIN_FAILURES_PER_MINUTE_MAX; count++) {
    const { token: other } = await share({ password_required: true })
    statuses.push((await unlock(other, 'wrong password', '10.2.0.1')).status)
  }
  t.equal(statuses.at(-1), 429)
})

t.test('an expired link looks exactly like one that never was', async (t) => {
  const { sharing, token } = await share({ expires_at: '2999-01-01T00:00:00Z' })
  t.equal((await open(`/shared/${token}.json`)).status, 200)
  const expired = await daemon.api('PATCH', sharing, 1, { expires_at: '2020-01-01T00:00:00Z' })
  t.match(expired.body, { enabled: true, expires_at: '2020-01-01T00:00:00Z' })
  const never = 'a'.repeat(32)
  for (const [form, headers] of FORMS) {
    const [one, other] = await Promise.all(
      [token, never].map((name) => open(`/${form.replace('*', name)}`, headers)),
    )
    t.equal(one?.status, 404, form)
    t.equal(one?.text, other?.text, form)
    const plain = ({ date: _, ...rest }: Readonly<Record<string, unknown>>) => rest
    t.strictSame(plain(one?.headers ?? {}), plain(other?.headers ?? {}), form)
  }
  t.strictSame((await unlock(token, 'x')).body, (await unlock(never, 'x')).body)
  await daemon.api('PATCH', sharing, 1, { expires_at: null })
  t.equal((await open(`/shared/${token}.json`)).status, 200)
  t.match(await daemon.api('PATCH', sharing, 1, { expires_at: 'soon' }), {
    status: 400,
    body: { attr: 'expires_at' },
  })
})

t.test('only a link that allows it shows another range', async (t) => {
  const { sharing, token } = await share()
  const at = (range: string) => open(`/shared/${token}.json?range=${range}`)
  t.equal((await at('7d')).status, 403)
  await daemon.api('PATCH', sharing, 1, { range_changes_allowed: true })
  const own = JSON.parse((await open(`/shared/${token}.json`)).text) as object
  t.match(own, { rangeChangesAllowed: true, dashboard: { filters: {} } })
  const week = JSON.parse((await at('7d')).text) as object
  const filters = { date_from: '-6d', date_to: null }
  t.match(week, { dashboard: { filters, tiles: [{ insight: { result: [{ count: 1 }] } }] } })
  for (const odd of ['2020-01-01', '-999999d', 'constructor', '__proto__']) {
    t.match(await at(odd), { status: 400 }, odd)
  }
  t.match((await open(`/shared/${token}?plain=1&range=yesterday`, BROWSER)).text, '<table>')

  const insight = await daemon.api('POST', 'insights/', 1, {
    name: 'Alone',
    query: {
      kind: 'InsightVizNode',
      source: {
        kind: 'TrendsQuery',
        series: [{ event: 'secret event' }],
        dateRange: { date_from: '2020-01-01', date_to: '2020-01-02' },
      },
    },
  })
  const alone = `insights/${String(insight.body['id'])}/sharing/`
  const { body } = await daemon.api('PATCH', alone, 1, {
    enabled: true,
    range_changes_allowed: true,
  })
  const read = async (query: string) =>
    JSON.parse((await open(`/shared/${String(body['access_token'])}.json${query}`)).text) as object
  t.match(await read(''), { insight: { result: [{ count: 0 }] } })
  t.match(await read('?range=all'), {
    insight: { query: { dateRange: { date_from: 'all' } }, result: [{ count: 1 }] },
  })
})

t.test('only a link that allows it may be in a frame', async (t) => {
  const { sharing, token } = await share({ password_required: true })
  const policies = async () => {
    const forms = FORMS.filter(([, headers]) => headers === BROWSER)
    const pages = forms.filter(([form]) => !form.includes('.json'))
    const answers = await Promise.all(
      pages.map(([form, headers]) => open(`/${form.replace('*', token)}`, headers)),
    )
    return answers.map(
      ({ headers }) =>
        /frame-ancestors ([^;]+)/.exec(String(headers['content-security-policy']))?.[1],
    )
  }
  t.strictSame(new Set(await policies()), new Set(["'none'"]))
  await daemon.api('PATCH', sharing, 1, { password_required: false })
  t.strictSame(new Set(await policies()), new Set(["'none'"]))
  await daemon.api('PATCH', sharing, 1, { embedding_allowed: true })
  t.strictSame(new Set(await policies()), new Set(['*']))
})
