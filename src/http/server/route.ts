/**
 * Describes private routes as records. One record holds everything about one method of one path. The routes of the
 * server, the checks before a handler, the audit log, the API description and the table of routes in the documents all
 * come from these records. See http/routes/README.md for how to write one.
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
 * A kind of credential that opens a route. `none` means that no key is needed. Where these names are published: the
 * security schemes of the API description.
 */
export type CredentialKind =
  | 'none'
  | 'personalKey'
  | 'projectKey'
  | 'projectKeyBearer'
  | 'projectKeyHeader'
  | 'secretKey'
  | 'session'

/** The services that every handler gets, besides those of its own routes. */
export interface RouteServices extends Sessions {
  readonly directory: RouteDirectory
  readonly clock: Pick<Clock, 'now'>
}

/** The callers that may use a route. They are checked before its handler runs. */
export interface Who {
  /** The kinds of credentials that the route accepts. One of them is enough. */
  readonly credentials: readonly CredentialKind[]
  /**
   * The right that the caller needs: none (`nothing`), only the scope (`caller`), the whole organization
   * (`organization`, which a key that is limited to projects does not have), or the project that the path or the
   * parameter `token` names (`project`).
   */
  readonly about: 'nothing' | 'caller' | 'organization' | 'project'
  /**
   * The scope that a personal key or session must have. Null if the route needs no key, or accepts a key with any
   * scope.
   */
  readonly scope: Scope | null
  /** True if it is enough that the caller has the scope in one project. The handler checks each project that it uses. */
  readonly isInAnyProject?: true
  /** True if only administrators of the organization, or of the project that the route is about, may call it. */
  readonly isAdministrator?: true
}

/** Admits every caller, without a key. */
export const ANYBODY: Who = { credentials: ['none'], about: 'nothing', scope: null }

/** Admits a session of the console, whatever its rights. */
export const BY_SESSION: Who = { credentials: ['session'], about: 'caller', scope: null }

/** Admits any personal key, whatever its scopes and projects. */
export const BY_ANY_KEY: Who = { credentials: ['personalKey'], about: 'caller', scope: null }

/** Admits personal keys that have the scope. */
export function callerWith(scope: Scope): Who {
  return { credentials: ['personalKey'], about: 'caller', scope }
}

/**
 * Admits personal keys that have the scope in at least one project, for routes that work with several projects. The user
 * may have another level there than in the organization.
 */
export function inAnyProject(scope: Scope): Who {
  return { ...callerWith(scope), isInAnyProject: true }
}

/** Admits personal keys that have the scope and are not limited to projects. */
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

/** One possible answer of a route, as the API description shows it. */
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

/** The complete record of one method of one path. */
export interface RouteRecord<
  Services extends RouteServices = RouteServices,
  Query extends Schema = Schema,
  Body extends Schema = Schema,
> extends RouteContent<Services, Query, Body> {
  readonly who: Who
  readonly method: Method
  /** The path as it is registered. `:name` stands for one segment, and private routes end in a slash. */
  readonly path: string
  /** The unique name of the operation, for generated clients. */
  readonly id: string
  /** A sentence that says what the route does. */
  readonly summary: string
}

/** The part of a record that does not identify the route. */
export interface RouteContent<
  Services extends RouteServices,
  Query extends Schema,
  Body extends Schema,
> {
  /** Overrides the callers that `routesOf` sets for all its records. */
  readonly who?: Who
  /** The query parameters, as the members of an object schema. The handler reads them with `call.query()`. */
  readonly query?: Query
  /**
   * The schema of the JSON body. The handler reads it with `call.body()`. The body may be left out if no member is
   * required.
   */
  readonly body?: Body
  /** Further media types of the body. Each is described as text. */
  readonly bodyTypes?: readonly string[]
  /** The answers by status. A record with `handle` has exactly one with a status from 200 to 299. */
  readonly answers: Readonly<Record<number, DescribedAnswer>>
  /** The error codes besides those that every route of this kind has; see `refusalsOf`. */
  readonly errors?: readonly ErrorCode[]
  /** False if the route changes nothing although its method could. It is then left out of the audit log. */
  readonly audits?: false
  /**
   * True if the route only tells the client what to call instead. It is neither described nor named in the header
   * Allow.
   */
  readonly isRefusal?: true
  /**
   * Does the work. The value that it returns becomes the JSON of the successful answer, and is ignored if that has no
   * body.
   */
  readonly handle?: (call: Call<Services, Query, Body>) => unknown
  /** Does the work and builds the answer itself, instead of `handle`. */
  readonly respond?: (call: Call<Services, Query, Body>) => Answer | Promise<Answer>
}

/** A group of routes with one subject, in the order of the API description. */
export interface Resource<Services extends RouteServices = RouteServices> {
  /** The name of the group in the API description. */
  readonly name: string
  readonly sentence: string
  /**
   * The schemas of the names in the paths of this group. The names that all groups share are in openapi/document.ts.
   */
  readonly segments?: Readonly<Record<string, Schema>>
  /** True if answers also come as a table when the query has `format=csv`. */
  readonly isTable?: true
  readonly routes: readonly AnyRoute<Services>[]
}

/** A record without its handler, as the API description needs it. */
export type Described = Omit<RouteRecord, 'handle' | 'respond'>

/** A group of routes as the API description needs it. */
export type DescribedResource = Omit<Resource, 'routes'> & {
  readonly routes: readonly Described[]
}

