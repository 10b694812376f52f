/**
 * Turns the result of any query into a plain table, for a page without scripts. In general, the rows are the items of
 * the result and the columns are their members. Series over days are columns, with a row for each day.
 */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { SHARED_CELL_CHARACTERS_MAX, SHARED_COLUMNS_MAX, SHARED_ROWS_MAX } from './limits.ts'
import { seriesNames, valueText } from './series-names.ts'

/** The texts of a table, not escaped for HTML. */
export interface SharedTable {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** The numbers of rows and of columns that are left out of the table. */
  readonly moreRows: number
  readonly moreColumns: number
}

/** The parts of a query's answer that are shown. */
export interface Answered {
  readonly results: unknown
  readonly columns?: unknown
}

/**
 * Returns the table of a result, or null if the result is empty. The cost is linear in the number of cells that are
 * shown.
 */
export function sharedTable(answered: Answered): SharedTable | null {
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
  // If a query has several funnels, each item is a list of steps.
  const items = objectsOf(results.flat())
  if (items.length > 0 && items.length === results.flat().length) {
    return (
      retention(items) ??
      curves(items) ??
      totals(items) ??
      steps(items) ??
      bins(items) ??
      timeline(items) ??
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

/**
 * Returns the table of a retention result, with a row for each start period and a column for each return period.
 * Returns null if the items are not a retention result.
 */
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
 * Returns the table of series over time, with a row for each day and a column for each series. The series of the
 * requested range follow a column of days, and the series of a comparison range follow a second column, with the days
 * of that range. Returns null if the items are not such series.
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

/** Returns the texts for the periods of a series: their days, or their labels if the days are only numbers. */
function bucketTexts({ days, labels }: JsonObject): readonly unknown[] {
  const texts = Array.isArray(days) ? days : []
  return typeof texts[0] === 'number' && Array.isArray(labels) ? labels : texts
}

/** Returns a table with one number for each series. Returns null if the items are not such numbers. */
function totals(items: readonly JsonObject[]): Cells | null {
  if (!items.every((item) => Object.hasOwn(item, 'aggregated_value'))) return null
  const names = seriesNames(items)
  return {
    head: ['series', 'value'],
    rows: items.map(({ aggregated_value }, index) => [names[index], aggregated_value]),
  }
}

/**
 * Returns the table of the steps of a funnel. With a breakdown, there is one funnel for each of its values. Returns
 * null if the items are not steps.
 */
function steps(items: readonly JsonObject[]): Cells | null {
  const isSteps = items.every(
    (item) => Object.hasOwn(item, 'average_conversion_time') && Object.hasOwn(item, 'count'),
  )
  if (!isSteps) return null
  return members(
    items.map(({ breakdown, breakdown_value, custom_name, name, ...item }) => {
      // For a cohort, the breakdown value is its id, and the name of the cohort is in `breakdown`.
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

/**
 * Returns a table with the number of conversions for each range of durations. Returns null if the items are not such
 * ranges.
 */
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

/**
 * Returns the table of a timeline of sessions, with a row for each event. Returns null if the items are not the entries
 * of a timeline.
 */
function timeline(items: readonly JsonObject[]): Cells | null {
  if (!items.every(({ events }) => Array.isArray(events))) return null
  return {
    head: ['session', 'timestamp', 'event'],
    rows: items.flatMap(({ sessionId, events }) =>
      objectsOf(events as readonly unknown[]).map(({ timestamp, event }) => [
        sessionId,
        timestamp,
        event,
      ]),
    ),
  }
}

/** The members of items that are meant only for programs. */
const INTERNAL: readonly string[] = ['action_id', 'order', 'type']

/**
 * Returns a table with a row for each object. A member becomes a column if it is a text, a number or a boolean in at
 * least one object. The columns are in the order in which the members first occur.
 */
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
  // A list of two numbers holds the number of the range and the number of the comparison range.
  if (Array.isArray(value) && value.length === 2)
    return value.map(cellText).filter(Boolean).join(' / ')
  const text = isObject(value) || Array.isArray(value) ? JSON.stringify(value) : String(value)
  const isLong = text.length > SHARED_CELL_CHARACTERS_MAX
  return isLong ? `${text.slice(0, SHARED_CELL_CHARACTERS_MAX)}…` : text
}
