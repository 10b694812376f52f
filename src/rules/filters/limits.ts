/** The limits of rules/filters: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Elements of a chain that are looked at, from the clicked one outwards. */
export const ELEMENTS_MAX = 200
/** Characters of a selector. A longer one matches nothing. */
export const SELECTOR_UNITS_MAX = 1000
/** Regular expressions of one flag, cohort or action. More: 400 `invalid_input`. */
export const PATTERNS_MAX = 200
/** UTF-16 units of all of them together. More: 400 `invalid_input`. */
export const PATTERN_UNITS_SUM_MAX = 5000
/** UTF-16 units of an operator that a refusal repeats. */
export const QUOTED_UNITS_MAX = 40
/** Filters of one tree. More: 400 `invalid_input`. */
export const TREE_FILTERS_MAX = 100
/** Groups within groups in a list of persons and in analytic queries. Deeper: 400 `invalid_input`. */
export const TREE_LIST_DEPTH_MAX = 5
/** A cohort has groups of groups of filters and nothing deeper. */
export const TREE_COHORT_DEPTH_MAX = 2
/** Cohorts that refer to each other: nobody is a member of a deeper one. */
export const PERSON_COHORT_DEPTH_MAX = 10
/** Nesting up to which keys are sorted; what lies deeper keeps its order. */
export const SORTED_DEPTH_MAX = 128
/** Characters of a version; a longer text is none. */
export const VERSION_UNITS_MAX = 256
