/**
 * The operators of flag filters, compiled: a filter becomes a test of one property value. A comparison
 * that cannot be made is false. Source: docs/COMPATIBILITY.md, "Flag decisions".
 *
 * Filters of event and person lists have rules of their own, see rules/filters/property-filter.ts.
 */
import { compilePattern, type Pattern, type PatternBudget } from '../../base/pattern/pattern.ts'
import { EvaluationFailure } from '../flags/evaluation-failure.ts'
import { filterMoment, isRelativeDate, propertyMoment } from './date-filters.ts'
import { numberOf, numberRange } from './number-filters.ts'
import { lowerAscii, textOf } from './property-text.ts'
import {
  caretRange,
  compareVersions,
  tildeRange,
  type VersionRange,
  versionOf,
  wildcardRange,
} from './version-filters.ts'

/** What a test needs besides the value. */
export interface TestMoment {
  readonly nowMs: number
  readonly patternBudget: PatternBudget
}

/**
 * Whether a value passes; `undefined` stands for a property that is not there, `null` is a value. Throws
 * `EvaluationFailure` when patterns and long texts of the request have used up their budget.
 */
export type FlagPropertyTest = (value: unknown, moment: TestMoment) => boolean

/** The test that nothing passes: unknown operators, filters without a value, malformed filters. */
const NEVER: FlagPropertyTest = () => false

/** UTF-16 units that a comparison may look at without being charged for: nearly all properties. */
const FREE_UNITS = 256
/** Units of a text that are searched for what one unit of the budget stands for, at worst. */
const UNITS_PER_CHARGE = 8

/**
 * The test of a filter, given its stored `operator` and `value` and the time zone of naive dates. Never
 * throws. Cost: that of a pattern when there is one, see `compilePattern`.
 */
export function flagPropertyTest(
  operator: unknown,
  value: unknown,
  timezone: string,
): FlagPropertyTest {
  const name = operator ?? 'exact'
  if (name === 'is_set') return (property) => property !== undefined
  if (name === 'is_not_set') return (property) => property === undefined
  if (typeof name !== 'string' || value === null || value === undefined) return NEVER
  // A pattern is charged for by itself.
  if (name === 'regex' || name === 'not_regex') {
    return patternTest(compilePattern(textOf(value), 'unicode'), name === 'regex')
  }
  const test =
    textTest(name, value) ??
    numberTest(name, value) ??
    dateTest(name, value, timezone) ??
    versionTest(name, value)
  return test === null ? NEVER : charged(test, isSearchOfMany(name) ? listOf(value).length : 1)
}

function isSearchOfMany(name: string): boolean {
  return name === 'icontains_multi' || name === 'not_icontains_multi'
}

/**
 * The same test, paid for when the property is long: one request must not have thousands of filters read
 * a property of a hundred thousand characters each. `times`: how often the test walks through it.
 */
function charged(test: FlagPropertyTest, times: number): FlagPropertyTest {
  return (value, moment) => {
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
  return typeof value === 'object' && value !== null ? textOf(value).length : 0
}

function textTest(name: string, value: unknown): FlagPropertyTest | null {
  switch (name) {
    case 'exact':
      return presentAnd(equalTest(value))
    case 'is_not':
      return absentOrNot(equalTest(value))
    case 'icontains':
      return presentAnd(foldedTest([value], (text, part) => text.includes(part)))
    case 'not_icontains':
      return absentOrNot(foldedTest([value], (text, part) => text.includes(part)))
    case 'icontains_multi':
      return presentAnd(foldedTest(listOf(value), (text, part) => text.includes(part)))
    case 'not_icontains_multi':
      return absentOrNot(foldedTest(listOf(value), (text, part) => text.includes(part)))
    case 'starts_with':
      return presentAnd(foldedTest([value], (text, part) => text.startsWith(part)))
    case 'not_starts_with':
      return absentOrNot(foldedTest([value], (text, part) => text.startsWith(part)))
    case 'ends_with':
      return presentAnd(foldedTest([value], (text, part) => text.endsWith(part)))
    case 'not_ends_with':
      return absentOrNot(foldedTest([value], (text, part) => text.endsWith(part)))
    default:
      return null
  }
}

function presentAnd(test: (value: unknown) => boolean): FlagPropertyTest {
  return (value) => value !== undefined && test(value)
}

function absentOrNot(test: (value: unknown) => boolean): FlagPropertyTest {
  return (value) => value === undefined || !test(value)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value]
}

function equalTest(wanted: unknown): (value: unknown) => boolean {
  if (isBooleanLike(wanted)) {
    const isTrueWanted = isTruthy(wanted)
    return (value) => isTruthy(value) === isTrueWanted
  }
  const lower = listOf(wanted).map((entry) => textOf(entry).toLowerCase())
  const [only] = lower
  if (lower.length === 1 && only !== undefined) {
    return (value) => value === only || textOf(value).toLowerCase() === only
  }
  const set = new Set(lower)
  return (value) => set.has(textOf(value).toLowerCase())
}

