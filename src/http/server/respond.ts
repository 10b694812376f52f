/**
 * Turns values and errors into HTTP answers. Every function of this file may be called at any time, also after the
 * client has left. Each call completes the exchange and releases its resources. If the exchange was already answered,
 * the call has no effect.
 */
import { STATUS_CODES } from 'node:http'
import { ServiceError } from '../../base/errors.ts'
import type { TextChunks } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { Exchange } from './exchange.ts'
import { AnswerRest, LargeAnswer, memoryOfParts, StreamedAnswer } from './large-answer.ts'
import { ANSWER_DIRECT_BYTES_MAX } from './limits.ts'
import { PushedStream, type StreamEvents } from './pushed-stream.ts'

/** The name and the value of a header. */
export type Header = readonly [string, string]

/**
 * What happens to the connection after an answer. The choice matters if the body of the request was not read
 * completely.
 */
export type Closing =
  /** The connection stays open, because the body has been read. */
  | 'keep'
  /**
   * The client is told to close the connection. Further bytes of the client are read and discarded, so that the client
   * sees the answer.
   */
  | 'drain'
  /**
   * The connection is closed at once. A client that is still sending may see a connection reset instead of the answer.
   */
  | 'cut'

const REASONS: NodeJS.Dict<string> = { ...STATUS_CODES, 413: 'Content Too Large' }
const JSON_TYPE = 'application/json'
/** For how many seconds a browser may cache the answer to a preflight request. */
const PREFLIGHT_SECONDS_MAX = '86400'
const ACCEPTED = Buffer.from('{"status":1}')
const NO_BYTES = Buffer.alloc(0)
/**
 * One of this many answers with `ACCEPTED` is sent with `tryEnd`, which buffers nothing for a client that does not
 * read.
 */
const ACCEPTED_PER_CHECK = 64
/** One of this many answers without a body closes its connection. `isLastEmpty` explains why. */
const EMPTY_PER_CLOSE = 1024
/** An estimate of how many bytes a streamed answer holds in memory at a time. */
const CHUNK_BYTES = 256 * 1024

/**
 * The body of an answer: a text, bytes in one or several parts, or chunks that are made while the client reads them.
 */
export type AnswerBody = string | Uint8Array | readonly Uint8Array[] | TextChunks

/** The content of an answer that is not written yet. */
export interface Answer {
  readonly status: number
  /** The media type. It is '' if the answer has no body. */
  readonly contentType: string
  readonly body: AnswerBody
  /** True if the memory of the body is overwritten as soon as `send` returns. */
  readonly isBodyReused?: boolean
  /**
   * True if the body is in a cache that all clients share. The answer then needs no additional memory while it waits
   * for its client.
   */
  readonly isShared?: true
  readonly headers?: readonly Header[]
  readonly closing?: Closing
  /** The ID of a created object, for the audit log. Needed if the body is not JSON or does not contain this ID. */
  readonly madeId?: string
}

let direct: Exchange | null = null
let directBody: Uint8Array = ACCEPTED
let isDirectDone = true
/** How many answers without a body were sent, and how many with `ACCEPTED`. */
let emptyCount = 0
let acceptedCount = 0

/**
 * Answers 200 with `{"status":1}`, after the events of the request are stored safely. Every accepted capture request
 * gets this answer, so it must be fast.
 */
export function sendAccepted(exchange: Exchange): void {
  if (exchange.endsConnection)
    send(exchange, { status: 200, contentType: JSON_TYPE, body: ACCEPTED })
  else sendDirect(exchange, ACCEPTED)
}

/**
 * Answers 200 with JSON in memory that the caller may overwrite as soon as this function returns. Bytes that cannot be
 * sent at once are copied. Every flag decision is answered like this, so it must be fast.
 */
export function sendReused(exchange: Exchange, body: Uint8Array): void {
  const isShort = body.length <= ANSWER_DIRECT_BYTES_MAX && exchange.method === 'POST'
  if (isShort && !exchange.endsConnection) sendDirect(exchange, body)
  else send(exchange, { status: 200, contentType: JSON_TYPE, body, isBodyReused: true })
}

