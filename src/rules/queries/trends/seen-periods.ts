/**
 * Stores as bits in which periods each actor had events. This needs far less time and memory than collecting the events
 * of each actor.
 */

/**
 * The largest number of periods for which bits are used. With more periods, sorting the events by actor needs less
 * memory than bits.
 */
const FEW_PERIODS = 128

/** The periods by actor. */
export interface SeenPeriods {
  readonly wordsEach: number
  /** The bits of all actors: `wordsEach` words for each actor number, from 0 on. */
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

/** Writes the periods of an actor, ascending, into `into`. The list is emptied first. */
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
