/**
 * Events gathered by session and value, and what is counted of the groups for each value and range. Events
 * without a session are gathered by person.
 */
import { largestPerson } from '../../analytics/actor-page.ts'
import { rowsByActor } from '../../analytics/actor-rows.ts'
import type { EventScanner } from '../../analytics/event-columns.ts'
import {
  type Candidates,
  type CandidateWish,
  CURRENT,
  PREVIOUS,
  type WebEvents,
} from './candidates.ts'

/** Rows between two looks at the limits of a query. */
const CHECK_EVERY = 65_536
/** Groups of one session that are tried one after the other; those of one with more are looked up. */
const TRIED_GROUPS = 32
/** Memory of a group without its events. */
const GROUP_BYTES = 13
const RANGES = [CURRENT, PREVIOUS] as const

type Limits = Pick<EventScanner, 'checkLimits'>

/** Which events to take, of which no value is read. */
export type PlainWish = Omit<CandidateWish, 'values'>

/** Groups, one row each. */
export interface Groups {
  readonly count: number
  /** Number of the session, 0 for none. */
  readonly sessions: Uint32Array
  /** P of its first event. */
  readonly persons: Uint32Array
  readonly values: Uint32Array
  /** Bits of the ranges in which it counts. */
  readonly ranges: Uint8Array
  /** Events of each series. */
  readonly events: readonly Uint32Array[]
  /** Memory. */
  readonly bytes: number
}

/** A number for each value: in the current range, and in the previous one. */
export type ByRange = readonly [current: Float64Array, previous: Float64Array]

/** What is summed: rows with a value, and the ranges in which each counts. */
export type Summed = Pick<Groups, 'count' | 'values' | 'ranges'>

/**
 * Gathers the events that count and whose value, by number, is not 0; `values` null: all have the same.
 * Linear.
 */
export function groupsOf(
  candidates: Candidates,
  values: Uint32Array | null,
  seriesCount: number,
  limits: Limits,
): Groups {
  const { count, timesMs, sequences, persons, seriesMasks, sessions, ranges } = candidates
  const groups = emptyGroups(count, seriesCount)
  const finder = new GroupFinder(groups.values, sessions, persons, count)
  const firstRows = new Uint32Array(count)
  for (let row = 0; row < count; row++) {
    if (row % CHECK_EVERY === 0) limits.checkLimits()
    const value = values === null ? 1 : (values[row] ?? 0)
    if (ranges[row] === 0 || value === 0) continue
    const known = finder.count
    const group = finder.groupOf(row, value)
    if (group === known) {
      groups.sessions[group] = sessions[row] ?? 0
      groups.ranges[group] = ranges[row] ?? 0
      firstRows[group] = row
    } else {
      const first = firstRows[group] ?? 0
      const timeMs = timesMs[row] ?? 0
      const firstMs = timesMs[first] ?? 0
      const isEarlier =
        timeMs < firstMs || (timeMs === firstMs && (sequences[row] ?? 0) < (sequences[first] ?? 0))
      if (isEarlier) firstRows[group] = row
    }
    const mask = seriesMasks[row] ?? 0
    for (let series = 0; series < seriesCount; series++) {
      const events = groups.events[series]
      if (events !== undefined && (mask & (1 << series)) !== 0) {
        events[group] = (events[group] ?? 0) + 1
      }
    }
  }
  for (let group = 0; group < finder.count; group++) {
    groups.persons[group] = persons[firstRows[group] ?? 0] ?? 0
  }
  const { count: size } = finder
  return {
    count: size,
    bytes: size * (GROUP_BYTES + seriesCount * Uint32Array.BYTES_PER_ELEMENT),
    sessions: groups.sessions.slice(0, size),
    persons: groups.persons.slice(0, size),
    values: groups.values.slice(0, size),
    ranges: groups.ranges.slice(0, size),
    events: groups.events.map((numbers) => numbers.slice(0, size)),
  }
}

/** Groups of one value each with the value of their session in its place; 0: left out. */
export function withSessionValues(groups: Groups, valueOfSession: Uint32Array): Groups {
  const values = groups.sessions.map((session) =>
    session === 0 ? 0 : (valueOfSession[session] ?? 0),
  )
  // Nothing of a group counts in no range.
  const ranges = groups.ranges.map((range, group) => (values[group] === 0 ? 0 : range))
  return { ...groups, values, ranges }
}

/**
 * The events of a wish by session, or else person, all with the value 1. Remembered: tables that are shown
 * together split the same groups.
 */
export function plainGroups(events: WebEvents, wish: PlainWish): Groups {
  return events.remembered(['groups', wish], () => {
    const candidates = events.candidates({ ...wish, values: [] })
    return groupsOf(candidates, null, wish.series.length, events.shard.scanner)
  })
}

/** Gives a number to each pair of a session, or else person, and a value. */
class GroupFinder {
  /** Pairs so far. */
  count = 0
  readonly #values: Uint32Array
  readonly #sessions: Uint32Array
  readonly #persons: Uint32Array
  /** Those without a session have their numbers behind all sessions. */
  readonly #firstPerson: number
  /** Of each session the last group plus one, and of each group the one before it. */
  readonly #last: Uint32Array
  readonly #before: Uint32Array
  readonly #many = new Map<number, Map<number, number>>()

