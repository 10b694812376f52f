/**
 * The HTTP server. It listens, passes every request through one entry point, and shuts down properly. Each request gets
 * exactly one answer, whatever its handler does. An exception is answered with 500 `error`, an unknown path with 404,
 * and a wrong method with 405. A request whose end is ambiguous (see framing.ts) is answered with 400, before a handler
 * runs.
 *
 * There are two cases in which the HTTP library closes a connection without an answer: if a request arrives before the
 * previous one is answered (pipelining), or if the client closes its sending side. The events of the unanswered request
 * may be stored all the same, and the client may send them again. Such duplicates are recognized by their UUIDs.
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
import { addressBehindProxies, TrustedProxies } from './url.ts'
import { WaitingAnswers } from './waiting-answers.ts'

/**
 * One of this many requests to public routes is timed. The number must be a power of two, because it serves as a bit
 * mask.
 */
const TIMED_EVERY = 16
const READER_STALL_MS = 30_000

/** Finds the page for a GET or HEAD request to a path that belongs to no route, such as a page of the console. */
export interface PageSource {
  /**
   * Returns the handler of the page for a path and an Accept header, or null if there is no such page. If the handler
   * throws an error, it is answered like an error of a route.
   */
  find(path: string, accept: string): ((head: RequestHead) => Answer) | null
}

/** The options of a server. */
export interface HttpServerOptions {
  /** Logs unexpected errors. A `Logger` can be passed. */
  readonly log: { error(fields: object, message: string): void }
  readonly clock: Clock
  readonly metrics: ServiceMetrics
  /** The budget for the bodies of private routes. */
  readonly budget: BodyBudget
  /** The HTTP library. The default is `auto`. */
  readonly httpServer?: HttpServerChoice
  /**
   * How many connections may be open. A connection beyond this number is closed at once. The number must be lower than
   * the limit of open files.
   */
  readonly connectionsMax?: number
  /**
   * After this many milliseconds without progress, the client that reads a large answer is cut off. The default is
   * 30,000.
   */
  readonly readerStallMs?: number
  /**
   * How many bytes per second the client that reads a large answer must take on average. See
   * http/server/waiting-answers.ts.
   */
  readonly readerBytesPerSecondMin?: number
  /** How many bytes may wait in answers until their clients read them. See http/server/waiting-answers.ts. */
  readonly waitingBytesMax?: number
  /** The audit log. If absent, changes are not recorded. */
  readonly audit?: AuditOptions
  /** The rate limits. If absent, there are none. */
  readonly limits?: RateLimits
  /** The pages that are served besides the routes. If absent, there are none. */
  readonly pages?: PageSource | undefined
  /** The proxies that are trusted to report the client's address. If absent, no proxy is trusted. */
  readonly trustedProxies?: TrustedProxies
}

/** A server on one port. All routes must be registered before `listen` is called. */
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

  /** The name of the library that speaks HTTP. */
  get libraryName(): HttpServerName {
    return this.#front.name
  }

  /** The port on which the server listens. It is known after `listen`. */
  get port(): number {
    return this.#port
  }

  get commonPeer(): string | null {
    return this.#commonPeer
  }

  /** The number of requests that have no answer yet. */
  get requestsInProgress(): number {
    return this.#requestsInProgress
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Registers public routes. All routes with the same path must be passed in one call. */
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

  /**
   * Registers a handler for a public path and all methods, with and without a trailing slash. Its answers have CORS
   * headers.
   */
  raw(path: string, handler: PublicHandler): void {
    const metrics = this.#routeMetrics(path)
    const enter = (response: FrontResponse, request: FrontRequest): void => {
      this.#enter(response, request, metrics, true, handler)
    }
    this.#front.any(path, enter)
    this.#front.any(`${path}/`, enter)
  }

  /**
   * Registers private routes. All routes with the same path must be passed in one call. Requests to routes that may
   * change something are recorded in the audit log.
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
   * Starts to listen, and resolves with the port. Port 0 stands for any free port. Rejects with `OperatorError` if the
   * address is already in use, even by another process of this program, or if it cannot be used.
   */
  async listen(host: string, port: number): Promise<number> {
    const listening = await this.#front.listen(host, port)
    if (typeof listening === 'string') {
      throw new OperatorError(`Cannot listen on ${host}:${port}: ${listening}.`)
    }
    this.#port = listening
    return listening
  }

  /**
   * Stops accepting connections, waits for at most `deadlineMs` milliseconds until all requests are answered, and then
   * closes all connections. Resolves with the number of requests that were cut off.
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

  /**
   * Updates the peer address that all open connections have in common. `connections` is the number of open connections,
   * including the new one. When a connection ends, its address is not known. After two connections with different
   * addresses, there is therefore no common address until all connections have ended and a new one begins.
   */
  #notePeer(address: string, connections: number): void {
    this.#commonPeer = connections === 1 || this.#commonPeer === address ? address : null
  }

  #routeMetrics(route: string, isLimited = true): RouteMetrics {
    const hasLimit = isLimited && this.limits?.hasAddressLimit === true
    return new RouteMetrics(route, this.#options.metrics, hasLimit)
  }

  /** The entry point of every request. */
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

  /**
   * Counts a request toward the rate limit of the client's IP address. If there were too many, it answers this request
   * with an error and returns true.
   */
  #isTooOften(exchange: Exchange, head: RequestHead): boolean {
    const { peerAddress } = exchange
    const address = addressBehindProxies(peerAddress, head.forwardedFor, this.#trustedProxies)
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
        // The number of values in a table is not limited, because a table is read without an object for each line.
        if (!apiRequest.isTable) {
          refuseManyValues(body, API_BODY_VALUES_MAX, API_BODY_CONTAINERS_MAX)
        }
        apiRequest.body = isTransient ? body.slice() : body
        answer(exchange, handler, apiRequest)
      },
    })
  }

  /** Called once for each exchange when it ends. See `ExchangeOwner`. */
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

  /** Logs an unexpected error and returns the ID of its log entry. See `ExchangeOwner`. */
  reportError(exchange: Exchange, error: unknown): string {
    const requestId = uuidV7(this.#options.clock.now())
    this.#options.log.error(
      { requestId, method: exchange.method, route: exchange.route.route, err: error },
      'A request failed unexpectedly.',
    )
    return requestId
  }
}

/**
 * Runs a handler and sends its result. If the handler returns its answer synchronously, the answer is sent at once,
 * before the library reads the next request on the connection. Without that, the library would close the connection
 * when it finds the next request.
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

/**
 * Returns true if a path belongs to the private API. Pages of other origins must not read the answers of the private
 * API, not even the 404 of an unknown path.
 */
function isPrivatePath(path: string): boolean {
  return path === '/api' || path.startsWith('/api/')
}

function refuseUnknown(exchange: Exchange): void {
  // The preflight request is allowed, so that the page then sees the 404. If the preflight failed, the page would
  // retry.
  if (exchange.method === 'OPTIONS' && exchange.origin !== '') {
    sendEmpty(exchange, 204)
    return
  }
  const detail = 'This path does not exist. Compare it with the API description.'
  sendError(exchange, new ServiceError('not_found', detail))
}

/**
 * Answers 400 and closes the connection, but only after everything that was received with the request has been parsed.
 * If the library finds a second request before the answer is written, it closes the connection and does not execute the
 * second request. A request that is hidden in the first one is therefore never executed.
 */
function refuseFraming(exchange: Exchange, fault: string): void {
  setImmediate(() => {
    sendError(exchange, new ServiceError('bad_request', fault), 'cut')
  })
}
