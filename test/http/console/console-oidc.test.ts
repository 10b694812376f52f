/**
 * Logins with OpenID Connect: who may log in, what a login is bound to, and which answers of a provider are refused.
 *
 * @lane all
 */
import t from 'tap'
import {
  PENDING_LOGIN_MS_MAX,
  PENDING_LOGINS_OF_ADDRESS_MAX,
  PROVIDER_KNOWN_MS_MAX,
  PROVIDER_PAUSE_MS_MAX,
} from '../../../src/http/console/limits.ts'
import { type ConsoleClient, SetClock, startConsole } from '../../fixtures/console-client.ts'
import type { JsonAnswer } from '../../fixtures/flags/decision-daemon.ts'
import {
  type Deviation,
  type Fault,
  type Person,
  providerConfig,
  startIdentityProvider,
} from '../../fixtures/identity-provider.ts'

const HOUR_MS = 3_600_000
const clock = new SetClock()
const provider = await startIdentityProvider(t)
const { daemon, store, browser } = await startConsole(
  t,
  { config: providerConfig(t, provider.issuer, { oidc_label: 'Log in with Example' }) },
  clock,
)
let people = 0

/** Advances the clock, so that failures of one test do not count in the next one. */
t.beforeEach(() => clock.pass(HOUR_MS))

/** Creates a user, and returns a person with the address of the user. */
async function newPerson(): Promise<Person & { readonly id: number; readonly email: string }> {
  const email = `person-${++people}@example.com`
  const { id } = store.users.create({ email })
  await daemon.settled()
  return { id, sub: `sub ${people}`, email, email_verified: true }
}

async function begin(client: ConsoleClient, json: object = {}): Promise<string> {
  const { body } = await client.ask('POST', 'console/oidc/start/', { json })
  return String(body['url'])
}

function finish(client: ConsoleClient, callback: string): Promise<JsonAnswer> {
  return client.ask('POST', 'console/oidc/finish/', { json: { callback } })
}

/** Logs a person in with a new browser. */
async function logIn(
  person: Person,
  deviation: Deviation = {},
): Promise<{ answer: JsonAnswer; client: ConsoleClient }> {
  const client = browser()
  const url = await begin(client)
  return { answer: await finish(client, provider.authorize(url, person, deviation)), client }
}

/** Returns the audit entries, newest first. */
function auditEntries() {
  return store.audit.list({ limit: 10, offset: 0 }).results
}

t.test('a user logs in with the verified address of an account', async (t) => {
  const { id, ...person } = await newPerson()
  const client = browser()
  t.match(await client.ask('GET', 'console/oidc/'), { body: { label: 'Log in with Example' } })
  const started = await client.ask('POST', 'console/oidc/start/', {
    json: { return_to: '/p/1/explore?x=1' },
  })
  const [cookie = ''] = started.headers['set-cookie'] ?? []
  t.match(cookie, /^tenrec-login=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=600$/)
  const url = new URL(String(started.body['url']))
  t.equal(url.origin, provider.issuer)
  t.match(Object.fromEntries(url.searchParams), {
    response_type: 'code',
    client_id: 'tenrec',
    redirect_uri: `${daemon.url}/login/oidc`,
    scope: 'openid email profile',
    code_challenge_method: 'S256',
    nonce: /^[\w-]{43}$/,
    state: /^[\w-]{43}$/,
  })
  const answer = await finish(client, provider.authorize(url.href, person))
  t.match(answer, {
    status: 200,
    body: {
      return_to: '/p/1/explore?x=1',
      session: { user: { email: person.email }, started_with: 'oidc', has_password: false },
    },
  })
  t.match(await client.ask('GET', 'users/@me/'), { status: 200, body: { email: person.email } })
  const [login, link] = auditEntries()
  t.match(login, {
    source: 'console',
    userId: id,
    keyId: null,
    route: '/api/console/oidc/finish/',
    status: 200,
  })
  t.match(link, {
    source: 'console',
    userId: id,
    address: '127.0.0.1',
    route: '/api/console/oidc/link/',
    objectId: store.users.list().find((user) => user.id === id)?.uuid,
  })
})

