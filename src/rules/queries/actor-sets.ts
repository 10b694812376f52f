/**
 * Sets of actors: which actors had events in each period. An actor is a number: a distinct ID number, a person number,
 * or a number that a query assigned. Sets of distinct ID numbers do not depend on the owners, so they can be computed
 * for separate events, merged, and cached while persons are merged and split (owner-sets.ts).
 *
 *     actor      1 2 3 4 5 6 7 8 ...
 *     Monday     0 1 1 0 0 0 0 1      a set as bits
 *     Tuesday    5                    a set as a list, where bits would take more memory
 *     Wednesday  null                 an empty set
 *
 * The sets of a series take at most 8 MiB, or about 4 bytes for each event.
 */
import type { DateRange } from '../analytics/date-range.ts'
import { inOwnMemory, withRoom } from '../analytics/growing-arrays.ts'
import { onlyPeriod, type Periods } from '../analytics/periods.ts'
import { PacedLimits, type QueryLimits } from './paced-limits.ts'
import { type QueryScan, type QueryShard, scanShardPieces } from './query-kind.ts'

/** A set. It is plain data, and never changes. */
export interface ActorSet {
  /** If true, `words` lists the numbers, each once, in any order. Otherwise number n is bit n % 32 of word n / 32. */
  readonly isList: boolean
  readonly words: Uint32Array
  /** The number of words that bits of all numbers take. */
  readonly bitWords: number
}

/** A set for each period. Null is an empty set. */
export type ActorSets = readonly (ActorSet | null)[]

/** The events of actors, as parallel lists. */
export interface ActorEvents {
  readonly count: number
  /** The actor of each event, from 1. 0 means nobody. */
  readonly actors: Uint32Array
  readonly timesMs: Float64Array
  /** The series of each event. Bit i means series i. */
  readonly seriesMasks: Uint32Array
}

/** The condition on the number of an actor's events in a period for the period to count. */
export interface CountTest {
  readonly operator: 'gte' | 'lte' | 'exact'
  readonly value: number
}

/** Bits of actors whose numbers are adjacent. */
export interface ActorStretch {
  /** The number of 32-bit words of a row of bits. */
  readonly words: number
  /** Returns the actor of a bit of a row. */
  actorAt(place: number): number
}

/** Rows between two looks at the limits of a query. */
const CHECK_EVERY = 65_536
/** If bits of all sets of a series take at most this number of words (8 MiB), no set begins as a list. */
const FEW_WORDS = 1 << 21
/** The number of 32-bit words of bits that `eachStretch` uses at a time: 32 MiB. */
const STRETCH_WORDS = 1 << 23

/** Returns whether a single event decides. */
export function isPlain(test: CountTest | null): boolean {
  return test === null || (test.operator === 'gte' && test.value <= 1)
}

/**
 * Returns the sets of each series of a scan, by distinct ID number. If `periods` is null, there is a single period that
 * contains all times. Throws as `EventScanner.scan`. The cost is linear in the events.
 */
export function scanSets(
  shard: QueryShard,
  scan: QueryScan,
  periods: Periods | null,
): readonly ActorSets[] {
  const { lastDistinctId } = shard.scanner.extent(shard.context.projectId)
  const count = periods?.count ?? 1
  const found = scan.series.map(() => new GrowingSets(count, wordsOf(lastDistinctId)))
  const onlyOf = (within: DateRange) => (periods === null ? 0 : onlyPeriod(periods, within))
  const looksAt = (within: DateRange) =>
    found.length === 1 && onlyOf(within) !== null ? 'persons' : 'all'
  scanShardPieces(shard, { ...scan, looksAt, areIds: true }, (piece, within) => {
    const { count: rows, persons: actors, timesMs, seriesMasks } = piece
    const events = { count: rows, actors, timesMs, seriesMasks }
    const only = onlyOf(within)
    for (const [series, sets] of found.entries()) {
      const mask = found.length === 1 ? null : 1 << series
      if (only !== null) addAll(events, mask, sets.at(only))
      else if (periods !== null) addByPeriod(events, periods, mask, sets, null)
    }
  })
  shard.scanner.giveBack()
  return found.map((sets) => asPart(sets.finish()))
}

/**
 * Returns the actors of events with one of the bits of `mask`. If it is null, all events count, and `seriesMasks` is
 * not read. An actor is in the set of a period if the number of its events there passes `test`. If `periods` is null,
 * there is a single period that contains all times. `lastActor` is the largest number of an actor. Throws as
 * `EventScanner.checkLimits`. The cost is linear in the events.
 */
