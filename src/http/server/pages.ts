/**
 * Pages of lists: how much and from where (`limit`, `offset`, `cursor`, `skip`), and the addresses
 * of the pages around one. Source: docs/compatibility/api.md, "Pages".
 */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX } from '../../base/limits.ts'
import type { ApiRequest } from './router.ts'
import * as is from './schema.ts'

/** Entries of a page: when the request names none, and at most. More is taken for the most. */
export interface PageLimits {
  readonly default: number
  readonly max: number
}

/** Of events, flags, groups, and what belongs to the organization. */
export const PAGE_LIMITS: PageLimits = { default: PAGE_EVENTS_DEFAULT, max: PAGE_EVENTS_MAX }

/** The parameter `limit` of a list that goes on with a cursor. */
export const LIMIT = is.about(
  is.refused(is.WHOLE, `limit must be a whole number from 1 to ${PAGE_LIMITS.max}`),
  `Rows of a page: ${PAGE_LIMITS.default} when absent, ${PAGE_LIMITS.max} at most.`,
)
/** The parameter `cursor`. */
export const CURSOR = is.about(is.TEXT, 'Where to go on; it comes in next.')

/** The query of a log. */
export function logQuery({ default: usual, max }: PageLimits) {
  return is.options({
    page: is.about(is.WHOLE, 'Number of the page, from 1.'),
    limit: is.about(is.WHOLE, `Entries of a page: ${usual} when absent, ${max} at most.`),
    skip: is.about(is.WHOLE, 'Entries of the page that were shown before; it comes in next.'),
  })
}

/** The page of a log, as it is described. */
export function logPageOf(name: string, entry: is.Schema) {
  return is.namedObject(name, {
    results: is.list(entry),
    next: is.nullable(is.TEXT),
    previous: is.nullable(is.TEXT),
    total_count: is.WHOLE,
  })
}

/** A page of a list that is counted through. */
export interface OffsetPage {
  readonly limit: number
  readonly offset: number
}

/** The URLs around a page; null where there is none. */
export interface PageUrls {
  readonly next: string | null
  readonly previous: string | null
}

/** What an address is made of: the request, and its scheme and authority from `baseUrl`. */
export interface PageAddress {
  readonly request: Pick<ApiRequest, 'head' | 'path'>
  readonly base: string
}

/** What is meant by a number of entries from 0; 0 and none stand for the default. */
export function limitOf(limit: number | null | undefined, limits: PageLimits): number {
  return (limit ?? 0) === 0 ? limits.default : Math.min(Number(limit), limits.max)
}

/** `limit` and `offset`, as `numberOf` reads them; none stands for the default. */
export function offsetPage(
  numberOf: (name: string) => number | null,
  limits: PageLimits,
): OffsetPage {
  const limit = limitOf(numberOf('limit'), limits)
  return { limit, offset: Math.min(numberOf('offset') ?? 0, Number.MAX_SAFE_INTEGER) }
}

/** `limit` and `offset` of the query, where what is no number is taken for none. */
export function lenientPage({ request }: { readonly request: ApiRequest }): OffsetPage {
  return offsetPage((name) => lenientNumber(request, name), PAGE_LIMITS)
}

/** The entries to skip that `next` of a page before named; 0 for anything else. Below `limit`. */
function skipParameter(request: ApiRequest, limit: number): number {
  const skip = lenientNumber(request, 'skip')
  return skip < limit ? skip : 0
}

/** The opaque text of a cursor: base64url, so that it needs no escapes in a URL. */
export function encodeCursor(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/**
 * Reads what `encodeCursor` made; `parse` answers null for what was never encoded. Throws 400
 * `invalid_input`.
 */
export function decodeCursor<Cursor>(text: string, parse: (text: string) => Cursor | null): Cursor {
  const cursor = parse(Buffer.from(text, 'base64url').toString())
  if (cursor !== null) return cursor
  const detail = 'cursor must come from the field next of a page before; start without one'
  throw new ServiceError('invalid_input', detail, { attr: 'cursor' })
}

/**
 * The absolute URL of the same request with some parameters replaced or added, or left out when
 * null; all others but the key are kept, in their order or sorted by name.
 */
export function urlWith(
  { request, base }: PageAddress,
  changes: Readonly<Record<string, string | number | null>>,
  isSorted = false,
): string {
  const parameters = new URLSearchParams(request.head.query)
  // A link must not carry the key on.
  parameters.delete('personal_api_key')
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name)
    else parameters.set(name, String(value))
  }
  if (isSorted) parameters.sort()
  return `${base}${request.path}?${parameters.toString()}`
}

/** The URLs around `shown` entries of a list of `count`, with their parameters sorted by name. */
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

/** The envelope of a page. Interface description, section 2.1. */
export function pageBody(
  address: PageAddress,
  page: OffsetPage,
  count: number,
  results: readonly unknown[],
) {
  return { count, ...countedUrls(address, page, page.limit, count), results }
}

/** A page of a list that is in memory, each entry as `bodyOf` shows it. */
export function pageOfList<Entry>(
  call: { readonly request: ApiRequest; readonly base: string },
  entries: readonly Entry[],
  bodyOf: (entry: Entry) => unknown,
) {
  const page = lenientPage(call)
  const shown = entries.slice(page.offset, page.offset + page.limit)
  return pageBody(call, page, entries.length, shown.map(bodyOf))
}

/**
 * The URLs around a page: `next` when the page is full or ended at its limit of bytes, behind its
 * last row; `previous` when a whole page lies before it. `parameters`: a limit in the body has to be
 * repeated.
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

/** The entries that a request for a page of a log means; the first page has the number 1. */
export function logEntries(request: ApiRequest, limit: number, page: number) {
  const skip = skipParameter(request, limit)
  return { limit, page, skip, offset: (page - 1) * limit + skip, count: limit - skip }
}

/**
 * The URLs around a page of a log. One that ends at its limit of bytes goes on with the same number
 * and `skip`.
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

/** 0 for what is no whole number. */
function lenientNumber(request: ApiRequest, name: string): number {
  const text = request.query.get(name) ?? ''
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : 0
}
