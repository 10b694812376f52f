/**
 * Converts sets of distinct IDs into sets of their owners, for callers that only count persons. Each person stands at
 * the smallest distinct ID number that it owns. Most bits therefore stay where they are, and 32 bits are processed in
 * one step.
 */
import { type DistinctIdOwners, OWNER_BITS } from '../analytics/event-columns.ts'
import { grown } from '../analytics/growing-arrays.ts'
import { type ActorSet, type ActorSets, GrowingSet, Scratch, sizeOf } from './actor-sets.ts'
import { PacedLimits, type QueryLimits } from './paced-limits.ts'

/** Who stands for whom. */
interface FirstIds {
  /** The smallest D of each owner; 0: it has none. */
  readonly ofOwner: Uint32Array
  /** The smallest D of the owner of each D; 0 where there is none. */
  readonly firstOf: Uint32Array
  /** The bits of those that are the smallest. */
  readonly areFirst: Uint32Array
  /** Behind the largest D that has an owner. */
  readonly end: number
  /** The same where one table has further D and is as the other before them: nobody of before stands elsewhere. */
  readonly line: object
}

interface KnownTable {
  readonly owners: Uint32Array
  readonly firsts: FirstIds
  readonly nobodyFrom: number
}

const EMPTY = new Uint32Array(0)
const NOBODY: FirstIds = { ofOwner: EMPTY, firstOf: EMPTY, areFirst: EMPTY, end: 1, line: {} }

/** Who stands for whom by tables of owners, which never change: a commit that changes an owner makes another one. */
class FirstIdTables {
  readonly #known = new WeakMap<Uint32Array, FirstIds>()
  #newest: KnownTable = { owners: EMPTY, firsts: NOBODY, nobodyFrom: 0 }

  /** `nobodyFrom`: owners from this number on are nobody; all others are less than `ownersEnd`. */
  of(owners: Uint32Array, ownersEnd: number, nobodyFrom: number): FirstIds {
    let firsts = this.#known.get(owners)
    if (firsts !== undefined) return firsts
    const newest = this.#newest
    const isNext =
      newest.nobodyFrom === nobodyFrom &&
      newest.firsts.ofOwner.length <= ownersEnd &&
      beginsWith(owners, newest)
    firsts = firstIdsBehind(isNext ? newest.firsts : NOBODY, owners, ownersEnd)
    this.#known.set(owners, firsts)
    this.#newest = { owners, firsts, nobodyFrom }
    return firsts
  }
}

const KNOWN = { all: new FirstIdTables(), persons: new FirstIdTables() }

/** Results of sets, none of which ever changes, for the owners of last time. */
class MadeOfSets<Value> {
  readonly #made = new WeakMap<ActorSet, { readonly line: object; readonly value: Value }>()

  of(set: ActorSet, { line }: FirstIds, make: () => Value): Value {
    const known = this.#made.get(set)
    if (known?.line === line) return known.value
    const value = make()
    this.#made.set(set, { line, value })
    return value
  }
}

const OWNED = new MadeOfSets<ActorSet | null>()
const COUNTED = new MadeOfSets<number>()

/**
 * Returns the sets of persons, each at its smallest distinct ID number. The same owners give the same persons at the
 * same positions. If `isPersonsOnly` is true, a distinct_id without a person is in no set. It costs one step for 32
 * distinct ids, about 3 ns for each bit of a further distinct_id of a person, and nothing for a set that was converted
 * before; once for each table of owners, it costs a few ns for each distinct_id. Throws as `EventScanner.checkLimits`.
 */
export function ownerSets(
  sets: ActorSets,
  owners: DistinctIdOwners,
  limits: QueryLimits,
  isPersonsOnly = false,
): ActorSets {
  const firsts = firstIdsOf(owners, isPersonsOnly)
  const ownedOf = ownedSets(firsts, limits)
  return sets.map((set) => set && OWNED.of(set, firsts, () => ownedOf(set)))
}

/**
 * Returns the smallest distinct ID number of each person, by person number. It is 0 if the person has none. The cost is
 * that of `ownerSets`.
 */
export function firstIdOfPersons(owners: DistinctIdOwners): Uint32Array {
  return firstIdsOf(owners, true).ofOwner
}

