/**
 * Reading trees of filters from what clients send: a list of filters, a tree of AND and OR, one filter, or
 * the old form with the operator in the name. Source: docs/COMPATIBILITY.md, "Persons", "Cohorts" and
 * "Analytic person routes".
 *
 * Lists of persons and analytic queries leave out what cannot be used, a cohort refuses it: what a list
 * shows can be seen, a cohort that forgot a condition would go on unnoticed.
 */
import { ServiceError } from '../base/errors.ts'
import type { PropertyFilter } from './events.ts'
import type { FilterGroup } from './persons.ts'
import { type NegatableFilter, propertyTest } from './property-filter.ts'

/** Filters of one tree. More: 400 `invalid_input`. */
const FILTERS_MAX = 100
/** Groups within groups in a list of persons and in analytic queries. Deeper: 400 `invalid_input`. */
const LIST_DEPTH_MAX = 5
/** A cohort has groups of groups of filters and nothing deeper. */
const COHORT_DEPTH_MAX = 2
const COHORT_TYPES: readonly unknown[] = ['cohort', 'static-cohort', 'precalculated-cohort']

/** What a filter on the element of an autocaptured event can name. */
const ELEMENT_KEYS: readonly string[] = ['tag_name', 'text', 'href', 'selector']
/** Those of them that are equal to something or not. */
const ELEMENT_KEYS_EXACT: readonly string[] = ['tag_name', 'selector']

/** Whether filters of this type ask for the membership in a cohort. */
export function isCohortFilterType(type: unknown): boolean {
  return COHORT_TYPES.includes(type)
}

/**
 * The number of the cohort that a filter of such a type names; null when it names none, and then nobody
 * is a member.
 */
export function cohortIdOf(filter: PropertyFilter): number | null {
  const { value } = filter
  const id = Array.isArray(value) && value.length === 1 ? (value[0] as unknown) : value
  const text = typeof id === 'number' || typeof id === 'string' ? String(id) : ''
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
}

/** All filters of a tree from left to right. */
export function filtersOf(tree: FilterGroup): readonly PropertyFilter[] {
  return tree.values.flatMap((value) => (isGroup(value) ? filtersOf(value) : [value]))
}

/** Tells a group from a filter. */
export function isGroup(value: FilterGroup | PropertyFilter): value is FilterGroup {
  return 'values' in value
}

/**
 * The filters of a list of persons. Filters on anything but persons and cohorts, and filters that cannot
 * be built, are left out; null when nothing is left. Throws 400 `invalid_input` with `properties` as
 * `attr` for what is no tree at all.
 */
export function readListFilters(value: unknown): FilterGroup | null {
  const reader = new TreeReader(LIST_DEPTH_MAX, 'properties', 'person', takeForList)
  return reader.read(value)
}

/**
 * The filters of a dynamic cohort, at most groups of groups. Throws 400 `invalid_input` with `filters` as
 * `attr` for every filter that cannot be used, and for none at all.
 */
export function readCohortFilters(value: unknown): FilterGroup {
  const reader = new TreeReader(COHORT_DEPTH_MAX, 'filters', 'person', takeForCohort)
  const tree = reader.read(value)
  if (tree === null) throw invalid('filters', 'needs at least one filter on persons')
  return tree
}

/**
 * The filters of an analytic query, about events when they do not say what else. Filters that cannot be
 * built are left out; null when nothing is left. Throws 400 `invalid_input` with `attr` for what is no
 * tree, for filters on sessions, and for parts of elements that only have an exact form.
 */
export function readEventFilters(value: unknown, attr: string): FilterGroup | null {
  const reader = new TreeReader(LIST_DEPTH_MAX, attr, 'event', takeForEvents)
  return reader.read(value)
}

/** All trees at once; null when there is none. */
export function allOf(trees: readonly (FilterGroup | null)[]): FilterGroup | null {
  const values = trees.filter((tree) => tree !== null)
  const [first] = values
  if (first === undefined) return null
  return values.length === 1 ? first : { type: 'AND', values }
}

/** The filter, null to leave it out, or a text that says why it is refused. */
type TakeFilter = (
  raw: Readonly<Record<string, unknown>>,
  defaultType: string,
) => PropertyFilter | string | null

class TreeReader {
  readonly #depthMax: number
  readonly #attr: string
  /** What filters are about that do not say it. */
  readonly #defaultType: string
  readonly #take: TakeFilter
  #count = 0

  constructor(depthMax: number, attr: string, defaultType: string, take: TakeFilter) {
    this.#depthMax = depthMax
    this.#attr = attr
    this.#defaultType = defaultType
    this.#take = take
  }

