/**
 * Routes of the private API as data: method, path and handler, which gets an `ApiRequest` with the whole
 * body and returns an answer or throws.
 */
import { ServiceError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type { Exchange } from './exchange.ts'
import type { BrowserWords, RequestHead } from './framing.ts'
import { jsonBody } from './json-pieces.ts'
import type { Answer, Header } from './respond.ts'

/** One method of one path. */
export interface Route {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With a trailing slash, which requests may leave out; `:name` stands for one segment. */
  readonly path: string
  readonly handler: ApiHandler
  /** The handler only tells what to do instead: the header Allow does not name the method. */
  readonly isRefusal?: true
  /** It changes nothing, although its method could: no entry in the audit log. */
  readonly isRead?: true
  /** Status of every success; absent where it depends on the request. */
  readonly successStatus?: number
  /** For those who watch the process: no limit of rates. */
  readonly isUnlimited?: true
}

/** Answers a request. Thrown `ServiceError`s become their bodies, anything else 500. */
export type ApiHandler = (request: ApiRequest) => Answer | Promise<Answer>

/** JSON that is written already, in parts: it stands for the value. */
export class WrittenJson {
  readonly parts: readonly Uint8Array[]

  constructor(parts: readonly Uint8Array[]) {
    this.parts = parts
  }
}

/** An answer with a JSON body. */
export function json(value: unknown, status = 200, headers: readonly Header[] = []): Answer {
  const body = value instanceof WrittenJson ? value.parts : jsonBody(value)
  return { status, contentType: 'application/json', body, headers }
}

/** What one path can do. */
export interface PathRoutes<Handler> {
  readonly path: string
  readonly handlers: ReadonlyMap<string, Handler>
  /** Value of the header Allow. */
  readonly allow: string
  readonly isUnlimited: boolean
}

/** What of a route is gathered. */
type GroupedRoute<Handler> = Pick<Route, 'path' | 'isRefusal' | 'isUnlimited'> & {
  readonly method: string
  readonly handler: Handler
}

/** Gathers a table of routes by path. Two handlers for one method and path are a programming error. */
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

/** The names of the parameters of a path, in order. */
export function parameterNames(path: string): readonly string[] {
  return path
    .split('/')
    .filter((segment) => segment.startsWith(':'))
    .map((segment) => segment.slice(1))
}

/** Whose key or session opened a private route. */
export interface Caller {
  readonly source: 'api' | 'console'
  readonly userId: number | null
  readonly keyId: number | null
}

/** What a request leaves in the audit log, if what it does can leave it itself. */
export interface AuditNote {
  /** The entry of a success; undefined without a valid key, and where its status is not known. */
  readonly entry: () => AuditEntry | undefined
  /** Set when the entry is stored. */
  isStored: boolean
}

/** A private request, complete with its body. Client text everywhere: nothing in it is validated. */
export class ApiRequest {
  /** As the client wrote it, without the query. */
  readonly path: string
  readonly head: RequestHead
  readonly words: BrowserWords
  /** Null until a personal key or a session was found to be valid. */
  caller: Caller | null = null
  /** Null where nothing is noted. */
  audit: AuditNote | null = null
  /** What was made or changed, for the audit log, where neither the path nor the answer tells it. */
  objectId: string | null = null
  /** Empty until the body has arrived, which is before the handler runs. */
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

  /** As the client wrote it; methods are case-sensitive. */
  get method(): string {
    return this.#exchange.method
  }

  /** The text in place of `:name`, percent-decoded. */
  parameter(name: string): string {
    const value = this.#parameters.get(name)
    if (value === undefined) throw new TypeError(`the route has no parameter ${name}`)
    return value
  }

  /** Names and percent-decoded texts of the parameters of the path, in order. */
  get parameters(): Iterable<readonly [name: string, text: string]> {
    return this.#parameters
  }

  /** The project that the request is about, once that is known and allowed. */
  get projectId(): number | null {
    return this.#projectId
  }

  /** Notes the project, and counts the request for it. Throws 429 `throttled` when there were too many. */
  useProject(projectId: number): void {
    if (this.#projectId === projectId) return
    this.#projectId = projectId
    this.#exchange.owner.limits?.project(projectId, false)
  }

  /** The decoded query parameters; parsed at first use. */
  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.head.query)
    return this.#query
  }

  /** What the body is declared as, without parameters and in lower case; '' when nothing is said. */
  get mediaType(): string {
    return (this.head.contentType.split(';')[0] ?? '').trim().toLowerCase()
  }

  /** The body is declared as a table, or as some other text: it is not read as JSON. */
  get isTable(): boolean {
    return this.mediaType.startsWith('text/')
  }

  /** Makes a change that stores its entry of the audit log, if there is one, in its transaction. */
  async noting<T>(change: (entry: AuditEntry | undefined) => Promise<T>): Promise<T> {
    const entry = this.audit?.entry()
    const result = await change(entry)
    if (this.audit !== null && entry !== undefined) this.audit.isStored = true
    return result
  }

  /** The address at the other end of the connection, '' when the client has left. */
  get peerAddress(): string {
    return this.#exchange.peerAddress
  }

  /** Runs `action` when the client leaves before it has its answer; at once when it has left already. */
  onLeave(action: () => void): void {
    if (this.#exchange.isAborted) action()
    else this.#exchange.onAbort = action
  }

  /**
   * The body as JSON. Throws 415 `unsupported_media_type` for another declared type and 400
   * `parse_error` for anything that is no JSON. An empty body is `undefined`. Parsed once.
   */
  json(): unknown {
    this.#json ??= { value: this.#parseBody() }
    return this.#json.value
  }

  /** The same, unread. Throws 415 `unsupported_media_type`. */
  jsonBytes(): Uint8Array {
    const { body, mediaType } = this
    if (body.length === 0 || mediaType === '' || mediaType === 'application/json') return body
    throw new ServiceError('unsupported_media_type', 'send the body as application/json')
  }

  #parseBody(): unknown {
    const body = this.jsonBytes()
    if (body.length === 0) return undefined
    try {
      return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    } catch (cause) {
      throw new ServiceError('parse_error', 'the body is not valid JSON in UTF-8', { cause })
    }
  }
}

/** A part of a path. Throws 404 `not_found` for a broken percent escape. */
export function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch (cause) {
    throw new ServiceError('not_found', 'the path has a broken percent escape', { cause })
  }
}
