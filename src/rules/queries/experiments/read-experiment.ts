/**
 * Reads an experiment in the JSON form of the API, as far as its result depends on it. Source:
 * docs/compatibility/queries.md, "ExperimentQuery".
 */
import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import { ALPHA_BOUNDS, isAlpha, isLevel, LEVEL_BOUNDS } from '../../experiments/confidence.ts'
import type {
  ExperimentDefinition,
  ExperimentEvent,
  ExperimentExposure,
  ExperimentHoldout,
  ExperimentMetric,
  ExperimentStats,
  ExperimentVariant,
} from '../../experiments/experiment-definition.ts'
import { EXPERIMENT_VARIANTS_MAX } from '../../experiments/limits.ts'
import { groupTypeOf } from '../../flags/group-type.ts'
import { readHoldout } from '../../flags/holdout.ts'
import { EXPERIMENT_LOOKBACK_DAYS_MAX } from '../limits.ts'
import { QueryFields } from '../query-fields.ts'
import type { QueryContext } from '../query-kind.ts'
import { readDate } from '../query-range.ts'

/** The variant that is the baseline, unless the experiment names another one. */
const CONTROL = 'control'
const ALPHA = 0.05
const LOOKBACK_DAYS = 14

type TimeContext = Pick<QueryContext, 'timezone' | 'nowMs'>

/**
 * Reads an experiment in the form of the answer of `GET experiments/:id/`. `fields` is the object with its path within
 * the request. This function only checks that each metric is an object. A query checks the metrics that it computes.
 * Throws 400 `invalid_query`.
 */
export function readExperiment(fields: QueryFields, context: TimeContext): ExperimentDefinition {
  const flag = fields.within('feature_flag')
  const flagKey = fields.text('feature_flag_key') ?? flag.text('key') ?? ''
  if (flagKey === '') {
    throw fields.fault('feature_flag_key', 'is missing. Send the key of the flag of the experiment')
  }
  const filters = flag.within('filters')
  const groupTypeIndex = groupTypeOf(filters.json)
  if (groupTypeIndex === undefined) {
    const what =
      'and the conditions of the flag must all have the same group type, a whole number from 0 to 4, or none'
    throw filters.fault('aggregation_group_type_index', what)
  }
  const startMs = readMoment(fields, 'start_date', context)
  const endMs = readMoment(fields, 'end_date', context)
  if (startMs !== null && endMs !== null && endMs < startMs) {
    throw fields.fault('end_date', 'must not be before `start_date`')
  }
  return {
    id: fields.whole('id', 1),
    name: fields.text('name') ?? '',
    flagKey,
    variants: readVariants(fields, filters),
    holdout: readExperimentHoldout(fields, filters),
    groupTypeIndex,
    exposure: readExposure(fields),
    startMs,
    endMs,
    stats: readStats(fields),
    metrics: readMetrics(fields, 'metrics'),
    secondaryMetrics: readMetrics(fields, 'metrics_secondary'),
  }
}

/**
 * Returns the experiment that a query contains, or the stored experiment that the query names by number. Throws 400
 * `invalid_query`.
 */
export function experimentOf(query: QueryFields, context: QueryContext): ExperimentDefinition {
  if (query.isGiven('experiment')) return readExperiment(query.within('experiment'), context)
  // An `ExperimentExposureQuery` contains the definition of the experiment itself.
  if (query.isGiven('feature_flag')) return readExperiment(query, context)
  const id = query.whole('experiment_id', 1)
  if (id === null) {
    throw query.fault('experiment_id', 'is missing. Send the number of an experiment')
  }
  const found = context.experiment?.(id) ?? null
  if (found !== null) return found
  throw query.fault(
    'experiment_id',
    'refers to an experiment that does not exist. Take its number from the list of experiments',
  )
}

function readMoment(fields: QueryFields, name: string, context: TimeContext): number | null {
  const text = fields.text(name) ?? ''
  if (text === '') return null
  const date = readDate(text, context.timezone, context.nowMs)
  if (date?.kind === 'absolute') return date.exactMs
  throw fields.fault(name, 'must be a time such as 2026-01-31T09:00:00Z')
}

function readVariants(fields: QueryFields, filters: QueryFields): readonly ExperimentVariant[] {
  const multivariate = filters.within('multivariate')
  const parameters = fields.within('parameters')
  const [owner, name] = multivariate.isGiven('variants')
    ? ([multivariate, 'variants'] as const)
    : ([parameters, 'feature_flag_variants'] as const)
  const nodes = owner.objects(name)
  if (nodes.length < 2 || nodes.length > EXPERIMENT_VARIANTS_MAX) {
    const what = `must be a list of 2 to ${EXPERIMENT_VARIANTS_MAX} variants`
    throw owner.fault(name, what)
  }
  const variants = nodes.map((node) => {
    const key = node.text('key') ?? ''
    if (key === '') throw node.fault('key', 'is missing. Send the key of the variant')
    const percentage = node.number('rollout_percentage') ?? node.number('split_percent') ?? 0
    if (percentage < 0 || percentage > 100) {
      throw node.fault('rollout_percentage', 'must be a number from 0 to 100')
    }
    return { key, rolloutPercentage: percentage }
  })
  if (new Set(variants.map(({ key }) => key)).size < variants.length) {
    throw owner.fault(name, 'must not contain the same key twice')
  }
  const config = fields.within('stats_config')
  const baseline = config.text('baseline_variant_key')
  const isBaseline = ({ key }: ExperimentVariant): boolean => key === (baseline ?? CONTROL)
  if (baseline !== null && !variants.some(isBaseline)) {
    const keys = variants.map(({ key }) => key).join(', ')
    throw config.fault('baseline_variant_key', `must be one of ${keys}`)
  }
  const others = variants.filter((variant) => !isBaseline(variant))
  return [...variants.filter(isBaseline), ...others]
}

