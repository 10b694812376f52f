/**
 * In which periods actors have events: for each period a row of bits, one for each actor. What is asked of
 * them then takes one step for 32 actors. When there are too many for the memory of a query, actors take turns.
 */
import type { EventScanner } from '../analytics/event-columns.ts'
import type { Periods } from '../analytics/periods.ts'
import type { ActorEvents } from './actor-events.ts'

/** 32-bit words of bits, or of counts, at a time: 32 MiB. */
const WORDS_AT_A_TIME = 1 << 23
/** Rows between two looks at the limits of a query. */
const CHECK_EVERY = 65_536

type Limits = Pick<EventScanner, 'checkLimits'>

/** What the number of events of an actor in a period has to be for the period to count. */
export interface CountTest {
  readonly operator: 'gte' | 'lte' | 'exact'
  readonly value: number
}

/** Some actors, one behind the other. */
export interface ActorStretch {
  /** Number of the first one. */
  readonly first: number
  /** 32-bit words of a row of bits. */
  readonly words: number
}

/** The turns that actors with the numbers 1 to `actors` take. `test`: as for `periodBits`. */
export function* actorStretches(
  actors: number,
  periods: Periods,
  test: CountTest | null,
): Generator<ActorStretch> {
  const wordsOfActors = Math.ceil(actors / 32)
  const bitsEach = isPlain(test) ? 1 : isSmall(test) ? 8 : 32
  const cells = Math.max(1, periods.count) * bitsEach
  const words = Math.max(1, Math.min(wordsOfActors, Math.floor(WORDS_AT_A_TIME / cells)))
  for (let word = 0; word < wordsOfActors; word += words) yield { first: word * 32 + 1, words }
}

/**
 * The bits of a stretch: those of period i begin at word `i * words`. Only events with one of the bits of
 * `mask` count; `test` null: one event suffices. Throws as `EventScanner.checkLimits`. Cost: linear in the
 * events, and in the bits.
 */
export function periodBits(
  { count, actors, timesMs, seriesMasks }: ActorEvents,
  { first, words }: ActorStretch,
  periods: Periods,
  mask: number,
  test: CountTest | null,
  limits: Limits,
): Uint32Array {
  const size = words * 32
  const bits = new Uint32Array(periods.count * words)
  const counts = countsFor(test, periods.count * size)
  // Neighbours mostly lie in the same period.
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

/** In how many periods each actor has bits, by its number. `bits` are those of a stretch. */
export function addPeriodCounts(
  bits: Uint32Array,
  { first, words }: ActorStretch,
  counts: Uint32Array,
): void {
  for (let index = 0; index < bits.length; index++) {
    eachBit(bits[index] ?? 0, first + (index % words) * 32, (actor) => {
      counts[actor] = (counts[actor] ?? 0) + 1
    })
  }
}

/** How many bits of a word are set. */
export function bitCount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** Calls `visit` with `first` plus the place of each bit that is set. */
export function eachBit(word: number, first: number, visit: (actor: number) => void): void {
  let left = word
  while (left !== 0) {
    const place = 31 - Math.clz32(left & -left)
    visit(first + place)
    left &= left - 1
  }
}

/** Whether a single event decides. */
export function isPlain(test: CountTest | null): boolean {
  return test === null || (test.operator === 'gte' && test.value <= 1)
}

/** How many events of an actor make a period count; one without events never does. */
export function timesWanted(test: CountTest | null) {
  const { operator, value } = test ?? ONCE
  return {
    least: operator === 'lte' ? 1 : Math.max(1, value),
    most: operator === 'gte' ? Number.POSITIVE_INFINITY : value,
  }
}

const ONCE: CountTest = { operator: 'gte', value: 1 }

/** Whether it makes no difference how many more than 255 there are. */
function isSmall(test: CountTest | null): boolean {
  return test !== null && test.value < 255
}

/** Null: no counts are needed. Small ones stop at 255. */
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
