/**
 * Applies a request body to a flag. The result is a new or changed flag, or an error for the first invalid field, in
 * the order of the fields. The functions are pure; the store applies the change. Source: docs/compatibility/flags.md,
 * "Feature flag fields" and "Changing feature flags".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject, isSameJson, type JsonObject, objectsOf } from '../../../base/json.ts'
import type { Flag, FlagWorld } from '../types.ts'
import { checkFilters, checkFiltersSize, withoutCohortNames } from './filter-rules.ts'
import { writableFields } from './flag-body.ts'
import { requireActiveDependencies, requireNoDependents } from './flag-dependencies.ts'
import {
  member,
  readBoolean,
  readBucketing,
  readCreatedAt,
  readDashboards,
  readEncryption,
  readFiltersObject,
  readKey,
  readName,
  readNote,
  readNullableBoolean,
  readRollbackConditions,
  readRuntime,
  readTags,
  requireFreeKey,
} from './flag-fields.ts'

/** The fields of a flag that a client decides about. The store sets the others. */
export type FlagDraft = Omit<
  Flag,
  'id' | 'projectId' | 'version' | 'createdById' | 'lastModifiedById' | 'updatedAtMs'
>

/** The `version` in a body that requests no conflict check. */
const UNCHECKED_VERSION = -1

/** Returns the flag that the body of a POST describes. Throws 400. */
export function draftFlag(body: JsonObject, world: FlagWorld): FlagDraft {
  const fields = readFields(body, null, true, world)
  return {
    key: fields.key ?? '',
    name: '',
    filters: { groups: [{ properties: [], rollout_percentage: null }] },
    deleted: false,
    active: true,
    createdAtMs: world.nowMs,
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
 * Returns a flag after the body of a PATCH (or of a PUT, if the key is required) was applied to it. Throws 400. Throws
 * 409 `conflict` if the body names an older version and another user has changed the same field since.
 */
export function changeFlag(
  before: Flag,
  body: JsonObject,
  isKeyRequired: boolean,
  world: FlagWorld,
): FlagDraft {
  const fields = readFields(body, before, isKeyRequired, world)
  requireNoConflict(before, body)
  const { key = before.key } = fields
  const after: Flag = { ...before, ...fields }
  const filters = withRenamedEnrollment(after.filters, before.key, key)
  const changed: Flag = { ...after, filters }
  if (changed.deleted && !before.deleted) requireNoDependents(before, world, 'delete')
  if (before.deleted && !changed.deleted) requireFreeKey(key, before, world)
  if (before.active && !changed.active) requireNoDependents(before, world, 'disable')
  if (!before.active && changed.active) requireActiveDependencies(changed, world)
  return changed
}

/** Returns the reason that a body gives for its change, or null. Throws 400. */
export function noteOfChange(body: JsonObject): string | null {
  return readNote(body)
}

/**
 * Returns the fields of a body, checked in the order in which answers show them. Fields that are absent in the body are
 * absent in the result.
 */
function readFields(
  body: JsonObject,
  before: Flag | null,
  isKeyRequired: boolean,
  world: FlagWorld,
): Partial<FlagDraft> {
  const { analyticsDashboards: known = [] } = before ?? {}
  // The order of these members is the order in which they are checked.
  return present({
    name: readName(body),
    key: readKey(body, isKeyRequired, before, world),
    filters: readFilters(body, before, world),
    deleted: readBoolean(body, 'deleted'),
    active: readBoolean(body, 'active'),
    createdAtMs: readCreatedAt(body),
    ensureExperienceContinuity: readNullableBoolean(body, 'ensure_experience_continuity'),
    rollbackConditions: readRollbackConditions(body),
    performedRollback: readRollback(body),
    tags: readTags(body, 'tags', true),
    evaluationContexts: readContexts(body),
    analyticsDashboards: readDashboards(body, known, world),
    hasEnrichedAnalytics: falseForNull(readNullableBoolean(body, 'has_enriched_analytics')),
    isRemoteConfiguration: falseForNull(readNullableBoolean(body, 'is_remote_configuration')),
    hasEncryptedPayloads: readEncryption(body),
    evaluationRuntime: readRuntime(body),
    bucketingIdentifier: readBucketing(body),
  })
}

/** Reads `performed_rollback`. A body that enables the flag always sets it to false. */
function readRollback(body: JsonObject): boolean | null | undefined {
  const performed = readNullableBoolean(body, 'performed_rollback')
  return readBoolean(body, 'active') === true ? false : performed
}

/** Reads the evaluation contexts. `evaluation_tags` is the older name; both members are checked. */
function readContexts(body: JsonObject): readonly string[] | undefined {
  const tags = readTags(body, 'evaluation_tags', false)
  return readTags(body, 'evaluation_contexts', false) ?? tags
}

function falseForNull(value: boolean | null | undefined): boolean | undefined {
  return value === null ? false : value
}

/** Reads `filters`. Filters without `groups` are ignored if the body changes an existing flag. */
function readFilters(
  body: JsonObject,
  before: Flag | null,
  world: FlagWorld,
): JsonObject | undefined {
  const filters = readFiltersObject(body)
  if (filters === undefined) return undefined
  const groups = member(filters, 'groups')
  if (before !== null && groups === undefined) return undefined
  if (before === null && (!Array.isArray(groups) || groups.length === 0)) {
    const what = 'needs at least one condition in `groups`. Leave `filters` out to match everyone'
    throw invalidInput('filters', what)
  }
  checkFiltersSize(filters)
  return checkFilters(filters, before?.id ?? null, world)
}

/** Removes the members that are undefined because the client did not send them. */
function present(
  fields: {
    readonly [Name in keyof FlagDraft]?: FlagDraft[Name] | undefined
  },
): Partial<FlagDraft> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  // Each member keeps its type, because only undefined was removed.
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

/** Renames the enrollment property after a change of the key, because its name contains the key of the flag. */
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
