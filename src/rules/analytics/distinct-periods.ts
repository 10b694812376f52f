/**
 * Finds out when persons have events: before or after a moment, and in how many different periods. Each person has one
 * bit for each period.
 */
import { largestPerson } from './actor-page.ts'
import type { EventColumns, EventScanner } from './event-columns.ts'
import type { Periods } from './periods.ts'

/**
 * The bits of the persons take at most this number of 32-bit words (64 MiB). If they need more, the events are read
 * again for each batch of persons.
 */
const WORDS_MAX = 1 << 24
/** The loop over events checks the time limit of the query once for this number of events. */
const CHECK_EVERY = 65_536

/** The bit that `activityOf` sets for persons with events before the given moment. */
export const EARLIER = 1
/** The bit that `activityOf` sets for persons with events at or after the given moment. */
export const WITHIN = 2

/**
 * Returns, for each person number, when the person had events relative to a moment in milliseconds: `EARLIER`, `WITHIN`
 * or both.
 */
export function activityOf({ count, persons, timesMs }: EventColumns, startMs: number): Uint8Array {
  const marks = new Uint8Array(largestPerson(persons, count) + 1)
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    marks[person] = (marks[person] ?? 0) | ((timesMs[row] ?? 0) >= startMs ? WITHIN : EARLIER)
  }
  return marks
}

/** In how many periods each person has events, and how many persons have events in each period. */
export interface PeriodCounts {
  /** The number of periods in which each person has events, indexed by person number. */
  readonly byPerson: Uint32Array
  /** The number of persons with events in each period, indexed by period. */
  readonly byPeriod: Uint32Array
}

/**
 * Counts the periods in which each person has events, and the persons of each period. Events outside of all periods are
 * ignored. `largest` is the largest person number of the columns. The events are read once for each batch of persons
 * that fits into memory.
 */
export function distinctPeriodCounts(
  { count, persons, timesMs }: EventColumns,
  periods: Periods,
  largest: number,
  limits: Pick<EventScanner, 'checkLimits'>,
): PeriodCounts {
  const byPerson = new Uint32Array(largest + 1)
  const byPeriod = new Uint32Array(periods.count)
  const wordsEach = Math.max(1, Math.ceil(periods.count / 32))
  const personsEach = Math.max(1, Math.min(largest + 1, Math.floor(WORDS_MAX / wordsEach)))
  const bits = new Uint32Array(personsEach * wordsEach)
  for (let first = 0; first <= largest; first += personsEach) {
    if (first > 0) bits.fill(0)
    // Consecutive events are mostly in the same period, so its bounds are compared before the period is looked up.
    let period = -1
    let startMs = 0
    let endMs = 0
    for (let row = 0; row < count; row++) {
      if (row % CHECK_EVERY === 0) limits.checkLimits()
      const timeMs = timesMs[row] ?? 0
      if (timeMs < startMs || timeMs >= endMs) {
        period = periods.indexOf(timeMs)
        startMs = period < 0 ? 0 : periods.startMs(period)
        endMs = period < 0 ? 0 : periods.startMs(period + 1)
      }
      if (period < 0) continue
      const person = persons[row] ?? 0
      const place = person - first
      if (place < 0 || place >= personsEach) continue
      const word = place * wordsEach + (period >>> 5)
      const before = bits[word] ?? 0
      const after = (before | (1 << (period & 31))) >>> 0
      if (before === after) continue
      bits[word] = after
      byPerson[person] = (byPerson[person] ?? 0) + 1
      byPeriod[period] = (byPeriod[period] ?? 0) + 1
    }
  }
  return { byPerson, byPeriod }
}
