/**
 * Who may use a private route: a personal API key, its scopes and the project of the path.
 * Source: interface description, section 5; docs/compatibility/api.md, "Authentication of private routes".
 *
 * The order of the checks decides what a stranger can find out: the key first, then the scope, then the
 * project. A key limited to some projects gets the same 403 for every other number, whether there is
 * such a project or not.
 */
import { ServiceError } from '../../base/errors.ts'
import { API_KEY_BODY_VALUES_MAX, KEY_CHARACTERS_MAX } from '../../base/limits.ts'
import type { Project } from '../../rules/access/project-directory.ts'
import { hasScope, type Scope } from '../../rules/access/scopes.ts'
import { refuseManyValues } from '../../rules/capture/json-text.ts'
import { type OwnAddress, sessionToken } from '../console/cookie.ts'
import type { ApiRequest, Caller } from './router.ts'

/** Whose key it is; active. */
export interface KeyUser {
  readonly id: number
  readonly uuid: string
  readonly email: string
  readonly firstName: string
  readonly distinctId: string
  /** In the organization: number of one of `USER_LEVELS`. */
  readonly level: number
}

/** What a personal key allows, as far as a route looks at it. */
export interface KeyGrant {
  /** Such as `event:read`; `*` stands for all, and `x:write` includes `x:read`. */
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
  /** Number of the key. */
  readonly keyId?: number
  /** Whose key it is. */
  readonly userId?: number
  readonly user?: KeyUser
  /** The session of the console that is used in the place of a key. */
  readonly session?: { readonly id: number; readonly createdAtMs: number }
}

/** Sessions of the console, which open what the key does with which they were begun. */
export interface Sessions<Grant extends KeyGrant = FullGrant> extends OwnAddress {
  /** Absent: there is no console. */
  readonly sessions?: { open(token: string, isUse: boolean): Grant | null } | undefined
}

/** A grant with what it takes to see whether another one is contained in it. */
export interface FullGrant extends KeyGrant {
  /** Null: never. */
  readonly expiresAtMs: number | null
}

/**
 * Keys, projects and the organization as they are now; answers from memory. Keys are looked up by their
 * hash, so that the time of an answer tells nothing about how much of a key was right.
 */
export interface RouteDirectory {
  /** Null for an unknown, revoked or inactive key. */
  personalKeyByText(text: string): FullGrant | null
  /** The project whose secret key this is; null for an unknown or revoked one. */
  projectBySecretKey(text: string): Project | null
  projectById(id: number): Project | null
  projectByKey(apiKey: string): Project | null
  projects(): readonly Project[]
  organization(): { readonly id: string } | null
}

/** What looking for a project takes. */
type Projects = Pick<RouteDirectory, 'projectById' | 'projectByKey' | 'projects'>

/** The project of the first start. */
const CURRENT_PROJECT_ID = 1

/**
 * The project that a request is about, if `grant`, which `authenticate` has answered, may do that. `segment`
 * names it as in a path: a number or `@current`; null for a path that names none. A query parameter `token` with a
 * project's key overrides it. The header X-PostHog-Project-Api-Key names the project where nothing else does.
 *
 * Throws 401 `authentication_failed` for an unknown `token`, 400 `invalid_project` when nothing names the project and
 * the key reaches several, 403 `permission_denied` for a missing scope or a project out of reach, 404 `not_found` for
 * a project that does not exist.
 */
export function authoriseAs(
  grant: KeyGrant,
  request: ApiRequest,
  directory: Projects,
  scope: Scope,
  segment: string | null,
): Project {
  const tokenProject = projectOfKey(request, directory, segment)
  requireScope(grant, scope)
  const id =
    tokenProject?.id ??
    (segment === null ? onlyProjectId(grant, directory) : projectIdOf(segment, grant))
  if (id !== null && grant.projectIds !== 'all' && !grant.projectIds.includes(id)) {
    throw denied('the personal API key may not use this project')
  }
  const project = tokenProject ?? (id === null ? null : directory.projectById(id))
  if (project === null) throw unknownProject()
  request.useProject(project.id)
  return project
}

/**
 * The same for routes that servers poll, which may send the secret key of the project instead of a
 * personal key. It reads what the route reads and nothing else; 403 `permission_denied` elsewhere.
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
  throw denied('the secret key is that of another project')
}

/** The project that `@current` stands for: that of the first start, else the lowest of the key's. */
export function currentProjectId({ projectIds }: KeyGrant): number {
  const isOpen = projectIds === 'all' || projectIds.includes(CURRENT_PROJECT_ID)
  return isOpen || projectIds.length === 0 ? CURRENT_PROJECT_ID : Math.min(...projectIds)
}

