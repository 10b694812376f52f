/**
 * Tests the recorded changes of owners: each change is known as long as nothing else changes.
 *
 * @lane quick
 */
import t from 'tap'
import type { SegmentReader } from '../../src/store/events/format/segment-reader.ts'
import { OWNER_MOVES_MAX } from '../../src/store/events/limits.ts'
import { KnownProjects } from '../../src/store/events/scan/known-events.ts'
import { OWNER_HAS_SINCE, type OwnerTable } from '../../src/store/identity/owner-table.ts'

const FIRST_PERSONLESS = 2 ** 20
const [SEGMENT_START, SEGMENT_ROWS] = [1, 7]

/** `owners` holds the owner of each distinct ID number from 1 on, or 0 for none. */
function tableOf(owners: readonly number[], more: Partial<OwnerTable> = {}): OwnerTable {
  const { since = new Map<number, number>(), firstPersonless = FIRST_PERSONLESS } = more
  const words = Uint32Array.from([0, ...owners], (owner, distinctId) => {
    const number = owner === 0 && distinctId > 0 ? firstPersonless + distinctId : owner
    return since.has(distinctId) ? number + OWNER_HAS_SINCE : number
  })
  const lastPerson = words.reduce((most, one) => Math.max(most, one % OWNER_HAS_SINCE), 0)
  const hasPersonless = lastPerson > firstPersonless
  const lastDistinctId = owners.length
  return { words, since, lastPerson, lastDistinctId, firstPersonless, hasPersonless, ...more }
}

function openProjects() {
  const state = { erased: 0 }
  const segments = {
    allSummaries: () => [{ firstSequence: SEGMENT_START, rows: SEGMENT_ROWS }],
    erasedOf: () => state.erased,
  }
  return { state, projects: new KnownProjects(segments as unknown as SegmentReader) }
}

t.test('each change of an owner is recorded with the previous owner', async (t) => {
  const { projects } = openProjects()
  const first = tableOf([1, 2, 0, 3])
  const { version, ...rest } = projects.of(1, first)
  t.strictSame(rest, { through: SEGMENT_ROWS, moves: 0 })
  t.strictSame(projects.of(1, first), { version, ...rest }, 'nothing has changed')
  const second = tableOf([1, 1, 0, 3, 0, 4])
  t.strictSame(projects.of(1, second), { version, ...rest, moves: 1 }, 'new ids are no changes')
  const third = tableOf([1, 1, 3, 1, 0, 4])
  t.strictSame(projects.of(1, third), { version, ...rest, moves: 3 })
  const numbersOf = (moves: number) => [...projects.movedBehind(1, moves)]
  t.strictSame(numbersOf(1), [FIRST_PERSONLESS + 3, 3, 3, 1])
  t.strictSame(numbersOf(0), [2, 1, ...numbersOf(1)])
  t.strictSame(numbersOf(3), [])
  const ownersAt = (moves: number) => [...projects.ownersAt(1, third, moves).words]
  t.strictSame(ownersAt(3), [...third.words])
  t.strictSame(ownersAt(1), [...second.words])
  t.strictSame(ownersAt(0), [...first.words, ...second.words.slice(5)])
  t.equal(projects.ownersAt(1, third, 0).lastPerson, FIRST_PERSONLESS + 5)
})

t.test('an earlier owner table is restored for a distinct_id that was deleted', async (t) => {
  const { projects } = openProjects()
  const since = new Map([[2, 5]])
  const before = tableOf([1, 2, 3], { since })
  projects.of(1, before)
  const after = tableOf([1, 3, 3], { since })
  t.equal(projects.of(1, after).moves, 1)
  t.strictSame([...projects.ownersAt(1, after, 0).words], [...before.words])
})

t.test('any other kind of change invalidates the record', async (t) => {
  const before = tableOf([1, 2, 0])
  const changes: Readonly<Record<string, OwnerTable>> = {
    'somebody was deleted': tableOf([1, 2, 0], { since: new Map([[2, 7]]) }),
    'numbers of visitors begin elsewhere': tableOf([1, 2, 0], {
      firstPersonless: FIRST_PERSONLESS * 2,
    }),
    'ids are missing': tableOf([1, 2]),
  }
  for (const [name, after] of Object.entries(changes)) {
    const { projects } = openProjects()
    const { version } = projects.of(1, before)
    t.not(projects.of(1, after).version, version, name)
    t.equal(projects.of(1, after).moves, 0)
  }
  const { projects, state } = openProjects()
  const { version } = projects.of(1, before)
  state.erased = 1
  t.not(projects.of(1, before).version, version, 'events were erased')
})

t.test('more changes than the limit invalidate the record, too', async (t) => {
  const { projects } = openProjects()
  const count = OWNER_MOVES_MAX + 1
  const mine = (from: number) =>
    tableOf(Array.from({ length: count }, (_, id) => (id < from ? 1 : 2)))
  const { version } = projects.of(1, mine(0))
  t.equal(projects.of(1, mine(count - 1)).moves, OWNER_MOVES_MAX)
  t.equal(projects.of(1, mine(count - 1)).version, version)
  t.not(projects.of(1, mine(count)).version, version)
})
