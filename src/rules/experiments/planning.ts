/** Plans an experiment: how many persons it needs, which change it can find, and how long it will take. */
import { boundaryAtHorizon } from './always-valid.ts'
import { normalTailQuantile } from './distributions.ts'
import { VARIANT_PERSONS_MAX } from './limits.ts'
import { finiteOrNot, isShare, type NotEnoughData, notEnough } from './not-enough-data.ts'

/** The decisions of a plan that do not depend on the metric. */
export interface Design {
  /** The probability of a false statement, for example 0.05. */
  readonly alpha: number
  /** The probability of finding the change if it exists, for example 0.8. */
  readonly power: number
  /** The share of the exposed persons who get the treatment. The others get the control. */
  readonly treatmentShare: number
  /**
   * `fixed` means that the results are checked once, at the end. `always_valid` means that they may be checked at any
   * time. The intervals are then narrowest at the planned number of persons.
   */
  readonly looks: 'fixed' | 'always_valid'
}

/** A metric before the experiment: the mean and the variance of the values of persons. */
export interface Baseline {
  readonly mean: number
  readonly variance: number
}

/** The number of exposed persons of both variants together that an experiment needs. */
export interface NeededPersons {
  readonly persons: number
}

/** The smallest change that an experiment finds with the planned power. */
export interface DetectableChange {
  readonly difference: number
  /** The change divided by the absolute value of the mean of the baseline. */
  readonly lift: number
}

/** The number of days until an experiment has enough persons. */
export interface DaysLeft {
  readonly days: number
}

/**
 * Returns the number of persons that are needed to find a relative change of a conversion rate. A `lift` of 0.1 means a
 * change from 5 % to 5.5 %.
 */
export function personsForProportion(
  rate: number,
  lift: number,
  design: Design,
): NeededPersons | NotEnoughData {
  const changed = rate * (1 + lift)
  if (!isShare(rate) || !isShare(changed)) return notEnough('invalid_input')
  return neededPersons(rate * (1 - rate), changed * (1 - changed), rate * lift, design)
}

/** Returns the number of persons that are needed to find a relative change of a mean. */
export function personsForMean(
  { mean, variance }: Baseline,
  lift: number,
  design: Design,
): NeededPersons | NotEnoughData {
  if (mean === 0) return notEnough('zero_baseline')
  return neededPersons(variance, variance, mean * lift, design)
}

/**
 * Returns the number of persons that are needed to find a difference. The difference must be as many standard errors as
 * the sum of the quantiles of alpha and power. With always-valid looks, the boundary at the horizon replaces the
 * quantile of alpha. The true power is then higher, because a difference may also be found earlier. Source:
 * NIST/SEMATECH e-Handbook of Statistical Methods, section 7.2.2.2, Sample sizes required.
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
 * Returns the smallest change that can be found with a number of exposed persons of both variants together. It is the
 * formula of `neededPersons`, solved for the difference.
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

/**
 * Returns the whole days until `needed` persons are exposed, if `personsPerDay` new persons are exposed each day.
 * Returns 0 if enough persons are already exposed.
 */
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

/** Returns the variance of the difference of the means, multiplied by the number of persons of both variants. */
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

/** Returns the number of standard errors that a difference must have so that it is found with the planned power. */
function quantilesOf({ alpha, power, treatmentShare, looks }: Design): number | NotEnoughData {
  if (!isShare(alpha) || !isShare(power) || !isShare(treatmentShare)) {
    return notEnough('invalid_input')
  }
  const ofAlpha = looks === 'fixed' ? normalTailQuantile(alpha / 2) : boundaryAtHorizon(alpha)
  const sum = ofAlpha + normalTailQuantile(1 - power)
  // A power of alpha / 2 or less would need no persons at all, so such a plan is invalid. With always-valid looks, this
  // limit is lower.
  return sum > 0 ? sum : notEnough('invalid_input')
}
