/** Analytic queries about events and persons. Parameters of each kind: docs/compatibility/queries.md, "Kinds". */
import { get, post } from './api.ts'

/** A query as the route accepts it. */
export type Query = { readonly kind: string } & Readonly<Record<string, unknown>>

/** Returns the results of a query. Throws an `ApiError`. */
export async function askQuery<Results>(query: Query, signal?: AbortSignal): Promise<Results> {
  return (await askQueryWhole(query, signal)).results as Results
}

/** Returns the whole answer of a query: its results, and also its columns and whether more rows follow. */
export async function askQueryWhole(query: Query, signal?: AbortSignal) {
  return post('project/query/', {}, { query }, signal)
}

/** Returns true if the project has seen an event, or an event with this name. */
export async function hasEvent(name = '', signal?: AbortSignal): Promise<boolean> {
  const { results } = await get(
    'project/event_definitions/',
    { search: name, limit: name === '' ? 1 : 100 },
    signal,
  )
  return results.some((one) => name === '' || one.name === name)
}

/** One line of a chart, as `TrendsQuery` and similar queries return it. */
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

/** A filter on a property, as queries accept it. */
export interface PropertyFilter {
  readonly key: string
  readonly value?: unknown
  readonly operator: string
  readonly type: 'event' | 'person' | 'group' | 'cohort' | 'session'
  /** The number of the group type, for properties of groups. */
  readonly group_type_index?: number
}