export function setsOfEvents(
  events: ActorEvents,
  periods: Periods | null,
  mask: number | null,
  test: CountTest | null,
  lastActor: number,
  limits: QueryLimits,
): ActorSets {
  const tested = isPlain(test) ? null : test
  const sets = new GrowingSets(periods?.count ?? 1, wordsOf(lastActor), tested)
  if (periods === null) addAll(events, mask, sets.at(0))
  else addByPeriod(events, periods, mask, sets, limits)
  return sets.finish()
}

/** Merges sets of separate events. A set that is the only one of its period is reused. Throws as `setsOfEvents`. */
export function mergeSets(parts: readonly ActorSets[], limits: QueryLimits): ActorSets {
  const [first = []] = parts
  if (parts.length === 1) return first
  const pace = new PacedLimits(limits)
  const scratch = new Scratch()
  const merged = first.map((_, period) => {
    const [one = null, ...others] = parts
      .map((part) => part[period] ?? null)
      .filter((set) => set !== null)
    if (one === null || others.length === 0) return one
    const all = [one, ...others]
    const growing = new GrowingSet(Math.max(...all.map(({ bitWords }) => bitWords)), null)
    for (const set of all) {
      pace.count(set.words.length)
      growing.addSet(set)
    }
    return growing.finish(scratch)
  })
  return asPart(merged)
}

/** Marks the memory of all sets, which may be transferred to another thread. */
function asPart(sets: ActorSets): ActorSets {
  for (const set of sets) if (set !== null) inOwnMemory(set.words)
  return sets
}

/** Returns the number of actors in a set. */
export function sizeOf(set: ActorSet | null): number {
  if (set === null) return 0
  const { isList, words } = set
  return isList ? words.length : bitsIn(words)
}

/** Returns the number of words that bits of the actors of all sets take. */
function wordsOfSets(...all: readonly ActorSets[]): number {
  let words = 1
  for (const sets of all) {
    for (const set of sets) if (set !== null && set.bitWords > words) words = set.bitWords
  }
  return words
}

/** Returns the number of sets that each actor is in, by the number of the actor. */
export function periodCounts(sets: ActorSets, limits: QueryLimits): Uint32Array {
  const counts = new Uint32Array(wordsOfSets(sets) * 32)
  const pace = new PacedLimits(limits)
  for (const set of sets) {
    if (set === null) continue
    pace.count(set.words.length)
    eachActor(set, (actor) => {
      counts[actor] = (counts[actor] ?? 0) + 1
    })
  }
  return counts
}

/**
 * Returns, at index k, the number of actors that are in exactly k sets, for k of at least one. For bits, it takes a few
 * steps for 32 actors and each set.
 */
export function lengthCounts(sets: ActorSets, limits: QueryLimits): Uint32Array {
  const counts = new Uint32Array(sets.length + 1)
  const rows = sets.filter((set) => set !== null)
  if (rows.some(({ isList }) => isList)) {
    for (const count of periodCounts(sets, limits)) {
      if (count > 0) counts[count] = (counts[count] ?? 0) + 1
    }
    return counts
  }
  const pace = new PacedLimits(limits)
  const digits = 32 - Math.clz32(rows.length)
  const words = wordsOfSets(sets)
  // 32 numbers side by side: digit i of each is in word i.
  const sums = new Uint32Array(digits)
  for (let word = 0; word < words; word++) {
    pace.count(rows.length)
    sums.fill(0)
    for (const row of rows) {
      let carry = row.words[word] ?? 0
      for (let digit = 0; carry !== 0; digit++) {
        const sum = sums[digit] ?? 0
        sums[digit] = sum ^ carry
        carry &= sum
      }
    }
    addEqual(sums, digits, 0, -1, counts)
  }
  counts[0] = 0
  return counts
}

/** Counts those of `among`, whose digits from `digit` on are those of `number`, by all of their digits. */
function addEqual(
  sums: Uint32Array,
  digit: number,
  number: number,
  among: number,
  counts: Uint32Array,
): void {
  if (among === 0) return
  if (digit === 0) {
    counts[number] = (counts[number] ?? 0) + bitCount(among)
    return
  }
  const sum = sums[digit - 1] ?? 0
  addEqual(sums, digit - 1, number, among & ~sum, counts)
  addEqual(sums, digit - 1, number | (1 << (digit - 1)), among & sum, counts)
}

