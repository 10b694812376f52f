/**
 * The organization, its members, projects and keys as clients write and see them. Source:
 * docs/COMPATIBILITY.md, "Organization, users, keys, projects".
 */
import { ServiceError } from '../../base/errors.ts'
import { uuidV5 } from '../../base/ids.ts'
import { optionalTimeText, timeText } from '../../base/time.ts'
import {
  FLAG_ACCESS_LEVELS,
  type FlagAccessLevel,
  levelNumbers,
  USER_LEVELS,
  type UserLevel,
} from '../../rules/access/levels.ts'
import { type UserFacts, userSummary } from '../../rules/access/user.ts'
import {
  missingField,
  type ReadField,
  readBooleanField,
  readChoiceField,
  readListField,
  readTextField,
} from './body-fields.ts'

const NAME_CHARACTERS_MAX = 200
/** What the one setting of resource access is about, and its id. */
const FLAG_RESOURCE = 'feature flags'
const FLAG_RESOURCE_ID = 1

/** What is known of the organization. */
export interface OrganizationFacts {
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
}

/** The body of the organization for somebody with a level in it. */
export function organizationBody(
  { id, name, createdAtMs }: OrganizationFacts,
  level: number,
  projects: readonly { readonly id: number; readonly name: string }[],
) {
  return {
    id,
    name,
    created_at: timeText(createdAtMs),
    membership_level: level,
    projects: projects.map((project) => ({ id: project.id, name: project.name })),
  }
}

/** What is known of a member. */
export interface MemberFacts extends UserFacts {
  readonly level: number
  readonly createdAtMs: number
}

/** The body of a member; a membership is known by the uuid of its user. */
export function memberBody(user: MemberFacts) {
  const joinedAt = timeText(user.createdAtMs)
  return {
    id: user.uuid,
    user: userSummary(user),
    level: user.level,
    joined_at: joinedAt,
    updated_at: joinedAt,
  }
}

/** The level in a body. Throws 400 with `level` as `attr`. */
export function readMemberLevel(read: ReadField): UserLevel | undefined {
  return readChoiceField(read, 'level', levelNumbers(USER_LEVELS))
}

/** The body of the organization's default for flags. */
export function resourceAccessBody(
  setting: { readonly level: number; readonly createdAtMs: number; readonly updatedAtMs: number },
  createdBy: UserFacts | null,
) {
  return {
    id: FLAG_RESOURCE_ID,
    resource: FLAG_RESOURCE,
    access_level: setting.level,
    created_at: timeText(setting.createdAtMs),
    updated_at: timeText(setting.updatedAtMs),
    created_by: createdBy === null ? null : userSummary(createdBy),
  }
}

/** Whether a path segment is the id of the organization's default for flags. */
export function isFlagResource(segment: string): boolean {
  return segment === String(FLAG_RESOURCE_ID)
}

/** The level of a body about flags. Throws 400 `required` and `invalid_choice`. */
export function readResourceAccess(read: ReadField, isResourceRequired: boolean): FlagAccessLevel {
  const resource = read('resource')
  if (resource === undefined && isResourceRequired) throw missingField('resource')
  if (resource !== undefined && resource !== FLAG_RESOURCE) {
    const detail = `resource must be ${JSON.stringify(FLAG_RESOURCE)}: nothing else has levels`
    throw new ServiceError('invalid_choice', detail, { attr: 'resource' })
  }
  const level = readChoiceField(read, 'access_level', levelNumbers(FLAG_ACCESS_LEVELS))
  if (level === undefined) throw missingField('access_level')
  return level
}

/** What is known of a project. */
export interface ProjectFacts {
  readonly id: number
  readonly name: string
  readonly apiKey: string
  readonly isIpAnonymized: boolean
  readonly isAutocaptureOff: boolean
  readonly areExceptionsCaptured: boolean
  readonly areWebVitalsCaptured: boolean
  readonly timezone: string
  readonly testAccountFilters: readonly object[]
  readonly createdAtMs: number
}

/** The body of a project for somebody with a level in the organization. */
export function projectBody(project: ProjectFacts, organizationId: string, level: number) {
  return {
    id: project.id,
    uuid: uuidV5(organizationId, `project ${project.id}`),
    organization: organizationId,
    name: project.name,
    api_token: project.apiKey,
    timezone: project.timezone,
    anonymize_ips: project.isIpAnonymized,
    autocapture_opt_out: project.isAutocaptureOff,
    autocapture_exceptions_opt_in: project.areExceptionsCaptured,
    autocapture_web_vitals_opt_in: project.areWebVitalsCaptured,
    test_account_filters: project.testAccountFilters,
    is_demo: false,
    effective_membership_level: level,
    created_at: timeText(project.createdAtMs),
  }
}

/** The settings of a project in a body. */
export interface ProjectFields {
  readonly name?: string
  readonly timezone?: string
  readonly isIpAnonymized?: boolean
  readonly isAutocaptureOff?: boolean
  readonly areExceptionsCaptured?: boolean
  readonly areWebVitalsCaptured?: boolean
  readonly testAccountFilters?: readonly Readonly<Record<string, unknown>>[]
}

