/**
 * Finds the filters of flags that can never match (see filters/filter-faults.ts). Source: docs/compatibility/flags.md,
 * "Filters that can never match".
 */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { type FilterFault, faultsOfFilter, patternsOf } from '../filters/filter-faults.ts'
import { COHORT_OPERATORS, DEPENDENCY_OPERATOR, FLAG_OPERATORS } from '../filters/operator-names.ts'
import { propertiesOf } from './flag-references.ts'

/**
 * The members of filters that are lists of conditions. The properties of holdouts are left out, because they are not
 * evaluated.
 */
const CONDITION_LISTS = ['groups', 'super_groups']

const knownFaults = new WeakMap<JsonObject, readonly FilterFault[]>()

/**
 * Returns the faults in the filters of a flag, in the order of the filters. Values that do not have the shape of a
 * filter are skipped. Each pattern is compiled. The result is cached for the object `filters`.
 */
export function flagFaults(filters: JsonObject): readonly FilterFault[] {
  const known = knownFaults.get(filters)
  if (known !== undefined) return known
  const faults = CONDITION_LISTS.flatMap((list) =>
    itemsOf(filters[list]).flatMap(([index, condition]) =>
      conditionFaults(condition, `${list}[${index}].`),
    ),
  )
  // Filters without `groups` are a single condition themselves.
  if (!Object.hasOwn(filters, 'groups')) faults.push(...conditionFaults(filters, ''))
  knownFaults.set(filters, faults)
  return faults
}

/**
 * Returns the patterns that `flagFaults` will have to compile. The list is empty if the result for these filters is
 * already cached.
 */
export function uncheckedPatterns(filters: JsonObject): readonly string[] {
  if (knownFaults.has(filters)) return []
  const properties = CONDITION_LISTS.flatMap((list) => propertiesOf({ groups: filters[list] }))
  if (!Object.hasOwn(filters, 'groups')) properties.push(...objectsOf(filters['properties']))
  return patternsOf(properties)
}

function conditionFaults(condition: JsonObject, prefix: string): readonly FilterFault[] {
  return itemsOf(condition['properties']).flatMap(([index, property]) =>
    faultsOfFilter(
      { path: `${prefix}properties[${index}]`, filter: property },
      operatorsOf(property['type']),
      [property['value']],
      ['unicode'],
    ),
  )
}

function operatorsOf(type: unknown): readonly string[] {
  if (type === 'cohort') return COHORT_OPERATORS
  return type === 'flag' ? [DEPENDENCY_OPERATOR] : FLAG_OPERATORS
}

/** Returns the objects in a list, each with its index. */
function itemsOf(list: unknown): readonly (readonly [index: number, item: JsonObject])[] {
  if (!Array.isArray(list)) return []
  return list.flatMap((item: unknown, index) => (isObject(item) ? [[index, item] as const] : []))
}
