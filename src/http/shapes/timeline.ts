/**
 * What an insight says about the timeline of a person: its series and the properties that matter.
 * Source: docs/COMPATIBILITY.md, "Properties over time".
 */
import { ServiceError } from '../../base/errors.ts'

/** Series of one request. More: 400 `invalid_input`. */
const SERIES_MAX = 100

/** Where the names of properties stand in a request, as it was parsed. */
export interface TimelineSources {
  readonly properties: unknown
  readonly series: unknown
  readonly breakdown: unknown
  readonly breakdownType: string | null
}

/** The names of the events of a list of series; empty when one of them means all events. Throws 400. */
export function readTimelineSeries(series: unknown): readonly string[] {
  if (series === undefined || series === null) return []
  if (!Array.isArray(series) || series.length > SERIES_MAX) {
    const detail = `events must be a list of at most ${SERIES_MAX} series`
    throw new ServiceError('invalid_input', detail, { attr: 'events' })
  }
  const names = series.map((item: unknown) => {
    if (typeof item === 'string') return item
    if (isObject(item) && (item['id'] === null || typeof item['id'] === 'string')) return item['id']
    const detail =
      'each of events must be an object with the name of an event as id, or null for all'
    throw new ServiceError('invalid_input', detail, { attr: 'events' })
  })
  return names.includes(null) ? [] : [...new Set(names.filter((name) => name !== null))]
}

/** Keys of all person filters, and of a breakdown by person: sorted, each once. */
export function timelineKeys(sources: TimelineSources): readonly string[] {
  const keys = new Set<string>()
  collectKeys(sources.properties, keys)
  if (Array.isArray(sources.series)) {
    for (const item of sources.series as readonly unknown[]) {
      if (isObject(item)) collectKeys(item['properties'], keys)
    }
  }
  if (sources.breakdownType === 'person') {
    const { breakdown } = sources
    for (const key of Array.isArray(breakdown) ? (breakdown as readonly unknown[]) : [breakdown]) {
      if (typeof key === 'string' && key !== '') keys.add(key)
    }
  }
  return [...keys].sort()
}

/** Goes through lists and groups; JSON of clients is nested to a bounded depth. */
function collectKeys(value: unknown, keys: Set<string>): void {
  if (Array.isArray(value)) {
    for (const item of value as readonly unknown[]) collectKeys(item, keys)
  } else if (isObject(value)) {
    if (Array.isArray(value['values'])) collectKeys(value['values'], keys)
    else if (value['type'] === 'person' && typeof value['key'] === 'string') keys.add(value['key'])
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
