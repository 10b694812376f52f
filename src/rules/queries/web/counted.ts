/**
 * For each value and range, computes sums over events and sessions, and finds the different persons. The results are
 * plain data. The results of several threads can be merged if no two threads count the same session.
 */
import { rowsByActor } from '../../analytics/actor-rows.ts'
import type { EventScanner } from '../../analytics/event-columns.ts'
import { grown } from '../../analytics/growing-arrays.ts'
import { CURRENT, PREVIOUS } from './candidates.ts'
import { Labels } from './columns.ts'
import type { WebRows } from './rows.ts'

/** The limits of a query are checked once for this number of rows. */
const CHECK_EVERY = 65_536
/**
 * The bits of `Persons` for one person and value: bits 0 and 1 are the ranges in which the person occurs. These bits
 * shifted by `GOAL_SHIFT` are the ranges in which the person met the goal.
 */
const GOAL_SHIFT = 2
/** The bit that is set if the person has events without a session. */
const SESSIONLESS = 16
/** The bit of the series whose events meet the goal. */
const GOAL = 2

type Limits = Pick<EventScanner, 'checkLimits'>

/** A number for each value: in the current range, and in the previous one. */
export type ByRange = readonly [current: Float64Array, previous: Float64Array]

/** The different persons of each value, as parallel lists in ascending order of the person. */
interface Persons {
  readonly persons: Uint32Array
  readonly values: Uint32Array
  readonly bits: Uint8Array
}

/** The counts by value. */
export interface Counted {
  /** The values without duplicates. Position 0 means no value. */
  readonly values: readonly unknown[]
  /**
   * The sums by name: `events 0` for the events of the first series and so on, `sessions` for the number of sessions,
   * and, under other names, sums of numbers over sessions.
   */
  readonly sums: Readonly<Record<string, ByRange>>
  /** The persons of each value. */
  readonly persons: Persons
}

/**
 * For each name, the numbers to sum over sessions: entry i is the number of session i. It is added once to each value
 * that the session has. NaN is left out.
 */
export type OfSessions = Readonly<Record<string, Float64Array>>

/** The empty list of persons. */
export const NOBODY: Persons = {
  persons: new Uint32Array(0),
  values: new Uint32Array(0),
  bits: new Uint8Array(0),
}

/** Events, and the values by which to count them. */
export interface Countable {
  readonly rows: WebRows
  /**
   * For each row, the bits of the ranges in which it counts (`CURRENT`, `PREVIOUS`). They are the same for all rows of
   * a session.
   */
  readonly ranges: Uint8Array
  /** For each row, the number of its value. 0 means that the row does not count. */
  readonly ids: Uint32Array
  readonly values: readonly unknown[]
  readonly seriesCount: number
}

/** Counts events in one pass. `ofSessions` contains the numbers to sum over sessions. */
export function counted(
  { rows, ranges, ids, values, seriesCount }: Countable,
  ofSessions: OfSessions,
  limits: Limits,
): Counted {
  const { count, sessions, persons, masks } = rows
  const size = values.length
  const numbers = Object.entries(ofSessions).map(([name, of]) => ({
    name,
    of,
    sum: byRange(size),
    count: byRange(size),
  }))
  const events = Array.from({ length: seriesCount }, () => byRange(size))
  const currentEvents = events.map(([current]) => current)
  const previousEvents = events.map(([, previous]) => previous)
  const groups = byRange(size)
  const people = new PersonList(size)
  /**
   * For each value, the owner that was counted last, and the person of the owner's first event with this value. An
   * owner is a session, or a person whose events have no session. Owners are numbered from 1.
   */
  const lastOwner = new Uint32Array(size)
  const personOf = new Uint32Array(size)
  let owner = 0
  let session = 0
  let person = 0
  for (let row = 0; row < count; row++) {
    if (row % CHECK_EVERY === 0) limits.checkLimits()
    const sessionHere = sessions[row] ?? 0
    const personHere = persons[row] ?? 0
    const isSame = sessionHere === session && (session !== 0 || personHere === person)
    if (!isSame || owner === 0) owner++
    session = sessionHere
    person = personHere
    const range = ranges[row] ?? 0
    const value = ids[row] ?? 0
    if (range === 0 || value === 0) continue
    if (lastOwner[value] !== owner) {
      lastOwner[value] = owner
      personOf[value] = person
      people.add(person, value, session === 0 ? range | SESSIONLESS : range)
      if (session !== 0) {
        add(groups, range, value, 1)
        for (let index = 0; index < numbers.length; index++) {
          const summed = numbers[index]
          const number = summed?.of[session] ?? Number.NaN
          if (summed === undefined || Number.isNaN(number)) continue
          add(summed.sum, range, value, number)
          add(summed.count, range, value, 1)
        }
      }
    }
    const mask = masks[row] ?? 0
    if ((range & CURRENT) !== 0) addMask(currentEvents, value, mask)
    if ((range & PREVIOUS) !== 0) addMask(previousEvents, value, mask)
    if ((mask & GOAL) !== 0) people.add(personOf[value] ?? 0, value, range << GOAL_SHIFT)
  }
  return {
    values,
    sums: {
      sessions: groups,
      ...Object.fromEntries(events.map((sums, series) => [`events ${series}`, sums])),
      ...Object.fromEntries(numbers.map(({ name, sum }) => [name, sum])),
      ...Object.fromEntries(numbers.map(({ name, count }) => [`${name} count`, count])),
    },
    persons: people.finish(),
  }
}

