/** The common part of the routes of the organization and of its users, roles, projects and keys. */
import type { Clock } from '../../../base/clock.ts'
import type { ServiceError } from '../../../base/errors.ts'
import type { DailyUsage } from '../../../engine/front/shares/daily-limits.ts'
import type {
  OrganizationOperation,
  OrganizationPort,
  OrganizationRequest,
  OrganizationResult,
} from '../../../engine/threads/organization-tasks.ts'
import type { FlagEditor } from '../../../rules/access/flag-permissions.ts'
import {
  FLAG_ACCESS_LEVELS,
  type Levels,
  levelNumbers,
  PROJECT_LEVELS,
  USER_LEVELS,
} from '../../../rules/access/levels.ts'
import type {
  Organization,
  Project,
  ProjectMembership,
  User,
} from '../../../rules/access/organization.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import type { KeyUser, RouteDirectory } from '../../server/auth.ts'
import { PAGE_LIMITS } from '../../server/pages.ts'
import {
  byAdministrators,
  type Call,
  done,
  inOrganization,
  type RouteServices,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'

/** Returns the query parameters and the answer of a route that lists items. */
export function listing(item: is.Schema) {
  return {
    query: is.options(is.pageParameters(PAGE_LIMITS.max)),
    answers: { 200: done(is.pageOf(item)) },
  }
}

/** The members of a user in an answer. */
export const USER_MEMBERS = {
  id: is.WHOLE,
  uuid: is.UUID,
  distinct_id: is.TEXT,
  first_name: is.TEXT,
  email: is.TEXT,
  is_email_verified: is.BOOLEAN,
}
/** A user inside another object of an answer. Interface description, section 2.2. */
export const USER_SUMMARY = is.namedObject('UserSummary', USER_MEMBERS)
/** The level of a member of the organization. */
export const LEVEL = levelChoice(USER_LEVELS)
/** The level of a member of a project. */
export const PROJECT_LEVEL = levelChoice(PROJECT_LEVELS)
/** The level of access to flags that a role or the organization grants. */
export const FLAG_LEVEL = levelChoice(FLAG_ACCESS_LEVELS)

/** The current users, projects and keys, read from memory. */
export interface OrganizationDirectory extends RouteDirectory {
  organization(): Organization | null
  users(): readonly User[]
  userById(id: number): User | null
  projects(): readonly Project[]
  projectById(id: number): Project | null
  projectByKey(apiKey: string): Project | null
  projectMembers(projectId: number): readonly ProjectMembership[]
  flagEditor(user: Pick<KeyUser, 'id' | 'level'>): FlagEditor
}

/** The services that the routes of the organization need. */
export interface OrganizationServices extends RouteServices {
  readonly directory: OrganizationDirectory
  readonly queries: OrganizationPort
  readonly flags: {
    /** Returns a flag of a project, even if it is deleted. Returns null if there is no such flag. */
    flagById(projectId: number, id: number): Flag | null
  }
  /** Returns how many events, and how many bytes of events, were accepted today for a project. */
  readonly usageOf: (projectId: number) => DailyUsage
  /**
   * Reloads the directory after a change. Must be called before the change is answered, so that the client sees it in
   * the next request.
   */
  readonly refresh: () => void
  /** Returns the error with which the daemon must refuse changes at the moment, or null if it accepts them. */
  readonly refusal: () => ServiceError | null
  readonly clock: Clock
}

/** A request to one of the routes of the organization. */
export type OrganizationCall = Pick<
  Call<OrganizationServices>,
  'request' | 'services' | 'base' | 'user' | 'uuid'
>

const READER = inOrganization('organization:read')
const WRITER = byAdministrators(inOrganization('organization:write'))

/**
 * Returns the function that creates routes below the path of the organization. By default, all users may read, and only
 * administrators may make changes.
 */
export function organizationRoutes<Services extends OrganizationServices>(base = '') {
  return routesOf<Services>(`/api/organizations/:org_id/${base}`, READER, WRITER)
}

/**
 * Returns the function that creates collections of objects below the path of the organization. By default, all users
 * may read, and only administrators may make changes.
 */
export function organizationCollection<Services extends OrganizationServices>(base: string) {
  return collectionOf<Services>(`/api/organizations/:org_id/${base}`, READER, WRITER)
}

/** Sends a query to the store and resolves with its result. */
export function ask<Name extends OrganizationOperation>(
  { services }: Pick<OrganizationCall, 'services'>,
  name: Name,
  request: OrganizationRequest<Name>,
): Promise<OrganizationResult<Name>> {
  return services.queries.organization(name, request)
}

/**
 * Makes a change together with its audit entry. When it resolves, all later requests see the change. `objectId` is the
 * ID for the entry, if neither the path nor the result contains it. Throws 503 if nothing can be written.
 */
export async function change<Name extends OrganizationOperation>(
  { request, services }: Pick<OrganizationCall, 'request' | 'services'>,
  name: Name,
  wanted: OrganizationRequest<Name>,
  objectId?: string,
): Promise<OrganizationResult<Name>> {
  const refusal = services.refusal()
  if (refusal !== null) throw refusal
  const result = await request.noting((entry) => {
    const audit = entry && { ...entry, objectId: objectId ?? entry.objectId }
    return services.queries.organization(name, wanted, audit)
  })
  services.refresh()
  return result
}

/** Returns the organization. It exists from the first start on. */
export function organizationOf({
  directory,
}: Pick<OrganizationServices, 'directory'>): Organization {
  const organization = directory.organization()
  if (organization === null) throw new TypeError('the store was never filled')
  return organization
}

/** Returns the schema of a level. Its description lists the number and the title of each level. */
function levelChoice<const Kind extends Levels>(kind: Kind) {
  const titles = kind.map(({ number, title }) => `${number} ${title}`)
  return is.about(is.numberChoice(...levelNumbers(kind)), `${titles.join(', ')}.`)
}
