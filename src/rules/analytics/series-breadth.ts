/** Which of two series takes in more events, by how they are written. */
import { filtersOf } from '../filters/filter-group.ts'
import type { Series } from './series.ts'

/**
 * Whether a series is written like another one or as a broader one: the same event or action, and none
 * but filters of the other one; keys and values are compared. Source: docs/compatibility/analytics.md, "Funnels
 * and correlation".
 */
export function isEqualOrBroader(series: Series, other: Series): boolean {
  if (series.type !== other.type || series.id !== other.id) return false
  const known = new Set(filterTexts(other))
  return filterTexts(series).every((text) => known.has(text))
}

function filterTexts({ filter }: Series): readonly string[] {
  if (filter === null) return []
  return filtersOf(filter).map(({ key, value }) => JSON.stringify([key, value]))
}
