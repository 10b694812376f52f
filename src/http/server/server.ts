/**
 * The HTTP server: listening, one entrance for every request, and an orderly end. Whatever a handler
 * does, its request gets exactly one answer: an exception becomes 500 `error`, an unknown path 404, a
 * wrong method 405, and a request with ambiguous framing 400 before any handler sees it.
 *
 * The library that speaks HTTP closes a connection without an answer when a further request arrives before the
 * first one is answered (pipelining), and when the client closes its sending side. Such events may be
 * stored and sent again; duplicates are recognised by their uuid.
 */

import type { Clock } from '../../base/clock.ts'
import { OperatorError, ServiceError } from '../../base/errors.ts'
import { uuidV7 } from '../../base/ids.ts'
import {
  API_BODY_BYTES_MAX,
  API_BODY_CONTAINERS_MAX,
  API_BODY_VALUES_MAX,
} from '../../base/limits.ts'
import type { HttpServerChoice, HttpServerName } from '../../config/settings-table.ts'
import type { ServiceMetrics } from '../../engine/front/service-metrics.ts'
import { refuseManyValues } from '../../rules/capture/json-text.ts'
import { type AuditOptions, audited, isAudited } from './audit.ts'
import { type BodyBudget, collectBody } from './body.ts'
import { openFront } from './choose-front.ts'
import { addressOf, Exchange, type ExchangeOwner, RouteMetrics } from './exchange.ts'
import { browserWords, checkFraming, type RequestHead } from './framing.ts'
import type { Front, FrontRequest, FrontResponse } from './front.ts'
import type { PublicHandler, PublicRoute } from './public-route.ts'
import type { RateLimits } from './rate-limits.ts'
import { type Answer, send, sendEmpty, sendError, sendMethodNotAllowed } from './respond.ts'
import {
  type ApiHandler,
  ApiRequest,
  groupByPath,
  type PathRoutes,
  parameterNames,
  type Route,
} from './router.ts'
import { addressBehind, TrustedProxies } from './url.ts'
import { WaitingAnswers } from './waiting-answers.ts'

/** Of requests to public routes, one in this many is timed: a power of two. */
const TIMED_EVERY = 16
const READER_STALL_MS = 30_000

/** What is served for GET and HEAD of paths that no route has. */
export interface PageSource {
  /** Who answers for a path and a header Accept; null: nobody. What it throws is answered, too. */
  find(path: string, accept: string): ((head: RequestHead) => Answer) | null
}

/** What a server needs. */
export interface HttpServerOptions {
  /** Receives unexpected errors; a `Logger` will do. */
  readonly log: { error(fields: object, message: string): void }
  readonly clock: Clock
  readonly metrics: ServiceMetrics
  /** For the bodies of private routes. */
  readonly budget: BodyBudget
  /** The library that speaks HTTP; default `auto`. */
  readonly httpServer?: HttpServerChoice
  /** Open connections; a further one is closed at once. Stay below the limit of open files. */
  readonly connectionsMax?: number
  /** Milliseconds without progress after which a reader of a large answer is cut off; 30,000. */
  readonly readerStallMs?: number
  /** Bytes a second that such a reader has to take over the whole answer; see http/server/waiting-answers.ts. */
  readonly readerBytesPerSecondMin?: number
  /** Bytes that answers hold that wait for their readers; see there. */
  readonly waitingBytesMax?: number
  /** Where changes are noted; without it they are not. */
  readonly audit?: AuditOptions
  /** Of requests in a second; none without it. */
  readonly limits?: RateLimits
  /** What is served outside of the routes; nothing without it. */
  readonly pages?: PageSource | undefined
  /** Proxies that may say whom a request comes from; none without it. */
  readonly trustedProxies?: TrustedProxies
}

