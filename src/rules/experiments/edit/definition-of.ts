/**
 * The definition of a stored experiment, from which results are computed. It is read like an experiment that a query
 * contains. Source: docs/compatibility/experiments.md, "Fields".
 */
import type { Flag } from '../../flags/types.ts'
import { readExperiment } from '../../queries/experiments/read-experiment.ts'
import { QueryFields } from '../../queries/query-fields.ts'
import type { ExperimentDefinition } from '../experiment-definition.ts'
import { variantsOfFlag } from './flag-of-experiment.ts'
import { linkedMetrics } from './saved-metrics.ts'
import { countedKey, type ExperimentView, holdoutVariant } from './stored-experiment.ts'

/** Stored times have a zone. */
const NO_CONTEXT = { timezone: 'UTC', nowMs: 0 }

/**
 * Returns the definition of an experiment. `flag` is the flag that the experiment belongs to. A draft has the variants
 * of its flag. Throws 400 if the flag can no longer have an experiment.
 */
export function definitionOf(view: ExperimentView, flag: Flag): ExperimentDefinition {
  const { experiment, holdout } = view
  const { fields } = experiment
  const shown = {
    id: experiment.id,
    name: fields.name,
    feature_flag_key: countedKey(fields, flag),
    parameters: {
      ...fields.parameters,
      feature_flag_variants: fields.variants ?? variantsOfFlag(flag),
    },
    holdout: holdout && {
      filters: [
        { variant: holdoutVariant(holdout.id), rollout_percentage: holdout.fields.percentage },
      ],
    },
    exposure_criteria: fields.exposure_criteria,
    stats_config: fields.stats_config,
    start_date: fields.start_date,
    end_date: fields.end_date,
    metrics: [...fields.metrics, ...linkedMetrics(view, 'primary')],
    metrics_secondary: [...fields.metrics_secondary, ...linkedMetrics(view, 'secondary')],
  }
  return readExperiment(new QueryFields(shown, 'experiment'), NO_CONTEXT)
}
