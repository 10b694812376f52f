/**
 * The rows that a scan finds, in growing typed arrays, and their order by time. Rows are added in order of arrival,
 * which in most cases is nearly the order of time.
 */
import { grown } from '../../../rules/analytics/growing-arrays.ts'
import { SCAN_ROW_COLUMNS_KEPT_MAX } from '../limits.ts'

const ROWS_START = 16_384
/**
 * The largest average number of positions by which the insertion sort may move a row. If rows must be moved further, a
 * radix sort is used.
 */
const SHIFTS_A_ROW = 8
const MICROSECONDS = 1000
const DIGIT_BITS = 11
const DIGITS = 2 ** DIGIT_BITS

/** The rows of a result, stored by column. Later queries reuse the memory. */
export class ScanRows {
  count = 0
  timesMs = new Float64Array(ROWS_START)
  persons = new Uint32Array(ROWS_START)
  sequences = new Uint32Array(ROWS_START)
  masks = new Uint32Array(ROWS_START)
  /** One column for each value that is read. */
  readonly values: Uint32Array<ArrayBuffer>[] = []
  /** An unused column. Sorting writes a column into it in the new order, and then exchanges the two. */
  #scratch = new Uint32Array(0)

  /** Removes all rows. */
  reset(valueCount: number): void {
    this.count = 0
    while (this.values.length < valueCount) this.values.push(new Uint32Array(this.capacity))
    this.values.length = valueCount
  }

  /** The number of rows for which there is memory. */
  get capacity(): number {
    return this.masks.length
  }

  get bytes(): number {
    const columns = [this.timesMs, this.persons, this.sequences, this.masks, this.#scratch]
    return [...columns, ...this.values].reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  /** Makes sure that there is memory for `added` more rows. */
  reserve(added: number): void {
    const needed = this.count + added
    if (needed <= this.capacity) return
    const length = Math.max(needed, this.capacity * 2)
    this.timesMs = grown(this.timesMs, length)
    this.persons = grown(this.persons, length)
    this.sequences = grown(this.sequences, length)
    this.masks = grown(this.masks, length)
    for (const [index, ids] of this.values.entries()) this.values[index] = grown(ids, length)
  }

  /**
   * Sorts the rows by time. Rows with equal times keep their order. Rows that are already sorted are only checked, not
   * moved.
   */
  sort(): void {
    const order = timeOrder(this.timesMs, this.count)
    if (order === null) return
    this.timesMs = gathered(this.timesMs, new Float64Array(this.capacity), order)
    this.persons = this.#gathered(this.persons, order)
    this.sequences = this.#gathered(this.sequences, order)
    this.masks = this.#gathered(this.masks, order)
    for (const [index, ids] of this.values.entries()) {
      this.values[index] = this.#gathered(ids, order)
    }
  }

  #gathered(column: Uint32Array<ArrayBuffer>, order: Uint32Array): Uint32Array<ArrayBuffer> {
    const isFitting = this.#scratch.length === this.capacity
    const target = isFitting ? this.#scratch : new Uint32Array(this.capacity)
    this.#scratch = column
    return gathered(column, target, order)
  }
}

/** Gives memory for rows to the scans of a query, and takes it back for later queries. */
export class RowPool {
  readonly #keptBytesMax: number
  #spare: ScanRows[] = []
  #lent: ScanRows[] = []

  /**
   * The memory of a result is kept for later queries only if it has at most `keptBytesMax` bytes. The memory of at most
   * `SCAN_ROW_COLUMNS_KEPT_MAX` results is kept.
   */
  constructor(keptBytesMax: number) {
    this.#keptBytesMax = keptBytesMax
  }

