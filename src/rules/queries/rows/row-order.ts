/** Compares values to order the rows of lists. */

/**
 * Compares two values. Numbers come before texts, and texts before all other values, which are compared as JSON.
 * Missing values come last.
 */
export function compareValues(left: unknown, right: unknown): number {
  const [leftRank, rightRank] = [rankOf(left), rankOf(right)]
  if (leftRank !== rightRank) return leftRank - rightRank
  if (typeof left === 'number' && typeof right === 'number') return left - right
  const [leftText, rightText] = [textOf(left), textOf(right)]
  if (leftText === rightText) return 0
  return leftText < rightText ? -1 : 1
}

/** Compares two values in ascending or descending order. Missing values come last in both. */
export function compareDirected(left: unknown, right: unknown, isDescending: boolean): number {
  const isMissing = rankOf(left) === MISSING || rankOf(right) === MISSING
  const compared = compareValues(left, right)
  return isDescending && !isMissing ? -compared : compared
}

/** The rank of a missing value. */
const MISSING = 3

function rankOf(value: unknown): number {
  if (value === null || value === undefined) return MISSING
  if (typeof value === 'number') return 0
  return typeof value === 'string' ? 1 : 2
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}
