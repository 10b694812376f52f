/**
 * Counts the events of a series chunk by chunk, in a table with a count for each breakdown value and bucket. Most
 * trends can be counted in this way, which needs no memory for single events.
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { DateRange } from '../../analytics/date-range.ts'
import type { EventColumns, ValueColumn } from '../../analytics/event-columns.ts'
import { onlyPeriod, type Periods } from '../../analytics/periods.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { TREND_CELLS_MAX } from '../limits.ts'
import { type BreakdownProperty, breakdownText } from '../query-breakdown.ts'
import { type QueryShard, scanShardChunks } from '../query-kind.ts'
import type { CellValue, TallyBuilder } from './tally.ts'
import type { Span } from './trend-spans.ts'
import type { TrendSeries, TrendsPlan } from './trends-plan.ts'

/**
 * In `#numberOfPair` of `SplitColumn`, the key of a pair is the number of its shorter combination times this factor,
 * plus the index of its text. No property has as many texts as this factor, so different pairs have different keys.
 */
const PAIR_FACTOR = 2 ** 26
/**
 * If there are at most this many possible pairs, the numbers of pairs are looked up in an array instead of a map. The
 * limit is small because the array is cleared for each chunk, which has only some thousand events.
 */
const COUNTED_IN_ARRAY = 4096

/**
 * Adds the events of a series to a tally. `value` is the breakdown value of all events if the breakdown has no
 * properties. Returns false without adding anything if the events cannot be counted chunk by chunk: if the breakdown
 * has bins, whose bounds depend on all events, or if there are too many breakdown values. Throws the same errors as
 * `EventScanner.scan`.
 */
export function countChunks(
  plan: TrendsPlan,
  { match }: TrendSeries,
  { fromMs, toMs, periods, bucketCount }: Span,
  persons: FilterGroup | null,
  value: CellValue,
  shard: QueryShard,
  tally: TallyBuilder,
): boolean {
  const properties = plan.breakdown?.properties ?? []
  if (properties.some(({ binCount }) => binCount !== null)) return false
  const cells = new CellNumbers(properties)
  const table = new CountTable(bucketCount)
  const filter = allOf([plan.filter, persons])
  const values = properties.map((one) => one.value)
  const rest = { filter, series: [match], values, keepsOwnerless: true }
  const looksAt = (within: DateRange) =>
    periods === null || onlyPeriod(periods, within) !== null ? 'count' : 'times'
  scanShardChunks(shard, { fromMs, toMs, ...rest, looksAt }, (chunk, within) => {
    if (table.isFull) return
    const numbers = cells.of(chunk)
    table.reserve(cells.values.length)
    if (!table.isFull) table.add(chunk, within, numbers, periods)
  })
  shard.scanner.releaseResults()
  if (table.isFull) return false
  const found = properties.length === 0 ? [value] : cells.values
  for (const [cell, one] of found.entries()) {
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      const count = table.countOf(cell, bucket)
      if (count > 0) tally.count(bucket, count)
    }
    tally.endCell(one)
  }
  return true
}

/**
 * Assigns a number, counted from 0, to each combination of values of the breakdown's properties, in the order in which
 * they occur. With the properties browser and country, for example, (Firefox, NL) is one combination.
 */
class CellNumbers {
  readonly #columns: readonly SplitColumn[]

  constructor(properties: readonly BreakdownProperty[]) {
    this.#columns = properties.map((property) => new SplitColumn(property))
  }

  /** The combinations. The index of a combination is its number. */
  get values(): readonly CellValue[] {
    return this.#columns.at(-1)?.values ?? NOTHING_SPLIT
  }

  /**
   * Returns, for each event, the number of its combination. Returns null if there are no properties; all events then
   * have the number 0.
   */
  of({ count, values }: EventColumns): Uint32Array | null {
    let numbers: Uint32Array | null = null
    let shorter = NOTHING_SPLIT
    for (const [index, split] of this.#columns.entries()) {
      const column = values[index]
      if (column === undefined) continue
      numbers = split.numbersOf(column, count, numbers, shorter)
      shorter = split.values
    }
    return numbers
  }
}

const NOTHING_SPLIT: readonly CellValue[] = [[]]

/**
 * Assigns numbers to the combinations of values of the properties up to and including one property. Such a combination
 * is a pair: a shorter combination, of the properties before this one, and a text of this property. For example, the
 * pair of (Firefox) and NL is the combination (Firefox, NL).
 */
class SplitColumn {
  /** The combinations. The index of a combination is its number. */
  readonly values: CellValue[] = []
  readonly #property: BreakdownProperty
  readonly #texts: (string | null)[] = []
  readonly #indexOfText = new Map<string | null, number>()
  /** For each value of the column, by its id: the index of its text in `#texts`. */
  #textOfId = new Uint32Array(0)
  /**
   * The number of each combination that occurred. The key is made from the shorter combination and the text; see
   * `PAIR_FACTOR`.
   */
  readonly #numberOfPair = new Map<number, number>()
  /**
   * For each pair, its number plus one, or 0 if the pair has not occurred in the current chunk yet. Looking up a number
   * here is faster than in the map.
   */
  #numbersOfPairs = new Uint32Array(0)
  /** The memory of the result of `numbersOf`. The next call reuses it. */
  #numbers = new Uint32Array(0)

