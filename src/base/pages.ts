/**
 * The shape of pages that cross threads. Rows are finished text in memory that is transferred, so that the main thread
 * only adds an envelope. This file contains types only.
 */

/** The format of rows: a JSON list, or comma-separated values. */
export type RowFormat = 'json' | 'csv'

/** The caller's options for a page. */
export interface PageWish {
  readonly format: RowFormat
  /** Receives a function that cancels the page. It is called when nobody waits for the page any more. */
  readonly onLeave: (cancel: () => void) => void
}

/** The rows of a page as finished text. */
export interface RowsText {
  /** UTF-8 in its own buffer: a JSON list, or a table with its header ('' without rows). */
  readonly rows: Uint8Array<ArrayBuffer>
  readonly rowCount: number
  /** True if the page reached its byte limit. The next page begins after its last row. */
  readonly isCut: boolean
}

/** Rows of a list whose total number is known. */
export interface CountedRows extends RowsText {
  /** The number of all matching rows, on every page. */
  readonly count: number
}

/** A single row: a JSON object, or a table with one line. */
export type RowText = Uint8Array<ArrayBuffer>

/** A text that is produced while it is read. */
export interface TextPieces {
  /**
   * Resolves with the next bytes, or null after the last. It is called again only when the previous bytes were sent.
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
  /** The JSON of each entry. An entry is read only when it is next, because it may be large. */
  readonly entries: Iterable<string>
}
