/**
 * Reads the queries about an experiment: which persons count as exposed, and what each metric counts. Source:
 * docs/compatibility/queries.md, "ExperimentQuery".
 */
import { isObject } from '../../../base/json.ts'
import { endMomentOf, endOfDay, wallOf } from '../../../base/time-zone.ts'
import type { DateRange } from '../../analytics/date-range.ts'
import type { SeriesMatch } from '../../analytics/event-columns.ts'
import type { Periods } from '../../analytics/periods.ts'
import type {
  ExperimentDefinition,
  ExperimentEvent,
  ExperimentMath,
  ExperimentTimeUnit,
  ExperimentVariant,
} from '../../experiments/experiment-definition.ts'
import { allOf, type FilterGroup, type PropertyFilter } from '../../filters/filter-group.ts'
import { readStoredFilters } from '../../filters/filter-tree.ts'
import { EXPERIMENT_METRICS_MAX, EXPERIMENT_WINDOW_DAYS_MAX, QUERY_SERIES_MAX } from '../limits.ts'
import { bucketsOf } from '../query-buckets.ts'
import { QueryFields } from '../query-fields.ts'
import type { QueryContext } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { readSeriesNode } from '../query-series.ts'
import { experimentOf, metricFields } from './read-experiment.ts'

const SECOND_MS = 1000
const DAY_MS = 86_400 * SECOND_MS
/** The length of each unit of a window. A month has 30 days, as in PostHog's experiments. */
const UNIT_MS: Readonly<Record<ExperimentTimeUnit, number>> = {
  second: SECOND_MS,
  minute: 60 * SECOND_MS,
  hour: 3600 * SECOND_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
}
const UNITS = ['day', 'second', 'minute', 'hour', 'week', 'month'] as const
const MATHS = ['total', 'sum', 'avg', 'min', 'max', 'unique_session', 'dau'] as const
const NUMBER_MATHS: readonly ExperimentMath[] = ['sum', 'avg', 'min', 'max']
const ORDERS = ['ordered', 'unordered', 'strict'] as const
const FLAG_CALLED = '$feature_flag_called'

/** The order in which a person must do the steps of a funnel. */
export type StepOrder = (typeof ORDERS)[number]

/** The rule that says which persons are exposed to an experiment, and to which variant. */
export interface ExposurePlan {
  readonly match: SeriesMatch
  /** The event property that contains the key of the variant. */
  readonly variantKey: string
  /** The keys of the variants. The baseline comes first, and the variant of a holdout comes last. */
  readonly variants: readonly string[]
  /** The index of the group type whose groups are counted in place of persons. Null for persons. */
  readonly groupTypeIndex: number | null
  /**
   * The filter that excludes test accounts, from exposures and from the events of metrics. Null means no restriction.
   */
  readonly filter: FilterGroup | null
  /** The range of the exposures: from the start of the experiment to its end or, while it runs, to the end of today. */
  readonly range: QueryRange
}

/** A source of events, and the value to add up from each event. */
export interface CountedSource {
  readonly match: SeriesMatch
  readonly math: ExperimentMath
  /** The property that contains the number. Null if the source needs no property. */
  readonly key: string | null
}

/**
 * What a metric counts for each exposed person. Windows are in milliseconds; null means until the end of the
 * experiment.
 */
export type CountedMetric =
  | {
      readonly of: 'steps'
      readonly steps: readonly SeriesMatch[]
      readonly order: StepOrder
      readonly windowMs: number | null
      readonly lookbackMs: number | null
    }
  | {
      readonly of: 'values'
      /** One source for a mean. For a ratio, the numerator and the denominator. */
      readonly sources: readonly CountedSource[]
      readonly windowMs: number | null
      readonly lookbackMs: number | null
    }
  | {
      readonly of: 'returns'
      readonly start: SeriesMatch
      readonly completion: SeriesMatch
      readonly isLastStart: boolean
      readonly unit: ExperimentTimeUnit
      /** The first and the last unit of the window, counted from the start event, both inclusive. */
      readonly from: number
      readonly to: number
      readonly windowMs: number | null
    }

