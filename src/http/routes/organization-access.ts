/** What the routes of the organization, its users, roles, projects and keys begin and end with. */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type {
  OrganizationOperation,
  OrganizationPort,
  OrganizationRequest,
  OrganizationResult,
} from '../../engine/threads/organization-tasks.ts'
import type { FlagEditor } from '../../rules/access/flag-permissions.ts'
import { isAdministrator } from '../../rules/access/levels.ts'
import type { Organization, Project, User } from '../../rules/access/organization.ts'
import { hasScope, type Scope } from '../../rules/access/scopes.ts'
import type { Flag } from '../../rules/flags/types.ts'
import {
  authenticate,
  type KeyDirectory,
  type KeyGrant,
  type KeyUser,
  userOf,
} from '../server/auth.ts'
import { RequestParameters } from '../server/parameters.ts'
import { type ApiRequest, json } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'
import type { ReadField } from '../shapes/body-fields.ts'

const PAGE_DEFAULT = 100
const PAGE_MAX = 1000

/** Users, projects and keys as they are now, from memory. */
export interface OrganizationDirectory extends KeyDirectory {
  personalKeyByText(text: string): FullGrant | null
  organization(): Organization | null
  users(): readonly User[]
  userById(id: number): User | null
  projects(): readonly Project[]
  projectById(id: number): Project | null
  projectByKey(apiKey: string): Project | null
  flagEditor(user: Pick<KeyUser, 'id' | 'level'>): FlagEditor
}

/** A grant with what it takes to see whether another one is contained in it. */
export interface FullGrant extends KeyGrant {
  /** Null: never. */
  readonly expiresAtMs: number | null
}

