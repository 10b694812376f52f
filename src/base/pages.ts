/**
 * Pages as they cross threads: rows as finished text in memory that changes hands, so that the main thread
 * only puts an envelope around them. Shapes only.
 */

/** How rows are written: as a JSON list, or as comma-separated values. */
export type RowFormat = 'json' | 'csv'

/** How a page is wanted. */
export interface PageWish {
  readonly format: RowFormat
  /** Told what to call when nobody waits for the page any more. */
  readonly onLeave: (cancel: () => void) => void
}

/** The rows of a page, finished. */
export interface RowsText {
  /** UTF-8 in memory of its own: a JSON list, or a table with its header ('' without rows). */
  readonly rows: Uint8Array<ArrayBuffer>
  readonly rowCount: number
  /** The page ended at its limit of bytes: the next one begins behind its last row. */
  readonly isCut: boolean
}

/** Rows of a list that is counted as a whole. */
export interface CountedRows extends RowsText {
  /** All that match, on every page. */
  readonly count: number
}

/** A row that is shown alone: a JSON object, or a table of one line. */
export type RowText = Uint8Array<ArrayBuffer>

/** A text that is made while it is read. */
export interface TextPieces {
  /** The next bytes, or null behind the last. Asked for again only when they have left. */
  next(): Promise<Uint8Array | null>
  /** Nobody waits any more. */
  cancel(): void
}

/** Some of a list, and how many there are in all. */
export interface Page<Item> {
  readonly count: number
  readonly results: readonly Item[]
}

/** Which part of a list. */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
}

/** A stretch of a log, newest first. */
export interface Entries {
  /** All that there are. */
  readonly totalCount: number
  /** JSON of each, read when its turn comes: an entry may hold large values. */
  readonly entries: Iterable<string>
}
