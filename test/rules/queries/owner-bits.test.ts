/**
 * Counts persons with one bit for each distinct_id, and compares the result with sets of owners.
 *
 * @lane quick
 */
import t from 'tap'
import {
  firstIdOfPersons,
  lengthCounts,
  ownerBits,
  ownerCounts,
} from '../../../src/rules/queries/owner-bits.ts'
import { activeCounts, firstCounts } from '../../../src/rules/queries/person-bits.ts'
import { Differences } from '../../fixtures/differences.ts'
import { roundsOf } from '../../fixtures/random-depth.ts'
import { randomNumbers } from '../../fixtures/stored-events.ts'

const NO_LIMITS = { checkLimits: () => undefined }
const SINCE = 0x8000_0000
const ROUNDS = roundsOf(60)

/**
 * Owners of a number of distinct_ids: several of one person, visitors, and some with earlier events that belong to
 * nobody.
 */
function randomOwners(random: () => number, lastDistinctId: number) {
  const below = (end: number) => Math.floor(random() * end)
  const words = new Uint32Array(lastDistinctId + 40)
  const firstPersonless = 256
  let lastPerson = 0
  for (let distinctId = 1; distinctId <= lastDistinctId; distinctId++) {
    const owner = random() < 0.3 ? firstPersonless + distinctId : 1 + below(200)
    lastPerson = Math.max(lastPerson, owner)
    words[distinctId] = random() < 0.1 ? (owner | SINCE) >>> 0 : owner
  }
  return { words, lastPerson, firstPersonless }
}

function randomBits(random: () => number, periods: number, lastDistinctId: number) {
  return Array.from({ length: periods }, () => {
    if (random() < 0.2) return null
    const row = new Uint32Array((lastDistinctId >>> 5) + 1)
    const share = random()
    for (let distinctId = 0; distinctId <= lastDistinctId; distinctId++) {
      if (random() < share)
        row[distinctId >>> 5] = (row[distinctId >>> 5] ?? 0) | (1 << (distinctId & 31))
    }
    return row
  })
}

/** The positions of the set bits. */
function placesOf(row: Uint32Array | null): readonly number[] {
  return Array.from({ length: (row?.length ?? 0) * 32 }, (_, place) => place).filter(
    (place) => (((row?.[place >>> 5] ?? 0) >>> (place & 31)) & 1) === 1,
  )
}

t.test('the number of persons equals the number of owners of the distinct_ids', async (t) => {
  const differences = new Differences()
  for (let seed = 1; seed <= ROUNDS; seed++) {
    const random = randomNumbers(seed)
    const lastDistinctId = 1 + Math.floor(random() * 400)
    const owners = randomOwners(random, lastDistinctId)
    const bits = randomBits(random, Math.floor(random() * 40), lastDistinctId)
    const sets = bits.map((row) => {
      const found = new Set<number>()
      for (let distinctId = 1; distinctId <= lastDistinctId; distinctId++) {
        const isSet = (((row?.[distinctId >>> 5] ?? 0) >>> (distinctId & 31)) & 1) === 1
        if (isSet) found.add((owners.words[distinctId] ?? 0) & ~SINCE)
      }
      return found
    })
    differences.same(
      ownerCounts(bits, owners, NO_LIMITS),
      sets.map(({ size }) => size),
      `seed ${seed}, counts`,
    )
    const placed = ownerBits(bits, owners, NO_LIMITS)
    const seen = new Set<number>()
    const fresh = sets.map((set) => {
      const before = seen.size
      for (const owner of set) seen.add(owner)
      return seen.size - before
    })
    differences.same(firstCounts(placed), fresh, `seed ${seed}, each once`)
    const window = { length: 3, lastPeriods: Uint32Array.from(bits.keys()) }
    const active = sets.map((_, last) => {
      return new Set(sets.slice(Math.max(0, last - 2), last + 1).flatMap((set) => [...set])).size
    })
    const counts = activeCounts(placed, window, NO_LIMITS)
    differences.same(counts, active, `seed ${seed}, in three periods`)
    const idOf = firstIdOfPersons(owners)
    differences.same(
      ownerBits(bits, owners, NO_LIMITS, true).map((row) => placesOf(row)),
      sets.map((set) => {
        const persons = [...set].filter((owner) => owner < owners.firstPersonless)
        return persons.map((person) => idOf[person] ?? 0).sort((a, b) => a - b)
      }),
      `seed ${seed}, persons only`,
    )
    differences.same(
      ownerCounts(bits, owners, NO_LIMITS),
      ownerCounts([...bits], { ...owners, words: owners.words.slice() }, NO_LIMITS),
      `seed ${seed}, asked again`,
    )
    const lengths = new Uint32Array(bits.length + 1)
    for (const owner of new Set(sets.flatMap((set) => [...set]))) {
      const length = sets.filter((set) => set.has(owner)).length
      lengths[length] = (lengths[length] ?? 0) + 1
    }
    differences.same(lengthCounts(placed), lengths, `seed ${seed}, by number of periods`)
  }
  t.strictSame(differences.list(), [], 'every count is that of the owners')
})

t.test('owners of an earlier state differ from the current owners', async (t) => {
  const bits = [Uint32Array.of(0b1110)]
  const before = { words: Uint32Array.of(0, 1, 2, 3), lastPerson: 3, firstPersonless: 4 }
  const merged = { ...before, words: Uint32Array.of(0, 1, 1, 3) }
  t.strictSame(ownerCounts(bits, before, NO_LIMITS), [3])
  t.strictSame(ownerCounts(bits, merged, NO_LIMITS), [2])
  t.strictSame(ownerCounts(bits, before, NO_LIMITS), [3])
})

t.test(
  'a new distinct_id changes nothing for earlier ones unless it merges or moves them',
  async (t) => {
    const bits = [Uint32Array.of(0b1110)]
    const before = { words: Uint32Array.of(0, 1, 2, 3, 0, 0), lastPerson: 3, firstPersonless: 8 }
    t.strictSame(ownerCounts(bits, before, NO_LIMITS), [3])
    const later = { ...before, words: Uint32Array.of(0, 1, 2, 3, 4, 2, 0), lastPerson: 4 }
    const more = Uint32Array.of(0b111110)
    t.strictSame(ownerCounts([...bits, more], later, NO_LIMITS), [3, 4])
    t.strictSame(ownerBits([more], later, NO_LIMITS), [Uint32Array.of(0b011110)])
    const joined = { ...later, words: Uint32Array.of(0, 1, 1, 3, 4, 1, 0) }
    t.strictSame(ownerCounts([...bits, more], joined, NO_LIMITS), [2, 3])
    const visitor = { ...before, words: Uint32Array.of(0, 1, 2, 3, 12), lastPerson: 12 }
    t.strictSame(ownerBits([more], visitor, NO_LIMITS, true), [Uint32Array.of(0b001110)])
    // The same number stands for a person in a larger project.
    const grown = {
      ...visitor,
      words: Uint32Array.of(0, 1, 2, 3, 12, 24),
      lastPerson: 24,
      firstPersonless: 19,
    }
    t.strictSame(ownerBits([more], grown, NO_LIMITS, true), [Uint32Array.of(0b011110)])
  },
)
