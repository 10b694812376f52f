/**
 * Sends analytic queries about events and persons. Parameters of each kind of query: docs/compatibility/queries.md,
 * "Kinds".
 */
import { get, post } from './api.ts'

/** A query in the form that the API accepts. */
export type Query = { readonly kind: string } & Readonly<Record<string, unknown>>

/** Returns the results of a query. Throws an `ApiError`. */
export async function askQuery<Results>(query: Query, signal?: AbortSignal): Promise<Results> {
  return (await askQueryWhole(query, signal)).results as Results
}

/**
 * Returns the whole answer to a query. Besides the results, it contains the columns, and says whether there are more
 * rows.
 */
export async function askQueryWhole(query: Query, signal?: AbortSignal) {
  return post('project/query/', {}, { query }, signal)
}

/**
 * Returns true if the project has received an event. With `name`, returns true if it has received an event with this
 * name.
 */
export async function hasEvent(name = '', signal?: AbortSignal): Promise<boolean> {
  const { results } = await get(
    'project/event_definitions/',
    { search: name, limit: name === '' ? 1 : 100 },
    signal,
  )
  return results.some((one) => name === '' || one.name === name)
}

/** A line of a chart in the form in which `TrendsQuery` and similar queries return it. */
export interface Series {
  readonly label: string
  readonly data: readonly number[]
  readonly days: readonly string[]
  readonly labels: readonly string[]
  readonly count: number
  readonly aggregated_value?: number | null
  readonly breakdown_value?: unknown
  readonly compare_label?: 'current' | 'previous'
  readonly persons_urls?: readonly ({ readonly url: string } | null)[]
}

/** A filter on a property in the form that queries accept. */
export interface PropertyFilter {
  readonly key: string
  readonly value?: unknown
  readonly operator: string
  readonly type: 'event' | 'person' | 'group' | 'cohort' | 'session'
  /** The index of the group type. Only for properties of groups. */
  readonly group_type_index?: number
}
