/**
 * Turns the property filters of flags into tests on one value. Booleans equal their texts, texts are compared without
 * case, and patterns and long texts are charged to a budget of the request. Source: docs/compatibility/decisions.md,
 * "Flag decisions".
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

/** The number of UTF-16 units that a comparison may read without a charge. Nearly all properties are shorter. */
const FREE_UNITS = 256
/** The number of UTF-16 units that are searched, in the worst case, for the cost of one unit of the budget. */
const UNITS_PER_CHARGE = 8
/** The operators that do not read the value. */
const UNREADING: readonly string[] = ['is_set', 'is_not_set']
/** The operators that are charged separately. */
const PATTERNS: readonly string[] = ['regex', 'not_regex']
/** The operators that search the value once for each text of the filter. */
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
 * Returns the test of a filter, given its stored `operator` and `value` and the time zone of dates without a zone. An
 * unknown operator or a missing value never passes. This function never throws. The test throws `EvaluationFailure`
 * when patterns and long texts of the request have used up their budget. If there is a pattern, the cost is that of
 * `compilePattern`.
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
 * Returns a test that fails for values that are too large. The text of a list or object costs more than its length
 * suggests.
 */
function bounded(test: PropertyTest): PropertyTest {
  return (value, moment) => {
    if (typeof value === 'object' && value !== null && isTooLarge(value)) {
      throw new EvaluationFailure('pattern_limit')
    }
    return test(value, moment)
  }
}

/** Caches the result for lists and objects that were compared before. Such values never change. */
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
 * Returns how many of `left` values remain after the values within `value` are counted. A negative result means that
 * there are more than `left`.
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
 * Returns a test that charges the budget if the property is long. Otherwise, one request could have thousands of
 * filters that each read a property of a hundred thousand characters. `times` is the number of times that the test
 * reads the property.
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

/** Returns whether a value is a boolean, the text of one in any case, or a list of such values. */
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
