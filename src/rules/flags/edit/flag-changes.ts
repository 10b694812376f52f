/**
 * Applies a request body to a flag. The result is the new or changed flag, or the error for the first invalid field, in
 * the order of the fields. The functions are pure; the store makes the change. Source: docs/compatibility/flags.md,
 * "Feature flag fields" and "Changing feature flags".
 */
import { type ErrorCode, fieldText, invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject, isSameJson, type JsonObject, objectsOf } from '../../../base/json.ts'
import type { AuditEntry } from '../../access/audit-entry.ts'
import type { Actor } from '../../access/user.ts'
import { FLAG_ROLLBACK_BYTES_MAX } from '../limits.ts'
import type { Flag, FlagCohort, FlagRepository } from '../types.ts'
import { checkFilters, checkFiltersSize, withoutCohortNames } from './filter-rules.ts'
import { writableFields } from './flag-body.ts'
import {
  requireActiveDependencies,
  requireNoCircle,
  requireNoDependents,
} from './flag-dependencies.ts'
import { FLAG_NOTE, member, readField } from './flag-fields.ts'

/** The fields of a flag that a client decides about. The store sets the other fields. */
export type FlagDraft = Omit<
  Flag,
  'id' | 'projectId' | 'version' | 'createdById' | 'lastModifiedById' | 'updatedAtMs'
>

/** The project, author and time of a change of flags. */
export interface FlagChangeContext {
  readonly projectId: number
  readonly actor: Actor
  readonly nowMs: number
  /** Returns a cohort of the project that is not deleted, or null. */
  readonly cohort: (id: number) => FlagCohort | null
  /** The audit entry to store with the change. If it names no object, the store adds the id of the flag. */
  readonly audit?: AuditEntry | undefined
}

const CREATED_AT =
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$/i
/** The `version` in the body of a client that wants no conflict check. */
const UNCHECKED_VERSION = -1

/** Returns the flag that the body of a POST describes. Throws 400. */
export function draftFlag(body: JsonObject, repository: FlagRepository): FlagDraft {
  const fields = readFields(body, null, true, repository)
  return {
    key: fields.key ?? '',
    name: '',
    filters: { groups: [{ properties: [], rollout_percentage: null }] },
    deleted: false,
    active: true,
    createdAtMs: repository.nowMs,
    ensureExperienceContinuity: false,
    rollbackConditions: null,
    performedRollback: null,
    tags: [],
    usageDashboard: null,
    analyticsDashboards: [],
    hasEnrichedAnalytics: false,
    evaluationRuntime: 'all',
    bucketingIdentifier: null,
    evaluationContexts: [],
    isRemoteConfiguration: false,
    hasEncryptedPayloads: false,
    ...fields,
  }
}

/**
 * Returns a flag after the body of a PATCH or PUT was applied to it. A PUT requires the key. Throws 400. Throws 409
 * `conflict` if the body names an older version and somebody has changed the same field since that version.
 */
export function changeFlag(
  before: Flag,
  body: JsonObject,
  isKeyRequired: boolean,
  repository: FlagRepository,
): FlagDraft {
  const fields = readFields(body, before, isKeyRequired, repository)
  requireNoConflict(before, body)
  const { key = before.key } = fields
  const after: Flag = { ...before, ...fields }
  const filters = withRenamedEnrollment(after.filters, before.key, key)
  const changed: Flag = { ...after, filters }
  if (changed.deleted && !before.deleted) requireNoDependents(before, repository, 'delete')
  if (before.deleted && !changed.deleted) {
    requireFreeKey(key, before, repository)
    requireNoCircle(changed, repository)
  }
  if (before.active && !changed.active) requireNoDependents(before, repository, 'disable')
  if (!before.active && changed.active) requireActiveDependencies(changed, repository)
  return changed
}

