/** Finds the query of an insight, alone or on a dashboard. Source: docs/compatibility/saved.md, "Dashboards". */
import { isObject, type JsonObject } from '../../base/json.ts'

/** The kinds of nodes that describe how the result of their inner query is shown. */
const FRAMES: readonly unknown[] = ['InsightVizNode', 'DataTableNode', 'DataVisualizationNode']

/** Returns the innermost query with the filters of a dashboard applied, or null if there is no query. */
export function questionOf(saved: JsonObject | null, filters: JsonObject = {}): JsonObject | null {
  let query: unknown = saved
  while (isObject(query) && FRAMES.includes(query['kind'])) query = query['source']
  if (!isObject(query)) return null
  return { ...query, ...rangeUnder(query, filters), ...propertiesUnder(query, filters) }
}

/** Returns the date range. The range of a dashboard replaces the range of the query as a whole. */
function rangeUnder({ dateRange }: JsonObject, { date_from, date_to }: JsonObject): JsonObject {
  if (!date_from && !date_to) return {}
  const before = isObject(dateRange) ? dateRange : {}
  return { dateRange: { ...before, date_from: date_from ?? null, date_to: date_to ?? null } }
}

/** Returns the property filters. The filters of a dashboard apply in addition to those of the query. */
function propertiesUnder({ properties: own }: JsonObject, { properties }: JsonObject): JsonObject {
  if (!Array.isArray(properties) || properties.length === 0) return {}
  const more = properties as readonly unknown[]
  const before = Array.isArray(own) ? (own as readonly unknown[]) : []
  if (!isObject(own)) return { properties: [...before, ...more] }
  return { properties: { type: 'AND', values: [own, { type: 'AND', values: more }] } }
}
