/**
 * Finds the filters of cohorts and actions that can never match, as filter-faults.ts does for flags. Source:
 * docs/compatibility/flags.md, "Filters that can never match".
 */
import type { PatternDialect } from '../../base/pattern/pattern.ts'
import type { ActionStep } from './actions.ts'
import { type FilterFault, faultsOfFilter, type PlacedFilter } from './filter-faults.ts'
import { isCohortFilterType } from './filter-group.ts'
import { filterPlaces, operatorsInRequests } from './filter-tree.ts'
import { COHORT_OPERATORS } from './operator-names.ts'

/**
 * The pattern dialects of cohorts. A pattern must be valid in both, because lists and flags use cohorts and read
 * patterns in different dialects.
 */
export const COHORT_DIALECTS: readonly PatternDialect[] = ['ascii', 'unicode']
/** The pattern dialects of actions, which only analytic questions use. */
export const ACTION_DIALECTS: readonly PatternDialect[] = ['ascii']
/** Pairs of members of a step. The first member of a pair contains a pattern if the second one is `regex`. */
const STEP_PATTERNS = [
  ['url', 'url_matching'],
  ['text', 'text_matching'],
  ['href', 'href_matching'],
] as const

/**
 * Returns the faults in the rule of a cohort, as a client sent it or as it is stored. The cost is linear, apart from
 * patterns.
 */
export function cohortFaults(tree: unknown): readonly FilterFault[] {
  return cohortFilters(tree).flatMap((placed) => {
    if (placed.filter['type'] === 'behavioral') return eventFaults(placed)
    const isCohort = isCohortFilterType(placed.filter['type'])
    const known = isCohort ? COHORT_OPERATORS : operatorsInRequests(placed.filter['type'])
    return faultsOf(placed, known, COHORT_DIALECTS)
  })
}

/** Returns the faults of the steps of an action. The cost is linear, apart from patterns. */
export function actionFaults(steps: readonly ActionStep[]): readonly FilterFault[] {
  return actionFilters(steps).flatMap((placed) =>
    faultsOf(placed, operatorsInRequests(placed.filter['type']), ACTION_DIALECTS),
  )
}

/**
 * Returns the filters of an action. A pattern that a step compares, for example with the URL, is returned as a filter
 * too.
 */
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

/** Returns the faults of the `event_filters` of a filter on behavior. */
function eventFaults({ path, filter }: PlacedFilter): readonly FilterFault[] {
  const places = placedFilters(filter['event_filters'], 'event', `${path}.event_filters`)
  return places.flatMap((placed) =>
    faultsOf(placed, operatorsInRequests(placed.filter['type']), ACTION_DIALECTS),
  )
}

function cohortFilters(tree: unknown): readonly PlacedFilter[] {
  return placedFilters(tree, 'person', '')
}

/**
 * Returns the filters of a tree in one canonical form, so that filters from a client can be compared with stored ones.
 */
function placedFilters(tree: unknown, defaultType: string, prefix: string) {
  return filterPlaces(tree).map(({ path, raw }): PlacedFilter => {
    if (raw['type'] === 'behavioral') return { path: prefix + path, filter: raw }
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
  // No list, chart or decision evaluates a filter whose type has no operators, so the filter cannot be faulty.
  if (known === null) return []
  const { value } = placed.filter
  const patterns: readonly unknown[] = Array.isArray(value) && value.length > 0 ? value : [value]
  return faultsOfFilter(placed, known, patterns, dialects)
}
