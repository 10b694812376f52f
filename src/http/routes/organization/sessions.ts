/**
 * The routes of the console's sessions. A user can log in with a personal key, a password, the code of a login link or
 * OpenID Connect, list and end sessions, and set a password. A session has the rights of the key with which it was
 * started. Without a key, it has all rights of its user. docs/compatibility/console.md, "Sessions".
 */
import { ServiceError } from '../../../base/errors.ts'
import { KEY_CHARACTERS_MAX } from '../../../base/limits.ts'
import { timeText } from '../../../base/time.ts'
import { type ConsoleSessionView, SESSION_PROOFS } from '../../../rules/access/console-session.ts'
import { passwordObstacle } from '../../../rules/access/password.ts'
import { cookieWriter, requireConsole } from '../../console/cookie.ts'
import { userOf } from '../../server/auth.ts'
import {
  ANYBODY,
  BY_SESSION,
  type Call,
  callerWith,
  done,
  emptyAnswer,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import { json } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import {
  EMAIL_TEXT_CHARACTERS_MAX,
  LINK_PASSWORD_MS_MAX,
  LOGIN_CODE_CHARACTERS_MAX,
  PASSWORD_CHARACTERS_MAX,
} from '../limits.ts'
import { requireContained } from './keys.ts'
import { OIDC_ROUTES } from './oidc.ts'
import { ask, change } from './organization-services.ts'
import {
  addressOf,
  originOf,
  SESSION,
  type SessionServices,
  sessionBody,
  sessionsOf,
  startedSession,
} from './session-answers.ts'

type OwnCall = Call<SessionServices>
type LoginCall = Call<SessionServices, is.Schema, typeof PROOF>
type PasswordCall = Call<SessionServices, is.Schema, typeof NEW_PASSWORD>

const LISTED = is.namedObject('OpenConsoleSession', {
  id: is.WHOLE,
  created_at: is.TIME,
  last_seen_at: is.TIME,
  address: is.TEXT,
  user_agent: is.TEXT,
  key_label: is.about(
    is.nullable(is.TEXT),
    'Label of the personal key with which the session was started. Null if it was started in another way.',
  ),
  started_with: is.choice(...SESSION_PROOFS),
  is_current: is.BOOLEAN,
})
const PROOF = is.named(
  'ConsoleLogin',
  is.options({
    key: is.about(is.text(KEY_CHARACTERS_MAX), 'A personal key.'),
    code: is.about(
      is.text(LOGIN_CODE_CHARACTERS_MAX),
      'The code of a login link. It can be used once.',
    ),
    email: is.about(is.text(EMAIL_TEXT_CHARACTERS_MAX), 'The e-mail address of a user.'),
    password: is.about(is.text(PASSWORD_CHARACTERS_MAX), 'The password of that user.'),
  }),
)
const NEW_PASSWORD = is.named(
  'NewPassword',
  is.openObject(
    {
      password: is.about(
        is.nullable(is.text(PASSWORD_CHARACTERS_MAX)),
        'The new password. Null removes the password.',
      ),
    },
    {
      current_password: is.about(
        is.text(PASSWORD_CHARACTERS_MAX),
        'The current password. It may be left out if there is none, or within an hour after a login with a link.',
      ),
    },
  ),
)
const WRONG_KEY = 'The personal API key is not valid. Create one, or check that it is complete.'
const WRONG_CODE =
  'The login link was used before or has expired. Create another one with `tenrec login-link`.'
const WRONG_PASSWORD = 'The e-mail address or the password is wrong.'
const ALL_RIGHTS = { scopes: ['*'], projectIds: 'all', expiresAtMs: null } as const

const route = routesOf<SessionServices>('/api/console/', BY_SESSION)

/** The routes of the console's sessions. */
export const SESSION_RESOURCE: Resource<SessionServices> = {
  name: 'Console',
  sentence: 'Sessions of the console, which take the place of a personal key.',
  segments: { id: is.about(is.WHOLE, 'Session number.') },
  routes: [
    route('POST', 'session/', 'createConsoleSession', 'Logs in and starts a session.', {
      who: ANYBODY,
      body: PROOF,
      answers: { 200: done(SESSION) },
      errors: [
        ...(['invalid_input', 'authentication_failed', 'csrf_failed', 'throttled'] as const),
        ...(['request_too_large', 'unsupported_media_type', 'error', 'server_error'] as const),
      ],
      respond: logIn,
    }),
    route('GET', 'session/', 'getConsoleSession', 'Shows the user who is logged in.', {
      answers: { 200: done(SESSION) },
      handle: (call) => sessionBody(call, call.grant),
    }),
    route('DELETE', 'session/', 'deleteConsoleSession', 'Logs out and ends the session.', {
      answers: { 204: done() },
      async respond(call) {
        const { request, services, grant } = call
        const cookie = cookieWriter(request, services)(null)
        const id = grant.session?.id ?? 0
        request.objectId = String(id)
        await ask(call, 'endSession', id)
        return emptyAnswer(204, [cookie])
      },
    }),
    route('GET', 'sessions/', 'listConsoleSessions', 'Lists the sessions of the caller.', {
      who: callerWith('personal_api_key:read'),
      answers: { 200: done(is.object({ results: is.list(LISTED) })) },
      handle: async (call) => ({
        results: (await ownSessions(call)).map((session) => listedBody(call, session)),
      }),
    }),
    route('DELETE', 'sessions/:id/', 'endConsoleSession', 'Ends a session of the caller.', {
      who: callerWith('personal_api_key:write'),
      answers: { 204: done() },
      async handle(call) {
        const id = call.number('id')
        const session = (await ownSessions(call)).find((own) => own.id === id)
        if (session === undefined) {
          throw new ServiceError('not_found', 'You have no such session.')
        }
        // Without this check, somebody who finds a key with few rights could log its user out.
        const rights = session.key ?? ALL_RIGHTS
        if (call.grant.session?.id !== id) requireContained(call.grant, rights, 'end a session')
        await call.request.noting((entry) =>
          call.services.queries.organization('endSession', session.id, entry),
        )
      },
    }),
    route('PUT', 'password/', 'setPassword', 'Sets or removes the password of the caller.', {
      body: NEW_PASSWORD,
      answers: { 204: done() },
      errors: [
        ...(['invalid_input', 'parse_error', 'required', 'authentication_failed'] as const),
        ...(['throttled', 'request_too_large', 'unsupported_media_type'] as const),
      ],
      handle: setPassword,
    }),
    ...OIDC_ROUTES,
  ],
}

/**
 * Sets the password of the caller. All sessions that were started with the previous password end, including this one.
 */
async function setPassword(call: PasswordCall): Promise<void> {
  const { grant, user } = call
  // A login with a password has all rights of the user. A key with fewer rights must therefore not set a password.
  requireContained(
    grant,
    ALL_RIGHTS,
    'set a password, because every login with it starts a session',
  )
  const { passwords } = sessionsOf(call)
  await passwords.setting(`user ${user.id}`, () => setPasswordNow(call))
}

async function setPasswordNow(call: PasswordCall): Promise<void> {
  const { services, user } = call
  const sessions = sessionsOf(call)
  const { password, current_password: current } = call.body()
  const before = services.directory.passwordOf(user.id)?.setAtMs ?? null
  if (before !== null && !isFreshLink(call)) {
    if (current === undefined) {
      throw new ServiceError('required', 'Send the current password as `current_password`.', {
        attr: 'current_password',
      })
    }
    const isRight = await sessions.isPasswordOf(user, current, addressOf(call))
    if (!isRight) {
      throw new ServiceError('invalid_input', 'The current password is wrong.', {
        attr: 'current_password',
      })
    }
  }
  const obstacle = password === null ? null : passwordObstacle(password, user)
  if (obstacle !== null) throw new ServiceError('invalid_input', obstacle, { attr: 'password' })
  const hash = password === null ? null : await sessions.passwords.hash(password)
  // Checking the current password and hashing the new one take a while. The session may have ended in that time.
  if (!call.isStillAllowed()) {
    throw new ServiceError('authentication_failed', 'Your session has ended. Log in again.')
  }
  await change(call, 'setPassword', { userId: user.id, hash, expectedAtMs: before })
}

/**
 * Returns true if the session was started a short time ago with a login link. Only the operator of the machine can
 * create such a link, so the user need not know the current password.
 */
function isFreshLink({ grant: { session }, nowMs }: PasswordCall): boolean {
  if (session?.startedWith !== 'link') return false
  return nowMs - session.createdAtMs < LINK_PASSWORD_MS_MAX
}

async function logIn(call: LoginCall) {
  const { request, services } = call
  const { directory } = services
  // A page of another origin must not be able to log the user in under another account.
  requireConsole(request, services)
  const { key, code, email, password } = call.body()
  const hasPassword = email !== undefined && password !== undefined
  if ([key !== undefined, code !== undefined, hasPassword].filter(Boolean).length !== 1) {
    throw new ServiceError(
      'required',
      'Send a personal key as `key`, the code of a login link as `code`, or `email` and `password`.',
      { attr: 'key' },
    )
  }
  const sessions = sessionsOf(call)
  const from = originOf(call)
  const cookieOf = cookieWriter(request, services)
  const keyGrant = key === undefined ? null : directory.personalKeyByText(key.trim())
  const proofOfKey = keyGrant && { key: key?.trim() ?? '', userId: userOf(keyGrant).id }
  const token = hasPassword
    ? await sessions.beginWithPassword({ email, password }, from)
    : await sessions.begin(code === undefined ? proofOfKey : { code }, from)
  const body = startedSession(call, token)
  if (body === null) {
    const wrongOther = code === undefined ? WRONG_KEY : WRONG_CODE
    throw new ServiceError('authentication_failed', hasPassword ? WRONG_PASSWORD : wrongOther)
  }
  return json(body, 200, [cookieOf(token)])
}

function ownSessions(call: OwnCall): Promise<readonly ConsoleSessionView[]> {
  return ask(call, 'listSessions', { userId: call.user.id, atMs: call.nowMs })
}

function listedBody({ grant }: OwnCall, session: ConsoleSessionView) {
  return {
    id: session.id,
    created_at: timeText(session.createdAtMs),
    last_seen_at: timeText(session.lastSeenAtMs),
    address: session.address,
    user_agent: session.userAgent,
    key_label: session.key?.label ?? null,
    started_with: session.startedWith,
    is_current: session.id === grant.session?.id,
  }
}
