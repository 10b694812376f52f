/**
 * The schemas of feature flags as people manage them and SDKs load them. Source: interface description,
 * section 2.3; docs/compatibility/flags.md, "Feature flag fields". Bodies that change a flag are read by the rules
 * (rules/flags/edit), field by field.
 */
import {
  ANY,
  about,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  list,
  mapOf,
  NOTHING,
  NUMBER,
  named,
  nullable,
  object,
  openObject,
  type Schema,
  TEXT,
  TIME,
  UUID,
  WHOLE,
} from '../../server/schema.ts'
import { USER_SUMMARY } from '../organization/organization-services.ts'
import { PROPERTY_FILTER } from '../persons/question-schemas.ts'

/** Tags, keys, contexts. */
export const NAMES = list(TEXT)
/** Where a flag is decided. */
export const RUNTIME = choice('all', 'client', 'server')
/** What a flag is for somebody. */
export const FLAG_VALUE: Schema<boolean | string> = { type: ['boolean', 'string'] }
const BUCKETING = nullable(choice('distinct_id', 'device_id'))

/** Tests that must all hold, and for how many of those. */
export const CONDITION = named(
  'FlagCondition',
  openObject(
    {},
    {
      properties: nullable(list(PROPERTY_FILTER)),
      rollout_percentage: nullable(NUMBER),
      variant: nullable(TEXT),
    },
  ),
)
const VARIANT = named(
  'FlagVariant',
  openObject({ key: TEXT }, { name: nullable(TEXT), rollout_percentage: nullable(NUMBER) }),
)
const FILTERS = named(
  'FlagFilters',
  about(
    openObject(
      {},
      {
        groups: list(CONDITION),
        multivariate: nullable(openObject({}, { variants: list(VARIANT) })),
        payloads: about(nullable(JSON_OBJECT), 'JSON texts by variant, or by true.'),
        aggregation_group_type_index: nullable(WHOLE),
        super_groups: nullable(list(CONDITION)),
      },
    ),
    'Who gets which value; further members are kept.',
  ),
)

/** Members that are written as they are shown. */
const FIELDS = {
  name: TEXT,
  filters: FILTERS,
  deleted: BOOLEAN,
  active: BOOLEAN,
  created_at: TIME,
  ensure_experience_continuity: nullable(BOOLEAN),
  rollback_conditions: ANY,
  performed_rollback: nullable(BOOLEAN),
  tags: NAMES,
  evaluation_tags: NAMES,
  evaluation_contexts: NAMES,
  analytics_dashboards: list(WHOLE),
  has_enriched_analytics: nullable(BOOLEAN),
  is_remote_configuration: nullable(BOOLEAN),
  has_encrypted_payloads: nullable(BOOLEAN),
  evaluation_runtime: RUNTIME,
  bucketing_identifier: BUCKETING,
}
const CHANGED = {
  ...FIELDS,
  version: about(WHOLE, 'The version that the client began with.'),
  original_flag: about(JSON_OBJECT, 'The flag that the client began with.'),
}

/** A flag. */
export const FEATURE_FLAG = named(
  'FeatureFlag',
  object(
    {
      id: WHOLE,
      key: TEXT,
      ...FIELDS,
      created_by: nullable(USER_SUMMARY),
      last_modified_by: nullable(USER_SUMMARY),
      updated_at: TIME,
      version: WHOLE,
      is_simple_flag: BOOLEAN,
      rollout_percentage: nullable(NUMBER),
      experiment_set: list(ANY),
      surveys: list(ANY),
      features: JSON_OBJECT,
      can_edit: BOOLEAN,
      user_access_level: choice('editor', 'viewer'),
      usage_dashboard: nullable(WHOLE),
      status: choice('ACTIVE', 'INACTIVE', 'STALE', 'DELETED'),
    },
    {
      status_details: about(
        list(object({ path: TEXT, reason: TEXT })),
        'Filters that can never match, if there are any; not in lists.',
      ),
    },
  ),
)
/** A flag in a body; the key must be there. */
export const DRAFT = named('FeatureFlagDraft', openObject({ key: TEXT }, CHANGED))
/** What changes of a flag. */
export const CHANGES = named('FeatureFlagChanges', openObject({}, { key: TEXT, ...CHANGED }))

/** A flag as SDKs see it. */
export const SUMMARY = named(
  'FlagSummary',
  object({
    id: WHOLE,
    team_id: WHOLE,
    name: TEXT,
    key: TEXT,
    filters: FILTERS,
    deleted: BOOLEAN,
    active: BOOLEAN,
    ensure_experience_continuity: nullable(BOOLEAN),
    has_encrypted_payloads: nullable(BOOLEAN),
    version: WHOLE,
    evaluation_runtime: RUNTIME,
    bucketing_identifier: BUCKETING,
    evaluation_tags: NAMES,
    evaluation_contexts: NAMES,
  }),
)
/** What SDKs need that decide by themselves. */
export const DEFINITIONS = named(
  'FlagDefinitions',
  object({
    flags: list(SUMMARY),
    group_type_mapping: mapOf(TEXT),
    cohorts: about(mapOf(JSON_OBJECT), 'Rules of cohorts by their numbers.'),
  }),
)
/** The query of definitions: whether they have the rules of cohorts. */
export const SEND_COHORTS = about(TEXT, 'With the rules of cohorts.')

const CHANGE = named(
  'FlagChange',
  openObject({
    type: TEXT,
    action: choice('created', 'deleted', 'changed'),
    field: TEXT,
    before: ANY,
    after: ANY,
  }),
)
const ACTIVITY = named(
  'FlagActivity',
  object({
    id: UUID,
    user: object({ first_name: TEXT, email: nullable(TEXT) }, { is_system: BOOLEAN }),
    activity: choice('created', 'updated', 'deleted', 'restored'),
    scope: choice('FeatureFlag'),
    item_id: TEXT,
    detail: object({
      id: NOTHING,
      changes: nullable(list(CHANGE)),
      merge: NOTHING,
      trigger: NOTHING,
      name: TEXT,
      short_id: NOTHING,
      type: NOTHING,
    }),
    created_at: TIME,
  }),
)
/** A page of the log of changes. */
export const ACTIVITY_PAGE = named(
  'FlagActivityPage',
  object({
    results: list(ACTIVITY),
    next: nullable(TEXT),
    previous: nullable(TEXT),
    total_count: WHOLE,
  }),
)
