/**
 * Computes the lines of a series. There is a line for each breakdown value, the largest first; values beyond the limit
 * are added up in one line. Source: docs/compatibility/queries.md, "TrendsQuery".
 */
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import { NULL_LABEL, OTHER_LABEL, type QueryBreakdown } from '../query-breakdown.ts'
import type { QueryRange } from '../query-range.ts'
import { type CellValue, entryReader, forEachEntry, type Tally } from './tally.ts'
import { type Measure, reducerOf } from './trend-measures.ts'
import { spanOf } from './trend-spans.ts'
import type { TrendsPlan } from './trends-plan.ts'

/** A value of a breakdown as the answer shows it, and its rank. */
export interface LineValue {
  /** A text for each property. Empty without a breakdown. */
  readonly texts: readonly string[]
  readonly rank: 'value' | 'null' | 'other'
}

/** A line of a chart: one number for each bucket, or a single number for a total. */
export interface Line {
  readonly value: LineValue
  readonly data: readonly number[]
}

/** The lines of a series in a range. */
export interface Lines {
  readonly lines: readonly Line[]
  readonly hasOther: boolean
  /** True if one of the values, within the limit or not, is the text `null`. */
  readonly hasNullText: boolean
}

const RANKS = { value: 0, null: 1, other: 2 } as const

/** Returns the lines of a tally. Throws the same errors as `EventScanner.checkLimits`. */
export function linesOf(
  plan: TrendsPlan,
  measure: Measure,
  range: QueryRange,
  tally: Tally,
  limits: QueryLimits,
): Lines {
  const { breakdown } = plan
  const { bucketCount } = spanOf(measure, range, plan.isTotal)
  const pace = new PacedLimits(limits)
  const reader = new CellReader(plan, measure, tally, bucketCount)
  if (breakdown === null) {
    const value = { texts: [], rank: 'value' } as const
    const lines = [{ value, data: reader.dataOf(0).slice() }].map(plainLine)
    return { lines, hasOther: false, hasNullText: false }
  }
  const stepsEach = 1 + bucketCount * plan.smoothing
  const cells = tally.cells.map((value, cell) => {
    pace.count(stepsEach)
    return { cell, value: shownValue(value), sum: sumOf(reader.dataOf(cell)) }
  })
  const isAsGiven = isOrderGiven(plan)
  if (!isAsGiven) {
    cells.sort((a, b) => {
      pace.count(1)
      return compareValues(a, b, breakdown.cohorts.length > 0)
    })
  }
  const limit = isAsGiven ? cells.length : breakdown.limit
  const lines = cells.slice(0, limit).map(({ cell, value }) => {
    pace.count(stepsEach)
    return plainLine({ value, data: reader.dataOf(cell) })
  })
  const others = cells.slice(limit)
  const hasOther = others.length > 0
  const hasNullText = cells.some(({ value }) => value.texts.includes('null'))
  if (!hasOther || breakdown.isOtherHidden) return { lines, hasOther, hasNullText }
  const data = new Float64Array(bucketCount)
  for (const { cell } of others) {
    pace.count(stepsEach)
    addUp(data, reader.dataOf(cell))
  }
  const otherLine = plainLine({ value: otherValue(breakdown), data })
  return { lines: [...lines, otherLine], hasOther, hasNullText }
}

/** Returns the label of the line that adds up the values beyond the limit. */
export function otherValue({ properties }: QueryBreakdown): LineValue {
  const length = Math.max(1, properties.length)
  return { texts: Array.from({ length }, () => OTHER_LABEL), rank: 'other' }
}

/** Adds the numbers of one list to another, bucket by bucket. */
export function addUp(into: Float64Array, data: Float64Array): void {
  for (const [bucket, number] of data.entries()) into[bucket] = (into[bucket] ?? 0) + number
}

/**
 * Returns whether cohorts are shown in the order of the request, which is the case for a single cohort and for lists
 * with `all`.
 */
export function isOrderGiven({ breakdown }: Pick<TrendsPlan, 'breakdown'>): boolean {
  const cohorts = breakdown?.cohorts ?? []
  return cohorts.length === 1 || cohorts.includes('all')
}

/**
 * Compares two lines. The larger one comes first; equal ones are ordered by their breakdown values. Missing values and
 * `Other` come last.
 */
export function compareValues(
  a: { readonly value: LineValue; readonly sum: number },
  b: { readonly value: LineValue; readonly sum: number },
  isByNumber: boolean,
): number {
  const byRank = RANKS[a.value.rank] - RANKS[b.value.rank]
  if (byRank !== 0) return byRank
  if (a.sum !== b.sum) return b.sum - a.sum
  for (const [index, text] of a.value.texts.entries()) {
    const other = b.value.texts[index] ?? ''
    if (isByNumber && text !== other) return Number(text) - Number(other)
    if (text !== other) return text < other ? -1 : 1
  }
  return 0
}

/** Returns the sum of numbers. The cost is linear. */
export function sumOf(data: Iterable<number>): number {
  let sum = 0
  for (const number of data) sum += number
  return sum
}

/** Reads the numbers of cells. All results use the same memory. */
export class CellReader {
  readonly #plan: TrendsPlan
  readonly #tally: Tally
  readonly #numberOf: (entry: number) => number
  readonly #data: Float64Array

  constructor(plan: TrendsPlan, measure: Measure, tally: Tally, bucketCount: number) {
    this.#plan = plan
    this.#tally = tally
    this.#numberOf = entryReader(tally, reducerOf(measure))
    this.#data = new Float64Array(bucketCount)
  }

  /** Returns the number of each bucket of a cell. The list is valid until the next call. */
  dataOf(cell: number): Float64Array {
    const data = this.#data.fill(0)
    forEachEntry(this.#tally, cell, (entry, bucket) => {
      data[bucket] = this.#numberOf(entry)
    })
    const { isTotal, isCumulative, smoothing } = this.#plan
    if (isTotal) return data
    if (smoothing > 1) smooth(data, smoothing)
    if (!isCumulative) return data
    let sum = 0
    for (const [bucket, number] of data.entries()) {
      sum += number
      data[bucket] = sum
    }
    return data
  }
}

/** Replaces each number by the mean of itself and up to `count - 1` numbers before it, rounded down. */
function smooth(data: Float64Array, count: number): void {
  for (let bucket = data.length - 1; bucket >= 0; bucket--) {
    const window = data.subarray(Math.max(0, bucket - count + 1), bucket + 1)
    data[bucket] = Math.floor(sumOf(window) / window.length)
  }
}

/** Returns a breakdown value as the answer shows it. */
export function shownValue(value: CellValue): LineValue {
  const rank = value.includes(null) ? 'null' : 'value'
  return { texts: value.map((text) => text ?? NULL_LABEL), rank }
}

function plainLine({
  value,
  data,
}: {
  readonly value: LineValue
  readonly data: Float64Array
}): Line {
  return { value, data: Array.from(data) }
}
