/**
 * The description of the organization, its users, projects and keys. docs/COMPATIBILITY.md, "Organization,
 * users, keys, projects".
 */
import {
  FLAG_ACCESS_LEVELS,
  type Levels,
  levelNumbers,
  USER_LEVELS,
} from '../../rules/access/levels.ts'
import { SCOPES } from '../../rules/access/scopes.ts'
import {
  about,
  BODY_ERRORS,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  list,
  type Members,
  nullable,
  object,
  openObject,
  operation,
  PRIVATE_ERRORS,
  pageOf,
  pageParameters,
  type Resource,
  ref,
  type Schema,
  TEXT,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const ORGANIZATION = '/api/organizations/:org_id/'
const MEMBERS = `${ORGANIZATION}members/` as const
const LETTERS = `${ORGANIZATION}dead_letters/` as const
const DEFAULTS = `${ORGANIZATION}resource_access/` as const
const PROJECTS = '/api/projects/'
const PROJECT = `${PROJECTS}:project_id/` as const
const SECRETS = `${PROJECT}secret_keys/` as const
const KEYS = '/api/personal_api_keys/'
const READ = { scope: 'organization:read' } as const
const WRITE = { scope: 'organization:write', errors: BODY_ERRORS } as const
const READ_PROJECT = { scope: 'project:read' } as const
const WRITE_PROJECT = { scope: 'project:write', errors: BODY_ERRORS } as const
const READ_KEYS = { scope: 'personal_api_key:read' } as const
const WRITE_KEYS = { scope: 'personal_api_key:write', errors: BODY_ERRORS } as const
const PAGE = pageParameters(1000)
const LEVEL = levelOf(USER_LEVELS)

/** What a role or the organization lets people do with flags. */
export const FLAG_LEVEL = levelOf(FLAG_ACCESS_LEVELS)

const PROJECT_FIELDS: Members = {
  timezone: about(TEXT, 'Such as Europe/Berlin.'),
  anonymize_ips: BOOLEAN,
  autocapture_opt_out: about(BOOLEAN, 'Browsers capture no clicks, changes and submits.'),
  autocapture_exceptions_opt_in: about(BOOLEAN, 'Browsers capture exceptions.'),
  autocapture_web_vitals_opt_in: about(BOOLEAN, 'Browsers capture web vitals.'),
  test_account_filters: list(JSON_OBJECT),
}
const SCOPE_LIST = about(list(TEXT), `* for all, or some of ${SCOPES.join(', ')}.`)
const KEY_FIELDS: Members = {
  scoped_teams: about(nullable(list(WHOLE)), 'Numbers of projects; null is all.'),
  expires_at: nullable(TIME),
}
const KEY_MEMBERS: Members = {
  id: WHOLE,
  label: TEXT,
  value: about(nullable(TEXT), 'The key itself, when it is made or rolled; else null.'),
  mask_value: TEXT,
  created_at: TIME,
  last_rolled_at: nullable(TIME),
}
const USER_MEMBERS: Members = {
  id: WHOLE,
  uuid: UUID,
  distinct_id: TEXT,
  first_name: TEXT,
  email: TEXT,
  is_email_verified: BOOLEAN,
}

/** The organization and what belongs to it. */
export const ORGANIZATION_COMPONENTS: Members = {
  Organization: object({
    id: UUID,
    name: TEXT,
    created_at: TIME,
    membership_level: LEVEL,
    projects: list(object({ id: WHOLE, name: TEXT })),
  }),
  UserSummary: object(USER_MEMBERS),
  User: object({
    ...USER_MEMBERS,
    team: nullable(ref('Project')),
    organization: ref('Organization'),
    organizations: list(ref('Organization')),
  }),
  Member: object({
    id: about(UUID, 'The uuid of the user.'),
    user: ref('UserSummary'),
    level: LEVEL,
    joined_at: TIME,
    updated_at: TIME,
  }),
  MemberPage: pageOf('Member'),
  ResourceAccess: object({
    id: WHOLE,
    resource: choice('feature flags'),
    access_level: FLAG_LEVEL,
    created_at: TIME,
    updated_at: TIME,
    created_by: nullable(ref('UserSummary')),
  }),
  ResourceAccessPage: pageOf('ResourceAccess'),
  AuditEntry: object({
    id: WHOLE,
    created_at: TIME,
    source: choice('api', 'command_line'),
    user: about(nullable(ref('UserSummary')), 'Whose key it was; null on the command line.'),
    personal_api_key_id: nullable(WHOLE),
    account: about(nullable(TEXT), 'Account of the machine, on the command line.'),
    address: about(nullable(TEXT), 'Address of the client.'),
    project_id: nullable(WHOLE),
    method: nullable(TEXT),
    route: about(TEXT, 'Pattern of the path, or the command.'),
    object_id: about(nullable(TEXT), 'What was changed or made.'),
    status: about(nullable(WHOLE), 'Status of the answer; null on the command line.'),
  }),
  AuditEntryPage: pageOf('AuditEntry'),
  DeadLetterRange: openObject(
    {},
    {
      after: about(WHOLE, 'Only letters with a higher number.'),
      through: about(WHOLE, 'Only letters up to this number.'),
    },
  ),
  DeadLetterOutcome: object({
    done: about(WHOLE, 'Letters that are gone.'),
    failed: about(WHOLE, 'Letters that could not be processed this time either.'),
    skipped: about(WHOLE, 'Commands, which are not replayed.'),
    last: about(WHOLE, 'The last letter that was looked at: `after` of the next request.'),
    newest: about(WHOLE, 'The newest letter at the beginning; what failed again is newer.'),
    has_more: BOOLEAN,
  }),
  Project: object({
    id: WHOLE,
    uuid: UUID,
    organization: UUID,
    name: TEXT,
    api_token: about(TEXT, 'The key with which clients send events.'),
    ...PROJECT_FIELDS,
    is_demo: BOOLEAN,
    effective_membership_level: LEVEL,
    created_at: TIME,
  }),
  ProjectPage: pageOf('Project'),
  ProjectDraft: openObject({ name: TEXT }, PROJECT_FIELDS),
  ProjectChanges: openObject({}, { name: TEXT, ...PROJECT_FIELDS }),
  SecretKey: object({ ...KEY_MEMBERS, project_id: WHOLE }),
  SecretKeyPage: pageOf('SecretKey'),
  PersonalKey: object({ ...KEY_MEMBERS, user_id: WHOLE, scopes: list(TEXT), ...KEY_FIELDS }),
  PersonalKeyPage: pageOf('PersonalKey'),
  PersonalKeyDraft: openObject({ label: TEXT, scopes: SCOPE_LIST }, KEY_FIELDS),
  PersonalKeyChanges: openObject({}, { label: TEXT, scopes: SCOPE_LIST, ...KEY_FIELDS }),
}

/** The organization, its members and its default for flags. */
export const ORGANIZATION_RESOURCE: Resource = {
  name: 'Organization',
  sentence: 'The organization, its members, and what they may do with flags unless roles say more.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [WHOLE, 'Number of the setting: 1.'] },
  operations: [
    operation(`GET ${ORGANIZATION}`, 'getOrganization', 'Shows the organization.', {
      ...READ,
      answer: ref('Organization'),
    }),
    operation(`GET ${MEMBERS}`, 'listMembers', 'Lists the members.', {
      ...READ,
      query: PAGE,
      answer: ref('MemberPage'),
    }),
    operation(`GET ${MEMBERS}:user_uuid/`, 'getMember', 'Shows a member.', {
      ...READ,
      answer: ref('Member'),
    }),
    operation(`PATCH ${MEMBERS}:user_uuid/`, 'patchMember', 'Changes the level of a member.', {
      ...WRITE,
      body: openObject({}, { level: LEVEL }),
      answer: ref('Member'),
    }),
    operation(`DELETE ${MEMBERS}:user_uuid/`, 'deleteMember', 'Removes a member.', {
      scope: 'organization:write',
      status: 204,
    }),
    operation(`POST ${LETTERS}replay/`, 'replayDeadLetters', 'Processes dead letters again.', {
      ...WRITE,
      body: ref('DeadLetterRange'),
      isBodyOptional: true,
      answer: ref('DeadLetterOutcome'),
    }),
    operation(`POST ${LETTERS}drop/`, 'dropDeadLetters', 'Gives dead letters up.', {
      ...WRITE,
      body: ref('DeadLetterRange'),
      isBodyOptional: true,
      answer: ref('DeadLetterOutcome'),
    }),
    operation(`GET ${ORGANIZATION}audit_log/`, 'listAuditEntries', 'Lists who changed what.', {
      ...READ,
      query: PAGE,
      answer: ref('AuditEntryPage'),
    }),
    operation(`GET ${DEFAULTS}`, 'listResourceAccess', 'Lists the defaults.', {
      ...READ,
      query: PAGE,
      answer: ref('ResourceAccessPage'),
    }),
    operation(`POST ${DEFAULTS}`, 'createResourceAccess', 'Sets the default for flags.', {
      ...WRITE,
      body: openObject({ resource: choice('feature flags'), access_level: FLAG_LEVEL }),
      answer: ref('ResourceAccess'),
      status: 201,
    }),
    operation(`GET ${DEFAULTS}:id/`, 'getResourceAccess', 'Shows the default for flags.', {
      ...READ,
      answer: ref('ResourceAccess'),
    }),
    operation(`PATCH ${DEFAULTS}:id/`, 'patchResourceAccess', 'Changes the default for flags.', {
      ...WRITE,
      body: openObject({ access_level: FLAG_LEVEL }),
      answer: ref('ResourceAccess'),
    }),
    operation(`DELETE ${DEFAULTS}:id/`, 'deleteResourceAccess', 'Removes the default for flags.', {
      scope: 'organization:write',
      status: 204,
    }),
  ],
}

/** Projects and their secret keys. */
export const PROJECT_RESOURCE: Resource = {
  name: 'Projects',
  sentence: 'Projects, their settings, and their secret keys, which read the flags of one project.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [WHOLE, 'Number of the key.'] },
  operations: [
    operation(`GET ${PROJECTS}`, 'listProjects', 'Lists the projects that the key may use.', {
      ...READ_PROJECT,
      query: PAGE,
      answer: ref('ProjectPage'),
    }),
    operation(`POST ${PROJECTS}`, 'createProject', 'Makes a project.', {
      ...WRITE_PROJECT,
      body: ref('ProjectDraft'),
      answer: ref('Project'),
      status: 201,
    }),
    operation(`GET ${PROJECT}`, 'getProject', 'Shows a project.', {
      ...READ_PROJECT,
      answer: ref('Project'),
    }),
    operation(`PATCH ${PROJECT}`, 'patchProject', 'Changes a project.', {
      ...WRITE_PROJECT,
      body: ref('ProjectChanges'),
      answer: ref('Project'),
    }),
    operation(`GET ${SECRETS}`, 'listSecretKeys', 'Lists the secret keys.', {
      ...READ_PROJECT,
      query: PAGE,
      answer: ref('SecretKeyPage'),
    }),
    operation(`POST ${SECRETS}`, 'createSecretKey', 'Makes a secret key.', {
      ...WRITE_PROJECT,
      body: openObject({}, { label: TEXT }),
      isBodyOptional: true,
      answer: ref('SecretKey'),
      status: 201,
    }),
    operation(`DELETE ${SECRETS}:id/`, 'deleteSecretKey', 'Revokes a secret key.', {
      scope: 'project:write',
      status: 204,
    }),
    operation(`POST ${SECRETS}:id/roll/`, 'rollSecretKey', 'Gives a secret key a new text.', {
      ...WRITE_PROJECT,
      answer: ref('SecretKey'),
    }),
  ],
}

/** The caller and the caller's personal keys. */
export const USER_RESOURCE: Resource = {
  name: 'User and personal keys',
  sentence: 'The user whose key it is, and the other keys of that user.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [WHOLE, 'Number of the key.'] },
  operations: [
    operation('GET /api/users/:user_id/', 'getUser', 'Shows the caller.', {
      scope: 'user:read',
      answer: ref('User'),
    }),
    operation(`GET ${KEYS}`, 'listPersonalKeys', 'Lists the keys of the caller.', {
      ...READ_KEYS,
      query: PAGE,
      answer: ref('PersonalKeyPage'),
    }),
    operation(`POST ${KEYS}`, 'createPersonalKey', 'Makes a key that may do no more than this.', {
      ...WRITE_KEYS,
      body: ref('PersonalKeyDraft'),
      answer: ref('PersonalKey'),
      status: 201,
    }),
    operation(`GET ${KEYS}:id/`, 'getPersonalKey', 'Shows a key.', {
      ...READ_KEYS,
      answer: ref('PersonalKey'),
    }),
    operation(`PATCH ${KEYS}:id/`, 'patchPersonalKey', 'Changes a key.', {
      ...WRITE_KEYS,
      body: ref('PersonalKeyChanges'),
      answer: ref('PersonalKey'),
    }),
    operation(
      `DELETE ${KEYS}:id/`,
      'deletePersonalKey',
      'Revokes a key that may do no more than this.',
      {
        scope: 'personal_api_key:write',
        status: 204,
      },
    ),
    operation(
      `POST ${KEYS}:id/roll/`,
      'rollPersonalKey',
      'Gives a key that may do no more than this a new text.',
      {
        ...WRITE_KEYS,
        answer: ref('PersonalKey'),
      },
    ),
  ],
}

function levelOf(kind: Levels): Schema {
  const titles = kind.map(({ number, title }) => `${number} ${title}`)
  return about(choice(...levelNumbers(kind)), `${titles.join(', ')}.`)
}
