/** In how many different periods each person has events: one bit for each person and period. */
import type { EventColumns } from './event-columns.ts'
import type { Periods } from './periods.ts'

/** 32-bit words of bits at a time (64 MiB); when they do not suffice, persons take turns. */
const WORDS_MAX = 1 << 24

/**
 * For each P the number of different periods with events; events outside of all periods count for
 * nothing. `largest` is the largest P of the columns. Cost: the events, once for each turn.
 */
export function distinctPeriodCounts(
  { count, persons, timesMs }: EventColumns,
  periods: Periods,
  largest: number,
): Uint32Array {
  const counts = new Uint32Array(largest + 1)
  const wordsEach = Math.max(1, Math.ceil(periods.count / 32))
  const personsEach = Math.max(1, Math.min(largest + 1, Math.floor(WORDS_MAX / wordsEach)))
  const bits = new Uint32Array(personsEach * wordsEach)
  for (let first = 0; first <= largest; first += personsEach) {
    if (first > 0) bits.fill(0)
    for (let row = 0; row < count; row++) {
      const person = persons[row] ?? 0
      const place = person - first
      if (place < 0 || place >= personsEach) continue
      const period = periods.indexOf(timesMs[row] ?? 0)
      if (period < 0) continue
      const word = place * wordsEach + (period >>> 5)
      const before = bits[word] ?? 0
      const after = (before | (1 << (period & 31))) >>> 0
      if (before === after) continue
      bits[word] = after
      counts[person] = (counts[person] ?? 0) + 1
    }
  }
  return counts
}
