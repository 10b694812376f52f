/**
 * Counts the events of a segment by pairs of a name and a value of one column. The first query that needs a column
 * counts all its pairs in one pass. Later queries, for any names and values, then read no events of the segment.
 *
 *   counts, with 3 values:   name 0: v0 v1 v2 | name 1: v0 v1 v2 | ...
 */
import { SCAN_PAIRS_MAX } from '../limits.ts'
import { heldRange, type PlacedColumn } from './event-scan-columns.ts'
import type { NameRows } from './event-scan-names.ts'

/** A column, and an array that has a 1 for each of its values that passes a filter. */
export interface PassingValues {
  readonly column: PlacedColumn
  readonly isPassed: Uint8Array
}

/**
 * The counts: first those of name 0 for each value, then those of name 1, and so on. Null if there would be more than
 * `SCAN_PAIRS_MAX` pairs, so that nothing was counted.
 */
export type PairCounts = Uint16Array | null

/**
 * Counts the pairs of names and values in a column, which is in name order (event-scan-names.ts). It goes through the
 * rows once.
 */
export function countPairs({ values: names, starts }: NameRows, column: PlacedColumn): PairCounts {
  const { values } = column
  if (names.length * values.length > SCAN_PAIRS_MAX) return null
  const counts = new Uint16Array(names.length * values.length)
  for (let name = 0; name < names.length; name++) {
    const first = name * values.length
    countRange(column, starts[name] ?? 0, starts[name + 1] ?? 0, counts, first)
  }
  return counts
}

/**
 * Counts the values at a range of positions. The count of the first value is at `counts[at]`, and those of the other
 * values follow.
 */
function countRange(
  column: PlacedColumn,
  start: number,
  end: number,
  counts: Uint16Array | Uint32Array,
  at: number,
): void {
  const { ids, first } = column
  const { from, to } = heldRange(column, start, end)
  for (let place = from; place < to; place++) {
    const pair = at + (ids[place - first] ?? 0)
    counts[pair] = (counts[pair] ?? 0) + 1
  }
  counts[at] = (counts[at] ?? 0) + (end - start) - (to - from)
}

/**
 * Returns the number of rows whose value passes the filter and whose name is requested: its mask in `nameMasks` is not
 * 0. `pairs` are the counts of the column.
 */
export function countPassing(
  { starts }: NameRows,
  pairs: PairCounts,
  { column, isPassed }: PassingValues,
  nameMasks: readonly number[],
): number {
  const { ids, first } = column
  let count = 0
  for (let name = 0; name < nameMasks.length; name++) {
    if (nameMasks[name] === 0) continue
    if (pairs !== null) {
      const firstPair = name * isPassed.length
      for (let id = 0; id < isPassed.length; id++) {
        count += (isPassed[id] ?? 0) * (pairs[firstPair + id] ?? 0)
      }
      continue
    }
    const [start, end] = [starts[name] ?? 0, starts[name + 1] ?? 0]
    const { from, to } = heldRange(column, start, end)
    for (let place = from; place < to; place++) {
      count += isPassed[ids[place - first] ?? 0] ?? 0
    }
    count += (isPassed[0] ?? 0) * (end - start - (to - from))
  }
  return count
}

/**
 * Returns, for each value of a column, the number of rows that have the value and a requested name, that is, a name
 * whose mask in `nameMasks` is not 0. `pairs` are the counts of the column.
 */
export function valueCounts(
  { starts }: NameRows,
  pairs: PairCounts,
  column: PlacedColumn,
  nameMasks: readonly number[],
): Uint32Array {
  const { values } = column
  const counts = new Uint32Array(values.length)
  for (let name = 0; name < nameMasks.length; name++) {
    if (nameMasks[name] === 0) continue
    if (pairs !== null) {
      const first = name * values.length
      for (let id = 0; id < counts.length; id++) {
        counts[id] = (counts[id] ?? 0) + (pairs[first + id] ?? 0)
      }
      continue
    }
    countRange(column, starts[name] ?? 0, starts[name + 1] ?? 0, counts, 0)
  }
  return counts
}

/** Returns the number of rows with a requested name, that is, a name whose mask in `nameMasks` is not 0. */
export function rowsOf(starts: Uint16Array, nameMasks: readonly number[]): number {
  let rows = 0
  for (let id = 0; id < nameMasks.length; id++) {
    if ((nameMasks[id] ?? 0) !== 0) rows += (starts[id + 1] ?? 0) - (starts[id] ?? 0)
  }
  return rows
}
