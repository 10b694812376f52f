/**
 * From the sums of one variant to the mean of a metric and its variance. The unit is always a person: each exposed
 * person counts once, and events of one person are added up before.
 */
import { faultOfPersons, finiteOrNot, type NotEnoughData, notEnough } from './not-enough-data.ts'

/** Exposed persons of one variant, and those of them who converted. */
export interface ProportionSample {
  readonly persons: number
  readonly converted: number
}

/** A value for each exposed person: the number of persons, the sum of their values and the sum of the squares. */
export interface MeanSample {
  readonly persons: number
  readonly sum: number
  readonly squares: number
}

/**
 * Two values for each exposed person, for a metric that divides their sums, such as clicks per session. `products` is
 * the sum of the products of both values.
 */
export interface RatioSample {
  readonly persons: number
  readonly numeratorSum: number
  readonly numeratorSquares: number
  readonly denominatorSum: number
  readonly denominatorSquares: number
  readonly products: number
}

/** The metric of one variant. `variance` is the variance of one person: that of the mean is `variance / persons`. */
export interface VariantEstimate {
  readonly persons: number
  readonly mean: number
  readonly variance: number
}

/** An estimate, or the reason why there is none. Undefined is a variant without any data. */
export type MaybeEstimate = VariantEstimate | NotEnoughData | undefined

/**
 * A mean must be this many standard errors away from zero before anything is divided by it. With fewer, the delta method
 * is far from the distribution of the ratio.
 */
const DIVISOR_STANDARD_ERRORS_MIN = 3

/** Sums of squares carry some 16 digits. Below this share of the sum of squares, a variance is their rounding error. */
const VARIANCE_RESOLUTION = 1e-10

/** The sum of the products of two variables after their means are subtracted: Σxy − ΣxΣy/n. */
function centred(products: number, sumX: number, sumY: number, persons: number): number {
  return products - (sumX / persons) * sumY
}

/**
 * The sample variance or covariance from sums, `(Σxy − ΣxΣy/n) / (n − 1)`. Source: NIST/SEMATECH e-Handbook of
 * Statistical Methods, section 6.5.4.1, Mean Vector and Covariance Matrix.
 */
export function covarianceOf(
  products: number,
  sumX: number,
  sumY: number,
  persons: number,
): number {
  return centred(products, sumX, sumY, persons) / (persons - 1)
}

/** Returns the variance from sums, or the reason why the sums have none. */
export function varianceOf(squares: number, sum: number, persons: number): number | NotEnoughData {
  if (!Number.isFinite(squares) || !Number.isFinite(sum)) return notEnough('invalid_input')
  const rest = centred(squares, sum, sum, persons)
  const rounding = squares * VARIANCE_RESOLUTION
  if (squares < 0 || rest < -rounding) return notEnough('invalid_input')
  if (!(rest > rounding)) return notEnough('no_variance')
  return rest / (persons - 1)
}

/** Returns true if a mean is far enough from zero to divide by it. */
function isDivisor({ persons, mean, variance }: VariantEstimate): boolean {
  const distance = DIVISOR_STANDARD_ERRORS_MIN * Math.sqrt(variance / persons)
  return mean !== 0 && Math.abs(mean) >= distance
}

/** Estimates the share of persons who converted, with the variance of a mean of zeros and ones. */
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

/** Estimates the mean value of a person. */
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
 * Estimates a ratio of two sums over persons by the delta method. Source: A. Deng, U. Knoblich and J. Lu, 2018,
 * Applying the Delta Method in Metric Analytics: A Practical Guide with Novel Ideas, KDD: the variance of
 * the ratio R of the means is that of the mean of (numerator − R · denominator) / (mean of the denominators).
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
  // The sum of (numerator − R · denominator) is zero, so its squares need no centring.
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