  /** `values` gets the value of each group. */
  constructor(values: Uint32Array, sessions: Uint32Array, persons: Uint32Array, count: number) {
    this.#values = values
    this.#sessions = sessions
    this.#persons = persons
    this.#firstPerson = largestPerson(sessions, count)
    this.#last = new Uint32Array(this.#firstPerson + largestPerson(persons, count) + 1)
    this.#before = new Uint32Array(count)
  }

  groupOf(row: number, value: number): number {
    const session = this.#sessions[row] ?? 0
    const owner = session === 0 ? this.#firstPerson + (this.#persons[row] ?? 0) : session
    let group = this.#last[owner] ?? 0
    let tried = 0
    while (group !== 0 && this.#values[group - 1] !== value && ++tried < TRIED_GROUPS) {
      group = this.#before[group - 1] ?? 0
    }
    if (tried === TRIED_GROUPS) return this.#lookUp(owner, value)
    if (group !== 0) return group - 1
    return this.#add(owner, value)
  }

  #add(owner: number, value: number): number {
    const group = this.count++
    this.#values[group] = value
    this.#before[group] = this.#last[owner] ?? 0
    this.#last[owner] = group + 1
    return group
  }

  /** All groups of an owner with many, those of before too. */
  #lookUp(owner: number, value: number): number {
    let known = this.#many.get(owner)
    if (known === undefined) {
      known = new Map()
      for (let group = this.#last[owner] ?? 0; group !== 0; group = this.#before[group - 1] ?? 0) {
        known.set(this.#values[group - 1] ?? 0, group - 1)
      }
      this.#many.set(owner, known)
    }
    const group = known.get(value) ?? this.#add(owner, value)
    known.set(value, group)
    return group
  }
}

/** Different persons of the groups of each value below `size`; with a series only of those with events of it. */
export function personsOf(groups: Groups, size: number, series: number | null): ByRange {
  const { count, persons, values, ranges, events } = groups
  const wanted = series === null ? null : (events[series] ?? null)
  const { keys, starts, rows } = rowsByActor(persons, count)
  return inBoth(groups, size, (numbers, range) => {
    // Of each value the last person that was counted.
    const counted = new Uint32Array(size)
    for (let actor = 0; actor < keys.length; actor++) {
      const person = keys[actor] ?? 0
      const end = starts[actor + 1] ?? 0
      for (let index = starts[actor] ?? 0; index < end; index++) {
        const group = rows[index] ?? 0
        if (((ranges[group] ?? 0) & range) === 0 || wanted?.[group] === 0) continue
        const value = values[group] ?? 0
        if (counted[value] === person) continue
        counted[value] = person
        numbers[value] = (numbers[value] ?? 0) + 1
      }
    }
  })
}

/** For each value below `size` how many rows there are. */
export function countOf(summed: Summed, size: number): ByRange {
  return sumOf(summed, size, () => 1)
}

/** For each value below `size` the sum of what rows have; NaN is left out. */
export function sumOf(summed: Summed, size: number, numberOf: (row: number) => number): ByRange {
  const { count, values, ranges } = summed
  return inBoth(summed, size, (sums, range) => {
    for (let row = 0; row < count; row++) {
      if (((ranges[row] ?? 0) & range) === 0) continue
      const number = numberOf(row)
      const value = values[row] ?? 0
      if (!Number.isNaN(number)) sums[value] = (sums[value] ?? 0) + number
    }
  })
}

/** The same as a mean, NaN where nothing was summed. */
export function meanOf(summed: Summed, size: number, numberOf: (row: number) => number): ByRange {
  const sums = sumOf(summed, size, numberOf)
  const counts = sumOf(summed, size, (row) => (Number.isNaN(numberOf(row)) ? Number.NaN : 1))
  return [quotient(sums[0], counts[0]), quotient(sums[1], counts[1])]
}

/** NaN where it is divided by 0. */
export function quotient(numbers: Float64Array, divisors: Float64Array): Float64Array {
  return numbers.map((number, value) =>
    divisors[value] === 0 ? Number.NaN : number / (divisors[value] ?? 1),
  )
}

/** `add` is called for each range in which something counts. */
function inBoth(
  { count, ranges }: Summed,
  size: number,
  add: (numbers: Float64Array, range: number) => void,
): ByRange {
  const found: ByRange = [new Float64Array(size), new Float64Array(size)]
  let bits = 0
  for (let row = 0; row < count; row++) bits |= ranges[row] ?? 0
  for (const [place, range] of RANGES.entries()) {
    const numbers = found[place]
    if (numbers !== undefined && (bits & range) !== 0) add(numbers, range)
  }
  return found
}

function emptyGroups(size: number, seriesCount: number): Omit<Groups, 'count' | 'bytes'> {
  return {
    sessions: new Uint32Array(size),
    persons: new Uint32Array(size),
    values: new Uint32Array(size),
    ranges: new Uint8Array(size),
    events: Array.from({ length: seriesCount }, () => new Uint32Array(size)),
  }
}
