/**
 * The session cookie, and the checks that the console itself sent it. A browser attaches cookies to requests of any
 * page. Only a page of the same origin can also send the header, because no preflight allows it. A request that changes
 * something must also come from that origin according to the browser. docs/compatibility/console.md, "Sessions".
 */
import { ServiceError } from '../../base/errors.ts'
import { SESSION_AGE_MS_MAX } from '../../rules/access/limits.ts'
import type { Header } from '../server/respond.ts'
import type { ApiRequest } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'

/** The cookie name over TLS. Browsers send such a cookie to this host only, and never without TLS. */
const SECURE_NAME = '__Host-tenrec'
/** The cookie name over plain HTTP, where browsers would reject the other name. */
const PLAIN_NAME = 'tenrec'

/**
 * The values of `X-Tenrec-Console`. The first means that a user is active, and the second that the page sends requests
 * although it has been idle for a while.
 */
const MARKS: readonly string[] = ['1', 'unattended']

/** The settings that determine the URL of this server. */
export interface OwnAddress {
  /** The URL for links, without a path. With null it is taken from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

type Request = Pick<ApiRequest, 'head' | 'method' | 'peerAddress' | 'words'>

/**
 * Returns the token in the cookie of a request, or null without one. Throws 403 `csrf_failed` for a cookie in a request
 * that the console did not make.
 */
export function sessionToken(request: Request, address: OwnAddress): string | null {
  const { cookie } = request.words
  if (cookie === '') return null
  const start = `${cookieName(request, address)}=`
  const found = cookie.split(';').find((part) => part.trimStart().startsWith(start))
  if (found === undefined) return null
  requireConsole(request, address)
  return found.trim().slice(start.length)
}

/** Throws 403 `csrf_failed` unless a page of our own origin made the request. */
export function requireConsole(request: Request, address: OwnAddress): void {
  const { consoleMark, fetchSite } = request.words
  const { origin } = request.head
  if (!MARKS.includes(consoleMark))
    throw forged('A request with the session cookie needs the header `X-Tenrec-Console: 1`.')
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  // Browsers send Sec-Fetch-Site only over TLS and on loopback. Otherwise the Origin header is checked.
  const isOwn =
    fetchSite === '' ? isOwnOrigin(origin, isRead, request, address) : fetchSite === 'same-origin'
  if (!isOwn) throw forged('A page of another origin may not use the console session.')
}

/**
 * Returns a function that makes the header that sets the cookie to a token, or removes it for null. Call it before any
 * wait, because the peer address is lost when the client leaves.
 */
export function cookieWriter(
  request: Request,
  address: OwnAddress,
): (token: string | null) => Header {
  const name = cookieName(request, address)
  const secure = name === SECURE_NAME ? '; Secure' : ''
  return (token) => {
    const seconds = token === null ? 0 : SESSION_AGE_MS_MAX / 1000
    const rules = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${secure}`
    return ['Set-Cookie', `${name}=${token ?? ''}; ${rules}`]
  }
}

function cookieName(request: Request, address: OwnAddress): string {
  return baseUrl(request, address).startsWith('https:') ? SECURE_NAME : PLAIN_NAME
}

/**
 * Returns whether the origin is our own. A read may come without an origin, because browsers leave it out for their own
 * origin.
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
 * Returns the host of a URL, or '' if the URL is invalid. A Host header can have the right form and still not be a
 * valid host.
 */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : ''
}

function forged(detail: string): ServiceError {
  return new ServiceError('csrf_failed', detail)
}
