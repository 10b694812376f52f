/**
 * Filters of cohorts and actions that can never match, as filter-faults.ts finds those of flags. Source:
 * docs/compatibility/flags.md, "Filters that can never match".
 */
import type { PatternDialect } from '../../base/pattern/pattern.ts'
import type { ActionStep } from './actions.ts'
import { type FilterFault, faultsOfFilter, type PlacedFilter } from './filter-faults.ts'
import { isCohortFilterType } from './filter-group.ts'
import { filterPlaces, operatorsInRequests } from './filter-tree.ts'
import { COHORT_OPERATORS } from './operator-names.ts'

/** Cohorts are asked for in lists, and by flags, whose patterns are read in another dialect. */
export const COHORT_DIALECTS: readonly PatternDialect[] = ['ascii', 'unicode']
/** Actions are asked for in analytic questions. */
export const ACTION_DIALECTS: readonly PatternDialect[] = ['ascii']
/** Members of a step that may be patterns, and the members that say so. */
const STEP_PATTERNS = [
  ['url', 'url_matching'],
  ['text', 'text_matching'],
  ['href', 'href_matching'],
] as const

/** The faults of the tree of a cohort, as it was sent or as it is stored; linear, apart from patterns. */
export function cohortFaults(tree: unknown): readonly FilterFault[] {
  return cohortFilters(tree).flatMap((placed) => {
    const isCohort = isCohortFilterType(placed.filter['type'])
    const known = isCohort ? COHORT_OPERATORS : operatorsInRequests(placed.filter['type'])
    return faultsOf(placed, known, COHORT_DIALECTS)
  })
}

/** The faults of the steps of an action; linear, apart from patterns. */
export function actionFaults(steps: readonly ActionStep[]): readonly FilterFault[] {
  return actionFilters(steps).flatMap((placed) =>
    faultsOf(placed, operatorsInRequests(placed.filter['type']), ACTION_DIALECTS),
  )
}

/** The filters of an action, those that its texts stand for included. */
export function actionFilters(steps: readonly ActionStep[]): readonly PlacedFilter[] {
  return steps.flatMap((step, index) => {
    const start = `steps[${index}]`
    const patterns = STEP_PATTERNS.filter(([name, matching]) => {
      return step[matching] === 'regex' && step[name] !== null
    })
    return [
      ...patterns.map(([name]) => {
        const filter = { type: 'element', key: name, operator: 'regex', value: step[name] }
        return { path: `${start}.${name}`, filter }
      }),
      ...placedFilters(step.properties, 'event', `${start}.properties`),
    ]
  })
}

function cohortFilters(tree: unknown): readonly PlacedFilter[] {
  return placedFilters(tree, 'person', '')
}

/** Filters in one form, so that what was sent can be compared with what is stored. */
function placedFilters(tree: unknown, defaultType: string, prefix: string) {
  return filterPlaces(tree).map(({ path, raw }): PlacedFilter => {
    const { type, key, operator, value, negation } = raw
    const isCohort = isCohortFilterType(type)
    const filter = {
      type: type ?? defaultType,
      key: isCohort ? 'id' : key,
      operator: operator ?? null,
      value: value ?? null,
      negation: negation === true,
    }
    const isList = path.startsWith('[') || prefix === ''
    return { path: isList ? prefix + path : `${prefix}.${path}`, filter }
  })
}

function faultsOf(
  placed: PlacedFilter,
  known: readonly string[] | null,
  dialects: readonly PatternDialect[],
): readonly FilterFault[] {
  // Filters on anything else are left out wherever they stand.
  if (known === null) return []
  const { value } = placed.filter
  const patterns: readonly unknown[] = Array.isArray(value) && value.length > 0 ? value : [value]
  return faultsOfFilter(placed, known, patterns, dialects)
}
