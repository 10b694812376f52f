/**
 * Converts the bits of distinct ids into bits of their owners, for callers that count persons. The bit of a person is
 * at the smallest distinct ID number that the person owns. Most bits therefore keep their position, and 32 bits are
 * processed in one step.
 */
import { type DistinctIdOwners, OWNER_BITS } from '../analytics/event-columns.ts'
import { grown } from '../analytics/growing-arrays.ts'
import { PacedLimits, type QueryLimits } from './paced-limits.ts'
import { bitCount } from './period-bits.ts'
import type { IdBits, PersonBits } from './person-bits.ts'

/** The first ID of each owner. The first ID is the smallest distinct ID number that the owner owns. */
interface FirstIds {
  /** The first ID of each owner, indexed by the number of the owner. It is 0 if the owner owns no distinct ID. */
  readonly ofOwner: Uint32Array
  /**
   * The first ID of each distinct ID's owner, indexed by distinct ID number. It is 0 if the distinct ID has no owner.
   */
  readonly firstOf: Uint32Array
  /** A bit for each distinct ID number that is the first ID of its owner. */
  readonly areFirst: Uint32Array
  /** One more than the largest distinct ID number that has an owner. */
  readonly end: number
  /**
   * Two tables of owners have the same `line` if the later table only adds distinct ID numbers to the earlier one. The
   * first IDs of the earlier table are then the same in the later one, so results computed from them stay valid.
   */
  readonly line: object
}

interface KnownTable {
  readonly owners: Uint32Array
  readonly firsts: FirstIds
  readonly nobodyFrom: number
}

const EMPTY = new Uint32Array(0)
const NOBODY: FirstIds = { ofOwner: EMPTY, firstOf: EMPTY, areFirst: EMPTY, end: 1, line: {} }

/** The first IDs for tables of owners. A table never changes: a commit that changes an owner makes another table. */
class FirstIdTables {
  readonly #known = new WeakMap<Uint32Array, FirstIds>()
  #newest: KnownTable = { owners: EMPTY, firsts: NOBODY, nobodyFrom: 0 }

  /**
   * Returns the first IDs of a table of owners. Owners whose number is at least `nobodyFrom` are left out. The numbers
   * of all other owners are less than `ownersEnd`.
   */
  of(owners: Uint32Array, ownersEnd: number, nobodyFrom: number): FirstIds {
    let firsts = this.#known.get(owners)
    if (firsts !== undefined) return firsts
    const newest = this.#newest
    const isNext =
      newest.nobodyFrom === nobodyFrom &&
      newest.firsts.ofOwner.length <= ownersEnd &&
      beginsWith(owners, newest)
    firsts = extendFirstIds(isNext ? newest.firsts : NOBODY, owners, ownersEnd)
    this.#known.set(owners, firsts)
    this.#newest = { owners, firsts, nobodyFrom }
    return firsts
  }
}

const KNOWN = { all: new FirstIdTables(), persons: new FirstIdTables() }

/**
 * A cache of results that were computed from a row of bits and a table of owners. A row of bits never changes, so the
 * row itself is the key. A result is only used for a table of the same line; see `FirstIds.line`.
 */
class MadeOfRows<Value> {
  readonly #made = new WeakMap<Uint32Array, { readonly line: object; readonly value: Value }>()

  of(row: Uint32Array, { line }: FirstIds, make: () => Value): Value {
    const known = this.#made.get(row)
    if (known?.line === line) return known.value
    const value = make()
    this.#made.set(row, { line, value })
    return value
  }
}

const OWNED = new MadeOfRows<Uint32Array>()
const COUNTED = new MadeOfRows<number>()

/**
 * Returns the bits of persons, each at the smallest distinct ID number of the person. If the owners are the same, a
 * person is at the same position in every call. If `isPersonsOnly` is true, a distinct_id without a person has no bit.
 * It costs one step for 32 distinct ids, plus about 3 ns for each bit that has to move. A row that was converted before
 * costs nothing. A new table of owners costs a few ns for each distinct_id once. Throws the same errors as
 * `EventScanner.checkLimits`.
 */
