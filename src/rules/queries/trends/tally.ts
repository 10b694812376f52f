/**
 * The results of a series for each bucket of each value of the breakdown, in a form that can be merged in any order:
 * counts, exact sums, extremes, or the numbers themselves. Empty buckets have no entry.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { quantileOf } from '../../analytics/person-aggregates.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import type { Reducer } from './trend-measures.ts'

/**
 * A breakdown value: for each property of the breakdown, the text of its value, or null if the event does not have the
 * property. The list is empty without a breakdown.
 */
export type CellValue = readonly (string | null)[]

/**
 * The results of a series. A cell is a breakdown value, and an entry is one bucket of a cell. It is plain data that may
 * cross threads.
 */
export interface Tally {
  /** The breakdown value of each cell, without duplicates and in any order. */
  readonly cells: readonly CellValue[]
  /**
   * For each cell, the index of its first entry. The entries of cell i are those from `starts[i]` up to, but not
   * including, `starts[i + 1]`.
   */
  readonly starts: Uint32Array
  /** The bucket of each entry, ascending within a cell. */
  readonly buckets: Uint32Array
  /** For each entry, how many events or numbers it was computed from. */
  readonly counts: Float64Array
  /** For each entry, the sum, minimum or maximum. `rests` contains the rounding error of the sum. */
  readonly sums: Float64Array
  readonly rests: Float64Array
  /** For quantiles, all numbers, entry by entry. Otherwise empty. */
  readonly numbers: Float64Array
}

