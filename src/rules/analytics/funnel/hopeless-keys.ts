/**
 * Finds actors that cannot have reached enough steps of a funnel, whatever the order of their events. The events of
 * these actors then need not be sorted.
 */
import { largestPerson } from '../actor-page.ts'
import type { EventColumns } from '../event-columns.ts'
import type { AttemptRules } from './funnel-attempts.ts'

/**
 * Returns a list, indexed by actor key, that contains 1 for each actor whose events cannot reach `needed` steps. In an
 * unordered funnel, these are actors with fewer than `needed` different steps. In any other funnel, they are actors
 * that lack one of the first `needed` steps. `keys` contains the actor key of each row: the person number, or the
 * number of the group in the scan. The cost is linear.
 */
export function hopelessKeys(
  { order, stepCount }: Pick<AttemptRules, 'order' | 'stepCount'>,
  needed: number,
  keys: Uint32Array,
  { count, seriesMasks }: EventColumns,
): Uint8Array {
  const done = new Uint32Array(largestPerson(keys, count) + 1)
  for (let row = 0; row < count; row++) {
    const key = keys[row] ?? 0
    done[key] = (done[key] ?? 0) | (seriesMasks[row] ?? 0)
  }
  const isHopeless = new Uint8Array(done.length)
  const neededMask = 2 ** Math.max(needed, 0) - 1
  for (let key = 0; key < done.length; key++) {
    const mask = done[key] ?? 0
    const isEnough =
      order === 'unordered'
        ? bitCount(mask & (2 ** stepCount - 1)) >= needed
        : (mask & neededMask) === neededMask
    isHopeless[key] = isEnough ? 0 : 1
  }
  return isHopeless
}

function bitCount(mask: number): number {
  let count = 0
  for (let left = mask; left !== 0; left &= left - 1) count++
  return count
}