/**
 * Returns, for each period in `lastPeriods`, the number of actors in the sets of the `length` periods up to and
 * including it. The number is 0 for an entry that is not a period. Throws as `EventScanner.checkLimits`.
 */
export function activeCounts(
  sets: ActorSets,
  { length, lastPeriods }: { readonly length: number; readonly lastPeriods: Uint32Array },
  limits: QueryLimits,
): readonly number[] {
  const pace = new PacedLimits(limits)
  /** The number of sets of the window that each actor is in. */
  const times = new Uint32Array(wordsOfSets(sets) * 32)
  let active = 0
  const enter = (actor: number): void => {
    const before = times[actor] ?? 0
    if (before === 0) active++
    times[actor] = before + 1
  }
  const leave = (actor: number): void => {
    const after = (times[actor] ?? 0) - 1
    if (after === 0) active--
    times[actor] = after
  }
  const actives = sets.map((set, period) => {
    const left = sets[period - length] ?? null
    pace.count((set?.words.length ?? 0) + (left?.words.length ?? 0))
    if (set !== null) eachActor(set, enter)
    if (left !== null) eachActor(left, leave)
    return active
  })
  return Array.from(lastPeriods, (last) => actives[last] ?? 0)
}

/** Returns the number of actors that are in each set, and in none before it. */
export function firstCounts(sets: ActorSets): readonly number[] {
  const seen = new Uint32Array(wordsOfSets(sets))
  return sets.map((set) => (set === null ? 0 : addFresh(set, seen)))
}

/** Sets the bits of a set, and returns how many were not set before. */
function addFresh({ isList, words }: ActorSet, bits: Uint32Array): number {
  let count = 0
  for (let index = 0; index < words.length; index++) {
    const number = words[index] ?? 0
    const word = isList ? number >>> 5 : index
    const before = bits[word] ?? 0
    const fresh = (isList ? 1 << (number & 31) : number) & ~before
    if (fresh === 0) continue
    bits[word] = before | fresh
    count += bitCount(fresh)
  }
  return count
}

/**
 * Calls `visit` with the bits of all actors, for as many actors at a time as fit into memory. There is a list of bits
 * for each of `all`; in it, the bits of period i begin at word `i * words`. If there are many periods and actors,
 * actors are numbered without gaps. Throws as `EventScanner.checkLimits`.
 */
export function eachStretch(
  all: readonly ActorSets[],
  limits: QueryLimits,
  visit: (bits: readonly Uint32Array[], stretch: ActorStretch) => void,
): void {
  const pace = new PacedLimits(limits)
  const words = wordsOfSets(...all)
  const different = [...new Set(all)]
  const rows = different.reduce((sum, sets) => sum + sets.length, 0)
  const visitBits = (flat: readonly Uint32Array[], stretch: ActorStretch): void => {
    const bits = all.map((sets) => flat[different.indexOf(sets)] ?? NO_WORDS)
    visit(bits, stretch)
  }
  if (rows * words <= STRETCH_WORDS) {
    const flat = different.map((sets) => {
      const bits = new Uint32Array(sets.length * words)
      for (const [period, set] of sets.entries()) {
        pace.count(words)
        if (set !== null) addBits(set, bits, period * words)
      }
      return bits
    })
    visitBits(flat, { words, actorAt: (place) => place })
    return
  }
  const { actors, placeOf } = numberedActors(different, words, pace)
  const wordsAll = Math.ceil(actors.length / 32)
  const wordsEach = Math.max(1, Math.min(wordsAll, Math.floor(STRETCH_WORDS / rows)))
  for (let word = 0; word < wordsAll; word += wordsEach) {
    const first = word * 32
    const flat = different.map((sets) => {
      const bits = new Uint32Array(sets.length * wordsEach)
      for (const [period, set] of sets.entries()) {
        if (set === null) continue
        pace.count(set.words.length)
        eachActor(set, (actor) => {
          const place = (placeOf[actor] ?? 0) - first
          if (place < 0 || place >= wordsEach * 32) return
          const at = period * wordsEach + (place >>> 5)
          bits[at] = (bits[at] ?? 0) | (1 << (place & 31))
        })
      }
      return bits
    })
    visitBits(flat, { words: wordsEach, actorAt: (place) => actors[first + place] ?? 0 })
  }
}