/** Returns the number of persons in each set. Cost and errors are those of `ownerSets`, but it needs less memory. */
export function ownerCounts(
  sets: ActorSets,
  owners: DistinctIdOwners,
  limits: QueryLimits,
): readonly number[] {
  const firsts = firstIdsOf(owners, false)
  const ownedOf = ownedSets(firsts, limits)
  return sets.map((set) => {
    return set === null ? 0 : COUNTED.of(set, firsts, () => sizeOf(ownedOf(set)))
  })
}

/** Returns the function that converts one set after the other. */
function ownedSets(
  { firstOf, areFirst }: FirstIds,
  limits: QueryLimits,
): (set: ActorSet) => ActorSet | null {
  const pace = new PacedLimits(limits)
  const scratch = new Scratch()
  return (set) => {
    const { isList, words, bitWords } = set
    pace.count(words.length)
    if (isList) {
      const owned = new GrowingSet(bitWords, null)
      for (let index = 0; index < words.length; index++) {
        const first = firstOf[words[index] ?? 0] ?? 0
        if (first !== 0) owned.add(first)
      }
      return owned.finish(scratch)
    }
    const owned = ownedBits(words, firstOf, areFirst)
    return owned === words ? set : { isList, words: owned, bitWords }
  }
}

/** Returns the same bits if every distinct ID number stands for itself. */
function ownedBits(row: Uint32Array, firstOf: Uint32Array, areFirst: Uint32Array): Uint32Array {
  let others = 0
  for (let word = 0; word < row.length; word++) others |= (row[word] ?? 0) & ~(areFirst[word] ?? 0)
  if (others === 0) return row
  const target = new Uint32Array(row.length)
  for (let word = 0; word < row.length; word++) {
    target[word] = (row[word] ?? 0) & (areFirst[word] ?? 0)
  }
  for (let word = 0; word < row.length; word++) {
    for (let left = (row[word] ?? 0) & ~(areFirst[word] ?? 0); left !== 0; left &= left - 1) {
      // A smaller one: its word has been begun.
      const first = firstOf[word * 32 + 31 - Math.clz32(left & -left)] ?? 0
      if (first !== 0) target[first >>> 5] = (target[first >>> 5] ?? 0) | (1 << (first & 31))
    }
  }
  return target
}

function firstIdsOf(
  { words: owners, lastPerson, firstPersonless }: DistinctIdOwners,
  isPersonsOnly: boolean,
): FirstIds {
  const areAll = !isPersonsOnly || lastPerson < firstPersonless
  return areAll
    ? KNOWN.all.of(owners, lastPerson + 1, OWNER_BITS)
    : KNOWN.persons.of(owners, firstPersonless, firstPersonless)
}

/** Whether a table is as another one as far as that goes. */
function beginsWith(owners: Uint32Array, { owners: before, firsts }: KnownTable): boolean {
  if (owners.length < before.length) return false
  for (let distinctId = 1; distinctId < firsts.end; distinctId++) {
    if (owners[distinctId] !== before[distinctId]) return false
  }
  return true
}

/** Goes on with what is known of a table that begins alike. */
function firstIdsBehind(before: FirstIds, owners: Uint32Array, ownersEnd: number): FirstIds {
  const firstOf = grown(before.firstOf, owners.length)
  const areFirst = grown(before.areFirst, (owners.length >>> 5) + 1)
  const ofOwner = grown(before.ofOwner, ownersEnd)
  let { end } = before
  for (let distinctId = end; distinctId < owners.length; distinctId++) {
    const owner = (owners[distinctId] ?? 0) & OWNER_BITS
    if (owner === 0) continue
    end = distinctId + 1
    if (owner >= ownersEnd) continue
    const first = ofOwner[owner] ?? 0
    firstOf[distinctId] = first === 0 ? distinctId : first
    if (first !== 0) continue
    ofOwner[owner] = distinctId
    areFirst[distinctId >>> 5] = (areFirst[distinctId >>> 5] ?? 0) | (1 << (distinctId & 31))
  }
  return { ofOwner, firstOf, areFirst, end, line: before === NOBODY ? {} : before.line }
}
