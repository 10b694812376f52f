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
  const [first, second] = columns
  const { counted } = metric
  if (first === undefined) return { variants: [], bounds: [] }
  if (counted.of === 'returns') {
    const returned = atLeast(first, RETURNED)
    return { variants: addUp(keys, startedOnly(numbers, first), returned, null), bounds: [] }
  }
  if (counted.of === 'steps') {
    const last = counted.steps.length
    const before = second === undefined ? null : new Float64Array(second)
    const sums = addUp(keys, numbers, atLeast(first, last), before)
    const steps = stepCounts(first, numbers, keys.length, last)
    const variants = sums.map((sum, variant) => withSteps(sum, steps[variant] ?? []))
    return { variants, bounds: [] }
  }
  const { threshold, outliers } = metric
  if (threshold !== null) {
    const before = second === undefined ? null : atLeast(second, threshold)
    return { variants: addUp(keys, numbers, atLeast(first, threshold), before), bounds: [null] }
  }
  // Work on copies, because `cutOff` changes the values in place. The column of values before the exposure has no entry
  // in `outliers`, so `cutOff` leaves it unchanged.
  const values = columns.map((column) => new Float64Array(column))
  const bounds = outliers.map((outlier, index) => cutOff(values[index], numbers, outlier))
  const [own = new Float64Array(0), other = null] = values
  return { variants: addUp(keys, numbers, own, other), bounds }
}

/** Returns 1 for each number that is at least `least`, and 0 for the others. */
function atLeast(column: Numbers, least: number): Float64Array {
  const values = new Float64Array(column)
  for (let row = 0; row < values.length; row++) values[row] = (values[row] ?? 0) >= least ? 1 : 0
  return values
}

function startedOnly(numbers: Int8Array, states: Numbers): Int8Array {
  const started = numbers.slice()
  for (let row = 0; row < started.length; row++) if (states[row] === NOT_STARTED) started[row] = -1
  return started
}

/**
 * Cuts off the extreme values of a column, and returns the bounds. Returns null if nothing is cut off, for example
 * because there are too few persons to compute the bounds.
 */
function cutOff(
  column: Float64Array | undefined,
  numbers: Int8Array,
  { low, high, ignoresZeros }: OutlierPlan,
): WinsorBounds | null {
  if (column === undefined || (low === null && high === null)) return null
  const values = valuesOf(column, numbers, false)
  const lowest = low === null ? Number.NEGATIVE_INFINITY : valueAtShare(values, low)
  // The lower bound is computed from all values, zeros included. Without the zeros, the bound would raise the values of
  // persons who did nothing.
  const highValues = ignoresZeros ? valuesOf(column, numbers, true) : values
  const highest = high === null ? Number.POSITIVE_INFINITY : valueAtShare(highValues, high)
  if (lowest === null || highest === null || lowest > highest) return null
  for (let row = 0; row < column.length; row++) {
    const value = column[row] ?? 0
    if (value < lowest) column[row] = lowest
    else if (value > highest) column[row] = highest
  }
  return { low: lowest, high: highest }
}

/** Returns the values of the persons who are in a variant. */
function valuesOf(column: Float64Array, numbers: Int8Array, isWithoutZeros: boolean): Float64Array {
  const values = new Float64Array(column.length)
  let count = 0
  for (let row = 0; row < column.length; row++) {
    const value = column[row] ?? 0
    if ((numbers[row] ?? -1) >= 0 && !(isWithoutZeros && value === 0)) values[count++] = value
  }
  return values.subarray(0, count)
}

function valueAtShare(values: Float64Array, share: number): number | null {
  const value = winsorBound(values, share)
  return typeof value === 'number' ? value : null
}

function addUp(
  keys: readonly string[],
  numbers: Int8Array,
  values: Float64Array,
  others: Float64Array | null,
): readonly VariantSums[] {
  const size = keys.length
  const counts = personsOfVariants(numbers, size)
  const sums = exactSums(numbers, values, null, size)
  const squares = exactSums(numbers, values, values, size)
  const ofOthers =
    others === null
      ? null
      : {
          sums: exactSums(numbers, others, null, size),
          squares: exactSums(numbers, others, others, size),
          products: exactSums(numbers, values, others, size),
        }
  return keys.map((key, variant) => {
    const second =
      ofOthers === null
        ? null
        : {
            sum: ofOthers.sums[variant] ?? 0,
            squares: ofOthers.squares[variant] ?? 0,
            products: ofOthers.products[variant] ?? 0,
          }
    return {
      key,
      persons: counts[variant] ?? 0,
      sum: sums[variant] ?? 0,
      squares: squares[variant] ?? 0,
      second,
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

/**
 * Returns the sum of the values of each variant. If `others` is given, each value is first multiplied by the entry of
 * `others` for the same row. The rounding errors are added up separately, so that the sums do not depend on the order
 * of the rows. A sum may be infinite. Source: A. Neumaier, 1974, Rundungsfehleranalyze einiger Verfahren zur Summation
 * endlicher Summen, ZAMM 54.
 */
function exactSums(
  numbers: Int8Array,
  values: Float64Array,
  others: Float64Array | null,
  size: number,
): Float64Array {
  const sums = new Float64Array(size)
  const errors = new Float64Array(size)
  for (let row = 0; row < numbers.length; row++) {
    const variant = numbers[row] ?? -1
    const own = values[row] ?? 0
    const value = others === null ? own : own * (others[row] ?? 0)
    if (variant < 0 || value === 0) continue
    const sum = sums[variant] ?? 0
    const next = sum + value
    const error = Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
    sums[variant] = next
    errors[variant] = (errors[variant] ?? 0) + error
  }
  for (let variant = 0; variant < size; variant++) {
    const sum = sums[variant] ?? 0
    if (Number.isFinite(sum)) sums[variant] = sum + (errors[variant] ?? 0)
  }
  return sums
}