/** A record whose input types are hidden, so that records of different types fit into one list. */
export type AnyRoute<Services extends RouteServices> = Described & {
  readonly bind: (services: Services) => Route
}

/**
 * Returns the function that writes records for handlers that work with `Services`: `const route =
 * routesOf<Services>(...)`. Every path is appended to `base`. GET is open to `reader` and every other method to
 * `writer`, unless the record has its own `who`.
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
 * Returns a route that answers 405 and tells the client what to call instead. `allow` is the value of the header Allow.
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

/** Turns the records of `resources` into routes for the server. */
export function bindAll<Services extends RouteServices>(
  resources: readonly Resource<Services>[],
  services: Services,
): readonly Route[] {
  return resources.flatMap(({ routes }) => routes.map((route) => route.bind(services)))
}

/**
 * The error codes of every private route: bad parameters, missing or invalid keys, missing rights, unknown paths,
 * unexpected errors and a server without room.
 */
const PRIVATE_REFUSALS: readonly ErrorCode[] = [
  ...(['invalid_input', 'not_authenticated', 'permission_denied', 'not_found'] as const),
  ...(['error', 'server_error'] as const),
]

/** The error codes that a private route with a body adds. */
const BODY_REFUSALS: readonly ErrorCode[] = ['request_too_large', 'unsupported_media_type']

/** Returns the error codes of a route, at least one for each status with which it refuses. */
export function refusalsOf({
  who,
  method,
  errors = [],
}: Pick<RouteRecord, 'who' | 'method' | 'errors'>): readonly ErrorCode[] {
  if (who.about === 'nothing') return errors
  const takesBody = method === 'POST' || method === 'PUT' || method === 'PATCH'
  return [...PRIVATE_REFUSALS, ...(takesBody ? BODY_REFUSALS : []), ...errors]
}

/** An admitted request, as a handler sees it. */
export class Call<
  Services extends RouteServices = RouteServices,
  Query extends Schema = Schema,
  Body extends Schema = Schema,
> {
  readonly request: ApiRequest
  readonly services: Services
  readonly nowMs: number
  /**
   * The scheme and authority for links. It is read before any wait, because the peer address is lost when the client
   * leaves.
   */
  readonly base: string
  readonly #grant: FullGrant | null
  readonly #projectId: number | null
  readonly #who: Who
  readonly #readers: Readers<Query, Body>
  #body: { readonly value: TypeOf<Body> } | null = null

  /** Admits the request. Throws 401, 403 `permission_denied` and 404 `not_found`. */
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

  /** Returns whether the request would still be admitted. Its key may have been revoked since then. */
  isStillAllowed(): boolean {
    try {
      admit(this.request, this.services, this.#who)
      return true
    } catch (error) {
      if (error instanceof ServiceError) return false
      throw error
    }
  }

  /** The rights of the personal key or session. Throws `TypeError` on a route that may be opened without one. */
  get grant(): FullGrant {
    if (this.#grant === null) throw new TypeError('the route is open without a personal key')
    return this.#grant
  }

  /** The user who owns the personal key. */
  get user(): KeyUser {
    return userOf(this.grant)
  }

  /** The same user, in the form that logs of changes store. */
  get actor(): Actor {
    const { id, firstName, email } = this.user
    return { userId: id, firstName, email }
  }

  /** The number of the project. Throws `TypeError` on a route that is not about a project. */
  get projectId(): number {
    if (this.#projectId === null) throw new TypeError('the route is not about a project')
    return this.#projectId
  }

  /** True if the request has a body of one of the `bodyTypes` of the record. It is not read as JSON. */
  get hasOtherBody(): boolean {
    const { body, mediaType } = this.request
    return body.length > 0 && this.#readers.bodyTypes.includes(mediaType)
  }

  /**
   * Returns the members of the body that the schema names, or the list if the schema is a list. All members are absent
   * without a body. The body is read once. Throws 415, and 400 with the first invalid field as `attr`.
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

  /** Returns the query parameters. Empty ones are absent. Throws 400 with the invalid parameter as `attr`. */
  query(): TypeOf<Query> {
    return this.#readers.query(queryMembers(this.request, this.#readers.querySchema))
  }

  /** Returns the number in a segment of the path, or null if the segment is not a positive whole number. */
  number(name: string): number | null {
    const text = this.request.parameter(name)
    return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
  }

  /** Returns the UUID in a segment of the path, in lower case with hyphens, or null if the segment is not a UUID. */
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

/** Refuses keys that are limited to some projects. */
function requireUnlimited({ keyProjectIds }: FullGrant): void {
  if (keyProjectIds === 'all') return
  throw denied(
    'This personal API key is limited to some projects and may not read the organization.',
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
 * Returns the only success of a record whose handler returns a value. Throws `TypeError` if there is not exactly one.
 */
function successOf({ id, answers }: Pick<RouteRecord, 'id' | 'answers'>) {
  const good = Object.entries(answers).filter(([status]) => status.startsWith('2'))
  const [success] = good
  if (success === undefined || good.length > 1) throw new TypeError(`${id} has not one success`)
  const [status, { schema }] = success
  return { status: Number(status), hasBody: schema !== undefined }
}

/** Returns an answer that has a status and headers but no body. */
export function emptyAnswer(status: number, headers: readonly Header[] = []): Answer {
  return { status, contentType: '', body: '', headers }
}
