/**
 * Intervals, p-values and bounds that stay valid however often somebody looks at them, and whenever somebody stops
 * because of them.
 *
 * Source of all formulas: I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and A. Ramdas, 2024, Time-uniform central
 * limit theory and asymptotic confidence sequences, Annals of Statistics 52. Preprint: arXiv:2103.06476. With t persons
 * of both variants, the variance of one person is t times the squared standard error of the difference, so the
 * boundaries in standard errors depend on x = t ρ² alone. A ratio is compared by the difference of treatment − ratio ·
 * control, so its interval is valid whenever that of a difference is.
 */
import { type Contrast, faultOfContrast, intervalOf } from './contrast.ts'
import {
  finiteOrNot,
  isShare,
  lacksData,
  type NotEnoughData,
  notEnough,
} from './not-enough-data.ts'

/** What is decided before the first look. */
export interface AlwaysValidOptions {
  /** The probability of a false statement in all looks together, such as 0.05. */
  readonly alpha: number
  /** The exposed persons of both variants for which the interval shall be narrowest: the planned end. */
  readonly horizonPersons: number
}

/** A confidence sequence at one look. */
export interface ConfidenceSequence {
  readonly estimate: number
  readonly low: number
  readonly high: number
  /** At most alpha if and only if zero is not inside the interval. Its minimum over all looks is valid, too. */
  readonly pValue: number
}

/** Which changes a guard is about. */
export interface Guard {
  /** The direction in which the metric is worse. */
  readonly worse: 'lower' | 'higher'
  /** The largest change for the worse that is accepted, at least 0, in the unit of the contrast: 0.02 is a lift of 2 %. */
  readonly tolerance: number
}

/** The answer of a guard at one look. */
export interface GuardBound {
  readonly estimate: number
  /** The true change is at most (`lower`) or at least (`higher`) this. */
  readonly bound: number
  /** True: the metric is worse than tolerated. */
  readonly isWorse: boolean
}

/** Alphas up to 0.3 need fewer than half of these. */
const NARROWEST_STEPS = 40

/**
 * The value x = t ρ² at which the interval is narrowest: the zero of its derivative, `x = log((x + 1) / α²)`. The
 * paper gives the first step of this iteration, each step of which gains about a digit.
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
 * The half width of the interval at the horizon, in standard errors. A plan replaces the quantile of the normal
 * distribution by this number. At the narrowest point of the interval, the logarithm equals x.
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
 * Returns the two-sided interval and its p-value, for a contrast or the reason why there is none.
 * The true value is inside the intervals of all looks with probability 1 − alpha, as long as the first looks come after
 * some hundred persons.
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
 * Returns the one-sided bound and whether the metric is worse than tolerated. With a change that is
 * within the tolerance, `isWorse` is ever true with probability alpha at most.
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
  // One tail of alpha is nearly one of two tails of 2 alpha together.
  const x = narrowestAt(Math.min(2 * alpha, 0.99)) * (persons / horizonPersons)
  const tail = Math.log1p(Math.sqrt(x + 1) / (2 * alpha))
  const interval = intervalOf(contrast as Contrast, Math.sqrt(((2 * (x + 1)) / x) * tail))
  if (lacksData(interval)) return interval
  const bound = worse === 'lower' ? interval.high : interval.low
  const isWorse = worse === 'lower' ? bound < -tolerance : bound > tolerance
  return finiteOrNot({ estimate, bound, isWorse })
}