/**
 * The bounds for outliers of a source of values. Values below the quantile `low` are replaced by this quantile, and
 * values above the quantile `high` by that one. Null means that there is no bound on this side.
 */
export interface OutlierPlan {
  readonly low: number | null
  readonly high: number | null
  readonly ignoresZeros: boolean
}

/** A metric of a query. */
export interface MetricPlan {
  readonly uuid: string | null
  readonly name: string
  readonly type: 'funnel' | 'mean' | 'ratio' | 'retention'
  readonly goal: 'increase' | 'decrease'
  /** The metric as the client sent it. The answer repeats it. */
  readonly metric: unknown
  readonly counted: CountedMetric
  /** The quantiles beyond which values are replaced, for each source of values. */
  readonly outliers: readonly OutlierPlan[]
  /**
   * Only for a mean: a person counts as 1 if the value is at least the threshold, otherwise as 0. Null means no
   * threshold.
   */
  readonly threshold: number | null
}

/** An `ExperimentQuery` after it was read and checked. */
export interface ExperimentPlan {
  readonly exposure: ExposurePlan
  readonly facts: ExperimentFacts
  readonly metrics: readonly MetricPlan[]
  /** The number of primary metrics. They come first in the list. */
  readonly primaryCount: number
  /** True if the query contains a single metric and asks for nothing else. */
  readonly isSingle: boolean
}

/** The members of an experiment's definition that only the answer needs. */
export interface ExperimentFacts {
  readonly variants: readonly ExperimentVariant[]
  readonly holdout: ExperimentDefinition['holdout']
  readonly isFirstSeen: boolean
  /** See `ExposurePlan`. */
  readonly groupTypeIndex: number | null
  readonly startMs: number
  readonly endMs: number | null
  /** False after the end of the experiment. */
  readonly isRunning: boolean
  readonly stats: ExperimentDefinition['stats']
}

/**
 * An `ExperimentExposureQuery` after it was read and checked. If `exposure` is null, the experiment has not started.
 */
export interface ExposureQueryPlan {
  readonly exposure: ExposurePlan | null
  readonly facts: ExperimentFacts | null
  readonly variants: readonly string[]
}

/**
 * Reads an `ExperimentQuery`. Without `metric`, all metrics of the experiment are computed. Throws 400 `invalid_query`,
 * also for an experiment that has not started or has no metrics.
 */
export function planExperiment(query: QueryFields, context: QueryContext): ExperimentPlan {
  const experiment = experimentOf(query, context)
  const { metrics, secondaryMetrics } = experiment
  const facts = factsOf(experiment, context)
  if (facts === null) {
    const what = 'is missing. Start the experiment to get results'
    throw query.fault('experiment.start_date', what)
  }
  const isSingle = query.value('metric') !== undefined
  const nodes = isSingle
    ? [query.within('metric')]
    : [
        ...metrics.map((metric, index) => metricFields(metric, `experiment.metrics.${index}`)),
        ...secondaryMetrics.map((metric, index) =>
          metricFields(metric, `experiment.metrics_secondary.${index}`),
        ),
      ]
  if (nodes.length === 0) {
    throw query.fault('metric', 'is missing, and the experiment has no metrics. Send a metric')
  }
  if (nodes.length > EXPERIMENT_METRICS_MAX) {
    throw query.fault(
      'experiment.metrics',
      `and \`metrics_secondary\` may have at most ${EXPERIMENT_METRICS_MAX} metrics together. Send one query for each metric, with \`metric\``,
    )
  }
  const exposure = readExposurePlan(experiment, facts.startMs, context)
  const { lookbackDays } = experiment.stats
  const planned = nodes.map((node) => readMetric(node, lookbackDays, context))
  // Refuse too many hours or days before any event is scanned.
  for (const { counted } of planned) if (counted.of === 'returns') returnPeriods(counted, exposure)
  return {
    exposure,
    facts,
    metrics: planned,
    primaryCount: isSingle ? 1 : metrics.length,
    isSingle,
  }
}

