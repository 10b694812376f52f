/**
 * The definition of a stored experiment, from which results are computed. Source: docs/compatibility/experiments.md,
 * "Fields".
 */
import { isObject, type JsonObject } from '../../../base/json.ts'
import type { Flag } from '../../flags/types.ts'
import type {
  ExperimentDefinition,
  ExperimentExposure,
  ExperimentMetric,
  ExperimentStats,
} from '../experiment-definition.ts'
import { CONTROL, variantsOfFlag } from './flag-of-experiment.ts'
import { countedKey, type ExperimentView, holdoutVariant } from './stored-experiment.ts'

const ALPHA_USUAL = 0.05
const LOOKBACK_DAYS_USUAL = 14
const PERCENT = 100

/**
 * Returns the definition of an experiment. `flag` is the flag that the experiment belongs to. A draft has the variants
 * of its flag. Throws 400 if the flag can no longer have an experiment.
 */
export function definitionOf(
  { experiment, holdout }: ExperimentView,
  flag: Flag,
): ExperimentDefinition {
  const { id, fields } = experiment
  const { stats_config: config, variants: launched } = fields
  const baseline = String(config?.['baseline_variant_key'] ?? CONTROL)
  const variants = (launched ?? variantsOfFlag(flag)).map(({ key, rollout_percentage: share }) => ({
    key,
    rolloutPercentage: share,
  }))
  const first = variants.filter(({ key }) => key === baseline)
  return {
    id,
    name: fields.name,
    flagKey: countedKey(fields, flag),
    variants: [...first, ...variants.filter(({ key }) => key !== baseline)],
    holdout:
      holdout === null
        ? null
        : { variant: holdoutVariant(holdout.id), percentage: holdout.fields.percentage },
    exposure: exposureOf(fields.exposure_criteria ?? {}),
    startMs: fields.start_date === null ? null : Date.parse(fields.start_date),
    endMs: fields.end_date === null ? null : Date.parse(fields.end_date),
    stats: statsOf(config ?? {}, fields.parameters),
    // `checkMetrics` checked the metrics when they were stored, so they have these types.
    metrics: fields.metrics as unknown as readonly ExperimentMetric[],
    secondaryMetrics: fields.metrics_secondary as unknown as readonly ExperimentMetric[],
  }
}

function exposureOf(criteria: JsonObject): ExperimentExposure {
  const { filterTestAccounts, exposure_config: config, multiple_variant_handling } = criteria
  const isAction = isObject(config) && config['kind'] === 'ActionsNode'
  const properties =
    isObject(config) && Array.isArray(config['properties']) ? config['properties'] : []
  return {
    event: !isObject(config)
      ? null
      : isAction
        ? { kind: 'ActionsNode', id: Number(config['id']), properties }
        : { kind: 'EventsNode', event: String(config['event']), properties },
    multipleVariantHandling: multiple_variant_handling === 'first_seen' ? 'first_seen' : 'exclude',
    filterTestAccounts: filterTestAccounts !== false,
  }
}

function statsOf(config: JsonObject, parameters: JsonObject): ExperimentStats {
  const { method, bayesian, frequentist, cuped } = config
  const level = isObject(bayesian) ? bayesian['ci_level'] : undefined
  const alpha = isObject(frequentist) ? frequentist['alpha'] : undefined
  const fromLevel = typeof level === 'number' ? 1 - level : ALPHA_USUAL
  const effect = positive(parameters['minimum_detectable_effect'])
  const isCuped = isObject(cuped) && cuped['enabled'] === true
  return {
    method: method === 'frequentist' ? 'frequentist' : 'bayesian',
    alpha: typeof alpha === 'number' ? alpha : fromLevel,
    horizonPersons:
      positive(config['horizon_persons']) ?? positive(parameters['recommended_sample_size']),
    lookbackDays: isCuped ? (positive(cuped['lookback_days']) ?? LOOKBACK_DAYS_USUAL) : null,
    minimumDetectableEffect: effect === null ? null : effect / PERCENT,
  }
}

function positive(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? value : null
}
