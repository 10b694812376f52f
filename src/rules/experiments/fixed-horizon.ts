/**
 * Statistical tests whose results are checked only once, at a number of persons that was fixed in advance. If the
 * results are checked several times, these tests find differences that do not exist. The statistics of
 * `always-valid.ts` do not have this problem.
 */
import { type Contrast, faultOfContrast, intervalOf } from './contrast.ts'
import {
  normalTail,
  normalTailQuantile,
  studentTails,
  studentTailsQuantile,
} from './distributions.ts'
import {
  faultOfPersons,
  finiteOrNot,
  isShare,
  lacksData,
  type NotEnoughData,
  notEnough,
} from './not-enough-data.ts'
import type { ProportionSample } from './variant-estimate.ts'

/** The result of a two-sided test with the interval of the change. */
export interface FixedTest {
  readonly estimate: number
  readonly low: number
  readonly high: number
  readonly pValue: number
}

/**
 * Tests a contrast by Welch's t test. Source: B. L. Welch, 1947, The generalization of 'Student's' problem when several
 * different population variances are involved, Biometrika 34; NIST/SEMATECH e-Handbook of Statistical Methods, section
 * 1.3.5.3, Two-Sample t-Test for Equal Means.
 */
export function welchTest(
  contrast: Contrast | NotEnoughData,
  alpha: number,
): FixedTest | NotEnoughData {
  const fault = faultOfContrast(contrast)
  if (fault !== null) return fault
  if (!isShare(alpha)) return notEnough('invalid_input')
  const { estimate, z, degreesOfFreedom } = contrast as Contrast
  const interval = intervalOf(contrast as Contrast, studentTailsQuantile(alpha, degreesOfFreedom))
  if (lacksData(interval)) return interval
  const pValue = studentTails(Math.abs(z), degreesOfFreedom)
  return finiteOrNot({ estimate, low: interval.low, high: interval.high, pValue })
}

/**
 * Compares two proportions by the z test. The standard error of the test comes from the share of both variants
 * together, and the standard error of the interval from the share of each variant. Sources: NIST/SEMATECH e-Handbook of
 * Statistical Methods, section 7.3.3, How can we determine whether two processes produce the same proportion of
 * defectives? (test); R. G. Newcombe, 1998, Interval estimation for the difference between independent proportions,
 * Statistics in Medicine 17, method 1 (interval).
 */
export function twoProportionTest(
  control: ProportionSample | undefined,
  treatment: ProportionSample | undefined,
  alpha: number,
): FixedTest | NotEnoughData {
  if (control === undefined || treatment === undefined) return notEnough('missing_variant')
  const fault = faultOfProportion(control) ?? faultOfProportion(treatment)
  if (fault !== null) return fault
  if (!isShare(alpha)) return notEnough('invalid_input')
  const [from, to] = [control.converted / control.persons, treatment.converted / treatment.persons]
  const persons = control.persons + treatment.persons
  const common = (control.converted + treatment.converted) / persons
  if (common === 0 || common === 1) return notEnough('no_variance')
  const estimate = to - from
  const perPerson = 1 / control.persons + 1 / treatment.persons
  const z = Math.abs(estimate) / Math.sqrt(common * (1 - common) * perPerson)
  const ofFrom = (from * (1 - from)) / control.persons
  const ofTo = (to * (1 - to)) / treatment.persons
  const halfWidth = normalTailQuantile(alpha / 2) * Math.sqrt(ofFrom + ofTo)
  const [low, high] = [estimate - halfWidth, estimate + halfWidth]
  return finiteOrNot({ estimate, low, high, pValue: 2 * normalTail(z) })
}

/**
 * Returns the reason why the counts of a variant are invalid, or null if they are valid. It is valid that nobody or
 * everybody has converted.
 */
export function faultOfProportion({ persons, converted }: ProportionSample): NotEnoughData | null {
  const isCount = Number.isInteger(converted) && converted >= 0 && converted <= persons
  return faultOfPersons(persons) ?? (isCount ? null : notEnough('invalid_input'))
}
