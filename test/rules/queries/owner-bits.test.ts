/** Counting persons by bits of distinct_ids, against sets of owners. */
import t from 'tap'
import { lengthCounts, ownerBits, ownerCounts } from '../../../src/rules/queries/owner-bits.ts'
import { activeCounts, firstCounts, ownedBits } from '../../../src/rules/queries/person-bits.ts'
import { randomNumbers } from '../../fixtures/stored-events.ts'

const NO_LIMITS = { checkLimits: () => undefined }
const SINCE = 0x8000_0000
const ROUNDS = 60

/** Owners of so many distinct_ids: several of one person, visitors, those whose earlier events are nobody's. */
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

t.test('persons are as many as the owners of the distinct_ids', async (t) => {
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
    t.strictSame(
      ownerCounts(bits, owners, NO_LIMITS),
      sets.map(({ size }) => size),
      `seed ${seed}, counts`,
    )
    const [placed, owned] = [ownerBits(bits, owners, NO_LIMITS), ownedBits(bits, owners, NO_LIMITS)]
    t.strictSame(firstCounts(placed), firstCounts(owned), `seed ${seed}, each once`)
    const window = { length: 3, lastPeriods: Uint32Array.from(bits.keys()) }
    const active = activeCounts(placed, window, NO_LIMITS)
    t.strictSame(active, activeCounts(owned, window, NO_LIMITS), `seed ${seed}, in three periods`)
    const lengths = new Uint32Array(bits.length + 1)
    for (const owner of new Set(sets.flatMap((set) => [...set]))) {
      const length = sets.filter((set) => set.has(owner)).length
      lengths[length] = (lengths[length] ?? 0) + 1
    }
    t.strictSame(lengthCounts(placed), lengths, `seed ${seed}, by number of periods`)
  }
})

t.test('the owners of then are not those of now', async (t) => {
  const bits = [Uint32Array.of(0b1110)]
  const before = { words: Uint32Array.of(0, 1, 2, 3), lastPerson: 3, firstPersonless: 4 }
  const merged = { ...before, words: Uint32Array.of(0, 1, 1, 3) }
  t.strictSame(ownerCounts(bits, before, NO_LIMITS), [3])
  t.strictSame(ownerCounts(bits, merged, NO_LIMITS), [2])
  t.strictSame(ownerCounts(bits, before, NO_LIMITS), [3])
})
