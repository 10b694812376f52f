/**
 * The one place where values and errors become HTTP answers. Every function here may be called at any
 * time, also after the client has left, and completes the exchange: what it holds is given back.
 * A second answer to the same exchange is ignored.
 */
import { ServiceError } from '../base/errors.ts'
import { corsHeaders } from './cors.ts'
import type { Exchange } from './exchange.ts'

/** Name and value. */
export type Header = readonly [string, string]

/** What happens to the connection after an answer that did not wait for the whole body. */
export type Closing =
  /** Nothing: the body was read. */
  | 'keep'
  /** The client is told to close; what it still sends is read and thrown away, so that it sees the answer. */
  | 'drain'
  /** Closed at once. A client that is still sending may see a reset instead of the answer. */
  | 'cut'

const STATUS_LINES = new Map<number, string>([
  [200, '200 OK'],
  [201, '201 Created'],
  [202, '202 Accepted'],
  [204, '204 No Content'],
  [304, '304 Not Modified'],
  [400, '400 Bad Request'],
  [401, '401 Unauthorized'],
  [403, '403 Forbidden'],
  [404, '404 Not Found'],
  [405, '405 Method Not Allowed'],
  [409, '409 Conflict'],
  [413, '413 Content Too Large'],
  [415, '415 Unsupported Media Type'],
  [429, '429 Too Many Requests'],
  [500, '500 Internal Server Error'],
  [503, '503 Service Unavailable'],
  [504, '504 Gateway Timeout'],
])

const JSON_TYPE = 'application/json'
const ACCEPTED = Buffer.from('{"status":1}')
/** Answers up to this size go out in one call; larger ones follow the pace of the reader. */
const DIRECT_BYTES_MAX = 64 * 1024

/** An answer before it is written. */
export interface Answer {
  readonly status: number
  /** '' for an answer without a body. */
  readonly contentType: string
  readonly body: string | Uint8Array
  /** The memory of the body is written again as soon as `send` returns. */
  readonly isBodyReused?: true
  readonly headers?: readonly Header[]
  readonly closing?: Closing
}

let accepted: Exchange | null = null
let reusedBody: Uint8Array | null = null

/** `{"status":1}` with 200: everything in the request is safe. The hot path of ingestion. */
export function sendAccepted(exchange: Exchange): void {
  if (exchange.endsConnection) {
    send(exchange, { status: 200, contentType: JSON_TYPE, body: ACCEPTED })
    return
  }
  if (exchange.isOpen) {
    accepted = exchange
    exchange.response.cork(writeAccepted)
  }
  exchange.finish(200)
}

/** No closure per answer: `cork` calls back before it returns. */
function writeAccepted(): void {
  if (accepted === null) return
  const { response, origin, owner } = accepted
  response.writeHeader('Content-Type', JSON_TYPE)
  if (origin !== '') writeCors(accepted)
  else if (isCacheable(accepted.method)) response.writeHeader('Vary', 'Origin')
  response.end(ACCEPTED, owner.isDraining)
}

/**
 * JSON with 200 from memory that is written again as soon as this returns; what does not leave at once is
 * copied. The hot path of decisions.
 */
export function sendReused(exchange: Exchange, body: Uint8Array): void {
  const isDirect = body.length <= DIRECT_BYTES_MAX && exchange.method === 'POST'
  if (exchange.isOpen && isDirect && !exchange.endsConnection) {
    accepted = exchange
    reusedBody = body
    exchange.response.cork(writeReused)
    exchange.finish(200)
    return
  }
  send(exchange, { status: 200, contentType: JSON_TYPE, body, isBodyReused: true })
}

function writeReused(): void {
  if (accepted === null || reusedBody === null) return
  const { response, origin, owner } = accepted
  response.writeHeader('Content-Type', JSON_TYPE)
  if (origin !== '') writeCors(accepted)
  response.end(reusedBody, owner.isDraining)
}

/** A JSON value. Costs the time to serialise it. */
export function sendJson(
  exchange: Exchange,
  status: number,
  value: unknown,
  headers: readonly Header[] = [],
): void {
  const body = exchange.isOpen ? JSON.stringify(value) : ''
  send(exchange, { status, contentType: JSON_TYPE, body, headers })
}

/** An answer without a body, as 204. */
export function sendEmpty(
  exchange: Exchange,
  status: number,
  headers: readonly Header[] = [],
): void {
  send(exchange, { status, contentType: '', body: '', headers })
}

/**
 * A refusal. A `ServiceError` becomes its body; anything else is logged and becomes 500 `error` with
 * an id that leads to the log. Source: docs/COMPATIBILITY.md, "Errors".
 */
export function sendError(exchange: Exchange, error: unknown, closing: Closing = 'keep'): void {
  const refusal = error instanceof ServiceError ? error : unexpected(exchange, error)
  const headers: Header[] = []
  if (refusal.status === 401 && !exchange.isPublic) headers.push(['WWW-Authenticate', 'Bearer'])
  if (refusal.retryAfterSeconds !== null) {
    headers.push(['Retry-After', String(refusal.retryAfterSeconds)])
  }
  const body = JSON.stringify(refusal.toBody())
  send(exchange, { status: refusal.status, contentType: JSON_TYPE, body, headers, closing })
}

