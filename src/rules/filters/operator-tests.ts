/**
 * Compiles the operators of property filters: a filter becomes a test of one property value. Lists, charts, cohorts,
 * actions and flags use this one table. They differ in how they read values, which a dialect describes. A comparison
 * that cannot be made is false. Source: docs/compatibility/events.md, "Property filters" and
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import { compilePattern, PatternBudget, type PatternDialect } from '../../base/pattern/pattern.ts'
import type { FlagOperator } from './operator-names.ts'
import {
  caretRange,
  compareVersions,
  tildeRange,
  type VersionRange,
  versionOf,
  wildcardRange,
} from './version-filters.ts'

/** The values that a test may need in addition to the property value. */
export interface TestMoment {
  readonly nowMs: number
  readonly patternBudget: PatternBudget
}

/**
 * Returns whether a value passes. `undefined` means that the property does not exist; `null` is a value. Without
 * `moment`, relative dates count from 1970. Each search with a pattern is then limited, but the time of all searches
 * together is not.
 */
export type PropertyTest = (value: unknown, moment?: TestMoment) => boolean

/** How the date of a property must lie relative to the date of a filter. */
export type DateRelation = 'before' | 'after' | 'exact'

/** How one group of callers (lists and charts, or flags) reads values. */
export interface FilterDialect {
  /**
   * If true, a missing property counts as the empty text. Otherwise, a missing property passes the negative operators
   * and no others.
   */
  readonly isMissingEmpty: boolean
  /** Returns the values with which a filter compares: each entry of a list, or the list as one text. */
  readonly each: (value: unknown) => readonly unknown[]
  readonly text: (value: unknown) => string
  /** Returns a text in the letter case in which texts are compared, for operators that ignore case. */
  readonly folded: (text: string) => string
  /**
   * Returns the test of the operator `exact`. The tested value is undefined only if a missing property counts as empty.
   */
  readonly equals: (wanted: unknown) => (value: unknown) => boolean
  /** Returns the number that a value represents, or NaN. */
  readonly number: (value: unknown) => number
  readonly date: (relation: DateRelation, wanted: unknown, timezone: string) => PropertyTest
  readonly patterns: PatternDialect
  /**
   * Returns the error that a test throws if the rest of the budget is too small for a search with a pattern. Whether
   * the value passes is then unknown, so answering "no" would be wrong.
   */
  readonly beyondBudget: () => Error
}

/** A test that no value passes. */
export const NEVER: PropertyTest = () => false

/** The moment that is used if a test is called without one. */
export const UNLIMITED: TestMoment = {
  nowMs: 0,
  patternBudget: new PatternBudget(Number.POSITIVE_INFINITY),
}

type Plain = (value: unknown) => boolean
type Build = (wanted: unknown, dialect: FilterDialect, timezone: string) => PropertyTest

const includes = (text: string, part: string): boolean => text.includes(part)
const startsWith = (text: string, part: string): boolean => text.startsWith(part)
const endsWith = (text: string, part: string): boolean => text.endsWith(part)

const TESTS: Record<Exclude<FlagOperator, 'is_set' | 'is_not_set'>, Build> = {
  exact: (wanted, dialect) => present(dialect.equals(wanted), dialect),
  is_not: (wanted, dialect) => absentOrNot(dialect.equals(wanted), dialect),
  icontains: (wanted, dialect) => present(folded(dialect.each(wanted), dialect, includes), dialect),
  not_icontains: (wanted, dialect) =>
    absentOrNot(folded(dialect.each(wanted), dialect, includes), dialect),
  regex: (wanted, dialect) => patternTest(wanted, dialect, true),
  not_regex: (wanted, dialect) => patternTest(wanted, dialect, false),
  gt: (wanted, dialect) => comparison(wanted, dialect, (number, limit) => number > limit),
  gte: (wanted, dialect) => comparison(wanted, dialect, (number, limit) => number >= limit),
  lt: (wanted, dialect) => comparison(wanted, dialect, (number, limit) => number < limit),
  lte: (wanted, dialect) => comparison(wanted, dialect, (number, limit) => number <= limit),
  is_date_before: (wanted, dialect, timezone) => dialect.date('before', wanted, timezone),
  is_date_after: (wanted, dialect, timezone) => dialect.date('after', wanted, timezone),
  is_date_exact: (wanted, dialect, timezone) => dialect.date('exact', wanted, timezone),
  icontains_multi: (wanted, dialect) => present(folded(listOf(wanted), dialect, includes), dialect),
  not_icontains_multi: (wanted, dialect) =>
    absentOrNot(folded(listOf(wanted), dialect, includes), dialect),
  starts_with: (wanted, dialect) => present(folded([wanted], dialect, startsWith), dialect),
  not_starts_with: (wanted, dialect) => absentOrNot(folded([wanted], dialect, startsWith), dialect),
  ends_with: (wanted, dialect) => present(folded([wanted], dialect, endsWith), dialect),
  not_ends_with: (wanted, dialect) => absentOrNot(folded([wanted], dialect, endsWith), dialect),
  between: (wanted, dialect) => betweenTest(wanted, dialect, true),
  not_between: (wanted, dialect) => betweenTest(wanted, dialect, false),
  semver_eq: (wanted) => orderTest(wanted, (order) => order === 0),
  semver_neq: (wanted) => orderTest(wanted, (order) => order !== 0),
  semver_gt: (wanted) => orderTest(wanted, (order) => order > 0),
  semver_gte: (wanted) => orderTest(wanted, (order) => order >= 0),
  semver_lt: (wanted) => orderTest(wanted, (order) => order < 0),
  semver_lte: (wanted) => orderTest(wanted, (order) => order <= 0),
  semver_tilde: (wanted) => rangeTest(tildeRange(wanted)),
  semver_caret: (wanted) => rangeTest(caretRange(wanted)),
  semver_wildcard: (wanted) => rangeTest(wildcardRange(wanted)),
}
const BUILDS = new Map<string, Build>(Object.entries(TESTS))

