/**
 * The types of private routes, which consist of a method, a path and a handler. A handler receives an `ApiRequest` with
 * the whole body. It returns an answer or throws an error.
 */
import { ServiceError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type { Exchange } from './exchange.ts'
import type { BrowserWords, RequestHead } from './framing.ts'
import { jsonBody } from './json-pieces.ts'
import type { Answer, Header } from './respond.ts'

/** A private route for one method and one path, as the server registers it. */
export interface Route {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path, with a trailing slash that requests may leave out. `:name` stands for one segment. */
  readonly path: string
  readonly handler: ApiHandler
  /**
   * True if the handler only tells the client which other route to call. In that case, the header Allow does not
   * contain the method.
   */
  readonly isRefusal?: true
  /**
   * True if the route changes nothing, although its method usually does (for example a POST that only searches). Its
   * requests are then not recorded in the audit log.
   */
  readonly isRead?: true
  /** The status of every successful answer. Absent if it depends on the request. */
  readonly successStatus?: number
  /** True for routes that monitor the process. They are not rate-limited. */
  readonly isUnlimited?: true
}

/**
 * Answers a request. If the handler throws a `ServiceError`, the body of the error is the answer. Any other error is
 * answered with 500.
 */
export type ApiHandler = (request: ApiRequest) => Answer | Promise<Answer>

/** JSON text as bytes, in parts. A handler can return it instead of a value. */
export class WrittenJson {
  readonly parts: readonly Uint8Array[]

  constructor(parts: readonly Uint8Array[]) {
    this.parts = parts
  }
}

/** Returns an answer with a JSON body. */
export function json(value: unknown, status = 200, headers: readonly Header[] = []): Answer {
  const body = value instanceof WrittenJson ? value.parts : jsonBody(value)
  return { status, contentType: 'application/json', body, headers }
}

/** All routes of one path. */
export interface PathRoutes<Handler> {
  readonly path: string
  readonly handlers: ReadonlyMap<string, Handler>
  /** The value of the header Allow for the path. */
  readonly allow: string
  readonly isUnlimited: boolean
}

/** The members of a route that `groupByPath` needs. */
type GroupedRoute<Handler> = Pick<Route, 'path' | 'isRefusal' | 'isUnlimited'> & {
  readonly method: string
  readonly handler: Handler
}

/**
 * Groups routes by path. Throws `TypeError` if two routes have the same method and path, because that is a programming
 * error.
 */
export function groupByPath<Handler>(
  routes: readonly GroupedRoute<Handler>[],
): readonly PathRoutes<Handler>[] {
  const byPath = new Map<string, Map<string, Handler>>()
  const refused = new Set<string>()
  const unlimited = new Set<string>()
  for (const { method, path, handler, isRefusal, isUnlimited } of routes) {
    if (!path.startsWith('/') || !path.endsWith('/')) {
      throw new TypeError(`the route ${path} lacks a slash at its start or end`)
    }
    const handlers = byPath.get(path) ?? new Map<string, Handler>()
    if (handlers.has(method)) throw new TypeError(`the route ${method} ${path} exists twice`)
    handlers.set(method, handler)
    byPath.set(path, handlers)
    if (isRefusal === true) refused.add(`${method} ${path}`)
    if (isUnlimited === true) unlimited.add(path)
  }
  return [...byPath].map(([path, handlers]) => ({
    path,
    handlers,
    allow: [...handlers.keys()].filter((method) => !refused.has(`${method} ${path}`)).join(', '),
    isUnlimited: unlimited.has(path),
  }))
}

/** Returns the names of the parameters of a path, in order. */
export function parameterNames(path: string): readonly string[] {
  return path
    .split('/')
    .filter((segment) => segment.startsWith(':'))
    .map((segment) => segment.slice(1))
}

/** The key or session with which a private route was called, and its owner. */
export interface Caller {
  readonly source: 'api' | 'console'
  readonly userId: number | null
  readonly keyId: number | null
}

/** The audit entry of a request. A handler can store the entry in the same transaction as its change. */
export interface AuditNote {
  /**
   * Returns the entry for a successful request. Returns undefined if the request has no valid key, or if the status of
   * the success is not known in advance.
   */
  readonly entry: () => AuditEntry | undefined
  /** True when the entry has been stored. */
  isStored: boolean
}

/** A request to a private route, with its whole body. All texts come from the client and are not validated. */
export class ApiRequest {
  /** The path as the client wrote it, without the query. */
  readonly path: string
  readonly head: RequestHead
  readonly words: BrowserWords
  /** The caller. It is null until the personal key or the session of the request was found to be valid. */
  caller: Caller | null = null
  /** The audit entry. Null if the request is not recorded in the audit log. */
  audit: AuditNote | null = null
  /**
   * The ID of the created or changed object for the audit log. Needed if neither the path nor the answer contains it.
   */
  objectId: string | null = null
  /** The body. It is empty until the whole body has arrived. The handler runs only after that. */
  body: Uint8Array = new Uint8Array(0)
  readonly #exchange: Exchange
  readonly #parameters = new Map<string, string>()
  #projectId: number | null = null
  #query: URLSearchParams | null = null
  #json: { readonly value: unknown } | null = null

  /** Throws 404 `not_found` if the path cannot be decoded. */
  constructor(
    exchange: Exchange,
    path: string,
    head: RequestHead,
    names: readonly string[],
    words: BrowserWords,
  ) {
    this.#exchange = exchange
    this.words = words
    this.path = path
    this.head = head
    for (const [index, name] of names.entries()) {
      this.#parameters.set(name, decodeSegment(head.segments[index] ?? ''))
    }
  }

  /** The method as the client wrote it. Methods are case-sensitive. */
  get method(): string {
    return this.#exchange.method
  }

  /** Returns the percent-decoded path segment that takes the place of `:name`. */
  parameter(name: string): string {
    const value = this.#parameters.get(name)
    if (value === undefined) throw new TypeError(`the route has no parameter ${name}`)
    return value
  }

  /** The names of the path parameters and their percent-decoded values, in order. */
  get parameters(): Iterable<readonly [name: string, text: string]> {
    return this.#parameters
  }

  /** The project that the request is about. Null until the project is found and its use is allowed. */
  get projectId(): number | null {
    return this.#projectId
  }

  /**
   * Sets the project, and counts the request toward the project's rate limit. Throws 429 `throttled` if there were too
   * many requests.
   */
  useProject(projectId: number): void {
    if (this.#projectId === projectId) return
    this.#projectId = projectId
    this.#exchange.owner.limits?.project(projectId, false)
  }

  /** The decoded query parameters. They are parsed when they are first used. */
  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.head.query)
    return this.#query
  }

  /** The declared media type of the body, in lower case and without parameters. It is '' if none is declared. */
  get mediaType(): string {
    return (this.head.contentType.split(';')[0] ?? '').trim().toLowerCase()
  }

  /** True if the body is declared as a CSV table or another text, so that it is not read as JSON. */
  get isTable(): boolean {
    return this.mediaType.startsWith('text/')
  }

  /**
   * Runs `change`, which must store the audit entry that it receives in the same transaction as its change. It receives
   * undefined if there is no entry to store, for example because the request is not recorded.
   */
  async noting<T>(change: (entry: AuditEntry | undefined) => Promise<T>): Promise<T> {
    const entry = this.audit?.entry()
    const result = await change(entry)
    if (this.audit !== null && entry !== undefined) this.audit.isStored = true
    return result
  }

  /** The IP address at the other end of the connection. It is '' after the client has left. */
  get peerAddress(): string {
    return this.#exchange.peerAddress
  }

  /** Runs `action` if the client leaves before it is answered. If the client has already left, runs it at once. */
  onLeave(action: () => void): void {
    if (this.#exchange.isAborted) action()
    else if (this.#exchange.isOpen) this.#exchange.onAbort = action
  }

  /**
   * Returns the value of a JSON body, or undefined if the body is empty. The body is parsed once. Throws 415
   * `unsupported_media_type` if another type is declared, and 400 `parse_error` if the body is not JSON.
   */
  json(): unknown {
    this.#json ??= { value: this.#parseBody() }
    return this.#json.value
  }

  /**
   * Returns the bytes of a JSON body without parsing them. Throws 415 `unsupported_media_type` if another type is
   * declared.
   */
  jsonBytes(): Uint8Array {
    const { body, mediaType } = this
    if (body.length === 0 || mediaType === '' || mediaType === 'application/json') return body
    throw new ServiceError('unsupported_media_type', 'Send the body as application/json.')
  }

  #parseBody(): unknown {
    const body = this.jsonBytes()
    if (body.length === 0) return undefined
    try {
      return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    } catch (cause) {
      throw new ServiceError('parse_error', 'The body is not valid JSON in UTF-8.', { cause })
    }
  }
}

/** Decodes a path segment. Throws 404 `not_found` if it contains an invalid percent escape. */
export function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch (cause) {
    const detail = 'The path has an invalid percent escape. Write a percent sign as %25.'
    throw new ServiceError('not_found', detail, { cause })
  }
}
