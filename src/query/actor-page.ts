/**
 * The page of a result that a request wants, picked from all persons without sorting them all. Source:
 * docs/COMPATIBILITY.md, "Analytic person routes".
 */
import type { RowPage } from '../wire/analytics.ts'
import type { ActorPage } from './analytic-query.ts'
import type { EventScanner } from './event-columns.ts'

/** Persons to choose from. */
export interface Candidates {
  /** P, in any order, each once. */
  readonly persons: Uint32Array
  /** For each person what the order goes by, the highest first, NaN last; null: the uuid alone. */
  readonly scores: Float64Array | null
}

/** Candidates of a page. */
export interface CandidatePage {
  /** Positions in the list of candidates, in the order of the page. */
  readonly positions: readonly number[]
  readonly isFull: boolean
}

/**
 * The candidates of one page: by score, equal ones by uuid ascending. Cost: one comparison for each
 * candidate, and a logarithm of the page for the few that get further.
 */
export function pageOfCandidates(
  candidates: Candidates,
  { limit, offset }: RowPage,
  projectId: number,
  scanner: Pick<EventScanner, 'uuidPrefix' | 'personUuid'>,
): CandidatePage {
  const count = candidates.persons.length
  if (offset >= count) return { positions: [], isFull: false }
  const leaders = new Leaders(candidates, Math.min(count, offset + limit), projectId, scanner)
  for (let position = 0; position < count; position++) leaders.offer(position)
  const positions = leaders.inOrder().slice(offset)
  return { positions, isFull: positions.length >= limit }
}

/** The page of persons without values, by uuid ascending. Cost: as `pageOfCandidates`. */
export function pageOfPersons(
  persons: Uint32Array,
  page: RowPage,
  projectId: number,
  scanner: Pick<EventScanner, 'uuidPrefix' | 'personUuid'>,
): ActorPage {
  const { positions, isFull } = pageOfCandidates(
    { persons, scores: null },
    page,
    projectId,
    scanner,
  )
  const actors = positions.map((position) => {
    return { kind: 'person' as const, person: persons[position] ?? 0, value: null }
  })
  return { actors, isFull }
}

/** The persons whose entry in a list by P is not 0, as candidates. */
export function markedPersons(marks: Uint8Array | Uint32Array): Uint32Array {
  const found = new Uint32Array(marks.length)
  let count = 0
  for (let person = 0; person < marks.length; person++) {
    if (marks[person] !== 0) found[count++] = person
  }
  return found.subarray(0, count)
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
  readonly #persons: Uint32Array
  readonly #scores: Float64Array | null
  readonly #size: number
  readonly #projectId: number
  readonly #scanner: Pick<EventScanner, 'uuidPrefix' | 'personUuid'>
  readonly #heap: Uint32Array
  readonly #prefixes: Float64Array
  #length = 0

  constructor(
    { persons, scores }: Candidates,
    size: number,
    projectId: number,
    scanner: Pick<EventScanner, 'uuidPrefix' | 'personUuid'>,
  ) {
    this.#persons = persons
    this.#scores = scores
    this.#size = size
    this.#projectId = projectId
    this.#scanner = scanner
    this.#heap = new Uint32Array(size)
    // NaN: not asked for yet.
    this.#prefixes = new Float64Array(persons.length).fill(Number.NaN)
  }

  offer(position: number): void {
    const heap = this.#heap
    if (this.#length < this.#size) {
      heap[this.#length] = position
      this.#rise(this.#length++)
    } else if (this.#compare(position, heap[0] ?? 0) < 0) {
      heap[0] = position
      this.#sink()
    }
  }

  inOrder(): number[] {
    return Array.from(this.#heap.subarray(0, this.#length)).sort((a, b) => this.#compare(a, b))
  }

  #rise(start: number): void {
    const heap = this.#heap
    let index = start
    const position = heap[index] ?? 0
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = heap[parent] ?? 0
      if (this.#compare(position, above) <= 0) break
      heap[index] = above
      index = parent
    }
    heap[index] = position
  }

  #sink(): void {
    const heap = this.#heap
    const length = this.#length
    const position = heap[0] ?? 0
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= length) break
      if (child + 1 < length && this.#compare(heap[child + 1] ?? 0, heap[child] ?? 0) > 0) child++
      const below = heap[child] ?? 0
      if (this.#compare(position, below) >= 0) break
      heap[index] = below
      index = child
    }
    heap[index] = position
  }

  /** Negative when a comes first. */
  #compare(a: number, b: number): number {
    if (this.#scores !== null) {
      const left = this.#scores[a] ?? Number.NaN
      const right = this.#scores[b] ?? Number.NaN
      if (left > right) return -1
      if (left < right) return 1
      if (Number.isNaN(left) !== Number.isNaN(right)) return Number.isNaN(left) ? 1 : -1
    }
    return this.#prefix(a) - this.#prefix(b) || this.#compareUuids(a, b)
  }

  #compareUuids(a: number, b: number): number {
    if (a === b) return 0
    return this.#uuid(a) < this.#uuid(b) ? -1 : 1
  }

  #uuid(position: number): string {
    return this.#scanner.personUuid(this.#projectId, this.#persons[position] ?? 0)
  }

  #prefix(position: number): number {
    const known = this.#prefixes[position] ?? 0
    if (!Number.isNaN(known)) return known
    const prefix = this.#scanner.uuidPrefix(this.#projectId, this.#persons[position] ?? 0)
    this.#prefixes[position] = prefix
    return prefix
  }
}
