/**
 * Selects the requested page of a result from all persons or groups, without sorting all persons. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import type { ActorPage, Inquiry } from './analytic-query.ts'
import type { EventScanner } from './event-columns.ts'

/** A number for each person number, or null if there are none. */
export type Scores = Float64Array | Uint32Array | null

/** Persons between two looks at the limits of a query. */
const CHECK_EVERY = 65_536

/**
 * Returns the person numbers, ascending, whose entry in `marks` equals `wanted`. If `wanted` is null, every entry
 * except 0 counts. The cost is linear.
 */
export function personsMarked(marks: Uint8Array | Uint32Array, wanted: number | null): Uint32Array {
  const persons = new Uint32Array(marks.length)
  let count = 0
  for (let person = 0; person < marks.length; person++) {
    const isMarked = wanted === null ? marks[person] !== 0 : marks[person] === wanted
    if (isMarked) persons[count++] = person
  }
  return persons.subarray(0, count)
}

/**
 * Returns the page of persons, given by person numbers without duplicates. The order is by score, the highest first and
 * NaN last; equal scores are in the order of uuids. The page contains those `values` that are finite. Distinct ids
 * without a person come last, because there is nothing to show of them. Throws as `EventScanner.checkLimits`. It costs
 * one comparison for each person, and a logarithm of the page size for the few that get further.
 */
export function pageOfPersons(
  persons: Uint32Array,
  { parameters, context, scanner }: Inquiry,
  scores: Scores = null,
  values: Scores = scores,
): ActorPage {
  const { limit, offset } = parameters.page
  const { projectId } = context
  const compare = (a: number, b: number): number => {
    if (scores !== null) {
      const left = scores[a] ?? 0
      const right = scores[b] ?? 0
      if (left > right) return -1
      if (left < right) return 1
      if (Number.isNaN(left) !== Number.isNaN(right)) return Number.isNaN(left) ? 1 : -1
    }
    const order = scanner.uuidPrefix(projectId, a) - scanner.uuidPrefix(projectId, b)
    if (order !== 0 || a === b) return order
    return scanner.personUuid(projectId, a) < scanner.personUuid(projectId, b) ? -1 : 1
  }
  const end = offset + limit
  const [known, others] = withAndWithoutProfile(persons, scanner.firstPersonless(projectId))
  const first = firstOf(known, end, scores, compare, scanner)
  const page = [...first, ...others.subarray(0, end - first.length)].slice(offset)
  const actors = page.map((person) => {
    const value = values?.[person] ?? Number.NaN
    return { kind: 'person' as const, person, value: Number.isFinite(value) ? value : null }
  })
  return { actors, isFull: actors.length >= limit, total: persons.length }
}

/** Those with numbers below a limit, and the others, each in their order. */
function withAndWithoutProfile(
  persons: Uint32Array,
  firstPersonless: number,
): readonly [Uint32Array, Uint32Array] {
  let others = 0
  for (const person of persons) if (person >= firstPersonless) others++
  if (others === 0) return [persons, persons.subarray(0, 0)]
  return [
    persons.filter((person) => person < firstPersonless),
    persons.filter((person) => person >= firstPersonless),
  ]
}

/** A group of a result, and its number in the chart, if there is one. */
export interface FoundGroup {
  readonly key: string
  readonly value: number | null
}

/** Returns the page of groups of a type: by value, the highest first; equal values are in the order of keys. */
export function pageOfGroups(
  groups: readonly FoundGroup[],
  typeIndex: number,
  { parameters }: Inquiry,
): ActorPage {
  const { limit, offset } = parameters.page
  const actors = groups
    .toSorted((a, b) => (b.value ?? 0) - (a.value ?? 0) || (a.key < b.key ? -1 : 1))
    .slice(offset, offset + limit)
    .map(({ key, value }) => ({ kind: 'group' as const, typeIndex, key, value }))
  return { actors, isFull: actors.length >= limit, total: groups.length }
}

/**
 * Returns the largest person number of a list, or 0 if it is empty. Lists that are indexed by person number have one
 * entry more than this.
 */
export function largestPerson(persons: Uint32Array, count: number): number {
  let largest = 0
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    if (person > largest) largest = person
  }
  return largest
}

/** The first `size` persons, in order. As soon as there are so many, they are a heap with the last at its root. */
function firstOf(
  persons: Uint32Array,
  size: number,
  scores: Scores,
  compare: (a: number, b: number) => number,
  limits: Pick<EventScanner, 'checkLimits'>,
): Uint32Array {
  limits.checkLimits()
  const heap = persons.slice(0, size)
  if (persons.length <= size) return heap.sort(compare)
  for (let place = size >> 1; place >= 0; place--) sink(heap, place, heap[place] ?? 0, compare)
  let least = scores?.[heap[0] ?? 0] ?? 0
  for (let index = size; index < persons.length; index++) {
    if (index % CHECK_EVERY === 0) limits.checkLimits()
    const person = persons[index] ?? 0
    // Nearly everybody ends here.
    if (scores !== null && (scores[person] ?? 0) < least) continue
    if (compare(person, heap[0] ?? 0) > 0) continue
    sink(heap, 0, person, compare)
    least = scores?.[heap[0] ?? 0] ?? 0
  }
  return heap.sort(compare)
}

/** Puts a person at a place of a heap or below it, and whoever comes later above. */
function sink(
  heap: Uint32Array,
  start: number,
  person: number,
  compare: (a: number, b: number) => number,
): void {
  let place = start
  for (let child = 2 * place + 1; child < heap.length; child = 2 * place + 1) {
    if (child + 1 < heap.length && compare(heap[child + 1] ?? 0, heap[child] ?? 0) > 0) child++
    if (compare(person, heap[child] ?? 0) >= 0) break
    heap[place] = heap[child] ?? 0
    place = child
  }
  heap[place] = person
}
