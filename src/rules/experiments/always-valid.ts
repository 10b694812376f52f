/**
 * Intervals, p-values and bounds that stay valid however often a person looks at them, even if the person stops the
 * experiment because of the results. A look is one computation of the results that somebody sees.
 *
 * With t persons in both variants together, the sum of the differences is close to a Wiener process with drift. An
 * interval must have a boundary that a Wiener process without drift crosses, at any time, with a probability of at most
 * alpha. It is then valid at all looks. Source: I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and A. Ramdas,
 * 2024, Time-uniform central limit theory and asymptotic confidence sequences, Annals of Statistics 52. Preprint:
 * arXiv:2103.06476.
 *
 * Such boundaries come from mixtures of likelihood ratios. For a drift θ and the value w of the process at the time t,
 * the ratio exp(θ w − θ² t / 2) is a martingale if the true drift is zero. Each mixture of such ratios for several
 * values of θ is a martingale, too. A nonnegative martingale that starts with 1 ever reaches 1 / alpha with a
 * probability of at most alpha (Ville's inequality). Source: H. Robbins, 1970, Statistical Methods Related to the Law
 * of the Iterated Logarithm, Annals of Mathematical Statistics 41. `logEvidence` contains the mixture of the two-sided
 * interval, and `guardBound` the mixture of a guard.
 *
 * All boundaries are in standard errors. They depend only on x = t ρ², where the constant ρ² is chosen so that the
 * interval or bound is narrowest at the horizon. The interval of a ratio is made from the differences treatment − ratio
 * · control, so it is valid whenever the interval of a difference is valid.
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
   * The number of exposed persons of both variants at which the interval is narrowest, measured in standard errors. It
   * should be the planned number at the end.
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

/**
 * The weight of the planned change in the mixture. The planned change is the smallest change that is found at the
 * horizon if the estimate is exact. This part of the mixture makes the interval narrow near the horizon.
 */
const PLANNED_WEIGHT = 0.9
/**
 * The rest of the mixture assumes normally distributed changes. This constant is their standard deviation, as a
 * multiple of the planned change. The rest finds large changes early, and makes the interval shrink towards zero width
 * after the horizon.
 */
const OTHER_SPREAD = 2
/** The maximum number of steps of Newton's method below. Ten are enough for each alpha and each number of persons. */
const BOUNDARY_STEPS = 50
/** After a step of this relative size, the next step would not be larger than rounding errors. */
const BOUNDARY_RESOLUTION = 1e-9

/**
 * Returns the value x = t ρ² at the horizon, at which the boundary of the planned change alone, (log(2 / α) + x / 2) /
 * √x, is narrowest. At this x, the boundary of the whole mixture is less than 0.002 % above its own minimum if alpha is
 * at most 0.5.
 */
function valueAtHorizon(alpha: number): number {
  return 2 * Math.log(2 / alpha)
}

/**
 * Returns the logarithm of the evidence against "no change": the mixture of likelihood ratios for a Wiener process that
 * is `y` away from zero at the time x. The planned change is a drift of 1 or −1, with equal shares: exp(−x / 2) cosh(y).
 * The other changes are normally distributed, with variance s²: exp(y² s² / (2 (1 + s² x))) / √(1 + s² x). Also returns
 * the derivative with respect to y.
 */
function logEvidence(x: number, y: number): { readonly value: number; readonly slope: number } {
  const variance = OTHER_SPREAD * OTHER_SPREAD
  const growth = 1 + variance * x
  const planned =
    Math.log(PLANNED_WEIGHT / 2) + Math.abs(y) + Math.log1p(Math.exp(-2 * Math.abs(y))) - x / 2
  const other =
    Math.log(1 - PLANNED_WEIGHT) - Math.log(growth) / 2 + (variance * y * y) / (2 * growth)
  const larger = Math.max(planned, other)
  const ofPlanned = Math.exp(planned - larger)
  const ofOther = Math.exp(other - larger)
  const sum = ofPlanned + ofOther
  return {
    value: larger + Math.log(sum),
    slope: (ofPlanned * Math.tanh(y) + (ofOther * variance * y) / growth) / sum,
  }
}

/**
 * Returns the half width of the two-sided interval in standard errors, at the value x = t ρ². It is the y at which the
 * evidence reaches 1 / alpha, divided by √x. Newton's method begins at a larger y, at which one of the two parts of the
 * mixture reaches 1 / alpha on its own. The logarithm of the evidence is a convex function of y, so the method
 * approaches the solution from above and never goes beyond it.
 */
function boundaryAt(x: number, alpha: number): number {
  const wanted = -Math.log(alpha)
  const variance = OTHER_SPREAD * OTHER_SPREAD
  const growth = 1 + variance * x
  const enoughPlanned = x / 2 + wanted + Math.log(2 / PLANNED_WEIGHT)
  const enoughOther = wanted - Math.log(1 - PLANNED_WEIGHT) + Math.log(growth) / 2
  let y = Math.min(enoughPlanned, Math.sqrt((2 * growth * enoughOther) / variance))
  for (let step = 0; step < BOUNDARY_STEPS; step++) {
    const { value, slope } = logEvidence(x, y)
    const next = y - (value - wanted) / slope
    if (Math.abs(next - y) <= BOUNDARY_RESOLUTION * y) return next / Math.sqrt(x)
    y = next
  }
  return y / Math.sqrt(x)
}

/**
 * Returns the half width of the interval at the horizon, in standard errors. The planning of an experiment uses it in
 * place of the quantile of the normal distribution.
 */
export function boundaryAtHorizon(alpha: number): number {
  return boundaryAt(valueAtHorizon(alpha), alpha)
}

/** The maximum number of steps of the iteration below. An alpha of at most 0.3 needs fewer than half of them. */
const NARROWEST_STEPS = 40

/**
 * Returns the value x = t ρ² at which the bound of a guard is narrowest. It is the zero of the derivative, `x = log((x +
 * 1) / α²)`, and is found by iteration. Each step gains about one digit.
 */
function guardNarrowestAt(alpha: number): number {
  const twoLogs = -2 * Math.log(alpha)
  let x = twoLogs
  for (let step = 0; step < NARROWEST_STEPS; step++) {
    const next = twoLogs + Math.log1p(x)
    if (next === x) break
    x = next
  }
  return x
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
  const x = valueAtHorizon(alpha) * (persons / horizonPersons)
  const interval = intervalOf(contrast as Contrast, boundaryAt(x, alpha))
  if (lacksData(interval)) return interval
  const pValue = Math.min(1, Math.exp(-logEvidence(x, z * Math.sqrt(x)).value))
  return finiteOrNot({ estimate, low: interval.low, high: interval.high, pValue })
}

/**
 * Returns the one-sided bound, and whether the metric is worse than tolerated. If the true change is within the
 * tolerance, the probability that `isWorse` is ever true is at most alpha. The mixture is normal, as in the paper of
 * Waudby-Smith and others: a guard must find losses of any size, and long before the horizon.
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
  const x = guardNarrowestAt(Math.min(2 * alpha, 0.99)) * (persons / horizonPersons)
  const tail = Math.log1p(Math.sqrt(x + 1) / (2 * alpha))
  const interval = intervalOf(contrast as Contrast, Math.sqrt(((2 * (x + 1)) / x) * tail))
  if (lacksData(interval)) return interval
  const bound = worse === 'lower' ? interval.high : interval.low
  const isWorse = worse === 'lower' ? bound < -tolerance : bound > tolerance
  return finiteOrNot({ estimate, bound, isWorse })
}
