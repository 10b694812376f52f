/**
 * The names of all operators of property filters: where each is allowed, and which take a pattern or a date. Source:
 * docs/compatibility/events.md, "Property filters" and docs/compatibility/decisions.md, "Flag decisions".
 */
import { QUOTED_UNITS_MAX } from './limits.ts'

/** The operators in lists, analytic questions, cohorts and actions. */
export const LIST_OPERATORS = [
  'exact',
  'is_not',
  'icontains',
  'not_icontains',
  'regex',
  'not_regex',
  'is_set',
  'is_not_set',
  'gt',
  'gte',
  'lt',
  'lte',
  'is_date_before',
  'is_date_after',
  'is_date_exact',
] as const

/** The operators on properties in conditions of flags. */
export const FLAG_OPERATORS = [
  ...LIST_OPERATORS,
  'icontains_multi',
  'not_icontains_multi',
  'starts_with',
  'not_starts_with',
  'ends_with',
  'not_ends_with',
  'between',
  'not_between',
  'semver_eq',
  'semver_neq',
  'semver_gt',
  'semver_gte',
  'semver_lt',
  'semver_lte',
  'semver_tilde',
  'semver_caret',
  'semver_wildcard',
] as const
/** One of `FLAG_OPERATORS`. */
export type FlagOperator = (typeof FLAG_OPERATORS)[number]

/** The operators in filters on cohorts. */
export const COHORT_OPERATORS: readonly string[] = ['in', 'not_in']
/** The operator in filters on other flags. */
export const DEPENDENCY_OPERATOR = 'flag_evaluates_to'
/** The operators whose value is a pattern. */
export const PATTERN_OPERATORS: readonly unknown[] = ['regex', 'not_regex']
/** The operators whose value is a date. */
export const DATE_OPERATORS: readonly unknown[] = [
  'is_date_before',
  'is_date_after',
  'is_date_exact',
]
/** The operators that need no value. */
export const OPERATORS_WITHOUT_VALUE: readonly unknown[] = ['is_set', 'is_not_set']

/**
 * Returns the reason why an operator is refused, as a text that continues a sentence about the filter. Returns null if
 * the operator is one of `known` or absent.
 */
export function operatorRefusal(operator: unknown, known: readonly string[]): string | null {
  if (operator === undefined || operator === null) return null
  if (typeof operator !== 'string')
    return `needs a text as operator. Use one of ${known.join(', ')}`
  if (known.includes(operator)) return null
  const shown = JSON.stringify(operator.slice(0, QUOTED_UNITS_MAX))
  return `has the operator ${shown}, which is not supported here. Use one of ${known.join(', ')}`
}
