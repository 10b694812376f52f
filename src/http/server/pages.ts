/**
 * The pages of lists: the parameters `limit`, `offset`, `cursor` and `skip`, and the URLs of the next page and the
 * previous page. Source: docs/compatibility/api.md, "Pages".
 */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX } from '../../base/limits.ts'
import type { ApiRequest } from './router.ts'
import * as is from './schema.ts'

/** How many entries a page has by default and at most. A larger `limit` is reduced to the maximum. */
export interface PageLimits {
  readonly default: number
  readonly max: number
}

/** The limits for pages of events, flags and groups, and for pages of everything that belongs to the organization. */
export const PAGE_LIMITS: PageLimits = { default: PAGE_EVENTS_DEFAULT, max: PAGE_EVENTS_MAX }

/** The parameter `limit` of a list that is read with a cursor. */
export const LIMIT = is.about(
  is.refused(is.WHOLE, `\`limit\` must be a whole number from 1 to ${PAGE_LIMITS.max}.`),
  `Rows per page. The default is ${PAGE_LIMITS.default}, the maximum ${PAGE_LIMITS.max}.`,
)
/** The parameter `cursor`. */
export const CURSOR = is.about(is.TEXT, 'The position to continue from. Take it from `next`.')

/**
 * Returns the query parameters `page`, `limit` and `skip` of a list that is read by page numbers, newest entry first,
 * such as the audit log.
 */
export function logQuery({ default: usual, max }: PageLimits) {
  return is.options({
    page: is.about(positive('page'), 'Page number, from 1.'),
    limit: is.about(
      positive('limit'),
      `Entries per page. The default is ${usual}, the maximum ${max}.`,
    ),
    skip: is.unchecked(is.about(is.WHOLE, 'Number of entries to skip. Take it from `next`.')),
  })
}

function positive(name: string): is.Schema<number> {
  const detail = `\`${name}\` must be a whole number, at least 1.`
  return is.refused({ ...is.WHOLE, minimum: 1 }, detail)
}

/** Returns the schema of one page of a list that is read by page numbers (see `logQuery`). */
export function logPageOf(name: string, entry: is.Schema) {
  return is.namedObject(name, {
    results: is.list(entry),
    next: is.nullable(is.TEXT),
    previous: is.nullable(is.TEXT),
    total_count: is.WHOLE,
  })
}

/** A page of a list that is read with `limit` and `offset`. */
export interface OffsetPage {
  readonly limit: number
  readonly offset: number
}

/** The URLs of the next page and the previous page. A URL is null if there is no such page. */
export interface PageUrls {
  readonly next: string | null
  readonly previous: string | null
}

/** The request and the base URL (scheme and host) from which the URLs of other pages are made. */
export interface PageAddress {
  readonly request: Pick<ApiRequest, 'head' | 'path'>
  readonly base: string
}

/** Returns how many entries a page has for a value of `limit`. If `limit` is 0 or absent, it is the default. */
export function limitOf(limit: number | null | undefined, limits: PageLimits): number {
  return (limit ?? 0) === 0 ? limits.default : Math.min(Number(limit), limits.max)
}

/**
 * Returns the page that the parameters `limit` and `offset` ask for. `numberOf` returns the value of a parameter, or
 * null if the default applies.
 */
export function offsetPage(
  numberOf: (name: string) => number | null,
  limits: PageLimits,
): OffsetPage {
  const limit = limitOf(numberOf('limit'), limits)
  return { limit, offset: Math.min(numberOf('offset') ?? 0, Number.MAX_SAFE_INTEGER) }
}

/**
 * Returns the page that the query parameters `limit` and `offset` ask for. A value that is not a number counts as
 * absent.
 */
export function lenientPage({ request }: { readonly request: ApiRequest }): OffsetPage {
  return offsetPage((name) => lenientNumber(request, name), PAGE_LIMITS)
}

/**
 * Returns how many entries at the beginning of the page are skipped, because an answer that ended at its byte limit has
 * already shown them. The field `next` of that answer contains this number. It is less than `limit`. An invalid value
 * counts as 0.
 */
function skipParameter(request: ApiRequest, limit: number): number {
  const skip = lenientNumber(request, 'skip')
  return skip < limit ? skip : 0
}

