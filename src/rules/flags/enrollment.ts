/**
 * Early access: a person can join or leave a feature. `compiled-flag.ts` asks for this before all conditions of the
 * flag. Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { type JsonObject, objectsOf } from '../../base/json.ts'
import type { EvaluationTest } from './compiled-filters.ts'
import type { Evaluation } from './evaluation.ts'
import { standInFor } from './initial-properties.ts'

/**
 * Returns true if a person has joined the feature, and false if the person has left it. Returns null if the person has
 * done neither. Throws `EvaluationFailure`.
 */
export type Enrollment = (evaluation: Evaluation) => boolean | null

/**
 * Returns the enrollment of a flag, or null if it has none. In the older form, `super_groups`, a condition decides
 * about the enrollment; `compile` returns the test of that condition.
 */
export function compileEnrollment(
  flagKey: string,
  filters: JsonObject,
  compile: (condition: JsonObject) => EvaluationTest,
): Enrollment | null {
  if (filters['feature_enrollment'] === true) return byProperty(`$feature_enrollment/${flagKey}`)
  const [condition] = objectsOf(filters['super_groups'])
  if (condition === undefined) return null
  const keys = objectsOf(condition['properties'])
    .map((filter) => filter['key'])
    .filter((key) => typeof key === 'string')
  return keys.length === 0 ? null : byCondition(keys, compile(condition))
}

function byProperty(property: string): Enrollment {
  return (evaluation) => {
    const value = evaluation.personValue(property, null)
    return value === undefined ? null : value === true || value === 'true'
  }
}

function byCondition(keys: readonly string[], test: EvaluationTest): Enrollment {
  return (evaluation) => {
    const hasDecided = keys.some(
      (key) => evaluation.personValue(key, standInFor(key)) !== undefined,
    )
    return hasDecided ? test(evaluation) : null
  }
}
