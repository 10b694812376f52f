/**
 * Answers in JSON or as a CSV table, for the routes of persons, groups, cohorts and others. Source:
 * docs/compatibility/api.md, "CSV".
 */
import { CSV_TYPE, toCsv } from '../../base/csv.ts'
import { ServiceError } from '../../base/errors.ts'
import type { CountedRows, PageWish, RowFormat, RowsText, RowText } from '../../base/pages.ts'
import { prefersType } from '../server/framing.ts'
import { logEntries, logUrls, type OffsetPage, pageUrls } from '../server/pages.ts'
import { RequestParameters } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import type { Call } from '../server/route.ts'
import { type ApiRequest, json } from '../server/router.ts'

/**
 * Returns the format in which a request wants its answer: from the parameter `format`, or else from the header Accept.
 * The default is JSON. Throws 404 `not_found` for an unknown format.
 */
export function formatOf(request: ApiRequest, parameters: RequestParameters): RowFormat {
  const text = parameters.text('format')
  if (text === null) return prefersType(request.head.accept, 'text/csv') ? 'csv' : 'json'
  if (text === 'json' || text === 'csv') return text
  throw new ServiceError(
    'not_found',
    'This format does not exist. Use `format=json` or `format=csv`.',
  )
}

/**
 * Returns the parameters of a request, the format of its answer, and the options for reading a page. Throws the errors
 * of reading the parameters and the format.
 */
export function inputOf({ request, hasOtherBody }: Pick<Call, 'request' | 'hasOtherBody'>) {
  const parameters = hasOtherBody
    ? RequestParameters.ofQuery(request)
    : new RequestParameters(request)
  const format = formatOf(request, parameters)
  return { parameters, format, wish: wishOf(request, format) }
}

/** Returns the options for reading a page: its format, and a way to cancel the read when the client leaves. */
export function wishOf(request: ApiRequest, format: RowFormat): PageWish {
  return { format, onLeave: (cancel) => request.onLeave(cancel) }
}

/** Returns an answer with one small object, as JSON or as a table with one row. */
export function answerOne(format: RowFormat, value: object, status = 200): Answer {
  if (format === 'json') return json(value, status)
  const { id } = value as { readonly id?: unknown }
  const madeId = typeof id === 'string' || typeof id === 'number' ? { madeId: String(id) } : {}
  return { status, contentType: CSV_TYPE, body: toCsv([value]), ...madeId }
}

/** Returns an answer with a row that a thread has written as text. */
export function answerRow(format: RowFormat, row: RowText): Answer {
  return { status: 200, contentType: typeOf(format), body: row }
}

/**
 * Returns an answer with rows that a thread has written as text. A CSV answer contains only the rows. A JSON answer is
 * an object with the members of `before`, the rows under the name `member`, and the members of `behind`. No row is
 * copied.
 */
export function answerRows(
  format: RowFormat,
  { rows }: Pick<RowsText, 'rows'>,
  member: string,
  before: object,
  behind: object = {},
): Answer {
  if (format === 'csv') return answerRow(format, rows)
  const opening = `${membersOf(before, '{', ',')}${JSON.stringify(member)}:`
  const body = [Buffer.from(opening), rows, Buffer.from(membersOf(behind, ',', '}'))]
  return { status: 200, contentType: typeOf(format), body }
}

/**
 * Answers a request for a page of a list with the parameters `limit` and `offset`. `read` returns the rows of the page.
 * Throws 400 for invalid parameters.
 */
export async function answerPage(
  call: Pick<Call, 'request' | 'hasOtherBody' | 'base'>,
  read: (page: OffsetPage, wish: PageWish) => Promise<CountedRows>,
): Promise<Answer> {
  const { parameters, format, wish } = inputOf(call)
  const page = await read(parameters.page(), wish)
  const urls = pageUrls(call, parameters, page)
  return answerRows(format, page, 'results', { count: page.count, ...urls })
}

/**
 * Answers a request for a page of a log. Resolves with null if `read` does. With `isSorted`, the parameters in the URLs
 * of other pages are sorted by name.
 */
export async function answerLog(
  call: Pick<Call, 'request' | 'base'>,
  format: RowFormat,
  place: Readonly<Record<'limit' | 'page', number>>,
  read: (offset: number, count: number, wish: PageWish) => Promise<CountedRows | null>,
  isSorted = false,
): Promise<Answer | null> {
  const entries = logEntries(call.request, place.limit, place.page)
  const found = await read(entries.offset, entries.count, wishOf(call.request, format))
  if (found === null) return null
  const urls = logUrls(call, entries, found, isSorted)
  return answerRows(format, found, 'results', {}, { ...urls, total_count: found.count })
}

/** Answers with one object that a thread has written as text, in the format that the request wants. */
export async function answerFound(
  call: Pick<Call, 'request' | 'hasOtherBody'>,
  read: (format: RowFormat, wish: PageWish) => Promise<RowText>,
): Promise<Answer> {
  const { format, wish } = inputOf(call)
  return answerRow(format, await read(format, wish))
}

/** Answers with a list that a thread has written as text, without an envelope. Throws the errors of `wholeRows`. */
export function answerList(format: RowFormat, rows: RowsText): Answer {
  return answerRow(format, wholeRows(rows).rows)
}

/**
 * Returns the rows of a list that has no pages. Throws 400 `query_too_large` if they do not all fit into one answer.
 */
export function wholeRows<Rows extends RowsText>(rows: Rows): Rows {
  if (!rows.isCut) return rows
  const detail =
    'The answer would be too large. Narrow the request, or lower `limit` if the route has one.'
  throw new ServiceError('query_too_large', detail)
}

/**
 * Returns the members of an object as JSON, between `opening` and `closing`. One of the two is a brace, and the other
 * is a comma. If the object is empty, returns only the brace.
 */
function membersOf(value: object, opening: string, closing: string): string {
  const members = JSON.stringify(value).slice(1, -1)
  if (members !== '') return opening + members + closing
  return opening === '{' ? opening : closing
}

function typeOf(format: RowFormat): string {
  return format === 'json' ? 'application/json' : CSV_TYPE
}
