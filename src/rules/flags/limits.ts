/** The limits of rules/flags: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Flags that may change at once for the set not to be put together anew. */
export const COMPILED_CHANGES_MAX = 32
/** Levels of groups in a tree of filters. */
export const FLAG_COHORT_TREE_DEPTH_MAX = 2
/** Flags that have to be evaluated before a flag. With more, SDKs are made to ask the server. */
export const FLAG_CHAIN_MAX = 100
/** Values within a list or object that filters compare, at any depth. A flag that compares a larger one fails with `pattern_limit`. */
export const COMPARED_VALUES_MAX = 1000
/** Cohorts that ask for each other in a row. One more counts as one that cannot be computed. */
export const FLAG_COHORT_DEPTH_MAX = 50
/** Entries that differ from the common map; with more, a map of its own is made. */
export const LOOKUP_CHANGES_MAX = 128
/** What a date may be at most, either way, as for `Date`. */
export const TIME_MS_MAX = 8.64e15
/** Examples of those for whom a rehearsed change of a flag counts. Further ones are counted only. */
export const REHEARSAL_EXAMPLES_MAX = 20
/** Changes of value, with the conditions that led to them, that a rehearsal tells apart; the most frequent ones. */
export const REHEARSAL_FLIPS_MAX = 100
/** Bytes of the JSON of one flag's filters. More: 400 `invalid_input`. */
export const FLAG_FILTERS_BYTES_MAX = 1024 * 1024
/** Values that one property filter may list. More: 400 `invalid_input`. */
export const FLAG_LISTED_VALUES_MAX = 1000
/** Index of a group type in a flag. Higher: 400. */
export const FLAG_GROUP_INDEX_MAX = 4
/** Cohorts that are looked at to check a flag. Beyond: the others are not checked. */
export const FLAG_COHORTS_VISITED_MAX = 1000
/** Filters that can never match which are shown of a flag. */
export const FLAG_FAULTS_SHOWN_MAX = 20
/** Dependent flags that a refusal names. */
export const DEPENDENTS_NAMED_MAX = 5
/** Bytes of JSON of both values of a change; larger ones are left out of the log. */
export const FLAG_CHANGE_UNITS_MAX = 256 * 1024
/** Characters of the key of a flag. Longer: 400 `max_length`. */
export const FLAG_KEY_CHARACTERS_MAX = 400
/** UTF-16 units of the name of a flag. Longer: 400 `max_length`. */
export const FLAG_NAME_UNITS_MAX = 65_536
/** Tags of a flag. More: 400 `invalid_input`. */
export const FLAG_TAGS_MAX = 200
/** UTF-16 units of a tag of a flag. Longer: 400. */
export const FLAG_TAG_UNITS_MAX = 255
/** Dashboards of a flag. More: 400. */
export const FLAG_DASHBOARDS_MAX = 1000
/** Bytes of the JSON of rollback conditions. More: 400. */
export const FLAG_ROLLBACK_BYTES_MAX = 65_536
