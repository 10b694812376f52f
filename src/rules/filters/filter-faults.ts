/**
 * Stored filters that can never match: an operator that nobody knows, a pattern that the engine refuses.
 * They are refused when they are saved; those that were stored before stay, and are named by `status_details`
 * of a flag and by `tenrec doctor`. Source: docs/compatibility/flags.md, "Filters that can never match".
 */

import type { JsonObject } from '../../base/json.ts'
import { type PatternDialect, patternRefusal } from '../../base/pattern/pattern.ts'
import { PATTERN_UNITS_SUM_MAX, PATTERNS_MAX } from './limits.ts'
import { operatorRefusal, PATTERN_OPERATORS } from './operator-names.ts'
import { sortedText } from './property-text.ts'

/** What is wrong with one filter. */
export interface FilterFault {
  /** Where it is in what was stored: `groups[0].properties[2]`. */
  readonly path: string
  readonly code: 'invalid_operator' | 'invalid_value'
  /** To be read behind the path: `has the operator ...`. */
  readonly reason: string
  /** The filter itself. */
  readonly filter: JsonObject
}

/** The patterns of filters, from left to right. */
export function patternsOf(
  filters: readonly { readonly operator?: unknown; readonly value?: unknown }[],
): readonly string[] {
  return filters
    .filter(({ operator }) => PATTERN_OPERATORS.includes(operator))
    .flatMap(({ value }): readonly unknown[] => (Array.isArray(value) ? value : [value]))
    .filter((pattern) => typeof pattern === 'string')
}

/**
 * What is wrong with the number of patterns among the filters of one flag, cohort or action, which the main
 * thread compiles when it is saved or published; null: nothing.
 */
export function patternLimitFault(
  filters: readonly { readonly operator?: unknown; readonly value?: unknown }[],
): string | null {
  const count = filters.filter(({ operator }) => PATTERN_OPERATORS.includes(operator)).length
  const units = patternsOf(filters).reduce((sum, pattern) => sum + pattern.length, 0)
  if (count <= PATTERNS_MAX && units <= PATTERN_UNITS_SUM_MAX) return null
  return (
    `may have ${PATTERNS_MAX} regular expressions of ${PATTERN_UNITS_SUM_MAX} characters together at ` +
    'most; use another operator'
  )
}

/** The first fault whose filter is not among those of `before`; null when there is none. */
export function newFault(
  faults: readonly FilterFault[],
  before: () => readonly FilterFault[],
): FilterFault | null {
  if (faults.length === 0) return null
  const known = new Set(before().map(({ filter }) => sortedText(filter)))
  return faults.find(({ filter }) => !known.has(sortedText(filter))) ?? null
}

/** Where and what, in one sentence. */
export function faultText({ path, reason, filter }: FilterFault): string {
  const { key } = filter
  return `${path}${typeof key === 'string' ? ` (${JSON.stringify(key)})` : ''} ${reason}`
}

/** One filter and where it is. */
export interface PlacedFilter {
  readonly path: string
  readonly filter: JsonObject
}

/**
 * What is wrong with a filter that may have `known` operators: the operator, or one of `patterns`, which are
 * what its value stands for. One at most. Cost: that of compiling each pattern in each dialect.
 */
export function faultsOfFilter(
  { path, filter }: PlacedFilter,
  known: readonly string[],
  patterns: readonly unknown[],
  dialects: readonly PatternDialect[],
): readonly FilterFault[] {
  const operator = operatorRefusal(filter['operator'], known)
  if (operator !== null) return [{ path, code: 'invalid_operator', reason: operator, filter }]
  if (!PATTERN_OPERATORS.includes(filter['operator'])) return []
  for (const pattern of patterns) {
    for (const dialect of dialects) {
      const reason = patternFaultReason(pattern, dialect)
      if (reason !== null) return [{ path, code: 'invalid_value', reason, filter }]
    }
  }
  return []
}

/** To be read behind the place of the filter. The value may be any JSON: its text is the pattern. */
function patternFaultReason(value: unknown, dialect: PatternDialect): string | null {
  if (value === undefined || value === null) return 'has no pattern: give one as value'
  const refusal = patternRefusal(sortedText(value), dialect)
  return refusal === null ? null : `has a pattern that ${refusal}`
}
