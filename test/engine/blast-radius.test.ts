/**
 * Tests the count of persons that a condition matches and that a change affects: on stored data, in chunks, within the
 * time limit.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import {
  type CountPiece,
  type CountState,
  countReached,
  type ReachTally,
  rehearse,
} from '../../src/engine/threads/blast-radius.ts'
import { REACH_COUNT_MS_MAX, REACH_PIECE_MS_MAX } from '../../src/engine/threads/limits.ts'
import type { RehearsalTally } from '../../src/rules/flags/rehearsal.ts'
import type { Flag, FlagSet } from '../../src/rules/flags/types.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { makeSet } from '../fixtures/flags/flag-set.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const PERSONS = 100
const COMPANIES = 70
const PRO = { key: 'plan', value: 'pro', type: 'person' }
const CONDITION = { condition: { properties: [PRO] } }

const log = new PersonLog(t, t.testdir())
log.send(
  1,
  Array.from({ length: PERSONS }, (_, number) => {
    return { event: 'x', distinct_id: `p${number}`, properties: { $set: { plan: 'pro' } } }
  }),
)
log.send(
  1,
  Array.from({ length: COMPANIES }, (_, number) => ({
    event: '$groupidentify',
    distinct_id: 'p0',
    properties: { $group_type: 'company', $group_key: `c${number}`, $group_set: { plan: 'pro' } },
  })),
)
log.process()
const stored = new DecisionSourceReader(log.dataDir)
t.teardown(() => stored.close())
const SET = makeSet([], { groupTypes: stored.groupTypes(1) })

/** The same with a flag. */
function setOf(filters: JsonObject, version = 1): FlagSet {
  return makeSet([{ id: 7, key: 'half', filters, version }], { groupTypes: SET.groupTypes })
}

/** Continues until there is an answer, and returns the number of chunks. Messages to a thread are copied. */
function inPieces<Tally, Answer>(
  make: (state?: CountState<Tally>) => CountPiece<Tally, Answer>,
): { readonly answer: Answer; readonly pieces: number } {
  let piece = make()
  let pieces = 1
  for (; 'rest' in piece; pieces++) piece = make(structuredClone(piece.rest))
  return { answer: piece.answer, pieces }
}

/** From now on each reading of the clock advances it by this time. With 0 it stands still. */
function slowClock(t: Test, stepMs: number): void {
  let nowMs = 0
  t.capture(performance, 'now', () => (nowMs += stepMs))
}

t.test('a count in several parts has the same result', async (t) => {
  const half = { groups: [{ properties: [PRO], rollout_percentage: 50 }] }
  const ofCompanies = {
    aggregation_group_type_index: 0,
    groups: [{ properties: [{ ...PRO, type: 'group', group_type_index: 0 }] }],
  }
  const all = [
    () => inPieces<ReachTally, unknown>((state) => countReached(CONDITION, SET, stored, 0, state)),
    () =>
      inPieces<ReachTally, unknown>((state) =>
        countReached({ condition: {}, group_type_index: 0 }, SET, stored, 0, state),
      ),
    ...[1000, 30].flatMap((sample) =>
      [half, ofCompanies].map((filters) => () => {
        const set = setOf({ groups: [] })
        const plan = { before: set.flags[0] ?? null, after: setOf(filters, 2).flags[0] as Flag }
        return inPieces<RehearsalTally, unknown>((state) =>
          rehearse(plan, sample, set, stored, 0, state),
        )
      }),
    ),
  ]
  slowClock(t, 0)
  const whole = all.map((run) => run())
  t.match(whole[0], { pieces: 1, answer: { users_affected: PERSONS, total_users: PERSONS } })
  t.match(whole[1], { answer: { users_affected: COMPANIES, total_users: COMPANIES } })
  t.match(whole[2], { answer: { sampled: PERSONS, total: PERSONS } })
  t.match(whole[3], { answer: { sampled: COMPANIES, changed: COMPANIES } })
  t.match(whole[4], { answer: { sampled: 25, total: PERSONS } })
  t.match(whole[5], { answer: { sampled: 24, total: COMPANIES, changed: 24 } })
  slowClock(t, REACH_PIECE_MS_MAX)
  for (const [index, run] of all.entries()) {
    const { answer, pieces } = run()
    t.strictSame(answer, whole[index]?.answer)
    t.ok(pieces > 1 || index > 3, `there were ${pieces} chunks`)
  }
})

t.test('the count ends soon after its time limit, however long each person takes', async (t) => {
  slowClock(t, REACH_COUNT_MS_MAX)
  t.throws(
    () => inPieces<ReachTally, unknown>((state) => countReached(CONDITION, SET, stored, 0, state)),
    {
      message: /seconds/,
    },
  )
})
