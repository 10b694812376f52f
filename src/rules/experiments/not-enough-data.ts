/** The answer of every statistic that cannot be computed from the data it was given. */
import { VARIANT_PERSONS_MAX } from './limits.ts'

/**
 * Why a statistic has no value:
 *
 * - `missing_variant`: there are no data for one of the variants
 * - `no_exposures`: nobody was exposed to one of the variants, or nobody is exposed any more
 * - `one_person`: one of the variants has a single person, so nothing is known about the differences between persons
 * - `too_few_persons`: the approximation does not hold for so few persons
 * - `no_variance`: all persons of a variant have the same value, or their values differ less than the sums can show
 * - `zero_baseline`: the mean of the control is so close to zero that a relative change means nothing
 * - `invalid_input`: a number is not finite or out of its range, or the sums contradict each other
 */
export type MissingReason =
  | 'missing_variant'
  | 'no_exposures'
  | 'one_person'
  | 'too_few_persons'
  | 'no_variance'
  | 'zero_baseline'
  | 'invalid_input'

/** Stands in place of a statistic. A statistic itself never contains NaN or an infinite number. */
export interface NotEnoughData {
  readonly notEnoughData: MissingReason
}

/** Returns the answer for this reason. */
export function notEnough(reason: MissingReason): NotEnoughData {
  return { notEnoughData: reason }
}

/** Returns true if an answer is a reason in place of a statistic. */
export function lacksData(answer: object): answer is NotEnoughData {
  return 'notEnoughData' in answer
}

/** Returns the statistic, or `invalid_input` if one of its numbers is not finite, because the input overflows. */
export function finiteOrNot<T extends object>(statistic: T): T | NotEnoughData {
  for (const value of Object.values(statistic)) {
    if (typeof value === 'number' && !Number.isFinite(value)) return notEnough('invalid_input')
  }
  return statistic
}

/** Returns what is wrong with the number of persons of a variant, or null if statistics can be computed from it. */
export function faultOfPersons(persons: number): NotEnoughData | null {
  if (!Number.isInteger(persons) || persons < 0 || persons > VARIANT_PERSONS_MAX) {
    return notEnough('invalid_input')
  }
  if (persons === 0) return notEnough('no_exposures')
  return persons === 1 ? notEnough('one_person') : null
}

/** Returns true if the number is a share or a probability strictly between 0 and 1. */
export function isShare(value: number): boolean {
  return value > 0 && value < 1
}