/** Counts sessions one by one, all under the value ''. The result is the same as if `counted` counted their events. */
export class SessionTally {
  readonly #sessions = byRange(2)
  readonly #views = byRange(2)
  readonly #durations = byRange(2)
  readonly #bounces = byRange(2)
  readonly #people = new PersonList(2)

  /** Adds a session that has views. `range` contains the bits of the ranges in which it begins. */
  add(range: number, person: number, views: number, durationS: number, isBounce: boolean): void {
    add(this.#sessions, range, 1, 1)
    add(this.#views, range, 1, views)
    add(this.#durations, range, 1, durationS)
    if (isBounce) add(this.#bounces, range, 1, 1)
    this.#people.add(person, 1, range)
  }

  finish(): Counted {
    const sessions = this.#sessions
    return {
      values: [undefined, ''],
      sums: {
        sessions,
        'events 0': this.#views,
        duration: this.#durations,
        'duration count': sessions,
        bounces: this.#bounces,
        'bounces count': sessions,
      },
      persons: this.#people.finish(),
    }
  }
}

/**
 * Returns, for each value, the sum of the numbers of its rows, and how many of its rows have a number. A row has no
 * number if `numberOf` returns NaN. The sums are stored under `name`, and the numbers of rows under `name` followed by
 * ` count`.
 */
export function sumsOf(
  { rows, ranges, ids, values }: Omit<Countable, 'seriesCount'>,
  name: string,
  numberOf: (row: number) => number,
): Counted['sums'] {
  const [sums, counts] = [byRange(values.length), byRange(values.length)]
  for (let row = 0; row < rows.count; row++) {
    const number = numberOf(row)
    if (Number.isNaN(number)) continue
    add(sums, ranges[row] ?? 0, ids[row] ?? 0, number)
    add(counts, ranges[row] ?? 0, ids[row] ?? 0, 1)
  }
  return { [name]: sums, [`${name} count`]: counts }
}

/** Merges several counts, as if the events had been counted together. */
export function merged(parts: readonly Counted[]): Counted {
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : renamed(parts, (value) => value)
}

/**
 * Merges counts and replaces each value by the result of `nameOf`. The counts of a value are left out if `nameOf`
 * returns undefined.
 */
export function renamed(parts: readonly Counted[], nameOf: (value: unknown) => unknown): Counted {
  const labels = new Labels()
  const maps = parts.map(({ values }) =>
    Uint32Array.from(values, (value, id) => (id === 0 ? 0 : labels.idOf(nameOf(value)))),
  )
  const size = labels.values.length
  const sums: Record<string, ByRange> = {}
  for (const [index, part] of parts.entries()) {
    const ids = maps[index] ?? new Uint32Array(0)
    for (const [name, numbers] of Object.entries(part.sums)) {
      sums[name] ??= byRange(size)
      for (const place of [0, 1] as const) {
        const [from, to] = [numbers[place], sums[name][place]]
        for (let id = 1; id < from.length; id++) {
          const value = ids[id] ?? 0
          to[value] = (to[value] ?? 0) + (from[id] ?? 0)
        }
      }
    }
  }
  const lists = parts.map(({ persons }, index) => {
    const ids = maps[index]
    return { ...persons, values: persons.values.map((value) => ids?.[value] ?? 0) }
  })
  return { values: labels.values, sums, persons: together(lists, size) }
}

/** Merges lists of persons into one. All values are less than `size`. */
function together(lists: readonly Persons[], size: number): Persons {
  const people = new PersonList(size)
  const places = new Uint32Array(lists.length)
  for (;;) {
    let first = -1
    let person = Number.POSITIVE_INFINITY
    for (let list = 0; list < lists.length; list++) {
      const personHere = lists[list]?.persons[places[list] ?? 0] ?? Number.POSITIVE_INFINITY
      if (personHere >= person) continue
      first = list
      person = personHere
    }
    const list = lists[first]
    if (list === undefined) return people.finish()
    const place = places[first] ?? 0
    people.add(person, list.values[place] ?? 0, list.bits[place] ?? 0)
    places[first] = place + 1
  }
}

/** Returns the sums with a name. They are 0 if there are none with this name. */
export function sumOf({ sums, values }: Counted, name: string): ByRange {
  return sums[name] ?? byRange(values.length)
}

/**
 * Returns the mean of the numbers that were summed over sessions under `name`, for each value. It is NaN if no session
 * has a number.
 */
export function meanOf(found: Counted, name: string): ByRange {
  const [sums, counts] = [sumOf(found, name), sumOf(found, `${name} count`)]
  return [quotient(sums[0], counts[0]), quotient(sums[1], counts[1])]
}

/** Returns the number of different persons. */
export function visitorsOf(found: Counted): ByRange {
  return personsWith(found, CURRENT, PREVIOUS)
}

/** Returns the number of different persons who met the goal. */
export function convertedOf(found: Counted): ByRange {
  return personsWith(found, CURRENT << GOAL_SHIFT, PREVIOUS << GOAL_SHIFT)
}

/**
 * Returns, for each value, the number of sessions plus the number of persons without a session, in both ranges
 * together.
 */
export function groupsOf(found: Counted): Float64Array {
  const [current, previous] = sumOf(found, 'sessions')
  const groups = current.map((count, value) => count + (previous[value] ?? 0))
  const [sessionless] = personsWith(found, SESSIONLESS, 0)
  return groups.map((count, value) => count + (sessionless[value] ?? 0))
}

/** Returns the quotients. A division by 0 yields NaN. */
export function quotient(numbers: Float64Array, divisors: Float64Array): Float64Array {
  return numbers.map((number, value) =>
    divisors[value] === 0 ? Number.NaN : number / (divisors[value] ?? 1),
  )
}

function personsWith(found: Counted, current: number, previous: number): ByRange {
  const counts = byRange(found.values.length)
  const { values, bits } = found.persons
  for (let place = 0; place < values.length; place++) {
    const value = values[place] ?? 0
    const bit = bits[place] ?? 0
    if ((bit & current) !== 0) counts[0][value] = (counts[0][value] ?? 0) + 1
    if ((bit & previous) !== 0) counts[1][value] = (counts[1][value] ?? 0) + 1
  }
  return counts
}

function byRange(size: number): ByRange {
  return [new Float64Array(size), new Float64Array(size)]
}

function add(sums: ByRange, range: number, value: number, number: number): void {
  const current = sums[0]
  const previous = sums[1]
  if ((range & CURRENT) !== 0) current[value] = (current[value] ?? 0) + number
  if ((range & PREVIOUS) !== 0) previous[value] = (previous[value] ?? 0) + number
}

/** Adds one event to each series whose bit is set in the mask. */
function addMask(events: readonly Float64Array[], value: number, mask: number): void {
  for (let series = 0; series < events.length; series++) {
    const counts = events[series]
    if (counts !== undefined) counts[value] = (counts[value] ?? 0) + ((mask >>> series) & 1)
  }
}

/** A list of persons and values in the order in which they are added, which is nearly ascending by person. */
class PersonList {
  /** For each value, the index plus one of its last entry. */
  readonly #last: Uint32Array
  #persons = new Uint32Array(1024)
  #values = new Uint32Array(1024)
  #bits = new Uint8Array(1024)
  #count = 0
  #isSorted = true

  constructor(size: number) {
    this.#last = new Uint32Array(size)
  }

  add(person: number, value: number, bits: number): void {
    const last = (this.#last[value] ?? 0) - 1
    if (last >= 0 && this.#persons[last] === person) {
      this.#bits[last] = (this.#bits[last] ?? 0) | bits
      return
    }
    const place = this.#count++
    if (place === this.#persons.length) this.#enlarge()
    if (place > 0 && person < (this.#persons[place - 1] ?? 0)) this.#isSorted = false
    this.#persons[place] = person
    this.#values[place] = value
    this.#bits[place] = bits
    this.#last[value] = place + 1
  }

  /** Returns the list with each person once for each value. */
  finish(): Persons {
    const count = this.#count
    const [persons, values, bits] = [this.#persons, this.#values, this.#bits]
    if (this.#isSorted) {
      return {
        persons: persons.slice(0, count),
        values: values.slice(0, count),
        bits: bits.slice(0, count),
      }
    }
    const sorted = new PersonList(this.#last.length)
    for (const place of rowsByActor(persons, count).rows) {
      sorted.add(persons[place] ?? 0, values[place] ?? 0, bits[place] ?? 0)
    }
    return sorted.finish()
  }

  #enlarge(): void {
    const length = 2 * this.#persons.length
    this.#persons = grown(this.#persons, length)
    this.#values = grown(this.#values, length)
    this.#bits = grown(this.#bits, length)
  }
}
