/** The limits of rules/analytics, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of properties or cohorts in one breakdown of an analytic request. More are answered 400
 * `invalid_input`.
 * @user Queries
 */
export const BREAKDOWN_KEYS_MAX = 10
/**
 * The largest number of periods in one analytic request. More are answered 400 `invalid_input`.
 * @user Queries
 */
export const PERIODS_MAX = 200_000
/**
 * The largest number of persons on a page of an analytic request. A larger limit is treated as this one.
 * @user Queries
 */
export const QUESTION_ROWS_MAX = 10_000
/**
 * The largest number of periods (`total_intervals`) over which retention follows the persons who began in one period.
 * More are answered 400 `invalid_input`.
 * @user Queries
 */
export const RETENTION_INTERVALS_MAX = 1000
/**
 * The largest number of values that the breakdown of a funnel shows one by one. All further values are shown as one
 * value.
 * @user Queries
 */
export const FUNNEL_VALUES_MAX = 25
/**
 * The largest number of exclusions of one funnel. More are answered 400 `invalid_input`.
 * @user Queries
 */
export const FUNNEL_EXCLUSIONS_MAX = 10
/**
 * The largest number of units (such as days) in the conversion window of a funnel. More are answered 400
 * `invalid_input`.
 * @user Queries
 */
export const FUNNEL_WINDOW_COUNT_MAX = 1_000_000
/**
 * The largest number of steps in `funnel_custom_steps`. More are answered 400 `invalid_input`.
 * @user Queries
 */
export const FUNNEL_CUSTOM_STEPS_MAX = 100
/**
 * The largest amount of work for cleaning paths in one query: the number of searched characters, multiplied by the
 * sizes of the compiled patterns. A query with more is answered 400 `query_too_large`.
 * @user Queries
 */
export const PATH_CLEANING_UNITS_MAX = 1_000_000_000
/**
 * The largest number of names or patterns in one list of a paths query. More are answered 400.
 * @user Queries
 */
export const PATH_TEXTS_MAX = 200
/**
 * The largest number of UTF-16 units in a name or pattern of a paths query. A longer one is answered 400.
 * @user Queries
 */
export const PATH_TEXT_UNITS_MAX = 2000
/**
 * The largest number of items in a path (`step_limit`). A larger number is answered 400 `invalid_input`.
 * @user Queries
 */
export const PATH_STEP_LIMIT_MAX = 1000