/** Reads an `ExperimentExposureQuery`. Throws 400 `invalid_query`. */
export function planExposures(query: QueryFields, context: QueryContext): ExposureQueryPlan {
  const experiment = experimentOf(query, context)
  const facts = factsOf(experiment, context)
  const exposure = facts === null ? null : readExposurePlan(experiment, facts.startMs, context)
  // Refuse too many days before any event is scanned.
  if (exposure !== null) bucketsOf(exposure.range)
  return { exposure, facts, variants: variantKeys(experiment) }
}

/**
 * Returns the range of all events that a query needs. It begins before the exposures if CUPED is used, and ends after
 * the exposures if a metric has a window.
 */
export function rangeOfPlan({ exposure, metrics }: ExperimentPlan): DateRange {
  const { fromMs, toMs } = exposure.range
  const lookbacks = metrics.map(({ counted }) => ('lookbackMs' in counted ? counted.lookbackMs : 0))
  return {
    fromMs: fromMs - Math.max(0, ...lookbacks.map((lookbackMs) => lookbackMs ?? 0)),
    toMs: toMs + Math.max(0, ...metrics.map(({ counted }) => tailMs(counted))),
  }
}

/** Returns how long after the end of an experiment events are still counted, in milliseconds. */
export function tailMs(counted: CountedMetric): number {
  const windowMs = counted.windowMs ?? 0
  return counted.of === 'returns' ? windowMs + (counted.to + 1) * unitMs(counted.unit) : windowMs
}

/**
 * Returns the days or hours, in the time zone of the project, that make up the window of a retention metric. Returns
 * null if the window is measured in time since the start event. Throws 400 `query_too_large`.
 */
export function returnPeriods(
  counted: Extract<CountedMetric, { of: 'returns' }>,
  { range }: ExposurePlan,
): Periods | null {
  const { unit } = counted
  if ((unit !== 'day' && unit !== 'hour') || range.fromMs > range.toMs) return null
  return bucketsOf({ ...range, toMs: range.toMs + tailMs(counted), interval: unit })
}

/** Returns the length of a unit in milliseconds. */
export function unitMs(unit: ExperimentTimeUnit): number {
  return UNIT_MS[unit]
}

function factsOf(
  experiment: ExperimentDefinition,
  { nowMs }: QueryContext,
): ExperimentFacts | null {
  const { variants, holdout, groupTypeIndex, exposure, startMs, endMs, stats } = experiment
  if (startMs === null) return null
  const isFirstSeen = exposure.multipleVariantHandling === 'first_seen'
  const isRunning = endMs === null || endMs > nowMs
  return { variants, holdout, isFirstSeen, groupTypeIndex, startMs, endMs, isRunning, stats }
}

function variantKeys({ variants, holdout }: ExperimentDefinition): readonly string[] {
  const keys = variants.map(({ key }) => key)
  return holdout === null || keys.includes(holdout.variant) ? keys : [...keys, holdout.variant]
}

