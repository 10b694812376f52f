/**
 * The series of a query: which events each stands for, and what it is called. What is computed of them is
 * read by the kinds. Source: docs/compatibility/queries.md, "Series".
 */

import type { SeriesMatch } from '../analytics/event-columns.ts'
import { allOf, type FilterGroup } from '../filters/filter-group.ts'
import { QUERY_SERIES_MAX } from './limits.ts'
import type { QueryFields } from './query-fields.ts'
import { readFilters } from './query-filters.ts'
import type { QueryContext } from './query-kind.ts'

/** A series of a query. */
export interface QuerySeries {
  /** Position in the query, from 0. */
  readonly order: number
  readonly type: 'events' | 'actions'
  /** Name of the event, null for all events; of an action its number. */
  readonly id: string | number | null
  /** Name of the event or action, `All events` for all. */
  readonly label: string
  readonly customName: string | null
  /** False: the action does not exist, and no event belongs to the series. */
  readonly exists: boolean
  /** Filters of the series itself; `match` has them, too. */
  readonly filter: FilterGroup | null
  readonly match: SeriesMatch
}

/** The series of a query and what was read of each besides. */
export interface ReadSeries<More> {
  readonly series: QuerySeries
  readonly more: More
}

/**
 * Reads `series`; `more` reads what a kind wants of each. Throws 400 `invalid_query` for fewer than `min`
 * and too many, and for nodes that are neither events nor actions.
 */
export function readSeriesList<More>(
  query: QueryFields,
  context: QueryContext,
  min: number,
  more: (node: QueryFields) => More,
): readonly ReadSeries<More>[] {
  const nodes = query.objects('series')
  if (nodes.length < min || nodes.length > QUERY_SERIES_MAX) {
    throw query.fault('series', `must be a list of ${min} to ${QUERY_SERIES_MAX} series`)
  }
  return nodes.map((node, order) => ({
    series: readSeriesNode(node, order, context),
    more: more(node),
  }))
}

/** One node: of `series`, an exclusion. Throws 400 `invalid_query`. */
export function readSeriesNode(
  node: QueryFields,
  order: number,
  context: QueryContext,
): QuerySeries {
  const kind = node.choice('kind', ['EventsNode', 'ActionsNode'])
  const filter = allOf([
    readFilters(node, 'properties', context),
    readFilters(node, 'fixedProperties', context),
  ])
  const customName = node.text('custom_name')
  if (kind === 'EventsNode') {
    const id = node.text('event')
    return { ...eventSeries(id, filter), order, customName }
  }
  return { ...actionSeries(node, 'id', filter, context), order, customName }
}

/** Events of a name, null for all. */
export function eventSeries(id: string | null, filter: FilterGroup | null): QuerySeries {
  const match = { names: id === null ? null : [id], filter, steps: [] }
  const label = id ?? 'All events'
  return { order: 0, type: 'events', id, label, customName: null, exists: true, filter, match }
}

/** The action whose number is the member `name`. Throws 400 `invalid_query` for what is no number. */
export function actionSeries(
  node: QueryFields,
  name: string,
  filter: FilterGroup | null,
  context: QueryContext,
): QuerySeries {
  const given = node.value(name)
  const id = typeof given === 'string' && /^\d{1,15}$/.test(given) ? Number(given) : given
  if (typeof id !== 'number' || !Number.isInteger(id)) {
    throw node.fault(name, 'must be the number of an action')
  }
  const action = context.action(id)
  const steps = action?.steps ?? []
  // An action without steps stands for no event at all.
  const match = { names: steps.length === 0 ? [] : null, filter, steps }
  const label = action?.name ?? ''
  const exists = action !== null
  return { order: 0, type: 'actions', id, label, customName: null, exists, filter, match }
}
