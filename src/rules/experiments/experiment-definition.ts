/**
 * What a result needs to know of an experiment: the flag, its variants, who counts as exposed, when it ran, and how its
 * metrics are computed. The metrics keep the shapes of the wire. Plain data that may cross threads. Source:
 * docs/compatibility/queries.md,
 * "ExperimentQuery".
 *
 * `readExperiment` (rules/queries/experiments/read-experiment.ts) makes a definition of an experiment on the wire, and
 * throws 400 for a faulty one. A query names its experiment by `experiment_id`, and `QueryContext.experiment(id)`
 * returns the definition, or null if the project has no such experiment.
 */

/** A time in milliseconds since 1970. */
type Ms = number

/** One variant of the flag. */
export interface ExperimentVariant {
  readonly key: string
  /** A percentage from 0 to 100. */
  readonly rolloutPercentage: number
}

/** A holdout: persons who get none of the variants. They are counted as one more variant. */
export interface ExperimentHoldout {
  /** The value of the flag for these persons, such as `holdout-3`. */
  readonly variant: string
  /** A percentage from 0 to 100. The variants share the rest. */
  readonly percentage: number
}

/** An event or an action, and the filters on it. Property filters have the shapes of every query. */
export interface ExperimentEvent {
  readonly kind: 'EventsNode' | 'ActionsNode'
  /** The name of the event. Null means any event. For actions it is absent. */
  readonly event?: string | null
  /** The number of the action. For events it is absent. */
  readonly id?: number
  readonly properties?: readonly unknown[]
}

/** What a mean or a ratio adds up for each person. */
export type ExperimentMath = 'total' | 'sum' | 'avg' | 'min' | 'max' | 'unique_session' | 'dau'

/** An event or action with the value that is taken from it. */
export interface ExperimentSource extends ExperimentEvent {
  /** Defaults to `total`: the number of events. */
  readonly math?: ExperimentMath
  /** The numeric property of `sum`, `avg`, `min` and `max`. */
  readonly math_property?: string
}

/** The exposure of a person to the experiment. */
export interface ExperimentExposure {
  /** Null is the default: `$feature_flag_called` with the key of the flag in `$feature_flag`. */
  readonly event: ExperimentEvent | null
  /** What happens to persons with several variants. */
  readonly multipleVariantHandling: 'exclude' | 'first_seen'
  readonly filterTestAccounts: boolean
}

/** How results are computed. */
export interface ExperimentStats {
  /** The method of the members that PostHog's clients read. Our own members have both. */
  readonly method: 'bayesian' | 'frequentist'
  /** The probability of a false statement, such as 0.05. */
  readonly alpha: number
  /** The exposed persons at which always-valid intervals are narrowest: the planned size. Null: not planned. */
  readonly horizonPersons: number | null
  /** The length of the period before the exposure that makes intervals narrower (CUPED). Null: not used. */
  readonly lookbackDays: number | null
  /** The smallest relative change that the experiment shall find: 0.1 is 10 %. Null: not planned. */
  readonly minimumDetectableEffect: number | null
}

/** A period of time. */
export type ExperimentTimeUnit = 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month'

interface MetricBase {
  readonly kind?: 'ExperimentMetric'
  readonly uuid?: string
  readonly name?: string
  /** Which direction is better. The default is `increase`. */
  readonly goal?: 'increase' | 'decrease'
  /** Events count for this long after the exposure. Absent: until the end of the experiment. */
  readonly conversion_window?: number
  readonly conversion_window_unit?: ExperimentTimeUnit
}

/** The shares of the values at which extreme values are cut off. */
export interface OutlierHandling {
  readonly lower_bound_percentile?: number
  readonly upper_bound_percentile?: number
  /** True: persons with the value 0 do not count for the percentiles. */
  readonly ignore_zeros?: boolean
}

/** The share of the exposed persons who did all steps. */
export interface FunnelMetric extends MetricBase {
  readonly metric_type: 'funnel'
  readonly series: readonly ExperimentEvent[]
  /** The default is `ordered`. */
  readonly funnel_order_type?: 'ordered' | 'strict' | 'unordered'
}

/** The mean value of an exposed person. */
export interface MeanMetric extends MetricBase, OutlierHandling {
  readonly metric_type: 'mean'
  readonly source: ExperimentSource
  /** If present, the metric is the share of the persons whose value is at least this. */
  readonly threshold?: number
}

/** The sum of the numerators of all exposed persons, divided by the sum of their denominators. */
export interface RatioMetric extends MetricBase {
  readonly metric_type: 'ratio'
  readonly numerator: ExperimentSource
  readonly denominator: ExperimentSource
  readonly numerator_outlier_handling?: OutlierHandling
  readonly denominator_outlier_handling?: OutlierHandling
}

/** Of the exposed persons with a start event, the share of those with a completion event in a window after it. */
export interface RetentionMetric extends MetricBase {
  readonly metric_type: 'retention'
  readonly start_event: ExperimentEvent
  readonly completion_event: ExperimentEvent
  readonly retention_window_start: number
  readonly retention_window_end: number
  readonly retention_window_unit: ExperimentTimeUnit
  readonly start_handling: 'first_seen' | 'last_seen'
}

/** PostHog's `ExperimentMetric`. */
export type ExperimentMetric = FunnelMetric | MeanMetric | RatioMetric | RetentionMetric

/** An experiment as its results see it. */
export interface ExperimentDefinition {
  /** Null for an experiment that is not stored. */
  readonly id: number | null
  readonly name: string
  readonly flagKey: string
  /** At least two. The first one is the baseline; usually its key is `control`. */
  readonly variants: readonly ExperimentVariant[]
  readonly holdout: ExperimentHoldout | null
  readonly exposure: ExperimentExposure
  /** Null: not started. */
  readonly startMs: Ms | null
  /** Null: it runs. Not before `startMs`. */
  readonly endMs: Ms | null
  readonly stats: ExperimentStats
  /** The primary metrics. Their p-values are corrected together. */
  readonly metrics: readonly ExperimentMetric[]
  /** The secondary metrics. Their p-values are corrected together. */
  readonly secondaryMetrics: readonly ExperimentMetric[]
}