function sendDirect(exchange: Exchange, body: Uint8Array): void {
  if (!exchange.isOpen) {
    exchange.finish(200)
    return
  }
  direct = exchange
  directBody = body
  exchange.response.cork(writeDirect)
  const isDone = isDirectDone
  exchange.finish(200)
  if (!isDone) new AnswerRest(exchange, body).start()
}

/**
 * Writes the current answer of `sendDirect`. `sendDirect` passes this function to `cork`, which calls it at once. The
 * function is not a closure, because a closure would be allocated for each answer.
 */
function writeDirect(): void {
  if (direct === null) return
  const { response, origin, owner } = direct
  response.writeHeader('Content-Type', JSON_TYPE)
  if (origin !== '') writeCors(direct)
  else if (isCacheable(direct.method)) response.writeHeader('Vary', 'Origin')
  // `end` is faster than `tryEnd`, but it buffers what the socket does not accept, without a limit. Most of the
  // shortest answers are sent with `end`. One in `ACCEPTED_PER_CHECK` of them is sent with `tryEnd`, so that a client
  // that does not read is noticed in time.
  const isSurelyTaken = directBody === ACCEPTED && ++acceptedCount % ACCEPTED_PER_CHECK !== 0
  isDirectDone = isSurelyTaken || owner.isDraining
  if (isDirectDone) response.end(directBody, owner.isDraining)
  else isDirectDone = response.tryEnd(directBody, directBody.length)[1]
}

/** Answers with a value as JSON. The JSON is written on the main thread. */
export function sendJson(
  exchange: Exchange,
  status: number,
  value: unknown,
  headers: readonly Header[] = [],
): void {
  const body = exchange.isOpen ? JSON.stringify(value) : ''
  send(exchange, { status, contentType: JSON_TYPE, body, headers })
}

/** Answers without a body, for example with 204. */
export function sendEmpty(
  exchange: Exchange,
  status: number,
  headers: readonly Header[] = [],
): void {
  send(exchange, { status, contentType: '', body: '', headers })
}

/**
 * Answers with an error. A `ServiceError` brings its own body. Any other error is logged and answered with 500
 * `error`. The body then contains the ID of the log entry. Source: docs/compatibility/errors.md, "Errors".
 */
export function sendError(exchange: Exchange, error: unknown, closing: Closing = 'keep'): void {
  send(exchange, refusalOf(exchange, error, closing))
}

function refusalOf(exchange: Exchange, error: unknown, closing: Closing): Answer {
  const refusal = error instanceof ServiceError ? error : unexpected(exchange, error)
  const headers: Header[] = []
  if (refusal.status === 401 && !exchange.isPublic) headers.push(['WWW-Authenticate', 'Bearer'])
  if (refusal.retryAfterSeconds !== null) {
    headers.push(['Retry-After', String(refusal.retryAfterSeconds)])
  }
  const body = JSON.stringify(refusal.toBody())
  return { status: refusal.status, contentType: JSON_TYPE, body, headers, closing }
}

/** Answers 405. `allow` is the value of the header Allow. */
export function sendMethodNotAllowed(exchange: Exchange, allow: string): void {
  const refusal = new ServiceError(
    'method_not_allowed',
    `This method is not supported here. Use one of: ${allow}.`,
  )
  const body = JSON.stringify(refusal.toBody())
  send(exchange, { status: 405, contentType: JSON_TYPE, body, headers: [['Allow', allow]] })
}

/** Begins an answer with server-sent events. It lasts until the client leaves or the caller ends it. */
export function sendStream(exchange: Exchange, events: StreamEvents): PushedStream {
  const headers: readonly Header[] = [
    ['Cache-Control', 'no-store'],
    ['X-Accel-Buffering', 'no'],
  ]
  const answer = { status: 200, contentType: 'text/event-stream', body: '', headers }
  return new PushedStream(exchange, () => writeHead(exchange, answer), events)
}

/**
 * Writes any answer. If the connection is closed after the answer, the answer is written only after all bytes that were
 * received with the request have been parsed. If those bytes contain a second request, the library closes the
 * connection and does not execute the second request.
 */
