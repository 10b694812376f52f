/**
 * One route, one record: everything that there is to say about a method of a path. From the records come
 * the routes of the server, what is checked before a handler runs, the audit log, the API description and
 * the table of routes in the documents. How to write one: http/routes/README.md.
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
  grantOfSession,
  type KeyGrant,
  type KeyUser,
  type RouteDirectory,
  requireScope,
  type Sessions,
  userOf,
} from './auth.ts'
import { inputReader, queryMembers } from './input.ts'
import { bodyMembers, bodyValue } from './parameters.ts'
import type { Answer, Header } from './respond.ts'
import { type ApiRequest, json, type Route } from './router.ts'
import type { Members, Schema, TypeOf } from './schema.ts'
import { baseUrl } from './url.ts'

/** The methods that are served. */
export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

/** Whose key opens a route; several are alternatives, and `none` stands for no key. */
export type Door =
  | 'none'
  | 'personalKey'
  | 'projectKey'
  | 'projectKeyBearer'
  | 'projectKeyHeader'
  | 'secretKey'
  | 'session'

/** What every handler works with, besides what its own routes need. */
export interface RouteServices extends Sessions {
  readonly directory: RouteDirectory
  readonly clock: Pick<Clock, 'now'>
}

/** Who may call a route, checked before its handler runs. */
export interface Who {
  readonly doors: readonly Door[]
  /**
   * What the caller has to have a right to: nothing at all; the scope; the whole organization (a key that
   * is limited to projects has not); or the project of the path or of the parameter `token`.
   */
  readonly about: 'nothing' | 'caller' | 'organization' | 'project'
  /** What a personal key, or a session, must be allowed to do; null where none is asked for, or any. */
  readonly scope: Scope | null
  /** Only for administrators and owners of the organization. */
  readonly isAdministrator?: true
}

/** Anybody, without a key. */
export const ANYBODY: Who = { doors: ['none'], about: 'nothing', scope: null }

/** A session of the console, whatever it may do. */
export const BY_SESSION: Who = { doors: ['session'], about: 'caller', scope: null }

/** Any personal key, whatever its scopes and projects. */
export const BY_ANY_KEY: Who = { doors: ['personalKey'], about: 'caller', scope: null }

/** A personal key with a scope. */
export function callerWith(scope: Scope): Who {
  return { doors: ['personalKey'], about: 'caller', scope }
}

/** A personal key with a scope that is not limited to projects. */
export function inOrganization(scope: Scope): Who {
  return { doors: ['personalKey'], about: 'organization', scope }
}

/** A personal key with a scope, for the project of the path. */
export function inProject(scope: Scope): Who {
  return { doors: ['personalKey'], about: 'project', scope }
}

/** The same, or the secret key of the project. */
export function forServers(scope: Scope): Who {
  return { doors: ['personalKey', 'secretKey'], about: 'project', scope }
}

/** The same for administrators and owners alone. */
export function byAdministrators(who: Who): Who {
  return { ...who, isAdministrator: true }
}

/** One answer of a route. */
export interface DescribedAnswer {
  readonly description: string
  /** JSON of the body; absent: there is none, or it has the `type`. */
  readonly schema?: Schema
  /** Media type of a body that is no JSON. */
  readonly type?: string
}

/** A success, with its body if it has one. */
export function done(schema?: Schema): DescribedAnswer {
  return { description: 'Done.', ...(schema === undefined ? {} : { schema }) }
}

/** Everything about one method of one path. */
export interface RouteRecord<
  Services extends RouteServices = RouteServices,
  Query extends Schema = Schema,
  Body extends Schema = Schema,
> extends RouteContent<Services, Query, Body> {
  readonly who: Who
  readonly method: Method
  /** As it is registered: `:name` stands for one segment. Private routes end in a slash. */
  readonly path: string
  /** Unique name for generated clients. */
  readonly id: string
  /** A sentence: what it does. */
  readonly summary: string
}