  read(value: unknown): FilterGroup | null {
    if (value === null || value === undefined || value === '') return null
    if (Array.isArray(value)) return this.#group('AND', value, 1)
    if (!isObject(value)) throw invalid(this.#attr, 'must be a list or a tree of filters')
    if (Array.isArray(value['values'])) return this.#tree(value, 1)
    if (Object.hasOwn(value, 'values')) throw invalid(this.#attr, 'needs a list as values')
    if (Object.hasOwn(value, 'key')) return this.#group('AND', [value], 1)
    return this.#group('AND', Object.entries(value).map(filterOfOldForm), 1)
  }

  #tree(raw: Readonly<Record<string, unknown>>, depth: number): FilterGroup | null {
    const type = raw['type'] ?? 'AND'
    if (type !== 'AND' && type !== 'OR') {
      throw invalid(this.#attr, 'knows groups of the type AND and OR only')
    }
    return this.#group(type, raw['values'] as readonly unknown[], depth)
  }

  #group(type: 'AND' | 'OR', items: readonly unknown[], depth: number): FilterGroup | null {
    if (depth > this.#depthMax) {
      throw invalid(this.#attr, `may hold groups within groups ${this.#depthMax} deep at most`)
    }
    const groups = items.filter((item) => isObject(item) && Array.isArray(item['values']))
    if (groups.length > 0 && groups.length < items.length) {
      throw invalid(
        this.#attr,
        'mixes groups and filters in one list: put the filters into a group',
      )
    }
    const values: (FilterGroup | PropertyFilter)[] = []
    for (const item of items) {
      if (!isObject(item)) throw invalid(this.#attr, 'may hold filters only, each an object')
      const taken = groups.length > 0 ? this.#tree(item, depth + 1) : this.#filter(item)
      if (taken !== null) values.push(taken)
    }
    return values.length === 0 ? null : { type, values }
  }

  #filter(raw: Readonly<Record<string, unknown>>): PropertyFilter | null {
    if (++this.#count > FILTERS_MAX) {
      throw invalid(this.#attr, `may hold ${FILTERS_MAX} filters at most`)
    }
    const taken = this.#take(raw, this.#defaultType)
    if (typeof taken === 'string') throw invalid(this.#attr, taken)
    return taken
  }
}

function takeForList(
  raw: Readonly<Record<string, unknown>>,
  defaultType: string,
): PropertyFilter | null {
  const filter = filterOf(raw, defaultType)
  const isOfPerson = filter?.type === 'person' || isCohortFilterType(filter?.type)
  return isOfPerson && filter !== null && isBuildable(filter) ? filter : null
}

function takeForEvents(
  raw: Readonly<Record<string, unknown>>,
  defaultType: string,
): PropertyFilter | string | null {
  const filter = filterOf(raw, defaultType)
  if (filter === null) return null
  if (filter.type === 'session') return 'cannot use sessions, which are not stored'
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
  return 'can compare tag_name and selector of elements with the operators exact and is_not only'
}

function takeForCohort(
  raw: Readonly<Record<string, unknown>>,
  defaultType: string,
): PropertyFilter | string {
  const filter = filterOf(raw, defaultType)
  if (filter === null) return 'needs a text as key in every filter'
  if (raw['type'] === 'behavioral') return 'cannot use what people did: use properties of persons'
  if (filter.type !== 'person' && !isCohortFilterType(filter.type)) {
    return 'may hold filters of the types person and cohort only'
  }
  if (isBuildable(filter)) return filter
  return 'has a filter without a value, or with an operator that is not known'
}

/** The parts of a filter that have a meaning; null without a key. */
function filterOf(
  raw: Readonly<Record<string, unknown>>,
  defaultType: string,
): PropertyFilter | null {
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

function isBuildable(filter: NegatableFilter): boolean {
  if (!isCohortFilterType(filter.type)) return propertyTest(filter) !== null
  const { value } = filter
  return value !== undefined && value !== null
}

/** `plan__is_not` and a value; a name without a known operator behind `__` is a name. */
function filterOfOldForm([name, value]: readonly [string, unknown]): PropertyFilter {
  const start = name.lastIndexOf('__')
  const operator = start > 0 ? name.slice(start + 2) : ''
  const key = start > 0 ? name.slice(0, start) : ''
  const filter = { key, operator, value: value ?? '' }
  return key !== '' && propertyTest(filter) !== null ? filter : { key: name, value }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(attr: string, what: string): ServiceError {
  return new ServiceError('invalid_input', `${attr} ${what}`, { attr })
}
