/** The routes of roles and their members. Source: docs/COMPATIBILITY.md, "Roles and role access". */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import type { RoleView } from '../../rules/access/roles.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiRequest, json, type Route } from '../server/router.ts'
import { missingField, readUuidField } from '../shapes/body-fields.ts'
import { type RoleBody, readRoleFields, roleBody, roleMembershipBody } from '../shapes/role.ts'
import {
  ask,
  change,
  fieldsOf,
  listAnswer,
  type OrganizationAccess,
  type OrganizationRoutesOptions,
  openOrganizationAccess,
  pageAnswer,
  pageOf,
  requireAdministrator,
} from './organization-access.ts'

const ROLES_PATH = '/api/organizations/:org_id/roles/'
const ROLE_PATH = `${ROLES_PATH}:role_id/`
const MEMBERSHIPS_PATH = `${ROLE_PATH}role_memberships/`

/** The routes under `/api/organizations/:org_id/roles/`. */
export function roleRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  type Handler = (access: OrganizationAccess) => Promise<Answer>
  const read = (path: string, handle: Handler): Route => ({
    method: 'GET',
    path,
    handler: (request) => handle(openOrganizationAccess(request, options, 'organization:read')),
  })
  const write = (method: Route['method'], path: string, handle: Handler): Route => ({
    method,
    path,
    handler: async (request) => {
      const access = openOrganizationAccess(request, options, 'organization:write')
      requireAdministrator(access)
      return handle(access)
    },
  })
  return [
    read(ROLES_PATH, listRoles),
    write('POST', ROLES_PATH, createRole),
    read(ROLE_PATH, getRole),
    write('PATCH', ROLE_PATH, patchRole),
    write('PUT', ROLE_PATH, patchRole),
    write('DELETE', ROLE_PATH, deleteRole),
    read(MEMBERSHIPS_PATH, listMembers),
    write('POST', MEMBERSHIPS_PATH, addMember),
    write('DELETE', `${MEMBERSHIPS_PATH}:id/`, removeMember),
  ]
}

/** The body of a role; flags that are deleted are not named. */
export function bodyOfRole(options: OrganizationRoutesOptions, view: RoleView): RoleBody {
  const keys = view.flags.flatMap(({ projectId, flagId }) => {
    const flag = options.flags.flagById(projectId, flagId)
    return flag === null || flag.deleted ? [] : [flag.key]
  })
  return roleBody(view, keys)
}

async function listRoles(access: OrganizationAccess): Promise<Answer> {
  const page = pageOf(access.request)
  const { count, results } = await ask(access, 'listRoles', page)
  const bodies = results.map((view) => bodyOfRole(access.options, view))
  return pageAnswer(access, page, count, bodies)
}

async function createRole(access: OrganizationAccess): Promise<Answer> {
  const { name = '', level } = readRoleFields(fieldsOf(access.request), true)
  const view = await change(access, 'createRole', {
    name,
    createdById: access.user.id,
    ...(level === undefined ? {} : { level }),
  })
  return json(bodyOfRole(access.options, view), 201)
}

async function getRole(access: OrganizationAccess): Promise<Answer> {
  return json(bodyOfRole(access.options, await existingRole(access)))
}

async function patchRole(access: OrganizationAccess): Promise<Answer> {
  const { role } = await existingRole(access)
  const changes = readRoleFields(fieldsOf(access.request), access.request.method === 'PUT')
  const view = await change(access, 'changeRole', { id: role.id, changes })
  return json(bodyOfRole(access.options, view))
}

async function deleteRole(access: OrganizationAccess): Promise<Answer> {
  await change(access, 'deleteRole', roleInPath(access.request))
  return { status: 204, contentType: '', body: '' }
}

async function listMembers(access: OrganizationAccess): Promise<Answer> {
  const { role, members } = await existingRole(access)
  const bodies = members.map((member) => roleMembershipBody(role.id, member))
  return listAnswer(access, bodies)
}

async function addMember(access: OrganizationAccess): Promise<Answer> {
  const userUuid = readUuidField(fieldsOf(access.request), 'user_uuid')
  if (userUuid === undefined) throw missingField('user_uuid')
  const id = uuidInPath(access.request, 'role_id') ?? ''
  const member = await change(access, 'addRoleMember', { id, userUuid })
  return json(roleMembershipBody(id, member), 201)
}

async function removeMember(access: OrganizationAccess): Promise<Answer> {
  const id = roleInPath(access.request)
  const membershipId = uuidInPath(access.request, 'id')
  if (membershipId === null) {
    throw new ServiceError('not_found', 'the role has no such membership')
  }
  await change(access, 'removeRoleMember', { id, membershipId })
  return { status: 204, contentType: '', body: '' }
}

async function existingRole(access: OrganizationAccess): Promise<RoleView> {
  const view = await ask(access, 'getRole', roleInPath(access.request))
  if (view === null) throw unknownRole()
  return view
}

function roleInPath(request: ApiRequest): string {
  const id = uuidInPath(request, 'role_id')
  if (id === null) throw unknownRole()
  return id
}

function uuidInPath(request: ApiRequest, name: string): string | null {
  const uuid = parseUuid(request.parameter(name))
  return uuid === null ? null : formatUuid(uuid, 0)
}

function unknownRole(): ServiceError {
  return new ServiceError('not_found', 'the organization has no such role')
}
