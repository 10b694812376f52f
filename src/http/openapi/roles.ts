/** The description of roles and role access. docs/COMPATIBILITY.md, "Roles and role access". */
import {
  BODY_ERRORS,
  type Members,
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

const FLAG = '/api/projects/:project_id/feature_flags/:parent_lookup_feature_flag_id/'
const ENTRIES = `${FLAG}role_access/` as const
const PAGE = pageParameters(1000)

/** Roles, memberships and role access entries. */
export const ROLE_COMPONENTS: Members = {
  RoleAccess: object({
    id: WHOLE,
    feature_flag: ref('FeatureFlag'),
    role: ref('Role'),
    added_at: TIME,
    updated_at: TIME,
  }),
  RoleAccessPage: pageOf('RoleAccess'),
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
