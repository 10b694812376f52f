/**
 * Names the series and breakdown values of a result, so that a reader can distinguish them in a table. A name that the
 * author of the insight chose is used. Texts that are meant only for programs are replaced.
 */
import { isObject, type JsonObject } from '../../base/json.ts'

/** The texts that replace internal names of breakdown values. */
const VALUE_TEXTS: ReadonlyMap<string, string> = new Map([
  ['$$_posthog_breakdown_null_$$', '(none)'],
  ['$$_posthog_breakdown_other_$$', '(others)'],
])

/** Returns the text of a breakdown value. The values of several properties are joined by ` / `. */
export function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(' / ')
  if (value === null || value === undefined || value === '') return '(none)'
  return VALUE_TEXTS.get(String(value)) ?? String(value)
}

/** Returns a name for each item of a result. If names are equal, details are added to tell them apart. */
export function seriesNames(items: readonly JsonObject[]): readonly string[] {
  const hasSeveral = new Set(items.map((item) => actionOf(item)['order'])).size > 1
  const isFormulas = new Set(items.map(({ label }) => label)).size > 1
  const names = items.map((item) => {
    const series = seriesName(item)
    const value = breakdownText(item, series)
    if (value === null) return series
    const isSeriesTold = hasSeveral || (isFormulas && item['action'] === null)
    return isSeriesTold ? `${series} - ${value}` : value
  })
  const withMath = namesWithDetails(names, (index) =>
    String(actionOf(items[index])['math'] ?? 'total'),
  )
  // The letters are those by which formulas name the series.
  const withLetters = namesWithDetails(withMath, (index) => {
    const { order } = actionOf(items[index])
    return typeof order === 'number' ? String.fromCharCode(65 + order) : ''
  })
  return withLetters.map((name, index) => {
    return items[index]?.['compare_label'] === 'previous' ? `${name} (before)` : name
  })
}

/** Returns the name of a series: the one that its author chose, or else the name of its event or action. */
function seriesName(item: JsonObject): string {
  const { label, status } = item
  const { custom_name, name } = actionOf(item)
  if (status !== undefined) return String(status)
  const found = [custom_name, name, label].find((text) => typeof text === 'string' && text !== '')
  return found === undefined ? 'value' : String(found)
}

/** Returns the text of the breakdown value of an item, or null if there is no breakdown. */
function breakdownText(item: JsonObject, series: string): string | null {
  const { breakdown_value, label } = item
  if (breakdown_value === undefined) return null
  // For a cohort, the breakdown value is its id, and the name of the cohort is in the label.
  const isCohort = typeof breakdown_value === 'number' || breakdown_value === 'all'
  if (!isCohort || typeof label !== 'string') return valueText(breakdown_value)
  const { name = series } = actionOf(item)
  return label.startsWith(`${String(name)} - `) ? label.slice(String(name).length + 3) : label
}

/** Adds a detail to each name that occurs several times with different details. */
function namesWithDetails(names: readonly string[], detailOf: (index: number) => string): string[] {
  const counts = new Map<string, Set<string>>()
  for (const [index, name] of names.entries()) {
    const details = counts.get(name) ?? new Set()
    details.add(detailOf(index))
    counts.set(name, details)
  }
  return names.map((name, index) => {
    const detail = detailOf(index)
    const isAmbiguous = (counts.get(name)?.size ?? 0) > 1
    return isAmbiguous && detail !== '' ? `${name} (${detail})` : name
  })
}

function actionOf(item: JsonObject | undefined): JsonObject {
  const action = item?.['action']
  return isObject(action) ? action : {}
}
