/**
 * Stores in which periods each actor had events, with one bit for each period. This is far cheaper than collecting the
 * events of each actor.
 */

/** Bits of an actor at most: with more periods, the memory of all actors is better spent on sorting. */
const FEW_PERIODS = 128

/** The periods by actor. */
export interface SeenPeriods {
  readonly wordsEach: number
  /** The bits, `wordsEach` words for each actor, from number 0 on. */
  readonly words: Uint32Array
}

/** Returns whether bits are suitable to count actors in `count` periods. */
export function isFewPeriods(count: number): boolean {
  return count <= FEW_PERIODS
}

/** Returns empty bits for actors with numbers up to `largest`. */
export function emptyPeriods(periodCount: number, largest: number): SeenPeriods {
  const wordsEach = Math.max(1, Math.ceil(periodCount / 32))
  return { wordsEach, words: new Uint32Array((largest + 1) * wordsEach) }
}

/** Writes the periods of an actor, ascending, into a list that is emptied first. */
export function takePeriods(
  { words, wordsEach }: SeenPeriods,
  actor: number,
  into: number[],
): void {
  into.length = 0
  for (let index = 0; index < wordsEach; index++) {
    let word = words[actor * wordsEach + index] ?? 0
    while (word !== 0) {
      const lowest = word & -word
      into.push(index * 32 + 31 - Math.clz32(lowest))
      word ^= lowest
    }
  }
}
