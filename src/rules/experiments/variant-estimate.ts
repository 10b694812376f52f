/**
 * Computes the mean of a metric and its variance from the sums of one variant. Each exposed person counts once. The
 * events of a person are added up before the sums are made.
 */
import { faultOfPersons, finiteOrNot, type NotEnoughData, notEnough } from './not-enough-data.ts'

/** The number of exposed persons of a variant, and how many of them converted. */
export interface ProportionSample {
  readonly persons: number
  readonly converted: number
}

/**
 * The values of the exposed persons of a variant: the number of persons, the sum of their values and the sum of the
 * squares.
 */
export interface MeanSample {
  readonly persons: number
  readonly sum: number
  readonly squares: number
}

/**
 * Two values for each exposed person, for a metric that divides their sums, such as clicks per session. `products` is
 * the sum over all persons of one value times the other.
 */
export interface RatioSample {
  readonly persons: number
  readonly numeratorSum: number
  readonly numeratorSquares: number
  readonly denominatorSum: number
  readonly denominatorSquares: number
  readonly products: number
}

/**
 * The estimate of a metric for one variant. `variance` is the variance of the values of single persons. The variance of
 * the mean is `variance / persons`.
 */
export interface VariantEstimate {
  readonly persons: number
  readonly mean: number
  readonly variance: number
}

/** An estimate, or the reason why there is none. Undefined means that the variant has no data at all. */
export type MaybeEstimate = VariantEstimate | NotEnoughData | undefined

/**
 * A mean is used as a divisor only if it is at least this many standard errors away from zero. Closer to zero, the
 * delta method does not describe the distribution of the ratio.
 */
const DIVISOR_STANDARD_ERRORS_MIN = 3

/**
 * A variance that is less than this share of the sum of squares may consist of rounding errors only, so it counts as no
 * variance. Sums of squares have at most 16 correct digits, and additions of many values cost some of them.
 */
const VARIANCE_RESOLUTION = 1e-10

/** Returns the sum of the products of two variables after their means are subtracted: Σxy − ΣxΣy/n. */
function centered(products: number, sumX: number, sumY: number, persons: number): number {
  return products - (sumX / persons) * sumY
}

/**
 * Returns the sample covariance from sums, `(Σxy − ΣxΣy/n) / (n − 1)`. Source: NIST/SEMATECH e-Handbook of Statistical
 * Methods, section 6.5.4.1, Mean Vector and Covariance Matrix.
 */
export function covarianceOf(
  products: number,
  sumX: number,
  sumY: number,
  persons: number,
): number {
  return centered(products, sumX, sumY, persons) / (persons - 1)
}

/** Returns the sample variance from sums, or the reason why it cannot be computed. */
export function varianceOf(squares: number, sum: number, persons: number): number | NotEnoughData {
  if (!Number.isFinite(squares) || !Number.isFinite(sum)) return notEnough('invalid_input')
  const rest = centered(squares, sum, sum, persons)
  const rounding = squares * VARIANCE_RESOLUTION
  if (squares < 0 || rest < -rounding) return notEnough('invalid_input')
  if (!(rest > rounding)) return notEnough('no_variance')
  return rest / (persons - 1)
}

/** Returns whether a mean is far enough from zero to be a divisor. */
function isDivisor({ persons, mean, variance }: VariantEstimate): boolean {
  const distance = DIVISOR_STANDARD_ERRORS_MIN * Math.sqrt(variance / persons)
  return mean !== 0 && Math.abs(mean) >= distance
}

/** Estimates the share of persons who converted. The variance is computed as for the mean of zeros and ones. */
export function estimateProportion(sample: ProportionSample | undefined): MaybeEstimate {
  if (sample === undefined) return notEnough('missing_variant')
  const { persons, converted } = sample
  const fault = faultOfPersons(persons)
  if (fault !== null) return fault
  if (!Number.isInteger(converted) || converted < 0 || converted > persons) {
    return notEnough('invalid_input')
  }
  if (converted === 0 || converted === persons) return notEnough('no_variance')
  const mean = converted / persons
  const variance = (mean * (1 - mean) * persons) / (persons - 1)
  return { persons, mean, variance }
}

/** Estimates the mean of the values of persons. */
export function estimateMean(sample: MeanSample | undefined): MaybeEstimate {
  if (sample === undefined) return notEnough('missing_variant')
  const { persons, sum, squares } = sample
  const fault = faultOfPersons(persons)
  if (fault !== null) return fault
  const variance = varianceOf(squares, sum, persons)
  if (typeof variance === 'object') return variance
  return finiteOrNot({ persons, mean: sum / persons, variance })
}

/**
 * Estimates the ratio of two sums over persons by the delta method: the variance of the ratio R of two means equals the
 * variance of the mean of (numerator − R · denominator) / (mean of the denominators). Source: A. Deng, U. Knoblich and
 * J. Lu, 2018, Applying the Delta Method in Metric Analytics: A Practical Guide with Novel Ideas, KDD.
 */
export function estimateRatio(sample: RatioSample | undefined): MaybeEstimate {
  if (sample === undefined) return notEnough('missing_variant')
  const { persons, numeratorSum, numeratorSquares, denominatorSum, denominatorSquares } = sample
  const fault = faultOfPersons(persons)
  if (fault !== null) return fault
  if (!Number.isFinite(sample.products)) return notEnough('invalid_input')
  if (denominatorSum === 0) return notEnough('zero_baseline')
  const ofNumerator = varianceOf(numeratorSquares, numeratorSum, persons)
  if (typeof ofNumerator === 'object' && ofNumerator.notEnoughData !== 'no_variance')
    return ofNumerator
  const ofDenominator = varianceOf(denominatorSquares, denominatorSum, persons)
  if (typeof ofDenominator === 'object' && ofDenominator.notEnoughData !== 'no_variance') {
    return ofDenominator
  }
  const mean = numeratorSum / denominatorSum
  // The mean of (numerator − R · denominator) over all persons is zero, so the sum of the squares is also the sum of
  // the squared distances from the mean.
  const squares = numeratorSquares - 2 * mean * sample.products + mean * mean * denominatorSquares
  const largest = numeratorSquares + mean * mean * denominatorSquares
  if (squares < -largest * VARIANCE_RESOLUTION) return notEnough('invalid_input')
  if (!(squares > largest * VARIANCE_RESOLUTION)) return notEnough('no_variance')
  const ofDenominators = typeof ofDenominator === 'object' ? 0 : ofDenominator
  if (!isDivisor({ persons, mean: denominatorSum / persons, variance: ofDenominators })) {
    return notEnough('zero_baseline')
  }
  const perDenominator = persons / denominatorSum
  const variance = (squares / (persons - 1)) * perDenominator * perDenominator
  return finiteOrNot({ persons, mean, variance })
}
