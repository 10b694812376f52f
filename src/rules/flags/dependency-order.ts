/**
 * Flags that depend on flags: the order in which they can be decided, and those that cannot be. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */

import { isObject } from '../../base/json.ts'
import { flagReferences } from './flag-references.ts'
import type { Flag } from './types.ts'

/** Why a flag that depends on others is off. */
export type BrokenDependency = 'missing' | 'circle'

/** What dependencies mean for a set of flags. */
export interface DependencyOrder {
  /** Ids of active flags by the id of the flag that depends on them. Only flags with dependencies. */
  readonly dependencies: ReadonlyMap<number, readonly number[]>
  /** Flags that others depend on, and those others, each after what it depends on. */
  readonly order: readonly number[]
  /** Flags that lead to a missing flag or into a circle, also through others. */
  readonly broken: ReadonlyMap<number, BrokenDependency>
}

const NONE: DependencyOrder = { dependencies: new Map(), order: [], broken: new Map() }

/** The flags that the conditions of a flag refer to, each once. */
export function dependenciesOf({ filters }: Flag): readonly number[] {
  if (!isObject(filters)) return []
  if (Object.hasOwn(filters, 'groups')) return flagReferences(filters)
  return flagReferences({ groups: [filters] })
}

/**
 * Orders the active flags of a set; `referencesOf` answers what `dependenciesOf` does. Linear in the flags
 * and their dependencies.
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
    // An inactive flag is off, whatever it depends on.
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

/** Takes flags away whose dependencies are all taken; what remains leads into a circle. */
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
