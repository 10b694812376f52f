/**
 * The page of a result that a request wants, picked from all persons without sorting them all. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */

import type { ActorPage } from './analytic-query.ts'
import type { EventScanner } from './event-columns.ts'
import type { RowPage } from './question-shapes.ts'

/** What the order goes by, by P: the highest first, NaN last; null: the uuid alone. */
export type Scores = Float64Array | Uint32Array | null

/** Tells uuids apart. */
type UuidSource = Pick<EventScanner, 'uuidPrefix' | 'personUuid' | 'checkLimits'>

/** Persons of a page, in order. */
export interface PersonPage {
  /** P. */
  readonly persons: readonly number[]
  readonly isFull: boolean
  /** Persons of all pages. */
  readonly total: number
}

/** Persons between two looks at the limits of a query. */
const CHECK_EVERY = 65_536

/**
 * The page of the persons whose entry in a list by P is not 0: by score, equal ones by uuid ascending.
 * Cost: one comparison for each entry, and a logarithm of the page for the few that get further.
 */
export function pageOfMarked(
  marks: Uint8Array | Uint32Array,
  scores: Scores,
  { limit, offset }: RowPage,
  projectId: number,
  source: UuidSource,
): PersonPage {
  const leaders = new Leaders(scores, sizeOf(offset + limit, marks.length), projectId, source)
  let total = 0
  let least = leaders.leastScore
  for (let start = 0; start < marks.length; start += CHECK_EVERY) {
    source.checkLimits()
    const end = Math.min(marks.length, start + CHECK_EVERY)
    for (let person = start; person < end; person++) {
      if (marks[person] === 0) continue
      total++
      // Nearly everybody ends here.
      if (scores !== null && (scores[person] ?? 0) < least) continue
      leaders.offer(person)
      least = leaders.leastScore
    }
  }
  const persons = leaders.inOrder().slice(offset)
  return { persons, isFull: persons.length >= limit, total }
}

/** The page of marked persons without values, by uuid ascending. Cost: as `pageOfMarked`. */
export function pageOfMarkedPersons(
  marks: Uint8Array | Uint32Array,
  page: RowPage,
  projectId: number,
  source: UuidSource,
): ActorPage {
  return withoutValues(pageOfMarked(marks, null, page, projectId, source))
}

/** The page of persons (P, each once) without values, by uuid ascending. Cost: as `pageOfMarked`. */
export function pageOfPersons(
  persons: Uint32Array,
  { limit, offset }: RowPage,
  projectId: number,
  source: UuidSource,
): ActorPage {
  const count = persons.length
  const leaders = new Leaders(null, sizeOf(offset + limit, count), projectId, source)
  for (let index = 0; index < count; index++) leaders.offer(persons[index] ?? 0)
  const shown = leaders.inOrder().slice(offset)
  return withoutValues({ persons: shown, isFull: shown.length >= limit, total: count })
}

/** No more than there are, and some room at least. */
function sizeOf(wanted: number, count: number): number {
  return Math.max(1, Math.min(wanted, count))
}

function withoutValues({ persons, isFull, total }: PersonPage): ActorPage {
  const actors = persons.map((person) => ({ kind: 'person' as const, person, value: null }))
  return { actors, isFull, total }
}

/** The largest P of a list, 0 for none: lists by P are one longer. */
export function largestPerson(persons: Uint32Array, count: number): number {
  let largest = 0
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    if (person > largest) largest = person
  }
  return largest
}

/** The first ones of all that were offered: a heap with the last of them at its root. */
class Leaders {
  readonly #scores: Scores
  readonly #size: number
  readonly #projectId: number
  readonly #source: UuidSource
  readonly #heap: Uint32Array
  /** Beginnings of the uuids of those in the heap. */
  readonly #prefixes: Float64Array
  #length = 0

  constructor(scores: Scores, size: number, projectId: number, source: UuidSource) {
    this.#scores = scores
    this.#size = size
    this.#projectId = projectId
    this.#source = source
    this.#heap = new Uint32Array(size)
    this.#prefixes = new Float64Array(size)
  }

  /** Who has less need not be offered any more. */
  get leastScore(): number {
    if (this.#length < this.#size || this.#scores === null) return Number.NEGATIVE_INFINITY
    return this.#scores[this.#heap[0] ?? 0] ?? Number.NaN
  }

  offer(person: number): void {
    const heap = this.#heap
    const isFull = this.#length >= this.#size
    const prefix = this.#source.uuidPrefix(this.#projectId, person)
    if (!isFull) this.#rise(this.#length++, person, prefix)
    else if (this.#compare(person, prefix, heap[0] ?? 0, this.#prefixes[0] ?? 0) < 0) {
      this.#sink(person, prefix)
    }
  }

  inOrder(): number[] {
    return Array.from({ length: this.#length }, (_, place) => place)
      .sort((a, b) => this.#compareAt(a, b))
      .map((place) => this.#heap[place] ?? 0)
  }

  #rise(start: number, person: number, prefix: number): void {
    let index = start
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = this.#heap[parent] ?? 0
      const abovePrefix = this.#prefixes[parent] ?? 0
      if (this.#compare(person, prefix, above, abovePrefix) <= 0) break
      this.#put(index, above, abovePrefix)
      index = parent
    }
    this.#put(index, person, prefix)
  }

  /** Puts a person in the place of the root. */
  #sink(person: number, prefix: number): void {
    const length = this.#length
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= length) break
      if (child + 1 < length && this.#compareAt(child + 1, child) > 0) child++
      const below = this.#heap[child] ?? 0
      const belowPrefix = this.#prefixes[child] ?? 0
      if (this.#compare(person, prefix, below, belowPrefix) >= 0) break
      this.#put(index, below, belowPrefix)
      index = child
    }
    this.#put(index, person, prefix)
  }

  #put(index: number, person: number, prefix: number): void {
    this.#heap[index] = person
    this.#prefixes[index] = prefix
  }

  #compareAt(a: number, b: number): number {
    const left = this.#heap[a] ?? 0
    const right = this.#heap[b] ?? 0
    return this.#compare(left, this.#prefixes[a] ?? 0, right, this.#prefixes[b] ?? 0)
  }

  /** Negative when a comes first. */
  #compare(a: number, prefixA: number, b: number, prefixB: number): number {
    if (this.#scores !== null) {
      const left = this.#scores[a] ?? Number.NaN
      const right = this.#scores[b] ?? Number.NaN
      if (left > right) return -1
      if (left < right) return 1
      if (Number.isNaN(left) !== Number.isNaN(right)) return Number.isNaN(left) ? 1 : -1
    }
    return prefixA - prefixB || this.#compareUuids(a, b)
  }

  #compareUuids(a: number, b: number): number {
    if (a === b) return 0
    return this.#uuid(a) < this.#uuid(b) ? -1 : 1
  }

  #uuid(person: number): string {
    return this.#source.personUuid(this.#projectId, person)
  }
}
