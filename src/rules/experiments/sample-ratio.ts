/**
 * Tests whether the numbers of persons in the variants fit their shares. If they do not, no other result of the
 * experiment can be trusted.
 */
import { chiSquareTail } from './distributions.ts'
import { EXPERIMENT_VARIANTS_MAX, VARIANT_PERSONS_MAX } from './limits.ts'
import { finiteOrNot, isShare, type NotEnoughData, notEnough } from './not-enough-data.ts'

/** A variant with its share of the persons. The shares may have any unit, such as percent, if all have the same one. */
export interface VariantShare {
  readonly persons: number
  readonly share: number
}

/** The result of the comparison. */
export interface SampleRatioTest {
  readonly chiSquare: number
  readonly pValue: number
  /** True if the numbers of persons do not fit the shares. */
  readonly isMismatch: boolean
}

/** The test with chi-square is only valid if at least this many persons are expected in each variant. */
const EXPECTED_PERSONS_MIN = 5

/**
 * Compares the numbers of exposed persons with the shares of the variants. `alpha` is the probability of a false alarm
 * if the result is checked once, usually 0.001. Sources: K. Pearson's test as in NIST/SEMATECH e-Handbook of
 * Statistical Methods, section 1.3.5.15, Chi-Square Goodness-of-Fit Test; A. Fabijan and others, 2019, Diagnosing
 * Sample Ratio Mismatch in Online Controlled Experiments, KDD (its use).
 */
export function sampleRatioTest(
  variants: readonly VariantShare[],
  alpha: number,
): SampleRatioTest | NotEnoughData {
  if (variants.length < 2) return notEnough('missing_variant')
  const isValid = variants.every(({ persons, share }) => {
    const isCount = Number.isInteger(persons) && persons >= 0 && persons <= VARIANT_PERSONS_MAX
    return isCount && share > 0 && Number.isFinite(share)
  })
  if (!isValid || !isShare(alpha) || variants.length > EXPERIMENT_VARIANTS_MAX) {
    return notEnough('invalid_input')
  }
  const total = variants.reduce((sum, { persons }) => sum + persons, 0)
  const shares = variants.reduce((sum, { share }) => sum + share, 0)
  if (!Number.isFinite(shares)) return notEnough('invalid_input')
  if (total === 0) return notEnough('no_exposures')
  if (total === 1) return notEnough('one_person')
  let chiSquare = 0
  for (const { persons, share } of variants) {
    const expected = total * (share / shares)
    if (expected < EXPECTED_PERSONS_MIN) return notEnough('too_few_persons')
    chiSquare += ((persons - expected) * (persons - expected)) / expected
  }
  const pValue = chiSquareTail(chiSquare, variants.length - 1)
  return finiteOrNot({ chiSquare, pValue, isMismatch: pValue < alpha })
}
