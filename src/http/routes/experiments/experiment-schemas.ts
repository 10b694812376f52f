/** The schemas of experiments, holdouts and saved metrics. Source: docs/compatibility/experiments.md, "Fields". */
import {
  EXPERIMENT_DESCRIPTION_CHARACTERS_MAX,
  EXPERIMENT_NAME_CHARACTERS_MAX,
} from '../../../rules/experiments/edit/limits.ts'
import { METRIC_SCHEMAS } from '../../../rules/experiments/edit/metric-fields.ts'
import { LINK_TYPES } from '../../../rules/experiments/edit/saved-metrics.ts'
import {
  CONCLUSIONS,
  EXPERIMENT_STATUSES,
  RUNNING_CHANGES,
} from '../../../rules/experiments/edit/stored-experiment.ts'
import type { Schema } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import { SUMMARY } from '../flags/flag-schemas.ts'
import { USER_SUMMARY } from '../organization/organization-services.ts'
import { TAGS } from '../saved/saved-services.ts'

const NAME = is.name(EXPERIMENT_NAME_CHARACTERS_MAX)
const DESCRIPTION = is.nullable(is.text(EXPERIMENT_DESCRIPTION_CHARACTERS_MAX))
const AUTHOR = is.nullable(USER_SUMMARY)
const TYPE = is.choice('product', 'web')
const FLAG_KEY = is.about(
  is.TEXT,
  'The key of the flag. A flag that exists must have variants, one of them with the key control. If no flag has the key, a flag is created.',
)
const START = is.about(
  is.nullable(is.TIME),
  'Null for a draft. Setting the start of a draft launches the experiment.',
)
const END = is.about(is.nullable(is.TIME), 'Setting the end of a running experiment ends it.')
const CONCLUSION = is.nullable(is.choice(...CONCLUSIONS))
const [FUNNEL, MEAN, RATIO, RETENTION] = Object.entries(METRIC_SCHEMAS).map(([type, schema]) =>
  is.named(`${type[0]?.toUpperCase()}${type.slice(1)}Metric`, schema as Schema<is.JsonObject>),
)
const METRIC: Schema<is.JsonObject> = is.named('ExperimentMetric', {
  anyOf: [FUNNEL, MEAN, RATIO, RETENTION],
})
const METRICS = {
  metrics: is.about(is.list(METRIC), 'The primary metrics, which decide about the experiment.'),
  metrics_secondary: is.about(
    is.list(METRIC),
    'Further metrics, which do not decide about the experiment.',
  ),
  metrics_guard: is.about(
    is.list(METRIC),
    'Metrics that must not become worse than their `tolerance`. Only Tenrec has them.',
  ),
}
const VARIANTS = is.list(
  is.openObject(
    { key: is.TEXT },
    {
      name: is.nullable(is.TEXT),
      rollout_percentage: is.NUMBER,
      split_percent: is.about(
        is.NUMBER,
        'Another name of `rollout_percentage`. Only in request bodies.',
      ),
    },
  ),
)
const PARAMETERS = is.named(
  'ExperimentParameters',
  is.openObject(
    {},
    {
      feature_flag_variants: is.about(
        VARIANTS,
        'The variants. After the launch, these are the variants at the launch, and they cannot be changed.',
      ),
      aggregation_group_type_index: is.about(
        is.nullable(is.WHOLE),
        'The group type whose groups get the variants in place of persons. It is that of the flag.',
      ),
      rollout_percentage: is.about(
        is.nullable(is.NUMBER),
        'The share of the users who take part. It is set in the first condition of the flag.',
      ),
      minimum_detectable_effect: is.about(
        is.nullable(is.NUMBER),
        'The smallest relative change that matters, in percent.',
      ),
      recommended_sample_size: is.about(
        is.nullable(is.NUMBER),
        'The planned number of persons in all variants together.',
      ),
      recommended_running_time: is.about(is.nullable(is.NUMBER), 'The planned number of days.'),
    },
  ),
)
const EXPOSURE = is.named(
  'ExposureCriteria',
  is.openObject(
    {},
    {
      filterTestAccounts: is.BOOLEAN,
      exposure_config: is.about(
        is.nullable(is.JSON_OBJECT),
        'The event or action that counts as exposure. Without it, $feature_flag_called counts.',
      ),
      multiple_variant_handling: is.about(
        is.choice('exclude', 'first_seen'),
        'How persons who had several variants are counted.',
      ),
    },
  ),
)
const STATS = is.about(
  is.JSON_OBJECT,
  'method (bayesian or frequentist), bayesian.ci_level, frequentist.alpha, baseline_variant_key, horizon_persons, and cuped.enabled with cuped.lookback_days.',
)

