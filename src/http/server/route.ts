/**
 * Describes private routes as records. One record contains everything about one method of one path. The routes of the
 * server, the checks before a handler, the audit log, the API description, and the table of routes in the documents are
 * all made from these records. http/routes/README.md describes how to write one.
 */
import type { Clock } from '../../base/clock.ts'
import { type ErrorCode, ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { isAdministrator } from '../../rules/access/levels.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import type { Actor } from '../../rules/access/user.ts'
import {
  authenticate,
  authoriseAs,
  authoriseServer,
  denied,
  type FullGrant,
  grantIn,
  grantOfSession,
  type KeyUser,
  type RouteDirectory,
  requireScope,
  requireScopeInAnyProject,
  type Sessions,
  userOf,
} from './auth.ts'
import { inputReader, parameterMembers, queryMembers } from './input.ts'
import { bodyMembers, bodyValue } from './parameters.ts'
import type { Answer, Header } from './respond.ts'
import { type ApiRequest, json, type Route } from './router.ts'
import type { Members, Schema, TypeOf } from './schema.ts'
import { baseUrl } from './url.ts'

/** The HTTP methods that the server supports. */
export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

/**
 * A kind of credential that opens a route. `none` means that no key is needed. The API description publishes these
 * names as its security schemes.
 */
export type CredentialKind =
  | 'none'
  | 'personalKey'
  | 'projectKey'
  | 'projectKeyBearer'
  | 'projectKeyHeader'
  | 'secretKey'
  | 'session'

/** The services that every handler gets, in addition to those that its own routes need. */
export interface RouteServices extends Sessions {
  readonly directory: RouteDirectory
  readonly clock: Pick<Clock, 'now'>
}

/** The conditions that a caller must meet to use a route. They are checked before the handler runs. */
export interface Who {
  /** The kinds of credentials that the route accepts. One of them is enough. */
  readonly credentials: readonly CredentialKind[]
  /**
   * What the caller needs a right to. `nothing`: no right is needed. `caller`: the scope is enough. `organization`: the
   * whole organization, so that a key that is limited to some projects is refused. `project`: the project that the path
   * or the parameter `token` names.
   */
  readonly about: 'nothing' | 'caller' | 'organization' | 'project'
  /** The scope that the personal key or the session must have. Null if no key is needed, or if any key will do. */
  readonly scope: Scope | null
  /**
   * True if it is enough that the caller has the scope in at least one project. The handler must then check each
   * project that it uses.
   */
  readonly isInAnyProject?: true
  /** True if the caller must be an administrator of the organization, or of the project that the route is about. */
  readonly isAdministrator?: true
}

/** Admits every caller. No key is needed. */
export const ANYBODY: Who = { credentials: ['none'], about: 'nothing', scope: null }

/** Admits every session of the console, whatever its rights. */
export const BY_SESSION: Who = { credentials: ['session'], about: 'caller', scope: null }

/** Admits every personal key, whatever its scopes and projects. */
export const BY_ANY_KEY: Who = { credentials: ['personalKey'], about: 'caller', scope: null }

/** Admits personal keys that have the scope. */
export function callerWith(scope: Scope): Who {
  return { credentials: ['personalKey'], about: 'caller', scope }
}

/**
 * Admits personal keys that have the scope in at least one project. It is for routes that work with several projects.
 * The user's level, and with it the scopes that the key may use, can differ from project to project.
 */
export function inAnyProject(scope: Scope): Who {
  return { ...callerWith(scope), isInAnyProject: true }
}

/** Admits personal keys that have the scope and are not limited to some projects. */
export function inOrganization(scope: Scope): Who {
  return { credentials: ['personalKey'], about: 'organization', scope }
}

/** Admits personal keys that have the scope and may use the project in the path. */
export function inProject(scope: Scope): Who {
  return { credentials: ['personalKey'], about: 'project', scope }
}

/** Admits the same keys as `inProject`, and also the secret key of the project. */
export function forServers(scope: Scope): Who {
  return { credentials: ['personalKey', 'secretKey'], about: 'project', scope }
}

/** Restricts `who` to administrators of the organization, or of the project that the route is about. */
export function byAdministrators(who: Who): Who {
  return { ...who, isAdministrator: true }
}

/** A possible answer of a route, for the API description. */
export interface DescribedAnswer {
  readonly description: string
  /** The schema of a JSON body. Absent if the answer has no body, or a body of another media type. */
  readonly schema?: Schema
  /** The media type of a body that is not JSON. */
  readonly type?: string
}

/** Describes a successful answer, with the schema of its body if it has one. */
export function done(schema?: Schema): DescribedAnswer {
  return { description: 'Done.', ...(schema === undefined ? {} : { schema }) }
}

/** The complete record of one method and one path. */
export interface RouteRecord<
  Services extends RouteServices = RouteServices,
  Query extends Schema = Schema,
  Body extends Schema = Schema,
> extends RouteContent<Services, Query, Body> {
  readonly who: Who
  readonly method: Method
  /** The path, in which `:name` stands for one segment. The path of a private route ends with a slash. */
  readonly path: string
  /** The operation ID, from which generated clients name their functions. It is unique. */
  readonly id: string
  /** A sentence that says what the route does. */
  readonly summary: string
}

/** The members of a record besides those that identify the route. */
export interface RouteContent<
  Services extends RouteServices,
  Query extends Schema,
  Body extends Schema,
> {
  /** The callers that may use the route. The default is the callers that were passed to `routesOf`. */
  readonly who?: Who
  /** The query parameters, as the members of an object schema. The handler reads them with `call.query()`. */
  readonly query?: Query
  /**
   * The schema of the JSON body. The handler reads it with `call.body()`. The body may be left out if no member is
   * required.
   */
  readonly body?: Body
  /** The media types besides JSON that the body may have. The API description describes each as a text. */
  readonly bodyTypes?: readonly string[]
  /** The possible answers by status. If the record has `handle`, exactly one status is from 200 to 299. */
  readonly answers: Readonly<Record<number, DescribedAnswer>>
  /** The error codes of the route, in addition to those of every route of its kind. See `refusalsOf`. */
  readonly errors?: readonly ErrorCode[]
  /**
   * False if the route changes nothing, although its method usually does (for example a POST that only searches). Its
   * requests are then not recorded in the audit log.
   */
  readonly audits?: false
  /**
   * True if the route only tells the client which other route to call. It then appears neither in the API description
   * nor in the header Allow.
   */
  readonly isRefusal?: true
  /**
   * Does the work of the route. The value that it returns becomes the JSON of the successful answer. If that answer has
   * no body, the value is ignored.
   */
  readonly handle?: (call: Call<Services, Query, Body>) => unknown
  /** Does the work and builds the answer itself, instead of `handle`. */
  readonly respond?: (call: Call<Services, Query, Body>) => Answer | Promise<Answer>
}

/** Routes with a common subject, in the order of the API description. */
export interface Resource<Services extends RouteServices = RouteServices> {
  /** The name of the resource in the API description. */
  readonly name: string
  readonly sentence: string
  /** The schemas of the path parameters of this resource. openapi/document.ts has those that all resources share. */
  readonly segments?: Readonly<Record<string, Schema>>
  /** True if the routes answer with a CSV table when the query contains `format=csv`. */
  readonly isTable?: true
  readonly routes: readonly AnyRoute<Services>[]
}

/** A record without its handler, for the API description. */
export type Described = Omit<RouteRecord, 'handle' | 'respond'>

/** A resource without handlers, for the API description. */
export type DescribedResource = Omit<Resource, 'routes'> & {
  readonly routes: readonly Described[]
}

/** A record without the types of its input, so that records with different types fit into one list. */
export type AnyRoute<Services extends RouteServices> = Described & {
  readonly bind: (services: Services) => Route
}

/**
 * Returns a function that makes records whose handlers work with `Services`: `const route = routesOf<Services>(...)`.
 * The path of each record is appended to `base`. GET is open to `reader` and every other method to `writer`, unless the
 * record sets its own `who`.
 */
export function routesOf<Services extends RouteServices>(
  base: string,
  reader: Who,
  writer = reader,
) {
  return <Query extends Schema = Schema<object>, Body extends Schema = Schema<object>>(
    method: Method,
    path: string,
    id: string,
    summary: string,
    content: RouteContent<Services, Query, Body>,
  ): AnyRoute<Services> => {
    const who = method === 'GET' ? reader : writer
    const record = { method, path: `${base}${path}`, id, summary, who, ...content }
    const { handle: _, respond: __, ...described } = record
    return { ...described, bind: (services) => bind(record, services) }
  }
}

/**
 * Returns a route that answers 405 and tells the client which other route to call. `allow` is the value of the header
 * Allow.
 */
export function refusedRoute(
  { method, path, allow }: Pick<RouteRecord, 'method' | 'path'> & { readonly allow: string },
  detail: string,
): AnyRoute<RouteServices> {
  return routesOf('', ANYBODY)(method, path, '', detail, {
    answers: {},
    isRefusal: true,
    respond() {
      const refusal = new ServiceError('method_not_allowed', detail)
      return json(refusal.toBody(), refusal.status, [['Allow', allow]])
    },
  })
}

/** Turns the records of `resources` into routes that the server can register. */
export function bindAll<Services extends RouteServices>(
  resources: readonly Resource<Services>[],
  services: Services,
): readonly Route[] {
  return resources.flatMap(({ routes }) => routes.map((route) => route.bind(services)))
}

/**
 * The error codes of every private route. They stand for invalid parameters, missing or invalid keys, missing rights,
 * unknown paths, unexpected errors, and a server that is too busy.
 */
const PRIVATE_REFUSALS: readonly ErrorCode[] = [
  ...(['invalid_input', 'not_authenticated', 'permission_denied', 'not_found'] as const),
  ...(['error', 'server_error'] as const),
]

/** The error codes that a private route has in addition if it takes a body. */
const BODY_REFUSALS: readonly ErrorCode[] = ['request_too_large', 'unsupported_media_type']

/** Returns the error codes with which a route may answer: at least one for each error status of the route. */
export function refusalsOf({
  who,
  method,
  errors = [],
}: Pick<RouteRecord, 'who' | 'method' | 'errors'>): readonly ErrorCode[] {
  if (who.about === 'nothing') return errors
  const takesBody = method === 'POST' || method === 'PUT' || method === 'PATCH'
  return [...PRIVATE_REFUSALS, ...(takesBody ? BODY_REFUSALS : []), ...errors]
}

/** A request that was admitted, as its handler receives it. */
export class Call<
  Services extends RouteServices = RouteServices,
  Query extends Schema = Schema,
  Body extends Schema = Schema,
> {
  readonly request: ApiRequest
  readonly services: Services
  readonly nowMs: number
  /**
   * The scheme and host for URLs in answers. It is determined before anything asynchronous, because the peer address is
   * lost when the client leaves.
   */
  readonly base: string
  readonly #grant: FullGrant | null
  readonly #projectId: number | null
  readonly #who: Who
  readonly #readers: Readers<Query, Body>
  #body: { readonly value: TypeOf<Body> } | null = null

  /** Checks whether the request may be admitted. Throws 401, 403 `permission_denied` and 404 `not_found` if not. */
  constructor(request: ApiRequest, services: Services, who: Who, readers: Readers<Query, Body>) {
    this.request = request
    this.services = services
    this.#who = who
    this.#readers = readers
    const { grant, projectId } = admit(request, services, who)
    this.#grant = grant
    this.#projectId = projectId
    this.base = baseUrl(request, services)
    this.nowMs = services.clock.now()
  }

  /** Returns true if the request would still be admitted now. Its key may have been revoked since it was admitted. */
  isStillAllowed(): boolean {
    try {
      admit(this.request, this.services, this.#who)
      return true
    } catch (error) {
      if (error instanceof ServiceError) return false
      throw error
    }
  }

  /** The rights of the personal key or the session. Throws `TypeError` if the route may be called without one. */
  get grant(): FullGrant {
    if (this.#grant === null) throw new TypeError('the route is open without a personal key')
    return this.#grant
  }

  /** The user who owns the personal key. */
  get user(): KeyUser {
    return userOf(this.grant)
  }

  /** The user who owns the personal key, in the form in which changes are logged. */
  get actor(): Actor {
    const { id, firstName, email } = this.user
    return { userId: id, firstName, email }
  }

  /** The number of the project that the request is about. Throws `TypeError` if the route is not about a project. */
  get projectId(): number {
    if (this.#projectId === null) throw new TypeError('the route is not about a project')
    return this.#projectId
  }

  /** True if the body has one of the `bodyTypes` of the record, so that it is not read as JSON. */
  get hasOtherBody(): boolean {
    const { body, mediaType } = this.request
    return body.length > 0 && this.#readers.bodyTypes.includes(mediaType)
  }

  /**
   * Returns those members of the body that are declared in the schema. If the schema is a list, returns the list. If
   * there is no body, all members are absent. The body is parsed once. Throws 415, and 400 with the first invalid field
   * as `attr`.
   */
  body(): TypeOf<Body> {
    this.#body ??= { value: this.#readBody() }
    return this.#body.value
  }

  #readBody(): TypeOf<Body> {
    const { body, bodySchema } = this.#readers
    if (bodySchema['type'] === 'array') return body(bodyValue(this.request))
    const sent = this.hasOtherBody ? {} : bodyMembers(this.request)
    if (bodySchema['isParameters'] === true) {
      return body(parameterMembers(this.request, sent, bodySchema))
    }
    const { properties = {}, additionalProperties } = bodySchema
    const members = Object.entries(sent).filter(
      ([name]) => additionalProperties === false || Object.hasOwn(properties as Members, name),
    )
    return body(Object.fromEntries(members))
  }

  /** Returns the query parameters. Empty ones are left out. Throws 400 with the invalid parameter as `attr`. */
  query(): TypeOf<Query> {
    return this.#readers.query(queryMembers(this.request, this.#readers.querySchema))
  }

  /** Returns the number in a parameter of the path. Returns null if it is not a positive whole number. */
  number(name: string): number | null {
    const text = this.request.parameter(name)
    return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
  }

  /** Returns the UUID in a parameter of the path, in lower case with hyphens. Returns null if it is not a UUID. */
  uuid(name: string): string | null {
    const uuid = parseUuid(this.request.parameter(name))
    return uuid === null ? null : formatUuid(uuid, 0)
  }
}

interface Readers<Query extends Schema, Body extends Schema> {
  readonly querySchema: Query
  readonly bodySchema: Body
  readonly bodyTypes: readonly string[]
  readonly query: (value: unknown) => TypeOf<Query>
  readonly body: (value: unknown) => TypeOf<Body>
}

/** Throws 403 for a key that is limited to some projects. */
function requireUnlimited({ keyProjectIds }: FullGrant): void {
  if (keyProjectIds === 'all') return
  throw denied(
    'This personal API key is limited to some projects. Use a key for all projects to access the organization.',
  )
}

function admit(
  request: ApiRequest,
  services: RouteServices,
  { about, credentials, scope, isInAnyProject, isAdministrator: isHigh }: Who,
): { readonly grant: FullGrant | null; readonly projectId: number | null } {
  const { directory } = services
  if (credentials.includes('session')) {
    const grant = grantOfSession(request, services)
    if (grant !== null) return { grant, projectId: null }
    throw new ServiceError('not_authenticated', 'Log in to the console first.')
  }
  if (about === 'nothing') return { grant: null, projectId: null }
  if (scope === null) {
    return { grant: authenticate(request, directory, services), projectId: null }
  }
  const segments = new Map(request.parameters)
  const project = segments.get('project_id') ?? null
  if (credentials.includes('secretKey')) {
    return { grant: null, projectId: authoriseServer(request, services, scope, project).id }
  }
  const grant = authenticate(request, directory, services)
  if (about === 'project') {
    const projectId = authoriseAs(grant, request, directory, scope, project).id
    const own = grantIn(grant, projectId)
    if (isHigh === true && !isAdministrator(userOf(own).level)) {
      throw denied('Only administrators of the project may do this.')
    }
    return { grant: own, projectId }
  }
  if (isInAnyProject === true) requireScopeInAnyProject(grant, scope)
  else requireScope(grant, scope)
  if (about === 'organization') {
    requireUnlimited(grant)
    const id = (segments.get('org_id') ?? '@current').toLowerCase()
    if (id !== '@current' && id !== directory.organization()?.id) {
      throw new ServiceError(
        'not_found',
        'This organization does not exist. Use its ID or `@current`.',
      )
    }
  }
  if (isHigh === true && !isAdministrator(userOf(grant).level)) {
    throw denied('Only administrators and owners of the organization may do this.')
  }
  return { grant, projectId: null }
}

const NOTHING_IN: Schema = { type: 'object' }

function bind<Services extends RouteServices, Query extends Schema, Body extends Schema>(
  record: RouteRecord<Services, Query, Body>,
  services: Services,
): Route {
  const { method, path, who, handle, respond, isRefusal, audits } = record
  if (method === 'OPTIONS') throw new TypeError(`${path} is not served by the router`)
  const querySchema = (record.query ?? NOTHING_IN) as Query
  const bodySchema = (record.body ?? NOTHING_IN) as Body
  const readers: Readers<Query, Body> = {
    querySchema,
    bodySchema,
    bodyTypes: record.bodyTypes ?? [],
    query: inputReader(querySchema, 'the query'),
    body: inputReader(bodySchema, 'the body'),
  }
  const success = handle === undefined ? null : successOf(record)
  const answer = (value: unknown): Answer => {
    if (success === null) throw new TypeError(`${path} answers no value`)
    return success.hasBody ? json(value, success.status) : emptyAnswer(success.status)
  }
  return {
    method,
    path,
    handler: (request) => {
      const call = new Call(request, services, who, readers)
      if (respond !== undefined) return respond(call)
      const result = handle?.(call)
      return result instanceof Promise ? result.then(answer) : answer(result)
    },
    ...(isRefusal === true ? { isRefusal } : {}),
    ...(audits === false ? { isRead: true } : {}),
    ...(success === null ? {} : { successStatus: success.status }),
  }
}

/**
 * Returns the successful answer of a record whose handler returns a value. Throws `TypeError` if the record describes
 * no successful answer, or several.
 */
function successOf({ id, answers }: Pick<RouteRecord, 'id' | 'answers'>) {
  const good = Object.entries(answers).filter(([status]) => status.startsWith('2'))
  const [success] = good
  if (success === undefined || good.length > 1)
    throw new TypeError(`${id} must have exactly one successful answer`)
  const [status, { schema }] = success
  return { status: Number(status), hasBody: schema !== undefined }
}

/** Returns an answer that has a status and headers but no body. */
export function emptyAnswer(status: number, headers: readonly Header[] = []): Answer {
  return { status, contentType: '', body: '', headers }
}
