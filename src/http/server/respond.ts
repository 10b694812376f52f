/**
 * Turns values and errors into HTTP answers. Every function here may be called at any time, also after the client has
 * left. It completes the exchange and releases its resources. A second answer to the same exchange is ignored.
 */
import { STATUS_CODES } from 'node:http'
import { ServiceError } from '../../base/errors.ts'
import type { TextPieces } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { Exchange } from './exchange.ts'
import { LargeAnswer, memoryOfParts, StreamedAnswer } from './large-answer.ts'
import { ANSWER_DIRECT_BYTES_MAX } from './limits.ts'
import { PushedStream, type StreamEvents } from './pushed-stream.ts'

/** The name and the value of a header. */
export type Header = readonly [string, string]

/** How the connection ends after an answer that did not wait for the whole body. */
export type Closing =
  /** The connection stays open, because the body was read. */
  | 'keep'
  /** The client is asked to close. Bytes that it still sends are read and discarded, so that it sees the answer. */
  | 'drain'
  /** The connection is closed at once. A client that is still sending may see a reset instead of the answer. */
  | 'cut'

const REASONS: NodeJS.Dict<string> = { ...STATUS_CODES, 413: 'Content Too Large' }
const JSON_TYPE = 'application/json'
/** The seconds for which a browser may cache the answer to a preflight. */
const PREFLIGHT_SECONDS_MAX = '86400'
const ACCEPTED = Buffer.from('{"status":1}')
/** The approximate number of bytes that an answer holds at a time if it is made while it is read. */
const PIECE_BYTES = 256 * 1024

/** The body of an answer: a text, bytes in one part or several, or chunks that are made while they are read. */
export type AnswerBody = string | Uint8Array | readonly Uint8Array[] | TextPieces

/** An answer before it is written. */
export interface Answer {
  readonly status: number
  /** The media type; '' for an answer without a body. */
  readonly contentType: string
  readonly body: AnswerBody
  /** True if the memory of the body is overwritten as soon as `send` returns. */
  readonly isBodyReused?: boolean
  /** True if the body is cached for all clients, so that it needs no extra memory while it waits for a reader. */
  readonly isShared?: true
  readonly headers?: readonly Header[]
  readonly closing?: Closing
  /** The ID of the created object, for the audit log, if the body is not JSON with this ID. */
  readonly madeId?: string
}

let direct: Exchange | null = null
let directBody: Uint8Array = ACCEPTED

/**
 * Answers 200 with `{"status":1}`, after everything in the request is stored safely. This is the hot path of ingestion.
 */
export function sendAccepted(exchange: Exchange): void {
  if (exchange.endsConnection)
    send(exchange, { status: 200, contentType: JSON_TYPE, body: ACCEPTED })
  else sendDirect(exchange, ACCEPTED)
}

/**
 * Answers 200 with JSON from memory that is overwritten as soon as this function returns. Bytes that cannot be sent at
 * once are copied. This is the hot path of decisions.
 */
export function sendReused(exchange: Exchange, body: Uint8Array): void {
  const isShort = body.length <= ANSWER_DIRECT_BYTES_MAX && exchange.method === 'POST'
  if (isShort && !exchange.endsConnection) sendDirect(exchange, body)
  else send(exchange, { status: 200, contentType: JSON_TYPE, body, isBodyReused: true })
}

function sendDirect(exchange: Exchange, body: Uint8Array): void {
  if (exchange.isOpen) {
    direct = exchange
    directBody = body
    exchange.response.cork(writeDirect)
  }
  exchange.finish(200)
}

/**
 * Writes the direct answer. It is not a closure, which would be allocated for each answer; `cork` calls it before
 * returning.
 */
function writeDirect(): void {
  if (direct === null) return
  const { response, origin, owner } = direct
  response.writeHeader('Content-Type', JSON_TYPE)
  if (origin !== '') writeCors(direct)
  else if (isCacheable(direct.method)) response.writeHeader('Vary', 'Origin')
  response.end(directBody, owner.isDraining)
}

/** Answers with a JSON value. Serialising it takes time on the main thread. */
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
 * Answers with an error. A `ServiceError` becomes its own body. Any other error is logged and becomes 500 `error` with
 * an ID that leads to the log entry. Source: docs/compatibility/errors.md, "Errors".
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

/** Answers 405 with the header Allow, whose value is `allow`. */
export function sendMethodNotAllowed(exchange: Exchange, allow: string): void {
  const refusal = new ServiceError(
    'method_not_allowed',
    `This method is not supported here. Use one of: ${allow}.`,
  )
  const body = JSON.stringify(refusal.toBody())
  send(exchange, { status: 405, contentType: JSON_TYPE, body, headers: [['Allow', allow]] })
}

