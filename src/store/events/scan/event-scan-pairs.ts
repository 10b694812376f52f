/**
 * Counts the events of a segment by pairs of a name and a value of one column. All pairs are counted in one pass when
 * the column is first counted. Later counts for any names and values then read no events.
 *
 *   counts, with 3 values:   name 0: v0 v1 v2 | name 1: v0 v1 v2 | ...
 */
import type { DenseColumn } from '../format/segment-properties.ts'
import { SCAN_PAIRS_MAX } from '../limits.ts'
import type { NameRows } from './event-scan-names.ts'

/** A column, and an array with a 1 for each of its values that passes a filter. */
export interface PassingValues {
  readonly column: DenseColumn
  readonly isPassed: Uint8Array
}

/**
 * The counts: first the counts of name 0 for each value, then those of name 1, and so on. Null if there are more than
 * `SCAN_PAIRS_MAX` pairs.
 */
export type PairCounts = Uint16Array | null

/** Counts the pairs of a column that is in name order. The cost is linear in the rows. */
export function countPairs({ values: names, starts }: NameRows, column: DenseColumn): PairCounts {
  const { ids, values } = column
  if (names.length * values.length > SCAN_PAIRS_MAX) return null
  const counts = new Uint16Array(names.length * values.length)
  for (let name = 0; name < names.length; name++) {
    const first = name * values.length
    const end = starts[name + 1] ?? 0
    for (let place = starts[name] ?? 0; place < end; place++) {
      const pair = first + (ids[place] ?? 0)
      counts[pair] = (counts[pair] ?? 0) + 1
    }
  }
  return counts
}

/**
 * Returns the number of rows whose value passes and whose name has a mask other than 0. `pairs` are the counts of the
 * column.
 */
export function countPassing(
  { starts }: NameRows,
  pairs: PairCounts,
  { column: { ids }, isPassed }: PassingValues,
  nameMasks: readonly number[],
): number {
  let count = 0
  for (let name = 0; name < nameMasks.length; name++) {
    if (nameMasks[name] === 0) continue
    if (pairs !== null) {
      const first = name * isPassed.length
      for (let id = 0; id < isPassed.length; id++) {
        count += (isPassed[id] ?? 0) * (pairs[first + id] ?? 0)
      }
      continue
    }
    const end = starts[name + 1] ?? 0
    for (let place = starts[name] ?? 0; place < end; place++) {
      count += isPassed[ids[place] ?? 0] ?? 0
    }
  }
  return count
}

/**
 * Returns, for each value of a column, the number of its rows whose name has a mask other than 0. `pairs` are the
 * counts of the column.
 */
export function valueCounts(
  { starts }: NameRows,
  pairs: PairCounts,
  { ids, values }: DenseColumn,
  nameMasks: readonly number[],
): Uint32Array {
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
    const end = starts[name + 1] ?? 0
    for (let place = starts[name] ?? 0; place < end; place++) {
      const id = ids[place] ?? 0
      counts[id] = (counts[id] ?? 0) + 1
    }
  }
  return counts
}

/** Returns the number of rows whose name has a mask other than 0. */
export function rowsOf(starts: Uint16Array, nameMasks: readonly number[]): number {
  let rows = 0
  for (let id = 0; id < nameMasks.length; id++) {
    if ((nameMasks[id] ?? 0) !== 0) rows += (starts[id + 1] ?? 0) - (starts[id] ?? 0)
  }
  return rows
}