/** Reads the holdout of the experiment or, if there is none, the holdout of its flag. */
function readExperimentHoldout(
  fields: QueryFields,
  filters: QueryFields,
): ExperimentHoldout | null {
  const holdout = fields.value('holdout')
  if (!isObject(holdout)) return readHoldout(filters.json)
  const [group] = objectsOf(holdout['filters'])
  const percentage = group?.['rollout_percentage'] ?? holdout['exclusion_percentage']
  const { id = null } = holdout
  const named = typeof id === 'number' || typeof id === 'string' ? `holdout-${id}` : null
  const variant = group?.['variant'] ?? named
  if (typeof percentage !== 'number' || !(percentage >= 0 && percentage <= 100)) {
    throw fields.fault('holdout', 'must have a `rollout_percentage` from 0 to 100 in its `filters`')
  }
  if (typeof variant !== 'string') {
    throw fields.fault('holdout', 'must have a text as `variant` in its `filters`, or an `id`')
  }
  return { variant, percentage }
}

/** Reads `exposure_criteria` of an experiment. Throws 400 `invalid_query`. */
export function readExposure(fields: QueryFields): ExperimentExposure {
  const criteria = fields.within('exposure_criteria')
  const isUnfiltered = criteria.value('filterTestAccounts') !== undefined
  return {
    event: readExposureEvent(criteria),
    multipleVariantHandling: criteria.choice('multiple_variant_handling', [
      'exclude',
      'first_seen',
    ]),
    filterTestAccounts: isUnfiltered ? criteria.boolean('filterTestAccounts') : true,
  }
}

function readExposureEvent(criteria: QueryFields): ExperimentEvent | null {
  if (criteria.value('exposure_config') === undefined) return null
  const config = criteria.within('exposure_config')
  const properties = config.list('properties')
  const kind = config.choice('kind', ['ExperimentEventExposureConfig', 'EventsNode', 'ActionsNode'])
  if (kind === 'ActionsNode') {
    const id = config.whole('id', 1)
    if (id === null) throw config.fault('id', 'must be the number of an action')
    return { kind, id, properties }
  }
  const event = config.text('event') ?? ''
  if (event === '') throw config.fault('event', 'is missing. Send the name of an event')
  return { kind: 'EventsNode', event, properties }
}

/** Reads `stats_config` and the plan of an experiment. Throws 400 `invalid_query`. */
export function readStats(fields: QueryFields): ExperimentStats {
  const config = fields.within('stats_config')
  const cuped = config.within('cuped')
  const parameters = fields.within('parameters')
  const calculation = fields.within('running_time_calculation')
  const level = config.within('bayesian').number('ci_level')
  if (level !== null && !isLevel(level)) {
    throw config.fault('bayesian.ci_level', `must be ${LEVEL_BOUNDS}`)
  }
  const alpha = config.within('frequentist').number('alpha')
  if (alpha !== null && !isAlpha(alpha)) {
    throw config.fault('frequentist.alpha', `must be ${ALPHA_BOUNDS}`)
  }
  const isCuped = cuped.boolean('enabled')
  const lookbackDays =
    cuped.whole('lookback_days', 1, EXPERIMENT_LOOKBACK_DAYS_MAX) ?? LOOKBACK_DAYS
  const effect =
    calculation.number('minimum_detectable_effect') ??
    parameters.number('minimum_detectable_effect')
  const own = config.number('horizon_persons')
  if (own !== null && own < 1) throw config.fault('horizon_persons', 'must be at least 1')
  const horizon =
    own ??
    calculation.number('recommended_sample_size') ??
    parameters.number('recommended_sample_size')
  return {
    method: config.choice('method', ['bayesian', 'frequentist']),
    alpha: alpha ?? (level === null ? ALPHA : 1 - level),
    horizonPersons: horizon !== null && horizon >= 1 ? horizon : null,
    lookbackDays: isCuped ? lookbackDays : null,
    minimumDetectableEffect: effect !== null && effect > 0 ? effect / 100 : null,
  }
}

/** Reads a list of metrics in their JSON form. A query checks each metric that it computes. */
function readMetrics(fields: QueryFields, name: string): readonly ExperimentMetric[] {
  return fields.objects(name).map(({ json }) => json as JsonObject & ExperimentMetric)
}

/** Returns the metric as fields of a query, for `readMetric`. */
export function metricFields(metric: ExperimentMetric, path: string): QueryFields {
  return new QueryFields(metric as unknown as JsonObject, path)
}