/** Begins an answer of server-sent events that lasts until the client leaves or the caller ends it. */
export function sendStream(exchange: Exchange, events: StreamEvents): PushedStream {
  const headers: readonly Header[] = [
    ['Cache-Control', 'no-store'],
    ['X-Accel-Buffering', 'no'],
  ]
  const answer = { status: 200, contentType: 'text/event-stream', body: '', headers }
  return new PushedStream(exchange, () => writeHead(exchange, answer), events)
}

/**
 * Writes any answer. An answer that ends its connection is written only after everything that was received with the
 * request has been parsed. Until an answer is written, the library closes the connection at a second request instead of
 * passing it on.
 */
export function send(exchange: Exchange, answer: Answer): void {
  if (!exchange.endsConnection || !exchange.isOpen) {
    write(exchange, answer)
    return
  }
  if (exchange.isAnswerDelayed) return
  exchange.isAnswerDelayed = true
  const isReused = answer.isBodyReused === true && answer.body instanceof Uint8Array
  const body = isReused ? Buffer.from(answer.body) : answer.body
  setImmediate(() => write(exchange, { ...answer, body, isBodyReused: false, closing: 'cut' }))
}

function write(exchange: Exchange, answer: Answer): void {
  if (!exchange.isOpen) {
    exchange.finish(answer.status)
    return
  }
  const parts = partsOf(answer.body)
  if (parts === null) {
    sendPieces(exchange, answer)
    return
  }
  const bytes = parts.reduce((sum, part) => sum + part.length, 0)
  if (bytes > ANSWER_DIRECT_BYTES_MAX && exchange.method !== 'HEAD') {
    sendLarge(exchange, answer, parts, bytes)
    return
  }
  const { response } = exchange
  const isBodyless = exchange.method === 'HEAD' || answer.status === 204
  response.cork(() => {
    writeHead(exchange, answer)
    if (isBodyless) {
      writeWithoutBody(exchange, answer, bytes)
      return
    }
    // One buffer, so that as many bytes as possible are sent in one system call.
    const body = parts.length === 1 ? (parts[0] ?? '') : Buffer.concat(parts)
    const isCut = answer.closing === 'cut' || (exchange.owner.isDraining && !isDrained(answer))
    response.end(body, isCut)
  })
  exchange.finish(answer.status)
}

/** Ends the head of an answer to HEAD, or of a 204. */
function writeWithoutBody(exchange: Exchange, answer: Answer, bodyBytes: number): void {
  const { response } = exchange
  if (answer.closing !== 'cut') {
    // If it gets a length as an argument, endWithoutBody treats the answer as incomplete, and the next request on the
    // connection as a violation.
    if (answer.status !== 204) response.writeHeader('Content-Length', String(bodyBytes))
    response.endWithoutBody()
    return
  }
  if (answer.status === 204 || bodyBytes === 0) {
    // The only form of the library that closes the connection. A 204 should have no length, but clients ignore it, and
    // a connection that stays open would execute a request that follows this one.
    response.endWithoutBody(0, true)
    return
  }
  response.writeHeader('Connection', 'close')
  response.tryEnd('', bodyBytes)
  // The library sees the answer as incomplete: it executes no request that follows this one, and reports when the
  // client leaves. The head may still be in its buffer.
  setImmediate(() => {
    if (!exchange.isAborted) response.close()
  })
}

/** Returns the parts of a body, or null for a body that is made while it is read. */
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
  // A copy waits in place of memory that is reused.
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

function sendPieces(exchange: Exchange, answer: Answer): void {
  const { body, status } = answer
  if (typeof body !== 'object' || !('next' in body)) return
  if (!exchange.owner.waiting.hasRoom(PIECE_BYTES)) {
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
    // A cache must not give an answer without CORS headers to another page that asks later.
    response.writeHeader('Vary', 'Origin')
  }
  for (const [name, value] of answer.headers ?? []) response.writeHeader(name, value)
}

/** Writes the head of an answer that is written in steps. The library does not announce the end of its connection. */
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
 * Returns the CORS headers of a public route for an answer to `origin`, which is never '' and may be `null`. Any page
 * may send events with the project's key, which is public. Every requested header is allowed, because SDKs add tracing
 * headers under names that their users choose. `requestedHeaders` is the value of Access-Control-Request-Headers or ''.
 * Source: docs/compatibility/ingestion.md, "CORS".
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
