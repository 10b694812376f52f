/** How many persons an experiment needs, which change it can find, and how long it will take. */
import { boundaryAtHorizon } from './always-valid.ts'
import { normalTailQuantile } from './distributions.ts'
import { VARIANT_PERSONS_MAX } from './limits.ts'
import { finiteOrNot, isShare, type NotEnoughData, notEnough } from './not-enough-data.ts'

/** The parts of a plan that do not depend on the metric. */
export interface Design {
  /** The probability of a false statement, such as 0.05. */
  readonly alpha: number
  /** The probability to find the change if it exists, such as 0.8. */
  readonly power: number
  /** The share of the exposed persons who get the treatment; the others get the control. */
  readonly treatmentShare: number
  /** `fixed`: a single look at the end. `always_valid`: any number of looks, with the planned size as the horizon. */
  readonly looks: 'fixed' | 'always_valid'
}

/** A mean metric before the experiment: the mean and the variance of one person. */
export interface Baseline {
  readonly mean: number
  readonly variance: number
}

/** The size of an experiment, in exposed persons of both variants. */
export interface NeededPersons {
  readonly persons: number
}

/** The smallest change that an experiment finds with its planned power. */
export interface DetectableChange {
  readonly difference: number
  /** Relative to the mean of the baseline. */
  readonly lift: number
}

/** The days until a size is reached. */
export interface DaysLeft {
  readonly days: number
}

/** Returns the persons that are needed to find a relative change of a conversion rate: 0.1 means from 5 % to 5.5 %. */
export function personsForProportion(
  rate: number,
  lift: number,
  design: Design,
): NeededPersons | NotEnoughData {
  const changed = rate * (1 + lift)
  if (!isShare(rate) || !isShare(changed)) return notEnough('invalid_input')
  return neededPersons(rate * (1 - rate), changed * (1 - changed), rate * lift, design)
}

/** Returns the persons that are needed to find a relative change of a mean. */
export function personsForMean(
  { mean, variance }: Baseline,
  lift: number,
  design: Design,
): NeededPersons | NotEnoughData {
  if (mean === 0) return notEnough('zero_baseline')
  return neededPersons(variance, variance, mean * lift, design)
}

/**
 * Source: NIST/SEMATECH e-Handbook of Statistical Methods, section 7.2.2.2, Sample sizes required: the difference must
 * be as many standard errors as the quantiles of alpha and power together. With always-valid looks, the boundary at the
 * horizon replaces the quantile of alpha. A difference that is found earlier adds to the power.
 */
function neededPersons(
  ofControl: number,
  ofTreatment: number,
  difference: number,
  design: Design,
): NeededPersons | NotEnoughData {
  const quantiles = quantilesOf(design)
  if (typeof quantiles === 'object') return quantiles
  if (!Number.isFinite(difference) || difference === 0) return notEnough('invalid_input')
  const variance = varianceOfOne(ofControl, ofTreatment, design)
  if (typeof variance === 'object') return variance
  const root = quantiles / difference
  const persons = Math.ceil(variance * root * root)
  return persons <= 2 * VARIANT_PERSONS_MAX ? { persons } : notEnough('invalid_input')
}

/**
 * Returns the minimum detectable effect for a number of exposed persons of both variants. Source: as `neededPersons`,
 * solved for the difference.
 */
export function detectableChange(
  { mean, variance }: Baseline,
  persons: number,
  design: Design,
): DetectableChange | NotEnoughData {
  const quantiles = quantilesOf(design)
  if (typeof quantiles === 'object') return quantiles
  if (persons === 0) return notEnough('no_exposures')
  if (persons === 1) return notEnough('one_person')
  if (mean === 0) return notEnough('zero_baseline')
  if (!(persons > 0)) return notEnough('invalid_input')
  const ofOne = varianceOfOne(variance, variance, design)
  if (typeof ofOne === 'object') return ofOne
  const difference = quantiles * Math.sqrt(ofOne / persons)
  return finiteOrNot({ difference, lift: difference / Math.abs(mean) })
}

/** Returns whole days until `needed` persons are exposed, with `personsPerDay` new persons a day: 0 if they already are. */
export function daysLeft(
  needed: number,
  exposed: number,
  personsPerDay: number,
): DaysLeft | NotEnoughData {
  const isValid = [needed, exposed, personsPerDay].every(
    (value) => value >= 0 && value < Number.POSITIVE_INFINITY,
  )
  if (!isValid) return notEnough('invalid_input')
  if (exposed >= needed) return finiteOrNot({ days: 0 })
  if (personsPerDay === 0) return notEnough('no_exposures')
  return finiteOrNot({ days: Math.ceil((needed - exposed) / personsPerDay) })
}

/** The variance of the difference, times the persons of both variants. */
function varianceOfOne(
  ofControl: number,
  ofTreatment: number,
  { treatmentShare }: Design,
): number | NotEnoughData {
  if (!(ofControl >= 0 && ofTreatment >= 0)) return notEnough('invalid_input')
  if (ofControl === 0 || ofTreatment === 0) return notEnough('no_variance')
  const variance = ofControl / (1 - treatmentShare) + ofTreatment / treatmentShare
  return Number.isFinite(variance) ? variance : notEnough('invalid_input')
}

/** The standard errors by which a difference must exceed zero. */
function quantilesOf({ alpha, power, treatmentShare, looks }: Design): number | NotEnoughData {
  if (!isShare(alpha) || !isShare(power) || !isShare(treatmentShare)) {
    return notEnough('invalid_input')
  }
  const ofAlpha = looks === 'fixed' ? normalTailQuantile(alpha / 2) : boundaryAtHorizon(alpha)
  const sum = ofAlpha + normalTailQuantile(1 - power)
  // A power below alpha needs no persons at all.
  return sum > 0 ? sum : notEnough('invalid_input')
}
