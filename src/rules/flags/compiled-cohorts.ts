/**
 * Cohorts, compiled for decisions: a list of persons, or a tree of person filters and other cohorts.
 * Source: docs/COMPATIBILITY.md, "Flag decisions".
 */

import type { JsonObject } from '../../base/json.ts'
import { isObject } from '../../base/json.ts'
import { cohortTest, type EvaluationTest, personTest } from './compiled-filters.ts'
import type { CohortTest } from './evaluation.ts'
import { cohortReferences, referenceOf } from './flag-references.ts'
import type { Flag, FlagCohort, FlagSet } from './types.ts'

/** Levels of groups in a tree of filters. */
const TREE_DEPTH_MAX = 2

/** A cohort with its test. */
export interface CompiledCohort {
  readonly cohort: FlagCohort
  /** Null: it cannot be computed. */
  readonly test: CohortTest | null
}

/**
 * The cohorts that flags of a set refer to, also through other cohorts. Those of `previous` whose record
 * is the same object are taken over; `referencesOf` answers what `cohortsOfFlag` does. Linear in the flags
 * and in the size of the cohorts.
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
    waiting.push(...cohortsOfTree(cohort.filters['properties'], TREE_DEPTH_MAX))
  }
  return compiled
}

/** The cohorts that the conditions of a flag refer to, each once. */
export function cohortsOfFlag({ filters }: { readonly filters: JsonObject }): readonly number[] {
  if (!isObject(filters)) return []
  if (Object.hasOwn(filters, 'groups')) return cohortReferences(filters)
  return cohortReferences({ groups: [filters] })
}

function cohortsOfTree(node: unknown, depth: number): readonly number[] {
  if (!isObject(node)) return []
  if (node['type'] === 'cohort') {
    const id = referenceOf(node['value'])
    return id === null ? [] : [id]
  }
  const values: unknown = node['values']
  if (depth === 0 || !Array.isArray(values)) return []
  return values.flatMap((value: unknown) => cohortsOfTree(value, depth - 1))
}

function compileCohort(cohort: FlagCohort, timezone: string): CohortTest | null {
  const { id, isStatic, filters } = cohort
  if (isStatic) return (evaluation) => evaluation.isListed(id)
  return compileNode(filters['properties'], timezone, TREE_DEPTH_MAX)
}

/** A group or a filter of the tree; null when it is neither, or asks for what persons did. */
function compileNode(node: unknown, timezone: string, depth: number): EvaluationTest | null {
  if (!isObject(node)) return null
  if (!Array.isArray(node['values'])) return compileLeaf(node, timezone)
  if (depth === 0) return null
  const children: EvaluationTest[] = []
  for (const value of node['values'] as readonly unknown[]) {
    const child = compileNode(value, timezone, depth - 1)
    if (child === null) return null
    children.push(child)
  }
  return node['type'] === 'OR'
    ? (evaluation) => children.some((child) => child(evaluation))
    : (evaluation) => children.every((child) => child(evaluation))
}

function compileLeaf(filter: JsonObject, timezone: string): EvaluationTest | null {
  const type = filter['type'] ?? 'person'
  if (type !== 'person' && type !== 'cohort') return null
  const test = type === 'person' ? personTest(filter, timezone) : cohortTest(filter)
  return filter['negation'] === true ? (evaluation) => !test(evaluation) : test
}
