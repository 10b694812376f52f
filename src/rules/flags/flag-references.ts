/**
 * Reads the references in the filters of a flag: conditions and their property filters, other flags, and cohorts. It
 * accepts filters of any shape, because clients write them, and skips parts that have the wrong shape.
 */

import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { nodesOf } from '../filters/tree-test.ts'
import { standInFor } from './initial-properties.ts'
import type { FlagSet } from './types.ts'

/** Returns the conditions of a flag in their order. */
export function conditionsOf(filters: JsonObject): readonly JsonObject[] {
  return objectsOf(filters['groups'])
}

/** Returns the property filters of all conditions in their order. */
export function propertiesOf(filters: JsonObject): readonly JsonObject[] {
  return conditionsOf(filters).flatMap((condition) => objectsOf(condition['properties']))
}

/** Returns the number of the flag or cohort that a JSON value names, or null. */
export function referenceOf(value: unknown): number | null {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value) : ''
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : null
}

/** Returns the numbers of the flags that the conditions depend on, without duplicates. */
export function flagReferences(filters: JsonObject): readonly number[] {
  return references(filters, 'flag', 'key')
}

/** Returns the numbers of the cohorts in the conditions, without duplicates. */
export function cohortReferences(filters: JsonObject): readonly number[] {
  return references(filters, 'cohort', 'value')
}

/** Returns the numbers of the cohorts in the tree of a cohort. */
export function cohortsOfTree(tree: unknown): readonly number[] {
  return nodesOf(tree)
    .map(({ type, value }) => (type === 'cohort' ? referenceOf(value) : null))
    .filter((id) => id !== null)
}

/**
 * Returns the filters with each property filter of the conditions replaced by the result of `change`. Returns the same
 * object if `change` always returns its argument.
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
 * Returns the names of all properties of persons and groups that the flags of a set may read. The result may contain
 * other names as well: it includes every text that is a `key` in a filter, and the property that stands in for it. It
 * is computed once for each set.
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
