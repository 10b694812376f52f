/**
 * The routes of projects, of their settings and of their secret keys. Source: docs/compatibility/organization.md,
 * "Organization, users, keys, projects".
 */
import { uuidV5 } from '../../../base/ids.ts'
import { given } from '../../../base/json.ts'
import { NAME_CHARACTERS_MAX } from '../../../base/limits.ts'
import { optionalTimeText, timeText } from '../../../base/time.ts'
import type { SecretKeyView } from '../../../engine/threads/organization-tasks.ts'
import type { Project, ProjectChanges } from '../../../rules/access/organization.ts'
import { CHANNEL_RULE_KEYS, CHANNEL_RULE_OPERATORS } from '../../../rules/web/channel-type.ts'
import { type FullGrant, grantIn, userOf } from '../../server/auth.ts'
import { itemPage, lenientPage } from '../../server/pages.ts'
import {
  byAdministrators,
  type Call,
  callerWith,
  done,
  inOrganization,
  inProject,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import type { TypeOf } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import { KEY_MEMBERS, LABEL, requireContained } from './keys.ts'
import {
  ask,
  change,
  LEVEL,
  listing,
  type OrganizationServices,
  organizationOf,
  organizationRoutes,
} from './organization-services.ts'
import { PROJECT_MEMBER_ROUTES } from './project-members.ts'

const CHANNEL_RULES = is.about(
  is.list(
    is.openObject({
      channel_type: is.TEXT,
      combiner: is.choice('AND', 'OR'),
      items: is.list(
        is.openObject(
          { key: is.choice(...CHANNEL_RULE_KEYS), op: is.choice(...CHANNEL_RULE_OPERATORS) },
          { value: is.ANY },
        ),
      ),
    }),
  ),
  'Rules that name the channel of a session. The first rule that matches decides.',
)

const SETTINGS = {
  access_control: is.about(
    is.BOOLEAN,
    'True if only members of the project, and administrators of the organization, may use it.',
  ),
  timezone: is.about(is.name(NAME_CHARACTERS_MAX), 'Such as Europe/Berlin.'),
  anonymize_ips: is.BOOLEAN,
  group_types_closed: is.about(is.BOOLEAN, 'If true, events create no new group types.'),
  autocapture_opt_out: is.about(
    is.BOOLEAN,
    'If true, browsers capture no clicks, changes or submits.',
  ),
  autocapture_exceptions_opt_in: is.about(is.BOOLEAN, 'If true, browsers capture exceptions.'),
  autocapture_web_vitals_opt_in: is.about(is.BOOLEAN, 'If true, browsers capture web vitals.'),
  daily_events_limit: is.about(
    is.nullable(is.WHOLE),
    'Number of events that are stored per day, starting at midnight UTC. Null means no limit. Requests beyond the limit are answered with 200 and quota_limited.',
  ),
  daily_bytes_limit: is.about(
    is.nullable(is.WHOLE),
    'Number of bytes of events that are stored per day, with the same rules as `daily_events_limit`.',
  ),
  test_account_filters: is.list(
    is.refused(
      is.JSON_OBJECT,
      '`test_account_filters` must contain objects, such as {"key": "email", ...}.',
    ),
  ),
  path_cleaning_filters: is.about(
    is.list(is.openObject({ regex: is.TEXT, alias: is.TEXT }, { order: is.nullable(is.NUMBER) })),
    'Rules that make similar paths equal: the alias replaces the text that matches the pattern.',
  ),
  customChannelTypeRules: CHANNEL_RULES,
  modifiers: is.about(
    is.openObject({}, { customChannelTypeRules: CHANNEL_RULES }),
    'Also contains `customChannelTypeRules`. It can be written here or at the top level, and is shown in both places.',
  ),
}
/** The settings that have another name in the store: the name in the API, and the name in the store. */
const STORED_NAMES: ReadonlyMap<string, keyof ProjectChanges> = new Map([
  ['access_control', 'isPrivate'],
  ['anonymize_ips', 'isIpAnonymized'],
  ['group_types_closed', 'areGroupTypesClosed'],
  ['autocapture_opt_out', 'isAutocaptureOff'],
  ['autocapture_exceptions_opt_in', 'areExceptionsCaptured'],
  ['autocapture_web_vitals_opt_in', 'areWebVitalsCaptured'],
  ['test_account_filters', 'testAccountFilters'],
  ['path_cleaning_filters', 'pathCleaningFilters'],
  ['daily_events_limit', 'dailyEventsMax'],
  ['daily_bytes_limit', 'dailyBytesMax'],
])
/** A project in an answer. */
export const PROJECT = is.namedObject('Project', {
  id: is.WHOLE,
  uuid: is.UUID,
  organization: is.UUID,
  name: is.TEXT,
  api_token: is.about(is.TEXT, 'The key with which clients send events.'),
  ...SETTINGS,
  today: is.about(
    is.object({ events: is.WHOLE, bytes: is.WHOLE, is_limited: is.BOOLEAN }),
    'The number of events, and the number of their bytes, that this machine has accepted since midnight UTC. is_limited: a daily limit is reached.',
  ),
  is_demo: is.BOOLEAN,
  effective_membership_level: LEVEL,
  created_at: is.TIME,
})
const DRAFT = is.named(
  'ProjectDraft',
  is.openObject({ name: is.name(NAME_CHARACTERS_MAX) }, SETTINGS),
)
const CHANGES = is.named(
  'ProjectChanges',
  is.openObject({}, { name: is.name(NAME_CHARACTERS_MAX), ...SETTINGS }),
)
const SECRET_KEY = is.namedObject('SecretKey', { ...KEY_MEMBERS, project_id: is.WHOLE })

type ProjectCall = Call<OrganizationServices>

const READER = inProject('project:read')
const WRITER = byAdministrators(inProject('project:write'))
const SECRETS = '/api/projects/:project_id/secret_keys/'
const projects = collectionOf<OrganizationServices>('/api/projects/', READER, WRITER)
const secrets = collectionOf<OrganizationServices>(SECRETS, READER, WRITER)
const secretRoute = routesOf<OrganizationServices>(SECRETS, READER, WRITER)
const ofOrganization = organizationRoutes<OrganizationServices>('projects/')

/** The routes of projects and of their secret keys. */
export const PROJECT_RESOURCE: Resource<OrganizationServices> = {
  name: 'Projects',
  sentence:
    'Projects, their settings, and their secret keys, which can read the flags of one project.',
  segments: {
    id: is.about(is.WHOLE, 'Key number.'),
    user_uuid: is.about(is.UUID, 'UUID of a user.'),
  },
  routes: [
    ...projects({
      name: 'Project',
      noun: 'a project',
      one: ':project_id/',
      schema: PROJECT,
      list: {
        says: 'Lists the projects that the key may use.',
        who: callerWith('project:read'),
        items: visibleProjects,
        show: projectBody,
      },
      find: ({ services, projectId }) =>
        existing(services.directory.projectById(projectId), 'This project does not exist.'),
      show: projectBody,
      create: {
        who: byAdministrators(inOrganization('project:write')),
        body: DRAFT,
        make: (call) => change(call, 'createProject', settingsOf(call.body())),
      },
      get: {},
      patch: {
        body: CHANGES,
        change: (call, { id }) =>
          change(call, 'changeProject', { id, changes: settingsOf(call.body()) }),
      },
    }),
    ofOrganization('GET', '', 'listProjectsOfOrganization', 'Lists the projects.', {
      who: inOrganization('project:read'),
      ...listing(PROJECT),
      handle: (call) =>
        itemPage(call, lenientPage(call), visibleProjects(call), (project) =>
          projectBody(call, project),
        ),
    }),
    ...PROJECT_MEMBER_ROUTES,
    ...secrets({
      name: 'SecretKey',
      noun: 'a secret key',
      one: ':id/',
      schema: SECRET_KEY,
      list: {
        says: 'Lists the secret keys.',
        items: secretsInForce,
        show: (_, key) => secretBody(key, null),
      },
      show: (_, made: { readonly key: SecretKeyView; readonly text: string }) =>
        secretBody(made.key, made.text),
      create: {
        body: is.openObject({}, { label: LABEL }),
        make(call) {
          requireSecretRights(call)
          return change(call, 'createSecretKey', { ...call.body(), projectId: call.projectId })
        },
      },
      remove: {
        says: 'Revokes a secret key.',
        run: async (call) => change(call, 'revokeSecretKey', await secretInPath(call)),
      },
    }),
    secretRoute('POST', ':id/roll/', 'rollSecretKey', 'Replaces the secret of a secret key.', {
      answers: { 200: done(SECRET_KEY) },
      async handle(call) {
        const id = await secretInPath(call)
        requireSecretRights(call)
        const { text, key } = await change(call, 'rollSecretKey', id)
        return secretBody(key, text)
      },
    }),
  ],
}

/** Returns the JSON of a project for the caller. */
export function projectBody(
  { services, grant }: { readonly services: OrganizationServices; readonly grant: FullGrant },
  project: Project,
) {
  const organization = organizationOf(services).id
  const today = services.usageOf(project.id)
  return {
    id: project.id,
    uuid: uuidV5(organization, `project ${project.id}`),
    organization,
    name: project.name,
    api_token: project.apiKey,
    timezone: project.timezone,
    anonymize_ips: project.isIpAnonymized,
    group_types_closed: project.areGroupTypesClosed === true,
    autocapture_opt_out: project.isAutocaptureOff,
    autocapture_exceptions_opt_in: project.areExceptionsCaptured,
    autocapture_web_vitals_opt_in: project.areWebVitalsCaptured,
    test_account_filters: project.testAccountFilters,
    path_cleaning_filters: project.pathCleaningFilters,
    customChannelTypeRules: project.customChannelTypeRules,
    modifiers: { customChannelTypeRules: project.customChannelTypeRules },
    daily_events_limit: project.dailyEventsMax ?? null,
    daily_bytes_limit: project.dailyBytesMax ?? null,
    today: { events: today.events, bytes: today.bytes, is_limited: today.isLimited },
    is_demo: false,
    access_control: project.isPrivate === true,
    effective_membership_level: userOf(grantIn(grant, project.id)).level,
    created_at: timeText(project.createdAtMs),
  }
}

/** Returns the projects that both the key of a request and its user may use, ordered by number. */
export function visibleProjects({
  services,
  grant,
}: {
  readonly services: OrganizationServices
  readonly grant: FullGrant
}): readonly Project[] {
  const { projectIds } = grant
  const projects = services.directory.projects()
  return projectIds === 'all' ? projects : projects.filter(({ id }) => projectIds.includes(id))
}

/** Converts the names of settings to the names in the store. Settings that are absent stay absent. */
function settingsOf<Fields extends TypeOf<typeof CHANGES>>({ modifiers, ...fields }: Fields) {
  const { customChannelTypeRules = fields.customChannelTypeRules } = modifiers ?? {}
  const settings = Object.entries({ ...fields, ...given({ customChannelTypeRules }) })
  const stored = settings.map(([name, value]) => [STORED_NAMES.get(name) ?? name, value])
  // Each value still has the type of its setting, because only the names were changed.
  return Object.fromEntries(stored) as ProjectChanges & Pick<Fields, 'name'>
}

function secretBody(key: SecretKeyView, value: string | null) {
  return {
    id: key.id,
    label: key.label,
    value,
    mask_value: `phs_...${key.lastFour}`,
    project_id: key.projectId,
    created_at: timeText(key.createdAtMs),
    last_rolled_at: optionalTimeText(key.rolledAtMs),
  }
}

/**
 * Throws 403 unless the calling key may read the flag definitions of the project and never expires. A client that knows
 * a secret key can read flag definitions permanently, so a key with fewer rights must not hand out a secret key.
 */
function requireSecretRights({ grant, projectId }: ProjectCall): void {
  const rights = { scopes: ['feature_flag:read'], projectIds: [projectId], expiresAtMs: null }
  requireContained(grant, rights, 'hand out a secret key')
}

async function secretInPath(call: ProjectCall): Promise<number> {
  const id = call.number('id')
  const keys = await secretsInForce(call)
  return existing(keys.find((key) => key.id === id)?.id, 'The project has no such secret key.')
}

async function secretsInForce(call: ProjectCall): Promise<readonly SecretKeyView[]> {
  const keys = await ask(call, 'listSecretKeys', { projectId: call.projectId })
  return keys.filter(({ revokedAtMs }) => revokedAtMs === null)
}
