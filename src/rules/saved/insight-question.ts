/** The question that an insight asks, alone or on a dashboard. Source: docs/compatibility/saved.md, "Dashboards". */
import { isObject, type JsonObject } from '../../base/json.ts'

/** Nodes that say how the result of the query in them is shown. */
const FRAMES: readonly unknown[] = ['InsightVizNode', 'DataTableNode', 'DataVisualizationNode']

/** The innermost query under the filters of a dashboard; null when there is none. */
export function questionOf(saved: JsonObject | null, filters: JsonObject = {}): JsonObject | null {
  let query: unknown = saved
  while (isObject(query) && FRAMES.includes(query['kind'])) query = query['source']
  if (!isObject(query)) return null
  return { ...query, ...rangeUnder(query, filters), ...propertiesUnder(query, filters) }
}

/** The range of a dashboard takes the place of that of the query, as a whole. */
function rangeUnder({ dateRange }: JsonObject, { date_from, date_to }: JsonObject): JsonObject {
  if (!date_from && !date_to) return {}
  const before = isObject(dateRange) ? dateRange : {}
  return { dateRange: { ...before, date_from: date_from ?? null, date_to: date_to ?? null } }
}

/** The properties of a dashboard are asked for besides those of the query. */
function propertiesUnder({ properties: own }: JsonObject, { properties }: JsonObject): JsonObject {
  if (!Array.isArray(properties) || properties.length === 0) return {}
  const more = properties as readonly unknown[]
  const before = Array.isArray(own) ? (own as readonly unknown[]) : []
  if (!isObject(own)) return { properties: [...before, ...more] }
  return { properties: { type: 'AND', values: [own, { type: 'AND', values: more }] } }
}
