/**
 * Finds stored filters that can never match, because of an unknown operator, a pattern that the engine rejects or a
 * value that is not a version. New filters of this kind are rejected when they are saved. Filters that were stored
 * before remain; `status_details` of a flag and `tenrec doctor` report them. Source: docs/compatibility/flags.md,
 * "Filters that can never match".
 */

import type { JsonObject } from '../../base/json.ts'
import { type PatternDialect, patternRefusal } from '../../base/pattern/pattern.ts'
import { PATTERN_UNITS_SUM_MAX, PATTERNS_MAX } from './limits.ts'
import { operatorRefusal, PATTERN_OPERATORS } from './operator-names.ts'
import { sortedText } from './property-text.ts'
import { versionRefusal } from './version-filters.ts'

/** A fault of one filter. */
export interface FilterFault {
  /** The path of the filter within the stored value, such as `groups[0].properties[2]`. */
  readonly path: string
  readonly code: 'invalid_operator' | 'invalid_value'
  /** The reason, which continues a sentence that begins with the path: `has the operator ...`. */
  readonly reason: string
  /** The filter itself. */
  readonly filter: JsonObject
}

/** Returns all patterns in the values of filters, in the order of the filters. */
export function patternsOf(
  filters: readonly { readonly operator?: unknown; readonly value?: unknown }[],
): readonly string[] {
  return filters
    .filter(({ operator }) => PATTERN_OPERATORS.includes(operator))
    .flatMap(({ value }): readonly unknown[] => (Array.isArray(value) ? value : [value]))
    .filter((pattern) => typeof pattern === 'string')
}

/**
 * Returns the fault if the filters of one flag, cohort or action contain too many or too long patterns, or null. The
 * patterns are limited because the main thread compiles all of them when the object is saved or published.
 */
export function patternLimitFault(
  filters: readonly { readonly operator?: unknown; readonly value?: unknown }[],
): string | null {
  const count = filters.filter(({ operator }) => PATTERN_OPERATORS.includes(operator)).length
  const units = patternsOf(filters).reduce((sum, pattern) => sum + pattern.length, 0)
  if (count <= PATTERNS_MAX && units <= PATTERN_UNITS_SUM_MAX) return null
  return (
    `may have at most ${PATTERNS_MAX} regular expressions with ${PATTERN_UNITS_SUM_MAX} characters together` +
    '. Use fewer or shorter ones, or another operator'
  )
}

/**
 * Returns the first new fault: the first of `faults` whose filter has no fault in `before`. Returns null if there is
 * none.
 */
export function newFault(
  faults: readonly FilterFault[],
  before: () => readonly FilterFault[],
): FilterFault | null {
  if (faults.length === 0) return null
  const known = new Set(before().map(({ filter }) => sortedText(filter)))
  return faults.find(({ filter }) => !known.has(sortedText(filter))) ?? null
}

/** Returns the fault as one sentence, which begins with the path of the filter. */
export function faultText({ path, reason, filter }: FilterFault): string {
  const { key } = filter
  return `${path}${typeof key === 'string' ? ` (${JSON.stringify(key)})` : ''} ${reason}.`
}

/** A filter and its path within the stored value. */
export interface PlacedFilter {
  readonly path: string
  readonly filter: JsonObject
}

/**
 * Returns a list with the first fault of a filter, or an empty list. Faults are an operator that is not in `known`, a
 * value that is not a version where one is needed, and an invalid pattern. `patterns` are the patterns in the value of
 * the filter. Each of them is compiled in each dialect.
 */
export function faultsOfFilter(
  { path, filter }: PlacedFilter,
  known: readonly string[],
  patterns: readonly unknown[],
  dialects: readonly PatternDialect[],
): readonly FilterFault[] {
  const operator = operatorRefusal(filter['operator'], known)
  if (operator !== null) return [{ path, code: 'invalid_operator', reason: operator, filter }]
  const version = versionRefusal(filter['operator'], filter['value'])
  if (version !== null) return [{ path, code: 'invalid_value', reason: version, filter }]
  if (!PATTERN_OPERATORS.includes(filter['operator'])) return []
  for (const pattern of patterns) {
    for (const dialect of dialects) {
      const reason = patternFaultReason(pattern, dialect)
      if (reason !== null) return [{ path, code: 'invalid_value', reason, filter }]
    }
  }
  return []
}

/**
 * Returns the reason why a pattern is invalid, as a text that continues a sentence about the filter. The value may be
 * any JSON; its text is the pattern.
 */
function patternFaultReason(value: unknown, dialect: PatternDialect): string | null {
  if (value === undefined || value === null) return 'has no pattern. Send one as `value`'
  const refusal = patternRefusal(sortedText(value), dialect)
  return refusal === null ? null : `has a pattern that ${refusal}`
}
