/**
 * Builds the URLs of persons routes that list the actors behind the numbers of a query. A number that no route can list
 * exactly has no URL. Source: docs/compatibility/queries.md, "Who is behind a number".
 */
import { ServiceError } from '../../base/errors.ts'
import { isSameJson } from '../../base/json.ts'
import type { DateRange } from '../analytics/date-range.ts'
import { type FilterGroup, isGroup, type PropertyFilter } from '../filters/filter-group.ts'
import { readEventFilters } from '../filters/filter-tree.ts'
import { answerTooLarge } from './answer-formats.ts'
import { PERSONS_URL_UNITS_MAX, QUERY_ANSWER_BYTES_MAX } from './limits.ts'
import type { QueryBreakdown } from './query-breakdown.ts'
import type { QueryContext } from './query-kind.ts'
import type { QuerySeries } from './query-series.ts'

const MOMENT_MIN_MS = Date.parse('0001-01-01T00:00:00Z')
const MOMENT_MAX_MS = Date.parse('9999-12-31T23:59:59.999Z')

/** The URL that lists the actors behind a number. Null if there is none. */
export type PersonsUrl = { readonly url: string } | null

/** The parameters of a route. Null and undefined values are left out. Lists and objects are written as JSON. */
type Parameters = Readonly<Record<string, unknown>>

/** The parameters that are the same in the URLs of all numbers of an item. */
export interface UrlRequest {
  readonly route: 'trends' | 'funnel' | 'retention' | 'stickiness' | 'lifecycle' | 'path'
  /** The filter for all events. */
  readonly filter: FilterGroup | null
  /** The series whose filters the parameters contain. */
  readonly series: readonly QuerySeries[]
  readonly parameters: Parameters
}

/** Returns the URL for one number. `own` contains the parameters that only this number has. */
export type UrlMaker = (own: Parameters) => PersonsUrl

/** The maker for numbers without a URL. */
export const NO_URLS: UrlMaker = () => null

/** Builds the URLs of one answer. */
export class PersonsUrls {
  readonly #base: string
  #bytes = 0

  constructor({ projectId }: Pick<QueryContext, 'projectId'>) {
    this.#base = `/api/projects/${projectId}/persons`
  }