/** A holdout in an answer. */
export const HOLDOUT = is.namedObject('ExperimentHoldout', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.nullable(is.TEXT),
  filters: is.list(
    is.object({
      properties: is.list(is.ANY),
      rollout_percentage: is.NUMBER,
      variant: is.about(is.TEXT, 'The value that flags have for the persons of the holdout.'),
    }),
  ),
  created_by: AUTHOR,
  created_at: is.TIME,
  updated_at: is.TIME,
})
const HOLDOUT_FILTERS = is.about(
  is.list(is.openObject({ rollout_percentage: is.NUMBER }, { properties: is.list(is.ANY) })),
  'One entry with the percentage of all persons.',
)
/** A new holdout in the body of a request. */
export const HOLDOUT_DRAFT = is.named(
  'ExperimentHoldoutDraft',
  is.openObject({ name: NAME, filters: HOLDOUT_FILTERS }, { description: DESCRIPTION }),
)
/** The changes of a holdout in the body of a request. */
export const HOLDOUT_CHANGES = is.named(
  'ExperimentHoldoutChanges',
  is.openObject({}, { name: NAME, filters: HOLDOUT_FILTERS, description: DESCRIPTION }),
)

/** A saved metric in an answer. */
export const SAVED_METRIC = is.namedObject('ExperimentSavedMetric', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.nullable(is.TEXT),
  query: METRIC,
  tags: is.list(is.TEXT),
  created_by: AUTHOR,
  created_at: is.TIME,
  updated_at: is.TIME,
  user_access_level: is.TEXT,
})
const SAVED_QUERY = is.about(is.unchecked(METRIC), 'The metric. It gets a `uuid` of its own.')
/** A new saved metric in the body of a request. */
export const SAVED_METRIC_DRAFT = is.named(
  'ExperimentSavedMetricDraft',
  is.openObject({ name: NAME, query: SAVED_QUERY }, { description: DESCRIPTION, tags: TAGS }),
)
/** The changes of a saved metric in the body of a request. */
export const SAVED_METRIC_CHANGES = is.named(
  'ExperimentSavedMetricChanges',
  is.openObject({}, { name: NAME, description: DESCRIPTION, query: SAVED_QUERY, tags: TAGS }),
)
const LINK_METADATA = is.openObject({ type: is.choice(...LINK_TYPES) })
const LINK = is.object({
  id: is.WHOLE,
  experiment: is.WHOLE,
  saved_metric: is.about(is.WHOLE, 'Number of the saved metric.'),
  metadata: LINK_METADATA,
  created_at: is.TIME,
  query: METRIC,
  name: is.TEXT,
})

/** An experiment in an answer. */
export const EXPERIMENT = is.namedObject('Experiment', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.nullable(is.TEXT),
  type: TYPE,
  feature_flag_key: is.TEXT,
  feature_flag: is.about(is.nullable(SUMMARY), 'Null if the flag was removed permanently.'),
  holdout_id: is.nullable(is.WHOLE),
  holdout: is.nullable(HOLDOUT),
  exposure_cohort: is.about(
    is.nullable(is.WHOLE),
    'Number of the cohort of the exposed persons. Null until it is created.',
  ),
  exposure_criteria: is.nullable(EXPOSURE),
  parameters: PARAMETERS,
  ...METRICS,
  saved_metrics: is.about(is.list(LINK), 'The saved metrics that the experiment uses.'),
  secondary_metrics: is.about(is.list(is.ANY), 'Always empty. An older form of metrics.'),
  filters: is.about(is.JSON_OBJECT, 'Always empty. An older form of metrics.'),
  stats_config: is.nullable(STATS),
  start_date: START,
  end_date: END,
  archived: is.BOOLEAN,
  deleted: is.BOOLEAN,
  conclusion: CONCLUSION,
  conclusion_comment: is.nullable(is.TEXT),
  status: is.about(
    is.choice(...EXPERIMENT_STATUSES),
    'An experiment that is paused, because its flag is off, has the status running.',
  ),
  changed_while_running: is.about(
    is.list(is.object({ at: is.TIME, change: is.choice(...RUNNING_CHANGES), by: AUTHOR })),
    'Changes of the flag or the experiment that can spoil its result, oldest first. Only Tenrec has them.',
  ),
  created_at: is.TIME,
  created_by: AUTHOR,
  updated_at: is.TIME,
  user_access_level: is.TEXT,
})

