/**
 * Checks who may use a private route: the personal API key, its scopes and the project of the path. Source: interface
 * description, section 5; docs/compatibility/api.md, "Authentication of private routes".
 *
 * The order of the checks limits what a stranger can find out: first the key, then the scope, then the project. A key
 * that is limited to some projects gets the same 403 for every other project number, whether that project exists or
 * not.
 */
import { ServiceError } from '../../base/errors.ts'
import { API_KEY_BODY_VALUES_MAX, KEY_CHARACTERS_MAX } from '../../base/limits.ts'
import type { SessionProofKind } from '../../rules/access/console-session.ts'
import type { Project } from '../../rules/access/project-directory.ts'
import { hasScope, type Scope, scopesIn } from '../../rules/access/scopes.ts'
import { refuseManyValues } from '../../rules/capture/json-text.ts'
import { type OwnAddress, sessionToken } from '../console/cookie.ts'
import type { ApiRequest, Caller } from './router.ts'

/** The active user who owns a key. */
export interface KeyUser {
  readonly id: number
  readonly uuid: string
  readonly email: string
  readonly firstName: string
  readonly distinctId: string
  /** The user's level in the organization, as the number of one of `USER_LEVELS`. */
  readonly level: number
}

/** The rights of a personal key that routes check. */
export interface KeyGrant {
  /** The scopes, such as `event:read`. `*` stands for all scopes, and `x:write` includes `x:read`. */
  readonly scopes: readonly string[]
  /** The projects that the key reaches and its user may use. */
  readonly projectIds: readonly number[] | 'all'
  /** The levels of the user in projects in which they differ from the level in the organization. */
  readonly projectLevels?: ReadonlyMap<number, number>
  /** The scopes of the key itself. Those of a viewer's key can be more than the viewer may use. */
  readonly keyScopes?: readonly string[]
  /** The number of the key. */
  readonly keyId?: number
  /** The number of the user who owns the key. */
  readonly userId?: number
  readonly user?: KeyUser
  /** The console session that is used in place of a key. */
  readonly session?: {
    readonly id: number
    readonly createdAtMs: number
    readonly startedWith: SessionProofKind
  }
}

/** The sessions of the console. A session has the rights of the key with which it was started. */
export interface Sessions<Grant extends KeyGrant = FullGrant> extends OwnAddress {
  /** Opens sessions. Absent if there is no console. */
  readonly sessions?:
    | { open(token: string, isUse: boolean): Grant | null; endOf(token: string): string }
    | undefined
}

/** A grant with the members that are needed to compare it with another grant. */
export interface FullGrant extends KeyGrant {
  readonly keyScopes: readonly string[]
  /** The projects of the key itself, some of which its user may not use. */
  readonly keyProjectIds: readonly number[] | 'all'
  /** The time at which the key expires; null if it never does. */
  readonly expiresAtMs: number | null
}

/**
 * The current keys, projects and organization. All lookups are answered from memory. Keys are looked up by their hash,
 * so that the response time does not reveal how much of a key was right.
 */
export interface RouteDirectory {
  /** Returns the grant of a personal key, or null for an unknown, revoked or inactive key. */
  personalKeyByText(text: string): FullGrant | null
  /** Returns the project with this secret key, or null for an unknown or revoked key. */
  projectBySecretKey(text: string): Project | null
  projectById(id: number): Project | null
  projectByKey(apiKey: string): Project | null
  projects(): readonly Project[]
  organization(): { readonly id: string } | null
}

/** The lookups that are needed to find a project. */
type Projects = Pick<RouteDirectory, 'projectById' | 'projectByKey' | 'projects'>

/** The number of the project that the first start creates. */
const CURRENT_PROJECT_ID = 1

/**
 * Returns the project of a request, if `grant` from `authenticate` may use it. `segment` names the project as in a
 * path: a number or `@current`. It is null for a path without a project. The query parameter `token` with the key of a
 * project overrides it. The header X-PostHog-Project-Api-Key names the project if nothing else does.
 *
 * Throws 401 `authentication_failed` for an unknown `token`, 400 `invalid_project` if nothing names the project and the
 * key reaches several, 403 `permission_denied` for a missing scope or a project that the key does not reach, and 404
 * `not_found` for a project that does not exist.
 */
