/** Finds out whether a flag is decided for persons or for the groups of one type. */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { FLAG_GROUP_INDEX_MAX } from './limits.ts'

const NAME = 'aggregation_group_type_index'

/**
 * Returns the index of the group type if a flag is decided for groups, or null if it is decided for persons. Returns
 * undefined if the conditions of the flag have different group types, or if an index is invalid.
 */
export function groupTypeOf(filters: JsonObject): number | null | undefined {
  const common = filters[NAME] ?? null
  const conditions = objectsOf(filters['groups'])
  const types = conditions.map((one) => (Object.hasOwn(one, NAME) ? (one[NAME] ?? null) : common))
  const [type, ...others] = types.length === 0 ? [common] : types
  if (type === null) return others.every((other) => other === null) ? null : undefined
  const isIndex = typeof type === 'number' && Number.isInteger(type)
  if (!isIndex || type < 0 || type > FLAG_GROUP_INDEX_MAX) return undefined
  return others.every((other) => other === type) ? type : undefined
}

/**
 * Returns filters whose conditions are all decided for the groups of type `index`, or for persons if it is null. A
 * condition with an index of its own keeps having one, because the index of the filters does not apply to it.
 */
export function withGroupType(filters: JsonObject, index: number | null): JsonObject {
  const { groups } = filters
  const changed = { ...filters, [NAME]: index }
  if (!Array.isArray(groups)) return changed
  const own = (one: unknown) =>
    isObject(one) && Object.hasOwn(one, NAME) ? { ...one, [NAME]: index } : one
  return { ...changed, groups: groups.map(own) }
}