  constructor(property: BreakdownProperty) {
    this.#property = property
  }

  /**
   * Returns, for each event, the number of its combination. The result is valid until the next call.
   *
   * @param shorterNumbers For each event, the number of its shorter combination. Null means 0 for all events.
   * @param shorterValues All shorter combinations.
   */
  numbersOf(
    { ids, values }: ValueColumn,
    count: number,
    shorterNumbers: Uint32Array | null,
    shorterValues: readonly CellValue[],
  ): Uint32Array {
    if (values.length > this.#textOfId.length) this.#readTexts(values)
    const textOfId = this.#textOfId
    if (this.#numbers.length < count) this.#numbers = new Uint32Array(count)
    const numbers = this.#numbers
    // The index of a pair depends on the number of texts, which may have grown since the last call. So the array of
    // pairs is cleared for each call.
    const width = this.#texts.length
    const isSmall = width * shorterValues.length <= COUNTED_IN_ARRAY
    const numberOfPair = isSmall ? this.#emptyPairs(width * shorterValues.length) : null
    for (let row = 0; row < count; row++) {
      const shorter = shorterNumbers === null ? 0 : (shorterNumbers[row] ?? 0)
      const text = textOfId[ids[row] ?? 0] ?? 0
      const pair = shorter * width + text
      let number = numberOfPair === null ? 0 : (numberOfPair[pair] ?? 0)
      if (number === 0) {
        number = 1 + this.#numberOf(shorter, text, shorterValues)
        if (numberOfPair !== null) numberOfPair[pair] = number
      }
      numbers[row] = number - 1
    }
    return numbers.subarray(0, count)
  }

  #emptyPairs(size: number): Uint32Array {
    if (this.#numbersOfPairs.length < size) this.#numbersOfPairs = new Uint32Array(size * 2)
    else this.#numbersOfPairs.fill(0, 0, size)
    return this.#numbersOfPairs
  }

  #numberOf(shorter: number, text: number, shorterValues: readonly CellValue[]): number {
    return getOrAdd(this.#numberOfPair, shorter * PAIR_FACTOR + text, () => {
      const value = [...(shorterValues[shorter] ?? []), this.#texts[text] ?? null]
      return this.values.push(value) - 1
    })
  }

  #readTexts(values: readonly unknown[]): void {
    const known = new Uint32Array(values.length)
    known.set(this.#textOfId)
    for (let id = this.#textOfId.length; id < known.length; id++) {
      const text = breakdownText(values[id], this.#property)
      known[id] = getOrAdd(this.#indexOfText, text, () => this.#texts.push(text) - 1)
    }
    this.#textOfId = known
  }
}

/** Counts events by breakdown value and bucket. */
class CountTable {
  readonly #bucketCount: number
  #counts = new Float64Array(0)
  #isFull = false

  constructor(bucketCount: number) {
    this.#bucketCount = bucketCount
  }

  /** True if there are too many values. The counts are then incomplete and must not be used. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** Makes space for this number of values. */
  reserve(cells: number): void {
    const needed = cells * this.#bucketCount
    this.#isFull = needed > TREND_CELLS_MAX && cells > 1
    if (this.#isFull || needed <= this.#counts.length) return
    const counts = new Float64Array(Math.max(needed, this.#counts.length * 2))
    counts.set(this.#counts)
    this.#counts = counts
  }

  /**
   * Adds the events of a chunk. If `numbers` is null, all events have the value 0. If `periods` is null, all events are
   * in bucket 0.
   */
  add(
    { count, timesMs, weights }: EventColumns,
    within: DateRange,
    numbers: Uint32Array | null,
    periods: Periods | null,
  ): void {
    const counts = this.#counts
    const bucketCount = this.#bucketCount
    const only = periods === null ? 0 : onlyPeriod(periods, within)
    if (only !== null && numbers === null) {
      counts[only] = (counts[only] ?? 0) + count
      return
    }
    if (only !== null && weights !== undefined) {
      for (let row = 0; row < count; row++) {
        const place = (numbers?.[row] ?? 0) * bucketCount + only
        counts[place] = (counts[place] ?? 0) + (weights[row] ?? 0)
      }
      return
    }
    let bucket = only ?? 0
    // Consecutive events are mostly in the same period, so its bounds are compared before the period is looked up.
    let startMs = only === null ? 0 : Number.NEGATIVE_INFINITY
    let endMs = only === null ? 0 : Number.POSITIVE_INFINITY
    for (let row = 0; row < count; row++) {
      const timeMs = only === null ? (timesMs[row] ?? 0) : 0
      if (periods !== null && (timeMs < startMs || timeMs >= endMs)) {
        bucket = Math.max(0, periods.indexOf(timeMs))
        startMs = periods.startMs(bucket)
        endMs = periods.startMs(bucket + 1)
      }
      const place = (numbers === null ? 0 : (numbers[row] ?? 0)) * bucketCount + bucket
      counts[place] = (counts[place] ?? 0) + 1
    }
  }

  countOf(cell: number, bucket: number): number {
    return this.#counts[cell * this.#bucketCount + bucket] ?? 0
  }
}
