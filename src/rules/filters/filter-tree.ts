/**
 * Reads trees of filters that clients send: a list of filters, a tree of AND and OR, one filter, or the old form with
 * the operator in the name. Source: docs/compatibility/persons.md, "Persons" and docs/compatibility/persons.md,
 * "Cohorts" and docs/compatibility/analytics.md, "Analytic person routes".
 *
 * Lists of persons and analytic queries leave out filters that cannot be used, but a cohort with such a filter is
 * rejected: the user sees the result of a list, while a missing condition of a cohort would remain unnoticed. A request
 * with an unknown operator is always rejected, because no client sends one on purpose. A stored filter with an unknown
 * operator is left out.
 */

import { invalidInput } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { isBehavior, readBehavior } from './behavior-filter.ts'
import { ELEMENT_KEYS } from './element-filter.ts'
import {
  type FilterGroup,
  filtersOf,
  isCohortFilterType,
  type PropertyFilter,
} from './filter-group.ts'
import {
  BEHAVIORS_MAX,
  TREE_COHORT_DEPTH_MAX,
  TREE_FILTERS_MAX,
  TREE_LIST_DEPTH_MAX,
} from './limits.ts'
import { COHORT_OPERATORS, LIST_OPERATORS, operatorRefusal } from './operator-names.ts'
import { propertyTest } from './property-filter.ts'

/** The operators that requests may use on cohort filters. `exact` and `is_not` mean the same as `in` and `not_in`. */
const COHORT_LIST_OPERATORS = [...COHORT_OPERATORS, 'exact', 'is_not']

/** The types of filters in analytic queries, in addition to cohorts. */
const EVENT_TYPES: readonly unknown[] = ['event', 'person', 'group', 'element']

/** The keys of `ELEMENT_KEYS` that can only be compared for equality. */
const ELEMENT_KEYS_EXACT: readonly string[] = ['tag_name', 'selector']

/**
 * Reads the filters of a list of persons. Filters on anything except persons and cohorts, and filters that cannot be
 * built, are left out. Returns null if no filter remains. Throws 400 `invalid_input` with `properties` as `attr` if the
 * value is not a tree or contains an unknown operator.
 */
export function readListFilters(value: unknown): FilterGroup | null {
  return readTree(value, TREE_LIST_DEPTH_MAX, 'properties', takeForList)
}

/**
 * Reads the filters of a dynamic cohort, with at most one level of groups within the root group. Throws 400
 * `invalid_input` with `filters` as `attr` for every filter that cannot be used, and if there is no filter at all.
 */
export function readCohortFilters(value: unknown): FilterGroup {
  const tree = readTree(value, TREE_COHORT_DEPTH_MAX, 'filters', takeForCohort)
  if (tree === null) throw invalidInput('filters', 'needs at least one filter on persons')
  if (filtersOf(tree).filter(isBehavior).length > BEHAVIORS_MAX) {
    throw invalidInput('filters', `may have at most ${BEHAVIORS_MAX} filters on behavior`)
  }
  return tree
}

/**
 * Reads the filters of an analytic query. A filter without a type is about events. Filters that cannot be built are
 * left out. Returns null if no filter remains. Throws 400 `invalid_input` with `attr` if the value is not a tree, or
 * for filters on sessions, for an operator that an element key does not support, and for unknown operators.
 */
export function readEventFilters(value: unknown, attr: string): FilterGroup | null {
  return readTree(value, TREE_LIST_DEPTH_MAX, attr, (raw) => {
    return operatorFault(raw, raw['type'] ?? 'event') ?? takeForStored(raw)
  })
}

/**
 * Reads stored filters as `readEventFilters` does, but leaves out filters with an unknown operator instead of throwing.
 */
export function readStoredFilters(value: unknown, attr: string): FilterGroup | null {
  return readTree(value, TREE_LIST_DEPTH_MAX, attr, takeForStored)
}

/** A filter of a tree and the path to it. */
export interface FilterPlace {
  /** A path such as `values[0].values[2]`, or `[2]` in a list. */
  readonly path: string
  readonly raw: JsonObject
}