export function send(exchange: Exchange, answer: Answer): void {
  if (!exchange.isOpen || (!exchange.endsConnection && !isLastEmpty(exchange, answer))) {
    write(exchange, answer)
    return
  }
  if (exchange.isAnswerDelayed) return
  exchange.isAnswerDelayed = true
  const isReused = answer.isBodyReused === true && answer.body instanceof Uint8Array
  const body = isReused ? Buffer.from(answer.body) : answer.body
  setImmediate(() => write(exchange, { ...answer, body, isBodyReused: false, closing: 'cut' }))
}

/**
 * Returns true for one in `EMPTY_PER_CLOSE` answers without a body. Its connection is then closed, because the library
 * does not report whether the socket accepts such answers. Otherwise a client that never reads could make the server
 * buffer any number of them.
 */
function isLastEmpty({ method }: Exchange, { status, body, closing = 'keep' }: Answer): boolean {
  const isEmpty = method === 'HEAD' || status === 204 || isOfNoLength(body)
  return isEmpty && closing === 'keep' && ++emptyCount % EMPTY_PER_CLOSE === 0
}

function isOfNoLength(body: AnswerBody): boolean {
  return (typeof body === 'string' || body instanceof Uint8Array) && body.length === 0
}

function write(exchange: Exchange, answer: Answer): void {
  if (!exchange.isOpen) {
    exchange.finish(answer.status)
    return
  }
  const parts = partsOf(answer.body)
  if (parts === null) {
    sendChunks(exchange, answer)
    return
  }
  const bytes = parts.reduce((sum, part) => sum + part.length, 0)
  if (bytes > ANSWER_DIRECT_BYTES_MAX && exchange.method !== 'HEAD') {
    sendLarge(exchange, answer, parts, bytes)
    return
  }
  const { response } = exchange
  const isBodyless = exchange.method === 'HEAD' || answer.status === 204
  // Several parts are joined in one buffer, so that as many bytes as possible are sent with one system call.
  const body = parts.length === 1 ? (parts[0] ?? NO_BYTES) : Buffer.concat(parts)
  let isDone = true
  response.cork(() => {
    writeHead(exchange, answer)
    if (isBodyless) {
      writeWithoutBody(exchange, answer, bytes)
      return
    }
    const isCut = answer.closing === 'cut' || (exchange.owner.isDraining && !isDrained(answer))
    // `end` buffers what the socket does not accept. That is harmless here, because the connection closes after this
    // answer.
    if (isCut) response.end(body, true)
    else isDone = response.tryEnd(body, bytes)[1]
  })
  exchange.finish(answer.status)
  if (!isDone) new AnswerRest(exchange, body).start()
}

/** Ends the head of an answer to HEAD, or of an answer with the status 204. */
function writeWithoutBody(exchange: Exchange, answer: Answer, bodyBytes: number): void {
  const { response } = exchange
  if (answer.closing !== 'cut') {
    // Without an argument, `endWithoutBody` completes the answer. With the length as its argument, the library would
    // wait for a body and treat the next request on the connection as a violation.
    if (answer.status !== 204) response.writeHeader('Content-Length', String(bodyBytes))
    response.endWithoutBody()
    return
  }
  if (answer.status === 204 || bodyBytes === 0) {
    // Only this call of the library closes the connection after an answer without a body. It also sends a length, which
    // a 204 should not have, but clients ignore it. If the connection stayed open, a request after this one would be
    // executed.
    response.endWithoutBody(0, true)
    return
  }
  response.writeHeader('Connection', 'close')
  const [, isDone] = response.tryEnd('', bodyBytes)
  // After `tryEnd` with an empty text, the library considers the answer as incomplete. It therefore executes no request
  // that follows, and reports when the client leaves. The connection is closed in the next turn, because the head may
  // still be in the library's buffer.
  setImmediate(() => {
    if (!isDone && !exchange.isAborted) response.close()
  })
}

/** Returns the parts of a body, or null if the body is made while it is read. */
function partsOf(body: AnswerBody): readonly Uint8Array[] | null {
  if (typeof body === 'string') return [Buffer.from(body)]
  if (body instanceof Uint8Array) return [body]
  return 'next' in body ? null : body
}

