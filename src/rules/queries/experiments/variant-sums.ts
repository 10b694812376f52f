/**
 * Adds up the rows of the persons of each variant: the counts and sums that statistics are computed from. Source:
 * docs/EXPERIMENTS.md, "What counts".
 */
import { lacksData } from '../../experiments/not-enough-data.ts'
import { type WinsorBounds, winsorBounds } from '../../experiments/winsorise.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import type { MetricPlan, OutlierPlan } from './experiment-plan.ts'
import { SEVERAL_VARIANTS } from './exposed-persons.ts'
import { NOT_STARTED, RETURNED } from './metric-steps.ts'
import type { Numbers, PersonRows } from './person-rows.ts'

/** The sums of one variant for one metric. */
export interface VariantSums {
  readonly key: string
  /** The persons who count: all exposed ones or, for retention, those with a start event. */
  readonly persons: number
  readonly sum: number
  readonly squares: number
  /** The second value of each person: the denominator of a ratio, or the value of the period before. */
  readonly second: SecondSums | null
  /** For a funnel: the persons who did at least the first step, the first two steps, and so on. */
  readonly stepCounts: readonly number[] | null
}

/** The sums of a second value. */
export interface SecondSums {
  readonly sum: number
  readonly squares: number
  /** The sum of the products of both values. */
  readonly products: number
}

/** The sums of a metric, in the order of the variants. */
export interface MetricSums {
  readonly variants: readonly VariantSums[]
  /** For each source of values: where values were cut off, or null. */
  readonly bounds: readonly (WinsorBounds | null)[]
}

/** The number of the variant of each row, from 0, or -1 for persons who do not count. */
export function variantsOfRows({ variants }: PersonRows, isFirstSeen: boolean): Int8Array {
  return Int8Array.from(variants, (variant) => {
    if ((variant & SEVERAL_VARIANTS) !== 0 && !isFirstSeen) return -1
    return (variant & ~SEVERAL_VARIANTS) - 1
  })
}

/** Returns the number of persons who saw several variants. */
export function personsOfSeveral({ variants }: PersonRows): number {
  let count = 0
  for (const variant of variants) if ((variant & SEVERAL_VARIANTS) !== 0) count++
  return count
}

/** Returns the number of persons of each variant. `numbers` are those of `variantsOfRows`. */
export function personsOfVariants(numbers: Int8Array, variantCount: number): Float64Array {
  const counts = new Float64Array(variantCount)
  for (const number of numbers) if (number >= 0) counts[number] = (counts[number] ?? 0) + 1
  return counts
}

/**
 * Adds up a metric. `columns` are its columns, `numbers` the variants of the rows, and `keys` the keys of the variants.
 * Throws as `EventScanner.checkLimits`.
 */
export function metricSums(
  metric: MetricPlan,
  columns: readonly Numbers[],
  numbers: Int8Array,
  keys: readonly string[],
  limits: QueryLimits,
): MetricSums {
  new PacedLimits(limits).count(numbers.length)
  const [first, second] = columns
  const { counted } = metric
  if (first === undefined) return { variants: [], bounds: [] }
  if (counted.of === 'returns') {
    const counts = (row: number): boolean => first[row] !== NOT_STARTED
    const sums = addUp(keys, numbers, (row) => (first[row] === RETURNED ? 1 : 0), null, counts)
    return { variants: sums, bounds: [] }
  }
  if (counted.of === 'steps') {
    const last = counted.steps.length
    const numberOf = (row: number): number => ((first[row] ?? 0) >= last ? 1 : 0)
    const sums = addUp(keys, numbers, numberOf, second ?? null)
    const steps = stepCounts(first, numbers, keys.length, last)
    const variants = sums.map((sum, variant) => withSteps(sum, steps[variant] ?? []))
    return { variants, bounds: [] }
  }
  const { threshold } = metric
  if (threshold !== null) {
    const numberOf = (row: number): number => ((first[row] ?? 0) >= threshold ? 1 : 0)
    const secondOf = second?.map((value) => (value >= threshold ? 1 : 0)) ?? null
    return { variants: addUp(keys, numbers, numberOf, secondOf), bounds: [null] }
  }
  const bounds = metric.outliers.map((outlier, index) => {
    const column = columns[index]
    return column === undefined ? null : boundsOf(column, numbers, outlier)
  })
  const numberOf = bounded(first, bounds[0] ?? null)
  // The period before is not cut off: only a ratio has bounds for its second column.
  const secondOf = second === undefined ? null : bounded(second, bounds[1] ?? null)
  return { variants: addUp(keys, numbers, numberOf, secondOf), bounds }
}