/** Returns all filters of a tree that `readStoredFilters` or `readCohortFilters` can read, from left to right. */
export function filterPlaces(tree: unknown): readonly FilterPlace[] {
  const places: FilterPlace[] = []
  readTree(tree, TREE_LIST_DEPTH_MAX, 'filters', (raw, path) => {
    places.push({ path, raw })
    return null
  })
  return places
}

/**
 * Returns the operators that requests may use on filters of a type. Returns null for a type whose filters are left out.
 */
export function operatorsInRequests(type: unknown): readonly string[] | null {
  if (isCohortFilterType(type)) return COHORT_LIST_OPERATORS
  return EVENT_TYPES.includes(type) ? LIST_OPERATORS : null
}

/**
 * Returns the filter that is used, or null to leave it out. Returns a text with the reason if the filter must be
 * rejected.
 */
type TakeFilter = (raw: JsonObject, path: string) => PropertyFilter | string | null

function readTree(
  given: unknown,
  depthMax: number,
  attr: string,
  take: TakeFilter,
): FilterGroup | null {
  let count = 0
  /** Reads a group. `path` is the path to the group. */
  const treeOf = (raw: JsonObject, depth: number, path: string): FilterGroup | null => {
    const type = raw['type'] ?? 'AND'
    if (type !== 'AND' && type !== 'OR') {
      throw invalidInput(attr, 'may contain groups of the type AND and OR only')
    }
    const list = path === '' ? 'values' : `${path}.values`
    return groupOf(type, raw['values'] as readonly unknown[], depth, list)
  }
  /** Reads a list of groups and filters. `path` is the path to the list. */
  const groupOf = (
    type: 'AND' | 'OR',
    items: readonly unknown[],
    depth: number,
    path: string,
  ): FilterGroup | null => {
    if (depth > depthMax) {
      throw invalidInput(attr, `may nest groups at most ${depthMax} levels deep`)
    }
    const groups = items.filter((item) => isObject(item) && Array.isArray(item['values']))
    if (groups.length > 0 && groups.length < items.length) {
      const what = 'mixes groups and filters in one list. Put the filters into a group'
      throw invalidInput(attr, what)
    }
    const values: (FilterGroup | PropertyFilter)[] = []
    for (const [index, item] of items.entries()) {
      if (!isObject(item)) throw invalidInput(attr, 'may contain filters only, each an object')
      const place = `${path}[${index}]`
      const taken = groups.length > 0 ? treeOf(item, depth + 1, place) : filterAt(item, place)
      if (taken !== null) values.push(taken)
    }
    return values.length === 0 ? null : { type, values }
  }
  const filterAt = (raw: JsonObject, path: string): PropertyFilter | null => {
    if (++count > TREE_FILTERS_MAX) {
      throw invalidInput(attr, `may have at most ${TREE_FILTERS_MAX} filters`)
    }
    const taken = take(raw, path)
    if (typeof taken !== 'string') return taken
    throw invalidInput(attr, taken, `${attr}: ${placeText(path, raw)}`)
  }
  if (given === null || given === undefined || given === '') return null
  if (Array.isArray(given)) return groupOf('AND', given, 1, '')
  if (!isObject(given)) throw invalidInput(attr, 'must be a list or a tree of filters')
  if (Array.isArray(given['values'])) return treeOf(given, 1, '')
  if (Object.hasOwn(given, 'values')) throw invalidInput(attr, 'needs a list as `values`')
  if (Object.hasOwn(given, 'key')) return groupOf('AND', [given], 1, '')
  return groupOf('AND', Object.entries(given).map(filterOfOldForm), 1, '')
}

function takeForList(raw: JsonObject): PropertyFilter | string | null {
  const type = raw['type'] ?? 'person'
  if (type !== 'person' && !isCohortFilterType(type)) return null
  const refusal = operatorFault(raw, type)
  if (refusal !== null) return refusal
  const filter = filterOf(raw, 'person')
  return filter !== null && isBuildable(filter) ? filter : null
}

