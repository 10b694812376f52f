/**
 * The session cookie, and the checks that a page of the console sent the cookie. A browser attaches cookies to requests
 * that any page makes. Only a page of the same origin can also set the header `X-Tenrec-Console`, because the server
 * allows it to no other origin. The browser must also report, in Sec-Fetch-Site or Origin, that the request comes from
 * a page of this origin. Only a GET or HEAD request may lack both Sec-Fetch-Site and Origin.
 * docs/compatibility/console.md, "Sessions".
 */
import { ServiceError } from '../../base/errors.ts'
import { SESSION_AGE_MS_MAX } from '../../rules/access/limits.ts'
import type { Header } from '../server/respond.ts'
import type { ApiRequest } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'
import { PENDING_LOGIN_MS_MAX } from './limits.ts'

/** A cookie that the console uses. */
interface CookieKind {
  /** The name of the cookie over plain HTTP. */
  readonly name: string
  readonly ageMs: number
}

/** The cookie with the token of a session. */
const SESSION_COOKIE: CookieKind = { name: 'tenrec', ageMs: SESSION_AGE_MS_MAX }
/** The cookie that binds a login with OpenID Connect to the browser in which it began. */
const LOGIN_COOKIE: CookieKind = { name: 'tenrec-login', ageMs: PENDING_LOGIN_MS_MAX }
/**
 * The prefix of a cookie's name over TLS. Browsers send a cookie with this prefix to this host only, and only over TLS.
 * Over plain HTTP they reject it.
 */
const SECURE_PREFIX = '__Host-'

/**
 * The values of the header `X-Tenrec-Console`. `1` means that a user is active. `unattended` means that the page sends
 * requests although nobody has used it for a while.
 */
const MARKS: readonly string[] = ['1', 'unattended']

/** The settings that determine the URL of this server. */
export interface OwnAddress {
  /** The URL for links, without a path. If null, the URL is taken from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

type Request = Pick<ApiRequest, 'head' | 'method' | 'peerAddress' | 'words'>

/**
 * Returns the token in the session cookie of a request, or null if it has none. Throws 403 `csrf_failed` if the request
 * has the cookie but was not made by the console.
 */
export function sessionToken(request: Request, address: OwnAddress): string | null {
  const token = tokenOf(SESSION_COOKIE, request, address)
  if (token !== null) requireConsole(request, address)
  return token
}

/**
 * Returns the token in the cookie that binds logins to the browser, or null if there is none. The caller must also call
 * `requireConsole`.
 */
export function loginToken(request: Request, address: OwnAddress): string | null {
  return tokenOf(LOGIN_COOKIE, request, address)
}

function tokenOf(kind: CookieKind, request: Request, address: OwnAddress): string | null {
  const { cookie } = request.words
  if (cookie === '') return null
  const start = `${cookieName(kind, request, address)}=`
  const found = cookie.split(';').find((part) => part.trimStart().startsWith(start))
  return found === undefined ? null : found.trim().slice(start.length)
}

/** Throws 403 `csrf_failed` unless a page of the server's own origin made the request. */
export function requireConsole(request: Request, address: OwnAddress): void {
  const { consoleMark, fetchSite } = request.words
  const { origin } = request.head
  if (!MARKS.includes(consoleMark))
    throw forged('A request with the session cookie needs the header `X-Tenrec-Console: 1`.')
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  // Browsers send Sec-Fetch-Site only over TLS and to loopback addresses. Without it, the Origin header is checked.
  const isOwn =
    fetchSite === '' ? isOwnOrigin(origin, isRead, request, address) : fetchSite === 'same-origin'
  if (!isOwn) throw forged('A page of another origin may not use the console session.')
}

/**
 * Returns a function that makes the Set-Cookie header for a token. Without a token (null), the header removes the
 * cookie. Call `cookieWriter` before anything asynchronous, because the peer address is lost when the client leaves.
 */
export function cookieWriter(
  request: Request,
  address: OwnAddress,
): (token: string | null) => Header {
  return writerOf(SESSION_COOKIE, request, address)
}

/** Does the same as `cookieWriter`, for the cookie that binds logins to the browser. */
export function loginCookieWriter(
  request: Request,
  address: OwnAddress,
): (token: string | null) => Header {
  return writerOf(LOGIN_COOKIE, request, address)
}

function writerOf(
  kind: CookieKind,
  request: Request,
  address: OwnAddress,
): (token: string | null) => Header {
  const name = cookieName(kind, request, address)
  const secure = name.startsWith(SECURE_PREFIX) ? '; Secure' : ''
  return (token) => {
    const seconds = token === null ? 0 : kind.ageMs / 1000
    const rules = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${secure}`
    return ['Set-Cookie', `${name}=${token ?? ''}; ${rules}`]
  }
}

function cookieName({ name }: CookieKind, request: Request, address: OwnAddress): string {
  return baseUrl(request, address).startsWith('https:') ? SECURE_PREFIX + name : name
}

/**
 * Returns true if a request comes from the server's own origin. A GET or HEAD request may have no Origin header,
 * because browsers leave it out if the page has the same origin.
 */
function isOwnOrigin(
  origin: string,
  isRead: boolean,
  request: Request,
  address: OwnAddress,
): boolean {
  if (origin === '') return isRead
  const host = hostOf(origin)
  return host !== '' && [request.head.host, hostOf(baseUrl(request, address))].includes(host)
}

/**
 * Returns the host of a URL, or '' if the URL is invalid. The URL may be invalid even though the Host header in it has
 * the right syntax.
 */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : ''
}

function forged(detail: string): ServiceError {
  return new ServiceError('csrf_failed', detail)
}
