/**
 * Property filters of conditions and cohorts, compiled: a stored filter becomes a test of a decision that
 * is under way. A filter that is malformed never matches. Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject, type JsonObject } from '../../base/json.ts'
import { DEPENDENCY_OPERATOR } from '../filters/operator-names.ts'
import { membershipTest } from '../filters/tree-test.ts'
import type { Evaluation } from './evaluation.ts'
import { flagPropertyTest } from './flag-property-test.ts'
import { referenceOf } from './flag-references.ts'
import { standInFor } from './initial-properties.ts'

/** Whether a decision passes a filter. Throws `EvaluationFailure`. */
export type EvaluationTest = (evaluation: Evaluation) => boolean

/** A filter of a condition. */
export interface CompiledFilter {
  /** Its place in the stored list. */
  readonly index: number
  /** As it is stored. */
  readonly stored: unknown
  readonly passes: EvaluationTest
}

/** What filters mean where they stand. */
export interface FilterPlace {
  readonly timezone: string
  /** Null: persons. */
  readonly aggregation: number | null
}

const NEVER_PASSES: EvaluationTest = () => false

/**
 * The filters of a list, cohorts after the others because they cost more and may fail. Null or absent is
 * an empty list; anything else that is no list never matches.
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
      // Only within cohorts a negation counts.
      return cohortTest({ ...filter, negation: false })
    case 'flag':
      return dependencyTest(filter)
    default:
      return NEVER_PASSES
  }
}

/** The test of a filter on a person property. */
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

/** The test of a filter on a cohort; nobody passes one that names none. */
export function cohortTest(filter: JsonObject): EvaluationTest {
  const id = referenceOf(filter['value'])
  if (id === null) return () => filter['negation'] === true
  return membershipTest(filter, (evaluation: Evaluation) => evaluation.isInCohort(id), false)
}

/** The value of another flag: any value but off, off, or a variant. */
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
    // A flag that takes no part is off; one that failed has no value at all.
    if (decision === undefined) return !wanted
    return !decision.isFailed && decision.isEnabled === wanted
  }
}
