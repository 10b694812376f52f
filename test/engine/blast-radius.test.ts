/** Counting whom a condition reaches: on stored persons, within its time. */
import t from 'tap'
import { countReached } from '../../src/engine/threads/blast-radius.ts'
import { REACH_COUNT_MS_MAX } from '../../src/engine/threads/limits.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const PERSONS = 100
const SET = {
  ...{ projectId: 1, timezone: 'UTC', flags: [] },
  ...{ cohorts: new Map(), groupTypes: new Map() },
}
const CONDITION = { condition: { properties: [{ key: 'plan', value: 'pro', type: 'person' }] } }

t.test('it ends soon after its time, however long each person takes', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const events = Array.from({ length: PERSONS }, (_, number) => {
    return { event: 'x', distinct_id: `p${number}`, properties: { $set: { plan: 'pro' } } }
  })
  log.send(1, events)
  log.process()
  const stored = new DecisionSourceReader(log.dataDir)
  t.teardown(() => stored.close())
  const all = { users_affected: PERSONS, total_users: PERSONS }
  t.strictSame(countReached(CONDITION, SET, stored, 0), all)
  let nowMs = 0
  t.capture(performance, 'now', () => (nowMs += REACH_COUNT_MS_MAX))
  t.throws(() => countReached(CONDITION, SET, stored, 0), { message: /seconds/ })
})