  /** The number of bytes of memory that is kept or in use now, and `keptBytesMax`. */
  get held(): { readonly bytes: number; readonly bytesMax: number } {
    const bytes = [...this.#spare, ...this.#lent].reduce((sum, rows) => sum + rows.bytes, 0)
    return { bytes, bytesMax: this.#keptBytesMax }
  }

  /** Releases all memory. No rows may be in use any more. */
  release(): void {
    this.#spare = []
    this.#lent = []
  }

  /** Returns an object without rows, whose memory may be used until the next `takeBack`. */
  lend(valueCount: number): ScanRows {
    const rows = this.#spare.pop() ?? new ScanRows()
    rows.reset(valueCount)
    this.#lent.push(rows)
    return rows
  }

  /**
   * Takes back all memory that was lent. The rows in it must not be used any more. Some of the memory is kept for later
   * queries.
   */
  takeBack(): void {
    const usable = [...this.#spare, ...this.#lent].filter(
      ({ bytes }) => bytes <= this.#keptBytesMax,
    )
    this.#spare = usable.slice(0, SCAN_ROW_COLUMNS_KEPT_MAX)
    this.#lent = []
  }
}

type NumberArray = Uint32Array | Float64Array

function gathered<T extends NumberArray>(from: T, to: T, order: Uint32Array): T {
  for (let index = 0; index < order.length; index++) to[index] = from[order[index] ?? 0] ?? 0
  return to
}

/**
 * Returns the indexes of the times in ascending order of the times, or null if the times are already sorted. Equal
 * times keep their order.
 */
export function timeOrder(timesMs: Float64Array, count: number): Uint32Array | null {
  let isOrdered = true
  for (let index = 1; index < count && isOrdered; index++) {
    isOrdered = (timesMs[index] ?? 0) >= (timesMs[index - 1] ?? 0)
  }
  if (isOrdered) return null
  const nearly = ascending(count)
  return insertionSort(timesMs, nearly, count * SHIFTS_A_ROW)
    ? nearly
    : radixSort(timesMs, ascending(count))
}

function ascending(count: number): Uint32Array {
  const numbers = new Uint32Array(count)
  for (let index = 0; index < count; index++) numbers[index] = index
  return numbers
}

/**
 * Sorts times that are nearly sorted. Gives up and returns false if they turn out to be far from sorted; `order` then
 * has no useful contents.
 */
function insertionSort(timesMs: Float64Array, order: Uint32Array, shiftsMax: number): boolean {
  let shifts = shiftsMax
  for (let index = 1; index < order.length; index++) {
    const row = order[index] ?? 0
    const time = timesMs[row] ?? 0
    let place = index
    while (place > 0 && (timesMs[order[place - 1] ?? 0] ?? 0) > time) {
      order[place] = order[place - 1] ?? 0
      place--
      if (--shifts < 0) return false
    }
    order[place] = row
  }
  return true
}

/**
 * Sorts times with a radix sort. It compares whole milliseconds if all times are whole milliseconds, and otherwise
 * microseconds.
 */
function radixSort(timesMs: Float64Array, order: Uint32Array): Uint32Array {
  let first = Number.POSITIVE_INFINITY
  let last = Number.NEGATIVE_INFINITY
  let units = 1
  for (let index = 0; index < order.length; index++) {
    const time = timesMs[index] ?? 0
    if (time < first) first = time
    if (time > last) last = time
    if (units === 1 && !Number.isInteger(time)) units = MICROSECONDS
  }
  first = Math.floor(first)
  const span = Math.floor((last - first) * units)
  let from: Uint32Array = order
  let to: Uint32Array = new Uint32Array(order.length)
  const starts = new Uint32Array(DIGITS)
  for (let scale = 1; scale <= span; scale *= DIGITS) {
    starts.fill(0)
    for (let index = 0; index < from.length; index++) {
      const digit = digitOf(((timesMs[from[index] ?? 0] ?? 0) - first) * units, scale)
      starts[digit] = (starts[digit] ?? 0) + 1
    }
    let start = 0
    for (let digit = 0; digit < DIGITS; digit++) {
      const size = starts[digit] ?? 0
      starts[digit] = start
      start += size
    }
    for (let index = 0; index < from.length; index++) {
      const row = from[index] ?? 0
      const digit = digitOf(((timesMs[row] ?? 0) - first) * units, scale)
      const place = starts[digit] ?? 0
      starts[digit] = place + 1
      to[place] = row
    }
    const swap = from
    from = to
    to = swap
  }
  if (units !== 1) insertionSort(timesMs, from, Number.POSITIVE_INFINITY)
  return from
}

function digitOf(distance: number, scale: number): number {
  return Math.floor(distance / scale) % DIGITS
}