/** What these routes work with. */
export interface OrganizationRoutesOptions {
  readonly directory: OrganizationDirectory
  readonly queries: OrganizationPort
  readonly flags: {
    /** A flag of a project, deleted or not, or null. */
    flagById(projectId: number, id: number): Flag | null
  }
  /** The flag as the private API shows it to a user. */
  readonly flagBody: (flag: Flag, user: KeyUser) => object
  /** Takes over what was changed; called before a change is answered. */
  readonly refresh: () => void
  /** Why nothing can be written now, or null. */
  readonly refusal: () => ServiceError | null
  readonly clock: Clock
  /** For links, without a path; null takes the address from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

/** An authorised request. */
export interface OrganizationAccess {
  readonly request: ApiRequest
  readonly options: OrganizationRoutesOptions
  readonly grant: FullGrant
  readonly user: KeyUser
  /** For links: taken before any wait, because the address of the peer is lost when the client leaves. */
  readonly base: string
}

/** Checks key and scope. Throws 401 and 403 `permission_denied`. */
export function openUserAccess(
  request: ApiRequest,
  options: OrganizationRoutesOptions,
  scope: Scope,
): OrganizationAccess {
  const grant = authenticate(request, options.directory)
  if (!hasScope(grant.scopes, scope)) {
    throw denied(`the personal API key lacks the scope ${scope}`)
  }
  return { request, options, grant, user: userOf(grant), base: baseUrl(request, options) }
}

/**
 * The same for routes about the whole organization: a key that is limited to some projects has no place
 * there. Where the path has `org_id`, it must be the organization's or `@current`, else 404.
 */
export function openOrganizationAccess(
  request: ApiRequest,
  options: OrganizationRoutesOptions,
  scope: Scope,
): OrganizationAccess {
  const access = openUserAccess(request, options, scope)
  requireUnlimited(access)
  const id = request.parameter('org_id').toLowerCase()
  if (id !== '@current' && id !== organizationOf(options).id) {
    throw new ServiceError('not_found', 'there is no such organization; use its id or @current')
  }
  return access
}

/** Refuses keys that are limited to some projects. */
export function requireUnlimited({ grant }: OrganizationAccess): void {
  if (grant.projectIds === 'all') return
  throw denied('the personal API key is limited to projects and may not see the organization')
}

/** What a key may do. */
export interface KeyRights {
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
  /** Null: never. */
  readonly expiresAtMs: number | null
}

/**
 * Throws 403 `permission_denied` for rights that the calling key does not have itself: a scope, a project,
 * a later expiry. `what` says what it wants to do with a key of such rights.
 */
export function requireContained(grant: FullGrant, rights: KeyRights, what: string): void {
  const refuse = (lack: string): never => {
    const detail = `the personal API key cannot ${what} that ${lack}: use a key with these rights`
    throw denied(detail)
  }
  const lacking = rights.scopes.filter((scope) => !hasScope(grant.scopes, scope))
  if (lacking.length > 0) refuse(`has scopes which it lacks itself (${lacking.join(', ')})`)
  const { projectIds, expiresAtMs } = grant
  const isWithin =
    projectIds === 'all' ||
    (rights.projectIds !== 'all' && rights.projectIds.every((id) => projectIds.includes(id)))
  if (!isWithin) refuse('opens projects which it may not use itself')
  const isShorter =
    expiresAtMs === null || (rights.expiresAtMs !== null && rights.expiresAtMs <= expiresAtMs)
  if (!isShorter) refuse('lasts longer than itself')
}

/** Refuses everybody below administrators. */
export function requireAdministrator({ user }: Pick<OrganizationAccess, 'user'>): void {
  if (isAdministrator(user.level)) return
  throw denied('only administrators and owners of the organization may do this')
}

/** The organization; there is one from the first start on. */
export function organizationOf({ directory }: OrganizationRoutesOptions): Organization {
  const organization = directory.organization()
  if (organization === null) throw new TypeError('the store was never filled')
  return organization
}

/** Asks the store something. */
export function ask<Name extends OrganizationOperation>(
  { options }: Pick<OrganizationAccess, 'options'>,
  name: Name,
  request: OrganizationRequest<Name>,
): Promise<OrganizationResult<Name>> {
  return options.queries.organization(name, request)
}

/** Changes something, and lets every later request see it. Throws 503 when nothing can be written. */
export async function change<Name extends OrganizationOperation>(
  access: Pick<OrganizationAccess, 'options'>,
  name: Name,
  request: OrganizationRequest<Name>,
): Promise<OrganizationResult<Name>> {
  const refusal = access.options.refusal()
  if (refusal !== null) throw refusal
  const result = await ask(access, name, request)
  access.options.refresh()
  return result
}

/** Reads members of the body, never of the query. Throws 415, 400 `parse_error` and `invalid_input`. */
export function fieldsOf(request: ApiRequest): ReadField {
  const parameters = new RequestParameters(request)
  return (name) => (parameters.isInBody(name) ? parameters.value(name) : undefined)
}

/** Part of a list that is counted through. What is no number is taken for the default. */
export interface LenientPage {
  readonly limit: number
  readonly offset: number
}

/** `limit` (1 to 1000, default 100) and `offset` of the query. */
export function pageOf(request: ApiRequest): LenientPage {
  const limit = wholeNumber(request.query.get('limit'))
  return {
    limit: limit === 0 ? PAGE_DEFAULT : Math.min(limit, PAGE_MAX),
    offset: wholeNumber(request.query.get('offset')),
  }
}

/** The envelope of a page. Interface description, section 2.1. */
export function pageAnswer(
  { request, base }: Pick<OrganizationAccess, 'request' | 'base'>,
  { limit, offset }: LenientPage,
  count: number,
  results: readonly unknown[],
) {
  const url = (start: number): string => {
    const parameters = new URLSearchParams(request.queryText)
    // A link must not carry the key on.
    parameters.delete('personal_api_key')
    parameters.set('limit', String(limit))
    if (start === 0) parameters.delete('offset')
    else parameters.set('offset', String(start))
    parameters.sort()
    return `${base}${request.path}?${parameters.toString()}`
  }
  return json({
    count,
    next: offset + limit < count ? url(offset + limit) : null,
    previous: offset > 0 ? url(Math.max(0, offset - limit)) : null,
    results,
  })
}

/** The whole list as a page, for lists that are in memory. */
export function listAnswer(access: OrganizationAccess, bodies: readonly unknown[]) {
  const page = pageOf(access.request)
  const results = bodies.slice(page.offset, page.offset + page.limit)
  return pageAnswer(access, page, bodies.length, results)
}

/** 403 with a reason. */
export function denied(detail: string): ServiceError {
  return new ServiceError('permission_denied', detail)
}

/** The number that a path segment stands for, or null. */
export function numberInPath(request: ApiRequest, name: string): number | null {
  const text = request.parameter(name)
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
}

/** 0 for what is no whole number. */
function wholeNumber(text: string | null): number {
  return text !== null && /^[0-9]{1,15}$/.test(text) ? Number(text) : 0
}
