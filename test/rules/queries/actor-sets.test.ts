/**
 * Compares sets of actors, as bits and as lists, with sets of owners that are counted one by one.
 *
 * @lane quick
 */
import t from 'tap'
import { Periods } from '../../../src/rules/analytics/periods.ts'
import {
  type ActorSet,
  type ActorSets,
  activeCounts,
  type CountTest,
  eachBit,
  eachStretch,
  firstCounts,
  GrowingSet,
  lengthCounts,
  mergeSets,
  periodCounts,
  Scratch,
  setsOfEvents,
  sizeOf,
} from '../../../src/rules/queries/actor-sets.ts'
import { firstIdOfPersons, ownerCounts, ownerSets } from '../../../src/rules/queries/owner-sets.ts'
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

/** Sets of which some are empty, some have few numbers, and some have many. */
function randomSets(random: () => number, periods: number, lastActor: number): ActorSets {
  return Array.from({ length: periods }, () => {
    if (random() < 0.2) return null
    const share = random() < 0.5 ? random() : random() / 50
    const actors = Array.from({ length: lastActor }, (_, index) => index + 1)
    return setOf(
      actors.filter(() => random() < share),
      lastActor,
    )
  })
}

function setOf(actors: readonly number[], lastActor: number): ActorSet | null {
  const growing = new GrowingSet((lastActor >>> 5) + 1, null)
  // A number that is added again changes nothing.
  for (const actor of [...actors, ...actors.slice(0, 9)]) growing.add(actor)
  return growing.finish(new Scratch())
}

function actorsOf(set: ActorSet | null): readonly number[] {
  if (set === null) return []
  if (set.isList) return [...set.words].sort((a, b) => a - b)
  const actors: number[] = []
  for (const [word, bits] of set.words.entries())
    eachBit(bits, word * 32, (actor) => actors.push(actor))
  return actors
}

t.test('the number of persons equals the number of owners of the distinct_ids', async (t) => {
  const differences = new Differences()
  let lists = 0
  for (let seed = 1; seed <= ROUNDS; seed++) {
    const random = randomNumbers(seed)
    // Few numbers are always bits.
    const lastDistinctId = 1 + Math.floor(random() * (seed % 2 === 0 ? 400 : 6000))
    const owners = randomOwners(random, lastDistinctId)
    const ids = randomSets(random, Math.floor(random() * 20), lastDistinctId)
    lists += ids.filter((set) => set?.isList === true).length
    const sets = ids.map(
      (set) => new Set(actorsOf(set).map((id) => (owners.words[id] ?? 0) & ~SINCE)),
    )
    differences.same(
      ownerCounts(ids, owners, NO_LIMITS),
      sets.map(({ size }) => size),
      `seed ${seed}, counts`,
    )
    const owned = ownerSets(ids, owners, NO_LIMITS)
    const seen = new Set<number>()
    const fresh = sets.map((set) => {
      const before = seen.size
      for (const owner of set) seen.add(owner)
      return seen.size - before
    })
    differences.same(firstCounts(owned), fresh, `seed ${seed}, each once`)
    const window = { length: 3, lastPeriods: Uint32Array.from(ids.keys()) }
    const active = sets.map((_, last) => {
      return new Set(sets.slice(Math.max(0, last - 2), last + 1).flatMap((set) => [...set])).size
    })
    const counts = activeCounts(owned, window, NO_LIMITS)
    differences.same(counts, active, `seed ${seed}, in three periods`)
    const idOf = firstIdOfPersons(owners)
    differences.same(
      ownerSets(ids, owners, NO_LIMITS, true).map((set) => actorsOf(set)),
      sets.map((set) => {
        const persons = [...set].filter((owner) => owner < owners.firstPersonless)
        return persons.map((person) => idOf[person] ?? 0).sort((a, b) => a - b)
      }),
      `seed ${seed}, persons only`,
    )
    differences.same(
      ownerCounts(ids, owners, NO_LIMITS),
      ownerCounts([...ids], { ...owners, words: owners.words.slice() }, NO_LIMITS),
      `seed ${seed}, asked again`,
    )
    const lengths = new Uint32Array(ids.length + 1)
    for (const owner of new Set(sets.flatMap((set) => [...set]))) {
      const length = sets.filter((set) => set.has(owner)).length
      lengths[length] = (lengths[length] ?? 0) + 1
    }
    differences.same(lengthCounts(owned, NO_LIMITS), lengths, `seed ${seed}, by number of periods`)
  }
  t.strictSame(differences.list(), [], 'every count is that of the owners')
  t.ok(lists > ROUNDS, `${lists} sets were lists`)
})

