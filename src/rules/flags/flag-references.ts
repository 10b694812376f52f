/**
 * What the filters of a flag refer to: conditions and their property filters, other flags, cohorts. Reads
 * filters of any shape, because they come from clients; what has the wrong shape is passed over.
 */

import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { nodesOf } from '../filters/tree-test.ts'
import { standInFor } from './initial-properties.ts'
import type { FlagSet } from './types.ts'

/** The conditions of a flag in their order. */
export function conditionsOf(filters: JsonObject): readonly JsonObject[] {
  return objectsOf(filters['groups'])
}

/** The property filters of all conditions in their order. */
export function propertiesOf(filters: JsonObject): readonly JsonObject[] {
  return conditionsOf(filters).flatMap((condition) => objectsOf(condition['properties']))
}

/** The number of the flag or cohort that a JSON value names, or null. */
export function referenceOf(value: unknown): number | null {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value) : ''
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : null
}

/** The numbers of the flags that conditions depend on, each once. */
export function flagReferences(filters: JsonObject): readonly number[] {
  return references(filters, 'flag', 'key')
}

/** The numbers of the cohorts in conditions, each once. */
export function cohortReferences(filters: JsonObject): readonly number[] {
  return references(filters, 'cohort', 'value')
}

/** The numbers of the cohorts that the tree of a cohort is made of. */
export function cohortsOfTree(tree: unknown): readonly number[] {
  return nodesOf(tree)
    .map(({ type, value }) => (type === 'cohort' ? referenceOf(value) : null))
    .filter((id) => id !== null)
}

/**
 * The same filters with each property filter of the conditions replaced by what `change` answers. The very
 * same object when `change` always answers what it was given.
 */
export function withProperties(
  filters: JsonObject,
  change: (property: JsonObject) => JsonObject,
): JsonObject {
  const groups = filters['groups']
  if (!Array.isArray(groups)) return filters
  let isChanged = false
  const changedGroups = groups.map((condition: unknown) => {
    if (!isObject(condition) || !Array.isArray(condition['properties'])) return condition
    const before: readonly unknown[] = condition['properties']
    const properties = before.map((item) => (isObject(item) ? change(item) : item))
    if (properties.every((item, index) => item === before[index])) return condition
    isChanged = true
    return { ...condition, properties }
  })
  return isChanged ? { ...filters, groups: changedGroups } : filters
}

function references(
  filters: JsonObject,
  type: 'flag' | 'cohort',
  member: 'key' | 'value',
): readonly number[] {
  const ids = new Set<number>()
  for (const property of propertiesOf(filters)) {
    if (property['type'] !== type) continue
    const id = referenceOf(property[member])
    if (id !== null) ids.add(id)
  }
  return [...ids]
}

const namesOfSet = new WeakMap<FlagSet, readonly string[]>()

/**
 * Names of all properties of persons and groups that flags of a set may ask for, and others: each text that
 * stands as a `key` in a filter, with the property that stands in for it. Read once for a set.
 */
export function propertyNamesOf(set: FlagSet): readonly string[] {
  const known = namesOfSet.get(set)
  if (known !== undefined) return known
  const keys = new Set<string>()
  for (const { key, filters } of set.flags) {
    keys.add(`$feature_enrollment/${key}`)
    addKeys(filters, keys)
  }
  for (const { filters } of set.cohorts.values()) addKeys(filters, keys)
  const names = [...keys].flatMap((key) => {
    const standIn = standInFor(key)
    return standIn === null ? [key] : [key, standIn]
  })
  const unique = [...new Set(names)]
  namesOfSet.set(set, unique)
  return unique
}

function addKeys(value: unknown, keys: Set<string>): void {
  if (Array.isArray(value)) for (const entry of value) addKeys(entry, keys)
  if (!isObject(value)) return
  if (typeof value['key'] === 'string') keys.add(value['key'])
  for (const name in value) if (typeof value[name] === 'object') addKeys(value[name], keys)
}