/** Returns the reason that a body gives for its change, or null if it gives none. Throws 400. */
export function noteOfChange(body: JsonObject): string | null {
  const note = FLAG_NOTE.read(body, 'note') ?? ''
  return note === '' ? null : note
}

/**
 * Reads the fields of a body and checks them in the order in which answers show them. A field that is absent in the
 * body is absent in the result.
 */
function readFields(
  body: JsonObject,
  before: Flag | null,
  isKeyRequired: boolean,
  repository: FlagRepository,
): Partial<FlagDraft> {
  const { analyticsDashboards: known = [] } = before ?? {}
  // The fields are checked in the order of these members.
  return present({
    name: readField(body, 'name'),
    key: readKey(body, isKeyRequired, before, repository),
    filters: readFilters(body, before, repository),
    deleted: readField(body, 'deleted'),
    active: readField(body, 'active'),
    createdAtMs: readCreatedAt(body),
    ensureExperienceContinuity: readField(body, 'ensure_experience_continuity'),
    rollbackConditions: readRollbackConditions(body),
    performedRollback: readRollback(body),
    tags: readField(body, 'tags'),
    evaluationContexts: readContexts(body),
    analyticsDashboards: readDashboards(body, known, repository),
    hasEnrichedAnalytics: falseForNull(readField(body, 'has_enriched_analytics')),
    isRemoteConfiguration: falseForNull(readField(body, 'is_remote_configuration')),
    hasEncryptedPayloads: falseForNull(readField(body, 'has_encrypted_payloads')),
    evaluationRuntime: readField(body, 'evaluation_runtime'),
    bucketingIdentifier: readField(body, 'bucketing_identifier'),
  })
}

/** Reads the key. No other flag of the project may have it. */
function readKey(
  body: JsonObject,
  isRequired: boolean,
  own: Flag | null,
  repository: FlagRepository,
): string | undefined {
  const key = readField(body, 'key')
  if (key !== undefined) requireFreeKey(key, own, repository)
  else if (isRequired) throw fault('required', 'key', 'is missing')
  return key
}

/** Throws 400 `unique` if another flag of the project has the key. */
function requireFreeKey(key: string, own: Flag | null, repository: FlagRepository): void {
  const other = repository.flagByKey(key)
  if (other === null || other.id === own?.id) return
  throw fault('unique', 'key', `is already used by flag ${other.id}. Choose another key`)
}

/** Reads `created_at` and returns it in milliseconds since 1970. */
function readCreatedAt(body: JsonObject): number | undefined {
  const text = readField(body, 'created_at')
  if (text === undefined) return undefined
  const hasZone = text.length === 10 || /(Z|[+-][0-9:]+)$/i.test(text.slice(10))
  const timeMs = Date.parse(hasZone ? text.replace(' ', 'T') : `${text}Z`)
  if (CREATED_AT.test(text) && !Number.isNaN(timeMs)) return timeMs
  throw fault('invalid_input', 'created_at', 'must be a time such as 2024-01-31T10:00:00Z')
}

/** Reads `rollback_conditions`, which may be any JSON of limited size. */
function readRollbackConditions(body: JsonObject): unknown {
  const value = readField(body, 'rollback_conditions')
  const isLarge =
    value !== undefined && Buffer.byteLength(JSON.stringify(value)) > FLAG_ROLLBACK_BYTES_MAX
  if (!isLarge) return value
  const what = `may have at most ${FLAG_ROLLBACK_BYTES_MAX} bytes of JSON`
  throw fault('invalid_input', 'rollback_conditions', what)
}

/** Reads `performed_rollback`. A body that enables the flag always sets it to false. */
function readRollback(body: JsonObject): boolean | null | undefined {
  const performed = readField(body, 'performed_rollback')
  return readField(body, 'active') === true ? false : performed
}

/**
 * Reads the evaluation contexts. `evaluation_tags` is their older name. If the body contains both,
 * `evaluation_contexts` counts, but both are checked.
 */
