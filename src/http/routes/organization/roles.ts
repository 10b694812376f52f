/**
 * The routes of roles and their members. Source: interface description, section 2.4;
 * docs/compatibility/organization.md, "Roles and role access".
 */
import { ServiceError } from '../../../base/errors.ts'
import { NAME_CHARACTERS_MAX } from '../../../base/limits.ts'
import { timeText } from '../../../base/time.ts'
import type { RoleMember, RoleView } from '../../../rules/access/roles.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { pageOfList } from '../../server/pages.ts'
import { type Call, done, type Resource } from '../../server/route.ts'
import type { TypeOf } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import {
  ask,
  askPage,
  change,
  FLAG_LEVEL,
  listing,
  type OrganizationServices,
  organizationRoutes,
  USER_SUMMARY,
} from './organization-services.ts'

const SEPARATOR = ', '

/** A role. Interface description, section 2.4. */
export const ROLE_SCHEMA = is.namedObject('Role', {
  id: is.UUID,
  name: is.TEXT,
  feature_flags_access_level: FLAG_LEVEL,
  created_at: is.TIME,
  created_by: is.nullable(USER_SUMMARY),
  members: is.about(is.TEXT, 'E-mail addresses, separated by commas.'),
  associated_flags: is.about(is.TEXT, 'Flag keys, separated by commas.'),
})
const MEMBERSHIP = is.namedObject('RoleMembership', {
  id: is.UUID,
  role_id: is.UUID,
  user: USER_SUMMARY,
  joined_at: is.TIME,
  updated_at: is.TIME,
})
const NAME = is.name(NAME_CHARACTERS_MAX)
const DRAFT = is.openObject({ name: NAME }, { feature_flags_access_level: FLAG_LEVEL })
const CHANGES = is.openObject({}, { name: NAME, feature_flags_access_level: FLAG_LEVEL })

type RoleCall = Pick<Call<OrganizationServices>, 'services' | 'uuid'>

const route = organizationRoutes<OrganizationServices>('roles/')

/** The roles and their members. */
export const ROLE_RESOURCE: Resource<OrganizationServices> = {
  name: 'Roles',
  sentence: 'Groups of users with shared access to flags.',
  segments: { id: is.about(is.UUID, 'ID of the membership.') },
  routes: [
    route('GET', '', 'listRoles', 'Lists the roles.', {
      ...listing(ROLE_SCHEMA),
      handle: (call) => askPage(call, 'listRoles', (view) => roleBody(call.services, view)),
    }),
    route('POST', '', 'createRole', 'Creates a role.', {
      body: DRAFT,
      answers: { 201: done(ROLE_SCHEMA) },
      async handle(call) {
        const request = { ...fieldsOf(call.body()), createdById: call.user.id }
        return roleBody(call.services, await change(call, 'createRole', request))
      },
    }),
    route('GET', ':role_id/', 'getRole', 'Shows a role.', {
      answers: { 200: done(ROLE_SCHEMA) },
      handle: async (call) => roleBody(call.services, await existingRole(call)),
    }),
    route('PATCH', ':role_id/', 'patchRole', 'Updates a role.', {
      body: CHANGES,
      answers: { 200: done(ROLE_SCHEMA) },
      handle: changeRole,
    }),
    route('PUT', ':role_id/', 'putRole', 'Updates a role. The name is required.', {
      body: DRAFT,
      answers: { 200: done(ROLE_SCHEMA) },
      handle: changeRole,
    }),
    route('DELETE', ':role_id/', 'deleteRole', 'Removes a role.', {
      answers: { 204: done() },
      handle: (call) => change(call, 'deleteRole', roleInPath(call)),
    }),
    route(
      'GET',
      ':role_id/role_memberships/',
      'listRoleMemberships',
      'Lists the members of a role.',
      {
        ...listing(MEMBERSHIP),
        async handle(call) {
          const { role, members } = await existingRole(call)
          return pageOfList(call, members, (member) => membershipBody(role.id, member))
        },
      },
    ),
    route('POST', ':role_id/role_memberships/', 'createRoleMembership', 'Adds a user to a role.', {
      body: is.openObject({ user_uuid: is.CLIENT_UUID }),
      answers: { 201: done(MEMBERSHIP) },
      async handle(call) {
        const { user_uuid: userUuid } = call.body()
        const id = call.uuid('role_id') ?? ''
        return membershipBody(id, await change(call, 'addRoleMember', { id, userUuid }))
      },
    }),
    route(
      'DELETE',
      ':role_id/role_memberships/:id/',
      'deleteRoleMembership',
      'Removes a user from a role.',
      {
        answers: { 204: done() },
        handle(call) {
          const id = roleInPath(call)
          const membershipId = call.uuid('id')
          if (membershipId === null) {
            throw new ServiceError('not_found', 'The role has no such membership.')
          }
          return change(call, 'removeRoleMember', { id, membershipId })
        },
      },
    ),
  ],
}

/** Returns the body of a role. Deleted flags are left out. */
export function roleBody(
  { flags }: Pick<OrganizationServices, 'flags'>,
  { role, createdBy, members, flags: numbers }: RoleView,
) {
  const keys = numbers.flatMap(({ projectId, flagId }) => {
    const flag = flags.flagById(projectId, flagId)
    return flag === null || flag.deleted ? [] : [flag.key]
  })
  return {
    id: role.id,
    name: role.name,
    feature_flags_access_level: role.level,
    created_at: timeText(role.createdAtMs),
    created_by: createdBy === null ? null : userSummary(createdBy),
    // Members are in the order in which they joined, and flags in the order in which they were added.
    members: members.map(({ user }) => user.email).join(SEPARATOR),
    associated_flags: keys.join(SEPARATOR),
  }
}

function membershipBody(roleId: string, { id, user, joinedAtMs, updatedAtMs }: RoleMember) {
  return {
    id,
    role_id: roleId,
    user: userSummary(user),
    joined_at: timeText(joinedAtMs),
    updated_at: timeText(updatedAtMs),
  }
}

async function changeRole(call: Call<OrganizationServices, never, typeof CHANGES>) {
  const { role } = await existingRole(call)
  const changes = fieldsOf(call.body())
  return roleBody(call.services, await change(call, 'changeRole', { id: role.id, changes }))
}

function fieldsOf<Fields extends TypeOf<typeof CHANGES>>({
  feature_flags_access_level: level,
  ...fields
}: Fields) {
  return { ...fields, ...(level === undefined ? {} : { level }) }
}

async function existingRole(call: RoleCall): Promise<RoleView> {
  const view = await ask(call, 'getRole', roleInPath(call))
  if (view === null) throw unknownRole()
  return view
}

function roleInPath(call: RoleCall): string {
  const id = call.uuid('role_id')
  if (id === null) throw unknownRole()
  return id
}

function unknownRole(): ServiceError {
  return new ServiceError('not_found', 'The organization has no such role.')
}
