/**
 * Reads request headers. A single pass collects the few headers that routes use. It also refuses every request about
 * whose end two HTTP parsers, such as a proxy and this server, could disagree. Bytes that one parser takes for the end
 * of a body could otherwise be executed by the other parser as a hidden request (request smuggling). uWebSockets.js
 * itself would accept the first of several Content-Length headers, and any Transfer-Encoding that ends in "chunked".
 * The pass takes 1.1 us for 7 headers, nearly all of it for the calls from C++.
 */
import type { FrontRequest } from './front.ts'

/** The head of one request. A header that the client did not send is ''. */
export class RequestHead {
  /** The query of the URL, without the `?`. */
  readonly query: string
  /** The path segments that take the place of parameters, still percent-encoded. */
  readonly segments: readonly string[]
  contentType = ''
  contentEncoding = ''
  /** The declared length of the body in bytes. Null if there is no Content-Length. */
  contentLength: number | null = null
  /** True if the body is chunked, so that its length is not known in advance. */
  isChunked = false
  origin = ''
  accessControlRequestHeaders = ''
  accept = ''
  acceptEncoding = ''
  authorization = ''
  host = ''
  /** The header `X-Forwarded-For`. If the request has several, they are joined by commas. */
  forwardedFor = ''
  forwardedHost = ''
  forwardedProto = ''
  userAgent = ''
  ifNoneMatch = ''
  /** The header `Last-Event-ID`: the ID of the last message that the client of an event stream has received. */
  lastEventId = ''
  /** The header `X-API-Key`, in which OpenFeature clients send their key. */
  apiKey = ''
  /**
   * The header `X-PostHog-Project-Api-Key`. It contains the key of a project. An SDK that authenticates with a personal
   * key uses this header to name the project.
   */
  projectApiKey = ''
  /** The header `PostHog-Sdk-Info`: the name and version of an SDK that uses protocol version 1 of capture. */
  sdkInfo = ''
  /**
   * The header `PostHog-Request-Timestamp`: the time at which an SDK with protocol version 1 of capture sent the
   * request, by the clock of its device.
   */
  requestTimestamp = ''
  /** True if the request has a Referer header or another header that only browsers send. */
  isFromPage = false
  /** The reason why the request must be refused, as a sentence for the client. Null if it is accepted. */
  fault: string | null = null

  constructor(query: string, segments: readonly string[]) {
    this.query = query
    this.segments = segments
  }
}

/** The headers that a browser sends with a request to a private route. A missing header is ''. */
export interface BrowserWords {
  readonly cookie: string
  /** The header `Sec-Fetch-Site`: how the page that made the request is related to this server. */
  readonly fetchSite: string
  /**
   * The header `X-Tenrec-Console`. A page of another origin cannot send it. `http/console/cookie.ts` lists its values.
   */
  readonly consoleMark: string
}

const NO_SEGMENTS: readonly string[] = []
/** The head that `checkFraming` is reading. `takeHeader` fills it. */
let head = new RequestHead('', NO_SEGMENTS)
let contentLengthCount = 0
let transferEncodingCount = 0
let hostCount = 0
/**
 * The last Host header that was found valid. If the next request has the same one, as nearly all have, it is not
 * checked again.
 */
let knownHost = ''

/**
 * Reads the request line and the headers. `segmentCount` is the number of parameters in the path. If `fault` of the
 * result is not null, the caller must refuse the request and close the connection.
 */
export function checkFraming(request: FrontRequest, segmentCount = 0): RequestHead {
  const segments = segmentCount === 0 ? NO_SEGMENTS : segmentsOf(request, segmentCount)
  head = new RequestHead(request.getQuery() ?? '', segments)
  contentLengthCount = 0
  transferEncodingCount = 0
  hostCount = 0
  request.forEach(takeHeader)
  if (contentLengthCount > 0 && transferEncodingCount > 0) {
    head.fault = 'Send either Content-Length or Transfer-Encoding, not both.'
  }
  return head
}

/**
 * Reads the headers that browsers send. Public routes never need these headers, because public routes identify no user
 * by a cookie.
 */
export function browserWords(request: FrontRequest): BrowserWords {
  return {
    cookie: request.getHeader('cookie'),
    fetchSite: request.getHeader('sec-fetch-site'),
    consoleMark: request.getHeader('x-tenrec-console'),
  }
}

function segmentsOf(request: FrontRequest, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => request.getParameter(index) ?? '')
}

/**
 * Stores one header in the head. It compares the length of the name first, which is cheap and rules out most headers.
 */
