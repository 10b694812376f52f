/**
 * Computes lines with a formula: each number is computed from the numbers of all series in the same bucket. Source:
 * docs/compatibility/queries.md, "TrendsQuery".
 */
import { getOrAdd } from '../../../base/maps.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import type { QueryRange } from '../query-range.ts'
import { type Formula, parseFormula } from './formula.ts'
import type { Tally } from './tally.ts'
import {
  addUp,
  CellReader,
  compareValues,
  isOrderGiven,
  type Line,
  type Lines,
  type LineValue,
  otherValue,
  shownValue,
  sumOf,
} from './trend-lines.ts'
import { spanOf } from './trend-spans.ts'
import type { TrendFormula, TrendsPlan } from './trends-plan.ts'

/** A range of the query, and the tally of each series in it. */
export interface RangeTallies {
  readonly range: QueryRange
  readonly tallies: readonly Tally[]
}

/** A breakdown value, and the cell that it has in each tally. */
interface FoundValue {
  readonly value: LineValue
  /**
   * `cells[range][series]` is the cell of the value in a tally. It is undefined if the series does not have the value.
   */
  readonly cells: (number | undefined)[][]
}

interface RankedValue extends FoundValue {
  /**
   * The sum of the formula over all buckets of the requested range. `sumBefore` is the sum over the comparison range.
   */
  readonly sum: number
  readonly sumBefore: number
}

/**
 * Returns the lines of a formula in each range. All series and ranges show the same breakdown values: the values with
 * the largest results of the formula. If each series chose its own values, a value might be missing in one series, and
 * the formula would use 0 for that series. Throws the same errors as `EventScanner.checkLimits`.
 */
export function formulaLines(
  plan: TrendsPlan,
  { text }: TrendFormula,
  ranges: readonly RangeTallies[],
  limits: QueryLimits,
): readonly Lines[] {
  const { breakdown } = plan
  const formula = parseFormula(text, plan.series.length) ?? (() => 0)
  const pace = new PacedLimits(limits)
  const readers = ranges.map((range) => new FormulaReader(plan, formula, range))
  const ranked = Array.from(valuesOf(plan, ranges, pace), ({ value, cells }): RankedValue => {
    const [sum = 0, sumBefore = 0] = readers.map((reader, index) => {
      pace.count(reader.stepsEach)
      return sumOf(reader.dataOf(cells[index] ?? []))
    })
    return { value, cells, sum, sumBefore }
  })
  const isByNumber = (breakdown?.cohorts.length ?? 0) > 0
  ranked.sort((a, b) => {
    pace.count(1)
    const isTie = a.value.rank === b.value.rank && a.sum === b.sum
    return (isTie ? b.sumBefore - a.sumBefore : 0) || compareValues(a, b, isByNumber)
  })
  const isLimited = breakdown !== null && !isOrderGiven(plan)
  const limit = isLimited ? breakdown.limit : ranked.length
  return readers.map((reader, index) => {
    const isHere = ({ cells }: RankedValue) => breakdown === null || cells[index] !== undefined
    const shown = ranked.slice(0, limit).filter(isHere)
    const lines = shown.map(({ value, cells }) => {
      pace.count(reader.stepsEach)
      const data = Array.from(reader.dataOf(cells[index] ?? []))
      return { value, data, sum: sumOf(data) }
    })
    lines.sort((a, b) => compareValues(a, b, isByNumber))
    const others = ranked.slice(limit).filter(isHere)
    const hasOther = others.length > 0
    if (!hasOther || breakdown === null || breakdown.isOtherHidden) return linesOf(lines, hasOther)
    const data = reader.dataOfOthers(
      others.map(({ cells }) => cells[index] ?? []),
      pace,
    )
    const other = { value: otherValue(breakdown), data: Array.from(data) }
    return linesOf([...lines, other], hasOther)
  })
}

function linesOf(lines: readonly Line[], hasOther: boolean): Lines {
  // `hasNullText` is only used for the URLs of single series. Formulas have no URLs.
  return { lines, hasOther, hasNullText: false }
}

/** Returns all breakdown values that occur in any series and range. */
function valuesOf(
  { breakdown }: TrendsPlan,
  ranges: readonly RangeTallies[],
  pace: PacedLimits,
): Iterable<FoundValue> {
  if (breakdown === null) {
    const cells = ranges.map(({ tallies }) => tallies.map(() => 0))
    return [{ value: { texts: [], rank: 'value' }, cells }]
  }
  const found = new Map<string, FoundValue>()
  for (const [rangeIndex, { tallies }] of ranges.entries()) {
    for (const [series, tally] of tallies.entries()) {
      for (const [cell, value] of tally.cells.entries()) {
        pace.count(1)
        const { cells } = getOrAdd(found, JSON.stringify(value), () => ({
          value: shownValue(value),
          cells: [],
        }))
        const own = cells[rangeIndex] ?? []
        own[series] = cell
        cells[rangeIndex] = own
      }
    }
  }
  return found.values()
}

/** Computes the numbers of a formula for each breakdown value. All results use the same memory. */
class FormulaReader {
  /** The number of steps that reading one value costs, for `PacedLimits`. */
  readonly stepsEach: number
  readonly #formula: Formula
  readonly #readers: readonly CellReader[]
  readonly #zeros: Float64Array
  readonly #data: Float64Array

  constructor(plan: TrendsPlan, formula: Formula, { range, tallies }: RangeTallies) {
    const counts = plan.series.map(
      ({ measure }) => spanOf(measure, range, plan.isTotal).bucketCount,
    )
    const bucketCount = Math.max(...counts)
    this.stepsEach = plan.series.length * (1 + bucketCount * plan.smoothing)
    this.#formula = formula
    this.#readers = plan.series.flatMap(({ measure }, series) => {
      const tally = tallies[series]
      return tally === undefined ? [] : [new CellReader(plan, measure, tally, counts[series] ?? 0)]
    })
    this.#zeros = new Float64Array(bucketCount)
    this.#data = new Float64Array(bucketCount)
  }

  /**
   * Returns the results of the formula for one breakdown value, given the cell of the value in each series. The list is
   * valid until the next call.
   */
  dataOf(cells: readonly (number | undefined)[]): Float64Array {
    return this.#combined(
      this.#readers.map((reader, series) => {
        const cell = cells[series]
        return cell === undefined ? this.#zeros : reader.dataOf(cell)
      }),
    )
  }

  /**
   * Adds up the numbers of several breakdown values in each series, and returns the results of the formula for these
   * sums.
   */
  dataOfOthers(others: readonly (readonly (number | undefined)[])[], pace: PacedLimits) {
    const sums = this.#readers.map(() => new Float64Array(this.#zeros.length))
    for (const cells of others) {
      pace.count(this.stepsEach)
      for (const [series, reader] of this.#readers.entries()) {
        const cell = cells[series]
        const sum = sums[series]
        if (cell !== undefined && sum !== undefined) addUp(sum, reader.dataOf(cell))
      }
    }
    return this.#combined(sums)
  }

  #combined(bySeries: readonly Float64Array[]): Float64Array {
    const values = new Array<number>(bySeries.length)
    for (const bucket of this.#data.keys()) {
      for (const [series, data] of bySeries.entries()) values[series] = data[bucket] ?? 0
      this.#data[bucket] = this.#formula(values)
    }
    return this.#data
  }
}
