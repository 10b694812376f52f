/**
 * Compiles the property filters of conditions and cohorts. A stored filter becomes a test that runs within a decision.
 * A malformed filter never matches. Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject, type JsonObject } from '../../base/json.ts'
import { DEPENDENCY_OPERATOR } from '../filters/operator-names.ts'
import { membershipTest } from '../filters/tree-test.ts'
import type { Evaluation } from './evaluation.ts'
import { flagPropertyTest } from './flag-property-test.ts'
import { referenceOf } from './flag-references.ts'
import { standInFor } from './initial-properties.ts'

/** Returns whether a decision passes a filter. Throws `EvaluationFailure`. */
export type EvaluationTest = (evaluation: Evaluation) => boolean

/** A filter of a condition. */
export interface CompiledFilter {
  /** The index of the filter in the stored list. */
  readonly index: number
  /** The filter as it is stored. */
  readonly stored: unknown
  readonly passes: EvaluationTest
}

/** The context that decides the meaning of a filter, in addition to the filter's own members. */
export interface FilterPlace {
  readonly timezone: string
  /** The group type that the condition is about. Null means persons. */
  readonly aggregation: number | null
}

const NEVER_PASSES: EvaluationTest = () => false

/**
 * Compiles a list of filters. Filters on cohorts come last, because they cost more and may fail. Null or an absent list
 * is an empty list. If the value is not a list, it becomes a filter that never matches.
 */
export function compileFilters(list: unknown, place: FilterPlace): readonly CompiledFilter[] {
  if (list === null || list === undefined) return []
  const stored: readonly unknown[] = Array.isArray(list) ? list : [list]
  const filters = stored.map((filter, index) => ({
    index,
    stored: filter,
    passes: Array.isArray(list) ? compileFilter(filter, place) : NEVER_PASSES,
  }))
  return [...filters.filter((filter) => !isCohort(filter)), ...filters.filter(isCohort)]
}

function isCohort({ stored }: CompiledFilter): boolean {
  return isObject(stored) && stored['type'] === 'cohort'
}

function compileFilter(filter: unknown, place: FilterPlace): EvaluationTest {
  if (!isObject(filter)) return NEVER_PASSES
  const type = filter['type'] ?? (place.aggregation === null ? 'person' : 'group')
  switch (type) {
    case 'person':
      return personTest(filter, place.timezone)
    case 'group':
      return groupTest(filter, place)
    case 'cohort':
      // In a condition, a filter on a cohort cannot be negated, so its member `negation` is ignored. In the tree of a
      // cohort, it can.
      return cohortTest({ ...filter, negation: false })
    case 'flag':
      return dependencyTest(filter)
    default:
      return NEVER_PASSES
  }
}

/** Returns the test of a filter on a person property. */
export function personTest(filter: JsonObject, timezone: string): EvaluationTest {
  const key = filter['key']
  if (typeof key !== 'string') return NEVER_PASSES
  const test = flagPropertyTest(filter['operator'], filter['value'], timezone)
  const standIn = standInFor(key)
  return (evaluation) => test(evaluation.personValue(key, standIn), evaluation)
}

function groupTest(filter: JsonObject, { timezone, aggregation }: FilterPlace): EvaluationTest {
  const key = filter['key']
  const typeIndex = filter['group_type_index'] ?? aggregation
  if (typeof key !== 'string' || typeof typeIndex !== 'number') return NEVER_PASSES
  const test = flagPropertyTest(filter['operator'], filter['value'], timezone)
  return (evaluation) => test(evaluation.groupValue(typeIndex, key), evaluation)
}

/**
 * Returns the test of a filter on a cohort. If the filter names no cohort, nobody passes, or everybody if the filter is
 * negated.
 */
export function cohortTest(filter: JsonObject): EvaluationTest {
  const id = referenceOf(filter['value'])
  if (id === null) return () => filter['negation'] === true
  return membershipTest(filter, (evaluation: Evaluation) => evaluation.isInCohort(id), false)
}

/**
 * Returns the test of a filter on the value of another flag. The wanted value is true (the flag is on), false (it is
 * off) or a variant.
 */
function dependencyTest(filter: JsonObject): EvaluationTest {
  const id = referenceOf(filter['key'])
  const wanted = filter['value']
  if (id === null || filter['operator'] !== DEPENDENCY_OPERATOR) return NEVER_PASSES
  if (typeof wanted === 'string') {
    return (evaluation) => {
      const decision = evaluation.decided.get(id)
      return decision?.isEnabled === true && decision.variant === wanted
    }
  }
  if (typeof wanted !== 'boolean') return NEVER_PASSES
  return (evaluation) => {
    const decision = evaluation.decided.get(id)
    // A flag that takes no part in the decision is off. A flag that failed has no value, so it equals neither true nor
    // false.
    if (decision === undefined) return !wanted
    return !decision.isFailed && decision.isEnabled === wanted
  }
}
