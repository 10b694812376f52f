/** The change of a metric from one variant to another, absolute or relative. All intervals are computed from it. */
import {
  faultOfPersons,
  finiteOrNot,
  lacksData,
  type NotEnoughData,
  notEnough,
} from './not-enough-data.ts'
import type { MaybeEstimate, VariantEstimate } from './variant-estimate.ts'

/** A mean and the square of its standard error. */
interface MeanWithError {
  readonly mean: number
  readonly squaredError: number
}

/** The difference between the treatment and the control. */
export interface Contrast {
  /** The scale of `estimate`. Absolute: in the unit of the metric. Relative: 0.1 means 10 % more than the control. */
  readonly scale: 'absolute' | 'relative'
  readonly estimate: number
  /** The difference of the means, divided by its standard error. */
  readonly z: number
  /** The number of exposed persons of both variants together. */
  readonly persons: number
  /** The degrees of freedom for Student's t distribution. */
  readonly degreesOfFreedom: number
  readonly control: MeanWithError
  readonly treatment: MeanWithError
}

/** The ends of an interval. */
export interface Interval {
  readonly low: number
  readonly high: number
}

/** Returns the absolute change: the mean of the treatment minus the mean of the control. */
export function differenceOf(
  control: MaybeEstimate,
  treatment: MaybeEstimate,
): Contrast | NotEnoughData {
  const fault = faultOf(control) ?? faultOf(treatment)
  if (fault !== null) return fault
  const [from, to] = [control as VariantEstimate, treatment as VariantEstimate]
  return contrastOf('absolute', to.mean - from.mean, from, to)
}

/**
 * Returns the relative change, (treatment − control) / |control|. The absolute value makes an increase positive even if
 * the mean of the control is negative.
 */
export function liftOf(control: MaybeEstimate, treatment: MaybeEstimate): Contrast | NotEnoughData {
  const fault = faultOf(control) ?? faultOf(treatment)
  if (fault !== null) return fault
  const [from, to] = [control as VariantEstimate, treatment as VariantEstimate]
  if (from.mean === 0) return notEnough('zero_baseline')
  return contrastOf('relative', (to.mean - from.mean) / Math.abs(from.mean), from, to)
}

/**
 * Returns the interval that extends `standardErrors` standard errors to both sides of the estimate.
 *
 * For a relative change, the interval contains each ratio r for which treatment − r · control is at most
 * `standardErrors` of its own standard errors away from zero. It contains the value "no change" if and only if the
 * interval of the difference contains zero. For many persons, it equals the interval of the delta method. With few
 * persons and skewed values, the delta method itself finds three times as many false differences as it should. Sources:
 * E. C. Fieller, 1954, Some Problems in Interval Estimation, Journal of the Royal Statistical Society B 16; A. Deng, U.
 * Knoblich and J. Lu, 2018, Applying the Delta Method in Metric Analytics: A Practical Guide with Novel Ideas, KDD,
 * which compares both.
 */
export function intervalOf(contrast: Contrast, standardErrors: number): Interval | NotEnoughData {
  const { scale, estimate, control, treatment } = contrast
  const [a, b] = [control.squaredError, treatment.squaredError]
  if (scale === 'absolute') {
    const halfWidth = standardErrors * Math.sqrt(a + b)
    return finiteOrNot({ low: estimate - halfWidth, high: estimate + halfWidth })
  }
  // All numbers are divided by the mean of the control, so that their squares neither overflow nor become zero.
  const ratio = treatment.mean / control.mean
  const square = standardErrors * standardErrors
  const ofControl = square * (a / control.mean / control.mean)
  const ofTreatment = square * (b / control.mean / control.mean)
  const divisor = 1 - ofControl
  // The true mean of the control may be zero, so the ratio may be anything.
  if (!(divisor > 0)) return notEnough('zero_baseline')
  const root = Math.sqrt(ofTreatment * divisor + ofControl * ratio * ratio)
  const [lowest, highest] = [(ratio - root) / divisor, (ratio + root) / divisor]
  const isNegative = control.mean < 0
  return finiteOrNot({
    low: isNegative ? 1 - highest : lowest - 1,
    high: isNegative ? 1 - lowest : highest - 1,
  })
}

/**
 * Returns the reason why there is no contrast or why its numbers are invalid. Returns null if the contrast can be used.
 */
export function faultOfContrast(contrast: Contrast | NotEnoughData): NotEnoughData | null {
  if (lacksData(contrast)) return contrast
  const { estimate, z, persons, degreesOfFreedom } = contrast
  const isValid = persons > 0 && degreesOfFreedom > 0
  const numbers = [estimate, z, persons, degreesOfFreedom]
  return isValid && numbers.every(Number.isFinite) ? null : notEnough('invalid_input')
}

function faultOf(estimate: MaybeEstimate): NotEnoughData | null {
  if (estimate === undefined) return notEnough('missing_variant')
  if (lacksData(estimate)) return estimate
  const { persons, mean, variance } = estimate
  if (!Number.isFinite(mean) || !Number.isFinite(variance) || variance < 0) {
    return notEnough('invalid_input')
  }
  return faultOfPersons(persons) ?? (variance === 0 ? notEnough('no_variance') : null)
}

/**
 * Computes a contrast. The degrees of freedom are those of B. L. Welch, 1947, The generalization of 'Student's' problem
 * when several different population variances are involved, Biometrika 34, in the form of NIST/SEMATECH e-Handbook of
 * Statistical Methods, section 1.3.5.3.
 */
function contrastOf(
  scale: Contrast['scale'],
  estimate: number,
  from: VariantEstimate,
  to: VariantEstimate,
): Contrast | NotEnoughData {
  const control = { mean: from.mean, squaredError: from.variance / from.persons }
  const treatment = { mean: to.mean, squaredError: to.variance / to.persons }
  const squaredError = control.squaredError + treatment.squaredError
  const ofControl = control.squaredError / squaredError
  const ofTreatment = treatment.squaredError / squaredError
  const spread =
    (ofControl * ofControl) / (from.persons - 1) + (ofTreatment * ofTreatment) / (to.persons - 1)
  return finiteOrNot({
    scale,
    estimate,
    z: (to.mean - from.mean) / Math.sqrt(squaredError),
    persons: from.persons + to.persons,
    degreesOfFreedom: 1 / spread,
    control,
    treatment,
  })
}
