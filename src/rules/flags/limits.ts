/** The limits of rules/flags, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of flags that may change at once before the compiled set of flags is rebuilt completely. */
export const COMPILED_CHANGES_MAX = 32
/**
 * The largest number of filter groups that may be nested in a cohort that a flag uses. A cohort with a deeper tree
 * cannot be evaluated for flags.
 */
export const FLAG_COHORT_TREE_DEPTH_MAX = 2
/**
 * The largest number of flags that must be evaluated before a flag. If there are more, SDKs that evaluate flags locally
 * ask the server instead.
 */
export const FLAG_CHAIN_MAX = 100
/**
 * The largest number of values, at any depth, within a list or object that filters of flags compare. A flag that
 * compares a larger one fails with `pattern_limit`.
 * @user Flags
 */
export const COMPARED_VALUES_MAX = 1000
/**
 * The largest number of cohorts in a chain in which each refers to the next one, when a flag is evaluated. A cohort
 * further along the chain counts as unavailable.
 */
export const FLAG_COHORT_DEPTH_MAX = 50
/**
 * Several lookups of flags share one map, and each of them stores only the flags in which it differs from the map. If
 * more flags than this differ, the lookup gets a map of its own.
 */
export const LOOKUP_CHANGES_MAX = 128
/**
 * The largest distance from 1970, in either direction, of a moment that a JavaScript date can represent. A value beyond
 * it does not count as a time.
 */
export const TIME_MS_MAX = 8.64e15
/**
 * The largest number of examples of affected persons or groups that the rehearsal of a flag shows. Further ones are
 * only counted.
 */
export const REHEARSAL_EXAMPLES_MAX = 20
/**
 * The largest number of different changes of value, with the conditions that cause them, that a rehearsal shows. Less
 * frequent ones are left out.
 */
export const REHEARSAL_FLIPS_MAX = 100
/**
 * The largest number of bytes of JSON in the filters of one flag. Larger filters are answered 400 `invalid_input`.
 * @user Flags
 */
export const FLAG_FILTERS_BYTES_MAX = 1024 * 1024
/**
 * The largest number of values in the list of one property filter of a flag. More are answered 400 `invalid_input`. Use
 * a cohort instead.
 * @user Flags
 */
export const FLAG_LISTED_VALUES_MAX = 1000
/** The largest number of UTF-16 units of a value that a sentence of a plan shows. The rest is cut off. */
export const PLAN_SENTENCE_UNITS_MAX = 300
/** The highest index of a group type in a flag. A higher one is answered 400 `invalid_input`. */
export const FLAG_GROUP_INDEX_MAX = 4
/**
 * The largest number of filters that can never match that `status_details` of a flag shows. Further ones are left out.
 */
export const FLAG_FAULTS_SHOWN_MAX = 20
/** The largest number of dependent flags that are named in an error. Further ones are counted. */
export const DEPENDENTS_NAMED_MAX = 5
/**
 * The largest number of UTF-16 units of JSON of the old and the new value of a changed field of a flag together. Larger
 * values are left out of the activity log.
 */
export const FLAG_CHANGE_UNITS_MAX = 256 * 1024
/**
 * The largest number of characters in the key of a flag. A longer key is answered 400 `max_length`.
 * @user Flags
 */
export const FLAG_KEY_CHARACTERS_MAX = 400
/**
 * The largest number of UTF-16 units in the name of a flag. A longer name is answered 400 `max_length`.
 * @user Flags
 */
export const FLAG_NAME_UNITS_MAX = 65_536
/**
 * The largest number of UTF-16 units in the reason (`note`) of a change of a flag. A longer one is answered 400
 * `max_length`.
 * @user Flags
 */
export const FLAG_NOTE_UNITS_MAX = 2000
/**
 * The largest number of tags or evaluation contexts of a flag. More are answered 400 `invalid_input`.
 * @user Flags
 */
export const FLAG_TAGS_MAX = 200
/**
 * The largest number of UTF-16 units in a tag or evaluation context of a flag. A longer one is answered 400
 * `max_length`.
 * @user Flags
 */
export const FLAG_TAG_UNITS_MAX = 255
/**
 * The largest number of dashboards of a flag. More are answered 400 `invalid_input`.
 * @user Flags
 */
export const FLAG_DASHBOARDS_MAX = 1000
/**
 * The largest number of bytes of JSON in the rollback conditions of a flag. More are answered 400 `invalid_input`.
 * @user Flags
 */
export const FLAG_ROLLBACK_BYTES_MAX = 65_536
/**
 * The largest number of steps of a ramp. More are answered 400 `invalid_input`.
 * @user Flags
 */
export const RAMP_STEPS_MAX = 20
/**
 * The largest number of guards of a ramp. More are answered 400 `invalid_input`.
 * @user Flags
 */
export const RAMP_GUARDS_MAX = 5
/**
 * The largest number of UTF-16 units of JSON in the payload of a scheduled change. A larger one is answered 400
 * `invalid_input`.
 * @user Flags
 */
export const SCHEDULED_PAYLOAD_UNITS_MAX = 65_536
/**
 * The largest number of UTF-16 units in the reason why a scheduled change failed or a ramp was stopped. A longer reason
 * is cut off.
 */
export const SCHEDULED_REASON_UNITS_MAX = 1000