/** What a record says besides the names of its route. */
interface RouteContent<Services extends RouteServices, Query extends Schema, Body extends Schema> {
  /** Where it is not what the writer of the records says; see `routesOf`. */
  readonly who?: Who
  /** Parameters of the query, as members of an object; read with `call.query()`. */
  readonly query?: Query
  /** JSON body; read with `call.body()`. It may be left out when no member is required. */
  readonly body?: Body
  /** Further media types of the body, each as a text. */
  readonly bodyTypes?: readonly string[]
  /** By status; exactly one of 200 to 299 when `handle` answers. */
  readonly answers: Readonly<Record<number, DescribedAnswer>>
  /** Codes of refusals besides those that every route of its kind has; see `refusalsOf`. */
  readonly errors?: readonly ErrorCode[]
  /** False: it changes nothing, although its method could, and is not noted in the audit log. */
  readonly audits?: false
  /** It only tells what to do instead: neither described nor named in the header Allow. */
  readonly isRefusal?: true
  /** Does the work: what it returns is the JSON of the success; nothing where that has no body. */
  readonly handle?: (call: Call<Services, Query, Body>) => unknown
  /** The same for an answer of its own making. */
  readonly respond?: (call: Call<Services, Query, Body>) => Answer | Promise<Answer>
}

/** Routes that belong together, in the order of the description. */
export interface Resource<Services extends RouteServices = RouteServices> {
  /** Its name in the description. */
  readonly name: string
  readonly sentence: string
  /** What names in its paths stand for; those of every path are in openapi/document.ts. */
  readonly segments?: Readonly<Record<string, Schema>>
  /** Answers come as a table, too, when `format=csv` asks for one. */
  readonly isTable?: true
  readonly routes: readonly AnyRoute<Services>[]
}

/** A record as it is described: without its handler. */
export type Described = Omit<RouteRecord, 'handle' | 'respond'>

/** Resources as they are described. */
export type DescribedResource = Omit<Resource, 'routes'> & {
  readonly routes: readonly Described[]
}

/** A record among others; its handlers know the types of its input. */
export type AnyRoute<Services extends RouteServices> = Described & {
  readonly bind: (services: Services) => Route
}

/**
 * The writer of records for handlers that work with `Services`: `const route = routesOf<Services>(...)`. Paths
 * go on behind `base`. GET is for `reader` and every other method for `writer`, unless a record has a `who`.
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

/** A route that only tells what to do instead, with 405; `allow` is the value of the header Allow. */
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

/** The routes of resources, for the server. */
export function bindAll<Services extends RouteServices>(
  resources: readonly Resource<Services>[],
  services: Services,
): readonly Route[] {
  return resources.flatMap(({ routes }) => routes.map((route) => route.bind(services)))
}

/** Codes of bad parameters, keys, rights and paths, and of no room: those of every private route. */
const PRIVATE_REFUSALS: readonly ErrorCode[] = [
  ...(['invalid_input', 'not_authenticated', 'permission_denied', 'not_found'] as const),
  ...(['error', 'server_error'] as const),
]

/** Codes of a private route that takes a body. */
const BODY_REFUSALS: readonly ErrorCode[] = ['request_too_large', 'unsupported_media_type']

/** One code at least for each status with which a route refuses. */
export function refusalsOf({
  who,
  method,
  errors = [],
}: Pick<RouteRecord, 'who' | 'method' | 'errors'>): readonly ErrorCode[] {
  if (who.about === 'nothing') return errors
  const takesBody = method === 'POST' || method === 'PUT' || method === 'PATCH'
  return [...PRIVATE_REFUSALS, ...(takesBody ? BODY_REFUSALS : []), ...errors]
}

/** A request that was let in, as a handler sees it. */
export class Call<
  Services extends RouteServices = RouteServices,
  Query extends Schema = Schema,
  Body extends Schema = Schema,
