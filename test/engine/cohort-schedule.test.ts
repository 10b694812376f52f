/**
 * The schedule that calculates the members of cohorts: what it writes to the log, what it does after errors, and when it
 * looks again.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import { CohortSchedule } from '../../src/engine/front/cohort-schedule.ts'
import { COHORT_CHANGES_MAX } from '../../src/engine/front/limits.ts'
import type { CohortChanges } from '../../src/engine/threads/queries/query-tasks.ts'
import type { CohortCalculation } from '../../src/rules/persons/cohort-shapes.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'

const NOW_MS = Date.UTC(2026, 10, 3)
const WANTED: CohortCalculation = {
  revision: 4,
  requests: 3,
  answered: 2,
  calculatedAt: null,
  triedAtMs: 0,
  errors: 0,
  error: null,
}
type Members = Extract<PersonCommand, { kind: 'set_cohort_members' }>

function changesOf(added: number, removed: number): CohortChanges {
  return {
    added: Uint32Array.from({ length: added }, (_, index) => index + 1),
    removed: Uint32Array.from({ length: removed }, (_, index) => index + 1),
    count: added,
    calculation: WANTED,
  }
}

/** A schedule with one cohort. `calculate` stands for the thread that calculates its members. */
function scheduleOf(
  t: Test,
  calculate: () => CohortChanges | null,
  { periodMs = 3_600_000, isRefused = false, hasCohort = true } = {},
) {
  const commands: Members[] = []
  const warnings: string[] = []
  let state = WANTED
  let looks = 0
  const schedule = new CohortSchedule({
    queries: {
      calculatedCohorts: async () => {
        looks++
        return hasCohort ? [{ projectId: 1, id: 5, calculation: state }] : []
      },
      cohortMembers: async () => calculate(),
    },
    commands: {
      run: async (_, __, command) => {
        commands.push(command as Members)
        if (isRefused) return { kind: 'not_found' }
        const { end } = command as Members
        if (end !== null) state = { ...state, answered: end.requests, triedAtMs: end.atMs }
        return { kind: 'done' }
      },
    },
    clock: { now: () => NOW_MS },
    timezoneOf: () => 'UTC',
    log: { info: () => {}, warn: (_: unknown, text?: string) => void warnings.push(String(text)) },
    periodMs,
  })
  t.teardown(() => schedule.stop())
  const until = async (isMet: () => boolean): Promise<void> => {
    while (!isMet()) await sleep(2)
  }
  return { schedule, commands, warnings, until, looks: () => looks }
}

t.test('several commands write many changes, and the last one is marked', async (t) => {
  const added = 2 * COHORT_CHANGES_MAX + 1
  const { schedule, commands, until } = scheduleOf(t, () => changesOf(added, 3), { periodMs: 20 })
  schedule.start()
  await until(() => commands.some(({ end }) => end !== null))
  t.strictSame(
    commands.slice(0, 3).map((one) => [one.added.length, one.removed.length, one.revision]),
    [
      [COHORT_CHANGES_MAX, 3, 4],
      [COHORT_CHANGES_MAX, 0, 4],
      [1, 0, 4],
    ],
  )
  const all = commands.slice(0, 3).flatMap((one) => one.added)
  t.equal(new Set(all).size, added, 'each change once')
  t.strictSame(
    commands.slice(0, 3).map(({ end }) => end),
    [null, null, { at: '2026-11-03T00:00:00Z', atMs: NOW_MS, requests: 3, error: null }],
  )
})

t.test('if the rule changes, no further changes of its members are written', async (t) => {
  const calculate = () => changesOf(2 * COHORT_CHANGES_MAX, 0)
  const { schedule, commands, until, looks } = scheduleOf(t, calculate, {
    periodMs: 5,
    isRefused: true,
  })
  schedule.start()
  await until(() => looks() >= 2)
  t.equal(commands.length, 1)
})

t.test('a calculation that takes too long is recorded, and the members stay', async (t) => {
  const calculate = () => {
    throw new ServiceError('query_timeout', 'It took too long.')
  }
  const { schedule, commands, warnings, until } = scheduleOf(t, calculate, { periodMs: 5 })
  schedule.start()
  await until(() => commands.length > 0)
  t.match(commands[0], { added: [], removed: [], end: { error: 'It took too long.', requests: 3 } })
  t.equal(warnings.length > 0, true)
})

t.test('an unforeseen error is recorded without its text', async (t) => {
  const calculate = () => {
    throw new TypeError('internal')
  }
  const { schedule, commands, until } = scheduleOf(t, calculate, { periodMs: 5 })
  schedule.start()
  await until(() => commands.length > 0)
  t.match(commands[0]?.end?.error, /The log of the daemon has the reason\.$/)
})

t.test('while the daemon is busy, no failure is recorded', async (t) => {
  const calculate = () => {
    throw new ServiceError('server_error', 'Too many queries wait.')
  }
  const { schedule, commands, warnings, until } = scheduleOf(t, calculate, { periodMs: 5 })
  schedule.start()
  await until(() => warnings.length > 0)
  t.strictSame(commands, [])
})

t.test('without cohorts by behavior, it checks only after a change', async (t) => {
  const { schedule, looks, until } = scheduleOf(t, () => null, { periodMs: 5, hasCohort: false })
  schedule.changed()
  t.equal(looks(), 0, 'not before the start')
  schedule.start()
  await until(() => looks() > 0)
  const before = looks()
  await sleep(100)
  t.equal(looks(), before)
  schedule.changed()
  schedule.changed()
  await until(() => looks() > before)
  schedule.stop()
  schedule.changed()
  await sleep(100)
  t.ok(looks() <= before + 2)
})
