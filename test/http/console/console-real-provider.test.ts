/**
 * Logins with OpenID Connect at a complete provider, whose pages this test walks through as a browser does.
 *
 * @lane all
 */
import t from 'tap'
import { SetClock, startConsole } from '../../fixtures/console-client.ts'
import { providerConfig } from '../../fixtures/identity-provider.ts'
import { startRealProvider } from '../../fixtures/real-provider.ts'

const provider = await startRealProvider(t)
const { daemon, store, browser } = await startConsole(
  t,
  { config: providerConfig(t, provider.issuer) },
  new SetClock(),
)
store.users.create({ email: 'ann@example.com', firstName: 'Ann' })
await daemon.settled()
await provider.register(daemon.url, {
  ann: { email: 'ann@example.com', email_verified: true, given_name: 'Ann' },
  bob: { email: 'bob@example.com', email_verified: true, given_name: 'Bob' },
  carl: { email: 'ann@example.com', email_verified: false, given_name: 'Carl' },
})

/** Walks through the pages of the provider, and returns the query with which it sends the browser back. */
async function walk(start: string, login: string): Promise<string> {
  const cookies = new Map<string, string>()
  const forms = [{ prompt: 'login', login, password: 'any' }, { prompt: 'consent' }]
  let url = start
  while (!url.startsWith(daemon.url)) {
    const isForm = new URL(url).pathname.startsWith('/interaction/')
    const form = isForm ? forms.shift() : undefined
    const response = await fetch(url, {
      method: form === undefined ? 'GET' : 'POST',
      body: form === undefined ? null : new URLSearchParams(form as Record<string, string>),
      headers: { Cookie: [...cookies].map((pair) => pair.join('=')).join('; ') },
      redirect: 'manual',
    })
    for (const line of response.headers.getSetCookie()) {
      const [name = '', value = ''] = (line.split(';')[0] ?? '').split('=')
      cookies.set(name, value)
    }
    const to = response.headers.get('location')
    if (to === null) throw new Error(`${response.status} ${url}: ${await response.text()}`)
    url = new URL(to, url).href
  }
  return new URL(url).search.slice(1)
}

async function logIn(login: string) {
  const client = browser()
  const { body } = await client.ask('POST', 'console/oidc/start/', { json: { return_to: '/p/2' } })
  const callback = await walk(String(body['url']), login)
  const answer = await client.ask('POST', 'console/oidc/finish/', { json: { callback } })
  return { answer, callback, client }
}

t.test('a user logs in, and the code of the login cannot be used again', async (t) => {
  const { answer, callback, client } = await logIn('ann')
  t.match(answer, {
    status: 200,
    body: { return_to: '/p/2', session: { user: { email: 'ann@example.com' } } },
  })
  t.match(new URLSearchParams(callback).get('iss'), provider.issuer)
  t.match(await client.ask('GET', 'users/@me/'), { status: 200 })
  const other = browser()
  const { body } = await other.ask('POST', 'console/oidc/start/', { json: {} })
  const state = new URL(String(body['url'])).searchParams.get('state') ?? ''
  const replayed = new URLSearchParams(callback)
  replayed.set('state', state)
  const json = { callback: replayed.toString() }
  t.match(await other.ask('POST', 'console/oidc/finish/', { json }), { status: 401 })
})

t.test('the answer of another provider is refused', async (t) => {
  const client = browser()
  const { body } = await client.ask('POST', 'console/oidc/start/', { json: {} })
  const callback = new URLSearchParams(await walk(String(body['url']), 'ann'))
  callback.set('iss', 'https://elsewhere.example')
  const json = { callback: callback.toString() }
  t.match(await client.ask('POST', 'console/oidc/finish/', { json }), { status: 401 })
})

t.test('unknown people and unverified addresses are refused', async (t) => {
  t.match((await logIn('bob')).answer, { status: 403, body: { detail: /no user/ } })
  t.match((await logIn('carl')).answer, { status: 403, body: { detail: /not verified/ } })
})
