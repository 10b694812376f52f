/**
 * The routes of the organization: its name, its members, the access to flags that they have by default, its audit log
 * and its dead letters. Source: docs/compatibility/organization.md, "Organization, users, keys, projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import { timeText } from '../../../base/time.ts'
import type { StoredAuditEntry } from '../../../rules/access/audit-entry.ts'
import type { FlagAccessLevel } from '../../../rules/access/levels.ts'
import type { FlagAccessSetting, Project } from '../../../rules/access/organization.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { itemPage, lenientPage } from '../../server/pages.ts'
import {
  byAdministrators,
  done,
  inOrganization,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { existing } from '../collection.ts'
import { DEAD_LETTER_ROUTES, type DeadLetterServices } from '../dead-letters.ts'
import { STATUS_ROUTES, type StatusServices } from '../status.ts'
import { IDENTITY_ROUTES } from './identities.ts'
import { INVITE_ROUTES, type InviteServices } from './invites.ts'
import { MEMBER_ROUTES } from './members.ts'
import {
  ask,
  change,
  FLAG_LEVEL,
  LEVEL,
  listing,
  type OrganizationCall,
  type OrganizationServices,
  organizationCollection,
  organizationOf,
  organizationRoutes,
  USER_SUMMARY,
} from './organization-services.ts'
import { visibleProjects } from './projects.ts'

/** The `resource` and the ID of the only setting for default access. */
const FLAG_RESOURCE = 'feature flags'
const FLAG_RESOURCE_ID = 1

/** The organization in an answer to one of its users. */
export const ORGANIZATION = is.namedObject('Organization', {
  id: is.UUID,
  name: is.TEXT,
  created_at: is.TIME,
  membership_level: LEVEL,
  projects: is.list(is.object({ id: is.WHOLE, name: is.TEXT })),
})
const RESOURCE = is.refused(
  is.choice(FLAG_RESOURCE),
  `\`resource\` must be ${JSON.stringify(FLAG_RESOURCE)}. No other resource has access levels.`,
  'invalid_choice',
)
const RESOURCE_ACCESS = is.namedObject('ResourceAccess', {
  id: is.WHOLE,
  resource: RESOURCE,
  access_level: FLAG_LEVEL,
  created_at: is.TIME,
  updated_at: is.TIME,
  created_by: is.nullable(USER_SUMMARY),
})

const route = organizationRoutes<OrganizationServices>()
const access = organizationCollection<ServerServices>('resource_access/')
const listRoute = routesOf<OrganizationServices>(
  '/api/organizations/',
  inOrganization('organization:read'),
)

const AUDIT_ENTRY = is.namedObject('AuditEntry', {
  id: is.WHOLE,
  created_at: is.TIME,
  source: is.choice('api', 'console', 'command_line', 'schedule'),
  user: is.about(
    is.nullable(USER_SUMMARY),
    'The user who made the change or scheduled it. Null for the command line and for an accepted invitation.',
  ),
  personal_api_key_id: is.nullable(is.WHOLE),
  account: is.about(
    is.nullable(is.TEXT),
    'The operating system user, for a change on the command line.',
  ),
  address: is.about(is.nullable(is.TEXT), 'IP address of the client.'),
  project_id: is.nullable(is.WHOLE),
  method: is.nullable(is.TEXT),
  route: is.about(is.TEXT, 'Pattern of the path, or the command.'),
  object_id: is.about(is.nullable(is.TEXT), 'The object that was changed or created.'),
  status: is.about(is.nullable(is.WHOLE), 'HTTP status of the answer. Null for the command line.'),
})

/**
 * The services of all routes of the organization. The routes about the server and about invitations need more than the
 * others.
 */
export type ServerServices = DeadLetterServices & StatusServices & InviteServices

