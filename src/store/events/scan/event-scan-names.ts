/**
 * Puts the rows of a segment in the order of the names of their events, the *name order*. Scans store all columns in
 * this order. So a scan for a few names reads no rows with other names. This is important, because most queries ask for
 * a few names, and checking the name of each row would cost more than all later steps. The index of a row in the name
 * order is its position, called `place` in the code:
 *
 *   row       0        1        2        3
 *   name      click    view     click    view
 *
 *   values    [undefined, click, view]
 *   rows      0  2  1  3                             the row at each position
 *   starts    0  0  2  4                             name i has the positions starts[i] to starts[i + 1] - 1
 */
import type { DenseColumn } from '../format/segment-properties.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'

/**
 * The rows of a segment in name order. The rows with name i are at the positions from `starts[i]` to `starts[i + 1] -
 * 1` of `rows`.
 */
export class NameRows {
  /** Each distinct name once. Position 0 stands for no name. */
  readonly values: readonly unknown[]
  /** For each name, its index in `values`. */
  readonly ids: ReadonlyMap<string, number>
  /** For each name, the position at which its rows begin. At the end, there is one more entry: the number of rows. */
  readonly starts: Uint16Array
  /** The number of the row at each position. The rows with the same name are in ascending order. */
  readonly rows: Uint16Array

  constructor(values: readonly unknown[], starts: Uint16Array, rows: Uint16Array) {
    const ids = new Map<string, number>()
    for (const [id, name] of values.entries()) if (id > 0) ids.set(String(name), id)
    this.values = values
    this.ids = ids
    this.starts = starts
    this.rows = rows
  }
}

/**
 * The rows that a scan has picked: the first `count` entries of two arrays. They contain the position of each row, and
 * a bit mask of the series that may have events with its name.
 */
export interface PickedRows {
  readonly places: Uint16Array
  readonly masks: Uint32Array
}

/** Puts the rows of a segment in name order. It goes through the rows twice. */
export function rowsByName({ ids, values }: DenseColumn): NameRows {
  const starts = new Uint16Array(values.length + 1)
  for (const id of ids) starts[id + 1] = (starts[id + 1] ?? 0) + 1
  for (let id = 1; id < starts.length; id++) {
    starts[id] = (starts[id] ?? 0) + (starts[id - 1] ?? 0)
  }
  const places = starts.slice()
  const rows = new Uint16Array(ids.length)
  for (let row = 0; row < ids.length; row++) {
    const place = places[ids[row] ?? 0] ?? 0
    rows[place] = row
    places[ids[row] ?? 0] = place + 1
  }
  return new NameRows(values, starts, rows)
}

/** Puts a column of a segment in name order. `byRow` is the column in the order of rows. */
export function inNameOrder<T extends Uint16Array | Uint32Array | Float64Array>(
  byRow: T,
  { rows, values, starts }: NameRows,
): T {
  const isInOrder = values.length <= 2 && (starts[1] ?? 0) === 0
  if (isInOrder) return byRow
  const byPlace = byRow.slice()
  for (let place = 0; place < rows.length; place++) byPlace[place] = byRow[rows[place] ?? 0] ?? 0
  // The cast is right: the copy of a typed array has the same type.
  return byPlace as T
}

/** Returns the column of names, in name order. */
export function nameColumn({ values, starts, rows }: NameRows): DenseColumn {
  const ids = new Uint16Array(rows.length)
  for (let id = 1; id < values.length; id++) ids.fill(id, starts[id] ?? 0, starts[id + 1] ?? 0)
  return { ids, values }
}

/** Picks the rows that have some names. A picker contains the state of one scan, so each scan needs its own. */
export class NamePicker {
  readonly #isOrdered: boolean
  readonly #masks = new Uint32Array(SEGMENT_ROWS_MAX)
  readonly #places = new Uint16Array(SEGMENT_ROWS_MAX)
  /** One bit for each row. The bits of picked rows are set, so that these rows can be read in ascending order. */
  readonly #bits = new Uint32Array(SEGMENT_ROWS_MAX / 32)

  /** If `isOrdered` is true, the rows are picked in ascending order. */
  constructor(isOrdered: boolean) {
    this.#isOrdered = isOrdered
  }

  /** Picks the rows of all names whose mask in `nameMasks` is not 0. Returns the number of picked rows. */
  pick(names: NameRows, nameMasks: readonly number[], picked: PickedRows): number {
    let nameCount = 0
    for (const mask of nameMasks) if (mask !== 0) nameCount++
    return this.#isOrdered && nameCount > 1
      ? this.#pickInOrder(names, nameMasks, picked)
      : pickByName(names, nameMasks, picked)
  }

  #pickInOrder(
    { starts, rows }: NameRows,
    nameMasks: readonly number[],
    picked: PickedRows,
  ): number {
    const masks = this.#masks
    const places = this.#places
    const bits = this.#bits
    for (let id = 0; id < nameMasks.length; id++) {
      const mask = nameMasks[id] ?? 0
      if (mask === 0) continue
      const end = starts[id + 1] ?? 0
      for (let place = starts[id] ?? 0; place < end; place++) {
        const row = rows[place] ?? 0
        masks[row] = mask
        places[row] = place
        bits[row >>> 5] = (bits[row >>> 5] ?? 0) | (1 << (row & 31))
      }
    }
    const words = (rows.length + 31) >>> 5
    let count = 0
    for (let word = 0; word < words; word++) {
      for (let left = bits[word] ?? 0; left !== 0; left &= left - 1) {
        const row = (word << 5) + (31 - Math.clz32(left & -left))
        picked.masks[count] = masks[row] ?? 0
        picked.places[count++] = places[row] ?? 0
      }
      bits[word] = 0
    }
    return count
  }
}

function pickByName(
  { starts }: NameRows,
  nameMasks: readonly number[],
  picked: PickedRows,
): number {
  const { places, masks } = picked
  let count = 0
  for (let id = 0; id < nameMasks.length; id++) {
    const mask = nameMasks[id] ?? 0
    if (mask === 0) continue
    const end = starts[id + 1] ?? 0
    masks.fill(mask, count, count + end - (starts[id] ?? 0))
    for (let place = starts[id] ?? 0; place < end; place++) places[count++] = place
  }
  return count
}
