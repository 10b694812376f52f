/** Replaces extreme values by less extreme ones, so that one large customer does not decide an experiment. */
import { type NotEnoughData, notEnough } from './not-enough-data.ts'
import type { MeanSample } from './variant-estimate.ts'

/** Values below and above are replaced by these. */
export interface WinsorBounds {
  readonly low: number
  readonly high: number
}

/** The shares of the values that stay below and above, such as 0 and 0.99. */
export interface WinsorShares {
  readonly low: number
  readonly high: number
}

/**
 * Returns the bounds for the values of all variants together. Bounds of each variant alone would hide a difference or
 * create one. Source of the quantile: R. J. Hyndman and Y. Fan, 1996, Sample Quantiles in Statistical Packages, The
 * American Statistician 50, definition 7.
 */
export function winsorBounds(
  values: readonly number[] | Float64Array,
  { low, high }: WinsorShares,
): WinsorBounds | NotEnoughData {
  if (!(low >= 0 && low < high && high <= 1)) return notEnough('invalid_input')
  if (values.length === 0) return notEnough('no_exposures')
  if (values.length === 1) return notEnough('one_person')
  const sorted = Float64Array.from(values).sort()
  // Numbers that are not finite are sorted to the ends.
  if (!Number.isFinite(sorted[0]) || !Number.isFinite(sorted.at(-1)))
    return notEnough('invalid_input')
  return { low: quantile(sorted, low), high: quantile(sorted, high) }
}

function quantile(sorted: Float64Array, share: number): number {
  const position = (sorted.length - 1) * share
  const index = Math.floor(position)
  const value = sorted[index] ?? 0
  const next = sorted[index + 1] ?? value
  return value + (position - index) * (next - value)
}

/** Returns the sums of the values of one variant with the extreme ones replaced. */
export function winsorisedSample(
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
