/** The kinds of columns that scans cache: their shapes, their memory, and how they are stored in shared memory. */
import type { DenseColumn } from '../format/segment-properties.ts'
import type { ColumnForm, Numbers } from './column-memory.ts'
import { NameRows } from './event-scan-names.ts'

/** The estimated bytes of a value in addition to its characters. */
const VALUE_BYTES = 24

/** The times of a segment: the time at position `i` is `base + offsets[i]` milliseconds. */
export interface SegmentTimes {
  readonly base: number
  readonly offsets: Uint32Array | Float64Array
}

/** The distinct ID number at each position, and the largest one of the segment. */
export interface DistinctIds {
  readonly ids: Uint32Array
  readonly largest: number
}

/** The session of each event, if all values of `$session_id` are lower-case UUIDs. */
export interface SessionIds {
  readonly ids: Uint16Array
  /**
   * The 16 bytes of each value, starting with position 1. Null if some value is not a lower-case UUID; the property is
   * then read like any other.
   */
  readonly uuids: Uint8Array | null
}

/** A kind of column. */
export interface ColumnShape<Column> extends ColumnForm<Column> {
  /** Returns the estimated bytes of the column: of all of it, or of its values without the lists of numbers. */
  bytesOf(column: Column, of: 'all' | 'values'): number
  /** Returns whether the column is worth storing in shared memory. */
  isShared(column: Column): boolean
}

/** The times of the events. */
export const TIMES = shapeOf<SegmentTimes>({
  numbersOf: ({ offsets }) => [offsets],
  restOf: ({ base }) => base,
  columnOf: ([offsets], base) => ({ base, offsets }) as SegmentTimes,
})

/** The distinct ID numbers of the events. */
export const DISTINCT_IDS = shapeOf<DistinctIds>({
  numbersOf: ({ ids }) => [ids],
  restOf: ({ largest }) => largest,
  columnOf: ([ids], largest) => ({ ids, largest }) as DistinctIds,
})

/** The rows in name order. */
export const NAME_ROWS = shapeOf<NameRows>({
  numbersOf: ({ starts, rows }) => [starts, rows],
  restOf: ({ values }) => values.slice(1),
  columnOf: ([starts, rows], values) =>
    new NameRows(withNone(values), starts as Uint16Array, rows as Uint16Array),
  valuesOf: ({ values }) => values,
})

/** The position of each row in name order. */
export const PLACES = shapeOf<Uint16Array>({
  numbersOf: (places) => [places],
  restOf: () => null,
  columnOf: ([places]) => places as Uint16Array,
})

/** The column of names, of elements, or of a property. */
export const DENSE = shapeOf<DenseColumn>({
  numbersOf: ({ ids }) => [ids],
  restOf: ({ values }) => values.slice(1),
  columnOf: ([ids], values) => ({ ids: ids as Uint16Array, values: withNone(values) }),
  valuesOf: ({ values }) => values,
  // A column without values is not worth sharing. The header says that it is empty, and all such columns use the same
  // list.
  isShared: ({ values }) => values.length > 1,
})

/** The sessions as the bytes of their ids. */
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

/** Adds position 0, which stands for a missing value and cannot be expressed in JSON. */
function withNone(values: unknown): readonly unknown[] {
  return [undefined, ...(values as readonly unknown[])]
}