> {
  readonly request: ApiRequest
  readonly services: Services
  readonly nowMs: number
  /** For links: taken before any wait, because the address of the peer is lost when the client leaves. */
  readonly base: string
  readonly #grant: FullGrant | null
  readonly #projectId: number | null
  readonly #who: Who
  readonly #readers: Readers<Query, Body>

  /** Lets a request in. Throws 401, 403 `permission_denied` and 404 `not_found`. */
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

  /** Whether it would still be let in: meanwhile its key may have been revoked. */
  isStillAllowed(): boolean {
    try {
      admit(this.request, this.services, this.#who)
      return true
    } catch (error) {
      if (error instanceof ServiceError) return false
      throw error
    }
  }

  /** What the personal key or session allows. Only where no other key opens the route. */
  get grant(): FullGrant {
    if (this.#grant === null) throw new TypeError('the route is open without a personal key')
    return this.#grant
  }

  /** Whose personal key it is. */
  get user(): KeyUser {
    return userOf(this.grant)
  }

  /** The same in the logs of changes. */
  get actor(): Actor {
    const { id, firstName, email } = this.user
    return { userId: id, firstName, email }
  }

  /** The project. Only for routes about one. */
  get projectId(): number {
    if (this.#projectId === null) throw new TypeError('the route is not about a project')
    return this.#projectId
  }

  /**
   * The members of the body that the schema names, or the list that it is; those of no body are absent. Throws 415, and 400 with the
   * first field at fault as `attr`.
   */
  body(): TypeOf<Body> {
    const { body, bodySchema } = this.#readers
    if (bodySchema['type'] === 'array') return body(bodyValue(this.request))
    const { properties = {}, additionalProperties } = bodySchema
    const members = Object.entries(bodyMembers(this.request)).filter(
      ([name]) => additionalProperties === false || Object.hasOwn(properties as Members, name),
    )
    return body(Object.fromEntries(members))
  }

  /** The parameters of the query; empty ones are absent. Throws 400 with the one at fault as `attr`. */
  query(): TypeOf<Query> {
    return this.#readers.query(queryMembers(this.request, this.#readers.querySchema))
  }

  /** The number that a segment of the path stands for, or null. */
  number(name: string): number | null {
    const text = this.request.parameter(name)
    return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
  }

  /** The UUID that a segment of the path stands for, in lower case with hyphens, or null. */
  uuid(name: string): string | null {
    const uuid = parseUuid(this.request.parameter(name))
    return uuid === null ? null : formatUuid(uuid, 0)
  }
}

interface Readers<Query extends Schema, Body extends Schema> {
  readonly querySchema: Query
  readonly bodySchema: Body
  readonly query: (value: unknown) => TypeOf<Query>
  readonly body: (value: unknown) => TypeOf<Body>
}

/** Refuses keys that are limited to some projects. */
function requireUnlimited({ projectIds }: KeyGrant): void {
  if (projectIds === 'all') return
  throw denied('the personal API key is limited to projects and may not see the organization')
}

function admit(
  request: ApiRequest,
  services: RouteServices,
  { about, doors, scope, isAdministrator: isHigh }: Who,
): { readonly grant: FullGrant | null; readonly projectId: number | null } {
  const { directory } = services
  if (doors.includes('session')) {
    const grant = grantOfSession(request, services)
    if (grant !== null) return { grant, projectId: null }
    throw new ServiceError('not_authenticated', 'log in to the console first')
  }
  if (about === 'nothing') return { grant: null, projectId: null }
  if (scope === null) {
    return { grant: authenticate(request, directory, services), projectId: null }
  }
  const segments = new Map(request.parameters)
  const project = segments.get('project_id') ?? null
  if (doors.includes('secretKey')) {
    return { grant: null, projectId: authoriseServer(request, services, scope, project).id }
  }
  const grant = authenticate(request, directory, services)
  const isInProject = about === 'project'
  const projectId = isInProject ? authoriseAs(grant, request, directory, scope, project).id : null
  if (!isInProject) requireScope(grant, scope)
  if (about === 'organization') {
    requireUnlimited(grant)
    const id = (segments.get('org_id') ?? '@current').toLowerCase()
    if (id !== '@current' && id !== directory.organization()?.id) {
      throw new ServiceError('not_found', 'there is no such organization; use its id or @current')
    }
  }
  if (isHigh === true && !isAdministrator(userOf(grant).level)) {
    throw denied('only administrators and owners of the organization may do this')
  }
  return { grant, projectId }
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

/** The one success of a record whose handler answers its value. */
function successOf({ id, answers }: Pick<RouteRecord, 'id' | 'answers'>) {
  const good = Object.entries(answers).filter(([status]) => status.startsWith('2'))
  const [success] = good
  if (success === undefined || good.length > 1) throw new TypeError(`${id} has not one success`)
  const [status, { schema }] = success
  return { status: Number(status), hasBody: schema !== undefined }
}

/** An answer of a status alone. */
export function emptyAnswer(status: number, headers: readonly Header[] = []): Answer {
  return { status, contentType: '', body: '', headers }
}
