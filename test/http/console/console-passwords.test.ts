/**
 * Logins with an e-mail address and a password: setting, changing and removing passwords, what they end, and what a
 * stranger can find out.
 *
 * @lane quick
 */
import { randomBytes, scryptSync } from 'node:crypto'
import t from 'tap'
import { PASSWORDS_HASHED_MAX, PASSWORDS_WAITING_MAX } from '../../../src/http/console/limits.ts'
import { Passwords } from '../../../src/http/console/passwords.ts'
import { LINK_PASSWORD_MS_MAX } from '../../../src/http/routes/limits.ts'
import { ACCOUNT_FAILURES_PER_HOUR_MAX } from '../../../src/http/server/limits.ts'
import { PASSWORD_HASH_BYTES, passwordHashText } from '../../../src/rules/access/password.ts'
import { type ConsoleClient, SetClock, startConsole } from '../../fixtures/console-client.ts'
import type { JsonAnswer } from '../../fixtures/flags/decision-daemon.ts'

const PASSWORD = 'correct horse battery'
const OTHER = 'another long password'
const HOUR_MS = 3_600_000
/** The hash of `PASSWORD` at a low cost, for tests that check it many times. */
const CHEAP = cheapHash()
const ACCEPT = 'console/invites/accept/'

const clock = new SetClock()
const { daemon, store, browser } = await startConsole(t, { trusted_proxies: '127.0.0.1' }, clock)
const owner = store.users.list()[0]?.email ?? ''

/** Advances the clock, so that failures of one test do not count in the next one. */
t.beforeEach(() => clock.pass(HOUR_MS))

function cheapHash(): string {
  const form = { costExponent: 4, blockSize: 1, parallelism: 1, salt: randomBytes(16) }
  const hash = scryptSync(PASSWORD, form.salt, PASSWORD_HASH_BYTES, { N: 16, r: 1, p: 1 })
  return passwordHashText({ ...form, hash })
}

/** Creates a user, logs the user in with a link, and returns the address and the browser. */
async function newUser(
  name: string,
): Promise<{ email: string; id: number; client: ConsoleClient }> {
  const email = `${name}@passwords.example`
  const { id } = store.users.create({ email })
  await daemon.settled()
  const client = browser()
  await client.logIn({ code: store.console.createCode(id) })
  return { email, id, client }
}

function setPassword(client: ConsoleClient, json: object): Promise<JsonAnswer> {
  return client.ask('PUT', 'console/password/', { json })
}

t.test('after a login link a user sets a password and logs in with it', async (t) => {
  const { email, client } = await newUser('first')
  t.match((await client.ask('GET', 'console/session/')).body, { has_password: false })
  t.equal((await setPassword(client, { password: PASSWORD })).status, 204)
  t.match((await client.ask('GET', 'console/session/')).body, { has_password: true })
  const other = browser()
  t.equal(await other.logIn({ email: ` ${email.toUpperCase()} `, password: PASSWORD }), 200)
  t.match(await other.ask('GET', 'users/@me/'), { status: 200, body: { email } })
  const sessions = (await other.ask('GET', 'console/sessions/')).body['results']
  t.match(sessions, [
    { started_with: 'password', key_label: null, is_current: true },
    { started_with: 'link', key_label: null, is_current: false },
  ])
})

t.test('a user who sets a password many times at once keeps nobody else waiting', async (t) => {
  const { email, client } = await newUser('eager')
  const count = PASSWORDS_HASHED_MAX + PASSWORDS_WAITING_MAX + 1
  const all = Array.from({ length: count }, (_, number) =>
    setPassword(client, { password: `${PASSWORD} ${number}` }),
  )
  const other = await newUser('patient')
  t.equal((await setPassword(other.client, { password: PASSWORD })).status, 204)
  const answers = await Promise.all(all)
  const done = answers.filter(({ status }) => status === 204)
  t.equal(done.length, 1)
  for (const answer of answers) {
    if (answer.status === 204) continue
    t.match(answer, { status: 429, body: { code: 'throttled' }, headers: { 'retry-after': '2' } })
  }
  const number = answers.findIndex(({ status }) => status === 204)
  t.equal(await browser().logIn({ email, password: `${PASSWORD} ${number}` }), 200)
})

