/**
 * The routes of the organization, its members and its default for flags. Source: docs/COMPATIBILITY.md,
 * "Organization, users, keys, projects".
 */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import type { FlagAccessLevel, UserLevel } from '../../rules/access/levels.ts'
import type { FlagAccessSetting, User } from '../../rules/access/organization.ts'
import type { KeyUser } from '../server/auth.ts'
import type { Answer } from '../server/respond.ts'
import { json, type Route } from '../server/router.ts'
import {
  isFlagResource,
  memberBody,
  organizationBody,
  readMemberLevel,
  readResourceAccess,
  resourceAccessBody,
} from '../shapes/organization.ts'
import {
  change,
  denied,
  fieldsOf,
  listAnswer,
  type OrganizationAccess,
  type OrganizationRoutesOptions,
  openOrganizationAccess,
  organizationOf,
  requireAdministrator,
} from './organization-access.ts'
import { refusedMethod } from './person-access.ts'

const ORGANIZATION_PATH = '/api/organizations/:org_id/'
const MEMBERS_PATH = `${ORGANIZATION_PATH}members/`
const MEMBER_PATH = `${MEMBERS_PATH}:user_uuid/`
const RESOURCE_PATH = `${ORGANIZATION_PATH}resource_access/`
const RESOURCE_ENTRY_PATH = `${RESOURCE_PATH}:id/`

/** The routes under `/api/organizations/:org_id/` but those of roles. */
export function organizationRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  type Handler = (access: OrganizationAccess) => Answer | Promise<Answer>
  const read = (path: string, handle: Handler): Route => ({
    method: 'GET',
    path,
    handler: (request) => handle(openOrganizationAccess(request, options, 'organization:read')),
  })
  const write = (method: Route['method'], path: string, handle: Handler): Route => ({
    method,
    path,
    handler: (request) => {
      const access = openOrganizationAccess(request, options, 'organization:write')
      requireAdministrator(access)
      return handle(access)
    },
  })
  return [
    read(ORGANIZATION_PATH, getOrganization),
    read(MEMBERS_PATH, listMembers),
    { method: 'POST', path: MEMBERS_PATH, handler: refuseMember, isRefusal: true },
    read(MEMBER_PATH, getMember),
    write('PATCH', MEMBER_PATH, patchMember),
    write('DELETE', MEMBER_PATH, removeMember),
    read(RESOURCE_PATH, listResourceAccess),
    write('POST', RESOURCE_PATH, createResourceAccess),
    read(RESOURCE_ENTRY_PATH, getResourceAccess),
    write('PATCH', RESOURCE_ENTRY_PATH, patchResourceAccess),
    write('DELETE', RESOURCE_ENTRY_PATH, deleteResourceAccess),
  ]
}

function refuseMember(): Answer {
  return refusedMethod('GET', "members are made on the command line: 'tenrec user create'")
}

function getOrganization({ options, user }: OrganizationAccess): Answer {
  const organization = organizationOf(options)
  return json(organizationBody(organization, user.level, options.directory.projects()))
}

function listMembers(access: OrganizationAccess): Answer {
  const members = access.options.directory.users().filter(({ isActive }) => isActive)
  return listAnswer(access, members.map(memberBody))
}

function getMember(access: OrganizationAccess): Answer {
  return json(memberBody(memberInPath(access)))
}

async function patchMember(access: OrganizationAccess): Promise<Answer> {
  const member = otherMember(access, 'level')
  const level = readMemberLevel(fieldsOf(access.request))
  if (level === undefined) return json(memberBody(member))
  requireRank(access.user, level)
  const changed = await change(access, 'changeUser', { id: member.id, changes: { level } })
  return json(memberBody(changed))
}

async function removeMember(access: OrganizationAccess): Promise<Answer> {
  const { id } = otherMember(access, 'membership')
  await change(access, 'changeUser', { id, changes: { isActive: false } })
  return { status: 204, contentType: '', body: '' }
}

/** The member of the path, who is neither the caller nor above the caller. */
function otherMember(access: OrganizationAccess, what: string): User {
  const member = memberInPath(access)
  if (member.id === access.user.id) throw denied(`nobody may change the own ${what}`)
  requireRank(access.user, member.level)
  return member
}

function requireRank(user: KeyUser, level: UserLevel): void {
  if (level > user.level) throw denied('only owners may change owners and make others owner')
}

function memberInPath({ request, options }: OrganizationAccess): User {
  const bytes = parseUuid(request.parameter('user_uuid'))
  const uuid = bytes === null ? null : formatUuid(bytes, 0)
  const member = options.directory.users().find((user) => user.uuid === uuid && user.isActive)
  if (member !== undefined) return member
  throw new ServiceError('not_found', 'the organization has no such member')
}

function listResourceAccess(access: OrganizationAccess): Answer {
  const { flagAccess } = organizationOf(access.options)
  return listAnswer(access, flagAccess === null ? [] : [settingBody(access, flagAccess)])
}

async function createResourceAccess(access: OrganizationAccess): Promise<Answer> {
  const level = readResourceAccess(fieldsOf(access.request), true)
  if (organizationOf(access.options).flagAccess !== null) {
    const detail = 'the organization has a level for feature flags already: change it with PATCH'
    throw new ServiceError('unique', detail, { attr: 'resource' })
  }
  return json(await setLevel(access, level), 201)
}

function getResourceAccess(access: OrganizationAccess): Answer {
  return json(settingBody(access, settingInPath(access)))
}

async function patchResourceAccess(access: OrganizationAccess): Promise<Answer> {
  settingInPath(access)
  return json(await setLevel(access, readResourceAccess(fieldsOf(access.request), false)))
}

async function deleteResourceAccess(access: OrganizationAccess): Promise<Answer> {
  settingInPath(access)
  await change(access, 'setFlagAccess', { level: null, userId: access.user.id })
  return { status: 204, contentType: '', body: '' }
}

async function setLevel(access: OrganizationAccess, level: FlagAccessLevel): Promise<object> {
  const setting = await change(access, 'setFlagAccess', { level, userId: access.user.id })
  if (setting === null) throw new TypeError('the change answered no setting')
  return settingBody(access, setting)
}

function settingInPath({ request, options }: OrganizationAccess): FlagAccessSetting {
  const { flagAccess } = organizationOf(options)
  if (flagAccess !== null && isFlagResource(request.parameter('id'))) return flagAccess
  throw new ServiceError('not_found', 'the organization has set no such level')
}

function settingBody({ options }: OrganizationAccess, setting: FlagAccessSetting): object {
  const { createdById } = setting
  const createdBy = createdById === null ? null : options.directory.userById(createdById)
  return resourceAccessBody(setting, createdBy)
}