/** Returns the actors of all sets, ascending, and the position of each by its number. */
function numberedActors(all: readonly ActorSets[], words: number, pace: PacedLimits) {
  const union = new Uint32Array(words)
  for (const set of all.flat()) {
    if (set === null) continue
    pace.count(set.words.length)
    addBits(set, union, 0)
  }
  const actors = new Uint32Array(bitsIn(union))
  const placeOf = new Uint32Array(words * 32)
  let count = 0
  eachActor({ isList: false, words: union, bitWords: words }, (actor) => {
    placeOf[actor] = count
    actors[count++] = actor
  })
  return { actors, placeOf }
}

/** Returns the number of bits of a word that are set. */
export function bitCount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** Calls `visit` with `first` plus the position of each bit that is set. */
export function eachBit(word: number, first: number, visit: (number: number) => void): void {
  let left = word
  while (left !== 0) {
    const place = 31 - Math.clz32(left & -left)
    visit(first + place)
    left &= left - 1
  }
}

/** Calls `visit` with each actor of a set. */
function eachActor({ isList, words }: ActorSet, visit: (actor: number) => void): void {
  if (isList) for (let index = 0; index < words.length; index++) visit(words[index] ?? 0)
  else for (let word = 0; word < words.length; word++) eachBit(words[word] ?? 0, word * 32, visit)
}

/** Sets the bits of a set, in the words from `start` on. */
function addBits({ isList, words }: ActorSet, bits: Uint32Array, start: number): void {
  if (isList) {
    for (let index = 0; index < words.length; index++) {
      const actor = words[index] ?? 0
      const at = start + (actor >>> 5)
      bits[at] = (bits[at] ?? 0) | (1 << (actor & 31))
    }
    return
  }
  for (let word = 0; word < words.length; word++) {
    bits[start + word] = (bits[start + word] ?? 0) | (words[word] ?? 0)
  }
}

function bitsIn(words: Uint32Array): number {
  let sum = 0
  for (let word = 0; word < words.length; word++) sum += bitCount(words[word] ?? 0)
  return sum
}

const NO_WORDS = new Uint32Array(0)

function wordsOf(lastActor: number): number {
  return (lastActor >>> 5) + 1
}

/** Memory that is 0 between two uses, so that it need not be allocated for every set. */
export class Scratch {
  #words = NO_WORDS

  /** Returns at least `length` words. */
  words(length: number): Uint32Array {
    this.#words = withRoom(this.#words, length - 1)
    return this.#words
  }
}

/** A set while numbers are added. */
export class GrowingSet {
  readonly #bitWords: number
  readonly #test: CountTest | null
  /** Null while the set is a list. */
  #bits: Uint32Array | null = null
  /** May contain duplicates. */
  #list = NO_WORDS
  #length = 0

  /**
   * Bits take `bitWords` words. `test` decides how often a number must be added. Null means once. If `areBits` is true,
   * the set does not begin as a list.
   */
  constructor(bitWords: number, test: CountTest | null, areBits = false) {
    this.#bitWords = bitWords
    this.#test = test
    if (test === null && areBits) this.#makeBits()
  }

  /** The bits, to which numbers may be added directly. Null means that `add` must be called. */
  get bits(): Uint32Array | null {
    return this.#bits
  }

  add(actor: number): void {
    const bits = this.#bits
    if (bits !== null) bits[actor >>> 5] = (bits[actor >>> 5] ?? 0) | (1 << (actor & 31))
    else if (actor !== 0) this.#push(actor)
  }

