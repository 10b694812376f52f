/**
 * The facts about an experiment that its result is computed from: the flag, its variants, who counts as exposed, when
 * it ran, and how its metrics are computed. The metrics have the JSON form of the API. The definition is plain data
 * that may be sent to other threads. Source: docs/compatibility/queries.md, "ExperimentQuery".
 *
 * `readExperiment` (rules/queries/experiments/read-experiment.ts) makes a definition from the JSON of an experiment,
 * and throws 400 if the JSON is faulty. A query names a stored experiment by `experiment_id`.
 * `QueryContext.experiment(id)` returns its definition, or null if the project has no such experiment.
 */

/** A moment, in milliseconds since 1970. */
type Ms = number

/** A variant of the flag. */
export interface ExperimentVariant {
  readonly key: string
  /** The share of the persons who get the variant, from 0 to 100. */
  readonly rolloutPercentage: number
}

/** A holdout: persons who get none of the variants. They are counted like one more variant. */
export interface ExperimentHoldout {
  /** The value that the flag has for these persons, such as `holdout-3`. */
  readonly variant: string
  /** The percentage of all persons who are in the holdout, from 0 to 100. The others are divided among the variants. */
  readonly percentage: number
}

/** An event or an action with filters. The property filters have the same shapes as in other queries. */
export interface ExperimentEvent {
  readonly kind: 'EventsNode' | 'ActionsNode'
  /** The name of the event. Null means any event. Absent for an action. */
  readonly event?: string | null
  /** The id of the action. Absent for an event. */
  readonly id?: number
  readonly properties?: readonly unknown[]
}

/** The ways in which a mean or ratio metric computes a value from the events of each person. */
export type ExperimentMath = 'total' | 'sum' | 'avg' | 'min' | 'max' | 'unique_session' | 'dau'

/** An event or an action with the value that is read from it. */
export interface ExperimentSource extends ExperimentEvent {
  /** How the events of a person become a value. Default: `total`, the number of events. */
  readonly math?: ExperimentMath
  /** The numeric property that `sum`, `avg`, `min` and `max` read. */
  readonly math_property?: string
}

/** The rules by which a person counts as exposed to the experiment. */
export interface ExperimentExposure {
  /**
   * The event that exposes a person. Null means the default: `$feature_flag_called` with the key of the flag in
   * `$feature_flag`.
   */
  readonly event: ExperimentEvent | null
  /**
   * What happens to a person who was exposed to several variants: the person is left out, or counts for the first one.
   */
  readonly multipleVariantHandling: 'exclude' | 'first_seen'
  readonly filterTestAccounts: boolean
}

/** How results are computed. */
export interface ExperimentStats {
  /**
   * The method that computes those members of an answer that PostHog's clients read. The members that only Tenrec has
   * contain the results of both methods.
   */
  readonly method: 'bayesian' | 'frequentist'
  /** The probability of a false statement, for example 0.05. */
  readonly alpha: number
  /**
   * The planned number of exposed persons. Always-valid intervals are narrowest at this number. Null: nothing is
   * planned.
   */
  readonly horizonPersons: number | null
  /**
   * The number of days before the exposure from which events are used to make intervals narrower (CUPED). Null: no
   * events from before the exposure are used.
   */
  readonly lookbackDays: number | null
  /**
   * The smallest relative change that the experiment should be able to find. 0.1 means 10 %. Null: nothing is planned.
   */
  readonly minimumDetectableEffect: number | null
}

/** A unit of time. */
export type ExperimentTimeUnit = 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month'

interface MetricBase {
  readonly kind?: 'ExperimentMetric'
  readonly uuid?: string
  readonly name?: string
  /** The direction of the metric that is better. Default: `increase`. */
  readonly goal?: 'increase' | 'decrease'
  /**
   * The length of time after the exposure for which events count. Absent: they count until the end of the experiment.
   */
  readonly conversion_window?: number
  readonly conversion_window_unit?: ExperimentTimeUnit
}

/** The percentiles of the values, as shares from 0 to 1, at which smaller and larger values are cut off. */
export interface OutlierHandling {
  readonly lower_bound_percentile?: number
  readonly upper_bound_percentile?: number
  /** True if persons with the value 0 are left out when the percentiles are computed. */
  readonly ignore_zeros?: boolean
}

/** A metric whose value is the share of the exposed persons who did all steps. */
export interface FunnelMetric extends MetricBase {
  readonly metric_type: 'funnel'
  readonly series: readonly ExperimentEvent[]
  /** Whether the steps must happen in this order. Default: `ordered`. */
  readonly funnel_order_type?: 'ordered' | 'strict' | 'unordered'
}

/** A metric whose value is the mean of the values of all exposed persons. */
export interface MeanMetric extends MetricBase, OutlierHandling {
  readonly metric_type: 'mean'
  readonly source: ExperimentSource
  /** If present, the metric is instead the share of the persons whose value is at least this. */
  readonly threshold?: number
}

/**
 * A metric whose value is the sum of the numerators of all exposed persons divided by the sum of their denominators.
 */
export interface RatioMetric extends MetricBase {
  readonly metric_type: 'ratio'
  readonly numerator: ExperimentSource
  readonly denominator: ExperimentSource
  readonly numerator_outlier_handling?: OutlierHandling
  readonly denominator_outlier_handling?: OutlierHandling
}

/**
 * A metric about the exposed persons with a start event. Its value is the share of them who have a completion event in
 * a time window after the start event.
 */
export interface RetentionMetric extends MetricBase {
  readonly metric_type: 'retention'
  readonly start_event: ExperimentEvent
  readonly completion_event: ExperimentEvent
  readonly retention_window_start: number
  readonly retention_window_end: number
  readonly retention_window_unit: ExperimentTimeUnit
  readonly start_handling: 'first_seen' | 'last_seen'
}

/** A metric with the shape of PostHog's `ExperimentMetric`. */
export type ExperimentMetric = FunnelMetric | MeanMetric | RatioMetric | RetentionMetric

/** An experiment in the form from which results are computed. */
export interface ExperimentDefinition {
  /** The id of the experiment. Null if the experiment is not stored. */
  readonly id: number | null
  readonly name: string
  readonly flagKey: string
  /** The variants, at least two. The first one is the baseline, whose key is usually `control`. */
  readonly variants: readonly ExperimentVariant[]
  readonly holdout: ExperimentHoldout | null
  /** The index of the group type whose groups are counted in place of persons. Null for persons. */
  readonly groupTypeIndex: number | null
  readonly exposure: ExperimentExposure
  /** The start of the experiment. Null: it has not started. */
  readonly startMs: Ms | null
  /** The end of the experiment, not before `startMs`. Null: it is still running. */
  readonly endMs: Ms | null
  readonly stats: ExperimentStats
  /** The primary metrics. Their p-values are corrected together. */
  readonly metrics: readonly ExperimentMetric[]
  /** The secondary metrics. Their p-values are corrected together. */
  readonly secondaryMetrics: readonly ExperimentMetric[]
}
