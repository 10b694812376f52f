/** The limits of rules/filters, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of elements in the chain of a clicked element that filters read, from the clicked one outwards.
 * Further elements are ignored.
 */
export const ELEMENTS_MAX = 200
/**
 * The largest number of UTF-16 units in a CSS selector. A longer selector matches nothing.
 * @user Cohorts, actions and filters
 */
export const SELECTOR_UNITS_MAX = 1000
/**
 * The largest number of regular expressions in one flag, cohort or action. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const PATTERNS_MAX = 200
/**
 * The largest number of UTF-16 units of all regular expressions in one flag, cohort or action together. More are
 * answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const PATTERN_UNITS_SUM_MAX = 5000
/** The largest number of UTF-16 units of an unknown operator that an error quotes. The rest is cut off. */
export const QUOTED_UNITS_MAX = 40
/**
 * The largest number of filters in one filter tree of a list, cohort or analytic request. More are answered 400
 * `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const TREE_FILTERS_MAX = 100
/**
 * The largest number of filter groups that may be nested in a list of persons or an analytic request. A deeper tree is
 * answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const TREE_LIST_DEPTH_MAX = 5
/**
 * The largest number of filter groups that may be nested in a cohort. A deeper tree is answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const TREE_COHORT_DEPTH_MAX = 2
/**
 * The largest number of cohorts in a chain in which each refers to the next one. A cohort with a longer chain has no
 * members.
 * @user Cohorts, actions and filters
 */
export const PERSON_COHORT_DEPTH_MAX = 10
/**
 * The largest number of filters on behavior in one cohort. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const BEHAVIORS_MAX = 20
/**
 * The largest number of events in a filter on behavior, such as "at least 5 times". A larger number is answered 400
 * `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const BEHAVIOR_COUNT_MAX = 1_000_000
/**
 * The largest number of periods in a filter on regular behavior. More are answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const BEHAVIOR_PERIODS_MAX = 100
/**
 * The largest number of years that a filter on behavior looks back. A longer time is answered 400 `invalid_input`.
 * @user Cohorts, actions and filters
 */
export const BEHAVIOR_YEARS_MAX = 100
/**
 * The largest depth of nested lists and objects whose keys are sorted when values are compared. Deeper objects are only
 * equal if their keys are in the same order.
 */
export const SORTED_DEPTH_MAX = 128
/**
 * The largest number of UTF-16 units in a version that a filter compares. A longer text does not count as a version.
 */
export const VERSION_UNITS_MAX = 256
/**
 * The largest number of bytes of a search text that are searched for in the stored bytes of a property. Of a longer
 * search text, only a part is searched for. Where the part is found, the property is decoded and tested.
 */
export const NEEDLE_BYTES_MAX = 1024
/** The number of bytes that the search in long texts copies into the memory of its WebAssembly module at once. */
export const SEARCH_CHUNK_BYTES = 32 * 1024
