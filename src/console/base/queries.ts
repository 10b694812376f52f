/** Queries: numbers of events and persons. What each kind takes: docs/compatibility/queries.md, "Kinds". */
import { get, post } from './api.ts'

/** A query as the route takes it. */
export type Query = { readonly kind: string } & Readonly<Record<string, unknown>>

/** The results of a query. Throws an `ApiError`. */
export async function askQuery<Results>(query: Query, signal?: AbortSignal): Promise<Results> {
  return (await askQueryWhole(query, signal)).results as Results
}

/** The whole answer of a query: results, and columns or whether more follow. */
export async function askQueryWhole(query: Query, signal?: AbortSignal) {
  return post('project/query/', {}, { query }, signal)
}

/** True once an event of the project was seen; with a name, one that is called so. */
export async function hasEvent(name = '', signal?: AbortSignal): Promise<boolean> {
  const { results } = await get(
    'project/event_definitions/',
    { search: name, limit: name === '' ? 1 : 100 },
    signal,
  )
  return results.some((one) => name === '' || one.name === name)
}

/** One line of a chart, as `TrendsQuery` and its like answer it. */
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

/** A filter of a property, as queries take it. */
export interface PropertyFilter {
  readonly key: string
  readonly value?: unknown
  readonly operator: string
  readonly type: 'event' | 'person' | 'group' | 'cohort' | 'session'
}
