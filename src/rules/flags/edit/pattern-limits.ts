/**
 * How many regular expressions a flag, a cohort or an action may have: the main thread compiles them when
 * it is saved or published. Source: docs/COMPATIBILITY.md, "Feature flag filters", "Cohorts" and "Actions".
 */
import { PATTERN_OPERATORS } from '../../filters/filter-operators.ts'

/** Regular expressions of one flag, cohort or action. More: 400 `invalid_input`. */
const PATTERNS_MAX = 200
/** UTF-16 units of all of them together. More: 400 `invalid_input`. */
const PATTERN_UNITS_SUM_MAX = 5000

/** What is wrong with the regular expressions among some property filters, in words; null: nothing. */
export function patternLimitFault(
  filters: readonly { readonly operator?: unknown; readonly value?: unknown }[],
): string | null {
  let count = 0
  let units = 0
  for (const { operator, value } of filters) {
    if (!PATTERN_OPERATORS.includes(operator)) continue
    count++
    units += lengthOf(value)
  }
  if (count <= PATTERNS_MAX && units <= PATTERN_UNITS_SUM_MAX) return null
  return (
    `may have ${PATTERNS_MAX} regular expressions of ${PATTERN_UNITS_SUM_MAX} characters together at ` +
    'most; use another operator'
  )
}

/** Filters of cohorts may list several patterns. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (!Array.isArray(value)) return 0
  let units = 0
  for (const part of value) if (typeof part === 'string') units += part.length
  return units
}
