/**
 * Produces pages on a thread: reads rows, writes them as text and passes the text on as bytes, up to a byte limit. A
 * thread for short reads stops if a page grows too large or takes too long. A thread for long reads then produces this
 * page from the start.
 */
import { PAGE_BYTES_MAX, SHORT_PAGE_BYTES_MAX, SHORT_PAGE_MS_MAX } from '../../base/limits.ts'
import type { CountedRows, Entries, RowsText } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import { RowsWriter } from '../../base/rows-writer.ts'
import { withWireTimes } from '../../rules/persons/person-answer.ts'
import type { PageCall, PageTools, Task } from './call-kinds.ts'
import { SHORT_GROUP_BYTES_MAX } from './limits.ts'
import type { ThreadStores } from './thread-stores.ts'

/**
 * The answer of a thread to a call for a page. Null means that the page is too large or takes too long for a short
 * read.
 */
export type MadePage = { readonly page: unknown } | null

/** Thrown to stop a page that is too large, or takes too long, for a short read. */
class NotShortError extends Error {}

/**
 * Produces a page. Returns null if it is too large, or takes too long, for a short read. Throws `ServiceError`, and the
 * errors of the readers.
 */
export function makePage<Values extends readonly unknown[]>(
  { run }: PageCall<Values, unknown>,
  { values, format = 'json', canceled }: Task,
  stores: ThreadStores,
): MadePage {
  const isShort = canceled === undefined
  const writer = new RowsWriter(format, isShort ? SHORT_PAGE_BYTES_MAX : PAGE_BYTES_MAX)
  const check = isShort ? shortCheck() : () => requireWanted(canceled)
  try {
    // The cast is safe, because the method with which the caller made the call declares the types of the arguments.
    const page = run({ stores, format, writer, check }, ...(values as Values))
    return isShort && isCut(page) ? null : { page }
  } catch (error) {
    if (error instanceof NotShortError) return null
    throw error
  }
}

/** Throws if nobody waits for the call any more. */
export function requireWanted(canceled: Int32Array): void {
  // The text of this error does not matter, because nobody receives it.
  if (Atomics.load(canceled, 0) !== 0) throw refusal('read_unwanted')
}

/** Writes rows. Times are in the format of the API. */
export function allRows(writer: RowsWriter, rows: Iterable<object>): RowsText {
  for (const row of rows) if (!writer.add(withWireTimes(row))) break
  return writer.finish()
}

/**
 * Writes the entries of a log, such as an activity log. Returns null if `found` is null, because there is no such log.
 */
export function logRows(writer: RowsWriter, found: Entries | null): CountedRows | null {
  if (found === null) return null
  for (const entry of found.entries) if (!writer.addText(entry)) break
  return { count: found.totalCount, ...writer.finish() }
}

function isCut(page: unknown): boolean {
  return typeof page === 'object' && page !== null && 'isCut' in page && page.isCut === true
}

function shortCheck(): PageTools['check'] {
  const deadline = performance.now() + SHORT_PAGE_MS_MAX
  return (groupBytes = 0) => {
    if (groupBytes > SHORT_GROUP_BYTES_MAX || performance.now() > deadline) {
      throw new NotShortError()
    }
  }
}
