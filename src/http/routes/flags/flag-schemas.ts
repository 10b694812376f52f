/**
 * The schemas of feature flags, for users who manage flags and for SDKs that load them. The schemas of single fields
 * come from the rules that check these fields (rules/flags/edit/flag-fields.ts). Filters are also checked by other
 * rules, which no schema can express. Source: interface description, section 2.3; docs/compatibility/flags.md, "Feature
 * flag fields".
 */

import type { JsonObject } from '../../../base/json.ts'
import {
  PLAN_FLAGS_MAX,
  REHEARSAL_SAMPLE_MAX,
  REHEARSAL_SAMPLE_USUAL,
} from '../../../base/limits.ts'
import { FLAG_FIELDS, FLAG_NOTE } from '../../../rules/flags/edit/flag-fields.ts'
import { PORTABLE_FLAG } from '../../../rules/flags/edit/flags-file.ts'
import { logPageOf } from '../../server/pages.ts'
import type { Schema } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import { USER_SUMMARY } from '../organization/organization-services.ts'
import { PROPERTY_FILTER } from '../persons/question-schemas.ts'

/** A list of texts: tags, flag keys or evaluation contexts. */
export const NAMES = is.list(is.TEXT)
/** Where a flag may be evaluated: in clients, in servers, or in both. */
export const RUNTIME = is.choice('all', 'client', 'server')
/** The value of a flag for one user. */
export const FLAG_VALUE: Schema<boolean | string> = { type: ['boolean', 'string'] }
const BUCKETING = is.nullable(is.choice('distinct_id', 'device_id'))

/** A release condition: filters that must all match, and the percentage of matching users that it covers. */
export const CONDITION = is.named(
  'FlagCondition',
  is.openObject(
    {},
    {
      properties: is.nullable(is.list(PROPERTY_FILTER)),
      rollout_percentage: is.nullable(is.NUMBER),
      variant: is.nullable(is.TEXT),
    },
  ),
)
const VARIANT = is.named(
  'FlagVariant',
  is.openObject(
    { key: is.TEXT },
    { name: is.nullable(is.TEXT), rollout_percentage: is.nullable(is.NUMBER) },
  ),
)
/** The filters of a flag, which decide its value. */
export const FILTERS = is.named(
  'FlagFilters',
  is.about(
    is.openObject(
      {},
      {
        groups: is.list(CONDITION),
        multivariate: is.nullable(is.openObject({}, { variants: is.nullable(is.list(VARIANT)) })),
        payloads: is.about(
          is.nullable(is.JSON_OBJECT),
          'JSON texts, by variant key. A flag without variants has one, with the key true.',
        ),
        aggregation_group_type_index: is.nullable(is.WHOLE),
        super_groups: is.nullable(is.list(CONDITION)),
      },
    ),
    'The conditions that decide the value. Unknown members are kept.',
  ),
)

/** The fields that have the same form in requests and in answers. */
const { key: KEY = is.TEXT, ...FIELDS } = Object.fromEntries(
  Object.entries(FLAG_FIELDS).map(([name, { schema }]): [string, Schema] => [name, schema]),
)
const CHANGED = {
  ...FIELDS,
  filters: FILTERS,
  version: is.about(is.WHOLE, 'The version of the flag that the client edited.'),
  note: is.about(
    FLAG_NOTE.schema,
    'Why the change is made. It is stored in the activity log and not in the flag.',
  ),
  original_flag: is.about(is.JSON_OBJECT, 'The flag as it was when the client began to edit it.'),
}