t.test('after the first login the account counts, not its address', async (t) => {
  const person = await newPerson()
  t.equal((await logIn(person)).answer.status, 200)
  const links = store.identities.list().length
  const renamed = { ...person, email: 'renamed@elsewhere.example' }
  t.match((await logIn(renamed)).answer, {
    status: 200,
    body: { session: { user: { email: person.email } } },
  })
  t.equal(store.identities.list().length, links)
  // Somebody who gets the address later must not become this user.
  const heir = { ...person, sub: 'heir' }
  const { answer, client } = await logIn(heir)
  t.match(answer, { status: 403, body: { code: 'permission_denied', detail: /another account/ } })
  t.equal((await client.ask('GET', 'console/session/')).status, 401)
})

t.test('the address may be in the user info', async (t) => {
  const person = await newPerson()
  t.equal((await logIn(person, { isInUserInfo: true })).answer.status, 200)
  const other = await newPerson()
  const deviation = { isInUserInfo: true, userInfoSubject: 'somebody else' }
  t.match((await logIn(other, deviation)).answer, {
    status: 401,
    body: { code: 'authentication_failed' },
  })
})

t.test('people without a user are refused', async (t) => {
  const count = store.users.list().length
  const stranger = { sub: 'stranger', email: 'stranger@example.com', email_verified: true }
  t.match((await logIn(stranger)).answer, {
    status: 403,
    body: { detail: /no user with the e-mail address stranger@example.com/ },
  })
  t.equal(store.users.list().length, count)
  const { id, ...gone } = await newPerson()
  store.users.change(id, { isActive: false })
  await daemon.settled()
  t.match((await logIn(gone)).answer, { status: 403, body: { detail: /inactive/ } })
})

t.test('an invited person becomes a user with the level of the invitation', async (t) => {
  const email = 'invited@example.com'
  const host = store.users.list()[0]
  store.invites.create({
    email: 'Invited@example.com',
    level: 8,
    createdById: host?.id ?? 0,
    scopes: ['*'],
    keyExpiresAtMs: null,
  })
  const invited = { sub: 'invited', email, email_verified: true, given_name: 'Ida' }
  t.match((await logIn(invited)).answer, {
    status: 200,
    body: { session: { user: { email: 'Invited@example.com', first_name: 'Ida', level: 8 } } },
  })
  t.strictSame(store.invites.list(), [])
})

t.test('an address that is not verified is refused', async (t) => {
  const { id: _, ...person } = await newPerson()
  for (const email_verified of [false, undefined, 'false', 1]) {
    const { answer } = await logIn({ ...person, email_verified })
    t.match(answer, { status: 403, body: { detail: /not verified/ } })
    clock.pass(HOUR_MS)
  }
  const { email: __, ...without } = person
  t.match((await logIn(without)).answer, { status: 403, body: { detail: /did not send/ } })
  // The Kelvin sign has the lower case k.
  const user = store.users.create({ email: 'kim@example.com' })
  await daemon.settled()
  clock.pass(HOUR_MS)
  const kelvin = { sub: 'kelvin', email: '\u212aim@example.com', email_verified: true }
  t.equal((await logIn(kelvin)).answer.status, 403)
  t.notOk(store.identities.list().some(({ userId }) => userId === user.id))
})

const UNTRUSTED: Readonly<Record<string, Deviation>> = {
  'a wrong nonce': { claims: { nonce: 'another' } },
  'no nonce': { claims: { nonce: undefined } },
  'another audience': { claims: { aud: 'another client' } },
  'another issuer': { claims: { iss: 'https://elsewhere.example' } },
  'an expired token': { claims: { exp: 1_000_000_000 } },
  'a signature of another key': { isForged: true },
  'no signature': { header: { alg: 'none' } },
  'a symmetric signature': { header: { alg: 'HS256' } },
  'no subject': { claims: { sub: undefined } },
}

