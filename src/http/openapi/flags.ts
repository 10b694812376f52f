/** The description of feature flags for people who manage them. docs/COMPATIBILITY.md, "Feature flag routes". */
import {
  ANY,
  about,
  BODY_ERRORS,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  jsonText,
  list,
  type Members,
  mapOf,
  NOTHING,
  NUMBER,
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
  required,
  TEXT,
  TEXT_OR_NUMBER,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const FLAGS = '/api/projects/:project_id/feature_flags/'
const FLAG = `${FLAGS}:id/` as const
const NAMES = list(TEXT)
const RUNTIME = choice('all', 'client', 'server')
const BUCKETING = nullable(choice('distinct_id', 'device_id'))
const FLAG_VALUE = { type: ['boolean', 'string'] } as const

/** Members that are written as they are shown. */
const FIELDS: Members = {
  name: TEXT,
  filters: ref('FlagFilters'),
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
const CHANGES: Members = {
  ...FIELDS,
  version: about(WHOLE, 'The version that the client began with.'),
  original_flag: about(JSON_OBJECT, 'The flag that the client began with.'),
}

/** Flags and what is said about them. */
export const FLAG_COMPONENTS: Members = {
  FeatureFlag: object(
    {
      id: WHOLE,
      key: TEXT,
      ...FIELDS,
      created_by: nullable(ref('UserSummary')),
      last_modified_by: nullable(ref('UserSummary')),
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
  FeatureFlagPage: pageOf('FeatureFlag'),
  FeatureFlagDraft: openObject({ key: TEXT }, CHANGES),
  FeatureFlagChanges: openObject({}, { key: TEXT, ...CHANGES }),
  FlagFilters: about(
    openObject(
      {},
      {
        groups: list(ref('FlagCondition')),
        multivariate: nullable(openObject({}, { variants: list(ref('FlagVariant')) })),
        payloads: about(nullable(JSON_OBJECT), 'JSON texts by variant, or by true.'),
        aggregation_group_type_index: nullable(WHOLE),
        super_groups: nullable(list(ref('FlagCondition'))),
      },
    ),
    'Who gets which value; further members are kept.',
  ),
  FlagCondition: openObject(
    {},
    {
      properties: nullable(list(ref('PropertyFilter'))),
      rollout_percentage: nullable(NUMBER),
      variant: nullable(TEXT),
    },
  ),
  FlagVariant: openObject(
    { key: TEXT },
    { name: nullable(TEXT), rollout_percentage: nullable(NUMBER) },
  ),
  FlagSummary: object({
    id: WHOLE,
    team_id: WHOLE,
    name: TEXT,
    key: TEXT,
    filters: ref('FlagFilters'),
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
  FlagDefinitions: object({
    flags: list(ref('FlagSummary')),
    group_type_mapping: mapOf(TEXT),
    cohorts: about(mapOf(JSON_OBJECT), 'Rules of cohorts by their numbers.'),
  }),
  FlagActivityPage: object({
    results: list(ref('FlagActivity')),
    next: nullable(TEXT),
    previous: nullable(TEXT),
    total_count: WHOLE,
  }),
  FlagActivity: object({
    id: UUID,
    user: object({ first_name: TEXT, email: nullable(TEXT) }, { is_system: BOOLEAN }),
    activity: choice('created', 'updated', 'deleted', 'restored'),
    scope: choice('FeatureFlag'),
    item_id: TEXT,
    detail: object({
      id: NOTHING,
      changes: nullable(list(ref('FlagChange'))),
      merge: NOTHING,
      trigger: NOTHING,
      name: TEXT,
      short_id: NOTHING,
      type: NOTHING,
    }),
    created_at: TIME,
  }),
  FlagChange: openObject({
    type: TEXT,
    action: choice('created', 'deleted', 'changed'),
    field: TEXT,
    before: ANY,
    after: ANY,
  }),
}

const READ = { scope: 'feature_flag:read' } as const
const WRITE = {
  scope: 'feature_flag:write',
  answer: ref('FeatureFlag'),
  errors: [409, ...BODY_ERRORS],
} as const
const LOG = {
  scope: 'activity_log:read',
  query: [
    optional('page', WHOLE, 'Number of the page, from 1.'),
    optional('limit', WHOLE, 'Entries of a page: 10 when absent, 100 at most.'),
    optional('skip', WHOLE, 'Entries of the page that were shown before; it comes in next.'),
  ],
  answer: ref('FlagActivityPage'),
} as const
const NO_BODY_404 = 'There is no such flag; the answer has no body.'

/** Definitions for SDKs that decide by themselves. */
export const DEFINITIONS = {
  ...READ,
  doors: ['personalKey', 'secretKey'],
  answer: ref('FlagDefinitions'),
  emptyAnswers: { 304: 'The tag in If-None-Match is that of the definitions.' },
} as const
/** Chooses whether definitions have the rules of cohorts. */
export const SEND_COHORTS = optional('send_cohorts', TEXT, 'With the rules of cohorts.')

/** Feature flags of a project. */
export const FLAG_RESOURCE: Resource = {
  name: 'Feature flags',
  sentence: 'Flags, as people manage them.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [WHOLE, 'Number of the flag.'] },
  operations: [
    operation(`GET ${FLAGS}`, 'listFeatureFlags', 'Lists flags, the newest first.', {
      ...READ,
      query: [
        optional('active', TEXT, 'True, STALE, or anything else for the inactive ones.'),
        optional('search', TEXT, 'Part of the key or name.'),
        optional('type', TEXT, 'Boolean, multivariant or remote_config, in lower case.'),
        optional('created_by_id', WHOLE, 'Number of the user who made them.'),
        jsonText('tags', NAMES, 'Any of these tags.'),
        jsonText('excluded_properties', NAMES, 'Keys of flags to leave out.'),
        optional('evaluation_runtime', RUNTIME, 'Where they are decided.'),
        optional('order', TEXT, 'A member to sort by, with - in front for descending.'),
        ...pageParameters(1000),
      ],
      answer: ref('FeatureFlagPage'),
    }),
    operation(`POST ${FLAGS}`, 'createFeatureFlag', 'Makes a flag.', {
      ...WRITE,
      body: ref('FeatureFlagDraft'),
      status: 201,
    }),
    operation(`GET ${FLAG}`, 'getFeatureFlag', 'Shows a flag, also a deleted one.', {
      ...READ,
      answer: ref('FeatureFlag'),
    }),
    operation(`PATCH ${FLAG}`, 'patchFeatureFlag', 'Changes a flag.', {
      ...WRITE,
      body: ref('FeatureFlagChanges'),
    }),
    operation(`PUT ${FLAG}`, 'putFeatureFlag', 'Changes a flag; the key must be there.', {
      ...WRITE,
      body: ref('FeatureFlagDraft'),
    }),
    operation(`GET ${FLAGS}activity/`, 'listFlagsActivity', 'Lists changes of all flags.', LOG),
    operation(`GET ${FLAG}activity/`, 'listFlagActivity', 'Lists changes of a flag.', {
      ...LOG,
      emptyAnswers: { 404: NO_BODY_404 },
    }),
    operation(`POST ${FLAG}dashboard/`, 'createFlagDashboard', 'Notes a dashboard of a flag.', {
      scope: 'feature_flag:write',
      answer: object({ success: BOOLEAN }),
    }),
    operation(
      `GET ${FLAGS}evaluation_reasons/`,
      'getEvaluationReasons',
      'Why flags are as they are.',
      {
        ...READ,
        query: [
          required('distinct_id', TEXT, 'For whom.'),
          jsonText('groups', mapOf(TEXT_OR_NUMBER), 'Types and keys of groups.'),
        ],
        answer: mapOf(
          object({
            value: FLAG_VALUE,
            evaluation: object({ reason: TEXT, condition_index: nullable(WHOLE) }),
          }),
        ),
      },
    ),
    operation(
      `GET ${FLAGS}my_flags/`,
      'listMyFlags',
      'Lists flags with their value for the caller.',
      {
        ...READ,
        query: [jsonText('groups', mapOf(TEXT_OR_NUMBER), 'Types and keys of groups.')],
        answer: list(object({ feature_flag: ref('FlagSummary'), value: FLAG_VALUE })),
      },
    ),
    operation(
      `POST ${FLAGS}user_blast_radius/`,
      'countBlastRadius',
      'How many a condition reaches.',
      {
        ...READ,
        body: openObject(
          { condition: nullable(ref('FlagCondition')) },
          { group_type_index: nullable(WHOLE) },
        ),
        answer: object({ users_affected: WHOLE, total_users: WHOLE }),
        errors: BODY_ERRORS,
      },
    ),
    operation(`GET ${FLAGS}local_evaluation/`, 'getLocalEvaluation', 'Definitions for SDKs.', {
      ...DEFINITIONS,
      query: [SEND_COHORTS],
    }),
    operation(`GET ${FLAG}remote_config/`, 'getFlagRemoteConfig', 'The payload of a flag.', {
      ...READ,
      doors: ['personalKey', 'secretKey'],
      answer: about(nullable(TEXT), 'The payload as JSON text: parse it once more.'),
      emptyAnswers: { 404: NO_BODY_404 },
    }),
  ],
}