/** A feature flag in an answer. */
export const FEATURE_FLAG = is.namedObject(
  'FeatureFlag',
  {
    id: is.WHOLE,
    key: is.TEXT,
    ...FIELDS,
    filters: FILTERS,
    // This list in answers has no limit. One request can add only a limited number of dashboards, but the next one can
    // add more.
    analytics_dashboards: is.list(is.WHOLE),
    created_by: is.nullable(USER_SUMMARY),
    last_modified_by: is.nullable(USER_SUMMARY),
    updated_at: is.TIME,
    version: is.WHOLE,
    is_simple_flag: is.BOOLEAN,
    rollout_percentage: is.nullable(is.NUMBER),
    experiment_set: is.about(is.list(is.WHOLE), 'Numbers of the experiments that use the flag.'),
    surveys: is.list(is.ANY),
    features: is.JSON_OBJECT,
    can_edit: is.BOOLEAN,
    user_access_level: is.choice('editor', 'viewer'),
    usage_dashboard: is.nullable(is.WHOLE),
    status: is.choice('ACTIVE', 'INACTIVE', 'STALE', 'DELETED'),
  },
  {
    status_details: is.about(
      is.list(is.object({ path: is.TEXT, reason: is.TEXT })),
      'Filters that can never match, if there are any. Not included in lists.',
    ),
  },
)
/** A new flag in the body of a request. Its key is required. */
export const DRAFT = is.named('FeatureFlagDraft', is.openObject({ key: KEY }, CHANGED))
/** The changes of a flag in the body of a request. */
export const CHANGES = is.named('FeatureFlagChanges', is.openObject({}, { key: KEY, ...CHANGED }))

const FILTER_STORY = is.object(
  { filter: is.about(is.ANY, 'The filter as it is stored.'), passes: is.nullable(is.BOOLEAN) },
  {
    value: is.about(
      is.ANY,
      'The value of the property or flag, or the membership in the cohort, that the filter was compared with. Absent if there is none, or if the key lacks the scope person:read.',
    ),
  },
)
/** The reasons why a flag has its value for one user. */
export const EXPLANATION = is.namedObject('FlagExplanation', {
  key: is.TEXT,
  active: is.about(is.BOOLEAN, 'Whether the flag is evaluated.'),
  value: FLAG_VALUE,
  enabled: is.BOOLEAN,
  variant: is.nullable(is.TEXT),
  reason: is.TEXT,
  description: is.TEXT,
  condition_index: is.nullable(is.WHOLE),
  payload: is.about(is.nullable(is.TEXT), 'JSON text.'),
  person_exists: is.about(
    is.nullable(is.BOOLEAN),
    'Whether a person with this distinct_id is stored. Null if the flag is not evaluated, if the person could not be read, or if the key lacks the scope person:read.',
  ),
  conditions: is.list(
    is.object({
      index: is.about(is.WHOLE, 'Index of the condition, from 0, in stored order.'),
      condition: is.about(is.ANY, 'The condition as it is stored.'),
      outcome: is.choice(
        'matched',
        'filter_failed',
        'rollout_excluded',
        'no_group',
        'no_device',
        'failed',
        'not_reached',
      ),
      matched: is.BOOLEAN,
      failed_filter: is.nullable(is.object({ index: is.WHOLE, filter: is.ANY })),
      rollout_percentage: is.nullable(is.NUMBER),
      hash: is.about(
        is.nullable(is.NUMBER),
        'Position of the identifier from 0 to 1, if the rollout was checked. The condition includes positions up to percentage / 100.',
      ),
      failure: is.about(is.nullable(is.TEXT), 'Why the flag could not be evaluated.'),
      properties: is.list(FILTER_STORY),
    }),
  ),
})

