/**
 * Selects the requested page of a result from all persons or groups, without sorting all persons. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import type { ActorPage, Inquiry } from './analytic-query.ts'
import type { EventScanner } from './event-columns.ts'

/** One number for each person, indexed by person number. Null if persons have no number to be ordered or shown by. */
export type Scores = Float64Array | Uint32Array | null

/** The number of persons that a loop goes through between two checks of the query's time limit. */
const CHECK_EVERY = 65_536

/**
 * Returns the person numbers, ascending, whose entry in `marks` equals `wanted`. If `wanted` is null, every entry
 * except 0 counts. The cost is linear in the number of entries.
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
 * Returns the requested page of persons. `persons` contains person numbers without duplicates. The person with the
 * highest score comes first, and persons with the score NaN come after all others. Persons with equal scores are in the
 * order of their uuids. Distinct ids without a person follow after all persons, because the API has nothing to show for
 * them. A finite number in `values` becomes the `value` of the person on the page. Throws the same errors as
 * `EventScanner.checkLimits`. Each person costs one comparison. Only a person that may be on the page also costs time
 * that grows with the logarithm of the page size.
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

/**
 * Splits person numbers into those of persons and those of distinct ids without a person. The latter begin at
 * `firstPersonless`. Both results keep the order of the list.
 */
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

/** A group of a result, and the value that the chart computes for it. Null if the chart computes none. */
export interface FoundGroup {
  readonly key: string
  readonly value: number | null
}

/**
 * Returns the requested page of groups of one type. The group with the highest value comes first; groups with equal
 * values are in the order of their keys.
 */
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
 * Returns the largest of the first `count` person numbers of a list, or 0 if `count` is 0. An array that is indexed by
 * these person numbers needs one entry more than this.
 */
export function largestPerson(persons: Uint32Array, count: number): number {
  let largest = 0
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    if (person > largest) largest = person
  }
  return largest
}

/**
 * Returns the first `size` persons by `compare`, in order. The best persons so far form a heap whose root is the worst
 * of them, so most of the other persons are ruled out by one comparison with the root.
 */
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
    // The score of most persons is below the worst score in the heap, so they need no call of `compare`.
    if (scores !== null && (scores[person] ?? 0) < least) continue
    if (compare(person, heap[0] ?? 0) > 0) continue
    sink(heap, 0, person, compare)
    least = scores?.[heap[0] ?? 0] ?? 0
  }
  return heap.sort(compare)
}

/**
 * Replaces the entry at index `start` of a heap by `person`, and moves entries up until every parent comes after its
 * children again.
 */
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
