/**
 * Bits of distinct_ids (D) as bits of those who own them, for who only counts persons: each person has the bit
 * of the smallest D that it owns, so that most bits stay where they are, 32 at a step.
 */
import { type DistinctIdOwners, OWNER_BITS } from '../analytics/event-columns.ts'
import { PacedLimits, type QueryLimits } from './paced-limits.ts'
import { bitCount } from './period-bits.ts'
import type { IdBits, PersonBits } from './person-bits.ts'

/** Who stands for whom. */
interface FirstIds {
  /** The smallest D of the owner of each D; 0 where there is none. */
  readonly firstOf: Uint32Array
  /** The bits of those that are the smallest. */
  readonly areFirst: Uint32Array
}

/** Of tables of owners, which never change: a commit that changes an owner makes another one. */
const KNOWN = new WeakMap<Uint32Array, FirstIds>()

/**
 * The bits of persons, each at the place of its smallest D: the same persons at the same places for the same
 * owners. Cost: one step for 32 D, some 3 ns for each bit of a further D of a person; once for each table of
 * owners, some ns for each D. Throws as `EventScanner.checkLimits`.
 */
export function ownerBits(bits: IdBits, owners: DistinctIdOwners, limits: QueryLimits): PersonBits {
  const pace = new PacedLimits(limits)
  const firsts = firstIdsOf(owners)
  return bits.map((row) => {
    if (row === null) return null
    pace.count(row.length)
    const target = new Uint32Array(row.length)
    takeOwners(row, firsts, target)
    return target
  })
}

/** How many persons there are in each row of bits. Cost and errors as `ownerBits`, without its memory. */
export function ownerCounts(
  bits: IdBits,
  owners: DistinctIdOwners,
  limits: QueryLimits,
): readonly number[] {
  const pace = new PacedLimits(limits)
  const firsts = firstIdsOf(owners)
  let target = new Uint32Array(0)
  return bits.map((row) => {
    if (row === null) return 0
    pace.count(row.length)
    if (target.length < row.length) target = new Uint32Array(row.length)
    takeOwners(row, firsts, target)
    let count = 0
    for (let word = 0; word < row.length; word++) count += bitCount(target[word] ?? 0)
    return count
  })
}

/** How many persons have a bit in exactly k rows, at k; of one row at least. Cost: some steps for 32 persons and row. */
export function lengthCounts(bits: PersonBits): Uint32Array {
  const rows = bits.filter((row) => row !== null)
  const counts = new Uint32Array(bits.length + 1)
  const digits = 32 - Math.clz32(rows.length)
  const words = rows.reduce((most, { length }) => Math.max(most, length), 0)
  // 32 numbers side by side: digit i of each is in word i.
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
    for (let number = 1; number <= rows.length; number++) {
      let equal = -1
      for (let digit = 0; digit < digits; digit++) {
        const sum = sums[digit] ?? 0
        equal &= ((number >>> digit) & 1) === 1 ? sum : ~sum
      }
      counts[number] = (counts[number] ?? 0) + bitCount(equal)
    }
  }
  return counts
}

/** Overwrites as many words of `target` as the row has. */
function takeOwners(row: Uint32Array, { firstOf, areFirst }: FirstIds, target: Uint32Array): void {
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
}

function firstIdsOf({ words: owners, lastPerson }: DistinctIdOwners): FirstIds {
  const known = KNOWN.get(owners)
  if (known !== undefined) return known
  const firstOf = new Uint32Array(owners.length)
  const areFirst = new Uint32Array((owners.length >>> 5) + 1)
  const ofOwner = new Uint32Array(lastPerson + 1)
  for (let distinctId = 1; distinctId < owners.length; distinctId++) {
    const owner = (owners[distinctId] ?? 0) & OWNER_BITS
    if (owner === 0) continue
    const first = ofOwner[owner] ?? 0
    firstOf[distinctId] = first === 0 ? distinctId : first
    if (first !== 0) continue
    ofOwner[owner] = distinctId
    areFirst[distinctId >>> 5] = (areFirst[distinctId >>> 5] ?? 0) | (1 << (distinctId & 31))
  }
  const found = { firstOf, areFirst }
  KNOWN.set(owners, found)
  return found
}