export function ownerBits(
  bits: IdBits,
  owners: DistinctIdOwners,
  limits: QueryLimits,
  isPersonsOnly = false,
): PersonBits {
  const pace = new PacedLimits(limits)
  const firsts = firstIdsOf(owners, isPersonsOnly)
  return bits.map((row) => row && OWNED.of(row, firsts, () => ownedRow(row, firsts, pace)))
}

/**
 * Returns the smallest distinct ID number of each person, indexed by person number. It is 0 for a person without a
 * distinct ID. The call costs as much as `ownerBits`.
 */
export function firstIdOfPersons(owners: DistinctIdOwners): Uint32Array {
  return firstIdsOf(owners, true).ofOwner
}

/**
 * Returns the number of persons in each row of bits. It costs the same as `ownerBits` and throws the same errors, but
 * needs less memory.
 */
export function ownerCounts(
  bits: IdBits,
  owners: DistinctIdOwners,
  limits: QueryLimits,
): readonly number[] {
  const pace = new PacedLimits(limits)
  const firsts = firstIdsOf(owners, false)
  const count = (row: Uint32Array): number => {
    const owned = ownedRow(row, firsts, pace)
    let sum = 0
    for (let word = 0; word < owned.length; word++) sum += bitCount(owned[word] ?? 0)
    return sum
  }
  return bits.map((row) => (row === null ? 0 : COUNTED.of(row, firsts, () => count(row))))
}

/**
 * Returns a list whose entry k is the number of persons that have a bit in exactly k rows, for k of at least 1. It
 * takes a few steps for 32 persons in each row.
 */
export function lengthCounts(bits: PersonBits): Uint32Array {
  const rows = bits.filter((row) => row !== null)
  const counts = new Uint32Array(bits.length + 1)
  const digits = 32 - Math.clz32(rows.length)
  const words = rows.reduce((most, { length }) => Math.max(most, length), 0)
  // The sums of 32 persons in binary: word i contains binary digit i of each person's sum.
  const sums = new Uint32Array(digits)
  for (let word = 0; word < words; word++) {
    sums.fill(0)
    for (const row of rows) {
      let carry = row[word] ?? 0
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

/**
 * Adds the number of persons with each sum to `counts`. Each bit of `among` is one of 32 persons whose sums have the
 * same binary digits from position `digit` upwards. `number` consists of these digits, with zeros below.
 */
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
 * Returns a row in which each bit is moved to the first ID of its owner. If no bit has to move, returns the given row
 * itself.
 */
function ownedRow(
  row: Uint32Array,
  { firstOf, areFirst }: FirstIds,
  pace: PacedLimits,
): Uint32Array {
  pace.count(row.length)
  let others = 0
  for (let word = 0; word < row.length; word++) others |= (row[word] ?? 0) & ~(areFirst[word] ?? 0)
  if (others === 0) return row
  const target = new Uint32Array(row.length)
  for (let word = 0; word < row.length; word++) {
    target[word] = (row[word] ?? 0) & (areFirst[word] ?? 0)
  }
  for (let word = 0; word < row.length; word++) {
    for (let left = (row[word] ?? 0) & ~(areFirst[word] ?? 0); left !== 0; left &= left - 1) {
      // The first ID is smaller than the ID, so its word of `target` was already written.
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

/** Returns whether a table of owners contains another table at its beginning. */
function beginsWith(owners: Uint32Array, { owners: before, firsts }: KnownTable): boolean {
  if (owners.length < before.length) return false
  for (let distinctId = 1; distinctId < firsts.end; distinctId++) {
    if (owners[distinctId] !== before[distinctId]) return false
  }
  return true
}

/** Computes the first IDs of a table. The table begins with another table, whose first IDs are `before`. */
function extendFirstIds(before: FirstIds, owners: Uint32Array, ownersEnd: number): FirstIds {
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