/** Whose personal key it is. Throws 401 `authentication_failed` for a key that is nobody's. */
export function userOf({ user }: KeyGrant): KeyUser {
  if (user !== undefined) return user
  throw new ServiceError('authentication_failed', 'the personal API key belongs to no active user')
}

/**
 * What the request's personal key allows, or without one its session. Only the first place that has a key is
 * looked at. Throws 401 `not_authenticated` or `authentication_failed`, and 403 `csrf_failed`.
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
    const detail = 'send a personal API key in the header "Authorization: Bearer <key>"'
    throw new ServiceError('not_authenticated', detail)
  }
  const possible = possibleKey(key)
  const grant = possible === null ? null : directory.personalKeyByText(possible)
  if (grant === null) {
    const detail = 'the personal API key is not valid; create one or check that it is complete'
    throw new ServiceError('authentication_failed', detail)
  }
  request.caller = callerOf(grant, 'api')
  return grant
}

/** What the request's session allows; null without one. Throws 401 `authentication_failed` and 403 `csrf_failed`. */
export function grantOfSession<Grant extends KeyGrant>(
  request: ApiRequest,
  place: Sessions<Grant>,
): Grant | null {
  const token = place.sessions === undefined ? null : sessionToken(request, place)
  if (token === null) return null
  // A page that nobody touches, and an answer that looks whether it may go on, keep no session alive.
  const isUse = request.caller === null && request.words.consoleMark === '1'
  const grant = place.sessions?.open(token, isUse) ?? null
  if (grant === null) {
    throw new ServiceError('authentication_failed', 'the session of the console has ended: log in')
  }
  request.caller = callerOf(grant, 'console')
  return grant
}

/** Who a grant is for, in the audit log. */
export function callerOf({ keyId, userId }: KeyGrant, source: Caller['source']): Caller {
  return { source, keyId: keyId ?? null, userId: userId ?? null }
}

/** Throws 403 `permission_denied` when a key lacks a scope. */
export function requireScope({ scopes }: KeyGrant, scope: Scope): void {
  if (!hasScope(scopes, scope)) throw denied(`the personal API key lacks the scope ${scope}`)
}

/** 403 with a reason. */
export function denied(detail: string): ServiceError {
  return new ServiceError('permission_denied', detail)
}

function possibleKey(key: unknown): string | null {
  return typeof key === 'string' && key.length <= KEY_CHARACTERS_MAX ? key : null
}

function unknownProject(): ServiceError {
  return new ServiceError('not_found', 'there is no such project; use its number or @current')
}

/** Header, body field, query parameter, in this order. Other schemes of Authorization do not count. */
function findKey(request: ApiRequest): unknown {
  const bearer = /^Bearer\s+(\S.+)$/.exec(request.head.authorization)?.[1]
  if (bearer !== undefined) return bearer.trimEnd()
  const inBody = bodyField(request)
  if (inBody !== undefined && inBody !== null && inBody !== '') return inBody
  const inQuery = request.query.get('personal_api_key')
  return inQuery === '' ? null : inQuery
}

/**
 * The field `personal_api_key` of a JSON body. A body that is no JSON has none; its fault comes later.
 * Throws 413 `request_too_large` for one with very many values.
 */
function bodyField(request: ApiRequest): unknown {
  let body: unknown
  // Whoever has a key can show it in the header: strangers must not make us parse a lot.
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
 * The project whose key a request has in the parameter `token`, or else in the header, unless `segment` is the number
 * of one; null without a key. Throws 401 `authentication_failed` for a key of no project.
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
  const place = token === null ? 'the header X-PostHog-Project-Api-Key' : 'token'
  throw new ServiceError('authentication_failed', `${place} is not the API key of a project`)
}

/** The one project that a key reaches. Throws 400 `invalid_project` when it reaches none or several. */
function onlyProjectId({ projectIds }: KeyGrant, directory: Projects): number {
  const reached =
    projectIds === 'all'
      ? directory.projects()
      : directory.projects().filter(({ id }) => projectIds.includes(id))
  const [only] = reached
  if (only !== undefined && reached.length === 1) return only.id
  const detail =
    'the request names no project, and the key reaches several: send the key of the project as the parameter token'
  throw new ServiceError('invalid_project', detail, { attr: 'token' })
}

/** The number that a path segment stands for, or null for a text that can be none. */
function projectIdOf(segment: string, grant: KeyGrant): number | null {
  if (segment === '@current') return currentProjectId(grant)
  return /^[1-9][0-9]{0,14}$/.test(segment) ? Number(segment) : null
}
