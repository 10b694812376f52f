/** The limits of rules/analytics: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Properties or cohorts of one breakdown. More: 400 `invalid_input`. */
export const BREAKDOWN_KEYS_MAX = 10
/** Periods of one query. More: 400 `invalid_input`. */
export const PERIODS_MAX = 200_000
/** Persons of a page. A larger limit is taken for this one. */
export const QUESTION_ROWS_MAX = 10_000
/** Periods of one cohort. More: 400 `invalid_input`. */
export const RETENTION_INTERVALS_MAX = 1000
/** Values that are told apart; the others are one value of this name. */
export const FUNNEL_VALUES_MAX = 25
/** Exclusions of one funnel. More: 400 `invalid_input`. */
export const FUNNEL_EXCLUSIONS_MAX = 10
/** Units of a window. More: 400 `invalid_input`. */
export const FUNNEL_WINDOW_COUNT_MAX = 1_000_000
/** Steps that may be chosen one by one. More: 400 `invalid_input`. */
export const FUNNEL_CUSTOM_STEPS_MAX = 100
/** Characters, times the size of a pattern, that cleaning may look at. More: 400 `query_too_large`. */
export const PATH_CLEANING_UNITS_MAX = 1_000_000_000
/** Names or patterns of one list. More: 400 `invalid_input`. */
export const PATH_TEXTS_MAX = 200
/** Characters of a name or pattern. More: 400 `invalid_input`. */
export const PATH_TEXT_UNITS_MAX = 2000
/** Items of a path. More: 400 `invalid_input`. */
export const PATH_STEP_LIMIT_MAX = 1000