function sendLarge(
  exchange: Exchange,
  answer: Answer,
  parts: readonly Uint8Array[],
  bytes: number,
): void {
  const isShared = answer.isShared === true
  const isReused = answer.isBodyReused === true
  const { waiting } = exchange.owner
  // The bytes of reused memory are copied before the answer waits, so room is needed for all of them. Other memory may
  // already be counted, because another waiting answer uses it.
  const hasRoom = (): boolean =>
    isReused ? waiting.hasRoom(bytes) : waiting.hasRoomFor(memoryOfParts(parts))
  if (!isShared && !hasRoom()) {
    write(exchange, refusalOf(exchange, refusal('answers_full'), answer.closing ?? 'keep'))
    return
  }
  const isCut = answer.closing === 'cut'
  const large = new LargeAnswer(exchange, answer.status, { parts, isShared, isReused, isCut })
  large.start(() => writeLongHead(exchange, answer))
}

function sendChunks(exchange: Exchange, answer: Answer): void {
  const { body, status } = answer
  if (typeof body !== 'object' || !('next' in body)) return
  if (!exchange.owner.waiting.hasRoom(CHUNK_BYTES)) {
    body.cancel()
    write(exchange, refusalOf(exchange, refusal('answers_full'), answer.closing ?? 'keep'))
    return
  }
  new StreamedAnswer(exchange, status, body).start(() => writeLongHead(exchange, answer))
}

function isDrained(answer: Answer): boolean {
  return answer.closing === 'drain'
}

function unexpected(exchange: Exchange, error: unknown): ServiceError {
  const id = exchange.owner.reportError(exchange, error)
  return new ServiceError(
    'error',
    `An unexpected error occurred. The server log has the details under the ID ${id}.`,
  )
}

function writeHead(exchange: Exchange, answer: Answer): void {
  const { response } = exchange
  if (answer.status !== 200) {
    response.writeStatus(`${answer.status} ${REASONS[answer.status] ?? ''}`)
  }
  if (answer.contentType !== '') response.writeHeader('Content-Type', answer.contentType)
  response.writeHeader('X-Content-Type-Options', 'nosniff')
  if (isDrained(answer)) response.writeHeader('Connection', 'close')
  if (exchange.origin !== '') writeCors(exchange)
  else if (exchange.isPublic && isCacheable(exchange.method)) {
    // A cache must not give this answer, which has no CORS headers, to another page that asks for it later.
    response.writeHeader('Vary', 'Origin')
  }
  for (const [name, value] of answer.headers ?? []) response.writeHeader(name, value)
}

/**
 * Writes the head of an answer that is written in steps. For such an answer, the library itself does not announce that
 * the connection will be closed.
 */
function writeLongHead(exchange: Exchange, answer: Answer): void {
  writeHead(exchange, answer)
  if (answer.closing === 'cut') exchange.response.writeHeader('Connection', 'close')
}

function isCacheable(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function writeCors({ response, origin, requestedHeaders, method }: Exchange): void {
  for (const [name, value] of corsHeaders(origin, requestedHeaders, method === 'OPTIONS')) {
    response.writeHeader(name, value)
  }
}

/**
 * Returns the CORS headers of an answer of a public route to a page of `origin`. The origin may be `null`, but is never
 * ''. Pages of any origin may send events with the project's key, because the key is public. All requested headers are
 * allowed, because SDKs add tracing headers with names that their users choose. `requestedHeaders` is the value of
 * Access-Control-Request-Headers or ''. Source: docs/compatibility/ingestion.md, "CORS".
 */
export function corsHeaders(
  origin: string,
  requestedHeaders: string,
  isPreflight: boolean,
): readonly Header[] {
  const headers: Header[] = [
    ['Access-Control-Allow-Origin', origin],
    ['Access-Control-Allow-Credentials', 'true'],
    ['Access-Control-Allow-Methods', 'GET, POST, OPTIONS'],
    ['Access-Control-Allow-Headers', requestedHeaders || 'X-Requested-With,Content-Type'],
    ['Vary', 'Origin'],
  ]
  if (isPreflight) headers.push(['Access-Control-Max-Age', PREFLIGHT_SECONDS_MAX])
  return headers
}
