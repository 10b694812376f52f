/**
 * Tables of web analytics: their columns, the order of their rows, and one page of them. Source:
 * docs/compatibility/queries.md, "WebStatsTableQuery".
 */
import { QUERY_PAGE_ROWS, WEB_ROWS_MAX } from '../limits.ts'
import type { QueryFields } from '../query-fields.ts'
import type { QueryPage } from '../query-kind.ts'

/** The columns of numbers. The key is the name that `orderBy` uses. */
const FIELDS = {
  Visitors: 'visitors',
  Views: 'views',
  BounceRate: 'bounce_rate',
  AverageScrollPercentage: 'average_scroll_percentage',
  ScrollGt80Percentage: 'scroll_gt80_percentage',
  TotalConversions: 'total_conversions',
  UniqueConversions: 'unique_conversions',
  ConversionRate: 'conversion_rate',
  RageClicks: 'rage_clicks',
  DeadClicks: 'dead_clicks',
  Errors: 'errors',
} as const

/** A column of numbers. */
export type StatsColumn = (typeof FIELDS)[keyof typeof FIELDS]

/** The columns that decide the order of rows if there is no `orderBy`, or if the rows are equal in its column. */
const PLAIN_ORDER: readonly StatsColumn[] = [
  ...(['unique_conversions', 'total_conversions', 'visitors', 'views'] as const),
  ...(['errors', 'rage_clicks', 'dead_clicks'] as const),
]
/** A table with one of these columns contains no shares. */
const UNSHARED: readonly StatsColumn[] = ['rage_clicks', 'dead_clicks', 'errors']
const RATES: readonly StatsColumn[] = [
  ...(['bounce_rate', 'average_scroll_percentage'] as const),
  ...(['scroll_gt80_percentage', 'conversion_rate'] as const),
]

/** A number in the current range and in the previous one. Null means that there is no number. */
export type Cell = readonly [current: number | null, previous: number | null]

/** A table before its rows are sorted and cut to a page. */
export interface StatsTable {
  readonly columns: readonly StatsColumn[]
  readonly rows: readonly StatsRow[]
}

/** A row with a cell for each column. */
export interface StatsRow {
  /** The breakdown value of the row: a text, a number, a list of these, or null. */
  readonly value: unknown
  readonly cells: readonly Cell[]
}

/** Which rows of a table the client wants, and in which order. */
export interface StatsPaging {
  /** The column to order by. Null means `PLAIN_ORDER`. */
  readonly orderBy: StatsColumn | null
  readonly isAscending: boolean
  readonly limit: number
  readonly offset: number
}

/** Reads the members `orderBy`, `limit` and `offset`. Throws 400 `invalid_query`. */
export function readPaging(query: QueryFields): StatsPaging {
  const [field, direction = 'DESC', ...more] = query.list('orderBy')
  const isField = field === undefined || field === 'Clicks' || Object.hasOwn(FIELDS, String(field))
  if (!isField || (direction !== 'ASC' && direction !== 'DESC') || more.length > 0) {
    const fields = Object.keys(FIELDS).join(', ')
    throw query.fault('orderBy', `must be a list with one of ${fields}, followed by ASC or DESC`)
  }
  return {
    orderBy: FIELDS[field as keyof typeof FIELDS] ?? null,
    isAscending: direction === 'ASC',
    limit: Math.min(query.whole('limit', 0) || QUERY_PAGE_ROWS, WEB_ROWS_MAX),
    offset: query.whole('offset', 0) ?? 0,
  }
}

/** Sorts all rows and returns one page of them. */
export function statsPage({ columns, rows }: StatsTable, paging: StatsPaging): QueryPage {
  const { orderBy, isAscending, limit, offset } = paging
  const wished = orderBy !== null && columns.includes(orderBy) ? [orderBy] : []
  const order = [...wished, ...PLAIN_ORDER].filter((column) => columns.includes(column))
  const places = order.map((column) => columns.indexOf(column))
  const sorted = rows.toSorted((a, b) => {
    for (const place of places) {
      const compared = compareCells(a.cells[place], b.cells[place], isAscending)
      if (compared !== 0) return compared
    }
    return compareValues(a.value, b.value)
  })
  const [first] = order
  const share = first === undefined ? null : shareOf(first, columns.indexOf(first), rows)
  const shown = sorted.slice(offset, offset + limit)
  const hasShares = !columns.some((column) => UNSHARED.includes(column))
  return {
    results: shown.map((row) => [
      row.value,
      ...row.cells,
      ...(hasShares ? [share?.(row) ?? null] : []),
      '',
    ]),
    members: {
      columns: [
        'breakdown_value',
        ...columns,
        ...(hasShares ? ['ui_fill_fraction'] : []),
        'cross_sell',
      ].map((column) => `context.columns.${column}`),
      hasMore: sorted.length > offset + limit,
      limit,
      offset,
      types: null,
      usedPreAggregatedTables: false,
    },
  }
}

/**
 * Returns the function that computes the length, from 0 to 1, of the bar that is drawn behind a number of a row. The
 * length is the share of the number in the sum of all rows or, if the number is a rate, the rate itself.
 */
function shareOf(
  column: StatsColumn,
  place: number,
  rows: readonly StatsRow[],
): (row: StatsRow) => number | null {
  const currentOf = ({ cells }: StatsRow): number | null => cells[place]?.[0] ?? null
  if (RATES.includes(column)) return currentOf
  const sum = rows.reduce((all, row) => all + (currentOf(row) ?? 0), 0)
  return (row) => (sum === 0 ? null : (currentOf(row) ?? 0) / sum)
}

function compareCells(a: Cell | undefined, b: Cell | undefined, isAscending: boolean): number {
  for (const range of [0, 1]) {
    const [left, right] = [a?.[range] ?? null, b?.[range] ?? null]
    if (left === right) continue
    // A missing number comes last, in ascending and in descending order.
    if (left === null) return 1
    if (right === null) return -1
    return isAscending ? left - right : right - left
  }
  return 0
}

/** Compares two values: texts by code point, lists item by item, null last. */
export function compareValues(a: unknown, b: unknown): number {
  if (a === b) return 0
  if (a === null || a === undefined) return 1
  if (b === null || b === undefined) return -1
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (!Array.isArray(a) || !Array.isArray(b)) {
    return Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b)))
  }
  for (let index = 0; index < Math.max(a.length, b.length); index++) {
    const compared = compareValues(a[index], b[index])
    if (compared !== 0) return compared
  }
  return 0
}