  /**
   * Returns the function that builds the URLs for the numbers of an item. The function throws 400 `query_too_large` if
   * all URLs together are larger than an answer may be.
   */
  of({ route, filter, series, parameters }: UrlRequest): UrlMaker {
    if (![filter, ...series.map((one) => one.filter)].every(isReadable)) return NO_URLS
    const properties = filter === null ? null : filterParameter(filter)
    const shared = written({ include_total: true, explicit_date: true, ...parameters, properties })
    return (own) => {
      const url = `${this.#base}/${route}/?${written(own)}&${shared}`
      if (url.length > PERSONS_URL_UNITS_MAX) return null
      this.#bytes += url.length
      if (this.#bytes > QUERY_ANSWER_BYTES_MAX) throw answerTooLarge()
      return { url }
    }
  }
}

/**
 * Returns the parameters `events` and `actions` for a list of series. `more` contains further members for each series.
 */
export function seriesParameters(series: readonly QuerySeries[], more: Parameters = {}) {
  const of = (type: QuerySeries['type']) => {
    const list = series.flatMap((one, order) =>
      one.type === type ? [{ ...entityParameter(one), order, ...more }] : [],
    )
    return list.length === 0 ? null : list
  }
  return { events: of('events'), actions: of('actions') }
}

/** Returns the parameters with which a route selects a single series. */
export function targetParameters(series: QuerySeries, more: Parameters = {}): Parameters {
  const { type, id } = series
  const target = { entity_type: type, entity_id: id, entity_order: 0 }
  return { ...target, ...seriesParameters([series], more) }
}

/** Returns a series as one object that contains its type, for parameters such as `target_entity`. */
export function entityParameter({ type, id, filter }: QuerySeries): Parameters {
  return { id, type, ...(filter === null ? {} : { properties: filterParameter(filter) }) }
}

/** Returns the parameters for a range whose ends the route must not move. */
export function rangeParameters({ fromMs, toMs }: DateRange): Parameters {
  return { date_from: momentText(fromMs), date_to: momentText(toMs) }
}

/**
 * Returns a moment in ISO 8601 with milliseconds, as routes read it. A moment outside of the years 1 to 9999 becomes
 * the first or last moment of these years.
 */
export function momentText(timeMs: number): string {
  return new Date(Math.max(MOMENT_MIN_MS, Math.min(MOMENT_MAX_MS, timeMs))).toISOString()
}

/**
 * Returns the filter that selects the events with one value of a breakdown. Returns null if all events pass, and
 * undefined if no filter can express the value. `texts` contains the value: one text for each property (null means
 * missing), or the number of the cohort. `hasNullText` is true if another value is the text `null`, because filters
 * cannot distinguish this text from the JSON null.
 */
export function breakdownFilter(
  breakdown: Pick<QueryBreakdown, 'properties' | 'cohorts'> | null,
  texts: readonly (string | null)[],
  hasNullText: boolean,
): FilterGroup | null | undefined {
  if (breakdown === null) return null
  const { properties, cohorts } = breakdown
  if (cohorts.length > 0) {
    const [value] = texts
    if (value === 'all' || value === '0') return null
    return { type: 'AND', values: [{ key: 'id', type: 'cohort', value }] }
  }
  const values: PropertyFilter[] = []
  for (const [index, { value, isUrlNormalized, binCount }] of properties.entries()) {
    const text = texts[index]
    if (!('key' in value) || isUrlNormalized || text === undefined) return undefined
    const { key } = value
    const base =
      value.kind === 'group_property'
        ? { key, type: 'group', group_type_index: value.typeIndex }
        : { key, type: value.kind === 'person_property' ? 'person' : 'event' }
    if (binCount !== null) {
      if (text === null) return undefined
      const [min, max] = JSON.parse(text) as readonly number[]
      values.push({ ...base, operator: 'gte', value: min }, { ...base, operator: 'lt', value: max })
    } else {
      if (text === 'null' || (text === null && hasNullText)) return undefined
      values.push({ ...base, operator: 'exact', value: text ?? ['', null] })
    }
  }
  return { type: 'AND', values }
}

/**
 * Returns a filter in the form that routes accept: a group contains either filters or groups, and is not nested more
 * deeply than necessary.
 */
function filterParameter(filter: FilterGroup): unknown {
  const { type, values } = unmixed(flat(filter))
  return type === 'AND' && !values.some(isGroup) ? values : { type, values }
}

function flat({ type, values }: FilterGroup): FilterGroup {
  return {
    type,
    values: values.flatMap((value) => {
      if (!isGroup(value)) return [value]
      const group = flat(value)
      return group.type === type || group.values.length === 1 ? group.values : [group]
    }),
  }
}

function unmixed({ type, values }: FilterGroup): FilterGroup {
  const hasGroups = values.some(isGroup)
  return {
    type,
    values: values.map((value) => {
      if (isGroup(value)) return unmixed(value)
      return hasGroups ? { type: 'AND', values: [value] } : value
    }),
  }
}

/** Returns whether a route reads the filter unchanged. Routes leave out or refuse filters that they do not know. */
function isReadable(filter: FilterGroup | null): boolean {
  if (filter === null) return true
  const sent: unknown = JSON.parse(JSON.stringify(filterParameter(filter)))
  const tree = Array.isArray(sent) ? { type: 'AND', values: sent as readonly unknown[] } : sent
  try {
    return isSameJson(readEventFilters(sent, 'properties'), tree)
  } catch (error) {
    if (error instanceof ServiceError) return false
    throw error
  }
}

function written(parameters: Parameters): string {
  const texts = Object.entries(parameters).flatMap(([name, value]): [string, string][] => {
    if (value === null || value === undefined) return []
    return [[name, typeof value === 'object' ? JSON.stringify(value) : String(value)]]
  })
  return new URLSearchParams(texts).toString()
}
