/**
 * Adds up the rows of the persons of each variant: statistics need only these counts and sums. Source:
 * docs/EXPERIMENTS.md, "What counts".
 */
import { type WinsorBounds, winsorBound } from '../../experiments/winsorize.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import type { MetricPlan, OutlierPlan } from './experiment-plan.ts'
import { SEVERAL_VARIANTS } from './exposed-persons.ts'
import { NOT_STARTED, RETURNED } from './metric-steps.ts'
import type { Numbers, PersonRows } from './person-rows.ts'

/** The sums of one variant for one metric. */
export interface VariantSums {
  readonly key: string
  /** The number of persons who count: all exposed persons or, for retention, those with a start event. */
  readonly persons: number
  readonly sum: number
  readonly squares: number
  /**
   * The sums of a second value of each person: the denominator of a ratio, or the value before the exposure. Null if
   * the metric has none.
   */
  readonly second: SecondSums | null
  /** Only for a funnel: the number of persons who did at least the first step, the first two steps, and so on. */
  readonly stepCounts: readonly number[] | null
}

/** The sums of a second value. */
export interface SecondSums {
  readonly sum: number
  readonly squares: number
  /** The sum of the products of the first and the second value. */
  readonly products: number
}

/** The sums of a metric, in the order of the variants. */
export interface MetricSums {
  readonly variants: readonly VariantSums[]
  /** For each source of values, the bounds at which values were cut off. Null if no value was cut off. */
  readonly bounds: readonly (WinsorBounds | null)[]
}

/**
 * Returns the number of the variant of each row, from 0. It is -1 if the person saw several variants and is left out.
 */
export function variantsOfRows({ variants }: PersonRows, isFirstSeen: boolean): Int8Array {
  const numbers = new Int8Array(variants.length)
  for (let row = 0; row < variants.length; row++) {
    const variant = variants[row] ?? 0
    const isAside = (variant & SEVERAL_VARIANTS) !== 0 && !isFirstSeen
    numbers[row] = isAside ? -1 : (variant & ~SEVERAL_VARIANTS) - 1
  }
  return numbers
}

/** Returns the number of persons who saw several variants. */
export function personsOfSeveral({ variants }: PersonRows): number {
  let count = 0
  for (let row = 0; row < variants.length; row++) {
    if (((variants[row] ?? 0) & SEVERAL_VARIANTS) !== 0) count++
  }
  return count
}

/** Returns the number of persons in each variant. `numbers` is the result of `variantsOfRows`. */
export function personsOfVariants(numbers: Int8Array, variantCount: number): Float64Array {
  const counts = new Float64Array(variantCount)
  for (let row = 0; row < numbers.length; row++) {
    const number = numbers[row] ?? -1
    if (number >= 0) counts[number] = (counts[number] ?? 0) + 1
  }
  return counts
}

/**
 * Adds up a metric. `columns` are the columns of the metric, `numbers` contains the variant of each row, and `keys` are
 * the keys of the variants. Throws the same errors as `EventScanner.checkLimits`.
 */
export function metricSums(
  metric: MetricPlan,
  columns: readonly Numbers[],
  numbers: Int8Array,
  keys: readonly string[],
  limits: QueryLimits,
): MetricSums {
  new PacedLimits(limits).count(numbers.length)
  const [first, second = null] = columns
  const { counted, threshold, outliers } = metric
  if (first === undefined) return { variants: [], bounds: [] }
  if (counted.of === 'returns') {
    const returned = { column: first, least: RETURNED }
    return { variants: countUp(keys, startedOnly(numbers, first), returned, null), bounds: [] }
  }
  if (counted.of === 'steps') {
    const last = counted.steps.length
    const before = second === null ? null : { column: second, least: 1 }
    const sums = countUp(keys, numbers, { column: first, least: last }, before)
    const steps = stepCounts(first, numbers, keys.length, last)
    const variants = sums.map((sum, variant) => withSteps(sum, steps[variant] ?? []))
    return { variants, bounds: [] }
  }
  if (threshold !== null) {
    const before = second === null ? null : { column: second, least: threshold }
    return {
      variants: countUp(keys, numbers, { column: first, least: threshold }, before),
      bounds: [null],
    }
  }
  const bounds = outliers.map((outlier, index) => boundsOf(columns[index], numbers, outlier))
  const [own = null, other = null] = bounds
  const others = second === null ? null : { column: second, bounds: other }
  return { variants: addUp(keys, numbers, { column: first, bounds: own }, others), bounds }
}

