/** The rows of the tables of the page "Web". */
import { askQueryWhole, project, type Query, useLoaded } from '../../kit.ts'
import type { Asked } from './asked.ts'
import type { Report, ReportValue } from './reports.ts'

/** A row of a table. The numbers of the comparison period are null if there is no comparison. */
export interface Row {
  readonly value: ReportValue
  readonly visitors: number
  readonly visitorsBefore: number | null
  readonly views: number
  readonly viewsBefore: number | null
  /** The share of sessions that are bounces, between 0 and 1. */
  readonly bounceRate: number | null
  /** The mean depth to which visitors scrolled, between 0 and 1. */
  readonly scroll: number | null
  /**
   * How many events have met the goal, how many visitors have met it, and their share of all visitors. Null if no goal
   * is chosen.
   */
  readonly conversions: number | null
  readonly converted: number | null
  readonly rate: number | null
}

/** The rows in the answer to a query, and whether there are more rows. */
export interface Rows {
  readonly rows: readonly Row[]
  readonly hasMore: boolean
}

type Cell = readonly [current: number | null, previous: number | null]

/** Returns the query for the rows of a table. */
export function tableQuery({ by }: Report, asked: Asked, more: object): Query {
  // With `includeBounceRate`, a session counts for the page on which it began, as it does in the tiles. The table of
  // pages always uses this, because the bounce rate of a page is that of the sessions that began on it.
  const bounces = by === 'Page' ? { includeBounceRate: true } : {}
  return { kind: 'WebStatsTableQuery', breakdownBy: by, ...asked, ...bounces, ...more }
}

/** The number of rows that `wholeQuery` requests, which is the most that a query can return. */
const ROWS_MAX = 50_000

/** Returns the query for all rows of a table, with all their numbers. */
export function wholeQuery(report: Report, asked: Asked, compareFilter: object | null): Query {
  return tableQuery(report, asked, {
    limit: ROWS_MAX,
    includeBounceRate: true,
    ...(report.by === 'Page' && { includeScrollDepth: true }),
    ...(compareFilter && { compareFilter }),
  })
}

/** Loads the rows of a table. */
export function useRows(query: Query) {
  return useLoaded(`web ${project.value.id} ${JSON.stringify(query)}`, (signal) =>
    askRows(query, signal),
  )
}

/** Requests the rows of a table. Throws an `ApiError`. */
export async function askRows(query: Query, signal?: AbortSignal): Promise<Rows> {
  const answer = await askQueryWhole(query, signal)
  const columns = (answer['columns'] as readonly string[]).map(
    (one) => one.split('.').at(-1) ?? one,
  )
  // Without a comparison, the answer has zeros for the period before.
  const isCompared = query['compareFilter'] !== undefined
  const rows = (answer.results as readonly (readonly unknown[])[]).map((cells): Row => {
    const cell = (name: string): Cell => {
      const place = columns.indexOf(name)
      const [current, previous] = place === -1 ? [null, null] : (cells[place] as Cell)
      return [current, isCompared ? previous : null]
    }
    const [visitors, visitorsBefore] = cell('visitors')
    const [views, viewsBefore] = cell('views')
    return {
      value: (cells[columns.indexOf('breakdown_value')] ?? null) as ReportValue,
      visitors: visitors ?? 0,
      visitorsBefore,
      views: views ?? 0,
      viewsBefore,
      bounceRate: cell('bounce_rate')[0],
      scroll: cell('average_scroll_percentage')[0],
      conversions: cell('total_conversions')[0],
      converted: cell('unique_conversions')[0],
      rate: cell('conversion_rate')[0],
    }
  })
  return { rows, hasMore: answer['hasMore'] === true }
}

/** Returns the function that converts a row of the table to a row of the exported file. */
export function fileRowOf(report: Report) {
  return ({ value, visitors, visitorsBefore, views, viewsBefore, ...rest }: Row): object => ({
    [report.one.toLowerCase()]: wordsOf(report, value),
    visitors,
    ...(visitorsBefore !== null && { visitors_before: visitorsBefore }),
    ...(rest.conversions === null
      ? { views }
      : {
          conversions: rest.conversions,
          converted_people: rest.converted,
          conversion_rate: rest.rate,
        }),
    ...(viewsBefore !== null && { views_before: viewsBefore }),
    ...(rest.bounceRate !== null && { bounce_rate: rest.bounceRate }),
    ...(rest.scroll !== null && { scroll_depth: rest.scroll }),
  })
}

/** Returns the value of a row as the page shows it. */
export function wordsOf({ wordsOf: ownWords = String }: Report, value: ReportValue): string {
  return value === null ? '(none)' : ownWords(value)
}
