/**
 * Finds what the filters of a flag contain and refer to: conditions, property filters, other flags and cohorts. Clients
 * write filters, so they may have any shape. Parts that have the wrong shape are skipped.
 */

import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { nodesOf } from '../filters/tree-test.ts'
import { standInFor } from './initial-properties.ts'
import type { FlagSet } from './types.ts'

/** Returns the conditions in the filters of a flag, in their order. */
export function conditionsOf(filters: JsonObject): readonly JsonObject[] {
  return objectsOf(filters['groups'])
}

/** Returns the property filters of all conditions, in their order. */
export function propertiesOf(filters: JsonObject): readonly JsonObject[] {
  return conditionsOf(filters).flatMap((condition) => objectsOf(condition['properties']))
}

/**
 * Returns the id of a flag or cohort from the value of a filter, which is a number or its digits. Returns null for any
 * other value.
 */
export function referenceOf(value: unknown): number | null {
  const text = typeof value === 'number' || typeof value === 'string' ? String(value) : ''
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : null
}

/** Returns the ids of the flags that the conditions refer to, without duplicates. */
export function flagReferences(filters: JsonObject): readonly number[] {
  return references(filters, 'flag', 'key')
}

/** Returns the ids of the cohorts that the conditions refer to, without duplicates. */
export function cohortReferences(filters: JsonObject): readonly number[] {
  return references(filters, 'cohort', 'value')
}

/** Returns the ids of the cohorts that the tree of a cohort refers to. */
export function cohortsOfTree(tree: unknown): readonly number[] {
  return nodesOf(tree)
    .map(({ type, value }) => (type === 'cohort' ? referenceOf(value) : null))
    .filter((id) => id !== null)
}

/**
 * Returns filters in which `change` has replaced each property filter of the conditions. Returns the given object if
 * `change` always returns its argument.
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
 * Returns the names of all properties of persons and groups that the flags of a set may read. The list may contain
 * other names as well, because it includes every text that is a `key` in a filter. It also includes the property that
 * filters read instead if the property `key` is missing (see initial-properties.ts). It is computed once for each set.
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
