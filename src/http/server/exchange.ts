/**
 * One request and its answer, from the headers until the answer is out. It knows whether the client
 * is still there, so that nothing touches a response of the HTTP library after its end, and it holds what
 * must be given back exactly once: the place in the count of open requests and the bytes reserved
 * for the body.
 *
 * Every exchange is answered once, through http/server/respond.ts, even when the client has left meanwhile:
 * the answer then goes nowhere and only gives back what the exchange holds.
 */
import { formatAddress } from '../../base/addresses.ts'
import type { Counter, Histogram, MetricFamily } from '../../base/metrics.ts'
import type { ServiceMetrics } from '../../engine/front/service-metrics.ts'
import type { RequestHead } from './framing.ts'
import type { FrontConnection, FrontResponse } from './front.ts'
import type { RateLimits } from './rate-limits.ts'
import type { WaitingAnswers } from './waiting-answers.ts'

/** What is counted about one route. */
export class RouteMetrics {
  /** The path pattern. */
  readonly route: string
  /** Parameters in it. */
  readonly segmentCount: number
  readonly seconds: Histogram
  /** Requests count for the limit of addresses. */
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

  /** Counts one answer. */
  count(status: number): void {
    let counter = this.#byStatus.get(status)
    if (counter === undefined) {
      counter = this.#requests.with(this.route, String(status))
      this.#byStatus.set(status, counter)
    }
    counter.value++
  }
}

/** What an exchange reports to; the server. */
export interface ExchangeOwner {
  /** The server is closing: answers ask the client to close the connection. */
  readonly isDraining: boolean
  /** Large answers that wait for their readers. */
  readonly waiting: WaitingAnswers
  /** Null: there are none. */
  readonly limits: RateLimits | null
  /** The address at the other end of all connections; null when they are known to have several, or none is open. */
  readonly commonPeer: string | null
  /** Called once for each exchange. `status` is 0 when the client left before the answer. */
  exchangeFinished(exchange: Exchange, status: number): void
  /** Logs an unexpected error and returns the id under which it can be found. */
  reportError(exchange: Exchange, error: unknown): string
}

/** The address at the other end of a connection. Costs a system call and memory that is collected. */
export function addressOf(connection: FrontConnection): string {
  return formatAddress(new Uint8Array(connection.getRemoteAddress()))
}

/** Where bytes were reserved; see `BodyBudget`. */
export interface Reservations {
  release(bytes: number): void
}

/** What an exchange begins with, besides the head of its request. */
export type ExchangeStart = Pick<
  Exchange,
  'response' | 'owner' | 'route' | 'method' | 'isPublic' | 'startedAtMs'
>

/** One request and its answer. */
export class Exchange {
  readonly response: FrontResponse
  readonly owner: ExchangeOwner
  readonly route: RouteMetrics
  /** As the client wrote it; methods are case-sensitive. */
  readonly method: string
  /** Public routes answer with CORS headers. */
  readonly isPublic: boolean
  /** Monotonic milliseconds, or -1 when this request is not timed. */
  readonly startedAtMs: number
  /**
   * The body comes in chunks, whose ends the library does not read strictly enough to trust what follows:
   * the connection ends with the answer, and what stands behind the request is never carried out.
   */
  readonly endsConnection: boolean
  /** The answer is given, but not yet written; see `send`. */
  isAnswerDelayed = false
  /** A handler waits for the body and has got nothing of it yet. */
  isBodyAwaited = false
  /** The Origin of a request to a public route, or ''. */
  readonly origin: string
  /** Its Access-Control-Request-Headers, or ''. */
  readonly requestedHeaders: string
  /** Called once when the client leaves before the answer is complete. */
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

  /** The client is there and has no answer yet: `response` may be used. */
  get isOpen(): boolean {
    return !this.#isAborted && !this.#isAnswered
  }

  /** The client left before the answer was complete. */
  get isAborted(): boolean {
    return this.#isAborted
  }

  /** Everything is over and given back. */
  get isAnswered(): boolean {
    return this.#isAnswered
  }

  /** The address at the other end of the connection (a proxy's, if there is one), '' after an abort. */
  get peerAddress(): string {
    if (!this.isOpen) return ''
    return this.owner.commonPeer ?? addressOf(this.response)
  }

  /** Notes bytes that were reserved for the body; they are given back with the answer. */
  hold(reservations: Reservations, bytes: number): void {
    this.#reservations = reservations
    this.#reservedBytes += bytes
  }

  /** Gives back the bytes of the body before the answer, because the body is not in memory any more. */
  releaseBody(): void {
    if (this.#reservations === null) return
    this.#reservations.release(this.#reservedBytes)
    this.#reservations = null
    this.#reservedBytes = 0
  }

  /** The client left. For the server only. */
  abort(): void {
    if (this.#isAborted) return
    this.#isAborted = true
    const { onAbort } = this
    this.onAbort = null
    if (onAbort !== null) onAbort()
    else if (this.isBodyAwaited) this.finish(0)
  }

  /** The answer is out, or nobody waits for it. For http/server/respond.ts and http/server/body.ts only. */
  finish(status: number): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    this.onAbort = null
    this.releaseBody()
    this.owner.exchangeFinished(this, this.#isAborted ? 0 : status)
  }
}