/** Encodes a cursor as base64url, so that it needs no escapes in a URL. */
export function encodeCursor(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/**
 * Decodes a cursor that `encodeCursor` has encoded. `parse` returns null if the decoded text is not a cursor. In that
 * case, throws 400 `invalid_input`.
 */
export function decodeCursor<Cursor>(text: string, parse: (text: string) => Cursor | null): Cursor {
  const cursor = parse(Buffer.from(text, 'base64url').toString())
  if (cursor !== null) return cursor
  const detail =
    '`cursor` is not valid. Take it from the field `next` of the previous page, or leave it out to start at the first page.'
  throw new ServiceError('invalid_input', detail, { attr: 'cursor' })
}

/**
 * Returns the absolute URL of the same request with some parameters changed. The value null removes a parameter, and
 * `personal_api_key` is always removed. All other parameters are kept. They have the same order as in the request, or
 * are sorted by name if `isSorted`.
 */
export function urlWith(
  { request, base }: PageAddress,
  changes: Readonly<Record<string, string | number | null>>,
  isSorted = false,
): string {
  const parameters = new URLSearchParams(request.head.query)
  // The URL must not contain the key, because it may be stored or shared.
  parameters.delete('personal_api_key')
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name)
    else parameters.set(name, String(value))
  }
  if (isSorted) parameters.sort()
  return `${base}${request.path}?${parameters.toString()}`
}

/**
 * Returns the URLs of the next page and the previous page of a list with `count` entries, of which this page shows
 * `shown`. The parameters are sorted by name.
 */
export function countedUrls(
  address: PageAddress,
  { limit, offset }: OffsetPage,
  shown: number,
  count: number,
): PageUrls {
  const url = (start: number): string =>
    urlWith(address, { limit, offset: start === 0 ? null : start }, true)
  const end = offset + shown
  return {
    next: shown > 0 && end < count ? url(end) : null,
    previous: offset > 0 ? url(Math.max(0, offset - limit)) : null,
  }
}

/**
 * The entries for `itemPage`: either all entries of a list in memory, or only those of the page, with the number of all
 * entries.
 */
export type Items<Item> =
  | readonly Item[]
  | { readonly count: number; readonly results: readonly Item[] }

/**
 * Returns the JSON of a page. `bodyOf` returns the JSON of an entry. Source: PostHog's API description, section 2.1.
 */
export function itemPage<Item>(
  address: PageAddress,
  page: OffsetPage,
  items: Items<Item>,
  bodyOf: (item: Item) => unknown,
) {
  const { count, results } =
    'count' in items
      ? items
      : { count: items.length, results: items.slice(page.offset, page.offset + page.limit) }
  return {
    count,
    ...countedUrls(address, page, results.length, count),
    results: results.map(bodyOf),
  }
}

/**
 * Returns the URLs of the next page and the previous page. There is a `next` if the page is full or ended at its byte
 * limit. The next page begins after the last row of this one. There is a `previous` if a whole page comes before this
 * one. If the limit was in the body of the request, the URLs contain it as a parameter.
 */
export function pageUrls(
  address: PageAddress,
  parameters: { page(): OffsetPage; isInBody(name: string): boolean },
  { rowCount, isCut }: { readonly rowCount: number; readonly isCut: boolean },
): PageUrls {
  const { limit, offset } = parameters.page()
  const size = parameters.isInBody('limit') ? { limit } : {}
  const url = (start: number): string => urlWith(address, { ...size, offset: start })
  return {
    next: isCut || rowCount >= limit ? url(offset + rowCount) : null,
    previous: offset >= limit ? url(offset - limit) : null,
  }
}

/**
 * Returns which entries are on a page of a list that is read by page numbers (see `logQuery`). The first page has the
 * number 1.
 */
export function logEntries(request: ApiRequest, limit: number, page: number) {
  const skip = skipParameter(request, limit)
  return { limit, page, skip, offset: (page - 1) * limit + skip, count: limit - skip }
}

/**
 * Returns the URLs of the next page and the previous page of a log. If the page ended at its byte limit, `next` has the
 * same page number, and `skip` says how many entries were already shown.
 */
export function logUrls(
  address: PageAddress,
  { limit, page, skip }: ReturnType<typeof logEntries>,
  found: { readonly rowCount: number; readonly isCut: boolean; readonly count: number },
  isSorted: boolean,
): PageUrls {
  const url = (number: number, skipped: number): string => {
    const place = { page: number, limit, skip: skipped === 0 ? null : skipped }
    return urlWith(address, place, isSorted)
  }
  const later = page * limit < found.count ? url(page + 1, 0) : null
  return {
    next: found.isCut ? url(page, skip + found.rowCount) : later,
    previous: page > 1 ? url(page - 1, 0) : null,
  }
}

/** Returns a whole number from the query. Returns 0 if the parameter is absent or not a number. */
function lenientNumber(request: ApiRequest, name: string): number {
  const text = request.query.get(name) ?? ''
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : 0
}