/** One listening server. Register all routes, then `listen`. */
export class HttpServer implements ExchangeOwner {
  readonly waiting: WaitingAnswers
  readonly limits: RateLimits | null
  readonly #front: Front
  readonly #options: HttpServerOptions
  readonly #trustedProxies: TrustedProxies
  #port = 0
  #commonPeer: string | null = null
  #requestsInProgress = 0
  #requestCount = 0
  #isDraining = false
  #onIdle: (() => void) | null = null

  constructor(options: HttpServerOptions) {
    this.#front = openFront(options.httpServer ?? 'auto')
    options.metrics.httpServer.with(this.#front.name).value = 1
    this.#options = options
    this.limits = options.limits ?? null
    this.#trustedProxies = options.trustedProxies ?? new TrustedProxies([])
    this.waiting = new WaitingAnswers({
      metrics: options.metrics,
      stallMs: options.readerStallMs ?? READER_STALL_MS,
      bytesMax: options.waitingBytesMax,
      bytesPerSecondMin: options.readerBytesPerSecondMin,
    })
    this.#limitConnections(options.connectionsMax ?? Infinity)
    const unknown = this.#routeMetrics('unknown')
    const pages = this.#routeMetrics('console')
    this.#front.any('/*', (response, request) => {
      const page = this.#pageFor(request)
      if (page === null) {
        this.#enter(response, request, unknown, !isPrivatePath(request.getUrl()), refuseUnknown)
      } else {
        const answerPage = (exchange: Exchange, head: RequestHead) => send(exchange, page(head))
        this.#enter(response, request, pages, false, answerPage)
      }
    })
    this.#front.faulty((response, request, fault) => {
      const isPublic = !isPrivatePath(request.getUrl())
      this.#enter(response, request, unknown, isPublic, (exchange) => {
        refuseFraming(exchange, fault)
      })
    })
  }

  /** The library that speaks HTTP. */
  get libraryName(): HttpServerName {
    return this.#front.name
  }

  /** The port in use after `listen`. */
  get port(): number {
    return this.#port
  }

  get commonPeer(): string | null {
    return this.#commonPeer
  }

  /** Requests that have no answer yet. */
  get requestsInProgress(): number {
    return this.#requestsInProgress
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Registers public routes, all of them that share a path in one call. */
  publicRoutes(table: readonly PublicRoute[]): void {
    const slashed = table.map((route) => ({ ...route, path: `${route.path}/` }))
    for (const { path, handlers, allow } of groupByPath(slashed)) {
      this.raw(path.slice(0, -1), (exchange, head) => {
        const handler = handlers.get(exchange.method)
        if (handler !== undefined) return handler(exchange, head)
        sendMethodNotAllowed(exchange, allow)
      })
    }
  }

  /** Registers a public path, with a trailing slash or without, for every method. Answers carry CORS headers. */
  raw(path: string, handler: PublicHandler): void {
    const metrics = this.#routeMetrics(path)
    const enter = (response: FrontResponse, request: FrontRequest): void => {
      this.#enter(response, request, metrics, true, handler)
    }
    this.#front.any(path, enter)
    this.#front.any(`${path}/`, enter)
  }

  /**
   * Registers private routes. Call once for all of them that share a path. What those of them do that may
   * change something is noted in the audit log.
   */
  routes(table: readonly Route[]): void {
    const { audit } = this.#options
    const noted = table.map((route) =>
      audit !== undefined && isAudited(route)
        ? { ...route, handler: audited(route, audit) }
        : route,
    )
    for (const pathRoutes of groupByPath(noted)) {
      const metrics = this.#routeMetrics(pathRoutes.path, !pathRoutes.isUnlimited)
      const names = parameterNames(pathRoutes.path)
      const enter = (response: FrontResponse, request: FrontRequest): void => {
        this.#enter(response, request, metrics, false, (exchange, head) => {
          this.#dispatch(exchange, request, head, pathRoutes, names)
        })
      }
      this.#front.any(pathRoutes.path, enter)
      this.#front.any(pathRoutes.path.slice(0, -1), enter)
    }
  }

  /**
   * Listens; port 0 takes any free one. Resolves to the port. Rejects with `OperatorError` when the
   * address is in use, also by another process of this program, or cannot be used.
   */
  async listen(host: string, port: number): Promise<number> {
    const listening = await this.#front.listen(host, port)
    if (typeof listening === 'string') {
      throw new OperatorError(`cannot listen on ${host}:${port}: ${listening}`)
    }
    this.#port = listening
    return listening
  }

  /**
   * Stops accepting connections, waits until every request has its answer, at most `deadlineMs`
   * milliseconds, and closes all connections. Resolves to the number of requests that were cut off.
   */
  async close(deadlineMs: number): Promise<number> {
    this.#isDraining = true
    this.#front.stopListening()
    if (this.#requestsInProgress > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, deadlineMs)
        this.#onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    await new Promise((resolve) => setImmediate(resolve))
    const cutOffCount = this.#requestsInProgress
    this.#front.close()
    return cutOffCount
  }

  #pageFor(request: FrontRequest): ((head: RequestHead) => Answer) | null {
    const { pages } = this.#options
    const method = request.getCaseSensitiveMethod()
    const path = request.getUrl()
    const isAsked = method === 'GET' || method === 'HEAD'
    if (pages === undefined || !isAsked || isPrivatePath(path)) return null
    return pages.find(path, request.getHeader('accept'))
  }

  #limitConnections(connectionsMax: number): void {
    const { httpConnections: gauge, httpConnectionsRefused: refused } = this.#options.metrics
    const { limits } = this
    const proxies = this.#trustedProxies
    // biome-ignore lint/suspicious/useIterableCallbackReturn: this is no array.
    this.#front.filter((connection, change) => {
      gauge.value += change
      if (change <= 0) return
      if (gauge.value > connectionsMax) {
        refused.value++
        connection.close()
        return
      }
      const address = addressOf(connection)
      this.#notePeer(address, gauge.value)
      if (limits?.hasConnectionLimit !== true || proxies.has(address)) return
      if (!limits.connection(address)) connection.close()
    })
  }

  /** Of a new connection, and how many there are with it; whose address one that ends had, nobody says. */
  #notePeer(address: string, connections: number): void {
    this.#commonPeer = connections === 1 || this.#commonPeer === address ? address : null
  }

  #routeMetrics(route: string, isLimited = true): RouteMetrics {
    const hasLimit = isLimited && this.limits?.hasAddressLimit === true
    return new RouteMetrics(route, this.#options.metrics, hasLimit)
  }

  /** Every request comes through here. */
  #enter(
    response: FrontResponse,
    request: FrontRequest,
    route: RouteMetrics,
    isPublic: boolean,
    handle: PublicHandler,
  ): void {
    const head = checkFraming(request, route.segmentCount)
    const isTimed = !isPublic || (this.#requestCount++ & (TIMED_EVERY - 1)) === 0
    const options = {
      response,
      owner: this,
      route,
      method: request.getCaseSensitiveMethod(),
      isPublic,
      startedAtMs: isTimed ? this.#options.clock.monotonic() : -1,
    }
    const exchange = new Exchange(options, head)
    this.#requestsInProgress++
    this.#options.metrics.httpRequestsInProgress.value = this.#requestsInProgress
    response.onAborted(() => {
      exchange.abort()
    })
    if (head.fault !== null) {
      refuseFraming(exchange, head.fault)
      return
    }
    if (route.isLimited && this.#isTooOften(exchange, head)) return
    try {
      const result = handle(exchange, head)
      if (result instanceof Promise) {
        result.catch((error: unknown) => {
          sendError(exchange, error)
        })
      }
    } catch (error) {
      sendError(exchange, error)
    }
  }

  /** Counts a request for its address, and answers it when there were too many. */
  #isTooOften(exchange: Exchange, head: RequestHead): boolean {
    const { peerAddress } = exchange
    const address = addressBehind(peerAddress, head.forwardedFor, this.#trustedProxies)
    const refusal = this.limits?.address(address) ?? null
    if (refusal === null) return false
    const hasBody = head.contentLength !== null || head.isChunked
    sendError(exchange, refusal, hasBody ? 'drain' : 'keep')
    return true
  }

  #dispatch(
    exchange: Exchange,
    request: FrontRequest,
    head: RequestHead,
    routes: PathRoutes<ApiHandler>,
    names: readonly string[],
  ): void {
    const handler = routes.handlers.get(exchange.method)
    if (handler === undefined) {
      sendMethodNotAllowed(exchange, routes.allow)
      return
    }
    const apiRequest = new ApiRequest(
      exchange,
      request.getUrl(),
      head,
      names,
      browserWords(request),
    )
    if (head.contentLength === null && !head.isChunked) {
      answer(exchange, handler, apiRequest)
      return
    }
    collectBody(exchange, head.contentLength, {
      bytesMax: API_BODY_BYTES_MAX,
      budget: this.#options.budget,
      onBody: (body, isTransient) => {
        // Tables are read without making an object of each line.
        if (!apiRequest.isTable) {
          refuseManyValues(body, API_BODY_VALUES_MAX, API_BODY_CONTAINERS_MAX)
        }
        apiRequest.body = isTransient ? body.slice() : body
        answer(exchange, handler, apiRequest)
      },
    })
  }

  /** One request less; see `ExchangeOwner`. */
  exchangeFinished(exchange: Exchange, status: number): void {
    this.#requestsInProgress--
    this.#options.metrics.httpRequestsInProgress.value = this.#requestsInProgress
    if (status === 0) this.#options.metrics.httpRequestsAborted.value++
    else {
      exchange.route.count(status)
      if (exchange.startedAtMs >= 0) {
        exchange.route.seconds.observe(
          (this.#options.clock.monotonic() - exchange.startedAtMs) / 1000,
        )
      }
    }
    if (this.#requestsInProgress === 0 && this.#onIdle !== null) this.#onIdle()
  }

  /** Notes an unexpected error; see `ExchangeOwner`. */
  reportError(exchange: Exchange, error: unknown): string {
    const requestId = uuidV7(this.#options.clock.now())
    this.#options.log.error(
      { requestId, method: exchange.method, route: exchange.route.route, err: error },
      'a request failed unexpectedly',
    )
    return requestId
  }
}

/**
 * Runs a handler and answers whatever comes out, at once if the handler needs no wait: a pipelined
 * request behind it is then served, too.
 */
function answer(exchange: Exchange, handler: ApiHandler, request: ApiRequest): void {
  const fail = (error: unknown): void => {
    sendError(exchange, error)
  }
  try {
    const result = handler(request)
    if (result instanceof Promise) result.then((value) => send(exchange, value)).catch(fail)
    else send(exchange, result)
  } catch (error) {
    fail(error)
  }
}

/** Where browsers have no business: not even the 404 for an unknown path is shown to other origins. */
function isPrivatePath(path: string): boolean {
  return path === '/api' || path.startsWith('/api/')
}

function refuseUnknown(exchange: Exchange): void {
  // The page that asks for leave is to see the 404 that follows, instead of a failure that it repeats.
  if (exchange.method === 'OPTIONS' && exchange.origin !== '') {
    sendEmpty(exchange, 204)
    return
  }
  const detail = 'there is nothing under this path; compare it with the API description'
  sendError(exchange, new ServiceError('not_found', detail))
}

/**
 * Answers 400 and closes, but not before everything that was received with the request has been
 * parsed: as long as no answer is out, the library closes the connection at a second request instead
 * of handing it to us, and a hidden request is never executed.
 */
function refuseFraming(exchange: Exchange, fault: string): void {
  setImmediate(() => {
    sendError(exchange, new ServiceError('bad_request', fault), 'cut')
  })
}
