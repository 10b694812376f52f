/** The kinds of columns that scans cache. For each kind: its shape, its memory, and its form in shared memory. */
import type { DenseColumn } from '../format/segment-properties.ts'
import type { ColumnForm, Numbers } from './column-memory.ts'
import { NameRows } from './event-scan-names.ts'

/** A column with fewer numbers than this is not stored as a list of numbers, but with its other values. */
const NUMBER_VALUES_MIN = 64
/** The estimated number of bytes that a value takes in addition to its characters. */
const VALUE_BYTES = 24

/** The times of a segment, in milliseconds. The time at position `i` is `base + offsets[i]`. */
export interface SegmentTimes {
  readonly base: number
  readonly offsets: Uint32Array | Float64Array
}

/** The distinct ID number at each position, and the largest one of the segment. */
export interface DistinctIds {
  readonly ids: Uint32Array
  readonly largest: number
}

/**
 * A column of a segment in name order (event-scan-names.ts). A property usually occurs only in events with a few names,
 * so its values are next to each other. The positions before the first value and after the last one are not stored:
 *
 *   position   0   1   2   3   4   5   6   7
 *   value      -   -   -   a   -   b   -   -         ids 1 0 2, first 3
 */
export interface PlacedColumn {
  /**
   * For the positions from `first` on: the index of the value in `values`, or 0 if there is none. Positions outside
   * this array have no value.
   */
  readonly ids: Uint16Array
  readonly first: number
  /** Each distinct value once, from index 1 on. Index 0 stands for no value; see `valueAt`. */
  readonly values: ColumnValues
}

/**
 * The values of a column. Many different numbers are stored as a `Float64Array`, which all threads share. All other
 * values are created from JSON by each thread.
 */
export type ColumnValues = readonly unknown[] | Float64Array

/** Returns the value at an index of `values`, or undefined at index 0. */
export function valueAt(values: ColumnValues, id: number): unknown {
  return id === 0 ? undefined : values[id]
}

/**
 * Returns the index in `values` of the value at the position `place` of the segment. Returns 0 if there is no value.
 */
export function idAt(ids: Uint16Array, first: number, place: number): number {
  const at = place - first
  return at >= 0 && at < ids.length ? (ids[at] ?? 0) : 0
}

/** The positions in a range for which a column stores ids. All other positions of the range have no value. */
export interface HeldRange {
  readonly from: number
  readonly to: number
}

/**
 * Returns the positions from `start` to `end - 1` for which a column stores ids. If there are none, `from` equals `to`.
 */
export function heldRange(
  { ids, first }: Pick<PlacedColumn, 'ids' | 'first'>,
  start: number,
  end: number,
): HeldRange {
  const from = Math.min(end, Math.max(start, first))
  return { from, to: Math.max(from, Math.min(end, first + ids.length)) }
}

/** The ids of a column in which no event has a value. */
const NO_IDS = new Uint16Array(0)

/** Returns a column that does not store the positions before its first value and after its last one. */
export function withoutEdges({ ids, values }: DenseColumn): PlacedColumn {
  if (values.length === 1) return { ids: NO_IDS, first: 0, values }
  let first = 0
  while (first < ids.length && ids[first] === 0) first++
  let end = ids.length
  while (end > first && ids[end - 1] === 0) end--
  const held = end - first === ids.length ? ids : ids.slice(first, end)
  return { ids: held, first, values: asNumbers(values) ?? values }
}

/** Returns the values as a list of numbers. Returns null if they are only a few, or if one of them is not a number. */
function asNumbers(values: readonly unknown[]): Float64Array | null {
  if (values.length < NUMBER_VALUES_MIN) return null
  const numbers = new Float64Array(values.length)
  for (let id = 1; id < values.length; id++) {
    const value = values[id]
    if (typeof value !== 'number') return null
    numbers[id] = value
  }
  return numbers
}

/** The session ids of the events in a segment. */
export interface SessionIds {
  readonly ids: Uint16Array
  /**
   * The 16 bytes of each value, one after another, from the value with index 1 on. Null if some value is not a
   * lower-case UUID: the session ids are then read like any other property.
   */
  readonly uuids: Uint8Array | null
}

