/**
 * The routes of logins with OpenID Connect. The console begins a login and opens the URL of the provider. The provider
 * sends the browser back to the page `login/oidc` of the console. This page finishes the login with the query in its
 * URL. docs/compatibility/console.md, "OpenID Connect".
 */
import { ServiceError } from '../../../base/errors.ts'
import type { AuditEntry } from '../../../rules/access/audit-entry.ts'
import { isConsolePage } from '../../../rules/access/identity.ts'
import {
  cookieWriter,
  loginCookieWriter,
  loginToken,
  requireConsole,
} from '../../console/cookie.ts'
import { unknownLogin } from '../../console/oidc-logins.ts'
import { ANYBODY, type Call, done, routesOf } from '../../server/route.ts'
import { json } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import { PAGE_CHARACTERS_MAX, PROVIDER_QUERY_CHARACTERS_MAX } from '../limits.ts'
import {
  originOf,
  SESSION,
  type SessionCall,
  type SessionServices,
  sessionsOf,
  startedSession,
} from './session-answers.ts'

const START = is.named(
  'OidcStart',
  is.options({
    return_to: is.about(
      is.text(PAGE_CHARACTERS_MAX),
      'Path and query of the page of the console to show afterward, such as /p/1/web.',
    ),
  }),
)
const FINISH = is.named(
  'OidcFinish',
  is.openObject({
    callback: is.about(
      is.text(PROVIDER_QUERY_CHARACTERS_MAX),
      'The query of the address to which the provider has sent the browser.',
    ),
  }),
)
const STARTED = is.namedObject('OidcLogin', {
  url: is.about(is.TEXT, 'The address of the provider that the browser opens.'),
})
const FINISHED = is.namedObject('OidcSession', {
  session: SESSION,
  return_to: is.about(is.TEXT, 'The page of the console to show.'),
})
const PROVIDER = is.namedObject('OidcProvider', {
  label: is.about(
    is.nullable(is.TEXT),
    'The label of the button on the login page. Null if there is no provider.',
  ),
})

/** The page of the console to which the provider sends the browser, relative to the path of the console. */
const CALLBACK_PAGE = 'login/oidc'
/** The route that the audit log shows when an account was linked to a user. */
const LINK_ROUTE = '/api/console/oidc/link/'

const route = routesOf<SessionServices>('/api/console/oidc/', ANYBODY)
const ERRORS = [
  ...(['invalid_input', 'parse_error', 'required', 'csrf_failed', 'throttled'] as const),
  ...(['authentication_failed', 'permission_denied', 'not_found'] as const),
  ...(['request_too_large', 'unsupported_media_type', 'error', 'server_error'] as const),
]

/** The routes under `/api/console/oidc/`. */
export const OIDC_ROUTES = [
  route('GET', '', 'getOidcProvider', 'Shows whether users can log in with OpenID Connect.', {
    answers: { 200: done(PROVIDER) },
    errors: ['error', 'server_error'],
    handle: (call) => ({ label: sessionsOf(call).oidc?.label ?? null }),
  }),
  route('POST', 'start/', 'startOidcLogin', 'Begins a login with OpenID Connect.', {
    body: START,
    answers: { 200: done(STARTED) },
    errors: ERRORS,
    audits: false,
    respond: start,
  }),
  route('POST', 'finish/', 'finishOidcLogin', 'Finishes a login and starts a session.', {
    body: FINISH,
    answers: { 200: done(FINISHED) },
    errors: ERRORS,
    respond: finish,
  }),
]

async function start(call: Call<SessionServices, is.Schema, typeof START>) {
  const { request, services, base } = call
  requireConsole(request, services)
  const { return_to: returnTo = '/' } = call.body()
  if (!isConsolePage(returnTo)) {
    const detail = '`return_to` must be the path of a page of the console, such as /p/1/web.'
    throw new ServiceError('invalid_input', detail, { attr: 'return_to' })
  }
  const cookieOf = loginCookieWriter(request, services)
  const { url, browser } = await providerOf(call).begin({
    browser: loginToken(request, services),
    address: originOf(call).address,
    redirectUri: `${base}${services.consolePath}${CALLBACK_PAGE}`,
    returnTo,
  })
  return json({ url }, 200, [cookieOf(browser)])
}

async function finish(call: Call<SessionServices, is.Schema, typeof FINISH>) {
  const { request, services } = call
  requireConsole(request, services)
  providerOf(call)
  const { callback } = call.body()
  const cookieOf = cookieWriter(request, services)
  const from = originOf(call)
  const login = { browser: loginToken(request, services), callback }
  const begun = await sessionsOf(call).beginWithAccount(login, from, linkEntry(call, from.address))
  const session = startedSession(call, begun?.token ?? null)
  if (begun === null || session === null) throw unknownLogin()
  return json({ session, return_to: begun.returnTo }, 200, [cookieOf(begun.token)])
}

function providerOf(call: Pick<SessionCall, 'services'>) {
  const { oidc } = sessionsOf(call)
  if (oidc !== null) return oidc
  throw new ServiceError('not_found', 'This server has no identity provider. Set `oidc_issuer`.')
}

/** Returns the audit entry for an account that is linked to a user. The store fills in the user. */
function linkEntry({ nowMs }: Pick<SessionCall, 'nowMs'>, address: string): AuditEntry {
  return {
    atMs: nowMs,
    source: 'console',
    userId: null,
    keyId: null,
    account: null,
    address,
    projectId: null,
    method: 'POST',
    route: LINK_ROUTE,
    objectId: null,
    status: 201,
  }
}