/** Reads the settings of a project. Throws 400 with the field as `attr`. */
export function readProjectFields(read: ReadField, isNameRequired: boolean): ProjectFields {
  const name = readTextField(read, 'name', NAME_CHARACTERS_MAX)
  if (name === undefined && isNameRequired) throw missingField('name')
  const timezone = readTextField(read, 'timezone', NAME_CHARACTERS_MAX)
  const isIpAnonymized = readBooleanField(read, 'anonymize_ips')
  const isAutocaptureOff = readBooleanField(read, 'autocapture_opt_out')
  const areExceptionsCaptured = readBooleanField(read, 'autocapture_exceptions_opt_in')
  const areWebVitalsCaptured = readBooleanField(read, 'autocapture_web_vitals_opt_in')
  const filters = readListField(read, 'test_account_filters')
  return {
    ...(name === undefined ? {} : { name }),
    ...(timezone === undefined ? {} : { timezone }),
    ...(isIpAnonymized === undefined ? {} : { isIpAnonymized }),
    ...(isAutocaptureOff === undefined ? {} : { isAutocaptureOff }),
    ...(areExceptionsCaptured === undefined ? {} : { areExceptionsCaptured }),
    ...(areWebVitalsCaptured === undefined ? {} : { areWebVitalsCaptured }),
    ...(filters === undefined ? {} : { testAccountFilters: filters.map(readFilter) }),
  }
}

function readFilter(filter: unknown): Readonly<Record<string, unknown>> {
  if (typeof filter === 'object' && filter !== null && !Array.isArray(filter)) {
    return Object.fromEntries(Object.entries(filter))
  }
  const detail = 'test_account_filters must hold objects, such as {"key": "email", ...}'
  throw new ServiceError('invalid_input', detail, { attr: 'test_account_filters' })
}

/** What is known of a personal key. */
export interface PersonalKeyFacts {
  readonly id: number
  readonly userId: number
  readonly label: string
  readonly lastFour: string
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
  readonly createdAtMs: number
  readonly rolledAtMs: number | null
  readonly expiresAtMs: number | null
}

/** The body of a personal key; `value` is the key itself, which only its creation answers. */
export function personalKeyBody(key: PersonalKeyFacts, value: string | null) {
  return {
    id: key.id,
    label: key.label,
    value,
    mask_value: `phx_...${key.lastFour}`,
    user_id: key.userId,
    scopes: key.scopes,
    scoped_teams: key.projectIds === 'all' ? null : key.projectIds,
    created_at: timeText(key.createdAtMs),
    last_rolled_at: optionalTimeText(key.rolledAtMs),
    expires_at: optionalTimeText(key.expiresAtMs),
  }
}

/** What is known of a project secret key. */
export type SecretKeyFacts = Pick<
  PersonalKeyFacts,
  'id' | 'label' | 'lastFour' | 'createdAtMs' | 'rolledAtMs'
> & { readonly projectId: number }

/** The body of a project secret key; `value` is the key itself, which only its creation answers. */
export function secretKeyBody(key: SecretKeyFacts, value: string | null) {
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

/** What a body says about a personal key. */
export interface KeyFields {
  readonly label?: string
  readonly scopes?: readonly string[]
  readonly projectIds?: readonly number[] | 'all'
  readonly expiresAtMs?: number
}

/** The label of a key. Throws 400 with `label` as `attr`. */
export function readKeyLabel(read: ReadField): string | undefined {
  return readTextField(read, 'label', NAME_CHARACTERS_MAX)
}

/** Reads what a body says about a personal key. Throws 400 with the field as `attr`. */
export function readKeyFields(read: ReadField, nowMs: number): KeyFields {
  const label = readKeyLabel(read)
  const scopes = readListField(read, 'scopes')?.map((scope) => {
    if (typeof scope === 'string') return scope
    throw new ServiceError('invalid_input', 'scopes must hold texts', { attr: 'scopes' })
  })
  const projectIds = readProjectIds(read)
  const expiresAtMs = readExpiry(read, nowMs)
  return {
    ...(label === undefined ? {} : { label }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(projectIds === undefined ? {} : { projectIds }),
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
  }
}

/** Null and an empty list stand for all projects. */
function readProjectIds(read: ReadField): readonly number[] | 'all' | undefined {
  const attr = 'scoped_teams'
  if (read(attr) === null) return 'all'
  const list = readListField(read, attr)
  if (list === undefined) return undefined
  if (list.length === 0) return 'all'
  return list.map((id) => {
    if (typeof id === 'number' && Number.isSafeInteger(id) && id > 0) return id
    throw new ServiceError('invalid_input', `${attr} must hold numbers of projects`, { attr })
  })
}

function readExpiry(read: ReadField, nowMs: number): number | undefined {
  const attr = 'expires_at'
  const value = read(attr)
  if (value === undefined || value === null) return undefined
  const isTime = typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value)
  const timeMs = isTime ? Date.parse(value) : Number.NaN
  if (timeMs > nowMs) return timeMs
  const detail = `${attr} must be a time to come, such as 2030-01-31T12:00:00Z`
  throw new ServiceError('invalid_input', detail, { attr })
}