type ValueOf = (row: number) => number

function bounded(column: Numbers, bounds: WinsorBounds | null): ValueOf {
  if (bounds === null) return (row) => column[row] ?? 0
  const { low, high } = bounds
  return (row) => Math.min(high, Math.max(low, column[row] ?? 0))
}

/** Null if nothing is cut off, also because there are too few persons to say where. */
function boundsOf(
  column: Numbers,
  numbers: Int8Array,
  { low, high, ignoresZeros }: OutlierPlan,
): WinsorBounds | null {
  if (low === null && high === null) return null
  const values = Float64Array.from(column).filter((_, row) => (numbers[row] ?? -1) >= 0)
  const lowest = low === null ? Number.NEGATIVE_INFINITY : boundAt(values, low, 'low')
  // Zeros never count for the lower bound, or it would lift the persons who did nothing.
  const highValues = ignoresZeros ? values.filter((value) => value !== 0) : values
  const highest = high === null ? Number.POSITIVE_INFINITY : boundAt(highValues, high, 'high')
  if (lowest === null || highest === null || lowest > highest) return null
  return { low: lowest, high: highest }
}

function boundAt(values: Float64Array, share: number, side: 'low' | 'high'): number | null {
  // A share at the edge bounds nothing; the rule needs a lower and a higher one.
  if (side === 'low' && share === 1) return null
  if (side === 'high' && share === 0) return null
  const shares = side === 'low' ? { low: share, high: 1 } : { low: 0, high: share }
  const bounds = winsorBounds(values, shares)
  return lacksData(bounds) ? null : bounds[side]
}

function addUp(
  keys: readonly string[],
  numbers: Int8Array,
  numberOf: ValueOf,
  second: ValueOf | Numbers | null,
  doesCount: (row: number) => boolean = () => true,
): readonly VariantSums[] {
  const secondOf: ValueOf | null =
    second === null || typeof second === 'function' ? second : (row) => second[row] ?? 0
  const size = keys.length
  const counts = new Float64Array(size)
  const [sums, squares] = [new ExactSums(size), new ExactSums(size)]
  const [secondSums, secondSquares] = [new ExactSums(size), new ExactSums(size)]
  const products = new ExactSums(size)
  for (let row = 0; row < numbers.length; row++) {
    const variant = numbers[row] ?? -1
    if (variant < 0 || !doesCount(row)) continue
    const value = numberOf(row)
    counts[variant] = (counts[variant] ?? 0) + 1
    sums.add(variant, value)
    squares.add(variant, value * value)
    if (secondOf === null) continue
    const other = secondOf(row)
    secondSums.add(variant, other)
    secondSquares.add(variant, other * other)
    products.add(variant, value * other)
  }
  return keys.map((key, variant) => {
    const ofSecond = {
      sum: secondSums.of(variant),
      squares: secondSquares.of(variant),
      products: products.of(variant),
    }
    return {
      key,
      persons: counts[variant] ?? 0,
      sum: sums.of(variant),
      squares: squares.of(variant),
      second: secondOf === null ? null : ofSecond,
      stepCounts: null,
    }
  })
}

function withSteps(sums: VariantSums, stepCounts: readonly number[]): VariantSums {
  return { ...sums, stepCounts }
}

function stepCounts(
  reached: Numbers,
  numbers: Int8Array,
  variantCount: number,
  stepCount: number,
): readonly (readonly number[])[] {
  const counts = Array.from({ length: variantCount }, () => new Array<number>(stepCount).fill(0))
  for (let row = 0; row < numbers.length; row++) {
    const own = counts[numbers[row] ?? -1]
    if (own === undefined) continue
    const steps = reached[row] ?? 0
    for (let step = 0; step < steps; step++) own[step] = (own[step] ?? 0) + 1
  }
  return counts
}

/**
 * Sums whose rounding errors are added up beside them, so that they do not depend on the order of the rows. Source: A.
 * Neumaier, 1974, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, ZAMM 54.
 */
class ExactSums {
  readonly #sums: Float64Array
  readonly #errors: Float64Array

  constructor(size: number) {
    this.#sums = new Float64Array(size)
    this.#errors = new Float64Array(size)
  }

  add(index: number, value: number): void {
    const sum = this.#sums[index] ?? 0
    const next = sum + value
    const error = Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
    this.#sums[index] = next
    this.#errors[index] = (this.#errors[index] ?? 0) + error
  }

  /** Returns a sum, which may be infinite. */
  of(index: number): number {
    const sum = this.#sums[index] ?? 0
    return Number.isFinite(sum) ? sum + (this.#errors[index] ?? 0) : sum
  }
}