/** For each hour and each value of a flag, how often an evaluation returned this value. */
export const USAGE = is.namedObject('FlagUsage', {
  results: is.list(
    is.object({
      at: is.about(is.TIME, 'Start of the hour.'),
      value: is.about(
        { type: ['boolean', 'string', 'null'] },
        'Off, on, or the variant. Null if the flag could not be evaluated.',
      ),
      count: is.WHOLE,
    }),
  ),
  last_evaluated_at: is.about(
    is.nullable(is.TIME),
    'When the flag was last evaluated, to within a few seconds. Null if not since counting began.',
  ),
  since: is.about(is.TIME, 'When counting began, which is the start of the daemon.'),
})
/** How often each flag was decided. */
export const USAGE_OF_FLAGS = is.namedObject('FlagsUsage', {
  results: is.list(
    is.object({
      id: is.about(is.WHOLE, 'Flag number.'),
      count: is.about(is.WHOLE, 'Number of decisions.'),
      days: is.about(
        is.list(is.WHOLE),
        'Number of decisions in each period of 24 hours, oldest first. The last period ends now.',
      ),
      last_evaluated_at: is.nullable(is.TIME),
    }),
  ),
  since: is.about(is.TIME, 'When counting began.'),
})
/** The body of a request that rehearses a change of a flag without making it. */
export const REHEARSED = is.named(
  'FlagRehearsalDraft',
  is.openObject(
    {},
    {
      id: is.about(is.WHOLE, 'Flag number.'),
      key: is.about(
        is.TEXT,
        'The flag key, instead of the number. A key that no flag has stands for a new flag.',
      ),
      filters: FILTERS,
      active: is.BOOLEAN,
      sample: is.about(
        is.WHOLE,
        `The number of persons or groups to evaluate. The default is ${REHEARSAL_SAMPLE_USUAL}, the maximum ${REHEARSAL_SAMPLE_MAX}.`,
      ),
    },
  ),
)
const CONDITION_INDEX = is.nullable(is.WHOLE)
const FLIP = {
  from: FLAG_VALUE,
  to: FLAG_VALUE,
  from_condition: is.about(
    CONDITION_INDEX,
    'Index of the condition that matched before the change, from 0.',
  ),
  to_condition: is.about(CONDITION_INDEX, 'Index of the condition that matches after the change.'),
}
/** How a change of a flag would affect persons or groups, estimated from a sample of them. */
export const REHEARSAL = is.namedObject('FlagRehearsal', {
  is_new: is.about(is.BOOLEAN, 'True if no flag has this key.'),
  group_type_index: is.about(CONDITION_INDEX, 'The group type, or null if persons were evaluated.'),
  total: is.about(
    is.WHOLE,
    'Number of all persons or groups. An estimate if not all were evaluated.',
  ),
  sampled: is.about(is.WHOLE, 'Number of evaluated persons or groups.'),
  changed: is.about(is.WHOLE, 'The number of evaluated persons or groups that get another value.'),
  failed: is.about(
    is.WHOLE,
    'The number of persons or groups whose value after the change could not be computed. The flag counts as off for them.',
  ),
  values: is.list(is.object({ value: FLAG_VALUE, before: is.WHOLE, after: is.WHOLE })),
  flips: is.about(
    is.list(is.object({ ...FLIP, count: is.WHOLE })),
    'The changes of the value, the most frequent first.',
  ),
  examples: is.about(
    is.list(
      is.object({
        distinct_id: is.nullable(is.TEXT),
        group_key: is.nullable(is.TEXT),
        ...FLIP,
      }),
    ),
    'Some persons or groups that get another value. Empty if the key lacks the scope person:read.',
  ),
})