t.test('an ID token that cannot be trusted is refused', async (t) => {
  for (const [what, deviation] of Object.entries(UNTRUSTED)) {
    const person = await newPerson()
    const { answer, client } = await logIn(person, deviation)
    t.match(answer, { status: 401, body: { code: 'authentication_failed' } }, what)
    t.equal((await client.ask('GET', 'console/session/')).status, 401, what)
    clock.pass(HOUR_MS)
  }
})

t.test('a login is bound to its browser, and can be finished once', async (t) => {
  const person = await newPerson()
  const client = browser()
  const callback = provider.authorize(await begin(client), person)
  const refused = {
    status: 401,
    body: { code: 'authentication_failed', detail: /another browser/ },
  }
  t.match(await finish(browser(), callback), refused, 'a browser without the cookie')
  const thief = browser()
  await begin(thief)
  t.match(await finish(thief, callback), refused, 'a browser with a cookie of its own')
  const other = callback.replace(/state=.{5}/, 'state=aaaaa')
  t.match(await finish(client, other), refused, 'another state')
  const { cookie } = client
  t.equal((await finish(client, callback)).status, 200)
  client.cookie = cookie
  t.match(await finish(client, callback), refused, 'the same code again')
  // The provider refuses a used code too.
  const replayed = new URLSearchParams(callback)
  replayed.set('state', new URL(await begin(client)).searchParams.get('state') ?? '')
  t.match(await finish(client, replayed.toString()), {
    status: 401,
    body: { detail: /could not be trusted/ },
  })
})

t.test('a login ends after ten minutes', async (t) => {
  const person = await newPerson()
  const client = browser()
  const callback = provider.authorize(await begin(client), person)
  clock.pass(PENDING_LOGIN_MS_MAX)
  t.match(await finish(client, callback), { status: 401, body: { detail: /10 minutes/ } })
})

t.test('two tabs of a browser log in at the same time', async (t) => {
  const person = await newPerson()
  const client = browser()
  const [first, second] = [await begin(client), await begin(client)]
  const { cookie } = client
  t.equal((await finish(client, provider.authorize(first, person))).status, 200)
  const session = client.cookie
  client.cookie = `${session}; ${cookie}`
  t.equal((await finish(client, provider.authorize(second, person))).status, 200)
  t.not(client.cookie, session, 'each login has a new session')
  client.cookie = session
  t.equal((await client.ask('GET', 'console/session/')).status, 200)
})

t.test('a token that a page has planted is not used', async (t) => {
  const client = browser()
  client.cookie = 'tenrec-login=planted'
  await begin(client)
  t.match(client.cookie, /^tenrec-login=[\w-]{43}$/)
})