  addSet(set: ActorSet): void {
    if (!set.isList) addBits(set, this.#bits ?? this.#makeBits(), 0)
    else for (let index = 0; index < set.words.length; index++) this.add(set.words[index] ?? 0)
  }

  /** Returns the set, or null if it is empty. Nothing may be added afterwards. */
  finish(scratch: Scratch): ActorSet | null {
    if (this.#test !== null) return this.#tested(this.#test, scratch)
    const bitWords = this.#bitWords
    if (this.#bits !== null) {
      // Nobody.
      this.#bits[0] = (this.#bits[0] ?? 0) & ~1
      return { isList: false, words: this.#bits, bitWords }
    }
    if (this.#length === 0) return null
    const seen = scratch.words(bitWords)
    const list = this.#list
    let count = 0
    for (let index = 0; index < this.#length; index++) {
      const actor = list[index] ?? 0
      const word = seen[actor >>> 5] ?? 0
      if (((word >>> (actor & 31)) & 1) === 1) continue
      seen[actor >>> 5] = word | (1 << (actor & 31))
      list[count++] = actor
    }
    for (let index = 0; index < count; index++) seen[(list[index] ?? 0) >>> 5] = 0
    return { isList: true, words: list.slice(0, count), bitWords }
  }

  /** Returns the set of the numbers that were added as often as the test demands. */
  #tested(test: CountTest, scratch: Scratch): ActorSet | null {
    const { operator, value } = test
    // A period without events never counts.
    const least = operator === 'lte' ? 1 : Math.max(1, value)
    const most = operator === 'gte' ? Number.POSITIVE_INFINITY : value
    const times = scratch.words(this.#bitWords * 32)
    const list = this.#list.subarray(0, this.#length)
    for (const actor of list) times[actor] = (times[actor] ?? 0) + 1
    const passing = new GrowingSet(this.#bitWords, null)
    let isEmpty = true
    for (const actor of list) {
      const count = times[actor] ?? 0
      times[actor] = 0
      if (count < least || count > most) continue
      passing.add(actor)
      isEmpty = false
    }
    return isEmpty ? null : passing.finish(scratch)
  }

  #push(actor: number): void {
    if (this.#test === null && this.#length >= this.#bitWords) {
      this.#makeBits()
      this.add(actor)
      return
    }
    this.#list = withRoom(this.#list, this.#length)
    this.#list[this.#length++] = actor
  }

  /** The list becomes bits as soon as it would take more memory. */
  #makeBits(): Uint32Array {
    const bits = new Uint32Array(this.#bitWords)
    this.#bits = bits
    for (let index = 0; index < this.#length; index++) this.add(this.#list[index] ?? 0)
    this.#list = NO_WORDS
    return bits
  }
}

/** The sets of one series while events are read. Each is made when somebody is in it. */
class GrowingSets {
  readonly #sets: (GrowingSet | null)[]
  readonly #bitWords: number
  readonly #test: CountTest | null

  constructor(periods: number, bitWords: number, test: CountTest | null = null) {
    this.#sets = Array.from({ length: periods }, () => null)
    this.#bitWords = bitWords
    this.#test = test
  }

  at(period: number): GrowingSet {
    const known = this.#sets[period] ?? null
    if (known !== null) return known
    const areBits = this.#sets.length * this.#bitWords <= FEW_WORDS
    const set = new GrowingSet(this.#bitWords, this.#test, areBits)
    this.#sets[period] = set
    return set
  }

  finish(): ActorSets {
    const scratch = new Scratch()
    return this.#sets.map((set) => set?.finish(scratch) ?? null)
  }
}

/** Adds the actors of all rows, or of those with a bit of `mask`. */
function addAll({ count, actors, seriesMasks }: ActorEvents, mask: number | null, set: GrowingSet) {
  let { bits } = set
  for (let row = 0; row < count; row++) {
    if (mask !== null && ((seriesMasks[row] ?? 0) & mask) === 0) continue
    const actor = actors[row] ?? 0
    if (bits !== null) bits[actor >>> 5] = (bits[actor >>> 5] ?? 0) | (1 << (actor & 31))
    else {
      set.add(actor)
      bits = set.bits
    }
  }
}

function addByPeriod(
  { count, actors, timesMs, seriesMasks }: ActorEvents,
  periods: Periods,
  mask: number | null,
  sets: GrowingSets,
  limits: QueryLimits | null,
): void {
  // Neighbours mostly lie in the same period.
  let startMs = 0
  let endMs = 0
  let set: GrowingSet | null = null
  let bits: Uint32Array | null = null
  for (let row = 0; row < count; row++) {
    if (limits !== null && row % CHECK_EVERY === 0) limits.checkLimits()
    if (mask !== null && ((seriesMasks[row] ?? 0) & mask) === 0) continue
    const timeMs = timesMs[row] ?? 0
    if (timeMs < startMs || timeMs >= endMs) {
      const period = periods.indexOf(timeMs)
      startMs = period < 0 ? 0 : periods.startMs(period)
      endMs = period < 0 ? 0 : periods.startMs(period + 1)
      set = period < 0 ? null : sets.at(period)
      bits = set?.bits ?? null
    }
    const actor = actors[row] ?? 0
    if (bits !== null) bits[actor >>> 5] = (bits[actor >>> 5] ?? 0) | (1 << (actor & 31))
    else if (set !== null) {
      set.add(actor)
      bits = set.bits
    }
  }
}
