/**
 * Compiles cohorts for decisions. A cohort is a list of persons, or a tree of person filters and other cohorts.
 * Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject, type JsonObject } from '../../base/json.ts'
import { treeTest } from '../filters/tree-test.ts'
import { cohortTest, type EvaluationTest, personTest } from './compiled-filters.ts'
import type { CohortTest } from './evaluation.ts'
import { cohortReferences, cohortsOfTree } from './flag-references.ts'
import { FLAG_COHORT_TREE_DEPTH_MAX } from './limits.ts'
import type { Flag, FlagCohort, FlagSet } from './types.ts'

/** A cohort with its test. */
export interface CompiledCohort {
  readonly cohort: FlagCohort
  /** The test whether a person belongs to the cohort. Null if the cohort cannot be computed. */
  readonly test: CohortTest | null
}

/**
 * Compiles the cohorts that the flags of a set refer to, directly or through other cohorts. If the record of a cohort
 * is the same object as in `previous`, its compiled form is reused. `referencesOf` must return the same as
 * `cohortsOfFlag`. The cost is linear in the number of flags and in the size of the cohorts.
 */
export function compileCohorts(
  set: FlagSet,
  previous: ReadonlyMap<number, CompiledCohort> | null,
  referencesOf: (flag: Flag) => readonly number[],
): ReadonlyMap<number, CompiledCohort> {
  const compiled = new Map<number, CompiledCohort>()
  if (set.cohorts.size === 0) return compiled
  const waiting = set.flags.filter(({ active }) => active).flatMap(referencesOf)
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    const cohort = set.cohorts.get(id)
    if (cohort === undefined || compiled.has(id)) continue
    const known = previous?.get(id)
    const isSame = known?.cohort === cohort
    compiled.set(id, isSame ? known : { cohort, test: compileCohort(cohort, set.timezone) })
    waiting.push(...cohortsOfTree(cohort.filters['properties']))
  }
  return compiled
}

/** Returns the ids of the cohorts that the conditions of a flag refer to, without duplicates. */
export function cohortsOfFlag({ filters }: { readonly filters: JsonObject }): readonly number[] {
  if (!isObject(filters)) return []
  if (Object.hasOwn(filters, 'groups')) return cohortReferences(filters)
  return cohortReferences({ groups: [filters] })
}

function compileCohort(cohort: FlagCohort, timezone: string): CohortTest | null {
  const { id, isStatic, filters } = cohort
  if (isStatic) return (evaluation) => evaluation.isListed(id)
  const leaf = (filter: JsonObject): EvaluationTest | null => compileLeaf(filter, timezone)
  return treeTest(filters['properties'], {
    leaf,
    isLenient: false,
    depthMax: FLAG_COHORT_TREE_DEPTH_MAX,
  })
}

/**
 * Compiles a filter in the tree of a cohort. Returns null for a filter on what persons did, because decisions do not
 * read events.
 */
function compileLeaf(filter: JsonObject, timezone: string): EvaluationTest | null {
  const type = filter['type'] ?? 'person'
  if (type === 'cohort') return cohortTest(filter)
  if (type !== 'person') return null
  const test = personTest(filter, timezone)
  return filter['negation'] === true ? (evaluation) => !test(evaluation) : test
}
