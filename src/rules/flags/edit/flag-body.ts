/**
 * Builds the JSON of flags for the private API. Source: PostHog's API description, section 2.3;
 * docs/compatibility/flags.md, "Feature flag fields".
 */

import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import type { UserSummary } from '../../access/user.ts'
import { flagFaults } from '../flag-faults.ts'
import { conditionsOf, referenceOf, withProperties } from '../flag-references.ts'
import { FLAG_FAULTS_SHOWN_MAX } from '../limits.ts'
import type { Flag } from '../types.ts'

const DAY_MS = 24 * 60 * 60 * 1000
/** A flag is stale if it is on for everyone and is older than this. */
const STALE_MS = 30 * DAY_MS

/** The status of a flag: whether it is in use. */
export type FlagStatus = 'ACTIVE' | 'INACTIVE' | 'STALE' | 'DELETED'

/** What an answer needs in addition to the stored flag. */
export interface FlagBodyContext {
  readonly createdBy: UserSummary | null
  readonly lastModifiedBy: UserSummary | null
  /** True if the caller may change the flag. */
  readonly canEdit: boolean
  /** Returns the name of a cohort, or null if it does not exist or is deleted. */
  readonly cohortName: (id: number) => string | null
  /** True if the caller wants `status_details`, which may cost more than the rest of the answer. */
  readonly hasDetails: boolean
  readonly nowMs: number
}

/** A filter that can never match. `reason` continues the sentence that begins with `path`. */
export interface StatusDetail {
  readonly path: string
  readonly reason: string
}

/**
 * Returns the JSON of a flag. Its `filters` share objects with the filters of the flag, so the caller must not change
 * them. Source: PostHog's API description, section 2.3.
 */
export function flagBody(flag: Flag, context: FlagBodyContext): JsonObject {
  const fields = writableFields(flag)
  const { createdBy, lastModifiedBy, canEdit } = context
  const simple = simpleCondition(flag)
  return {
    id: flag.id,
    ...fields,
    filters: withCohortNames(flag.filters, context.cohortName),
    created_by: createdBy,
    version: flag.version,
    updated_at: timeText(flag.updatedAtMs),
    last_modified_by: lastModifiedBy,
    is_simple_flag: simple !== null,
    rollout_percentage: simple?.['rollout_percentage'] ?? null,
    experiment_set: flag.experiments ?? [],
    surveys: [],
    features: {},
    can_edit: canEdit,
    user_access_level: canEdit ? 'editor' : 'viewer',
    usage_dashboard: flag.usageDashboard,
    status: statusOf(flag, context.nowMs),
    ...(context.hasDetails ? statusDetails(flag) : {}),
  }
}

/**
 * Returns the member `status_details`: the filters of a flag that can never match, at most `FLAG_FAULTS_SHOWN_MAX` of
 * them. If there are none, the member is missing, as clients expect. For the cost, see `flagFaults`.
 */
export function statusDetails({ filters }: Flag): { readonly status_details?: StatusDetail[] } {
  const details = flagFaults(filters)
    .slice(0, FLAG_FAULTS_SHOWN_MAX)
    .map(({ path, reason }) => ({ path: `filters.${path}`, reason }))
  return details.length === 0 ? {} : { status_details: details }
}

/** Returns the fields that clients may change, as answers show them. `filters` do not contain the names of cohorts. */
export function writableFields(flag: Flag): JsonObject {
  return {
    name: flag.name,
    key: flag.key,
    filters: flag.filters,
    deleted: flag.deleted,
    active: flag.active,
    created_at: timeText(flag.createdAtMs),
    ensure_experience_continuity: flag.ensureExperienceContinuity,
    rollback_conditions: flag.rollbackConditions,
    performed_rollback: flag.performedRollback,
    tags: flag.tags,
    evaluation_tags: flag.evaluationContexts,
    evaluation_contexts: flag.evaluationContexts,
    analytics_dashboards: flag.analyticsDashboards,
    has_enriched_analytics: flag.hasEnrichedAnalytics,
    is_remote_configuration: flag.isRemoteConfiguration,
    has_encrypted_payloads: flag.hasEncryptedPayloads,
    evaluation_runtime: flag.evaluationRuntime,
    bucketing_identifier: flag.bucketingIdentifier,
  }
}

/**
 * Returns the members of a flag that SDKs read. They appear in `my_flags` and in the definitions for local evaluation.
 */
export function minimalFlagBody(flag: Flag, filters: JsonObject = flag.filters): JsonObject {
  return {
    id: flag.id,
    team_id: flag.projectId,
    name: flag.name,
    key: flag.key,
    filters,
    deleted: flag.deleted,
    active: flag.active,
    // The member must not be null, because SDKs that declare it as a boolean would reject it.
    ensure_experience_continuity: flag.ensureExperienceContinuity === true,
    has_encrypted_payloads: flag.hasEncryptedPayloads,
    has_experiment: hasExperiment(flag),
    version: flag.version,
    evaluation_runtime: flag.evaluationRuntime,
    bucketing_identifier: flag.bucketingIdentifier,
    evaluation_tags: flag.evaluationContexts,
    evaluation_contexts: flag.evaluationContexts,
  }
}

/** Returns whether an experiment uses a flag. SDKs send this value with `$feature_flag_called`. */
export function hasExperiment({ experiments = [] }: Flag): boolean {
  return experiments.length > 0
}

/** Returns the status of a flag. A flag is stale if it is on for everyone and was created more than thirty days ago. */
export function statusOf(flag: Flag, nowMs: number): FlagStatus {
  if (flag.deleted) return 'DELETED'
  if (!flag.active) return 'INACTIVE'
  return nowMs - flag.createdAtMs > STALE_MS && isOnForEveryone(flag) ? 'STALE' : 'ACTIVE'
}

/**
 * Returns the condition of a flag that has only one, if this condition has no filters and concerns persons. Returns
 * null for every other flag.
 */
function simpleCondition({ filters }: Flag): JsonObject | null {
  const [condition, ...others] = conditionsOf(filters)
  if (condition === undefined || others.length > 0) return null
  if (objectsOf(condition['properties']).length > 0) return null
  const isByGroup = [filters, condition].some(
    (holder) => (holder['aggregation_group_type_index'] ?? null) !== null,
  )
  return isByGroup ? null : condition
}

function isOnForEveryone({ filters }: Flag): boolean {
  const { multivariate } = filters
  const variants = isObject(multivariate) ? objectsOf(multivariate['variants']) : []
  const isOneVariant = variants.some(({ rollout_percentage: rollout }) => rollout === 100)
  return conditionsOf(filters).some((condition) => {
    const { rollout_percentage: rollout = null, variant = null } = condition
    const isForAll = objectsOf(condition['properties']).length === 0
    const isSame = variants.length === 0 || isOneVariant || variant !== null
    return isForAll && isSame && (rollout === null || rollout === 100)
  })
}

/** Returns the filters with the name of the cohort added to each cohort filter. */
function withCohortNames(
  filters: JsonObject,
  cohortName: (id: number) => string | null,
): JsonObject {
  return withProperties(filters, (property) => {
    if (property['type'] !== 'cohort') return property
    const id = referenceOf(property['value'])
    return { ...property, cohort_name: id === null ? null : cohortName(id) }
  })
}