/** The routes of the organization. */
export const ORGANIZATION_RESOURCE: Resource<ServerServices> = {
  name: 'Organization',
  sentence: 'The organization, its members, and their default access to feature flags.',
  segments: {
    id: is.about(
      is.WHOLE,
      'Number of the default access setting. There is only one, with the number 1.',
    ),
    invite_id: is.about(is.UUID, 'UUID of an invitation.'),
  },
  routes: [
    listRoute('GET', '', 'listOrganizations', 'Lists the organizations. There is exactly one.', {
      ...listing(ORGANIZATION),
      handle: (call) =>
        itemPage(call, lenientPage(call), [visibleProjects(call)], (projects) =>
          organizationBody(call, projects),
        ),
    }),
    route('GET', '', 'getOrganization', 'Shows the organization.', {
      answers: { 200: done(ORGANIZATION) },
      handle: (call) => organizationBody(call, visibleProjects(call)),
    }),
    ...MEMBER_ROUTES,
    ...INVITE_ROUTES,
    ...IDENTITY_ROUTES,
    ...STATUS_ROUTES,
    ...DEAD_LETTER_ROUTES,
    route('GET', 'audit_log/', 'listAuditEntries', 'Lists the audit log.', {
      who: byAdministrators(inOrganization('organization:read')),
      ...listing(AUDIT_ENTRY),
      async handle(call) {
        const page = lenientPage(call)
        const entries = await ask(call, 'listAudit', page)
        return itemPage(call, page, entries, (entry) => auditBody(call, entry))
      },
    }),
    ...access({
      name: 'ResourceAccess',
      plural: 'ResourceAccess',
      noun: 'the default access level for feature flags',
      one: ':id/',
      schema: RESOURCE_ACCESS,
      list: {
        says: 'Lists the default access levels.',
        items({ services }) {
          const { flagAccess } = organizationOf(services)
          return flagAccess === null ? [] : [flagAccess]
        },
        show: settingBody,
      },
      find: settingInPath,
      show: settingBody,
      create: {
        says: 'Sets the default access level for feature flags.',
        body: is.openObject({ resource: RESOURCE, access_level: FLAG_LEVEL }),
        make(call) {
          const { access_level: level } = call.body()
          if (organizationOf(call.services).flagAccess === null) return setLevel(call, level)
          const detail =
            'The organization already has an access level for feature flags. Change it with PATCH.'
          throw new ServiceError('unique', detail, { attr: 'resource' })
        },
      },
      get: {},
      patch: {
        says: 'Changes the default access level for feature flags.',
        body: is.openObject({ access_level: FLAG_LEVEL }, { resource: RESOURCE }),
        change: (call) => setLevel(call, call.body().access_level),
      },
      remove: {
        run(call) {
          settingInPath(call)
          return change(call, 'setFlagAccess', { level: null, userId: call.user.id })
        },
      },
    }),
  ],
}

/** Returns the JSON of the organization for the caller. */
export function organizationBody(
  { services, user }: Pick<OrganizationCall, 'services' | 'user'>,
  projects: readonly Project[],
) {
  const { id, name, createdAtMs } = organizationOf(services)
  return {
    id,
    name,
    created_at: timeText(createdAtMs),
    membership_level: user.level,
    projects: projects.map((project) => ({ id: project.id, name: project.name })),
  }
}

async function setLevel(
  call: Pick<OrganizationCall, 'request' | 'services' | 'user'>,
  level: FlagAccessLevel,
) {
  const wanted = { level, userId: call.user.id }
  const setting = await change(call, 'setFlagAccess', wanted, String(FLAG_RESOURCE_ID))
  if (setting === null) throw new TypeError('the change answered no setting')
  return setting
}

function settingInPath({ services, request }: Pick<OrganizationCall, 'services' | 'request'>) {
  const { flagAccess } = organizationOf(services)
  const isSetting = request.parameter('id') === String(FLAG_RESOURCE_ID)
  return existing(isSetting ? flagAccess : null, 'The organization has not set this access level.')
}

function settingBody({ services }: Pick<OrganizationCall, 'services'>, setting: FlagAccessSetting) {
  const { createdById, createdAtMs, updatedAtMs, level } = setting
  const createdBy = createdById === null ? null : services.directory.userById(createdById)
  return {
    id: FLAG_RESOURCE_ID,
    resource: FLAG_RESOURCE,
    access_level: level,
    created_at: timeText(createdAtMs),
    updated_at: timeText(updatedAtMs),
    created_by: createdBy === null ? null : userSummary(createdBy),
  }
}

function auditBody({ services }: Pick<OrganizationCall, 'services'>, entry: StoredAuditEntry) {
  const { userId } = entry
  const user = userId === null ? null : services.directory.userById(userId)
  return {
    id: entry.id,
    created_at: timeText(entry.atMs),
    source: entry.source,
    user: user === null ? null : userSummary(user),
    personal_api_key_id: entry.keyId,
    account: entry.account,
    address: entry.address === '' ? null : entry.address,
    project_id: entry.projectId,
    method: entry.method === '' ? null : entry.method,
    route: entry.route,
    object_id: entry.objectId,
    status: entry.status === 0 ? null : entry.status,
  }
}
