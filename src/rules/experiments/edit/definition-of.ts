/**
 * The definition of a stored experiment, from which results are computed. It is read like an experiment that a query
 * contains. Source: docs/compatibility/experiments.md, "Fields".
 */
import { ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import type { Flag } from '../../flags/types.ts'
import {
  readExperiment,
  readExposure,
  readStats,
} from '../../queries/experiments/read-experiment.ts'
import { QueryFields } from '../../queries/query-fields.ts'
import type { ExperimentDefinition } from '../experiment-definition.ts'
import { countedGroupType, variantsOfFlag } from './flag-of-experiment.ts'
import { linkedMetrics } from './saved-metrics.ts'
import { countedKey, type ExperimentView, holdoutVariant } from './stored-experiment.ts'

/**
 * Stored times contain their zone and are not relative, so neither the zone of the project nor the current time
 * matters.
 */
const NO_CONTEXT = { timezone: 'UTC', nowMs: 0 }

/**
 * Returns the definition of an experiment. `flag` is the flag that the experiment belongs to. A draft has the variants
 * of its flag. Stored settings that no query can read are left out: earlier versions stored them unchecked, and a
 * variant of a draft can be removed from its flag. Throws 400 if the flag can no longer have an experiment.
 */
export function definitionOf(view: ExperimentView, flag: Flag): ExperimentDefinition {
  const { experiment, holdout } = view
  const { fields } = experiment
  const variants = fields.variants ?? variantsOfFlag(flag)
  const groupType = countedGroupType(fields, flag)
  const { baseline_variant_key: baseline, ...stats } = readable(
    'stats_config',
    fields.stats_config,
    readStats,
  )
  const hasBaseline = variants.some(({ key }) => key === baseline)
  const shown = {
    id: experiment.id,
    name: fields.name,
    feature_flag_key: countedKey(fields, flag),
    parameters: {
      ...readable('parameters', fields.parameters, readStats),
      feature_flag_variants: variants,
    },
    feature_flag: { filters: { aggregation_group_type_index: groupType } },
    holdout: holdout && {
      filters: [
        { variant: holdoutVariant(holdout.id), rollout_percentage: holdout.fields.percentage },
      ],
    },
    exposure_criteria: readable('exposure_criteria', fields.exposure_criteria, readExposure),
    stats_config: hasBaseline ? { ...stats, baseline_variant_key: baseline } : stats,
    start_date: fields.start_date,
    end_date: fields.end_date,
    metrics: [...fields.metrics, ...linkedMetrics(view, 'primary')],
    metrics_secondary: [...fields.metrics_secondary, ...linkedMetrics(view, 'secondary')],
  }
  return readExperiment(new QueryFields(shown, 'experiment'), NO_CONTEXT)
}

/** Returns the members of `value` that `read` accepts. Returns an empty object if `value` is not an object. */
function readable(
  name: 'exposure_criteria' | 'parameters' | 'stats_config',
  value: unknown,
  read: (fields: QueryFields) => unknown,
): JsonObject {
  if (!isObject(value)) return {}
  const isReadable = ([member, content]: readonly [string, unknown]): boolean => {
    try {
      read(new QueryFields({ [name]: { [member]: content } }))
      return true
    } catch (error) {
      if (error instanceof ServiceError) return false
      throw error
    }
  }
  return Object.fromEntries(Object.entries(value).filter(isReadable))
}