/** Refuses a method with 405 and the header Allow; `allow` is its value. */
export function sendMethodNotAllowed(exchange: Exchange, allow: string): void {
  const refusal = new ServiceError('method_not_allowed', `use one of: ${allow}`)
  const body = JSON.stringify(refusal.toBody())
  send(exchange, { status: 405, contentType: JSON_TYPE, body, headers: [['Allow', allow]] })
}

/**
 * Writes any answer. One that ends its connection is written when everything that was received with the
 * request has been parsed: as long as no answer is out, the library closes the connection at a second
 * request instead of handing it to us.
 */
export function send(exchange: Exchange, answer: Answer): void {
  if (!exchange.endsConnection || !exchange.isOpen) {
    write(exchange, answer)
    return
  }
  if (exchange.isAnswerDelayed) return
  exchange.isAnswerDelayed = true
  const body = answer.isBodyReused === true ? Buffer.from(answer.body) : answer.body
  setImmediate(() => write(exchange, { ...answer, body, closing: 'cut' }))
}

function write(exchange: Exchange, answer: Answer): void {
  if (!exchange.isOpen) {
    exchange.finish(answer.status)
    return
  }
  const body = typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body
  if (body.length > DIRECT_BYTES_MAX && exchange.method !== 'HEAD') {
    new LargeAnswer(exchange, answer, body).start()
    return
  }
  const { response } = exchange
  response.cork(() => {
    writeHead(exchange, answer)
    if (exchange.method === 'HEAD' || answer.status === 204) {
      // With an argument, endWithoutBody takes the answer for unfinished and the next request on the
      // connection for an offence.
      if (answer.status !== 204) response.writeHeader('Content-Length', String(body.length))
      else if (exchange.endsConnection) response.endWithoutBody(0, true)
      if (answer.status !== 204 || !exchange.endsConnection) response.endWithoutBody()
      return
    }
    const isCut = answer.closing === 'cut' || (exchange.owner.isDraining && !isDrained(answer))
    response.end(body, isCut)
  })
  exchange.finish(answer.status)
}

function isDrained(answer: Answer): boolean {
  return answer.closing === 'drain'
}

function unexpected(exchange: Exchange, error: unknown): ServiceError {
  const id = exchange.owner.reportError(exchange, error)
  return new ServiceError(
    'error',
    `an unexpected error; the server's log tells more under id ${id}`,
  )
}

function writeHead(exchange: Exchange, answer: Answer): void {
  const { response } = exchange
  if (answer.status !== 200) {
    response.writeStatus(STATUS_LINES.get(answer.status) ?? String(answer.status))
  }
  if (answer.contentType !== '') response.writeHeader('Content-Type', answer.contentType)
  response.writeHeader('X-Content-Type-Options', 'nosniff')
  if (isDrained(answer)) response.writeHeader('Connection', 'close')
  if (exchange.origin !== '') writeCors(exchange)
  else if (exchange.isPublic && isCacheable(exchange.method)) {
    // A cache must not hand an answer without CORS headers to a page that asks later.
    response.writeHeader('Vary', 'Origin')
  }
  for (const [name, value] of answer.headers ?? []) response.writeHeader(name, value)
}

function isCacheable(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function writeCors(exchange: Exchange): void {
  const isPreflight = exchange.method === 'OPTIONS'
  for (const [name, value] of corsHeaders(
    exchange.origin,
    exchange.requestedHeaders,
    isPreflight,
  )) {
    exchange.response.writeHeader(name, value)
  }
}

/**
 * An answer that does not fit into the socket's buffer. uWebSockets.js would copy the rest and keep it
 * for as long as the client likes; here it stays in the one buffer, and a client that reads nothing
 * for a while is cut off.
 */
class LargeAnswer {
  readonly #exchange: Exchange
  readonly #answer: Answer
  #body: Uint8Array
  #headBytes = 0
  #stallTimer: NodeJS.Timeout | undefined

  constructor(exchange: Exchange, answer: Answer, body: Uint8Array) {
    this.#exchange = exchange
    this.#answer = answer
    this.#body = body
  }

  start(): void {
    const { response } = this.#exchange
    this.#exchange.onAbort = () => {
      this.#finish()
    }
    response.cork(() => {
      writeHead(this.#exchange, this.#answer)
      // The library cannot close behind an answer of this kind: the client is asked to.
      if (this.#exchange.endsConnection) response.writeHeader('Connection', 'close')
      this.#headBytes = response.getWriteOffset()
      if (this.#write(0)) return
      if (this.#answer.isBodyReused === true) this.#body = Buffer.from(this.#body)
      this.#watch()
      response.onWritable((offset) => this.#resume(offset))
    })
  }

  /** Called when the client has read something. False asks to be called again. */
  #resume(offset: number): boolean {
    clearTimeout(this.#stallTimer)
    if (this.#write(offset - this.#headBytes)) return true
    this.#watch()
    return false
  }

  /** Writes from a position of the body on; true when everything is out. */
  #write(start: number): boolean {
    const [, isDone] = this.#exchange.response.tryEnd(this.#body.subarray(start), this.#body.length)
    if (isDone) this.#finish()
    return isDone
  }

  #watch(): void {
    this.#stallTimer = setTimeout(() => {
      if (this.#exchange.isOpen) this.#exchange.response.close()
    }, this.#exchange.owner.readerStallMs)
  }

  #finish(): void {
    clearTimeout(this.#stallTimer)
    this.#exchange.finish(this.#answer.status)
  }
}
