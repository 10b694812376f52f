/**
 * The cookie of a session, and the proof that the console itself sends it. A browser attaches cookies whoever
 * asks; only a page of the same origin can also send the header, because no preflight grants it, and what
 * changes something has to come from that origin by the browser's own word.
 * docs/compatibility/console.md, "Sessions".
 */
import { ServiceError } from '../../base/errors.ts'
import { SESSION_AGE_MS_MAX } from '../../rules/access/limits.ts'
import type { Header } from '../server/respond.ts'
import type { ApiRequest } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'

/** Over TLS: browsers keep it for this host alone, and never send it in the clear. */
const SECURE_NAME = '__Host-tenrec'
/** Over plain HTTP, where browsers would not take the other. */
const PLAIN_NAME = 'tenrec'

/** In `X-Tenrec-Console`: somebody asks through a page, or the page asks although nobody has touched it for a while. */
const MARKS: readonly string[] = ['1', 'unattended']

/** What tells under which address a request has reached us. */
export interface OwnAddress {
  /** For links, without a path; null takes the address from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

type Request = Pick<ApiRequest, 'head' | 'method' | 'peerAddress' | 'words'>

/**
 * The token in the cookie of a request; null without one. Throws 403 `csrf_failed` for a cookie that comes
 * with a request which the console did not make.
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

/** Throws 403 `csrf_failed` unless a page of our own origin has made the request. */
export function requireConsole(request: Request, address: OwnAddress): void {
  const { consoleMark, fetchSite } = request.words
  const { origin } = request.head
  if (!MARKS.includes(consoleMark))
    throw forged('send the header X-Tenrec-Console: 1 with the cookie')
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  // Browsers say it over TLS and on loopback only; elsewhere the origin tells.
  const isOwn =
    fetchSite === '' ? isOwnOrigin(origin, isRead, request, address) : fetchSite === 'same-origin'
  if (!isOwn) throw forged('a page of another origin may not use the session of the console')
}

/**
 * Makes the header that sets the cookie to a token, or takes it away with null. Called before any wait: the
 * address of the peer is lost when the client leaves.
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

/** A read may come without an origin: browsers leave it out where it is their own. */
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

/** '' where there is none, as for a Host whose form is right and that is no host. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : ''
}

function forged(detail: string): ServiceError {
  return new ServiceError('csrf_failed', detail)
}