/** A boolean, the text of one in any case, or a list of nothing else. */
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

function foldedTest(
  wanted: readonly unknown[],
  holds: (text: string, part: string) => boolean,
): (value: unknown) => boolean {
  const parts = wanted.map((entry) => lowerAscii(textOf(entry)))
  return (value) => {
    const text = lowerAscii(textOf(value))
    return parts.some((part) => holds(text, part))
  }
}

/** A pattern that is invalid passes nothing, whether it is wanted or not. */
function patternTest(pattern: Pattern | null, isWanted: boolean): FlagPropertyTest {
  if (pattern === null) return NEVER
  return (value, { patternBudget }) => {
    if (value === undefined) return !isWanted
    const isFound = pattern.isFoundIn(textOf(value), patternBudget)
    // Beyond the budget nobody knows; a plain "off" would switch features off.
    if (isFound === null) throw new EvaluationFailure('pattern_limit')
    return isFound === isWanted
  }
}

function numberTest(name: string, value: unknown): FlagPropertyTest | null {
  switch (name) {
    case 'gt':
      return comparison(numberOf(value), (number, limit) => number > limit)
    case 'gte':
      return comparison(numberOf(value), (number, limit) => number >= limit)
    case 'lt':
      return comparison(numberOf(value), (number, limit) => number < limit)
    case 'lte':
      return comparison(numberOf(value), (number, limit) => number <= limit)
    case 'between':
    case 'not_between':
      return betweenTest(value, name === 'between')
    default:
      return null
  }
}

function comparison(
  limit: number | null,
  holds: (number: number, limit: number) => boolean,
): FlagPropertyTest {
  if (limit === null) return NEVER
  return (value) => {
    const number = value === undefined ? null : numberOf(value)
    return number !== null && holds(number, limit)
  }
}

function betweenTest(value: unknown, isWanted: boolean): FlagPropertyTest {
  const range = numberRange(value)
  if (range === null) return NEVER
  return (property) => {
    if (property === undefined) return !isWanted
    const number = numberOf(property)
    if (number === null || Number.isNaN(number)) return false
    return (number >= range.least && number <= range.most) === isWanted
  }
}

function dateTest(name: string, value: unknown, timezone: string): FlagPropertyTest | null {
  switch (name) {
    case 'is_date_before':
      return momentTest(value, timezone, (time, limit) => time < limit)
    case 'is_date_after':
      return momentTest(value, timezone, (time, limit) => time > limit)
    case 'is_date_exact':
      return momentTest(value, timezone, (time, limit) => time === limit)
    default:
      return null
  }
}

function momentTest(
  wanted: unknown,
  timezone: string,
  holds: (timeMs: number, limitMs: number) => boolean,
): FlagPropertyTest {
  const fixedMs = isRelativeDate(wanted) ? null : filterMoment(wanted, 0, timezone)
  if (fixedMs === null && !isRelativeDate(wanted)) return NEVER
  return (value, moment) => {
    // Whoever asks for the time makes the decision one of this moment.
    const timeMs = propertyMoment(value, isRelativeDate(value) ? moment.nowMs : 0, timezone)
    if (timeMs === null) return false
    const limitMs = fixedMs ?? filterMoment(wanted, moment.nowMs, timezone)
    return limitMs !== null && holds(timeMs, limitMs)
  }
}

function versionTest(name: string, value: unknown): FlagPropertyTest | null {
  switch (name) {
    case 'semver_eq':
      return orderTest(value, (order) => order === 0)
    case 'semver_neq':
      return orderTest(value, (order) => order !== 0)
    case 'semver_gt':
      return orderTest(value, (order) => order > 0)
    case 'semver_gte':
      return orderTest(value, (order) => order >= 0)
    case 'semver_lt':
      return orderTest(value, (order) => order < 0)
    case 'semver_lte':
      return orderTest(value, (order) => order <= 0)
    case 'semver_tilde':
      return rangeTest(tildeRange(value))
    case 'semver_caret':
      return rangeTest(caretRange(value))
    case 'semver_wildcard':
      return rangeTest(wildcardRange(value))
    default:
      return null
  }
}

function orderTest(wanted: unknown, holds: (order: number) => boolean): FlagPropertyTest {
  const limit = versionOf(wanted)
  if (limit === null) return NEVER
  return rangeTest((version) => holds(compareVersions(version, limit)))
}

function rangeTest(range: VersionRange | null): FlagPropertyTest {
  if (range === null) return NEVER
  return (value) => {
    const version = value === undefined ? null : versionOf(value)
    return version !== null && range(version)
  }
}
