/**
 * Intervals, p-values and bounds that stay valid however often a person looks at them, also if the person stops the
 * experiment because of the results. A look is one computation of the results that somebody sees.
 *
 * Source of all formulas: I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and A. Ramdas, 2024, Time-uniform central
 * limit theory and asymptotic confidence sequences, Annals of Statistics 52. Preprint: arXiv:2103.06476. With t persons
 * in both variants together, the variance for one person is t times the squared standard error of the difference. The
 * boundaries in standard errors therefore depend only on x = t ρ². The interval of a ratio is made from the differences
 * treatment − ratio · control, so it is valid whenever that of a difference is.
 */
import { type Contrast, faultOfContrast, intervalOf } from './contrast.ts'
import {
  finiteOrNot,
  isShare,
  lacksData,
  type NotEnoughData,
  notEnough,
} from './not-enough-data.ts'

/** The values that must be chosen before the first look. */
export interface AlwaysValidOptions {
  /** The probability of a false statement in all looks together, for example 0.05. */
  readonly alpha: number
  /**
   * The number of exposed persons of both variants at which the interval is narrowest. It should be the planned number
   * at the end.
   */
  readonly horizonPersons: number
}

/** The result of one look: an interval of a confidence sequence. */
export interface ConfidenceSequence {
  readonly estimate: number
  readonly low: number
  readonly high: number
  /** At most alpha if and only if zero is outside of the interval. The smallest p-value of all looks is valid, too. */
  readonly pValue: number
}

/** A guard. It warns if a metric changes in the worse direction by more than the tolerance. */
export interface Guard {
  /** The direction in which the metric is worse. */
  readonly worse: 'lower' | 'higher'
  /**
   * The largest change in the worse direction that is accepted, at least 0, in the unit of the contrast. For a relative
   * change, 0.02 means 2 %.
   */
  readonly tolerance: number
}

/** The result of a guard at one look. */
export interface GuardBound {
  readonly estimate: number
  /**
   * A bound of the true change. With `worse: lower` the true change is at most this, with `worse: higher` at least
   * this.
   */
  readonly bound: number
  /** True if the metric is worse by more than the tolerance. */
  readonly isWorse: boolean
}

/** The maximum number of steps of the iteration below. An alpha of at most 0.3 needs fewer than half of them. */
const NARROWEST_STEPS = 40

/**
 * Returns the value x = t ρ² at which the interval is narrowest. It is the zero of the derivative, `x = log((x + 1) /
 * α²)`, and is found by iteration. The paper gives the first step. Each step gains about one digit.
 */
function narrowestAt(alpha: number): number {
  const twoLogs = -2 * Math.log(alpha)
  let x = twoLogs
  for (let step = 0; step < NARROWEST_STEPS; step++) {
    const next = twoLogs + Math.log1p(x)
    if (next === x) break
    x = next
  }
  return x
}

/**
 * Returns the half width of the interval at the horizon, in standard errors. The planning of an experiment uses it in
 * place of the quantile of the normal distribution. Where the interval is narrowest, the logarithm in its formula
 * equals x.
 */
export function boundaryAtHorizon(alpha: number): number {
  return Math.sqrt(narrowestAt(alpha) + 1)
}

function faultOf(
  contrast: Contrast | NotEnoughData,
  { alpha, horizonPersons }: AlwaysValidOptions,
): NotEnoughData | null {
  const isHorizon = Number.isFinite(horizonPersons) && horizonPersons >= 1
  const isValid = isShare(alpha) && isHorizon
  return faultOfContrast(contrast) ?? (isValid ? null : notEnough('invalid_input'))
}

/**
 * Returns the two-sided interval and its p-value, or the reason why there is none. With probability 1 − alpha, the true
 * value is inside of the intervals of all looks, if the first look comes after at least some hundred persons.
 */
export function confidenceSequence(
  contrast: Contrast | NotEnoughData,
  options: AlwaysValidOptions,
): ConfidenceSequence | NotEnoughData {
  const fault = faultOf(contrast, options)
  if (fault !== null) return fault
  const { estimate, z, persons } = contrast as Contrast
  const { alpha, horizonPersons } = options
  const x = narrowestAt(alpha) * (persons / horizonPersons)
  const boundary = Math.sqrt(((x + 1) / x) * Math.log((x + 1) / (alpha * alpha)))
  const interval = intervalOf(contrast as Contrast, boundary)
  if (lacksData(interval)) return interval
  const evidence = Math.exp((-z * z * x) / (2 * (x + 1)))
  const pValue = Math.min(1, Math.sqrt(x + 1) * evidence)
  return finiteOrNot({ estimate, low: interval.low, high: interval.high, pValue })
}

/**
 * Returns the one-sided bound, and whether the metric is worse than tolerated. If the true change is within the
 * tolerance, the probability that `isWorse` is ever true is at most alpha.
 */
export function guardBound(
  contrast: Contrast | NotEnoughData,
  options: AlwaysValidOptions,
  { worse, tolerance }: Guard,
): GuardBound | NotEnoughData {
  const fault = faultOf(contrast, options)
  if (fault !== null) return fault
  if (!(tolerance >= 0 && Number.isFinite(tolerance))) return notEnough('invalid_input')
  const { estimate, persons } = contrast as Contrast
  const { alpha, horizonPersons } = options
  // A one-sided bound with alpha is nearly the same as a two-sided one with 2 alpha.
  const x = narrowestAt(Math.min(2 * alpha, 0.99)) * (persons / horizonPersons)
  const tail = Math.log1p(Math.sqrt(x + 1) / (2 * alpha))
  const interval = intervalOf(contrast as Contrast, Math.sqrt(((2 * (x + 1)) / x) * tail))
  if (lacksData(interval)) return interval
  const bound = worse === 'lower' ? interval.high : interval.low
  const isWorse = worse === 'lower' ? bound < -tolerance : bound > tolerance
  return finiteOrNot({ estimate, bound, isWorse })
}