function readExposurePlan(
  experiment: ExperimentDefinition,
  startMs: number,
  context: QueryContext,
): ExposurePlan {
  const { flagKey, groupTypeIndex, exposure, endMs } = experiment
  const { timezone, nowMs } = context
  const variants = variantKeys(experiment)
  const { event } = exposure
  const isCall = event === null || (event.kind === 'EventsNode' && event.event === FLAG_CALLED)
  const variantKey = isCall ? '$feature_flag_response' : `$feature/${flagKey}`
  const match = matchOf(
    eventFields(event ?? { kind: 'EventsNode', event: FLAG_CALLED }, 'exposure_criteria'),
    context,
  )
  const isVariant = isOneOf(variantKey, variants)
  const own = isCall ? [isOneOf('$feature_flag', [flagKey]), isVariant] : [isVariant]
  const filter = allOf([match.filter, { type: 'AND', values: own }])
  const tests = exposure.filterTestAccounts
    ? readStoredFilters(context.testAccountFilters, 'test_account_filters')
    : null
  // The end of the day makes the plan the same all day, so results can be cached.
  const toMs = endMs ?? endMomentOf(endOfDay(wallOf(nowMs, timezone)), timezone)
  return {
    match: { ...match, filter },
    variantKey,
    variants,
    groupTypeIndex,
    filter: tests,
    range: {
      fromMs: startMs,
      toMs,
      interval: 'day',
      timezone,
      isExplicit: true,
      start: 'absolute',
      isWeekAligned: false,
    },
  }
}

function isOneOf(key: string, value: readonly string[]): PropertyFilter {
  return { key, type: 'event', operator: 'exact', value: [...value] }
}

/**
 * Reads a metric. `lookbackDays` is the length of the period before the exposure, or null if CUPED is not used. Throws
 * 400 `invalid_query`.
 */
export function readMetric(
  node: QueryFields,
  lookbackDays: number | null,
  context: QueryContext,
): MetricPlan {
  node.refuse('breakdownFilter')
  const kind = node.text('kind')
  if (kind !== null && kind !== 'ExperimentMetric') {
    throw node.fault('kind', 'must be ExperimentMetric')
  }
  if (node.value('metric_type') === undefined) {
    throw node.fault('metric_type', 'is missing. Send funnel, mean, ratio or retention')
  }
  const type = node.choice('metric_type', ['funnel', 'mean', 'ratio', 'retention'])
  const lookbackMs = lookbackDays === null ? null : lookbackDays * DAY_MS
  const { outliers, threshold } = readOutliers(node, type)
  return {
    uuid: node.text('uuid'),
    name: node.text('name') ?? '',
    type,
    goal: node.choice('goal', ['increase', 'decrease']),
    metric: node.json,
    counted: readCounted(node, type, lookbackMs, context),
    outliers,
    threshold,
  }
}

function readCounted(
  node: QueryFields,
  type: MetricPlan['type'],
  lookbackMs: number | null,
  context: QueryContext,
): CountedMetric {
  const windowMs = readWindow(node)
  switch (type) {
    case 'funnel': {
      const order = node.choice('funnel_order_type', ORDERS)
      const steps = node.objects('series')
      if (steps.length === 0 || steps.length > QUERY_SERIES_MAX) {
        throw node.fault('series', `must be a list of 1 to ${QUERY_SERIES_MAX} events or actions`)
      }
      return {
        of: 'steps',
        steps: steps.map((step) => matchOf(step, context)),
        order,
        windowMs,
        lookbackMs: order === 'unordered' ? null : lookbackMs,
      }
    }
    case 'mean': {
      const sources = [readSource(node, 'source', context)]
      return { of: 'values', sources, windowMs, lookbackMs }
    }
    case 'ratio': {
      const sources = [
        readSource(node, 'numerator', context),
        readSource(node, 'denominator', context),
      ]
      return { of: 'values', sources, windowMs, lookbackMs: null }
    }
    case 'retention': {
      const unit = node.choice('retention_window_unit', UNITS)
      const longest = Math.floor((EXPERIMENT_WINDOW_DAYS_MAX * DAY_MS) / unitMs(unit))
      const from = node.whole('retention_window_start', 0, longest)
      const to = node.whole('retention_window_end', 0, longest)
      if (from === null || to === null || to < from) {
        throw node.fault('retention_window_end', 'must be at least `retention_window_start`')
      }
      return {
        of: 'returns',
        start: matchOf(sourceFields(node, 'start_event'), context),
        completion: matchOf(sourceFields(node, 'completion_event'), context),
        isLastStart: node.choice('start_handling', ['first_seen', 'last_seen']) === 'last_seen',
        unit,
        from,
        to,
        windowMs,
      }
    }
  }
}

