/**
 * Checks who may use a private route: the personal API key, its scopes, and the project of the request. Source:
 * interface description, section 5; docs/compatibility/api.md, "Authentication of private routes".
 *
 * The order of the checks limits what a stranger can find out: first the key, then the scope, then the project. If a
 * key is limited to some projects, it gets the same 403 for every other project number, whether or not that project
 * exists.
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
  /** The numbers of the projects that both the key and its user may use. */
  readonly projectIds: readonly number[] | 'all'
  /**
   * The level of the user in each project in which it differs from the level in the organization, by project number.
   */
  readonly projectLevels?: ReadonlyMap<number, number>
  /** The scopes of the key itself. The key of a viewer can have more scopes than a viewer may use. */
  readonly keyScopes?: readonly string[]
  /** The number of the key. */
  readonly keyId?: number
  /** The number of the user who owns the key. */
  readonly userId?: number
  readonly user?: KeyUser
  /** The console session of the request, if it has a session instead of a key. */
  readonly session?: {
    readonly id: number
    readonly createdAtMs: number
    readonly startedWith: SessionProofKind
  }
}

/** The sessions of the console. A session has the rights of the key with which it was started. */
export interface Sessions<Grant extends KeyGrant = FullGrant> extends OwnAddress {
  /**
   * `open` finds the session of a token. `endOf` says why the session of a token has ended. Absent if there is no
   * console.
   */
  readonly sessions?:
    | { open(token: string, isUse: boolean): Grant | null; endOf(token: string): string }
    | undefined
}

/**
 * A grant that also contains the rights of the key itself. They are compared when a key is created, because a request
 * cannot create a key with more rights than the key of the request (routes/organization/keys.ts).
 */
export interface FullGrant extends KeyGrant {
  readonly keyScopes: readonly string[]
  /** The projects of the key itself. Its user may have access to fewer. */
  readonly keyProjectIds: readonly number[] | 'all'
  /** The moment at which the key expires, in milliseconds since 1970. Null if it never expires. */
  readonly expiresAtMs: number | null
}

/**
 * The current keys, projects and organization. All lookups are answered from memory. A key is looked up by its hash, so
 * that the response time does not reveal how many characters of a wrong key are right.
 */
export interface RouteDirectory {
  /** Returns the rights of a personal key. Returns null if the key is unknown, revoked or inactive. */
  personalKeyByText(text: string): FullGrant | null
  /** Returns the project with this secret key. Returns null if the key is unknown or revoked. */
  projectBySecretKey(text: string): Project | null
  projectById(id: number): Project | null
  projectByKey(apiKey: string): Project | null
  projects(): readonly Project[]
  organization(): { readonly id: string } | null
}

/** The lookups that are needed to find the project of a request. */
type Projects = Pick<RouteDirectory, 'projectById' | 'projectByKey' | 'projects'>

/** The number of the project that the first start of the daemon creates. */
const CURRENT_PROJECT_ID = 1

/**
 * Returns the project of a request. The query parameter `token`, which contains the key of a project, has precedence.
 * Without `token`, the header X-PostHog-Project-Api-Key contains the key, but it is ignored if `segment` is a project
 * number. Without both keys, `segment` names the project. `segment` is the project in the path, as a number or
 * `@current`, or null if the path names no project. `grant` comes from `authenticate` and must allow the project.
 *
 * Throws 401 `authentication_failed` for an unknown project key, 400 `invalid_project` if nothing names the project and
 * the key of the request may not use exactly one, 403 `permission_denied` if that key lacks the scope or may not use
 * the project, and 404 `not_found` if the project does not exist.
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
    throw denied(
      'The personal API key or its user may not use this project. Use another key, or ask for access.',
    )
  }
  const project = tokenProject ?? (id === null ? null : directory.projectById(id))
  if (project === null) throw unknownProject()
  request.useProject(project.id)
  return project
}

/**
 * Returns the project of a request to a route that servers poll. Such a request may have the secret key of the project
 * instead of a personal key. Other routes accept no secret key. Throws 403 `permission_denied` for the secret key of
 * another project.
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
  throw denied('The secret key belongs to another project. Send the secret key of this project.')
}

/**
 * Returns the rights that a key or session has in a project, where the level of the user may differ from that in the
 * organization.
 */
