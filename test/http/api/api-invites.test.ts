/**
 * Members that are created and invited over HTTP: the required rights, the refusals, and the codes, which work once.
 *
 * @lane quick
 */
import t from 'tap'
import { LOGIN_FAILURES_PER_MINUTE_MAX } from '../../../src/http/server/limits.ts'
import { linesOf, runCommand } from '../../fixtures/command-line.ts'
import { SetClock } from '../../fixtures/console-client.ts'
import { startDecisions } from '../../fixtures/flags/decision-daemon.ts'
import { OrganizationDaemon, resultsOf, textOf } from '../../fixtures/organization-daemon.ts'

const DAY_MS = 86_400_000
const nowMs = Date.now()
const clock = new SetClock()
const daemon = new OrganizationDaemon(
  await startDecisions(t, 1, { 'public-url': 'https://t.example/' }, { clock }),
)
t.teardown(() => daemon.store.close())
const MEMBERS = 'organizations/@current/members/'
const INVITES = 'organizations/@current/invites/'
const ACCEPT = 'console/invites/accept/'

const member = daemon.somebody({ email: 'member@x.example' })
const admin = daemon.somebody({ email: 'admin@x.example', level: 8 })
await daemon.settled()

/** Advances the clock by a minute, so that failures of one test do not count in the next one. */
t.beforeEach(() => clock.pass(60_000))

function error(status: number, code: string, attr: string | null = null) {
  return { status, body: { code, attr } }
}

async function invite(body: object, key?: string): Promise<{ id: string; code: string }> {
  const answer = await daemon.ask('POST', INVITES, body, key)
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return { id: textOf(answer, 'id'), code: textOf(answer, 'link').split('#invite=')[1] ?? '' }
}

async function audited(): Promise<readonly Readonly<Record<string, unknown>>[]> {
  return resultsOf(await daemon.ask('GET', 'organizations/@current/audit_log/'))
}

t.test('a member is created as on the command line', async (t) => {
  const made = await daemon.ask('POST', MEMBERS, {
    email: ' Zoe@x.example ',
    first_name: 'Zoe',
    level: 8,
  })
  t.match(made, {
    status: 201,
    body: { level: 8, user: { email: 'Zoe@x.example', first_name: 'Zoe' } },
  })
  const [entry] = await audited()
  t.match(entry, { method: 'POST', object_id: made.body['id'], status: 201 })
  const listed = linesOf(
    await runCommand('user', 'list', '--json', '--data-dir', daemon.decisions.dataDir),
  )
  t.match(
    listed.find(({ uuid }) => uuid === made.body['id']),
    { level: 'admin', state: 'active' },
  )
  const path = `${MEMBERS}${textOf(made, 'id')}/`
  t.match(await daemon.ask('GET', path), { status: 200, body: { level: 8 } })
  t.match(await daemon.ask('POST', MEMBERS, { email: 'low@x.example' }), { body: { level: 1 } })
  const refused: readonly (readonly [object, string, string])[] = [
    [{}, 'required', 'email'],
    [{ email: 5 }, 'invalid_input', 'email'],
    [{ email: 'nobody' }, 'invalid_input', 'email'],
    [{ email: 'ZOE@x.example' }, 'unique', 'email'],
    [{ email: 'y@x.example', level: 9 }, 'invalid_choice', 'level'],
    [{ email: 'y@x.example', first_name: 'n'.repeat(151) }, 'max_length', 'first_name'],
  ]
  for (const [body, code, attr] of refused) {
    t.match(await daemon.ask('POST', MEMBERS, body), error(400, code, attr), JSON.stringify(body))
  }
  const denied = error(403, 'permission_denied')
  const other = { email: 'y@x.example' }
  t.match(await daemon.ask('POST', MEMBERS, other, member.key), denied)
  t.match(await daemon.ask('POST', MEMBERS, { ...other, level: 15 }, admin.key), denied)
})

t.test('an invitation creates a user with a key, once', async (t) => {
  const draft = { target_email: 'ann@x.example', first_name: 'Ann', level: 8 }
  const made = await daemon.ask('POST', INVITES, draft, admin.key)
  t.match(made, {
    status: 201,
    body: {
      ...draft,
      emailing_attempt_made: false,
      is_expired: false,
      created_by: { id: admin.user.id },
      link: /^https:\/\/t\.example\/#invite=[\w-]{43}$/,
    },
  })
  const { id } = made.body
  t.equal(
    Date.parse(textOf(made, 'expires_at')) - Date.parse(textOf(made, 'created_at')),
    7 * DAY_MS,
  )
  t.match((await audited())[0], { object_id: id, user: { id: admin.user.id }, status: 201 })
  const list = await daemon.ask('GET', INVITES)
  t.match(list, { status: 200, body: { count: 1, results: [{ id, link: null }] } })
  const code = textOf(made, 'link').split('#invite=')[1]
  t.notMatch(JSON.stringify(list.body), code ?? '', 'the code is shown once')

  const accepted = await daemon.ask('POST', ACCEPT, { code, first_name: 'Anna' }, null)
  t.match(accepted, {
    status: 201,
    body: {
      user: { email: 'ann@x.example', first_name: 'Anna' },
      personal_api_key: { scopes: ['*'] },
    },
  })
  const { value } = accepted.body['personal_api_key'] as { value: string }
  t.match(await daemon.ask('GET', 'users/@me/', undefined, value), {
    status: 200,
    body: { email: 'ann@x.example', organization: { membership_level: 8 } },
  })
  const { uuid } = accepted.body['user'] as { uuid: string }
  t.match((await audited())[0], {
    route: '/api/console/invites/accept/',
    object_id: uuid,
    user: null,
    personal_api_key_id: null,
    address: '127.0.0.1',
    status: 201,
  })
  const count = (await audited()).length
  const used = await daemon.ask('POST', ACCEPT, { code }, null)
  t.match(used, error(400, 'invalid_input', 'code'))
  t.match(
    await daemon.ask('POST', ACCEPT, { code: 'x' }, null),
    error(400, 'invalid_input', 'code'),
  )
  t.match(await daemon.ask('POST', ACCEPT, {}, null), error(400, 'required', 'code'))
  t.equal((await audited()).length, count, 'attempts of strangers leave no entry')
  t.match(await daemon.ask('GET', INVITES), { body: { count: 0 } })
})

