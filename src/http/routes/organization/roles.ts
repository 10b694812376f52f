/**
 * The routes of roles and their members. Source: interface description, section 2.4;
 * docs/compatibility/organization.md, "Roles and role access".
 */
import { NAME_CHARACTERS_MAX } from '../../../base/limits.ts'
import { timeText } from '../../../base/time.ts'
import type { RoleMember, RoleView } from '../../../rules/access/roles.ts'
import { userSummary } from '../../../rules/access/user.ts'
import type { Call, Resource } from '../../server/route.ts'
import type { TypeOf } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import { existing } from '../collection.ts'
import {
  ask,
  change,
  FLAG_LEVEL,
  type OrganizationServices,
  organizationCollection,
  USER_SUMMARY,
} from './organization-services.ts'

const SEPARATOR = ', '
const UNKNOWN = 'The organization has no such role.'

/** A role in an answer. Interface description, section 2.4. */
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

const roles = organizationCollection<OrganizationServices>('roles/')
const memberships = organizationCollection<OrganizationServices>('roles/:role_id/role_memberships/')

/** The routes of roles and of their members. */
export const ROLE_RESOURCE: Resource<OrganizationServices> = {
  name: 'Roles',
  sentence: 'Groups of users with shared access to flags.',
  segments: { id: is.about(is.UUID, 'ID of the membership.') },
  routes: [
    ...roles({
      name: 'Role',
      noun: 'a role',
      one: ':role_id/',
      schema: ROLE_SCHEMA,
      list: {
        says: 'Lists the roles.',
        items: (call, page) => ask(call, 'listRoles', page),
        show: roleBody,
      },
      find: existingRole,
      show: roleBody,
      create: {
        body: DRAFT,
        make: (call) =>
          change(call, 'createRole', { ...fieldsOf(call.body()), createdById: call.user.id }),
      },
      get: {},
      patch: { body: CHANGES, change: changeRole },
      put: { says: 'Updates a role. The name is required.', body: DRAFT, change: changeRole },
      remove: { run: (call) => change(call, 'deleteRole', roleInPath(call)) },
    }),
    ...memberships({
      name: 'RoleMembership',
      noun: 'a membership',
      one: ':id/',
      schema: MEMBERSHIP,
      list: {
        says: 'Lists the members of a role.',
        items: async (call) => (await existingRole(call)).members,
        show: membershipBody,
      },
      show: membershipBody,
      create: {
        says: 'Adds a user to a role.',
        body: is.openObject({ user_uuid: is.CLIENT_UUID }),
        make(call) {
          const { user_uuid: userUuid } = call.body()
          return change(call, 'addRoleMember', { id: call.uuid('role_id') ?? '', userUuid })
        },
      },
      remove: {
        says: 'Removes a user from a role.',
        run(call) {
          const id = roleInPath(call)
          const membershipId = existing(call.uuid('id'), 'The role has no such membership.')
          return change(call, 'removeRoleMember', { id, membershipId })
        },
      },
    }),
  ],
}

/** Returns the JSON of a role. It leaves out deleted flags, and flags of projects that the caller may not use. */
export function roleBody(
  {
    services: { flags },
    grant: { projectIds },
  }: Pick<Call<OrganizationServices>, 'services' | 'grant'>,
  { role, createdBy, members, flags: numbers }: RoleView,
) {
  const seen = numbers.filter(
    ({ projectId }) => projectIds === 'all' || projectIds.includes(projectId),
  )
  const keys = seen.flatMap(({ projectId, flagId }) => {
    const flag = flags.flagById(projectId, flagId)
    return flag === null || flag.deleted ? [] : [flag.key]
  })
  return {
    id: role.id,
    name: role.name,
    feature_flags_access_level: role.level,
    created_at: timeText(role.createdAtMs),
    created_by: createdBy === null ? null : userSummary(createdBy),
    // The members are listed in the order in which they joined the role, and the flags in the order in which they were
    // added.
    members: members.map(({ user }) => user.email).join(SEPARATOR),
    associated_flags: keys.join(SEPARATOR),
  }
}

function membershipBody(call: RoleCall, { id, user, joinedAtMs, updatedAtMs }: RoleMember) {
  return {
    id,
    role_id: call.uuid('role_id'),
    user: userSummary(user),
    joined_at: timeText(joinedAtMs),
    updated_at: timeText(updatedAtMs),
  }
}

function changeRole(
  call: Call<OrganizationServices, is.Schema, typeof CHANGES>,
  { role }: RoleView,
) {
  return change(call, 'changeRole', { id: role.id, changes: fieldsOf(call.body()) })
}

function fieldsOf<Fields extends TypeOf<typeof CHANGES>>({
  feature_flags_access_level: level,
  ...fields
}: Fields) {
  return { ...fields, ...(level === undefined ? {} : { level }) }
}

async function existingRole(call: RoleCall): Promise<RoleView> {
  return existing(await ask(call, 'getRole', roleInPath(call)), UNKNOWN)
}

function roleInPath(call: RoleCall): string {
  return existing(call.uuid('role_id'), UNKNOWN)
}
