/**
 * The types of pages that worker threads send to the main thread. The worker thread writes the rows as text and
 * transfers the memory, so the main thread only adds the JSON around the rows. This file contains types only.
 */

/** The format of rows: a JSON list, or comma-separated values. */
export type RowFormat = 'json' | 'csv'

/** The options of a request for a page. */
export interface PageWish {
  readonly format: RowFormat
  /** Called with the function `cancel`. Call `cancel` when nobody waits for the page any more. */
  readonly onLeave: (cancel: () => void) => void
}

/** The rows of a page as finished text. */
export interface RowsText {
  /**
   * The text as UTF-8, in its own buffer: a JSON list, or a table with a header line. A table without rows is empty.
   */
  readonly rows: Uint8Array<ArrayBuffer>
  readonly rowCount: number
  /** True if the page ended because it reached its byte limit. The next page begins after the last row of this page. */
  readonly isCut: boolean
}

/** Rows of a list whose total number is known. */
export interface CountedRows extends RowsText {
  /** The number of all matching rows, on every page. */
  readonly count: number
}

/** A single row as finished text: a JSON object, or a table with one row. */
export type RowText = Uint8Array<ArrayBuffer>

/** A text that is produced chunk by chunk, while it is read. */
export interface TextChunks {
  /**
   * Resolves with the next bytes, or null after the last ones. Call it again only when the previous bytes have been
   * sent.
   */
  next(): Promise<Uint8Array | null>
  /** Stops the production, because nobody waits for the text any more. */
  cancel(): void
}

/** Some items of a list, and the number of all items. */
export interface Page<Item> {
  readonly count: number
  readonly results: readonly Item[]
}

/** The part of a list that is requested. */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
}

/** Some consecutive entries of a log, newest first. */
export interface Entries {
  /** The number of all entries of the log. */
  readonly totalCount: number
  /** The JSON of each entry. An entry is read only when the iteration reaches it, because it may be large. */
  readonly entries: Iterable<string>
}