function startedOnly(numbers: Int8Array, states: Numbers): Int8Array {
  const started = numbers.slice()
  for (let row = 0; row < started.length; row++) if (states[row] === NOT_STARTED) started[row] = -1
  return started
}

/**
 * Returns the bounds at which the extreme values of a column are cut off. Returns null if nothing is cut off, for
 * example because there are too few persons to compute the bounds.
 */
function boundsOf(
  column: Numbers | undefined,
  numbers: Int8Array,
  { low, high, ignoresZeros }: OutlierPlan,
): WinsorBounds | null {
  if (column === undefined || (low === null && high === null)) return null
  // The lower bound is computed from all values, zeros included. Without the zeros, the bound would raise the values of
  // persons who did nothing.
  const lowest =
    low === null ? Number.NEGATIVE_INFINITY : valueAtShare(valuesOf(column, numbers, false), low)
  const highest =
    high === null
      ? Number.POSITIVE_INFINITY
      : valueAtShare(valuesOf(column, numbers, ignoresZeros), high)
  if (lowest === null || highest === null || lowest > highest) return null
  return { low: lowest, high: highest }
}

/** Returns the values of the persons who are in a variant. */
function valuesOf(column: Numbers, numbers: Int8Array, isWithoutZeros: boolean): Float64Array {
  const values = new Float64Array(column.length)
  let count = 0
  for (let row = 0; row < column.length; row++) {
    const value = column[row] ?? 0
    // The value is always written, without a branch that could not be predicted.
    values[count] = value
    count += (numbers[row] ?? -1) < 0 || (isWithoutZeros && value === 0) ? 0 : 1
  }
  return values.subarray(0, count)
}

function valueAtShare(values: Float64Array, share: number): number | null {
  const value = winsorBound(values, share)
  return typeof value === 'number' ? value : null
}

/** A column whose value counts as 1 if it is at least `least`, and as 0 otherwise. */
interface LimitColumn {
  readonly column: Numbers
  readonly least: number
}

/** Adds up columns of which each value counts as 1 or 0. All sums are then numbers of persons. */
function countUp(
  keys: readonly string[],
  numbers: Int8Array,
  { column, least }: LimitColumn,
  second: LimitColumn | null,
): readonly VariantSums[] {
  const counts = personsOfVariants(numbers, keys.length)
  const ones = new Float64Array(keys.length)
  const others = new Float64Array(keys.length)
  const both = new Float64Array(keys.length)
  for (let row = 0; row < numbers.length; row++) {
    const variant = numbers[row] ?? -1
    if (variant < 0) continue
    const one = (column[row] ?? 0) >= least ? 1 : 0
    ones[variant] = (ones[variant] ?? 0) + one
    if (second === null) continue
    const other = (second.column[row] ?? 0) >= second.least ? 1 : 0
    others[variant] = (others[variant] ?? 0) + other
    both[variant] = (both[variant] ?? 0) + one * other
  }
  return keys.map((key, variant) => {
    const [persons = 0, sum = 0, other = 0] = [counts[variant], ones[variant], others[variant]]
    const seconds = { sum: other, squares: other, products: both[variant] ?? 0 }
    return {
      key,
      persons,
      sum,
      squares: sum,
      second: second === null ? null : seconds,
      stepCounts: null,
    }
  })
}

/** A column, and the bounds at which its values are cut off. */
interface BoundedColumn {
  readonly column: Numbers
  readonly bounds: WinsorBounds | null
}

