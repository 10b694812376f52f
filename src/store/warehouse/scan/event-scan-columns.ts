/** The columns that scans keep of a segment: their shapes, what memory they take, and how they are put elsewhere. */
import type { DenseColumn } from '../format/segment-properties.ts'
import type { ColumnForm, Numbers } from './column-memory.ts'
import { NameRows } from './event-scan-names.ts'

/** What a value costs besides its characters: an estimate. */
const VALUE_BYTES = 24

/** The times of a segment: `base + offsets[place]`; `offsets` are whole milliseconds or any float64. */
export interface SegmentTimes {
  readonly base: number
  readonly offsets: Uint32Array | Float64Array
}

/** D of each place, and the largest. */
export interface DistinctIds {
  readonly ids: Uint32Array
  readonly largest: number
}

/** The property that tells the session of each event, where all its values are UUIDs in lower case. */
export interface SessionIds {
  readonly ids: Uint16Array
  /** 16 bytes for each value, of the position 1 first; null: it has others, and is read as any property is. */
  readonly uuids: Uint8Array | null
}

/** A kind of column. */
export interface ColumnShape<Column> extends ColumnForm<Column> {
  /** An estimate of its memory: of all, or of all but the numbers. */
  bytesOf(column: Column, of: 'all' | 'values'): number
  /** Whether it is worth a place that all threads find. */
  isShared(column: Column): boolean
}

/** When each event happened. */
export const TIMES = shapeOf<SegmentTimes>({
  numbersOf: ({ offsets }) => [offsets],
  restOf: ({ base }) => base,
  columnOf: ([offsets], base) => ({ base, offsets }) as SegmentTimes,
})

/** Whose each event is. */
export const DISTINCT_IDS = shapeOf<DistinctIds>({
  numbersOf: ({ ids }) => [ids],
  restOf: ({ largest }) => largest,
  columnOf: ([ids], largest) => ({ ids, largest }) as DistinctIds,
})

/** Rows by name. */
export const NAME_ROWS = shapeOf<NameRows>({
  numbersOf: ({ starts, rows }) => [starts, rows],
  restOf: ({ values }) => values.slice(1),
  columnOf: ([starts, rows], values) =>
    new NameRows(withNone(values), starts as Uint16Array, rows as Uint16Array),
  valuesOf: ({ values }) => values,
})

/** The place of each row. */
export const PLACES = shapeOf<Uint16Array>({
  numbersOf: (places) => [places],
  restOf: () => null,
  columnOf: ([places]) => places as Uint16Array,
})

/** Names, elements, or a property. */
export const DENSE = shapeOf<DenseColumn>({
  numbersOf: ({ ids }) => [ids],
  restOf: ({ values }) => values.slice(1),
  columnOf: ([ids], values) => ({ ids: ids as Uint16Array, values: withNone(values) }),
  valuesOf: ({ values }) => values,
  // That no row has a value is known from the header, and one list of numbers serves all such columns.
  isShared: ({ values }) => values.length > 1,
})

/** Sessions by the bytes of their ids. */
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

/** Position 0 is that of no value, which JSON cannot say. */
function withNone(values: unknown): readonly unknown[] {
  return [undefined, ...(values as readonly unknown[])]
}
