/** Computes the probability that the treatment is better than the control. Some readers prefer it to a p-value. */
import { type Contrast, faultOfContrast } from './contrast.ts'
import { normalTail } from './distributions.ts'
import { faultOfProportion } from './fixed-horizon.ts'
import { type NotEnoughData, notEnough } from './not-enough-data.ts'
import type { ProportionSample } from './variant-estimate.ts'

/** The probability, given the data, that the treatment has a higher mean than the control. */
export interface WinProbability {
  readonly probability: number
}

/** The parameters of a beta distribution. */
interface Beta {
  readonly alpha: number
  readonly beta: number
}

/** `sumOfTerms` leaves out the terms that are smaller than this share of the sum. */
const TERM_END = 1e-18
/**
 * If `from.beta` is below this, the first term of the sum is a product of so few factors that it cannot become zero by
 * underflow.
 */
const SMALL_PARAMETER = 60

/**
 * Compares two conversion rates exactly. Each has the uniform prior distribution Beta(1, 1). Source: E. Miller, 2015,
 * Formulas for Bayesian A/B Testing; J. D. Cook, 2005, Exact Calculation of Beta Inequalities, report UTMDABTR-005-05.
 */
export function winProbabilityOfProportions(
  control: ProportionSample | undefined,
  treatment: ProportionSample | undefined,
): WinProbability | NotEnoughData {
  if (control === undefined || treatment === undefined) return notEnough('missing_variant')
  const fault = faultOfProportion(control) ?? faultOfProportion(treatment)
  if (fault !== null) return fault
  const converted = control.converted + treatment.converted
  if (converted === 0 || converted === control.persons + treatment.persons) {
    return notEnough('no_variance')
  }
  return { probability: probabilityOfHigher(posteriorOf(control), posteriorOf(treatment)) }
}

function posteriorOf({ persons, converted }: ProportionSample): Beta {
  return { alpha: 1 + converted, beta: 1 + persons - converted }
}

/**
 * Returns the probability that a random value from the distribution `to` is higher than one from `from`. The same
 * probability can be written as four different sums, because the shares of persons who did not convert can be compared
 * as well. Of these sums, the one whose `from.beta` is the largest of the four parameters is computed, because its
 * terms decrease fastest.
 */
function probabilityOfHigher(from: Beta, to: Beta): number {
  const largest = Math.max(from.alpha, from.beta, to.alpha, to.beta)
  if (from.beta === largest) return sumOfTerms(from, to)
  if (to.alpha === largest) return sumOfTerms(mirrored(to), mirrored(from))
  if (to.beta === largest) return 1 - sumOfTerms(to, from)
  return 1 - sumOfTerms(mirrored(from), mirrored(to))
}

function mirrored({ alpha, beta }: Beta): Beta {
  return { alpha: beta, beta: alpha }
}

/**
 * Returns the sum of the terms 0 to `to.alpha` − 1 of an infinite series whose terms rise to one maximum, then fall,
 * and add up to 1. Each term is the previous one times a ratio without gamma functions. The terms are therefore
 * computed as multiples of the largest one, from there in both directions. The sum of the wanted terms is then divided
 * by the sum of all terms. The number of terms that are computed grows with the square root of the number of persons.
 */
function sumOfTerms(from: Beta, to: Beta): number {
  const failures = from.beta + to.beta
  const ratio = (index: number): number => {
    return (
      ((from.alpha + index) * (to.beta + index)) / ((from.alpha + index + failures) * (1 + index))
    )
  }
  if (from.beta < SMALL_PARAMETER) {
    let term = 1
    for (let j = 0; j < to.beta; j++) term *= (from.beta + j) / (from.alpha + from.beta + j)
    let sum = 0
    for (let index = 0; index < to.alpha; index++) {
      sum += term
      term *= ratio(index)
    }
    return sum
  }
  // The ratio is 1 at the index `peak`, so the largest term is near it.
  const peak = (from.alpha * (to.beta - 1) - failures) / (1 + from.beta)
  const mode = Math.max(0, Math.ceil(peak))
  let wanted = 0
  let others = 0
  let term = 1
  for (let index = mode; term > TERM_END * (wanted + others); index++) {
    if (index < to.alpha) wanted += term
    else others += term
    term *= ratio(index)
  }
  term = 1
  for (let index = mode - 1; index >= 0; index--) {
    term /= ratio(index)
    if (term <= TERM_END * (wanted + others)) break
    if (index < to.alpha) wanted += term
    else others += term
  }
  return wanted / (wanted + others)
}

/**
 * Compares two means. With a flat prior distribution and a large sample, the posterior distribution of a contrast is
 * normal. Source: A. Gelman and others, 2013, Bayesian Data Analysis, 3rd edition.
 */
export function winProbabilityOfMeans(
  contrast: Contrast | NotEnoughData,
): WinProbability | NotEnoughData {
  const fault = faultOfContrast(contrast)
  if (fault !== null) return fault
  return { probability: normalTail(-(contrast as Contrast).z) }
}
