/** In which periods each actor was seen: a bit for each. Far cheaper than bringing the events of each actor together. */

/** Bits of an actor at most: with more periods, the memory of all actors is better spent on sorting. */
const FEW_PERIODS = 128

/** By actor. */
export interface SeenPeriods {
  readonly wordsEach: number
  /** `wordsEach` for each actor, from number 0 on. */
  readonly words: Uint32Array
}

/** Whether bits are the way to count actors in so many periods. */
export function isFewPeriods(count: number): boolean {
  return count <= FEW_PERIODS
}

/** Nobody was seen; actors have numbers up to `largest`. */
export function noneSeen(periodCount: number, largest: number): SeenPeriods {
  const wordsEach = Math.max(1, Math.ceil(periodCount / 32))
  return { wordsEach, words: new Uint32Array((largest + 1) * wordsEach) }
}

/** The periods of an actor, ascending, into a list that is emptied before. */
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
