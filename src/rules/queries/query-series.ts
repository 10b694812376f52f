/**
 * Reads the series of a query: the events that belong to each series, and its name. The math of a series is read by the
 * kind of the query. Source: docs/compatibility/queries.md, "Series".
 */

import type { SeriesMatch } from '../analytics/event-columns.ts'
import { allOf, type FilterGroup } from '../filters/filter-group.ts'
import { QUERY_SERIES_MAX } from './limits.ts'
import type { QueryFields } from './query-fields.ts'
import { readFilters } from './query-filters.ts'
import type { QueryContext } from './query-kind.ts'

/** A series of a query. */
export interface QuerySeries {
  /** The position in the query, from 0. */
  readonly order: number
  readonly type: 'events' | 'actions'
  /** The name of the event (null for all events), or the number of an action. */
  readonly id: string | number | null
  /** The name of the event or action. It is `All events` for all events. */
  readonly label: string
  readonly customName: string | null
  /** False if the action does not exist. No event then belongs to the series. */
  readonly exists: boolean
  /** The filters of the series itself. `match` contains them as well. */
  readonly filter: FilterGroup | null
  readonly match: SeriesMatch
}

/** A series of a query, with the additional values that the kind of the query has read from the series. */
export interface ReadSeries<More> {
  readonly series: QuerySeries
  readonly more: More
}

/**
 * Reads `series`. `more` reads the additional values that a kind needs. Throws 400 `invalid_query` if there are fewer
 * than `min` series or too many, and for nodes that are neither events nor actions.
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

/** Reads one node of `series`, or an exclusion. Throws 400 `invalid_query`. */
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

/** Returns a series of all events that have the name `id`, or of all events if `id` is null. */
export function eventSeries(id: string | null, filter: FilterGroup | null): QuerySeries {
  const match = { names: id === null ? null : [id], filter, steps: [] }
  const label = id ?? 'All events'
  return { order: 0, type: 'events', id, label, customName: null, exists: true, filter, match }
}

/**
 * Returns the series of the action whose number is in the member `name`. Throws 400 `invalid_query` if it is not a
 * number.
 */
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
  // An action without steps matches no event. An empty list in `names` has this effect, whereas null means any name.
  const match = { names: steps.length === 0 ? [] : null, filter, steps }
  const label = action?.name ?? ''
  const exists = action !== null
  return { order: 0, type: 'actions', id, label, customName: null, exists, filter, match }
}