function readContexts(body: JsonObject): readonly string[] | undefined {
  const tags = readField(body, 'evaluation_tags')
  return readField(body, 'evaluation_contexts') ?? tags
}

/** Reads the ids of dashboards, which must exist, and returns them after the ids in `known`. */
function readDashboards(
  body: JsonObject,
  known: readonly number[],
  repository: FlagRepository,
): readonly number[] | undefined {
  const added = readField(body, 'analytics_dashboards')
  if (added === undefined) return undefined
  for (const id of added) {
    if (repository.hasDashboard(id)) continue
    const what = `refers to dashboard ${id}, which does not exist`
    throw fault('does_not_exist', 'analytics_dashboards', what)
  }
  return [...new Set([...known, ...added])]
}

function falseForNull(value: boolean | null | undefined): boolean | undefined {
  return value === null ? false : value
}

function fault(code: ErrorCode, name: string, what: string): ServiceError {
  return new ServiceError(code, fieldText(name, what), { attr: name })
}

/** Reads `filters`. In a change of an existing flag, filters without `groups` are ignored. */
function readFilters(
  body: JsonObject,
  before: Flag | null,
  repository: FlagRepository,
): JsonObject | undefined {
  const filters = member(body, 'filters')
  if (filters === undefined) return undefined
  if (filters === null) throw fault('null', 'filters', 'must not be null')
  if (!isObject(filters)) throw fault('not_a_dict', 'filters', 'must be an object')
  const groups = member(filters, 'groups')
  if (before !== null && groups === undefined) return undefined
  if (before === null && (!Array.isArray(groups) || groups.length === 0)) {
    const what = 'needs at least one condition in `groups`. Leave `filters` out to match everyone'
    throw invalidInput('filters', what)
  }
  checkFiltersSize(filters)
  return checkFilters(filters, before?.id ?? null, repository)
}

/** Removes the members that are undefined, because the client did not send them. */
function present(
  fields: {
    readonly [Name in keyof FlagDraft]?: FlagDraft[Name] | undefined
  },
): Partial<FlagDraft> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  // Only undefined members were removed, so each remaining member has its type.
  return Object.fromEntries(given) as Partial<FlagDraft>
}

function requireNoConflict(before: Flag, body: JsonObject): void {
  const version = member(body, 'version')
  const original = member(body, 'original_flag')
  if (typeof version !== 'number' || version === UNCHECKED_VERSION) return
  if (version === before.version || !isObject(original)) return
  const now = writableFields(before)
  const conflicts = Object.keys(now).filter((name) => {
    if (!Object.hasOwn(body, name) || !Object.hasOwn(original, name)) return false
    const from = comparable(name, original[name])
    const isWanted = !isSameJson(comparable(name, body[name]), from)
    return isWanted && !isSameJson(comparable(name, now[name]), from)
  })
  if (conflicts.length === 0) return
  const fields = conflicts.join(', ')
  throw new ServiceError(
    'conflict',
    `Another change was made to ${fields} of the flag after version ${version}, and the flag is now at version ${before.version}. Read the flag again and repeat your change.`,
  )
}

function comparable(name: string, value: unknown): unknown {
  return name === 'filters' && isObject(value) ? withoutCohortNames(value) : value
}

/**
 * Renames the property of enrollment after the key of a flag has changed, because the name of the property contains the
 * key.
 */
function withRenamedEnrollment(filters: JsonObject, before: string, after: string): JsonObject {
  const groups = filters['super_groups']
  if (before === after || !Array.isArray(groups)) return filters
  const oldName = `$feature_enrollment/${before}`
  const renamed = objectsOf(groups).map((group) => ({
    ...group,
    ...(Array.isArray(group['properties'])
      ? {
          properties: objectsOf(group['properties']).map((property) =>
            property['key'] === oldName
              ? { ...property, key: `$feature_enrollment/${after}` }
              : property,
          ),
        }
      : {}),
  }))
  return { ...filters, super_groups: renamed }
}