t.test('an invitation is accepted once, however many requests accept it', async (t) => {
  const host = store.users.list()[0]?.id ?? 0
  const email = 'several@passwords.example'
  const { text: code } = store.invites.create({
    email,
    level: 1,
    createdById: host,
    scopes: ['*'],
    keyExpiresAtMs: null,
  })
  const json = { code, password: PASSWORD }
  const all = Array.from({ length: 4 }, () => browser().ask('POST', ACCEPT, { json }))
  const statuses = (await Promise.all(all)).map(({ status }) => status)
  t.strictSame(statuses.sort(), [201, 429, 429, 429])
})

t.test('a wrong password and an unknown address get the same answer', async (t) => {
  const { email, client } = await newUser('secret')
  await setPassword(client, { password: PASSWORD })
  const { email: without } = await newUser('without')
  const { email: inactive, id, client: gone } = await newUser('inactive')
  await setPassword(gone, { password: PASSWORD })
  store.users.change(id, { isActive: false })
  await daemon.settled()
  const bodies = []
  for (const proof of [
    { email, password: OTHER },
    { email: 'nobody@passwords.example', password: PASSWORD },
    { email: without, password: PASSWORD },
    { email: inactive, password: PASSWORD },
  ]) {
    const answer = await browser().ask('POST', 'console/session/', { json: proof })
    t.equal(answer.status, 401)
    t.equal(answer.headers['set-cookie'], undefined)
    bodies.push(answer.body)
  }
  for (const body of bodies) t.strictSame(body, bodies[0])
})

t.test('an incomplete or ambiguous login is refused', async (t) => {
  for (const json of [
    { email: owner },
    { password: PASSWORD },
    { email: owner, password: PASSWORD, key: 'phx_x' },
    { email: owner, password: PASSWORD, code: 'x' },
  ]) {
    t.match(await browser().ask('POST', 'console/session/', { json }), { status: 400 })
  }
  const long = await browser().ask('POST', 'console/session/', {
    json: { email: owner, password: 'x'.repeat(201) },
  })
  t.match(long, { status: 400, body: { attr: 'password' } })
})

t.test('another password ends the sessions of the earlier one, and no others', async (t) => {
  const { email, client } = await newUser('changes')
  await setPassword(client, { password: PASSWORD })
  const first = browser()
  await first.logIn({ email, password: PASSWORD })
  const second = browser()
  await second.logIn({ email, password: PASSWORD })
  const changed = await setPassword(first, { password: OTHER, current_password: PASSWORD })
  t.equal(changed.status, 204)
  for (const ended of [first, second]) {
    t.equal((await ended.ask('GET', 'console/session/')).status, 401)
  }
  t.equal((await client.ask('GET', 'console/session/')).status, 200, 'the session of the link')
  t.equal(await browser().logIn({ email, password: PASSWORD }), 401)
  const third = browser()
  t.equal(await third.logIn({ email, password: OTHER }), 200)
  t.equal((await setPassword(third, { password: null, current_password: OTHER })).status, 204)
  t.equal((await third.ask('GET', 'console/session/')).status, 401)
  t.equal(await browser().logIn({ email, password: OTHER }), 401)
})

t.test('the current password is needed, except soon after a login link', async (t) => {
  const { email, client } = await newUser('current')
  await setPassword(client, { password: PASSWORD })
  t.equal((await setPassword(client, { password: OTHER })).status, 204, 'a fresh link')
  clock.pass(LINK_PASSWORD_MS_MAX)
  const late = await setPassword(client, { password: PASSWORD })
  t.match(late, { status: 400, body: { code: 'required', attr: 'current_password' } })
  const session = browser()
  await session.logIn({ email, password: OTHER })
  const wrong = { password: PASSWORD, current_password: 'not the right one' }
  t.match(await setPassword(session, wrong), {
    status: 400,
    body: { code: 'invalid_input', attr: 'current_password' },
  })
  const weak = { password: 'weak', current_password: OTHER }
  t.match(await setPassword(session, weak), { status: 400, body: { attr: 'password' } })
  t.equal((await session.ask('GET', 'console/session/')).status, 200, 'nothing has changed')
})

