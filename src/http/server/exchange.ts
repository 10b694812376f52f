/**
 * One request and its answer, from the headers until the answer is complete. The exchange records whether the client is
 * still connected, so that the response object of the HTTP library is never used after the connection or the answer has
 * ended. It also records the resources that must be released exactly once: the entry in the count of open requests, and
 * the bytes that are reserved for the body.
 *
 * Every exchange is answered once through http/server/respond.ts, even if the client has left. In that case the answer
 * is discarded, and only the resources are released.
 */
import { formatAddress } from '../../base/addresses.ts'
import type { Counter, Histogram, MetricFamily } from '../../base/metrics.ts'
import type { ServiceMetrics } from '../../engine/front/service-metrics.ts'
import type { RequestHead } from './framing.ts'
import type { FrontConnection, FrontResponse } from './front.ts'
import type { RateLimits } from './rate-limits.ts'
import type { WaitingAnswers } from './waiting-answers.ts'

/** The metrics of one route. */
export class RouteMetrics {
  /** The path pattern of the route. */
  readonly route: string
  /** The number of parameters in the path. */
  readonly segmentCount: number
  readonly seconds: Histogram
  /** True if requests count toward the rate limit of the client's IP address. */
  readonly isLimited: boolean
  readonly #requests: MetricFamily<Counter>
  readonly #byStatus = new Map<number, Counter>()

  constructor(route: string, metrics: ServiceMetrics, isLimited: boolean) {
    this.isLimited = isLimited
    this.route = route
    this.segmentCount = route.split('/:').length - 1
    this.#requests = metrics.httpRequests
    this.seconds = metrics.httpRequestSeconds.with(route)
  }

  /** Counts one answer with this status. */
  count(status: number): void {
    let counter = this.#byStatus.get(status)
    if (counter === undefined) {
      counter = this.#requests.with(this.route, String(status))
      this.#byStatus.set(status, counter)
    }
    counter.value++
  }
}

/** The server, to which an exchange reports its end and its errors. */
export interface ExchangeOwner {
  /** True while the server is closing. Answers then tell the client to close the connection. */
  readonly isDraining: boolean
  /** The large answers that wait until their clients have read them. */
  readonly waiting: WaitingAnswers
  /** The rate limits, or null if none are set. */
  readonly limits: RateLimits | null
  /**
   * The peer address that all open connections have in common. Null if they may have different addresses, or if no
   * connection is open. While there is a common address, no call of `addressOf` is needed.
   */
  readonly commonPeer: string | null
  /** Called once for each exchange. `status` is 0 if the client left before the answer was complete. */
  exchangeFinished(exchange: Exchange, status: number): void
  /** Logs an unexpected error, and returns the ID that the log entry contains. */
  reportError(exchange: Exchange, error: unknown): string
}

/** Returns the IP address at the other end of a connection. The call costs a system call and allocates memory. */
export function addressOf(connection: FrontConnection): string {
  return formatAddress(new Uint8Array(connection.getRemoteAddress()))
}

/** The memory budget from which the bytes of a body were reserved, and to which they are returned. See `BodyBudget`. */
export interface Reservations {
  release(bytes: number): void
}

/** The values with which an exchange is created, besides the head of the request. */
export type ExchangeStart = Pick<
  Exchange,
  'response' | 'owner' | 'route' | 'method' | 'isPublic' | 'startedAtMs'
>

/** One request and its answer. */
export class Exchange {
  readonly response: FrontResponse
  readonly owner: ExchangeOwner
  readonly route: RouteMetrics
  /** The method as the client wrote it. Methods are case-sensitive. */
  readonly method: string
  /** True for public routes, whose answers have CORS headers. */
  readonly isPublic: boolean
  /**
   * The moment at which the request arrived, in milliseconds of the monotonic clock. It is -1 if this request is not
   * timed.
   */
  readonly startedAtMs: number
  /**
   * True if the body is chunked. uWebSockets.js does not check the end of a chunked body strictly enough to trust the
   * bytes after it. Therefore the connection is closed after the answer, and no later request on the connection is
   * executed.
   */
  readonly endsConnection: boolean
  /** True if `send` was called, but writes the answer only in the next turn of the event loop. */
  isAnswerDelayed = false
  /** True while a handler waits for the first bytes of the body. */
  isBodyAwaited = false
  /** The Origin header of a request to a public route, or '' if there is none. */
  readonly origin: string
  /** The header Access-Control-Request-Headers of a request to a public route, or '' if there is none. */
  readonly requestedHeaders: string
  /** Called once if the client leaves before the answer is complete. */
  onAbort: (() => void) | null = null
  #isAborted = false
  #isAnswered = false
  #reservations: Reservations | null = null
  #reservedBytes = 0

  constructor(options: ExchangeStart, head: RequestHead) {
    this.response = options.response
    this.owner = options.owner
    this.route = options.route
    this.method = options.method
    this.isPublic = options.isPublic
    this.startedAtMs = options.startedAtMs
    this.endsConnection = head.isChunked
    this.origin = options.isPublic ? head.origin : ''
    this.requestedHeaders = options.isPublic ? head.accessControlRequestHeaders : ''
  }

  /** True if the client is connected and was not answered yet. Only then may `response` be used. */
  get isOpen(): boolean {
    return !this.#isAborted && !this.#isAnswered
  }

  /** True if the client left before the answer was complete. */
  get isAborted(): boolean {
    return this.#isAborted
  }

  /** True if the exchange is over and all its resources are released. */
  get isAnswered(): boolean {
    return this.#isAnswered
  }

  /** The IP address at the other end of the connection, which may be that of a proxy. It is '' after an abort. */
  get peerAddress(): string {
    if (!this.isOpen) return ''
    return this.owner.commonPeer ?? addressOf(this.response)
  }

  /** Records that bytes were reserved for the body. They are released when the exchange is answered. */
  hold(reservations: Reservations, bytes: number): void {
    this.#reservations = reservations
    this.#reservedBytes += bytes
  }

  /**
   * Releases the bytes that were reserved for the body. May be called before the answer, once the body is no longer in
   * memory.
   */
  releaseBody(): void {
    if (this.#reservations === null) return
    this.#reservations.release(this.#reservedBytes)
    this.#reservations = null
    this.#reservedBytes = 0
  }

  /** Marks the exchange as aborted by the client. Only the server calls it. */
  abort(): void {
    if (this.#isAborted) return
    this.#isAborted = true
    const { onAbort } = this
    this.onAbort = null
    if (onAbort !== null) onAbort()
    else if (this.isBodyAwaited) this.finish(0)
  }

  /**
   * Ends the exchange, because it was answered or because the client has left. Only http/server/respond.ts and
   * http/server/body.ts call it.
   */
  finish(status: number): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    this.onAbort = null
    this.releaseBody()
    this.owner.exchangeFinished(this, this.#isAborted ? 0 : status)
  }
}