const METRICS_SENT = is.nullable(is.list(is.unchecked(METRIC)))
const CHANGED = {
  description: DESCRIPTION,
  type: TYPE,
  holdout_id: is.nullable(is.WHOLE),
  exposure_criteria: is.nullable(is.unchecked(EXPOSURE)),
  parameters: is.about(
    is.nullable(is.unchecked(PARAMETERS)),
    'Replaces all parameters. If `feature_flag_variants` is left out, the flag keeps its variants, or a new flag gets the default ones.',
  ),
  metrics: is.about(METRICS_SENT, 'Replaces the primary metrics.'),
  metrics_secondary: METRICS_SENT,
  metrics_guard: METRICS_SENT,
  saved_metrics_ids: is.about(
    is.nullable(
      is.list(is.unchecked(is.openObject({ id: is.WHOLE }, { metadata: LINK_METADATA }))),
    ),
    'Replaces the saved metrics that the experiment uses. Without `metadata`, a metric is primary.',
  ),
  stats_config: is.nullable(STATS),
  start_date: is.nullable(is.TEXT),
  end_date: is.nullable(is.TEXT),
  archived: is.BOOLEAN,
  deleted: is.about(is.BOOLEAN, 'True deletes it, false restores it.'),
  conclusion: CONCLUSION,
  conclusion_comment: DESCRIPTION,
}
/** A new experiment in the body of a request. */
export const EXPERIMENT_DRAFT = is.named(
  'ExperimentDraft',
  is.openObject({ name: NAME, feature_flag_key: FLAG_KEY }, CHANGED),
)
/** The changes of an experiment in the body of a request. */
export const EXPERIMENT_CHANGES = is.named(
  'ExperimentChanges',
  is.openObject({}, { name: NAME, feature_flag_key: is.TEXT, ...CHANGED }),
)
const ENDING = { conclusion: CONCLUSION, conclusion_comment: DESCRIPTION }
/** The conclusion with which an experiment is ended, in the body of a request. */
export const ENDED = is.named('ExperimentEnding', is.openObject({}, ENDING))
/** The variant that everybody is to get from now on, in the body of a request. */
export const SHIPPED = is.named(
  'ShippedVariant',
  is.openObject(
    { variant_key: is.TEXT },
    {
      release_to_everyone: is.about(
        is.BOOLEAN,
        'True, the default, adds a condition for everybody. False leaves the conditions of the flag as they are.',
      ),
      ...ENDING,
    },
  ),
)
/** The flag key and the name of a copy of an experiment, in the body of a request. */
export const COPIED = is.named(
  'ExperimentCopy',
  is.openObject(
    {},
    {
      feature_flag_key: is.about(is.TEXT, 'The default is the flag of the experiment itself.'),
      name: NAME,
    },
  ),
)
/** The project to which an experiment is copied, with the flag key and the name of the copy, in the body of a request. */
export const COPIED_TO_PROJECT = is.named(
  'ExperimentCopyToProject',
  is.openObject(
    { target_team_id: is.about(is.WHOLE, 'Number of the project that gets the copy.') },
    {
      feature_flag_key: is.about(
        is.TEXT,
        'The default is the key of the flag of the experiment. A flag that the project has is used as it is.',
      ),
      name: NAME,
    },
  ),
)