t.test('a key with limited rights cannot set a password', async (t) => {
  const { id } = await newUser('limited')
  const limits = [
    { scopes: ['feature_flag:write'] },
    { projectIds: [1] },
    { expiresAtMs: clock.now() + HOUR_MS },
  ]
  for (const limit of limits) {
    const { text } = store.projects.keys.create({ userId: id, ...limit })
    await daemon.settled()
    const client = browser()
    await client.logIn({ key: text })
    t.equal((await setPassword(client, { password: PASSWORD })).status, 403)
  }
  const { text } = store.projects.keys.create({ userId: id })
  await daemon.settled()
  const full = browser()
  await full.logIn({ key: text })
  t.equal((await setPassword(full, { password: PASSWORD })).status, 204)
  const withKey = await daemon.ask('/api/console/password/', {
    method: 'PUT',
    headers: { Authorization: `Bearer ${text}` },
    json: { password: OTHER },
  })
  t.equal(withKey.status, 401, 'only a session of the console can set a password')
})

t.test('guesses at one account are limited, whatever their address', async (t) => {
  const { email, id } = await newUser('guessed')
  store.passwords.set(id, CHEAP)
  const guess = (index: number, password: string) =>
    browser().ask('POST', 'console/session/', {
      json: { email, password },
      headers: { 'X-Forwarded-For': `198.51.${index}.7` },
    })
  for (let index = 0; index < ACCOUNT_FAILURES_PER_HOUR_MAX; index++) {
    t.equal((await guess(index, `guess number ${index}`)).status, 401)
  }
  const limited = await guess(200, PASSWORD)
  t.match(limited, { status: 429, headers: { 'retry-after': /^\d+$/ } })
  t.match(limited.body['detail'], /login link/)
  t.equal(await browser().logIn({ code: store.console.createCode(1) }), 200, 'a link still works')
  clock.pass(HOUR_MS)
  t.equal((await guess(201, PASSWORD)).status, 200)
})

t.test('an invitation is accepted with a password, unless it gives limited rights', async (t) => {
  const invite = (email: string, scopes: readonly string[]) =>
    store.invites.create({ email, level: 1, createdById: 1, scopes, keyExpiresAtMs: null }).text
  const limited = invite('limited.guest@passwords.example', ['event:read'])
  const refused = await browser().ask('POST', ACCEPT, {
    json: { code: limited, password: PASSWORD },
  })
  t.match(refused, { status: 400, body: { attr: 'password' } })
  const email = 'guest@passwords.example'
  const code = invite(email, ['*'])
  const weak = await browser().ask('POST', ACCEPT, { json: { code, password: 'short' } })
  t.match(weak, { status: 400, body: { attr: 'password' } })
  const accepted = await browser().ask('POST', ACCEPT, {
    json: { code, password: PASSWORD, first_name: 'Guest' },
  })
  t.match(accepted, { status: 201, body: { user: { email }, personal_api_key: null } })
  const client = browser()
  t.equal(await client.logIn({ email, password: PASSWORD }), 200)
  t.match(await client.ask('GET', 'users/@me/'), { body: { first_name: 'Guest' } })
  const again = await browser().ask('POST', ACCEPT, { json: { code, password: PASSWORD } })
  t.match(again, { status: 400, body: { attr: 'code' } })
})

t.test('passwords appear in no log, and the audit log names the change', async (t) => {
  const { client } = await newUser('audited')
  await setPassword(client, { password: PASSWORD })
  const owners = browser()
  await owners.logIn()
  const { body } = await owners.ask('GET', 'organizations/@current/audit_log/')
  t.match(body['results'], [
    { method: 'POST', route: '/api/console/session/' },
    { method: 'PUT', route: '/api/console/password/', status: 204 },
  ])
  t.notOk(JSON.stringify(body).includes(PASSWORD))
})

t.test('logins wait for their turn, and too many are refused', async (t) => {
  const passwords = new Passwords()
  t.equal(await passwords.isRight(PASSWORD, await passwords.hash(PASSWORD)), true)
  t.equal(await passwords.isRight(PASSWORD, CHEAP), true)
  t.equal(await passwords.isRight(OTHER, CHEAP), false)
  t.equal(await passwords.isRight(PASSWORD, null), false)
  t.equal(await passwords.isRight(PASSWORD, 'damaged'), false)
  const calls = PASSWORDS_HASHED_MAX + PASSWORDS_WAITING_MAX
  const checks = Array.from({ length: calls }, () => passwords.isRight(PASSWORD, CHEAP))
  await t.rejects(passwords.isRight(PASSWORD, CHEAP), { code: 'server_error' })
  t.strictSame(new Set(await Promise.all(checks)), new Set([true]))
  t.equal(await passwords.isRight(PASSWORD, CHEAP), true, 'afterward there is room again')
})
