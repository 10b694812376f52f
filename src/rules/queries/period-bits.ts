/**
 * Stores in which periods actors have events: a row of bits for each period, with one bit for each actor. Set
 * operations then take one step for 32 actors. If the bits of all actors do not fit into the memory of a query, the
 * actors are processed in batches.
 */
import type { EventScanner } from '../analytics/event-columns.ts'
import type { Periods } from '../analytics/periods.ts'
import type { ActorEvents } from './actor-events.ts'

/**
 * The largest number of 32-bit words for bits or counts at a time (32 MiB). If more are needed, the actors are
 * processed in batches.
 */
const WORDS_AT_A_TIME = 1 << 23
/** The loop over events checks the time limit of the query once for this number of events. */
const CHECK_EVERY = 65_536

type Limits = Pick<EventScanner, 'checkLimits'>

/**
 * A condition on the number of an actor's events in a period. The period counts for the actor only if the number meets
 * the condition.
 */
export interface CountTest {
  readonly operator: 'gte' | 'lte' | 'exact'
  readonly value: number
}

/** A range of actors. */
export interface ActorRange {
  /** The number of the first actor. */
  readonly first: number
  /** The number of 32-bit words of a row of bits. */
  readonly words: number
}

/**
 * Yields ranges that together contain the actors with the numbers 1 to `actors`, each small enough for the memory of a
 * query. `test` must be the test that is passed to `periodBits`.
 */
export function* actorRanges(
  actors: number,
  periods: Periods,
  test: CountTest | null,
): Generator<ActorRange> {
  const wordsOfActors = Math.ceil(actors / 32)
  const bitsEach = isPlain(test) ? 1 : isSmall(test) ? 8 : 32
  const cells = Math.max(1, periods.count) * bitsEach
  const words = Math.max(1, Math.min(wordsOfActors, Math.floor(WORDS_AT_A_TIME / cells)))
  for (let word = 0; word < wordsOfActors; word += words) yield { first: word * 32 + 1, words }
}

/**
 * Returns one bit for each period and actor of a range: 1 if the number of the actor's events in the period passes
 * `test`, or is at least 1 if `test` is null. Only events with one of the bits of `mask` count. The bits of period i
 * begin at word `i * words`. Throws the same errors as `EventScanner.checkLimits`. The cost is linear in the events and
 * in the bits.
 */
export function periodBits(
  { count, actors, timesMs, seriesMasks }: ActorEvents,
  { first, words }: ActorRange,
  periods: Periods,
  mask: number,
  test: CountTest | null,
  limits: Limits,
): Uint32Array {
  const size = words * 32
  const bits = new Uint32Array(periods.count * words)
  const counts = countsFor(test, periods.count * size)
  // Consecutive events are mostly in the same period. So the time is compared with the bounds of the last period first,
  // and a period is only looked up if the time is outside of them.
  let period = -1
  let startMs = 0
  let endMs = 0
  for (let row = 0; row < count; row++) {
    if (row % CHECK_EVERY === 0) limits.checkLimits()
    if (((seriesMasks[row] ?? 0) & mask) === 0) continue
    const place = (actors[row] ?? 0) - first
    if (place < 0 || place >= size) continue
    const timeMs = timesMs[row] ?? 0
    if (timeMs < startMs || timeMs >= endMs) {
      period = periods.indexOf(timeMs)
      startMs = period < 0 ? 0 : periods.startMs(period)
      endMs = period < 0 ? 0 : periods.startMs(period + 1)
    }
    if (period < 0) continue
    if (counts === null) {
      const word = period * words + (place >>> 5)
      bits[word] = (bits[word] ?? 0) | (1 << (place & 31))
    } else {
      const cell = period * size + place
      counts[cell] = (counts[cell] ?? 0) + 1
    }
  }
  if (counts !== null && test !== null) countedBits(counts, test, bits)
  return bits
}

/**
 * Adds to each actor's entry in `counts` the number of periods in which the actor has a bit. `bits` belong to one range
 * of actors.
 */
export function addPeriodCounts(
  bits: Uint32Array,
  { first, words }: ActorRange,
  counts: Uint32Array,
): void {
  for (let index = 0; index < bits.length; index++) {
    eachBit(bits[index] ?? 0, first + (index % words) * 32, (actor) => {
      counts[actor] = (counts[actor] ?? 0) + 1
    })
  }
}

/** Returns the number of bits that are set in a word. */
export function bitCount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** Calls `visit` for each bit that is set in a word, with `first` plus the position of the bit. */
export function eachBit(word: number, first: number, visit: (actor: number) => void): void {
  let left = word
  while (left !== 0) {
    const place = 31 - Math.clz32(left & -left)
    visit(first + place)
    left &= left - 1
  }
}

/** Returns whether a single event is enough for a period to count. */
export function isPlain(test: CountTest | null): boolean {
  return test === null || (test.operator === 'gte' && test.value <= 1)
}

/**
 * Returns the smallest and largest number of an actor's events with which a period counts. A period without events
 * never counts.
 */
export function timesWanted(test: CountTest | null) {
  const { operator, value } = test ?? ONCE
  return {
    least: operator === 'lte' ? 1 : Math.max(1, value),
    most: operator === 'gte' ? Number.POSITIVE_INFINITY : value,
  }
}

const ONCE: CountTest = { operator: 'gte', value: 1 }

/** Returns whether the test gives the same result for all counts from 255 on, so that 8 bits are enough. */
function isSmall(test: CountTest | null): boolean {
  return test !== null && test.value < 255
}

/** Returns memory for counts, or null if the test needs no counts. A count of 8 bits stops at 255. */
function countsFor(test: CountTest | null, size: number): Uint8ClampedArray | Uint32Array | null {
  if (isPlain(test)) return null
  return isSmall(test) ? new Uint8ClampedArray(size) : new Uint32Array(size)
}

function countedBits(
  counts: Uint8ClampedArray | Uint32Array,
  test: CountTest,
  bits: Uint32Array,
): void {
  const { least, most } = timesWanted(test)
  for (let cell = 0; cell < counts.length; cell++) {
    const count = counts[cell] ?? 0
    if (count < least || count > most) continue
    bits[cell >>> 5] = (bits[cell >>> 5] ?? 0) | (1 << (cell & 31))
  }
}