t.test('only pages of the console can begin and finish a login, and be returned to', async (t) => {
  const client = browser()
  for (const headers of [{ 'X-Tenrec-Console': '' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
    for (const path of ['console/oidc/start/', 'console/oidc/finish/']) {
      const answer = await client.ask('POST', path, { json: { callback: 'code=1' }, headers })
      t.match(answer, { status: 403, body: { code: 'csrf_failed' } })
    }
  }
  for (const page of [
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example/',
    '\\\\evil.example',
    '/\t/evil.example',
    'javascript:alert(1)',
    '',
  ]) {
    const json = { return_to: page }
    const answer = await client.ask('POST', 'console/oidc/start/', { json })
    t.match(answer, { status: 400, body: { attr: 'return_to' } }, JSON.stringify(page))
  }
})

t.test('a refusal of the provider is told, and its text is not', async (t) => {
  const client = browser()
  const stateIn = async () => new URL(await begin(client)).searchParams.get('state') ?? ''
  const query = { error: 'access_denied', error_description: 'Call +1 555' }
  const callback = new URLSearchParams({ ...query, state: await stateIn() }).toString()
  const answer = await finish(client, callback)
  t.match(answer, { status: 401, body: { detail: /refused the login \(access_denied\)/ } })
  t.notMatch(answer.body, { detail: /555/ })
  const strange = { error: 'Call +1 555', state: await stateIn() }
  const other = await finish(client, new URLSearchParams(strange).toString())
  t.match(other, { status: 401, body: { detail: /refused the login\. / } })
})

t.test('a provider that fails delays or ends nothing else', async (t) => {
  const person = await newPerson()
  const faults: readonly Fault[] = ['html', 'huge', 'error', 'redirect']
  for (const path of ['/token', '/userinfo', '/jwks']) {
    for (const fault of faults) {
      // The keys of the provider are cached for a while.
      if (path === '/jwks') continue
      provider.faults.set(path, fault)
      const { answer } = await logIn(person, { isInUserInfo: true })
      t.match(answer, { status: 503, body: { code: 'server_error' } }, `${path} ${fault}`)
      provider.faults.clear()
      t.equal(await browser().logIn(), 200, 'the key still works')
    }
  }
  t.equal((await logIn(person)).answer.status, 200)
})

t.test('a silent provider is given up', async (t) => {
  const person = await newPerson()
  const client = browser()
  const callback = provider.authorize(await begin(client), person)
  provider.faults.set('/token', 'silent')
  const waiting = finish(client, callback)
  t.equal(await browser().logIn(), 200, 'others log in meanwhile')
  t.match(await waiting, { status: 503 })
  provider.faults.clear()
})

t.test('the description of the provider is read at the first login, and kept', async (t) => {
  const discovery = '/.well-known/openid-configuration'
  const fresh = await startIdentityProvider(t)
  const own = new SetClock()
  const config = providerConfig(t, fresh.issuer)
  const { browser } = await startConsole(t, { config }, own)
  const start = () => browser().ask('POST', 'console/oidc/start/', { json: {} })
  const readings = () => fresh.counts.get(discovery) ?? 0
  t.equal(readings(), 0)
  for (const fault of ['html', 'huge', 'error', 'redirect'] as const) {
    fresh.faults.set(discovery, fault)
    t.match(await start(), { status: 503, headers: { 'retry-after': /^\d+$/ } }, fault)
    const before = readings()
    t.equal((await start()).status, 503)
    t.equal(readings(), before, 'a provider that has just failed is not asked again')
    own.pass(PROVIDER_PAUSE_MS_MAX)
  }
  fresh.faults.clear()
  fresh.metadata = { issuer: 'https://elsewhere.example' }
  t.equal((await start()).status, 503)
  own.pass(PROVIDER_PAUSE_MS_MAX)
  fresh.metadata = { authorization_endpoint: 'javascript:alert(1)' }
  t.equal((await start()).status, 503)
  own.pass(PROVIDER_PAUSE_MS_MAX)
  fresh.metadata = {}
  const before = readings()
  const answers = await Promise.all([start(), start(), start()])
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  t.equal(readings(), before + 1)
  own.pass(PROVIDER_KNOWN_MS_MAX)
  fresh.faults.set(discovery, 'error')
  t.equal((await start()).status, 200, 'an outdated description is better than none')
  t.equal(readings(), before + 2)
})

t.test('an address can begin a limited number of logins', async (t) => {
  const person = await newPerson()
  const client = browser()
  const first = await begin(client)
  for (let count = 0; count < PENDING_LOGINS_OF_ADDRESS_MAX; count++) await begin(browser())
  t.equal((await finish(client, provider.authorize(first, person))).status, 401)
  t.equal((await logIn(person)).answer.status, 200)
})

t.test('failed logins of an address are limited', async (t) => {
  const client = browser()
  await begin(client)
  const statuses = []
  for (let count = 0; count < 6; count++) {
    statuses.push((await finish(client, `code=1&state=${count}`)).status)
  }
  t.strictSame(statuses, [401, 401, 401, 401, 401, 429])
})

t.test('an administrator unlinks an account, whose sessions end', async (t) => {
  const { id, ...person } = await newPerson()
  const { client } = await logIn(person)
  const uuid = store.users.list().find((user) => user.id === id)?.uuid
  const owner = browser()
  await owner.logIn()
  const { body } = await owner.ask('GET', 'organizations/@current/identities/')
  const all = body['results'] as readonly { readonly user: { readonly uuid: string } }[]
  t.match(
    all.find(({ user }) => user.uuid === uuid),
    { user: { email: person.email }, issuer: provider.issuer, email: person.email },
  )
  const path = `organizations/@current/identities/${uuid}/`
  t.equal((await client.ask('DELETE', path)).status, 403, 'members cannot')
  t.equal((await owner.ask('DELETE', path)).status, 204)
  t.match(await client.ask('GET', 'console/session/'), {
    status: 401,
    body: { detail: /account at the identity provider was unlinked/ },
  })
  t.equal((await owner.ask('DELETE', path)).status, 404)
  const again = await logIn({ ...person, sub: 'a new account' })
  t.equal(again.answer.status, 200)
  t.equal((await client.ask('GET', 'console/session/')).status, 401, 'the old session stays ended')
})

t.test('a user who leaves loses the account', async (t) => {
  const { id, ...person } = await newPerson()
  const { client } = await logIn(person)
  store.users.change(id, { isActive: false })
  await daemon.settled()
  t.equal((await client.ask('GET', 'console/session/')).status, 401)
  t.notOk(store.identities.list().some(({ userId }) => userId === id))
  store.users.change(id, { isActive: true })
  await daemon.settled()
  t.equal((await client.ask('GET', 'console/session/')).status, 401)
})

t.test('logging out ends the session', async (t) => {
  const person = await newPerson()
  const { client } = await logIn(person)
  const { cookie } = client
  t.equal((await client.ask('DELETE', 'console/session/')).status, 204)
  client.cookie = cookie
  t.equal((await client.ask('GET', 'console/session/')).status, 401)
})

t.test('strangers become viewers if the settings say so, from allowed domains only', async (t) => {
  const config = providerConfig(t, provider.issuer, {
    oidc_new_users: 'viewer',
    oidc_email_domains: ['example.com'],
    public_url: 'https://events.example.com',
  })
  const { store, browser } = await startConsole(t, { config })
  const logIn = async (person: Person) => {
    const client = browser()
    const url = await begin(client)
    t.match(client.cookie, /^__Host-tenrec-login=/)
    const redirect = new URL(url).searchParams.get('redirect_uri')
    t.equal(redirect, 'https://events.example.com/login/oidc')
    return { answer: await finish(client, provider.authorize(url, person)), client }
  }
  const guest = { sub: 'guest', email: 'Guest@Example.com', email_verified: true }
  const { answer, client } = await logIn(guest)
  t.match(answer.body, { session: { user: { email: 'guest@example.com', level: 0 } } })
  t.match(client.cookie, /^__Host-tenrec=/)
  const project = { json: { name: 'mine' } }
  t.equal((await client.ask('POST', 'projects/', project)).status, 403)
  for (const email of ['a@sub.example.com', 'a@example.com.evil.example', 'a@evilexample.com']) {
    const other = await logIn({ sub: email, email, email_verified: true })
    t.match(other.answer, { status: 403, body: { detail: /cannot be used to log in here/ } }, email)
  }
  t.equal(store.users.list().filter(({ level }) => level === 0).length, 1)
})

t.test('without a provider these routes say so', async (t) => {
  const { browser } = await startConsole(t)
  t.match(await browser().ask('GET', 'console/oidc/'), { status: 200, body: { label: null } })
  const started = await browser().ask('POST', 'console/oidc/start/', { json: {} })
  t.match(started, { status: 404, body: { detail: /oidc_issuer/ } })
})
