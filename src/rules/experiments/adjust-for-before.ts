/** Uses the values that persons had before their exposure to make the intervals of an experiment narrower (CUPED). */
import {
  faultOfPersons,
  finiteOrNot,
  lacksData,
  type NotEnoughData,
  notEnough,
} from './not-enough-data.ts'
import {
  covarianceOf,
  type MeanSample,
  type VariantEstimate,
  varianceOf,
} from './variant-estimate.ts'

/**
 * Sums over the exposed persons of a variant. The value before is the value of the metric in the period before the
 * exposure. It is 0 for persons who had no events in this period.
 */
export interface BeforeSample extends MeanSample {
  readonly beforeSum: number
  readonly beforeSquares: number
  /** The sum over all persons of the value times the value before. */
  readonly products: number
}

/** The adjusted estimates, in the order of the variants. */
export interface AdjustedEstimates {
  readonly estimates: readonly VariantEstimate[]
  readonly theta: number
  /**
   * The part of the variance that remains after the adjustment, from 0 to 1. If a quarter remains, the intervals are
   * half as wide.
   */
  readonly remainingVariance: number
}

/**
 * Adjusts the means of all variants. The factor theta is computed from the covariance within each variant, pooled over
 * all variants, so that differences between the variants do not influence theta. Source: A. Deng, Y. Xu, R. Kohavi and
 * T. Walker, 2013, Improving the Sensitivity of Online Controlled Experiments by Utilizing Pre-Experiment Data, WSDM.
 */
export function adjustForBefore(
  samples: readonly (BeforeSample | undefined)[],
): AdjustedEstimates | NotEnoughData {
  if (samples.length < 2) return notEnough('missing_variant')
  const moments: Moments[] = []
  for (const sample of samples) {
    const ofSample = momentsOf(sample)
    if (lacksData(ofSample)) return ofSample
    moments.push(ofSample)
  }
  const pooled = (value: (of: Moments) => number): number =>
    moments.reduce((sum, of) => sum + value(of) * (of.persons - 1), 0)
  const ofBefore = pooled(({ beforeVariance }) => beforeVariance)
  const theta = pooled(({ covariance }) => covariance) / ofBefore
  const persons = moments.reduce((sum, of) => sum + of.persons, 0)
  const before = moments.reduce((sum, of) => sum + of.beforeMean * of.persons, 0) / persons
  const estimates: VariantEstimate[] = []
  for (const of of moments) {
    const removed = theta * (2 * of.covariance - theta * of.beforeVariance)
    const variance = of.variance - removed
    // If the values before predict a metric completely, only rounding errors are left of its variance.
    if (!(variance > of.variance * REMAINING_MIN)) return notEnough('no_variance')
    const mean = of.mean - theta * (of.beforeMean - before)
    const estimate = finiteOrNot({ persons: of.persons, mean, variance })
    if (lacksData(estimate)) return estimate
    estimates.push(estimate)
  }
  const left = estimates.reduce((sum, of) => sum + of.variance * (of.persons - 1), 0)
  return finiteOrNot({
    estimates,
    theta,
    remainingVariance: left / pooled(({ variance }) => variance),
  })
}

/** If less than this part of a variance remains, it is rounding error. */
const REMAINING_MIN = 1e-10

interface Moments extends VariantEstimate {
  readonly beforeMean: number
  readonly beforeVariance: number
  readonly covariance: number
}

function momentsOf(sample: BeforeSample | undefined): Moments | NotEnoughData {
  if (sample === undefined) return notEnough('missing_variant')
  const { persons, sum, squares, beforeSum, beforeSquares, products } = sample
  const fault = faultOfPersons(persons)
  if (fault !== null) return fault
  const variance = varianceOf(squares, sum, persons)
  if (typeof variance === 'object') return variance
  const beforeVariance = varianceOf(beforeSquares, beforeSum, persons)
  if (typeof beforeVariance === 'object') return beforeVariance
  const covariance = covarianceOf(products, sum, beforeSum, persons)
  // Apart from rounding, the square of a covariance is never larger than the product of the variances. If it is larger
  // by more than rounding explains, the sums contradict each other.
  if (covariance * covariance > variance * beforeVariance * (1 + 1e-6))
    return notEnough('invalid_input')
  return finiteOrNot({
    persons,
    mean: sum / persons,
    variance,
    beforeMean: beforeSum / persons,
    beforeVariance,
    covariance,
  })
}
