/**
 * Experiments and holdouts as they are stored. Their fields have the names that clients use. Source:
 * docs/compatibility/experiments.md, "Fields".
 */
import type { JsonObject } from '../../../base/json.ts'
import type { Saved } from '../../saved/saved.ts'

/** The judgments that a person can pass on an experiment that has ended. */
export const CONCLUSIONS = ['won', 'lost', 'inconclusive', 'stopped_early', 'invalid'] as const

/** The states of an experiment. A paused experiment has the state `running`, and its flag is off. */
export const EXPERIMENT_STATUSES = ['draft', 'running', 'stopped'] as const

/** One of `EXPERIMENT_STATUSES`. */
export type ExperimentStatus = (typeof EXPERIMENT_STATUSES)[number]

/** The kinds of changes that can spoil the result of a running experiment. */
export const RUNNING_CHANGES = [
  'variants',
  'conditions',
  'holdout',
  'flag',
  'paused',
  'resumed',
  'metrics',
  'exposure_criteria',
  'stats_config',
  'start_date',
] as const

/** A change that was made while the experiment was running. */
export interface RunningChange {
  /** The time of the change, in ISO 8601 with `Z`. */
  readonly at: string
  /** The user who made the change. Null if a command made it. */
  readonly userId: number | null
  readonly change: (typeof RUNNING_CHANGES)[number]
}

/** A variant of a flag, in the form in which flags store it. */
export interface FlagVariant {
  readonly key: string
  readonly name?: string | null
  /** The share of the persons who get the variant, from 0 to 100. */
  readonly rollout_percentage: number
}

/** The use of a saved metric by an experiment. */
export interface MetricLink {
  readonly id: number
  /** The number of the saved metric. */
  readonly saved_metric: number
  /** The member `type` of the metadata is `primary`, `secondary` or `guard`. */
  readonly metadata: JsonObject
  readonly created_at: string
}

/** The fields of an experiment. Times are texts in ISO 8601 that end with `Z`. */
export interface ExperimentFields {
  readonly name: string
  readonly description: string | null
  readonly type: 'product' | 'web'
  /** The id of the flag. */
  readonly flag_id: number
  /**
   * The key that the flag had when the experiment was deleted after its launch. It is stored because the flag of a
   * deleted experiment may be renamed. If it is absent or null, the flag still has the key under which the result is
   * counted.
   */
  readonly flag_key?: string | null
  readonly holdout_id: number | null
  readonly exposure_criteria: JsonObject | null
  /** The members of `parameters` without the variants and the group type. */
  readonly parameters: JsonObject
  /** The variants that the experiment was launched with. Null for a draft, which has the variants of its flag. */
  readonly variants: readonly FlagVariant[] | null
  /**
   * The index of the group type whose groups got the variants at the launch. If it is absent or null, persons got them.
   * For a draft, the group type of its flag is used instead.
   */
  readonly group_type_index?: number | null
  readonly metrics: readonly JsonObject[]
  readonly metrics_secondary: readonly JsonObject[]
  readonly metrics_guard: readonly JsonObject[]
  /** Absent in experiments that were stored before there were saved metrics. */
  readonly saved_metrics?: readonly MetricLink[]
  /** The number of the cohort of the exposed persons. Absent or null if there is none. */
  readonly exposure_cohort?: number | null
  readonly stats_config: JsonObject | null
  readonly start_date: string | null
  readonly end_date: string | null
  readonly archived: boolean
  readonly conclusion: (typeof CONCLUSIONS)[number] | null
  readonly conclusion_comment: string | null
  /** The changes while the experiment was running, oldest first. */
  readonly running_changes: readonly RunningChange[]
}

/** The fields of a holdout. */
export interface HoldoutFields {
  readonly name: string
  readonly description: string | null
  /** The percentage of all persons who get none of the variants, from 0 to 100. */
  readonly percentage: number
}

/** The fields of a saved metric. */
export interface SavedMetricFields {
  readonly name: string
  readonly description: string | null
  /** The metric, with a UUID of its own. */
  readonly metric: JsonObject
  /** Absent in saved metrics that were stored before they had tags. */
  readonly tags?: readonly string[]
}

/** An experiment. */
export type Experiment = Saved<ExperimentFields>

/** A group of persons, chosen at random, who are kept out of the experiments that use the holdout. */
export type Holdout = Saved<HoldoutFields>

/** A metric that several experiments can use. A change of it changes the results of all of them. */
export type SavedMetric = Saved<SavedMetricFields>

/** An experiment with its holdout and the saved metrics that it uses. */
export interface ExperimentView {
  readonly experiment: Experiment
  readonly holdout: Holdout | null
  readonly savedMetrics: readonly SavedMetric[]
}

/** Returns the state of an experiment. */
export function statusOf({
  start_date,
  end_date,
}: Pick<ExperimentFields, 'start_date' | 'end_date'>): ExperimentStatus {
  if (start_date === null) return 'draft'
  return end_date === null ? 'running' : 'stopped'
}

/** Returns the flag key under which the exposures of an experiment are counted. */
export function countedKey(
  { flag_key: key = null }: Pick<ExperimentFields, 'flag_key'>,
  flag: { readonly key: string },
): string {
  return key ?? flag.key
}

/** Returns whether an experiment is running, so that changes of the experiment or its flag can spoil its result. */
export function isRunning({ fields, isDeleted }: Experiment): boolean {
  return !isDeleted && statusOf(fields) === 'running'
}

/** Returns the value that flags have for the persons of a holdout. */
export function holdoutVariant(holdoutId: number): string {
  return `holdout-${holdoutId}`
}
