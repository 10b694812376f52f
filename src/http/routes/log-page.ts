/**
 * Pages of logs, which are counted by their number. One that ends at its limit of bytes goes on with the
 * same number and `skip`, the entries of the page that were shown before. docs/compatibility/api.md, "Pages".
 */
import type { CountedRows, RowFormat } from '../../base/pages.ts'
import type { Answer } from '../server/respond.ts'
import type { ApiRequest } from '../server/router.ts'
import { answerRows } from './formats.ts'

/** Where a page begins. */
export interface LogPlace {
  /** From 1. */
  readonly page: number
  /** Entries of the page that were shown before. */
  readonly skip: number
}

/** The entries to skip that `next` of a page before named; 0 for anything else. Below `limit`. */
export function skipParameter(request: ApiRequest, limit: number): number {
  const text = request.query.get('skip') ?? ''
  const skip = /^[0-9]{1,15}$/.test(text) ? Number(text) : 0
  return skip < limit ? skip : 0
}

/** A page of a log with the URLs of those around it. */
export function answerLog(
  format: RowFormat,
  found: CountedRows,
  { page, limit, skip }: LogPlace & { readonly limit: number },
  url: (place: LogPlace) => string,
): Answer {
  const hasMore = page * limit < found.count
  const next = found.isCut
    ? url({ page, skip: skip + found.rowCount })
    : hasMore
      ? url({ page: page + 1, skip: 0 })
      : null
  const previous = page > 1 ? url({ page: page - 1, skip: 0 }) : null
  return answerRows(format, found, 'results', {}, { next, previous, total_count: found.count })
}