export function grantIn<Grant extends KeyGrant>(grant: Grant, projectId: number): Grant {
  const level = grant.projectLevels?.get(projectId)
  if (level === undefined) return grant
  const user = grant.user === undefined ? {} : { user: { ...grant.user, level } }
  return { ...grant, ...user, scopes: scopesIn(grant, projectId) }
}

/**
 * Returns the project that `@current` stands for: project 1 if the key may use it, otherwise the project with the
 * lowest number that the key may use.
 */
export function currentProjectId({ projectIds }: KeyGrant): number {
  const isOpen = projectIds === 'all' || projectIds.includes(CURRENT_PROJECT_ID)
  return isOpen || projectIds.length === 0 ? CURRENT_PROJECT_ID : Math.min(...projectIds)
}

/** Returns the owner of a personal key. Throws 401 `authentication_failed` if the key has no active owner. */
export function userOf({ user }: KeyGrant): KeyUser {
  if (user !== undefined) return user
  throw new ServiceError(
    'authentication_failed',
    'The personal API key belongs to no active user. Use the key of an active user.',
  )
}

/**
 * Returns the rights of the personal key in the request, or of the session if there is no key. A request may have keys
 * in several places. `findKey` says in which order they are searched; only the first key counts. Throws 401
 * `not_authenticated` or `authentication_failed`, and 403 `csrf_failed`.
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
 * Returns the rights of the session in the request, or null if it has no session. Throws 401 `authentication_failed`
 * and 403 `csrf_failed`.
 */
export function grantOfSession<Grant extends KeyGrant>(
  request: ApiRequest,
  place: Sessions<Grant>,
): Grant | null {
  const token = place.sessions === undefined ? null : sessionToken(request, place)
  if (token === null) return null
  // A session counts as used only if a user has caused the request, so that a page that nobody looks at does not keep
  // its session alive. While a long answer is sent, its session is checked again from time to time. These later checks,
  // for which `request.caller` is already set, do not count as use.
  const isUse = request.caller === null && request.words.consoleMark === '1'
  const grant = place.sessions?.open(token, isUse) ?? null
  if (grant === null) {
    throw new ServiceError('authentication_failed', place.sessions?.endOf(token) ?? '')
  }
  request.caller = callerOf(grant, 'console')
  return grant
}

/** Returns the key and the user of a grant as the audit log records them. */
export function callerOf({ keyId, userId }: KeyGrant, source: Caller['source']): Caller {
  return { source, keyId: keyId ?? null, userId: userId ?? null }
}

/** Throws 403 `permission_denied` if a key lacks the scope. */
export function requireScope({ scopes }: KeyGrant, scope: Scope): void {
  if (!hasScope(scopes, scope))
    throw denied(`The personal API key lacks the scope ${scope}. Use a key that has it.`)
}

/** Throws 403 `permission_denied` if a key has the scope neither in the organization nor in any project. */
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
 * Finds the key in a request: in the Authorization header, or else in the body, or else in the query. Authorization
 * schemes other than Bearer are ignored.
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
 * Returns the member `personal_api_key` of a JSON body. If the body is not JSON, it has no such member, and the error
 * is reported later. Throws 413 `request_too_large` if the body contains very many values.
 */
function bodyField(request: ApiRequest): unknown {
  let body: unknown
  // Without this limit, strangers could make the server parse large bodies. A client with a large body can send its key
  // in the header.
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
 * Returns the project whose key is in the parameter `token` of the request, or else in the header
 * X-PostHog-Project-Api-Key. If `segment` is a project number, the header is ignored. Returns null if there is no key.
 * Throws 401 `authentication_failed` if the key belongs to no project.
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
  throw new ServiceError(
    'authentication_failed',
    `${place} is not the key of a project. Copy the key from the settings of the project.`,
  )
}

/**
 * Returns the project that a key may use, if there is only one. Throws 400 `invalid_project` if there is none or if
 * there are several.
 */
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

/** Returns the number of the project that a path segment names, or null if the segment names no project. */
function projectIdOf(segment: string, grant: KeyGrant): number | null {
  if (segment === '@current') return currentProjectId(grant)
  return /^[1-9][0-9]{0,14}$/.test(segment) ? Number(segment) : null
}