/** Builds a tally, cell by cell. */
export class TallyBuilder {
  readonly #reduce: Reducer
  readonly #counts: Float64Array
  readonly #sums: Float64Array
  readonly #rests: Float64Array
  /** The numbers of each bucket in the current cell. Only used for quantiles. */
  readonly #lists: number[][] = []
  /** Buckets of the current cell that have an entry. */
  #touched: number[] = []
  #isKept = false
  readonly #done = {
    cells: [] as CellValue[],
    starts: [0],
    buckets: [] as number[],
    counts: [] as number[],
    sums: [] as number[],
    rests: [] as number[],
    numbers: [] as number[],
  }

  constructor(bucketCount: number, reduce: Reducer) {
    this.#reduce = reduce
    this.#counts = new Float64Array(bucketCount)
    this.#sums = new Float64Array(bucketCount)
    this.#rests = new Float64Array(bucketCount)
  }

  /** Adds `times` to the count of a bucket in the current cell. */
  count(bucket: number, times = 1): void {
    const before = this.#counts[bucket] ?? 0
    if (before === 0) this.#touched.push(bucket)
    this.#counts[bucket] = before + times
  }

  /**
   * Adds a number to a bucket of the current cell. Except for quantiles, `number` may also be the sum, minimum or
   * maximum of `times` numbers. `rest` is the rounding error of a sum.
   */
  add(bucket: number, number: number, times = 1, rest = 0): void {
    const before = this.#counts[bucket] ?? 0
    this.count(bucket, times)
    if (typeof this.#reduce === 'number') getList(this.#lists, bucket).push(number)
    else if (this.#reduce === 'min' || this.#reduce === 'max') {
      const known = this.#sums[bucket] ?? 0
      const isBetter = this.#reduce === 'min' ? number < known : number > known
      if (before === 0 || isBetter) this.#sums[bucket] = number
    } else {
      // The rounding error is added up separately, so that the sum does not depend on the order of the numbers.
      const known = this.#sums[bucket] ?? 0
      const sum = known + number
      const shift = sum - known
      this.#rests[bucket] =
        (this.#rests[bucket] ?? 0) + (known - (sum - shift)) + (number - shift) + rest
      this.#sums[bucket] = sum
    }
  }

  /** Keeps the current cell in the tally even if it stays empty. */
  keepCell(): void {
    this.#isKept = true
  }

  /** Ends a cell. Everything that is added afterward belongs to the next cell. An empty cell is left out. */
  endCell(value: CellValue): void {
    if (this.#touched.length === 0 && !this.#isKept) return
    const done = this.#done
    for (const bucket of this.#touched.sort((a, b) => a - b)) {
      done.buckets.push(bucket)
      done.counts.push(this.#counts[bucket] ?? 0)
      done.sums.push(this.#sums[bucket] ?? 0)
      done.rests.push(this.#rests[bucket] ?? 0)
      for (const number of this.#lists[bucket] ?? []) done.numbers.push(number)
      this.#counts[bucket] = 0
      this.#sums[bucket] = 0
      this.#rests[bucket] = 0
      this.#lists[bucket] = []
    }
    done.cells.push(value)
    done.starts.push(done.buckets.length)
    this.#touched = []
    this.#isKept = false
  }

  finish(): Tally {
    const { cells, starts, buckets, counts, sums, rests, numbers } = this.#done
    return {
      cells,
      starts: new Uint32Array(starts),
      buckets: new Uint32Array(buckets),
      counts: new Float64Array(counts),
      sums: new Float64Array(sums),
      rests: new Float64Array(rests),
      numbers: new Float64Array(numbers),
    }
  }
}

/** Returns the tally of a series without a breakdown from its count in each bucket. */
export function tallyOfCounts(counts: readonly number[]): Tally {
  const tally = new TallyBuilder(counts.length, 'count')
  for (const [bucket, count] of counts.entries()) if (count > 0) tally.count(bucket, count)
  tally.endCell([])
  return tally.finish()
}

/**
 * Merges the tallies of parts. The cost is linear in their entries and numbers. Throws the same errors as
 * `EventScanner.checkLimits`.
 */
export function mergedTally(parts: readonly Tally[], reduce: Reducer, limits: QueryLimits): Tally {
  const [first] = parts
  if (parts.length === 1 && first !== undefined) return first
  const pace = new PacedLimits(limits)
  let bucketCount = 0
  const placesOf = new Map<string, { part: Tally; cell: number }[]>()
  for (const part of parts) {
    for (const bucket of part.buckets) bucketCount = Math.max(bucketCount, bucket + 1)
    for (const [cell, value] of part.cells.entries()) {
      pace.count(1)
      getOrAdd(placesOf, JSON.stringify(value), () => []).push({ part, cell })
    }
  }
  const numberStarts = new Map(parts.map((part) => [part, startsOf(part)]))
  const builder = new TallyBuilder(bucketCount, reduce)
  for (const places of placesOf.values()) {
    builder.keepCell()
    for (const { part, cell } of places) {
      const starts = numberStarts.get(part) ?? new Float64Array(0)
      forEachEntry(part, cell, (entry, bucket) => {
        pace.count(typeof reduce === 'number' ? (part.counts[entry] ?? 0) : 1)
        if (typeof reduce === 'number') {
          const from = starts[entry] ?? 0
          const until = from + (part.counts[entry] ?? 0)
          for (const number of part.numbers.subarray(from, until)) builder.add(bucket, number)
          return
        }
        const { sums, counts, rests } = part
        builder.add(bucket, sums[entry] ?? 0, counts[entry] ?? 0, rests[entry] ?? 0)
      })
    }
    const [place] = places
    if (place !== undefined) builder.endCell(place.part.cells[place.cell] ?? [])
  }
  return builder.finish()
}

/**
 * Returns a function that computes the result of an entry. For quantiles, the function sorts the numbers of the entry.
 */
export function entryReader(tally: Tally, reduce: Reducer): (entry: number) => number {
  const { counts, sums, rests, numbers } = tally
  if (typeof reduce === 'number') {
    const starts = startsOf(tally)
    return (entry) => {
      const from = starts[entry] ?? 0
      return quantileOf(numbers.subarray(from, from + (counts[entry] ?? 0)).sort(), reduce)
    }
  }
  if (reduce === 'count') return (entry) => counts[entry] ?? 0
  const sumOf = (entry: number): number => (sums[entry] ?? 0) + (rests[entry] ?? 0)
  return reduce === 'avg' ? (entry) => sumOf(entry) / (counts[entry] ?? 1) : sumOf
}

/** Visits the entries of a cell with their buckets. */
export function forEachEntry(
  { starts, buckets }: Tally,
  cell: number,
  visit: (entry: number, bucket: number) => void,
): void {
  const until = starts[cell + 1] ?? 0
  for (let entry = starts[cell] ?? 0; entry < until; entry++) visit(entry, buckets[entry] ?? 0)
}

/** Returns the index of each entry's first number. Empty unless the tally contains numbers. */
function startsOf({ counts, numbers }: Tally): Float64Array {
  const starts = new Float64Array(numbers.length === 0 ? 0 : counts.length)
  let next = 0
  for (let entry = 0; entry < starts.length; entry++) {
    starts[entry] = next
    next += counts[entry] ?? 0
  }
  return starts
}

function getList(lists: number[][], bucket: number): number[] {
  const known = lists[bucket]
  if (known !== undefined) return known
  const list: number[] = []
  lists[bucket] = list
  return list
}
