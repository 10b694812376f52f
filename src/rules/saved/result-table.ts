/**
 * The result of a query as a plain table, for a page without scripts: whatever the kind of the query, rows are
 * what the result lists, and columns what its rows say. Curves over days become a column each.
 */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { SHARED_CELL_CHARACTERS_MAX, SHARED_COLUMNS_MAX, SHARED_ROWS_MAX } from './limits.ts'

/** Texts, none of them escaped. */
export interface ResultTable {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** Rows that are left out. */
  readonly moreRows: number
}

/** What a query answered. */
export interface Answered {
  readonly results: unknown
  readonly columns?: unknown
}

/** The table of a result; null when there is nothing to show. Linear in what is shown. */
export function resultTable({ results, columns }: Answered): ResultTable | null {
  const table = whole(Array.isArray(results) ? results : [results], columns)
  if (table.head.length === 0 || table.rows.length === 0) return null
  const head = table.head.slice(0, SHARED_COLUMNS_MAX)
  const shown = table.rows.slice(0, SHARED_ROWS_MAX)
  return {
    head: head.map(cellText),
    rows: shown.map((row) => head.map((_, index) => cellText(row[index]))),
    moreRows: table.rows.length - shown.length,
  }
}

interface Cells {
  readonly head: readonly unknown[]
  readonly rows: readonly (readonly unknown[])[]
}

function whole(results: readonly unknown[], columns: unknown): Cells {
  // The steps of several funnels are lists of objects.
  const items = objectsOf(results.flat())
  if (items.length > 0 && items.length === results.flat().length)
    return curves(items) ?? members(items)
  const rows = results.filter((row) => Array.isArray(row)) as readonly (readonly unknown[])[]
  const [first] = rows
  if (first !== undefined) {
    return { head: Array.isArray(columns) ? columns : first.map((_, index) => index + 1), rows }
  }
  const values = results.filter((value) => value !== null && value !== undefined)
  return { head: ['result'], rows: values.map((value) => [value]) }
}

/** Series over the same days; null for anything else. */
function curves(items: readonly JsonObject[]): Cells | null {
  const [{ days } = {}] = items as readonly { readonly days?: unknown }[]
  const isCurves = items.every(({ data }) => Array.isArray(data))
  if (!isCurves || !Array.isArray(days) || days.length === 0) return null
  const names = items.map((item) => item['label'] ?? item['breakdown_value'])
  const series = items.map(({ data }) => data as readonly unknown[])
  return {
    head: ['day', ...names],
    rows: days.map((day: unknown, index) => [day, ...series.map((data) => data[index])]),
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
  return value !== null && value !== '' && typeof value !== 'object'
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
