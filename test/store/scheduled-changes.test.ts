/**
 * Tests scheduled changes in the store: a move is made once, a refused one leaves the flag as it was, and the list of
 * the main thread has what waits.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import type { FlagChangeContext } from '../../src/rules/flags/edit/flag-changes.ts'
import { FlagDirectory, FlagStore } from '../../src/store/catalog/flag-store.ts'
import { SCHEDULED_WAITING_MAX } from '../../src/store/catalog/limits.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { refusal } from '../fixtures/flags/flag-repository.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const HOUR_MS = 3_600_000
const ANN = { userId: 1, firstName: 'Ann', email: 'ann@x.example' }
const UUID = '018cc251-f400-7000-8000-000000000001'
const ON: JsonObject = { operation: 'update_status', value: true }

async function openStore(t: Test) {
  const path = t.testdir()
  const directory = await DataDir.open(path)
  const store = new FlagStore(path)
  const reader = new FlagDirectory(path)
  t.teardown(async () => {
    await store.close()
    await reader.close()
    directory.release()
  })
  const at = (nowMs: number): FlagChangeContext => ({
    projectId: 1,
    actor: ANN,
    nowMs,
    cohort: () => null,
  })
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
  const flag = store.create(at(NOW_MS), { key: 'f', active: false, filters })
  const schedule = (payload: JsonObject, timeMs = NOW_MS + HOUR_MS) =>
    store.scheduled.create(at(NOW_MS), flag.id, {
      payload,
      scheduled_at: new Date(timeMs).toISOString(),
    })
  const current = () => store.flags(1).stored(flag.id)?.flag
  return { store, reader, at, flag, schedule, current }
}

t.test('a move is made once', async (t) => {
  const { store, reader, at, schedule, current } = await openStore(t)
  const { id } = schedule(ON)
  t.match(reader.pendingChanges(), [{ id, executions: 0, dueAtMs: NOW_MS + HOUR_MS }])
  const move = { id, executions: 0 }
  t.equal(store.scheduled.move(at(NOW_MS), move).outcome, 'nothing', 'it is not due')
  t.equal(store.scheduled.move(at(NOW_MS + HOUR_MS), move).outcome, 'executed')
  t.match(current(), { active: true, version: 2, lastModifiedById: null })
  for (const executions of [0, 1]) {
    const again = store.scheduled.move(at(NOW_MS + 2 * HOUR_MS), { id, executions })
    t.equal(again.outcome, 'nothing')
  }
  t.equal(store.scheduled.move(at(NOW_MS), { id: 99, executions: 0 }).outcome, 'nothing')
  t.equal(current()?.version, 2)
  t.strictSame(reader.pendingChanges(), [])
})

t.test('a copied monthly change keeps its day of the month', async (t) => {
  const { store, at, flag, schedule } = await openStore(t)
  const { id: known } = schedule(ON)
  const anchorMs = Date.UTC(2026, 0, 31)
  const dueMs = Date.UTC(2026, 1, 28)
  const copy = (newestId: number) =>
    store.scheduled.create(
      at(NOW_MS),
      flag.id,
      {
        payload: ON,
        scheduled_at: new Date(dueMs).toISOString(),
        is_recurring: true,
        recurrence_interval: 'monthly',
      },
      { newestId, anchorMs },
    )
  t.throws(
    () => copy(0),
    { code: 'conflict' },
    'the flag has a change that the caller has not seen',
  )
  const { id } = copy(known)
  store.scheduled.move(at(dueMs), { id, executions: 0 })
  t.equal(store.scheduled.get(1, id)?.scheduledAtMs, Date.UTC(2026, 2, 31))
})

t.test('a refused scheduled change leaves the flag as it was', async (t) => {
  const { store, at, flag, schedule, current } = await openStore(t)
  const value = { variants: [{ key: 'a', rollout_percentage: 100 }], payloads: {} }
  const { id } = schedule({ operation: 'update_variants', value })
  const only = { groups: [{ properties: [], rollout_percentage: 0, variant: 'b' }] }
  const variants = [{ key: 'b', rollout_percentage: 100 }]
  const filters = { ...only, multivariate: { variants } }
  store.update(at(NOW_MS), flag.id, { filters }, false)
  const moved = store.scheduled.move(at(NOW_MS + HOUR_MS), { id, executions: 0 })
  t.match(moved, { outcome: 'failed', reason: /no variant has this key/ })
  t.match(store.scheduled.get(1, id), {
    failureReason: moved.reason,
    executedAtMs: NOW_MS + HOUR_MS,
  })
  t.strictSame(current()?.filters, filters)
  t.equal(current()?.version, 2)
})

t.test('a guard that is violated turns a ramp back, unless a person has interfered', async (t) => {
  const { store, reader, at, flag, schedule, current } = await openStore(t)
  const steps = [{ rollout_percentage: 10 }, { rollout_percentage: 50, after_seconds: 60 }]
  const payload = { operation: 'ramp', value: { steps, guards: [{}] } }
  const seen = { guard_event: '$exception' }
  const verdict = { action: 'turn_back', reason: 'Errors rose.', uuid: UUID, seen } as const
  const first = schedule(payload)
  const later = at(NOW_MS + HOUR_MS)
  const early = { id: first.id, executions: 0, verdict }
  t.equal(store.scheduled.move(later, early).outcome, 'nothing', 'there is no step to turn back')
  store.scheduled.move(later, { id: first.id, executions: 0 })
  t.match(current(), { active: true, filters: { groups: [{ rollout_percentage: 10 }] } })
  const turn = { id: first.id, executions: 1, verdict }
  t.match(store.scheduled.move(later, turn), { outcome: 'turned_back', reason: 'Errors rose.' })
  t.match(current(), { active: false, filters: { groups: [{ rollout_percentage: 0 }] } })
  t.equal(store.scheduled.move(later, turn).outcome, 'nothing')
  t.match(reader.guardEvents(), [
    {
      projectId: 1,
      number: 1,
      uuid: UUID,
      atMs: NOW_MS + HOUR_MS,
      properties: {
        $feature_flag: 'f',
        action: 'turned_back',
        reason: 'Errors rose.',
        rollout_percentage: 10,
        rollout_percentage_before: 0,
        guard_event: '$exception',
      },
    },
  ])

  const second = schedule(payload)
  store.scheduled.move(later, { id: second.id, executions: 0 })
  const filters = { groups: [{ properties: [], rollout_percentage: 2 }] }
  store.update(later, flag.id, { filters }, false)
  t.match(store.scheduled.move(later, { ...turn, id: second.id }), {
    outcome: 'halted',
    reason: /^Errors rose\. The flag was not turned back: .*2 % instead of 10 %/,
  })
  t.match(current(), { filters: { groups: [{ rollout_percentage: 2 }] } })
  t.match(reader.guardEvents()[1], { number: 2, properties: { action: 'halted' } })
  for (const number of [1, 1, 2]) store.scheduled.removeGuardEvent(later, number)
  t.strictSame(reader.guardEvents(), [])
})

t.test('a verdict without a UUID stops a ramp and stores no event', async (t) => {
  const { store, reader, at, schedule } = await openStore(t)
  const steps = [{ rollout_percentage: 10 }, { rollout_percentage: 50, after_seconds: 60 }]
  const { id } = schedule({ operation: 'ramp', value: { steps, guards: [{}] } })
  const later = at(NOW_MS + HOUR_MS)
  store.scheduled.move(later, { id, executions: 0 })
  const verdict = { action: 'turn_back', reason: 'Errors rose.', uuid: null, seen: {} } as const
  t.equal(store.scheduled.move(later, { id, executions: 1, verdict }).outcome, 'turned_back')
  t.strictSame(reader.guardEvents(), [])
})

t.test('a project has room for a number of changes that wait', async (t) => {
  const { store, at, schedule } = await openStore(t)
  for (let count = 0; count < SCHEDULED_WAITING_MAX; count++) schedule(ON)
  t.strictSame(
    refusal(() => schedule(ON)),
    ['invalid_input', null],
  )
  const [newest] = store.scheduled.list(1, null)
  store.scheduled.move(at(NOW_MS + HOUR_MS), { id: newest?.id ?? 0, executions: 0 })
  t.ok(schedule(ON), 'a change that has ended makes room')
})