/** Reads the conversion window. Null and 0 both mean that events count until the end of the experiment. */
function readWindow(node: QueryFields): number | null {
  const unit = node.choice('conversion_window_unit', UNITS)
  const longest = Math.floor((EXPERIMENT_WINDOW_DAYS_MAX * DAY_MS) / unitMs(unit))
  const count = node.whole('conversion_window', 0, longest) ?? 0
  return count === 0 ? null : count * unitMs(unit)
}

function sourceFields(node: QueryFields, name: string): QueryFields {
  if (isObject(node.value(name))) return node.within(name)
  throw node.fault(name, 'is missing. Send an event or an action')
}

function readSource(node: QueryFields, name: string, context: QueryContext): CountedSource {
  const source = sourceFields(node, name)
  source.refuse('math_hogql', 'math_multiplier', 'math_property_revenue_currency')
  const math = source.choice('math', MATHS)
  source.choice('math_property_type', ['event_properties'])
  const isNumber = NUMBER_MATHS.includes(math)
  const key = isNumber ? (source.text('math_property') ?? '') : null
  if (key === '') {
    const what = `is missing. Send the property that \`${math}\` is computed from`
    throw source.fault('math_property', what)
  }
  return { match: matchOf(source, context), math, key }
}

/** Reads an event or an action with its filters. A null name means every event. A missing name is an error. */
function matchOf(node: QueryFields, context: QueryContext): SeriesMatch {
  const series = readSeriesNode(node, 0, context)
  if (!series.exists) {
    throw node.fault(
      'id',
      'refers to an action that does not exist. Take its number from the list of actions',
    )
  }
  const isEvery = Object.hasOwn(node.json, 'event') && node.json['event'] === null
  if (series.type === 'events' && !isEvery && (series.id ?? '') === '') {
    throw node.fault('event', 'is missing. Send the name of an event, or null for all events')
  }
  return series.match
}

function eventFields({ kind, event, id, properties }: ExperimentEvent, path: string): QueryFields {
  const own = kind === 'EventsNode' ? { kind, event } : { kind, id }
  return new QueryFields({ ...own, properties }, `${path}.exposure_config`)
}

function readOutliers(
  node: QueryFields,
  type: MetricPlan['type'],
): Pick<MetricPlan, 'outliers' | 'threshold'> {
  if (type === 'ratio') {
    const numerator = readOutlier(node.within('numerator_outlier_handling'))
    const denominator = readOutlier(node.within('denominator_outlier_handling'))
    return { outliers: [numerator, denominator], threshold: null }
  }
  if (type !== 'mean') return { outliers: [], threshold: null }
  const outlier = readOutlier(node)
  const threshold = node.number('threshold')
  if (threshold !== null && (outlier.low ?? outlier.high) !== null) {
    const bounds = '`lower_bound_percentile` or `upper_bound_percentile`'
    throw node.fault('threshold', `must be left out if ${bounds} is sent`)
  }
  return { outliers: [outlier], threshold }
}

function readOutlier(node: QueryFields): OutlierPlan {
  const low = readShare(node, 'lower_bound_percentile')
  const high = readShare(node, 'upper_bound_percentile')
  if (low !== null && high !== null && low >= high) {
    throw node.fault('upper_bound_percentile', 'must be greater than `lower_bound_percentile`')
  }
  return { low, high, ignoresZeros: node.boolean('ignore_zeros') }
}

function readShare(node: QueryFields, name: string): number | null {
  const share = node.number(name)
  if (share === null || (share >= 0 && share <= 1)) return share
  throw node.fault(name, 'must be a number from 0 to 1, such as 0.99')
}
