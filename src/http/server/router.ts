/**
 * The types of private routes: method, path and handler. A handler gets an `ApiRequest` with the whole body, and
 * returns an answer or throws.
 */
import { ServiceError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type { Exchange } from './exchange.ts'
import type { BrowserWords, RequestHead } from './framing.ts'
import { jsonBody } from './json-pieces.ts'
import type { Answer, Header } from './respond.ts'

/** One method of one path, ready for the server. */
export interface Route {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path with a trailing slash, which requests may leave out. `:name` stands for one segment. */
  readonly path: string
  readonly handler: ApiHandler
  /** True if the handler only tells the client what to call instead. The header Allow then leaves out the method. */
  readonly isRefusal?: true
  /** True if the route changes nothing although its method could. It gets no entry in the audit log. */
  readonly isRead?: true
  /** The status of every success. Absent if it depends on the request. */
  readonly successStatus?: number
  /** True for routes that monitor the process. They have no rate limit. */
  readonly isUnlimited?: true
}

/** Answers a request. A `ServiceError` that it throws becomes its own body, and any other error becomes 500. */
export type ApiHandler = (request: ApiRequest) => Answer | Promise<Answer>

/** JSON that is already serialised, in parts. It is sent in place of a value. */
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
  /** The value of the header Allow. */
  readonly allow: string
  readonly isUnlimited: boolean
}

/** The members of a route that `groupByPath` needs. */
type GroupedRoute<Handler> = Pick<Route, 'path' | 'isRefusal' | 'isUnlimited'> & {
  readonly method: string
  readonly handler: Handler
}

/** Groups routes by path. Two handlers for the same method and path are a programming error and throw `TypeError`. */
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

/** The owner of the key or session that opened a private route. */
export interface Caller {
  readonly source: 'api' | 'console'
  readonly userId: number | null
  readonly keyId: number | null
}

/** The audit entry of a request. A handler can store it together with its change. */
export interface AuditNote {
  /**
   * Returns the entry of a success. It is undefined without a valid key, and if the status of the success is not known
   * in advance.
   */
  readonly entry: () => AuditEntry | undefined
  /** True once the entry is stored. */
  isStored: boolean
}

/** A private request with its whole body. All texts come from the client, and none is validated. */
export class ApiRequest {
  /** The path as the client wrote it, without the query. */
  readonly path: string
  readonly head: RequestHead
  readonly words: BrowserWords
  /** The caller. Null until a personal key or a session was found to be valid. */
  caller: Caller | null = null
  /** The audit entry. Null if the request is not recorded. */
  audit: AuditNote | null = null
  /** The ID of the created or changed object, for the audit log, if neither the path nor the answer contains it. */
  objectId: string | null = null
  /** The body. It is empty until it has arrived, which is before the handler runs. */
  body: Uint8Array = new Uint8Array(0)
  readonly #exchange: Exchange
  readonly #parameters = new Map<string, string>()
  #projectId: number | null = null
  #query: URLSearchParams | null = null
  #json: { readonly value: unknown } | null = null

  /** Throws 404 `not_found` for a path that cannot be decoded. */
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

  /** Returns the percent-decoded segment in place of `:name`. */
  parameter(name: string): string {
    const value = this.#parameters.get(name)
    if (value === undefined) throw new TypeError(`the route has no parameter ${name}`)
    return value
  }

  /** The names and percent-decoded segments of the path parameters, in order. */
  get parameters(): Iterable<readonly [name: string, text: string]> {
    return this.#parameters
  }

  /** The project of the request, as soon as it is known and allowed. */
  get projectId(): number | null {
    return this.#projectId
  }

  /** Sets the project and counts the request towards its rate limit. Throws 429 `throttled` if there were too many. */
  useProject(projectId: number): void {
    if (this.#projectId === projectId) return
    this.#projectId = projectId
    this.#exchange.owner.limits?.project(projectId, false)
  }

  /** The decoded query parameters. They are parsed at first use. */
  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.head.query)
    return this.#query
  }

  /** The declared media type of the body, in lower case without parameters; '' if none is declared. */
  get mediaType(): string {
    return (this.head.contentType.split(';')[0] ?? '').trim().toLowerCase()
  }

  /** True if the body is declared as a table or another text. It is then not read as JSON. */
  get isTable(): boolean {
    return this.mediaType.startsWith('text/')
  }

  /** Makes a change that stores its audit entry, if there is one, in its own transaction. */
  async noting<T>(change: (entry: AuditEntry | undefined) => Promise<T>): Promise<T> {
    const entry = this.audit?.entry()
    const result = await change(entry)
    if (this.audit !== null && entry !== undefined) this.audit.isStored = true
    return result
  }

  /** The address at the other end of the connection; '' after the client has left. */
  get peerAddress(): string {
    return this.#exchange.peerAddress
  }

  /** Runs `action` if the client leaves before it has its answer, or at once if it has already left. */
  onLeave(action: () => void): void {
    if (this.#exchange.isAborted) action()
    else this.#exchange.onAbort = action
  }

  /**
   * Returns the body as JSON, or undefined for an empty body. It is parsed once. Throws 415 `unsupported_media_type`
   * for another declared type, and 400 `parse_error` for a body that is not JSON.
   */
  json(): unknown {
    this.#json ??= { value: this.#parseBody() }
    return this.#json.value
  }

  /** Returns the bytes of a JSON body without parsing them. Throws 415 `unsupported_media_type`. */
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

/** Decodes a segment of a path. Throws 404 `not_found` for a broken percent escape. */
export function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch (cause) {
    throw new ServiceError('not_found', 'The path has an invalid percent escape.', { cause })
  }
}
