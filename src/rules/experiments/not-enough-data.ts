/** The result of every statistic that cannot be computed from its data: a reason instead of numbers. */
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

/**
 * The reason that a function returns instead of a statistic. A statistic itself never contains NaN or an infinite
 * number.
 */
export interface NotEnoughData {
  readonly notEnoughData: MissingReason
}

/** Returns the result that contains a reason. */
export function notEnough(reason: MissingReason): NotEnoughData {
  return { notEnoughData: reason }
}

/** Returns whether a result is a reason instead of a statistic. */
export function lacksData(answer: object): answer is NotEnoughData {
  return 'notEnoughData' in answer
}

/**
 * Returns a statistic unchanged if all its numbers are finite. Otherwise the input was so large that it overflowed, and
 * the result is `invalid_input`.
 */
export function finiteOrNot<T extends object>(statistic: T): T | NotEnoughData {
  for (const value of Object.values(statistic)) {
    if (typeof value === 'number' && !Number.isFinite(value)) return notEnough('invalid_input')
  }
  return statistic
}

/** Returns the reason why statistics cannot be computed for a number of persons, or null if they can. */
export function faultOfPersons(persons: number): NotEnoughData | null {
  if (!Number.isInteger(persons) || persons < 0 || persons > VARIANT_PERSONS_MAX) {
    return notEnough('invalid_input')
  }
  if (persons === 0) return notEnough('no_exposures')
  return persons === 1 ? notEnough('one_person') : null
}

/** Returns whether a number is a share or a probability strictly between 0 and 1. */
export function isShare(value: number): boolean {
  return value > 0 && value < 1
}
