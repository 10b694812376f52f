/**
 * The result of a query as a plain table, for a page without scripts: whatever the kind of the query, rows are
 * what the result lists, and columns what its rows say. Curves over days become a column each.
 */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { SHARED_CELL_CHARACTERS_MAX, SHARED_COLUMNS_MAX, SHARED_ROWS_MAX } from './limits.ts'
import { seriesNames, valueText } from './series-names.ts'

/** Texts, none of them escaped. */
export interface ResultTable {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** Rows and columns that are left out. */
  readonly moreRows: number
  readonly moreColumns: number
}

/** What a query answered. */
export interface Answered {
  readonly results: unknown
  readonly columns?: unknown
}

/** The table of a result; null when there is nothing to show. Linear in what is shown. */
export function resultTable(answered: Answered): ResultTable | null {
  const table = whole(answered)
  if (table.head.length === 0 || table.rows.length === 0) return null
  const head = table.head.slice(0, SHARED_COLUMNS_MAX)
  const shown = table.rows.slice(0, SHARED_ROWS_MAX)
  return {
    head: head.map(cellText),
    rows: shown.map((row) => head.map((_, index) => cellText(row[index]))),
    moreRows: table.rows.length - shown.length,
    moreColumns: table.head.length - head.length,
  }
}

interface Cells {
  readonly head: readonly unknown[]
  readonly rows: readonly (readonly unknown[])[]
}

function whole({ results: answered, columns }: Answered): Cells {
  const results: readonly unknown[] = Array.isArray(answered) ? answered : [answered]
  // The steps of several funnels are lists of objects.
  const items = objectsOf(results.flat())
  if (items.length > 0 && items.length === results.flat().length) {
    return (
      retention(items) ??
      curves(items) ??
      totals(items) ??
      steps(items) ??
      bins(items) ??
      members(items)
    )
  }
  const rows = results.filter((row) => Array.isArray(row)) as readonly (readonly unknown[])[]
  const [first] = rows
  if (first !== undefined) {
    return { head: Array.isArray(columns) ? columns : first.map((_, index) => index + 1), rows }
  }
  const values = results.filter((value) => value !== null && value !== undefined)
  return { head: ['result'], rows: values.map((value) => [value]) }
}

/** A row for each period in which actors came, a column for each period in which they came back; null for anything else. */
function retention(items: readonly JsonObject[]): Cells | null {
  const [first] = items
  if (first === undefined || !items.every(({ values }) => Array.isArray(values))) return null
  const isSplit = items.some(({ breakdown_value }) => (breakdown_value ?? null) !== null)
  const labels = objectsOf(first['values'] as readonly unknown[]).map(({ label }) => label)
  return {
    head: ['date', ...(isSplit ? ['breakdown'] : []), ...labels],
    rows: items.map((item) => [
      item['date'],
      ...(isSplit ? [valueText(item['breakdown_value'])] : []),
      ...objectsOf(item['values'] as readonly unknown[]).map(({ count }) => count),
    ]),
  }
}

/**
 * Series over the same days, a column each; null for anything else. The range before has days of its own, in a column
 * in front of its numbers.
 */
function curves(items: readonly JsonObject[]): Cells | null {
  const isCurves = items.every(
    ({ data, days }) => Array.isArray(data) && Array.isArray(days) && days.length > 0,
  )
  if (!isCurves) return null
  const names = seriesNames(items)
  const ranges = [false, true]
    .map((isBefore) => ({
      day: isBefore ? 'day (before)' : 'day',
      own: items.flatMap((item, index) =>
        (item['compare_label'] === 'previous') === isBefore ? [{ item, name: names[index] }] : [],
      ),
    }))
    .filter(({ own }) => own.length > 0)
  const lists = ranges.flatMap(({ own }) => [
    bucketTexts(own[0]?.item ?? {}),
    ...own.map(({ item }) => item['data'] as readonly unknown[]),
  ])
  const length = Math.max(...lists.map((list) => list.length))
  return {
    head: ranges.flatMap(({ day, own }) => [day, ...own.map(({ name }) => name)]),
    rows: Array.from({ length }, (_, index) => lists.map((list) => list[index])),
  }
}

/** What buckets are called: by their days, or, where they are numbers of periods, by their labels. */
function bucketTexts({ days, labels }: JsonObject): readonly unknown[] {
  const texts = Array.isArray(days) ? days : []
  return typeof texts[0] === 'number' && Array.isArray(labels) ? labels : texts
}

/** One number for each series; null for anything else. */
function totals(items: readonly JsonObject[]): Cells | null {
  if (!items.every((item) => Object.hasOwn(item, 'aggregated_value'))) return null
  const names = seriesNames(items)
  return {
    head: ['series', 'value'],
    rows: items.map(({ aggregated_value }, index) => [names[index], aggregated_value]),
  }
}

/** The steps of a funnel, or of one for each value of a breakdown; null for anything else. */
function steps(items: readonly JsonObject[]): Cells | null {
  const isSteps = items.every(
    (item) => Object.hasOwn(item, 'average_conversion_time') && Object.hasOwn(item, 'count'),
  )
  if (!isSteps) return null
  return members(
    items.map(({ breakdown, breakdown_value, custom_name, name, ...item }) => {
      // The value of a cohort is its number; its name stands beside it.
      const value = Array.isArray(breakdown_value)
        ? breakdown_value
        : (breakdown ?? breakdown_value)
      const step = { name: custom_name || name, ...item }
      if (value === undefined) return step
      const text = valueText(value)
      return { breakdown: text === 'Other' ? '(others)' : text, ...step }
    }),
  )
}

/** How many took how long; null for anything else. */
function bins([item, ...others]: readonly JsonObject[]): Cells | null {
  const found = item?.['bins']
  if (!Array.isArray(found) || others.length > 0) return null
  const rows = found.map((bin: unknown): readonly unknown[] => (Array.isArray(bin) ? bin : []))
  const average = item?.['average_conversion_time'] ?? null
  return {
    head: ['seconds', 'count'],
    rows: average === null ? rows : [...rows, [`average: ${cellText(average)}`, '']],
  }
}

/** What items say to programs alone: the step of a funnel has its name besides. */
const INTERNAL: readonly string[] = ['action_id', 'order', 'type']

/** The plain members of objects, in the order in which they come first. */
function members(items: readonly JsonObject[]): Cells {
  const names = new Set<string>()
  for (const item of items.slice(0, SHARED_ROWS_MAX)) {
    for (const [name, value] of Object.entries(item)) {
      if (isPlain(value) && !INTERNAL.includes(name)) names.add(name)
    }
  }
  const head = [...names]
  const rows = items.map((item) =>
    head.map((name) => (Object.hasOwn(item, name) ? item[name] : null)),
  )
  return { head, rows }
}

function isPlain(value: unknown): boolean {
  return value !== null && value !== undefined && value !== '' && typeof value !== 'object'
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'number') {
    const rounded = Math.round(value * 10_000) / 10_000
    return String(Number.isFinite(rounded) ? rounded : value)
  }
  // A number and that of the range before.
  if (Array.isArray(value) && value.length === 2)
    return value.map(cellText).filter(Boolean).join(' / ')
  const text = isObject(value) || Array.isArray(value) ? JSON.stringify(value) : String(value)
  const isLong = text.length > SHARED_CELL_CHARACTERS_MAX
  return isLong ? `${text.slice(0, SHARED_CELL_CHARACTERS_MAX)}…` : text
}
