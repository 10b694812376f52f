/**
 * The limits of the probability of a false statement. A client sends this probability as `alpha`, or sends the
 * confidence level 1 − alpha. Within the limits, every statistic has a finite value.
 */

const ALPHA_LOWEST = 0.0001
const ALPHA_HIGHEST = 0.5
const LEVEL_LOWEST = 0.5
const LEVEL_HIGHEST = 0.9999

/** Describes a valid alpha, for error messages. */
export const ALPHA_BOUNDS = `a number from ${ALPHA_LOWEST} to ${ALPHA_HIGHEST}`
/** Describes a valid confidence level, for error messages. */
export const LEVEL_BOUNDS = `a number from ${LEVEL_LOWEST} to ${LEVEL_HIGHEST}`

/** Returns whether a value is a valid probability of a false statement, such as 0.05. */
export function isAlpha(value: unknown): value is number {
  return typeof value === 'number' && value >= ALPHA_LOWEST && value <= ALPHA_HIGHEST
}

/** Returns whether a value is a valid confidence level, such as 0.95. */
export function isLevel(value: unknown): value is number {
  return typeof value === 'number' && value >= LEVEL_LOWEST && value <= LEVEL_HIGHEST
}
