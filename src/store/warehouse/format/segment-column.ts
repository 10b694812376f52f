/** What a reader sees of one column or row of a segment (segment-view.ts). */
import type { ColumnEntry, Directory } from './segment-format.ts'

/** Which rows have a value in a column, and which one. */
export interface ColumnIndex {
  /** Numbers of the rows that have a value, ascending. */
  readonly present: Uint16Array
  /** Position among the values for each of `present`. */
  readonly ids: Uint16Array
}

/** A decoded column: for each row that has a value its number and the position of its value. */
export interface ColumnView extends ColumnIndex {
  readonly entry: ColumnEntry
  /** Empty for a mirror: the value of a row is then its distinct_id. */
  readonly values: readonly unknown[]
}

/** The values of a column as they are stored, to be copied. Valid as long as the view. */
export interface StoredValues {
  /** JSON texts, or the bytes of digits, one behind the other. */
  readonly bytes: Buffer
  /** Of JSON texts: where each begins in `bytes`, and behind the last; between two is a comma. Else null. */
  readonly places: Uint32Array | null
  /** Of numbers: the values. Else null. */
  readonly numbers: Float64Array | null
}

/** What tells a duplicate: uuid (16 bytes at an offset), name and distinct_id number. */
export interface RowIdentity {
  readonly uuidBytes: Uint8Array
  readonly uuidOffset: number
  readonly name: string
  readonly distinctId: number
}

/** Bytes of the values of all columns of a segment, decoded. */
export function valueBytes({ columns }: Directory): number {
  return columns.reduce((sum, { values }) => sum + values[2], 0)
}

/** Bytes of the largest group with values, decoded: what reading one row of a segment costs at worst. */
export function largestGroupBytes({ columns }: Directory): number {
  return columns.reduce((max, { values }) => Math.max(max, values[1] + values[2]), 0)
}
