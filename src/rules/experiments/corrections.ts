/**
 * Corrections of p-values for several comparisons. Without a correction, an experiment with ten metrics and alpha 0.05
 * has a probability of 40 % of finding at least one difference that does not exist. Always-valid p-values can be
 * corrected in the same way.
 */
import { type NotEnoughData, notEnough } from './not-enough-data.ts'

/**
 * Corrects p-values so that the probability of even one false statement is at most alpha. The result has the order of
 * the input. Source: S. Holm, 1979, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of
 * Statistics 6; in the form of adjusted p-values: P. H. Westfall and S. S. Young, 1993, Resampling-Based Multiple
 * Testing.
 */
export function holmAdjusted(pValues: readonly number[]): readonly number[] | NotEnoughData {
  if (!pValues.every(isProbability)) return notEnough('invalid_input')
  const order = ascending(pValues)
  const adjusted = new Array<number>(pValues.length)
  let largest = 0
  for (const [rank, index] of order.entries()) {
    const factor = pValues.length - rank
    largest = Math.max(largest, Math.min(1, (pValues[index] ?? 1) * factor))
    adjusted[index] = largest
  }
  return adjusted
}

/**
 * Corrects p-values so that, of the differences that are found, on average at most the share alpha does not exist. The
 * result has the order of the input. Source: Y. Benjamini and Y. Hochberg, 1995, Controlling the False Discovery Rate,
 * Journal of the Royal Statistical Society B 57, procedure (1).
 */
export function benjaminiHochbergAdjusted(
  pValues: readonly number[],
): readonly number[] | NotEnoughData {
  if (!pValues.every(isProbability)) return notEnough('invalid_input')
  const order = ascending(pValues)
  const adjusted = new Array<number>(pValues.length)
  let smallest = 1
  for (const [rank, index] of [...order.entries()].reverse()) {
    const factor = pValues.length / (rank + 1)
    smallest = Math.min(smallest, (pValues[index] ?? 1) * factor)
    adjusted[index] = smallest
  }
  return adjusted
}

function isProbability(value: number): boolean {
  return value >= 0 && value <= 1
}

/** Returns the indexes of the values, in the order from the smallest value to the largest. */
function ascending(values: readonly number[]): readonly number[] {
  return values.map((_, index) => index).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0))
}