export function authoriseAs(
  grant: KeyGrant,
  request: ApiRequest,
  directory: Projects,
  scope: Scope,
  segment: string | null,
): Project {
  const tokenProject = projectOfKey(request, directory, segment)
  const id =
    tokenProject?.id ??
    (segment === null ? onlyProjectId(grant, directory) : projectIdOf(segment, grant))
  requireScope(id === null ? grant : grantIn(grant, id), scope)
  if (id !== null && grant.projectIds !== 'all' && !grant.projectIds.includes(id)) {
    throw denied('The personal API key or its user may not use this project.')
  }
  const project = tokenProject ?? (id === null ? null : directory.projectById(id))
  if (project === null) throw unknownProject()
  request.useProject(project.id)
  return project
}

/**
 * Returns the project of a request to a route that servers poll. Such a request may have the secret key of the project
 * instead of a personal key. The secret key opens only these routes. Throws 403 `permission_denied` for the secret key
 * of another project.
 */
export function authoriseServer(
  request: ApiRequest,
  services: Sessions & { readonly directory: RouteDirectory },
  scope: Scope,
  segment: string | null,
): Project {
  const { directory } = services
  const key = possibleKey(findKey(request))
  const project = key === null ? null : directory.projectBySecretKey(key)
  if (project === null) {
    const grant = authenticate(request, directory, services)
    return authoriseAs(grant, request, directory, scope, segment)
  }
  const named =
    projectOfKey(request, directory, segment)?.id ??
    projectIdOf(segment ?? '@current', { scopes: [], projectIds: [project.id] })
  if (named === null) throw unknownProject()
  if (named === project.id) {
    request.useProject(project.id)
    return project
  }
  throw denied('The secret key belongs to another project.')
}

/** Returns the rights of a key or session in a project, in which its user may have another level. */
export function grantIn<Grant extends KeyGrant>(grant: Grant, projectId: number): Grant {
  const level = grant.projectLevels?.get(projectId)
  if (level === undefined) return grant
  const user = grant.user === undefined ? {} : { user: { ...grant.user, level } }
  return { ...grant, ...user, scopes: scopesIn(grant, projectId) }
}

/**
 * Returns the project that `@current` stands for: the first project if the key reaches it, else the project with the
 * lowest number that the key reaches.
 */
export function currentProjectId({ projectIds }: KeyGrant): number {
  const isOpen = projectIds === 'all' || projectIds.includes(CURRENT_PROJECT_ID)
  return isOpen || projectIds.length === 0 ? CURRENT_PROJECT_ID : Math.min(...projectIds)
}

/** Returns the owner of a personal key. Throws 401 `authentication_failed` for a key without an active owner. */
export function userOf({ user }: KeyGrant): KeyUser {
  if (user !== undefined) return user
  throw new ServiceError('authentication_failed', 'The personal API key belongs to no active user.')
}

/**
 * Returns the rights of the personal key in the request, or of the session if there is no key. Only the first place
 * that has a key is used. Throws 401 `not_authenticated` or `authentication_failed`, and 403 `csrf_failed`.
 */
export function authenticate<Grant extends KeyGrant>(
  request: ApiRequest,
  directory: { personalKeyByText(text: string): Grant | null },
  place?: Sessions<Grant>,
): Grant {
  const key = findKey(request)
  if (key === null) {
    const grant = place === undefined ? null : grantOfSession(request, place)
    if (grant !== null) return grant
    const detail = 'Send a personal API key in the header "Authorization: Bearer <key>".'
    throw new ServiceError('not_authenticated', detail)
  }
  const possible = possibleKey(key)
  const grant = possible === null ? null : directory.personalKeyByText(possible)
  if (grant === null) {
    const detail = 'The personal API key is not valid. Create one, or check that it is complete.'
    throw new ServiceError('authentication_failed', detail)
  }
  request.caller = callerOf(grant, 'api')
  return grant
}

/**
 * Returns the rights of the session in the request, or null without a session. Throws 401 `authentication_failed` and
 * 403 `csrf_failed`.
 */
export function grantOfSession<Grant extends KeyGrant>(
  request: ApiRequest,
  place: Sessions<Grant>,
): Grant | null {
  const token = place.sessions === undefined ? null : sessionToken(request, place)
  if (token === null) return null
  // A session is not kept alive by an idle page, nor by a long answer that checks whether it may continue.
  const isUse = request.caller === null && request.words.consoleMark === '1'
  const grant = place.sessions?.open(token, isUse) ?? null
  if (grant === null) {
    throw new ServiceError('authentication_failed', place.sessions?.endOf(token) ?? '')
  }
  request.caller = callerOf(grant, 'console')
  return grant
}

