/**
 * Turns the property filters of flags into tests of a value. A boolean equals its text, and texts are compared without
 * regard to case. Patterns and long texts are charged to a budget of the request. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import type { JsonObject } from '../../base/json.ts'
import {
  type FilterDialect,
  listOf,
  NEVER,
  operatorTest,
  type PropertyTest,
  UNLIMITED,
} from '../filters/operator-tests.ts'
import { lowerAscii, sortedText } from '../filters/property-text.ts'
import { EvaluationFailure } from './evaluation-failure.ts'
import { flagDate, flagNumber } from './flag-values.ts'
import { COMPARED_VALUES_MAX } from './limits.ts'
import { UNREAD_VALUE } from './property-lookup.ts'

/** The number of UTF-16 units that a test may read without being charged. Nearly all properties are shorter. */
const FREE_UNITS = 256
/**
 * For each group of this number of UTF-16 units in a property, a test is charged one unit of the budget. Searching so
 * many units takes at most as long as one unit of a pattern.
 */
const UNITS_PER_CHARGE = 8
/** The operators that only ask whether the property exists. */
const UNREADING: readonly string[] = ['is_set', 'is_not_set']
/**
 * The operators with a regular expression. Matching it already spends the pattern budget of the request, so this file
 * does not spend it again.
 */
const PATTERNS: readonly string[] = ['regex', 'not_regex']
/** The operators that search the value once for each text in the filter. */
const SEARCHES_OF_MANY: readonly string[] = ['icontains_multi', 'not_icontains_multi']

const FLAGS: FilterDialect = {
  isMissingEmpty: false,
  each: (value) => [value],
  text: sortedText,
  folded: lowerAscii,
  equals: equalTest,
  number: flagNumber,
  date: flagDate,
  patterns: 'unicode',
  beyondBudget: () => new EvaluationFailure('pattern_limit'),
}

/**
 * Returns the test of a filter. This function never throws. `operator` and `value` are the members of the stored
 * filter, and `timezone` is the zone of dates without a zone. With an unknown operator, or without a value that the
 * operator needs, nothing passes. A pattern is compiled at once; see `compilePattern` for the cost. The test throws
 * `EvaluationFailure` if the property is too large, or if the patterns and long texts of the request have used up their
 * budget.
 */
export function flagPropertyTest(
  operator: unknown,
  value: unknown,
  timezone: string,
): PropertyTest {
  const name = operator ?? 'exact'
  const test = typeof name === 'string' ? operatorTest(name, value, FLAGS, timezone) : null
  if (test === null || typeof name !== 'string') return NEVER
  if (UNREADING.includes(name)) return test
  if (PATTERNS.includes(name)) return bounded(test)
  return bounded(charged(test, SEARCHES_OF_MANY.includes(name) ? listOf(value).length : 1))
}

/**
 * Returns a test that throws `EvaluationFailure` for a value that is too large. To compare a list or an object, its
 * JSON text must be built, which costs more than its length suggests.
 */
function bounded(test: PropertyTest): PropertyTest {
  return (value, moment) => {
    if (typeof value === 'object' && value !== null && isTooLarge(value)) {
      throw new EvaluationFailure('pattern_limit')
    }
    return test(value, moment)
  }
}

/** For each list and object that was compared before, whether it is too large. Such objects never change. */
const sizes = new WeakMap<object, boolean>()

function isTooLarge(value: object): boolean {
  let isLarge = sizes.get(value)
  if (isLarge === undefined) {
    isLarge = value === UNREAD_VALUE || valuesLeft(value, COMPARED_VALUES_MAX) < 0
    sizes.set(value, isLarge)
  }
  return isLarge
}

/**
 * Returns `left` minus the number of values within `value`. Counting stops as soon as the result is negative, which
 * means that there are more than `left` values.
 */
function valuesLeft(value: unknown, left: number): number {
  let rest = left
  if (typeof value !== 'object' || value === null) return rest
  const members = value as JsonObject
  for (const name in members) {
    rest = valuesLeft(members[name], rest - 1)
    if (rest < 0) return rest
  }
  return rest
}

/**
 * Returns a test that charges the budget if the property is long. Without the charge, one request could have thousands
 * of filters that each read a property of a hundred thousand characters. `times` says how often the test reads the
 * property.
 */
function charged(test: PropertyTest, times: number): PropertyTest {
  return (value, moment = UNLIMITED) => {
    const units = unitsOf(value) * times
    if (units > FREE_UNITS) {
      const { patternBudget } = moment
      const charge = Math.ceil(units / UNITS_PER_CHARGE)
      if (!patternBudget.covers(charge)) throw new EvaluationFailure('pattern_limit')
      patternBudget.spend(charge)
    }
    return test(value, moment)
  }
}

function unitsOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return typeof value === 'object' && value !== null ? sortedText(value).length : 0
}

function equalTest(wanted: unknown): (value: unknown) => boolean {
  if (isBooleanLike(wanted)) {
    const isTrueWanted = isTruthy(wanted)
    return (value) => isTruthy(value) === isTrueWanted
  }
  const lower = listOf(wanted).map((entry) => sortedText(entry).toLowerCase())
  const [only] = lower
  if (lower.length === 1 && only !== undefined) {
    return (value) => value === only || sortedText(value).toLowerCase() === only
  }
  const set = new Set(lower)
  return (value) => set.has(sortedText(value).toLowerCase())
}

/** Returns whether a value is a boolean, the text of a boolean in any case, or a list of such values. */
function isBooleanLike(value: unknown): boolean {
  if (typeof value === 'boolean') return true
  if (typeof value === 'string') return isWord(value, 'true') || isWord(value, 'false')
  return Array.isArray(value) && value.every(isBooleanLike)
}

function isTruthy(value: unknown): boolean {
  if (typeof value === 'boolean') return value
  if (typeof value === 'string') return isWord(value, 'true')
  return Array.isArray(value) && value.every(isTruthy)
}

function isWord(text: string, word: string): boolean {
  return text.length === word.length && text.toLowerCase() === word
}
