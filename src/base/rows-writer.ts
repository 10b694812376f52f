/**
 * Writes the rows of a page as text, up to a limit of bytes. It runs in worker threads, because a large page would
 * block the main thread.
 */

import { toCsv } from './csv.ts'
import { ServiceError } from './errors.ts'
import { PAGE_BYTES_MAX, TABLE_BYTES_MAX } from './limits.ts'
import type { RowFormat, RowsText } from './pages.ts'

/**
 * Collects the rows of a page. A JSON page ends before the row that would exceed its limit, but has at least one row. A
 * CSV table has no way to say that there are more rows, so a table that is too large is refused.
 */
export class RowsWriter {
  readonly #format: RowFormat
  readonly #bytesMax: number
  /** The JSON of each row. For a CSV page, the rows themselves are collected in `#objects`. */
  readonly #texts: string[] = []
  readonly #objects: object[] = []
  #bytes = 0
  #isCut = false

  constructor(format: RowFormat, bytesMax = PAGE_BYTES_MAX) {
    this.#format = format
    this.#bytesMax = format === 'json' ? bytesMax : TABLE_BYTES_MAX
  }

  get rowCount(): number {
    return this.#format === 'json' ? this.#texts.length : this.#objects.length
  }

  /** The estimated bytes of the rows so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** The bytes for which the page still has room. */
  get room(): number {
    return this.#bytesMax - this.#bytes
  }

  /** Adds a row. Returns false if the page is full and the row was not added. Throws 400 if a table is too large. */
  add(row: object): boolean {
    return this.#put(JSON.stringify(row), row)
  }

  /** Adds a row that is already JSON text. The result and the errors are those of `add`. */
  addText(json: string): boolean {
    if (this.#format === 'json') return this.#put(json, null)
    // The JSON was written by this program and is always an object.
    return this.#put(json, JSON.parse(json) as object)
  }

  /** Adds rows until all are added or the page is full. */
  addAll(rows: Iterable<object>): void {
    for (const row of rows) if (!this.add(row)) return
  }

  /** Returns the finished page. Throws 400 if the table has too many cells. */
  finish(): RowsText {
    const { rowCount } = this
    const isCut = this.#isCut
    const text = this.#format === 'csv' ? toCsv(this.#objects) : `[${this.#texts.join(',')}]`
    return { rows: bytesOf([text]), rowCount, isCut }
  }

  #put(json: string, row: object | null): boolean {
    const bytes = Buffer.byteLength(json) + 1
    const isFull = this.#bytes + bytes > this.#bytesMax
    if (isFull && this.#format === 'csv') throw tableTooLarge()
    if (isFull && this.rowCount > 0) {
      this.#isCut = true
      return false
    }
    this.#bytes += bytes
    if (this.#format === 'json') this.#texts.push(json)
    else if (row !== null) this.#objects.push(row)
    return true
  }
}

/** Returns one object as it appears in a page, without the list around it. */
export function rowText(format: RowFormat, row: object): Uint8Array<ArrayBuffer> {
  return bytesOf([format === 'json' ? JSON.stringify(row) : toCsv([row])])
}

/** Returns existing rows as a page. */
export function rowsText(format: RowFormat, rows: Iterable<object>): RowsText {
  const writer = new RowsWriter(format)
  writer.addAll(rows)
  return writer.finish()
}

/** Returns texts as UTF-8, one after the other, in a buffer that can be transferred. */
export function bytesOf(texts: readonly string[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0))
  const encoder = new TextEncoder()
  let position = 0
  for (const text of texts) position += encoder.encodeInto(text, bytes.subarray(position)).written
  return bytes
}

function tableTooLarge(): ServiceError {
  const detail = `The table would have more than ${TABLE_BYTES_MAX} bytes. Request fewer rows, or JSON.`
  return new ServiceError('invalid_input', detail, { attr: 'format' })
}
