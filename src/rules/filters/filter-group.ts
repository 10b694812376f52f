/**
 * Trees of property filters after they were read, and the functions that inspect a tree without evaluating it.
 * Source: docs/compatibility/events.md, "Property filters".
 */

/**
 * A test on one property of an event, a person or a group, on an element, or on the membership in a cohort. `type` says
 * which. See docs/compatibility/events.md, "Property filters".
 */
export interface PropertyFilter {
  readonly key: string
  readonly value?: unknown
  readonly operator?: string
  readonly type?: string
  /** The number of the group type, for a filter on groups. */
  readonly group_type_index?: number
  /** True if the operator is replaced by its opposite. */
  readonly negation?: boolean
}

/** A tree of filters. For `AND`, all of `values` must hold. For `OR`, at least one of them must hold. */
export interface FilterGroup {
  readonly type: 'AND' | 'OR'
  readonly values: readonly (FilterGroup | PropertyFilter)[]
}

const COHORT_TYPES: readonly unknown[] = ['cohort', 'static-cohort', 'precalculated-cohort']

/** Returns whether filters of a type test whether a person is in a cohort. */
export function isCohortFilterType(type: unknown): boolean {
  return COHORT_TYPES.includes(type)
}

/**
 * Returns the number of the cohort that a filter on a cohort names. Returns null if the filter names no valid number.
 * In this case, nobody counts as a member.
 */
export function cohortIdOf(filter: PropertyFilter): number | null {
  const { value } = filter
  const id = Array.isArray(value) && value.length === 1 ? (value[0] as unknown) : value
  const text = typeof id === 'number' || typeof id === 'string' ? String(id) : ''
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
}

/**
 * Returns the numbers of the cohorts in a tree. 0 stands for a filter without a valid cohort number; no cohort has that
 * number.
 */
export function cohortsIn(tree: FilterGroup): readonly number[] {
  const filters = filtersOf(tree).filter(({ type }) => isCohortFilterType(type))
  return filters.map((filter) => cohortIdOf(filter) ?? 0)
}

/**
 * Returns whether a tree refers to a cohort, directly or through other cohorts. `treeOf` returns the tree of a cohort,
 * or null if it has none. Each cohort is read once.
 */
export function refersToCohort(
  tree: FilterGroup,
  id: number,
  treeOf: (id: number) => FilterGroup | null,
): boolean {
  const seen = new Set<number>()
  const rest = [...cohortsIn(tree)]
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if (next === id) return true
    if (seen.has(next)) continue
    seen.add(next)
    const inner = treeOf(next)
    if (inner !== null) rest.push(...cohortsIn(inner))
  }
  return false
}

/** Returns all filters of a tree from left to right. */
export function filtersOf(tree: FilterGroup): readonly PropertyFilter[] {
  return tree.values.flatMap((value) => (isGroup(value) ? filtersOf(value) : [value]))
}

/** Returns whether a node of a tree is a group and not a filter. */
export function isGroup(value: FilterGroup | PropertyFilter): value is FilterGroup {
  return 'values' in value
}

/** Returns a tree that requires all given trees, or null if there is none. */
export function allOf(trees: readonly (FilterGroup | null)[]): FilterGroup | null {
  const values = trees.filter((tree) => tree !== null)
  const [first] = values
  if (first === undefined) return null
  return values.length === 1 ? first : { type: 'AND', values }
}