t.test('merged sets contain the actors of all parts', async (t) => {
  const differences = new Differences()
  for (let seed = 1; seed <= ROUNDS; seed++) {
    const random = randomNumbers(seed)
    // Newer events may be of distinct IDs that did not exist before.
    const parts = [1000, 3000, 5000].map((last) =>
      randomSets(random, 5, Math.ceil(random() * last)),
    )
    const expected = Array.from({ length: 5 }, (_, period) => {
      const all = new Set(parts.flatMap((part) => actorsOf(part[period] ?? null)))
      return [...all].sort((a, b) => a - b)
    })
    const merged = mergeSets(parts, NO_LIMITS)
    differences.same(
      merged.map((set) => actorsOf(set)),
      expected,
      `seed ${seed}`,
    )
    differences.same(
      merged.map((set) => sizeOf(set)),
      expected.map(({ length }) => length),
      `seed ${seed}, sizes`,
    )
  }
  t.strictSame(differences.list(), [], 'nobody is lost, and nobody is added')
})

t.test('an actor counts in a period if the number of its events passes the test', async (t) => {
  const HOUR_MS = 3_600_000
  const differences = new Differences()
  for (let seed = 1; seed <= ROUNDS; seed++) {
    const random = randomNumbers(seed)
    const below = (end: number) => Math.floor(random() * end)
    const lastActor = 1 + below(seed % 2 === 0 ? 9 : 3000)
    const count = below(400)
    const events = {
      count,
      actors: Uint32Array.from({ length: count }, () => below(Math.min(lastActor, 70) + 1)),
      timesMs: Float64Array.from({ length: count }, () => below(8 * HOUR_MS) - HOUR_MS),
      seriesMasks: Uint32Array.from({ length: count }, () => 1 + below(3)),
    }
    const rules = { interval: 'hour', timezone: 'UTC', weekStart: 'sunday' } as const
    const periods = Periods.covering(0, 5 * HOUR_MS, rules)
    const operators = ['gte', 'lte', 'exact'] as const
    const operator = operators[below(3)] ?? 'gte'
    const test: CountTest | null = random() < 0.3 ? null : { operator, value: below(4) }
    const passes = (times: number): boolean => {
      const value = test?.value ?? 1
      if (operator === 'lte' && test !== null) return times <= value
      return operator === 'exact' && test !== null ? times === value : times >= value
    }
    const expected = Array.from({ length: periods.count }, (_, period) => {
      const times = new Map<number, number>()
      for (let row = 0; row < count; row++) {
        const actor = events.actors[row] ?? 0
        const isIn = periods.indexOf(events.timesMs[row] ?? 0) === period
        const isOfSeries = ((events.seriesMasks[row] ?? 0) & 2) !== 0
        if (isIn && isOfSeries && actor !== 0) times.set(actor, (times.get(actor) ?? 0) + 1)
      }
      const passing = [...times].filter(([, number]) => passes(number)).map(([actor]) => actor)
      return passing.sort((a, b) => a - b)
    })
    const sets = setsOfEvents(events, periods, 2, test, lastActor, NO_LIMITS)
    differences.same(
      sets.map((set) => actorsOf(set)),
      expected,
      `seed ${seed}`,
    )
    const counts = periodCounts(sets, NO_LIMITS)
    const perActor = Array.from({ length: 71 }, (_, actor) => {
      return expected.filter((actors) => actors.includes(actor)).length
    })
    differences.same(
      perActor.map((_, actor) => counts[actor] ?? 0),
      perActor,
      `seed ${seed}, periods`,
    )
  }
  t.strictSame(differences.list(), [], 'the same actors')
})

t.test('sets of many periods and actors begin as lists, and large ones become bits', async (t) => {
  const MINUTE_MS = 60_000
  const random = randomNumbers(7)
  const below = (end: number) => Math.floor(random() * end)
  const lastActor = 700_000
  const rules = { interval: 'minute', timezone: 'UTC', weekStart: 'sunday' } as const
  const periods = Periods.covering(0, 399 * MINUTE_MS, rules)
  const count = 40_000
  const events = {
    count,
    actors: Uint32Array.from({ length: count }, () => below(lastActor + 1)),
    // Most events are in one period, and some are in none.
    timesMs: Float64Array.from({ length: count }, () =>
      random() < 0.8 ? 5 * MINUTE_MS : below(410 * MINUTE_MS) - MINUTE_MS,
    ),
    seriesMasks: new Uint32Array(0),
  }
  const expected = Array.from({ length: periods.count }, () => new Set<number>())
  for (let row = 0; row < count; row++) {
    const actor = events.actors[row] ?? 0
    if (actor !== 0) expected[periods.indexOf(events.timesMs[row] ?? 0)]?.add(actor)
  }
  const sets = setsOfEvents(events, periods, null, null, lastActor, NO_LIMITS)
  t.strictSame(
    sets.map((set) => actorsOf(set)),
    expected.map((set) => [...set].sort((x, y) => x - y)),
  )
  t.equal(sets[5]?.isList, false)
  t.ok(sets.filter((set) => set?.isList === true).length > 300)
})