/** Returns the caller of a grant, for the audit log. */
export function callerOf({ keyId, userId }: KeyGrant, source: Caller['source']): Caller {
  return { source, keyId: keyId ?? null, userId: userId ?? null }
}

/** Throws 403 `permission_denied` if a key lacks a scope. */
export function requireScope({ scopes }: KeyGrant, scope: Scope): void {
  if (!hasScope(scopes, scope)) throw denied(`The personal API key lacks the scope ${scope}.`)
}

/** Throws 403 `permission_denied` if a key lacks a scope in the organization and in each project. */
export function requireScopeInAnyProject(grant: KeyGrant, scope: Scope): void {
  const projectIds = [...(grant.projectLevels?.keys() ?? [])]
  if (projectIds.some((id) => hasScope(scopesIn(grant, id), scope))) return
  requireScope(grant, scope)
}

/** Returns a 403 `permission_denied` error with a reason. */
export function denied(detail: string): ServiceError {
  return new ServiceError('permission_denied', detail)
}

function possibleKey(key: unknown): string | null {
  return typeof key === 'string' && key.length <= KEY_CHARACTERS_MAX ? key : null
}

function unknownProject(): ServiceError {
  return new ServiceError('not_found', 'This project does not exist. Use its number or `@current`.')
}

/**
 * Finds the key in the header, the body field or the query parameter, in this order. Other schemes of Authorization are
 * ignored.
 */
function findKey(request: ApiRequest): unknown {
  const bearer = /^Bearer\s+(\S.+)$/.exec(request.head.authorization)?.[1]
  if (bearer !== undefined) return bearer.trimEnd()
  const inBody = bodyField(request)
  if (inBody !== undefined && inBody !== null && inBody !== '') return inBody
  const inQuery = request.query.get('personal_api_key')
  return inQuery === '' ? null : inQuery
}

/**
 * Returns the field `personal_api_key` of a JSON body. A body that is not JSON has no such field; its error is reported
 * later. Throws 413 `request_too_large` for a body with very many values.
 */
function bodyField(request: ApiRequest): unknown {
  let body: unknown
  // Strangers must not make the server parse large bodies. A client with a key can send it in the header.
  if (!request.isTable) refuseManyValues(request.body, API_KEY_BODY_VALUES_MAX)
  try {
    body = request.json()
  } catch {
    return undefined
  }
  if (typeof body !== 'object' || body === null) return undefined
  return Object.getOwnPropertyDescriptor(body, 'personal_api_key')?.value
}

/**
 * Returns the project whose key the request has in the parameter `token`, or else in the header. The header is ignored
 * if `segment` is the number of a project. Null without a key. Throws 401 `authentication_failed` for a key that
 * belongs to no project.
 */
function projectOfKey(
  request: ApiRequest,
  directory: Projects,
  segment: string | null,
): Project | null {
  const token = request.query.get('token')
  const { projectApiKey } = request.head
  const isHeaderAsked = token === null && (segment === null || segment === '@current')
  if (token === null && !(isHeaderAsked && projectApiKey !== '')) return null
  const key = possibleKey(token ?? projectApiKey)
  const project = key === null ? null : directory.projectByKey(key)
  if (project !== null) return project
  const place = token === null ? 'The header `X-PostHog-Project-Api-Key`' : 'The parameter `token`'
  throw new ServiceError('authentication_failed', `${place} is not a project key.`)
}

/** Returns the only project that a key reaches. Throws 400 `invalid_project` if it reaches none or several. */
function onlyProjectId({ projectIds }: KeyGrant, directory: Projects): number {
  const reached =
    projectIds === 'all'
      ? directory.projects()
      : directory.projects().filter(({ id }) => projectIds.includes(id))
  const [only] = reached
  if (only !== undefined && reached.length === 1) return only.id
  const detail =
    'The request names no project, and the key can use several. Send the project key as the parameter `token`.'
  throw new ServiceError('invalid_project', detail, { attr: 'token' })
}

/** Returns the project number in a path segment, or null for a text that is not one. */
function projectIdOf(segment: string, grant: KeyGrant): number | null {
  if (segment === '@current') return currentProjectId(grant)
  return /^[1-9][0-9]{0,14}$/.test(segment) ? Number(segment) : null
}
