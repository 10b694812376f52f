/**
 * Orders flags that depend on other flags, and finds the flags that cannot be decided because of their dependencies.
 * Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject } from '../../base/json.ts'
import { flagReferences } from './flag-references.ts'
import type { Flag } from './types.ts'

/** The reason why a flag with dependencies is off. */
export type BrokenDependency = 'missing' | 'circle'

/** The dependencies of a set of flags. */
export interface DependencyOrder {
  /** For each flag with dependencies, the ids of the active flags that it depends on. */
  readonly dependencies: ReadonlyMap<number, readonly number[]>
  /** The ids of all flags that depend on others or are depended on. Each comes after the flags that it depends on. */
  readonly order: readonly number[]
  /**
   * The flags that cannot be decided. They depend, directly or through other flags, on a missing flag or on flags that
   * depend on each other in a circle.
   */
  readonly broken: ReadonlyMap<number, BrokenDependency>
}

const NONE: DependencyOrder = { dependencies: new Map(), order: [], broken: new Map() }

/** Returns the ids of the flags that the conditions of a flag refer to, without duplicates. */
export function dependenciesOf({ filters }: Flag): readonly number[] {
  if (!isObject(filters)) return []
  if (Object.hasOwn(filters, 'groups')) return flagReferences(filters)
  return flagReferences({ groups: [filters] })
}

/**
 * Orders the active flags of a set. `referencesOf` must return the same as `dependenciesOf`. The cost is linear in the
 * number of flags and dependencies.
 */
export function orderDependencies(
  flags: readonly Flag[],
  referencesOf: (flag: Flag) => readonly number[],
): DependencyOrder {
  const withReferences = flags.filter((flag) => flag.active && referencesOf(flag).length > 0)
  if (withReferences.length === 0) return NONE
  const byId = new Map(flags.map((flag) => [flag.id, flag]))
  const dependencies = new Map<number, readonly number[]>()
  const dependents = new Map<number, number[]>()
  const broken = new Map<number, BrokenDependency>()
  for (const flag of withReferences) {
    const references = referencesOf(flag)
    if (references.some((id) => !byId.has(id))) broken.set(flag.id, 'missing')
    // An inactive flag is off, whatever it depends on, so it need not be ordered.
    const active = references.filter((id) => byId.get(id)?.active === true)
    dependencies.set(flag.id, active)
    for (const id of active) {
      const known = dependents.get(id)
      if (known === undefined) dependents.set(id, [flag.id])
      else known.push(flag.id)
    }
  }
  const order = sortByDependency(dependencies, dependents, broken)
  return { dependencies, order, broken }
}

/**
 * Returns the ids of flags in an order in which each flag comes after its dependencies. A flag is added as soon as all
 * its dependencies have been added. A flag that is never added is part of a circle, or depends on one.
 */
function sortByDependency(
  dependencies: ReadonlyMap<number, readonly number[]>,
  dependents: ReadonlyMap<number, readonly number[]>,
  broken: Map<number, BrokenDependency>,
): readonly number[] {
  const waitsFor = new Map<number, number>()
  for (const id of dependents.keys()) waitsFor.set(id, 0)
  for (const [id, references] of dependencies) waitsFor.set(id, references.length)
  const order = [...waitsFor].filter(([, count]) => count === 0).map(([id]) => id)
  for (const id of order) {
    for (const dependent of dependents.get(id) ?? []) {
      if (broken.has(id)) broken.set(dependent, 'missing')
      const left = (waitsFor.get(dependent) ?? 0) - 1
      waitsFor.set(dependent, left)
      if (left === 0) order.push(dependent)
    }
  }
  for (const [id, left] of waitsFor) if (left > 0) broken.set(id, 'circle')
  return order
}
