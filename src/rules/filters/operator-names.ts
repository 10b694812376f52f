/**
 * The operators of property filters, all of them: which there are, which take a pattern or a date, and
 * where. Source: docs/compatibility/events.md, "Property filters" and docs/compatibility/decisions.md, "Flag decisions".
 */
import { QUOTED_UNITS_MAX } from './limits.ts'

/** In lists, analytic questions, cohorts and actions. */
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

/** In conditions of flags, on properties. */
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

/** In filters on cohorts. */
export const COHORT_OPERATORS: readonly string[] = ['in', 'not_in']
/** In filters on other flags. */
export const DEPENDENCY_OPERATOR = 'flag_evaluates_to'
/** Their value is a pattern. */
export const PATTERN_OPERATORS: readonly unknown[] = ['regex', 'not_regex']
/** Their value is a date. */
export const DATE_OPERATORS: readonly unknown[] = [
  'is_date_before',
  'is_date_after',
  'is_date_exact',
]
/** They need no value. */
export const OPERATORS_WITHOUT_VALUE: readonly unknown[] = ['is_set', 'is_not_set']

/**
 * Why an operator of a filter is none of `known`, to be read behind the place of the filter; null when it is
 * one, or absent.
 */
export function operatorRefusal(operator: unknown, known: readonly string[]): string | null {
  if (operator === undefined || operator === null) return null
  if (typeof operator !== 'string') return `needs a text as operator: one of ${known.join(', ')}`
  if (known.includes(operator)) return null
  const shown = JSON.stringify(operator.slice(0, QUOTED_UNITS_MAX))
  return `has the operator ${shown}, which is not known here: use one of ${known.join(', ')}`
}