function takeForStored(raw: JsonObject): PropertyFilter | string | null {
  const filter = filterOf(raw, 'event')
  if (filter === null) return null
  if (filter.type === 'session')
    return 'cannot filter by sessions, because sessions are not stored. Use a filter of another type'
  if (!isBuildable(filter)) return null
  if (filter.type === 'element') return takeForElement(filter)
  if (filter.type === 'group') return filter.group_type_index === undefined ? null : filter
  const isKnown = filter.type === 'event' || filter.type === 'person'
  return isKnown || isCohortFilterType(filter.type) ? filter : null
}

function takeForElement(filter: PropertyFilter): PropertyFilter | string | null {
  if (!ELEMENT_KEYS.includes(filter.key)) return null
  const operator = filter.operator ?? 'exact'
  if (!ELEMENT_KEYS_EXACT.includes(filter.key) || operator === 'exact' || operator === 'is_not') {
    return filter
  }
  return 'can compare `tag_name` and `selector` of elements only with the operators `exact` and `is_not`'
}

/** Reads one entry of the `event_filters` of a filter on behavior. Returns null if the entry cannot be used. */
function takeForBehavior(raw: unknown): PropertyFilter | null {
  const taken = isObject(raw) ? takeForStored(raw) : null
  return typeof taken === 'string' ? null : taken
}

function takeForCohort(raw: JsonObject): PropertyFilter | string {
  if (raw['type'] === 'behavioral') return readBehavior(raw, takeForBehavior)
  const refusal = operatorRefusal(raw['operator'], LIST_OPERATORS)
  const filter = filterOf(raw, 'person')
  if (filter === null) return refusal ?? 'needs a text as `key` in every filter'
  if (filter.type !== 'person' && !isCohortFilterType(filter.type)) {
    return 'may contain filters of the types person, behavioral and cohort only'
  }
  // The operator of a filter on a cohort is not checked here but when the cohort is saved, because cohorts that were
  // stored earlier may contain any operator.
  if (refusal !== null && filter.type === 'person') return refusal
  return isBuildable(filter) ? filter : 'needs a value'
}

function operatorFault({ operator }: JsonObject, type: unknown): string | null {
  const known = operatorsInRequests(type)
  return known === null ? null : operatorRefusal(operator, known)
}

/** Returns the path to a filter, followed by its key. */
function placeText(path: string, { key }: JsonObject): string {
  return typeof key === 'string' ? `${path} (${JSON.stringify(key)})` : path
}

/**
 * Returns a filter with only the members that have a meaning. Returns null if the key is missing, or if the type or the
 * operator is not a text.
 */
function filterOf(raw: JsonObject, defaultType: string): PropertyFilter | null {
  const { key, value, operator, negation } = raw
  const type = raw['type'] ?? defaultType
  const isCohort = isCohortFilterType(type)
  if (typeof type !== 'string' || (!isCohort && (typeof key !== 'string' || key === '')))
    return null
  const hasOperator = operator !== undefined && operator !== null
  if (hasOperator && typeof operator !== 'string') return null
  return {
    key: isCohort ? 'id' : String(key),
    type,
    ...(value === undefined ? {} : { value }),
    ...(hasOperator ? { operator } : {}),
    ...(negation === true ? { negation: true } : {}),
    ...(type === 'group' ? groupTypeOf(raw['group_type_index']) : {}),
  }
}

function groupTypeOf(index: unknown): { readonly group_type_index?: number } {
  const isNumber = typeof index === 'number' || typeof index === 'string'
  return isNumber && /^[0-9]$/.test(String(index)) ? { group_type_index: Number(index) } : {}
}

function isBuildable(filter: PropertyFilter): boolean {
  if (!isCohortFilterType(filter.type)) return propertyTest(filter) !== null
  const { value } = filter
  return value !== undefined && value !== null
}

/**
 * Reads a filter in the old form: a name such as `plan__is_not`, and a value. If no known operator follows `__`, the
 * whole text is the name of the property.
 */
function filterOfOldForm([name, value]: readonly [string, unknown]): PropertyFilter {
  const start = name.lastIndexOf('__')
  const operator = start > 0 ? name.slice(start + 2) : ''
  const key = start > 0 ? name.slice(0, start) : ''
  const filter = { key, operator, value: value ?? '' }
  return key !== '' && propertyTest(filter) !== null ? filter : { key: name, value }
}
