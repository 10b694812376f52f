/**
 * Reads columns of a segment in the form that filters and scans use: a list of values, and for each row the position of
 * its value in this list. Rows with equal values usually have the same position. So a filter tests a value only once,
 * even if many rows have it.
 *
 *   row       0         1         2         3
 *   ids       1         2         0         1
 *   values    [undefined, 'Chrome', 'Firefox']     the value of a row is values[ids[row]]
 */
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { isAway } from './away-columns.ts'
import { type ColumnEntry, MODE_MIRROR, ROLE_REST } from './segment-format.ts'
import { VALUES_JSON, VALUES_UUID } from './segment-values.ts'
import type { ColumnIndex, ColumnView, SegmentView } from './segment-view.ts'

const NO_IDS = new Uint16Array(SEGMENT_ROWS_MAX)
/**
 * The values of a column count as long if together they have at least `LONG_COLUMN_BYTES_MIN` bytes, and on average at
 * least `LONG_VALUE_BYTES_MIN`.
 */
const LONG_COLUMN_BYTES_MIN = 32 * 1024
const LONG_VALUE_BYTES_MIN = 512

/** A column in the form that the comment at the top of this file describes. */
export interface DenseColumn {
  /** For each row: the position of its value in `values`, or 0 if it has none. */
  readonly ids: Uint16Array
  /**
   * The value at each position. Position 0 is always `undefined`. A plain column may contain equal values several
   * times.
   */
  readonly values: readonly unknown[]
}

/**
 * Returns the values of a property for all rows, whether the property has a column of its own or shares one with other
 * properties. `textOf` returns the text of a distinct ID number, for a column whose values are the distinct_ids. Throws
 * `DamagedRecordError`.
 */
export function propertyColumn(
  view: SegmentView,
  key: string,
  textOf: (distinctId: number) => string,
): DenseColumn {
  const { rows } = view.summary
  const values: unknown[] = [undefined]
  const entry = view.property(key)
  const rest = view.special(ROLE_REST)
  // No row has a value. All such columns share one array of zeros.
  if (entry === undefined && rest === undefined) return { ids: NO_IDS.subarray(0, rows), values }
  const ids = new Uint16Array(rows)
  if (entry !== undefined) {
    const column = view.column(entry)
    if (entry.mode === MODE_MIRROR) addMirror(view, column, textOf, ids, values)
    else addColumn(column, ids, values)
  }
  if (rest !== undefined) addShared(view.column(rest), key, ids, values)
  return { ids, values }
}

/**
 * Returns the values of a property for all rows, if all of them are stored as UUIDs. Otherwise returns null. `uuids`
 * has 16 bytes for each value, beginning with position 1. Throws `DamagedRecordError`.
 */
export function uuidColumn(
  view: SegmentView,
  key: string,
): { readonly ids: Uint16Array; readonly uuids: Uint8Array } | null {
  const entry = view.property(key)
  if (entry?.encoding !== VALUES_UUID || view.special(ROLE_REST) !== undefined) return null
  const ids = new Uint16Array(view.summary.rows)
  addIds(view.indexOf(entry), ids)
  return { ids, uuids: Uint8Array.from(view.storedValues(entry).bytes) }
}

/** A column with long texts. Only the offsets of the texts are decoded, not the texts themselves. */
export interface StoredColumn {
  /** For each row: the position of its value, or 0 if it has none. */
  readonly ids: Uint16Array
  readonly entry: ColumnEntry
  /**
   * The offsets of the values in the JSON of the column, as `jsonPlaces` returns them. `places[0]` is the offset of the
   * value with position 1.
   */
  readonly places: Uint32Array
  /**
   * The values from the column that several properties share. Their positions follow those of the values in the JSON.
   * For example, if the JSON has 3 values, `others[0]` has position 4.
   */
  readonly others: readonly unknown[]
}

/**
 * Returns the values of a property for all rows, if these are long texts. Otherwise returns null. Throws
 * `DamagedRecordError`.
 */
export function storedColumn(view: SegmentView, key: string): StoredColumn | null {
  const entry = view.property(key)
  if (entry === undefined || isAway(entry)) return null
  if (entry.mode === MODE_MIRROR || entry.encoding !== VALUES_JSON) return null
  const { valueCount, values } = entry
  const [, , bytes] = values
  if (bytes < LONG_COLUMN_BYTES_MIN || bytes < valueCount * LONG_VALUE_BYTES_MIN) return null
  const ids = new Uint16Array(view.summary.rows)
  addIds(view.indexOf(entry), ids)
  const { places } = view.storedValues(entry)
  if (places === null) return null
  const all: unknown[] = new Array(valueCount + 1)
  const rest = view.special(ROLE_REST)
  if (rest !== undefined) addShared(view.column(rest), key, ids, all)
  return { ids, entry, places, others: all.slice(valueCount + 1) }
}

/** Returns the column of event names or of elements, depending on `role`. Throws `DamagedRecordError`. */
export function specialColumn(view: SegmentView, role: number): DenseColumn {
  const ids = new Uint16Array(view.summary.rows)
  const values: unknown[] = [undefined]
  const entry = view.special(role)
  if (entry !== undefined) addColumn(view.column(entry), ids, values)
  return { ids, values }
}

function addColumn(column: ColumnView, ids: Uint16Array, values: unknown[]): void {
  for (const value of column.values) values.push(value)
  addIds(column, ids)
}

function addIds({ present, ids: places }: ColumnIndex, ids: Uint16Array): void {
  for (let index = 0; index < present.length; index++) {
    ids[present[index] ?? 0] = (places[index] ?? 0) + 1
  }
}

/** Adds the values of a mirror: the value of each row is its distinct_id. */
function addMirror(
  view: SegmentView,
  column: ColumnView,
  textOf: (distinctId: number) => string,
  ids: Uint16Array,
  values: unknown[],
): void {
  const known = new Map<number, number>()
  for (const row of column.present) {
    const distinctId = view.distinctIds[row] ?? 0
    let id = known.get(distinctId)
    if (id === undefined) {
      id = values.push(textOf(distinctId)) - 1
      known.set(distinctId, id)
    }
    ids[row] = id
  }
}

/** Adds the values of a property from the column that properties share. */
function addShared(column: ColumnView, key: string, ids: Uint16Array, values: unknown[]): void {
  const { present, ids: places } = column
  for (const [index, row] of present.entries()) {
    // The cast is right: the column of shared properties contains only objects.
    const properties = column.values[places[index] ?? 0] as Readonly<Record<string, unknown>>
    if (Object.hasOwn(properties, key)) ids[row] = values.push(properties[key]) - 1
  }
}