/**
 * Returns the test of an operator with the value `wanted` of a filter. Returns null if the operator is unknown, or if
 * it needs a value and `wanted` is missing or null. A date without an offset from UTC is in the time zone `timezone`.
 * Patterns are compiled at once; see `compilePattern` for the cost. The test may throw the error of `beyondBudget`.
 */
export function operatorTest(
  operator: string,
  wanted: unknown,
  dialect: FilterDialect,
  timezone: string,
): PropertyTest | null {
  if (operator === 'is_set') return (value) => value !== undefined
  if (operator === 'is_not_set') return (value) => value === undefined
  if (wanted === undefined || wanted === null) return null
  return BUILDS.get(operator)?.(wanted, dialect, timezone) ?? null
}

/** Returns the entries of a list. Any other value becomes a list of one entry. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value]
}

function present(test: Plain, { isMissingEmpty }: FilterDialect): PropertyTest {
  return isMissingEmpty ? test : (value) => value !== undefined && test(value)
}

function absentOrNot(test: Plain, { isMissingEmpty }: FilterDialect): PropertyTest {
  return isMissingEmpty ? (value) => !test(value) : (value) => value === undefined || !test(value)
}

function folded(
  wanted: readonly unknown[],
  { text: textOf, folded: fold }: FilterDialect,
  holds: (text: string, part: string) => boolean,
): Plain {
  const parts = wanted.map((entry) => fold(textOf(entry)))
  return (value) => {
    const text = fold(textOf(value))
    return parts.some((part) => holds(text, part))
  }
}

/** Returns the test of patterns. An invalid pattern passes nothing, whether or not the operator is negative. */
function patternTest(wanted: unknown, dialect: FilterDialect, isWanted: boolean): PropertyTest {
  const { text: textOf, isMissingEmpty, beyondBudget } = dialect
  const sources = dialect.each(wanted)
  const patterns = sources
    .map((source) => compilePattern(textOf(source), dialect.patterns))
    .filter((pattern) => pattern !== null)
  if (patterns.length < sources.length && !isWanted) return NEVER
  return (value, { patternBudget } = UNLIMITED) => {
    if (value === undefined && !isMissingEmpty) return !isWanted
    const text = textOf(value)
    for (const pattern of patterns) {
      const isFound = pattern.isFoundIn(text, patternBudget)
      if (isFound === null) throw beyondBudget()
      if (isFound) return isWanted
    }
    return !isWanted
  }
}

/** Returns the test of a numeric comparison. NaN compares as false with everything. */
function comparison(
  wanted: unknown,
  { each, number: numberOf }: FilterDialect,
  holds: (number: number, limit: number) => boolean,
): PropertyTest {
  const limits = each(wanted).map(numberOf)
  const [only] = limits
  if (limits.length === 1 && only !== undefined) return (value) => holds(numberOf(value), only)
  return (value) => {
    const number = numberOf(value)
    return limits.some((limit) => holds(number, limit))
  }
}

/**
 * Returns the test of a range, which the filter gives as a list of two numbers, the smaller one first. With any other
 * value of the filter, no existing property passes.
 */
function betweenTest(wanted: unknown, dialect: FilterDialect, isWanted: boolean): PropertyTest {
  const { number: numberOf } = dialect
  const bounds = Array.isArray(wanted) && wanted.length === 2 ? wanted.map(numberOf) : []
  const [least = Number.NaN, most = Number.NaN] = bounds
  if (!(least <= most)) return (value) => value === undefined && !isWanted
  return (value) => {
    if (value === undefined) return !isWanted
    const number = numberOf(value)
    return !Number.isNaN(number) && (number >= least && number <= most) === isWanted
  }
}

function orderTest(wanted: unknown, holds: (order: number) => boolean): PropertyTest {
  const limit = versionOf(wanted)
  return rangeTest(limit === null ? null : (version) => holds(compareVersions(version, limit)))
}

function rangeTest(range: VersionRange | null): PropertyTest {
  if (range === null) return NEVER
  return (value) => {
    const version = value === undefined ? null : versionOf(value)
    return version !== null && range(version)
  }
}
