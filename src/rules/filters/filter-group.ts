/**
 * Trees of property filters as they are after reading, and what can be asked of one without evaluating it.
 * Source: docs/compatibility/events.md, "Property filters".
 */

/** A test on one event property; see docs/compatibility/events.md, "Property filters". */
export interface PropertyFilter {
  readonly key: string
  readonly value?: unknown
  readonly operator?: string
  readonly type?: string
  /** Of a filter on groups: the number of their type. */
  readonly group_type_index?: number
  /** Swaps the operator with its opposite. */
  readonly negation?: boolean
}

/** A tree of filters: all (`AND`) or one (`OR`) of `values` must hold. */
export interface FilterGroup {
  readonly type: 'AND' | 'OR'
  readonly values: readonly (FilterGroup | PropertyFilter)[]
}

const COHORT_TYPES: readonly unknown[] = ['cohort', 'static-cohort', 'precalculated-cohort']

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

/** All trees at once; null when there is none. */
export function allOf(trees: readonly (FilterGroup | null)[]): FilterGroup | null {
  const values = trees.filter((tree) => tree !== null)
  const [first] = values
  if (first === undefined) return null
  return values.length === 1 ? first : { type: 'AND', values }
}
