/** The description of roles and role access. docs/COMPATIBILITY.md, "Roles and role access". */
import { FLAG_LEVEL } from './organization.ts'
import {
  about,
  BODY_ERRORS,
  type Members,
  nullable,
  object,
  openObject,
  operation,
  optional,
  PRIVATE_ERRORS,
  pageOf,
  pageParameters,
  type Resource,
  ref,
  TEXT,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const ROLES = '/api/organizations/:org_id/roles/'
const ROLE = `${ROLES}:role_id/` as const
const MEMBERSHIPS = `${ROLE}role_memberships/` as const
const FLAG = '/api/projects/:project_id/feature_flags/:parent_lookup_feature_flag_id/'
const ENTRIES = `${FLAG}role_access/` as const
const READ = { scope: 'organization:read' } as const
const WRITE = { scope: 'organization:write', errors: BODY_ERRORS } as const
const PAGE = pageParameters(1000)

/** Roles, memberships and role access entries. */
export const ROLE_COMPONENTS: Members = {
  Role: object({
    id: UUID,
    name: TEXT,
    feature_flags_access_level: FLAG_LEVEL,
    created_at: TIME,
    created_by: nullable(ref('UserSummary')),
    members: about(TEXT, 'E-mail addresses, separated by commas.'),
    associated_flags: about(TEXT, 'Keys of flags, separated by commas.'),
  }),
  RolePage: pageOf('Role'),
  RoleMembership: object({
    id: UUID,
    role_id: UUID,
    user: ref('UserSummary'),
    joined_at: TIME,
    updated_at: TIME,
  }),
  RoleMembershipPage: pageOf('RoleMembership'),
  RoleAccess: object({
    id: WHOLE,
    feature_flag: ref('FeatureFlag'),
    role: ref('Role'),
    added_at: TIME,
    updated_at: TIME,
  }),
  RoleAccessPage: pageOf('RoleAccess'),
}

const CHANGE = {
  ...WRITE,
  body: openObject({}, { name: TEXT, feature_flags_access_level: FLAG_LEVEL }),
  answer: ref('Role'),
} as const
const DRAFT = {
  ...CHANGE,
  body: openObject({ name: TEXT }, { feature_flags_access_level: FLAG_LEVEL }),
} as const

/** Roles and their members. */
export const ROLE_RESOURCE: Resource = {
  name: 'Roles',
  sentence: 'What users may do with flags together.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [UUID, 'Id of the membership.'] },
  operations: [
    operation(`GET ${ROLES}`, 'listRoles', 'Lists the roles.', {
      ...READ,
      query: PAGE,
      answer: ref('RolePage'),
    }),
    operation(`POST ${ROLES}`, 'createRole', 'Makes a role.', { ...DRAFT, status: 201 }),
    operation(`GET ${ROLE}`, 'getRole', 'Shows a role.', { ...READ, answer: ref('Role') }),
    operation(`PATCH ${ROLE}`, 'patchRole', 'Changes a role.', CHANGE),
    operation(`PUT ${ROLE}`, 'putRole', 'Changes a role; the name must be there.', DRAFT),
    operation(`DELETE ${ROLE}`, 'deleteRole', 'Removes a role.', {
      scope: 'organization:write',
      status: 204,
    }),
    operation(`GET ${MEMBERSHIPS}`, 'listRoleMemberships', 'Lists the members of a role.', {
      ...READ,
      query: PAGE,
      answer: ref('RoleMembershipPage'),
    }),
    operation(`POST ${MEMBERSHIPS}`, 'createRoleMembership', 'Adds a user to a role.', {
      ...WRITE,
      body: openObject({ user_uuid: UUID }),
      answer: ref('RoleMembership'),
      status: 201,
    }),
    operation(`DELETE ${MEMBERSHIPS}:id/`, 'deleteRoleMembership', 'Takes a user out of a role.', {
      scope: 'organization:write',
      status: 204,
    }),
  ],
}

/** Which roles may change a flag. */
export const ROLE_ACCESS_RESOURCE: Resource = {
  name: 'Role access',
  sentence: 'Which roles may change a flag that is closed to others.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [WHOLE, 'Number of the entry.'] },
  operations: [
    operation(`GET ${ENTRIES}`, 'listRoleAccess', 'Lists the roles that may change a flag.', {
      scope: 'feature_flag:read',
      query: [optional('role_id', TEXT, 'Only the entry of this role.'), ...PAGE],
      answer: ref('RoleAccessPage'),
    }),
    operation(`POST ${ENTRIES}`, 'createRoleAccess', 'Lets a role change a flag.', {
      scope: 'feature_flag:write',
      errors: BODY_ERRORS,
      body: openObject({ role_id: UUID }),
      answer: ref('RoleAccess'),
      status: 201,
    }),
    operation(`GET ${ENTRIES}:id/`, 'getRoleAccess', 'Shows an entry.', {
      scope: 'feature_flag:read',
      answer: ref('RoleAccess'),
    }),
    operation(`DELETE ${ENTRIES}:id/`, 'deleteRoleAccess', 'Takes the right back.', {
      scope: 'feature_flag:write',
      status: 204,
    }),
  ],
}
