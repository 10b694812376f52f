/** Replaces extreme values by less extreme ones, so that one large customer does not decide an experiment. */
import { selectPlace } from '../analytics/selection.ts'
import { type NotEnoughData, notEnough } from './not-enough-data.ts'
import type { MeanSample } from './variant-estimate.ts'

/** The bounds of values. A lower value is replaced by `low`, and a higher one by `high`. */
export interface WinsorBounds {
  readonly low: number
  readonly high: number
}

/** The percentiles, as shares from 0 to 1, at which values are replaced, such as 0 and 0.99. */
export interface WinsorShares {
  readonly low: number
  readonly high: number
}

/**
 * Returns the bounds for the values of all variants together. Separate bounds for each variant could hide a difference
 * or create one.
 */
export function winsorBounds(
  values: readonly number[] | Float64Array,
  { low, high }: WinsorShares,
): WinsorBounds | NotEnoughData {
  if (!(low >= 0 && low < high && high <= 1)) return notEnough('invalid_input')
  const ordered = Float64Array.from(values)
  const lowest = winsorBound(ordered, low)
  if (typeof lowest === 'object') return lowest
  const highest = winsorBound(ordered, high)
  return typeof highest === 'object' ? highest : { low: lowest, high: highest }
}

/**
 * Returns the value below which a share of the values lies, interpolated between the two nearest values. The order of
 * `values` is changed. The cost is linear. Source: R. J. Hyndman and Y. Fan, 1996, Sample Quantiles in Statistical
 * Packages, The American Statistician 50, definition 7.
 */
export function winsorBound(values: Float64Array, share: number): number | NotEnoughData {
  if (values.length === 0) return notEnough('no_exposures')
  if (values.length === 1) return notEnough('one_person')
  for (let index = 0; index < values.length; index++) {
    if (!Number.isFinite(values[index])) return notEnough('invalid_input')
  }
  const position = (values.length - 1) * share
  const index = Math.floor(position)
  const value = selectPlace(values, index)
  if (position === index) return value
  let next = Number.POSITIVE_INFINITY
  // After `selectPlace`, no value after `index` is smaller than `value`, so the next value in order is the smallest of
  // them.
  for (let place = index + 1; place < values.length; place++) {
    const other = values[place] ?? 0
    if (other < next) next = other
  }
  return value + (position - index) * (next - value)
}

/** Returns the sums of the values of one variant, with values outside of the bounds replaced. */
export function winsorizedSample(
  values: readonly number[] | Float64Array,
  { low, high }: WinsorBounds,
): MeanSample | NotEnoughData {
  if (!Number.isFinite(low) || !Number.isFinite(high) || low > high)
    return notEnough('invalid_input')
  let sum = 0
  let squares = 0
  for (const value of values) {
    const bounded = Math.min(high, Math.max(low, value))
    sum += bounded
    squares += bounded * bounded
  }
  if (!Number.isFinite(squares)) return notEnough('invalid_input')
  return { persons: values.length, sum, squares }
}