function takeHeader(name: string, value: string): void {
  switch (name.length) {
    case 4:
      if (name === 'host') takeHost(value)
      return
    case 6:
      if (name === 'origin') head.origin = value
      else if (name === 'accept') head.accept = value
      return
    case 7:
      if (name === 'referer') head.isFromPage = true
      return
    case 9:
      if (name === 'x-api-key') head.apiKey = value
      return
    case 10:
      if (name === 'user-agent') head.userAgent = value
      return
    case 12:
      if (name === 'content-type') head.contentType = value
      return
    case 13:
      if (name === 'authorization') takeAuthorization(value)
      else if (name === 'if-none-match') head.ifNoneMatch = value
      else if (name === 'last-event-id') head.lastEventId = value
      return
    case 14:
      if (name === 'content-length') takeContentLength(value)
      else if (name.startsWith('sec-fetch-')) head.isFromPage = true
      return
    case 15:
      // Several headers mean the same as one header with a list. The last entry is the address that the last proxy saw.
      if (name === 'x-forwarded-for') {
        head.forwardedFor = head.forwardedFor === '' ? value : `${head.forwardedFor},${value}`
      } else if (name === 'accept-encoding') head.acceptEncoding = value
      return
    case 16:
      if (name === 'content-encoding') head.contentEncoding = value
      else if (name === 'x-forwarded-host') head.forwardedHost = value
      else if (name === 'posthog-sdk-info') head.sdkInfo = value
      return
    case 17:
      if (name === 'transfer-encoding') takeTransferEncoding(value)
      else if (name === 'x-forwarded-proto') head.forwardedProto = value
      return
    case 25:
      if (name === 'x-posthog-project-api-key') head.projectApiKey = value
      else if (name === 'posthog-request-timestamp') head.requestTimestamp = value
      return
    case 30:
      if (name === 'access-control-request-headers') head.accessControlRequestHeaders = value
      return
    default:
  }
}

function takeHost(value: string): void {
  if (++hostCount > 1) head.fault = 'Send exactly one Host header.'
  else if (value !== knownHost) {
    if (isHost(value)) knownHost = value
    else head.fault = 'Send a Host header that is a name or an address with an optional port.'
  }
  head.host = value
}

function takeAuthorization(value: string): void {
  if (head.authorization !== '') head.fault = 'Send only one Authorization header.'
  head.authorization = value
}

function takeContentLength(value: string): void {
  if (++contentLengthCount > 1) {
    head.fault = 'Send only one Content-Length header.'
    return
  }
  const length = parseDecimal(value)
  if (length < 0) head.fault = 'Content-Length must be a decimal number of bytes.'
  else head.contentLength = length
}

function takeTransferEncoding(value: string): void {
  if (++transferEncodingCount > 1) head.fault = 'Send only one Transfer-Encoding header.'
  else if (value.length !== 7 || value.toLowerCase() !== 'chunked') {
    head.fault =
      'Transfer-Encoding must be chunked. Compress the body with Content-Encoding instead.'
  }
  head.isChunked = true
}

/**
 * Returns a decimal number of at most 15 digits, or -1 for any other text. Every number of 15 digits is exact in
 * JavaScript. Longer numbers are not needed, because they exceed every limit of the server. The loop is faster than a
 * regular expression.
 */
function parseDecimal(text: string): number {
  if (text.length === 0 || text.length > 15) return -1
  let value = 0
  for (let index = 0; index < text.length; index++) {
    const digit = text.charCodeAt(index) - 0x30
    if (digit < 0 || digit > 9) return -1
    value = value * 10 + digit
  }
  return value
}

/**
 * Returns true if a text is a host name, an IPv4 address or an IPv6 address in brackets, with or without a port. The
 * text may have at most 255 characters.
 */
export function isHost(text: string): boolean {
  return text.length <= 255 && /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/.test(text)
}

/** An encoding in which answers are sent. */
export type Encoding = 'br' | 'gzip' | 'identity'

/** Returns the best encoding that a client accepts. An encoding with `q=0` is not accepted. */
export function encodingOf(acceptEncoding: string): Encoding {
  const accepted = new Set(
    acceptEncoding
      .toLowerCase()
      .split(',')
      .filter((part) => !/;\s*q=0(?:\.0*)?\s*$/.test(part))
      .map((part) => (part.split(';')[0] ?? '').trim()),
  )
  if (accepted.has('br')) return 'br'
  return accepted.has('gzip') ? 'gzip' : 'identity'
}

/**
 * Returns true if an Accept header names `type`, and does not name JSON before `type`. Returns false if the header only
 * says that any type is accepted, so such a client gets JSON.
 */
export function prefersType(accept: string, type: string): boolean {
  const types = accept.toLowerCase().split(',')
  const named = types.map((one) => one.split(';')[0]?.trim())
  const wanted = named.indexOf(type)
  const other = named.indexOf('application/json')
  return wanted >= 0 && (other < 0 || wanted < other)
}
