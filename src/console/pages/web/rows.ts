/** The rows of the tables of the page "Web". */
import { askQueryWhole, project, type Query, useLoaded } from '../../kit.ts'
import type { Asked } from './asked.ts'
import type { Report, ReportValue } from './reports.ts'

/** A row of a table. The numbers of the comparison are null if there is none. */
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
  /** The events that meet the goal, and the share of visitors who met it. Null without a goal. */
  readonly conversions: number | null
  readonly converted: number | null
  readonly rate: number | null
}

/** The rows of an answer, and whether more rows follow. */
export interface Rows {
  readonly rows: readonly Row[]
  readonly hasMore: boolean
}

type Cell = readonly [current: number | null, previous: number | null]

/** Returns the query of a table. */
export function tableQuery({ by }: Report, asked: Asked, more: object): Query {
  // The bounce rate of pages is the one of the sessions that began there; then sessions count where they begin, as in
  // the tiles.
  const bounces = by === 'Page' ? { includeBounceRate: true } : {}
  return { kind: 'WebStatsTableQuery', breakdownBy: by, ...asked, ...bounces, ...more }
}

/** Loads the rows of a table. */
export function useRows(query: Query) {
  return useLoaded(`web ${project.value.id} ${JSON.stringify(query)}`, (signal) =>
    askRows(query, signal),
  )
}

async function askRows(query: Query, signal: AbortSignal): Promise<Rows> {
  const answer = await askQueryWhole(query, signal)
  const columns = (answer['columns'] as readonly string[]).map(
    (one) => one.split('.').at(-1) ?? one,
  )
  const rows = (answer.results as readonly (readonly unknown[])[]).map((cells): Row => {
    const cell = (name: string): Cell => {
      const place = columns.indexOf(name)
      return place === -1 ? [null, null] : (cells[place] as Cell)
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

/** Returns a value as the page shows it. */
export function wordsOf({ wordsOf: ownWords = String }: Report, value: ReportValue): string {
  return value === null ? '(none)' : ownWords(value)
}
