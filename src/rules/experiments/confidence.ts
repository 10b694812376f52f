/**
 * The bounds of the probability of a false statement, which a client sends as `alpha` or as the confidence level
 * 1 − alpha. Within them, every statistic has a finite value.
 */

const ALPHA_LOWEST = 0.0001
const ALPHA_HIGHEST = 0.5
const LEVEL_LOWEST = 0.5
const LEVEL_HIGHEST = 0.9999

/** What an alpha must be, for errors. */
export const ALPHA_BOUNDS = `a number from ${ALPHA_LOWEST} to ${ALPHA_HIGHEST}`
/** What a confidence level must be, for errors. */
export const LEVEL_BOUNDS = `a number from ${LEVEL_LOWEST} to ${LEVEL_HIGHEST}`

/** Returns whether a value is a probability of a false statement within the bounds, such as 0.05. */
export function isAlpha(value: unknown): value is number {
  return typeof value === 'number' && value >= ALPHA_LOWEST && value <= ALPHA_HIGHEST
}

/** Returns whether a value is a confidence level within the bounds, such as 0.95. */
export function isLevel(value: unknown): value is number {
  return typeof value === 'number' && value >= LEVEL_LOWEST && value <= LEVEL_HIGHEST
}