/** The content of a flag in a file. */
const FLAG_IN_FILE = is.named('FlagInFile', PORTABLE_FLAG as Schema<JsonObject>)
const FLAGS_IN_FILE = is.list(FLAG_IN_FILE, PLAN_FLAGS_MAX)
/** The content of a file with flags. */
export const FLAGS_FILE_BODY = is.namedObject('FlagsFile', { flags: is.list(FLAG_IN_FILE) })
/** A request for a plan: which changes the flags in files would make. */
export const PLAN_WISH = is.named(
  'FlagPlanWish',
  is.object(
    { flags: FLAGS_IN_FILE },
    {
      sample: is.about(
        { ...is.WHOLE, minimum: 0, maximum: REHEARSAL_SAMPLE_MAX },
        `The number of persons or groups to evaluate. The default is ${REHEARSAL_SAMPLE_USUAL}; 0 leaves the numbers out.`,
      ),
    },
  ),
)
/** A plan: the changes that the flags in files would make. */
export const PLAN = is.namedObject('FlagPlan', {
  flags: is.about(
    is.list(
      is.object({
        key: is.TEXT,
        action: is.choice('create', 'update', 'delete', 'none'),
        id: is.about(is.nullable(is.WHOLE), 'Flag number. Null for a new flag.'),
        version: is.about(
          is.nullable(is.WHOLE),
          'The version of the flag before the change. Null for a new flag.',
        ),
        changes: is.about(is.list(is.TEXT), 'Sentences that say what changes.'),
        effect: is.about(
          is.nullable(
            is.object({
              group_type_index: CONDITION_INDEX,
              total: is.WHOLE,
              sampled: is.WHOLE,
              changed: is.WHOLE,
              failed: is.WHOLE,
              values: is.list(is.object({ value: FLAG_VALUE, before: is.WHOLE, after: is.WHOLE })),
              flips: is.list(is.object({ ...FLIP, count: is.WHOLE })),
            }),
          ),
          'How many persons or groups get another value. The members are the same as in a rehearsal.',
        ),
      }),
    ),
    'The flags in the order in which they are changed.',
  ),
  faults: is.about(
    is.list(is.object({ key: is.TEXT, detail: is.TEXT })),
    'The flags that cannot be changed as wanted. A plan with faults cannot be applied.',
  ),
})
/** A request to make the changes of a plan. */
export const PLAN_TO_APPLY = is.named(
  'FlagPlanToApply',
  is.object({
    flags: FLAGS_IN_FILE,
    versions: is.about(
      is.mapOf(is.nullable(is.WHOLE)),
      'For each flag that the plan changes, by key: `version` from the plan. Null for a new flag.',
    ),
  }),
)

/** A flag in the form in which SDKs load it. */
export const SUMMARY = is.namedObject('FlagSummary', {
  id: is.WHOLE,
  team_id: is.WHOLE,
  name: is.TEXT,
  key: is.TEXT,
  filters: FILTERS,
  deleted: is.BOOLEAN,
  active: is.BOOLEAN,
  ensure_experience_continuity: is.nullable(is.BOOLEAN),
  has_encrypted_payloads: is.nullable(is.BOOLEAN),
  has_experiment: is.BOOLEAN,
  version: is.WHOLE,
  evaluation_runtime: RUNTIME,
  bucketing_identifier: BUCKETING,
  evaluation_tags: NAMES,
  evaluation_contexts: NAMES,
})
/** The flag definitions for SDKs that evaluate flags locally. */
export const DEFINITIONS = is.namedObject('FlagDefinitions', {
  flags: is.list(SUMMARY),
  group_type_mapping: is.mapOf(is.TEXT),
  cohorts: is.about(is.mapOf(is.JSON_OBJECT), 'Rules of the cohorts, by cohort number.'),
})
/** The query parameter with which the definitions include the rules of cohorts. */
export const SEND_COHORTS = is.about(is.TEXT, 'Include the rules of the cohorts.')

const CHANGE = is.named(
  'FlagChange',
  is.openObject({
    type: is.TEXT,
    action: is.choice('created', 'deleted', 'changed'),
    field: is.TEXT,
    before: is.ANY,
    after: is.ANY,
  }),
)
const ACTIVITY = is.namedObject('FlagActivity', {
  id: is.UUID,
  user: is.object({ first_name: is.TEXT, email: is.nullable(is.TEXT) }, { is_system: is.BOOLEAN }),
  activity: is.choice('created', 'updated', 'deleted', 'restored'),
  scope: is.choice('FeatureFlag'),
  item_id: is.TEXT,
  detail: is.object(
    {
      id: is.NOTHING,
      changes: is.nullable(is.list(CHANGE)),
      merge: is.NOTHING,
      trigger: is.NOTHING,
      name: is.TEXT,
      short_id: is.NOTHING,
      type: is.NOTHING,
    },
    { note: is.about(is.TEXT, 'Why the change was made. Absent if nobody gave a reason.') },
  ),
  created_at: is.TIME,
})
/** A page of the log of changes. */
export const ACTIVITY_PAGE = logPageOf('FlagActivityPage', ACTIVITY)