/** Describes a kind of column to the cache. */
export interface ColumnShape<Column> extends ColumnForm<Column> {
  /** Returns the estimated number of bytes of the column. If `of` is `values`, its lists of numbers are not counted. */
  bytesOf(column: Column, of: 'all' | 'values'): number
  /** Returns whether it is worth storing the column in shared memory. */
  isShared(column: Column): boolean
}

/** The kind of column that contains the times of the events. */
export const TIMES = shapeOf<SegmentTimes>({
  numbersOf: ({ offsets }) => [offsets],
  restOf: ({ base }) => base,
  columnOf: ([offsets], base) => ({ base, offsets }) as SegmentTimes,
})

/** The kind of column that contains the distinct ID numbers of the events. */
export const DISTINCT_IDS = shapeOf<DistinctIds>({
  numbersOf: ({ ids }) => [ids],
  restOf: ({ largest }) => largest,
  columnOf: ([ids], largest) => ({ ids, largest }) as DistinctIds,
})

/** The kind of column that contains, for each position in name order (event-scan-names.ts), the number of the row. */
export const NAME_ROWS = shapeOf<NameRows>({
  numbersOf: ({ starts, rows }) => [starts, rows],
  restOf: ({ values }) => values.slice(1),
  columnOf: ([starts, rows], values) =>
    new NameRows(withNone(values), starts as Uint16Array, rows as Uint16Array),
  valuesOf: ({ values }) => values,
})

/** The kind of column that contains, for each row, its position in name order (event-scan-names.ts). */
export const PLACES = shapeOf<Uint16Array>({
  numbersOf: (places) => [places],
  restOf: () => null,
  columnOf: ([places]) => places as Uint16Array,
})

/** The kind of column that contains the event names, the elements, or a property. */
export const PLACED = shapeOf<PlacedColumn>({
  numbersOf: ({ ids, values }) => (values instanceof Float64Array ? [ids, values] : [ids]),
  // The list of values begins with the missing value, which JSON cannot express. In its place, `first` is stored.
  restOf: ({ first, values }) =>
    values instanceof Float64Array ? [first] : [first, ...values.slice(1)],
  columnOf([ids, numbers], rest) {
    const values = rest as unknown[]
    const first = values[0] as number
    values[0] = undefined
    // If there is a second list of numbers, it contains the values.
    return { ids: ids as Uint16Array, first, values: (numbers ?? values) as ColumnValues }
  },
  valuesOf: ({ values }) => (values instanceof Float64Array ? [] : values),
  // A column without values is not stored in shared memory, because the header already tells that it has none.
  isShared: ({ values }) => values.length > 1,
})

/** The kind of column that contains the session ids, as bytes. */
export const SESSION_IDS = shapeOf<SessionIds>({
  numbersOf: ({ ids, uuids }) => (uuids === null ? [] : [ids, uuids]),
  restOf: () => null,
  columnOf: ([ids, uuids]) => ({ ids: ids as Uint16Array, uuids: uuids as Uint8Array }),
  isShared: ({ uuids }) => uuids !== null,
})

function shapeOf<Column>(
  form: ColumnForm<Column> &
    Partial<Pick<ColumnShape<Column>, 'isShared'>> & {
      readonly valuesOf?: (column: Column) => readonly unknown[]
    },
): ColumnShape<Column> {
  const { valuesOf = () => [] } = form
  return {
    ...form,
    isShared: form.isShared ?? (() => true),
    bytesOf(column, of) {
      const values = valuesOf(column).reduce<number>((sum, value) => sum + valueBytes(value), 0)
      if (of === 'values' || form.isShared?.(column) === false) return values
      return form.numbersOf(column).reduce(sumBytes, values)
    },
  }
}

function sumBytes(sum: number, { byteLength }: Numbers): number {
  return sum + byteLength
}

function valueBytes(value: unknown): number {
  if (typeof value === 'string') return VALUE_BYTES + value.length
  const isObject = typeof value === 'object' && value !== null
  return VALUE_BYTES + (isObject ? JSON.stringify(value).length * 4 : 0)
}

/** Adds the value at index 0, which is undefined and cannot be expressed in JSON. */
function withNone(values: unknown): readonly unknown[] {
  return [undefined, ...(values as readonly unknown[])]
}