t.test('inviting requires a sufficient level', async (t) => {
  const denied = error(403, 'permission_denied')
  const draft = { target_email: 'bob@x.example' }
  for (const method of ['GET', 'POST']) {
    t.match(await daemon.ask(method, INVITES, undefined, member.key), denied, method)
  }
  t.match(await daemon.ask('POST', INVITES, { ...draft, level: 15 }, admin.key), denied)
  const refused: readonly (readonly [object, string, string])[] = [
    [{}, 'required', 'target_email'],
    [{ target_email: 'nobody' }, 'invalid_input', 'target_email'],
    [{ target_email: 'MEMBER@x.example' }, 'unique', 'target_email'],
    [{ ...draft, level: 2 }, 'invalid_choice', 'level'],
    [{ ...draft, first_name: 'n'.repeat(151) }, 'max_length', 'first_name'],
  ]
  for (const [body, code, attr] of refused) {
    t.match(await daemon.ask('POST', INVITES, body), error(400, code, attr), JSON.stringify(body))
  }
})

t.test(
  'an invited key has no more rights and no longer life than the key of the inviter',
  async (t) => {
    const expiresAtMs = nowMs + DAY_MS
    const narrow = daemon.keyOf({ scopes: ['organization:write', 'user:read'], expiresAtMs })
    await daemon.settled()
    const { code } = await invite({ target_email: 'cat@x.example', level: 8 }, narrow)
    const accepted = await daemon.ask('POST', ACCEPT, { code }, null)
    t.match(accepted.body['personal_api_key'], {
      scopes: ['organization:write', 'user:read'],
      expires_at: new Date(expiresAtMs).toISOString().replace('Z', '000Z'),
    })
    const { value } = accepted.body['personal_api_key'] as { value: string }
    t.equal((await daemon.ask('GET', 'users/@me/', undefined, value)).status, 200)
    t.equal((await daemon.ask('GET', 'projects/', undefined, value)).status, 403)
  },
)

t.test(
  'an invitation ends when it is revoked or replaced or when its creator leaves',
  async (t) => {
    const gone = error(400, 'invalid_input', 'code')
    const first = await invite({ target_email: 'dan@x.example' })
    const second = await invite({ target_email: 'DAN@x.example' })
    t.match(await daemon.ask('POST', ACCEPT, { code: first.code }, null), gone, 'replaced')
    t.match(await daemon.ask('DELETE', `${INVITES}${first.id}/`), error(404, 'not_found'))
    t.match(await daemon.ask('DELETE', `${INVITES}5/`), error(404, 'not_found'))
    t.equal((await daemon.ask('DELETE', `${INVITES}${second.id}/`)).status, 204)
    t.match((await audited())[1], { status: 404 })
    t.match(await daemon.ask('POST', ACCEPT, { code: second.code }, null), gone, 'revoked')
    const third = await invite({ target_email: 'dan@x.example', level: 8 }, admin.key)
    t.equal((await daemon.ask('PATCH', `${MEMBERS}${admin.user.uuid}/`, { level: 1 })).status, 200)
    t.match(
      await daemon.ask('POST', ACCEPT, { code: third.code }, null),
      gone,
      'the host has no rights any more',
    )
    clock.pass(60_000)
    const fourth = await invite({ target_email: 'dan@x.example' })
    await daemon.ask('POST', MEMBERS, { email: 'dan@x.example' })
    t.match(
      await daemon.ask('POST', ACCEPT, { code: fourth.code }, null),
      error(400, 'unique', 'email'),
      'a user with that name exists by now',
    )
  },
)

t.test('an address that guesses codes must wait, and a valid code does not count', async (t) => {
  t.match(
    await daemon.ask('POST', ACCEPT, { code: 'x'.repeat(65) }, null),
    error(400, 'max_length', 'code'),
  )
  for (let count = 0; count < LOGIN_FAILURES_PER_MINUTE_MAX; count++) {
    t.equal((await daemon.ask('POST', ACCEPT, { code: `x${count}` }, null)).status, 400)
  }
  const { code } = await invite({ target_email: 'eve@x.example' })
  const late = await daemon.ask('POST', ACCEPT, { code }, null)
  t.match(late, { ...error(429, 'throttled'), headers: { 'retry-after': /^\d+$/ } })
  clock.pass(60_000)
  t.equal((await daemon.ask('POST', ACCEPT, { code }, null)).status, 201)
})
