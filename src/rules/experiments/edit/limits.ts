/** The limits of rules/experiments/edit, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of experiments of a project. When a further one is created, the experiment that was deleted first
 * is removed permanently. If no experiment is deleted, the answer is 400 `invalid_input`.
 * @user Experiments
 */
export const EXPERIMENTS_MAX = 2000
/**
 * The largest number of holdouts of a project. A further one is answered 400 `invalid_input`.
 * @user Experiments
 */
export const HOLDOUTS_MAX = 100
/**
 * The largest number of saved metrics of a project. A further one is answered 400 `invalid_input`.
 * @user Experiments
 */
export const SAVED_METRICS_MAX = 500
/**
 * The largest number of variants of an experiment. More are answered 400 `invalid_input`.
 * @user Experiments
 */
export const STORED_VARIANTS_MAX = 20
/**
 * The largest number of metrics in each list of an experiment: primary, secondary and guard metrics. Its saved metrics
 * count, too. More are answered 400 `invalid_input`.
 * @user Experiments
 */
export const METRICS_OF_LIST_MAX = 20
/**
 * The largest number of steps of a funnel metric. More are answered 400 `invalid_input`.
 * @user Experiments
 */
export const METRIC_STEPS_MAX = 20
/**
 * The largest number of UTF-16 units of JSON in each list of metrics, in a saved metric, in `parameters`, in
 * `exposure_criteria` and in `stats_config`. More are answered 400 `invalid_input`.
 * @user Experiments
 */
export const EXPERIMENT_MEMBER_UNITS_MAX = 64 * 1024
/**
 * The largest number of characters in the name of an experiment, a holdout or a saved metric. A longer name is answered 400
 * `max_length`.
 * @user Experiments
 */
export const EXPERIMENT_NAME_CHARACTERS_MAX = 400
/**
 * The largest number of characters in the description of an experiment, a holdout or a saved metric, and in the comment of a
 * conclusion. A longer text is answered 400 `max_length`.
 * @user Experiments
 */
export const EXPERIMENT_DESCRIPTION_CHARACTERS_MAX = 3000
/**
 * The largest number of entries in the list of changes that were made while an experiment was running. Beyond it, the
 * oldest entries are left out.
 * @user Experiments
 */
export const RUNNING_CHANGES_MAX = 50
/**
 * The time by which the clock of a client may be ahead when it sets the start or the end of an experiment. A later time
 * is answered 400 `invalid_input`.
 * @user Experiments
 */
export const EXPERIMENT_AHEAD_MS_MAX = 600_000