const NO_BOUNDS = { low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY }

function addUp(
  keys: readonly string[],
  numbers: Int8Array,
  first: BoundedColumn,
  second: BoundedColumn | null,
): readonly VariantSums[] {
  const counts = personsOfVariants(numbers, keys.length)
  const { sums, squares } = momentsOf(numbers, first, keys.length)
  const others = second === null ? null : momentsOf(numbers, second, keys.length)
  const products = second === null ? null : productsOf(numbers, first, second, keys.length)
  return keys.map((key, variant) => {
    const seconds =
      others === null || products === null
        ? null
        : {
            sum: others.sums.of(variant),
            squares: others.squares.of(variant),
            products: products.of(variant),
          }
    return {
      key,
      persons: counts[variant] ?? 0,
      sum: sums.of(variant),
      squares: squares.of(variant),
      second: seconds,
      stepCounts: null,
    }
  })
}

/** Returns the sums of the values, and those of their squares, of each variant. */
function momentsOf(
  numbers: Int8Array,
  { column, bounds }: BoundedColumn,
  size: number,
): { readonly sums: ExactSums; readonly squares: ExactSums } {
  const { low, high } = bounds ?? NO_BOUNDS
  const [sums, squares] = [new ExactSums(size), new ExactSums(size)]
  for (let row = 0; row < numbers.length; row++) {
    const variant = numbers[row] ?? -1
    if (variant < 0) continue
    const value = bounded(column[row] ?? 0, low, high)
    sums.add(variant, value)
    squares.add(variant, value * value)
  }
  return { sums, squares }
}

/** Returns the sums of the products of two values of each person, of each variant. */
function productsOf(
  numbers: Int8Array,
  first: BoundedColumn,
  second: BoundedColumn,
  size: number,
): ExactSums {
  const [own, other] = [first.bounds ?? NO_BOUNDS, second.bounds ?? NO_BOUNDS]
  const products = new ExactSums(size)
  for (let row = 0; row < numbers.length; row++) {
    const variant = numbers[row] ?? -1
    if (variant < 0) continue
    const value = bounded(first.column[row] ?? 0, own.low, own.high)
    products.add(variant, value * bounded(second.column[row] ?? 0, other.low, other.high))
  }
  return products
}

function bounded(value: number, low: number, high: number): number {
  if (value < low) return low
  return value > high ? high : value
}

/**
 * The sums of the values of each variant. The rounding errors are added up separately, so that the sums do not depend
 * on the order of the rows. A sum may be infinite. Source: A. Neumaier, 1974, Rundungsfehleranalyse einiger Verfahren
 * zur Summation endlicher Summen, ZAMM 54.
 */
class ExactSums {
  readonly #sums: Float64Array
  readonly #errors: Float64Array

  constructor(size: number) {
    this.#sums = new Float64Array(size)
    this.#errors = new Float64Array(size)
  }

  add(variant: number, value: number): void {
    const sum = this.#sums[variant] ?? 0
    const next = sum + value
    const error = Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
    this.#sums[variant] = next
    this.#errors[variant] = (this.#errors[variant] ?? 0) + error
  }

  of(variant: number): number {
    const sum = this.#sums[variant] ?? 0
    return Number.isFinite(sum) ? sum + (this.#errors[variant] ?? 0) : sum
  }
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
  const width = stepCount + 1
  /** The number of persons for each variant and each number of steps. */
  const counts = new Float64Array(variantCount * width)
  for (let row = 0; row < numbers.length; row++) {
    const variant = numbers[row] ?? -1
    if (variant < 0) continue
    const place = variant * width + (reached[row] ?? 0)
    counts[place] = (counts[place] ?? 0) + 1
  }
  return Array.from({ length: variantCount }, (_, variant) => {
    const own = Array.from(counts.subarray(variant * width + 1, (variant + 1) * width))
    for (let step = stepCount - 2; step >= 0; step--)
      own[step] = (own[step] ?? 0) + (own[step + 1] ?? 0)
    return own
  })
}
