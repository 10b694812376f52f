/**
 * Finds the query of an insight that is shown alone or on a dashboard. Source: docs/compatibility/saved.md,
 * "Dashboards".
 */
import { isObject, type JsonObject } from '../../base/json.ts'

/** The kinds of query nodes that only describe how a result is shown. The query itself is in their member `source`. */
const FRAMES: readonly unknown[] = ['InsightVizNode', 'DataTableNode', 'DataVisualizationNode']

/**
 * Returns the innermost query of a saved query, with the filters of a dashboard applied. Returns null if there is none.
 */
export function questionOf(saved: JsonObject | null, filters: JsonObject = {}): JsonObject | null {
  let query: unknown = saved
  while (isObject(query) && FRAMES.includes(query['kind'])) query = query['source']
  if (!isObject(query)) return null
  return { ...query, ...rangeUnder(filters), ...propertiesUnder(query, filters) }
}

/**
 * Returns the date range of a query on a dashboard. The range of the dashboard, if it has one, replaces the range of
 * the query completely.
 */
function rangeUnder(filters: JsonObject): JsonObject {
  const { date_from, date_to, explicitDate } = filters
  if (!date_from && !date_to) return {}
  const ends = { date_from: date_from ?? null, date_to: date_to ?? null }
  return { dateRange: explicitDate === undefined ? ends : { ...ends, explicitDate } }
}

/**
 * Returns the property filters of a query on a dashboard: the filters of the query and the filters of the dashboard.
 */
function propertiesUnder({ properties: own }: JsonObject, { properties }: JsonObject): JsonObject {
  if (!Array.isArray(properties) || properties.length === 0) return {}
  const more = properties as readonly unknown[]
  const before = Array.isArray(own) ? (own as readonly unknown[]) : []
  if (!isObject(own)) return { properties: [...before, ...more] }
  return { properties: { type: 'AND', values: [own, { type: 'AND', values: more }] } }
}