t.test('actors take turns if there are more periods and actors than bits at a time', async (t) => {
  // 200,000 periods of 3 million actors do not fit, 2,400 actors of them have to take two turns.
  const PERIODS = 200_000
  const lastActor = 3_000_000
  const found = Array.from({ length: 2400 }, (_, index) => 1 + index * 1250)
  const sets: (ActorSet | null)[] = Array.from({ length: PERIODS }, () => null)
  for (const [index, actor] of found.entries()) sets[index * 83] = setOf([actor], lastActor)
  const others: (ActorSet | null)[] = [setOf([2], lastActor), setOf([3], lastActor)]
  const seen: (readonly [list: number, period: number, actor: number])[] = []
  let turns = 0
  eachStretch([sets, others, sets], NO_LIMITS, (bits, { words, actorAt }) => {
    turns++
    t.equal(bits[0], bits[2], 'the same sets have the same bits')
    for (const [list, row] of bits.slice(0, 2).entries()) {
      for (let at = 0; at < row.length; at++) {
        const word = row[at] ?? 0
        if (word === 0) continue
        eachBit(word, (at % words) * 32, (place) =>
          seen.push([list, Math.floor(at / words), actorAt(place)]),
        )
      }
    }
  })
  t.ok(turns > 1, `${turns} turns`)
  seen.sort(([a, b], [c, d]) => a - c || b - d)
  t.strictSame(seen, [...found.map((actor, index) => [0, index * 83, actor]), [1, 0, 2], [1, 1, 3]])
})

const bitsOf = (word: number): ActorSet => ({
  isList: false,
  words: Uint32Array.of(word),
  bitWords: 1,
})

t.test('owners of an earlier state differ from the current owners', async (t) => {
  const sets = [bitsOf(0b1110)]
  const before = { words: Uint32Array.of(0, 1, 2, 3), lastPerson: 3, firstPersonless: 4 }
  const merged = { ...before, words: Uint32Array.of(0, 1, 1, 3) }
  t.strictSame(ownerCounts(sets, before, NO_LIMITS), [3])
  t.strictSame(ownerCounts(sets, merged, NO_LIMITS), [2])
  t.strictSame(ownerCounts(sets, before, NO_LIMITS), [3])
})

t.test(
  'a new distinct_id changes nothing for earlier ones unless it merges or moves them',
  async (t) => {
    const sets = [bitsOf(0b1110)]
    const before = { words: Uint32Array.of(0, 1, 2, 3, 0, 0), lastPerson: 3, firstPersonless: 8 }
    t.strictSame(ownerCounts(sets, before, NO_LIMITS), [3])
    const later = { ...before, words: Uint32Array.of(0, 1, 2, 3, 4, 2, 0), lastPerson: 4 }
    const more = bitsOf(0b111110)
    t.strictSame(ownerCounts([...sets, more], later, NO_LIMITS), [3, 4])
    t.strictSame(ownerSets([more], later, NO_LIMITS), [bitsOf(0b011110)])
    const joined = { ...later, words: Uint32Array.of(0, 1, 1, 3, 4, 1, 0) }
    t.strictSame(ownerCounts([...sets, more], joined, NO_LIMITS), [2, 3])
    const visitor = { ...before, words: Uint32Array.of(0, 1, 2, 3, 12), lastPerson: 12 }
    t.strictSame(ownerSets([more], visitor, NO_LIMITS, true), [bitsOf(0b001110)])
    // The same number stands for a person in a larger project.
    const grown = {
      ...visitor,
      words: Uint32Array.of(0, 1, 2, 3, 12, 24),
      lastPerson: 24,
      firstPersonless: 19,
    }
    t.strictSame(ownerSets([more], grown, NO_LIMITS, true), [bitsOf(0b011110)])
  },
)
