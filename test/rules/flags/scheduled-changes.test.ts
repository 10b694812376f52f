/**
 * Tests the rules of scheduled changes: when they are due, what they change, how a ramp proceeds, and what is refused.
 * The rules get the time as a number.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import {
  afterExecution,
  afterStep,
  dueAction,
  nextExecution,
  pendingOf,
} from '../../../src/rules/flags/schedule/due-changes.ts'
import {
  bodyOfChange,
  bodyOfTurnBack,
  interferenceOf,
} from '../../../src/rules/flags/schedule/flag-move.ts'
import {
  changedChange,
  draftChange,
  type ScheduleRequest,
} from '../../../src/rules/flags/schedule/schedule-input.ts'
import type { Ramp, ScheduledChange } from '../../../src/rules/flags/schedule/scheduled-change.ts'
import type { Flag } from '../../../src/rules/flags/types.ts'
import { seededRandom } from '../../fixtures/event-ledger.ts'
import { refusal, repositoryOf } from '../../fixtures/flags/flag-repository.ts'

const NOW_MS = Date.UTC(2026, 0, 31, 12)
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const ACTOR = { userId: 7, firstName: 'Ada', email: 'ada@example.com' }
const at = (timeMs: number): string => new Date(timeMs).toISOString()

function flagOf(more: Partial<Flag> = {}): Flag {
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
  const flag = repositoryOf({ key: 'new-page', filters, ...more }).flagById(1)
  if (flag === null) throw new Error('no flag')
  return flag
}

function draft(request: ScheduleRequest, flag = flagOf()): ScheduledChange {
  return { id: 1, ...draftChange(request, flag, { nowMs: NOW_MS, actor: ACTOR }) }
}

const ON: JsonObject = { operation: 'update_status', value: true }
const HOURLY = [
  { rollout_percentage: 5 },
  { rollout_percentage: 25, after_seconds: 3600 },
  { rollout_percentage: 100, after_seconds: 3600 },
]

function rampPayload(more: JsonObject = {}): JsonObject {
  return { operation: 'ramp', value: { steps: HOURLY, ...more } }
}

function rampIn({ ramp }: ScheduledChange): Ramp {
  if (ramp === null) throw new Error('no ramp')
  return ramp
}

t.test('a change that is made once', async (t) => {
  const change = draft({ payload: ON, scheduled_at: at(NOW_MS + HOUR_MS) })
  t.equal(dueAction(change, NOW_MS), null, 'waits for its time')
  t.equal(dueAction(change, NOW_MS + HOUR_MS), 'execute', 'is due at its time')
  t.equal(dueAction(change, NOW_MS + 100 * DAY_MS), 'execute', 'is due after its time')
  const made = afterExecution(change, NOW_MS + HOUR_MS)
  t.equal(made.executedAtMs, NOW_MS + HOUR_MS)
  t.equal(dueAction(made, NOW_MS + 2 * HOUR_MS), null, 'is not made again')
  t.equal(pendingOf(made), null, 'does not wait any more')
})

t.test('the times of a recurring change', async (t) => {
  const anchor = Date.UTC(2026, 0, 31, 12)
  const cases: [Parameters<typeof nextExecution>[1], number, number][] = [
    ['daily', anchor, Date.UTC(2026, 1, 1, 12)],
    ['daily', anchor + 10 * DAY_MS + 1, Date.UTC(2026, 1, 11, 12)],
    ['weekly', anchor, Date.UTC(2026, 1, 7, 12)],
    ['monthly', anchor, Date.UTC(2026, 1, 28, 12)],
    ['monthly', Date.UTC(2026, 1, 28, 12), Date.UTC(2026, 2, 31, 12)],
    ['monthly', Date.UTC(2026, 1, 28, 11), Date.UTC(2026, 1, 28, 12)],
    ['monthly', Date.UTC(2030, 3, 1), Date.UTC(2030, 3, 30, 12)],
    ['yearly', anchor, Date.UTC(2027, 0, 31, 12)],
    ['daily', anchor - DAY_MS, anchor],
  ]
  for (const [interval, after, wanted] of cases) {
    t.equal(
      at(nextExecution(anchor, interval, after)),
      at(wanted),
      `${interval} after ${at(after)}`,
    )
  }
  const leap = Date.UTC(2024, 1, 29, 0, 0, 0, 5)
  t.equal(at(nextExecution(leap, 'yearly', leap)), '2025-02-28T00:00:00.005Z')
  t.equal(at(nextExecution(leap, 'yearly', Date.UTC(2027, 5, 1))), '2028-02-29T00:00:00.005Z')
})

t.test('a recurring change skips missed times, and ends', async (t) => {
  const change = draft({
    payload: ON,
    scheduled_at: at(NOW_MS),
    is_recurring: true,
    recurrence_interval: 'daily',
    end_date: at(NOW_MS + 5 * DAY_MS + 1),
  })
  const late = afterExecution(change, NOW_MS + 2.5 * DAY_MS)
  t.equal(late.scheduledAtMs, NOW_MS + 3 * DAY_MS, 'one execution stands for three')
  t.equal(late.executedAtMs, null)
  t.equal(late.lastExecutedAtMs, NOW_MS + 2.5 * DAY_MS)
  const last = afterExecution(late, NOW_MS + 5 * DAY_MS)
  t.equal(last.executedAtMs, NOW_MS + 5 * DAY_MS, 'the next time is after the end')
  t.equal(dueAction(late, NOW_MS + 6 * DAY_MS), 'end', 'a missed end ends it without a change')
  const paused = changedChange(late, { is_recurring: false }, flagOf(), NOW_MS)
  t.equal(paused.recurrenceInterval, 'daily', 'a pause keeps the interval')
  t.equal(pendingOf(paused), null, 'a paused change does not wait')
  const later = NOW_MS + 4.5 * DAY_MS
  const resumed = changedChange(paused, { is_recurring: true }, flagOf(), later)
  t.equal(resumed.scheduledAtMs, NOW_MS + 5 * DAY_MS, 'times within the pause are not made up for')
})

t.test('clock changes repeat nothing and skip no step', async (t) => {
  const random = seededRandom(1)
  for (let trial = 0; trial < 50; trial++) {
    let ramp = draft({ payload: rampPayload() })
    let daily = draft({
      payload: ON,
      scheduled_at: at(NOW_MS),
      is_recurring: true,
      recurrence_interval: 'daily',
    })
    const madeDays: number[] = []
    let wrong = 0
    let clockMs = NOW_MS
    for (let tick = 0; tick < 2000; tick++) {
      clockMs += MINUTE_MS
      // The clock jumps by up to two days, forwards or backwards.
      if (random() < 0.02) clockMs += Math.round((random() - 0.5) * 4 * DAY_MS)
      if (dueAction(ramp, clockMs) === 'execute') {
        const before = rampIn(ramp)
        const last = before.steps.findLast(({ executedAtMs }) => executedAtMs !== null)
        // By the clock, each step lasts at least as long as planned.
        if (last && clockMs < (last.executedAtMs ?? 0) + HOUR_MS) wrong++
        ramp = afterStep(ramp, before, clockMs)
      }
      if (dueAction(daily, clockMs) === 'execute') {
        madeDays.push(daily.scheduledAtMs)
        daily = afterExecution(daily, clockMs)
      }
    }
    const sorted = [...new Set(madeDays)].sort((one, other) => one - other)
    if (JSON.stringify(sorted) !== JSON.stringify(madeDays)) wrong++
    if (ramp.executions > HOURLY.length) wrong++
    if (wrong > 0) t.fail(`trial ${trial}: ${wrong} executions were wrong`)
  }
})

t.test('the steps of a ramp', async (t) => {
  const flag = flagOf({ active: false })
  let change = draft({ payload: rampPayload() }, flag)
  t.equal(change.scheduledAtMs, NOW_MS, 'without a time, the first step is made at once')
  t.strictSame(bodyOfChange(change, flag), {
    active: true,
    filters: { groups: [{ properties: [], rollout_percentage: 5 }] },
  })
  change = afterStep(change, rampIn(change), NOW_MS + 10)
  t.equal(change.scheduledAtMs, NOW_MS + 10 + HOUR_MS)
  t.match(rampIn(change), { state: 'running', watchedFromMs: NOW_MS + 10 })
  t.strictSame(
    bodyOfChange(change, { ...flag, active: true }),
    { filters: { groups: [{ properties: [], rollout_percentage: 25 }] } },
    'only the first step enables the flag',
  )
  change = afterStep(change, rampIn(change), NOW_MS + 3 * HOUR_MS)
  t.equal(change.scheduledAtMs, NOW_MS + 4 * HOUR_MS, 'a late step delays the next one')
  change = afterStep(change, rampIn(change), NOW_MS + 4 * HOUR_MS)
  t.match(change, { executedAtMs: NOW_MS + 4 * HOUR_MS, ramp: { state: 'done' } })
  t.equal(pendingOf(change), null)
  t.strictSame(bodyOfTurnBack(rampIn(change), flag), {
    active: false,
    filters: { groups: [{ properties: [], rollout_percentage: 0 }] },
  })
})

t.test('steps at fixed times keep their lengths after a downtime', async (t) => {
  const steps = [1, 2, 4].map((hours) => ({
    rollout_percentage: hours * 10,
    at: at(NOW_MS + hours * HOUR_MS),
  }))
  let change = draft({ payload: rampPayload({ steps }) })
  t.equal(change.scheduledAtMs, NOW_MS + HOUR_MS)
  // The daemon was off for ten hours.
  change = afterStep(change, rampIn(change), NOW_MS + 10 * HOUR_MS)
  t.equal(change.scheduledAtMs, NOW_MS + 11 * HOUR_MS)
  change = afterStep(change, rampIn(change), NOW_MS + 11 * HOUR_MS)
  t.equal(change.scheduledAtMs, NOW_MS + 13 * HOUR_MS)
})

t.test('a person who changes the flag stops the ramp', async (t) => {
  const first = draft({ payload: rampPayload() })
  const change = afterStep(first, rampIn(first), NOW_MS)
  const ramp = rampIn(change)
  const withGroup = (group: JsonObject, more: Partial<Flag> = {}): Flag =>
    flagOf({ filters: { groups: [group] }, ...more })
  t.equal(interferenceOf(ramp, withGroup({ properties: [], rollout_percentage: 5 })), null)
  const plan = { key: 'plan', value: 'pro', type: 'person' }
  const cases: [Flag, RegExp][] = [
    [withGroup({ properties: [], rollout_percentage: 0 }), /it has 0 % instead of 5 %/],
    [withGroup({ properties: [], rollout_percentage: null }), /it has 100 % instead of 5 %/],
    [withGroup({ properties: [plan], rollout_percentage: 5 }), /was changed/],
    [withGroup({ rollout_percentage: 5 }, { deleted: true }), /was deleted/],
    [withGroup({ rollout_percentage: 5 }, { active: false }), /disabled the flag/],
    [flagOf({ filters: { groups: [] } }), /was removed/],
  ]
  for (const [flag, text] of cases) t.match(interferenceOf(ramp, flag), text)
  const halted = changedChange(change, { state: 'halted' }, flagOf(), NOW_MS)
  t.equal(pendingOf(halted), null, 'a halted ramp does not wait')
  const stopped = withGroup({ properties: [], rollout_percentage: 0 })
  const later = NOW_MS + 5 * HOUR_MS
  const resumed = changedChange(halted, { state: 'running' }, stopped, later)
  t.equal(interferenceOf(rampIn(resumed), stopped), null, 'it goes on with the flag as it is')
  t.match(resumed, { scheduledAtMs: later + HOUR_MS, ramp: { watchedFromMs: later } })
})

t.test("PostHog's operations", async (t) => {
  const filters = {
    groups: [{ properties: [], rollout_percentage: 5 }],
    multivariate: { variants: [{ key: 'a', rollout_percentage: 100 }] },
    payloads: { a: '1' },
  }
  const flag = flagOf({ filters })
  const bodyOf = (operation: string, value: unknown) =>
    bodyOfChange({ payload: { operation, value }, ramp: null }, flag)
  t.strictSame(bodyOf('update_status', false), { active: false })
  const group = { properties: [], rollout_percentage: 50 }
  t.strictSame(bodyOf('add_release_condition', { groups: [group], payloads: {} }), {
    filters: { ...filters, groups: [...filters.groups, group] },
  })
  const variants = [
    { key: 'a', rollout_percentage: 50 },
    { key: 'b', rollout_percentage: 50 },
  ]
  t.strictSame(bodyOf('update_variants', { variants, payloads: { b: '2' } }), {
    filters: { ...filters, multivariate: { variants }, payloads: { b: '2' } },
  })
  t.strictSame(
    refusal(() => bodyOf('add_release_condition', {})),
    ['invalid_input', 'payload'],
  )
  t.strictSame(
    refusal(() => bodyOf('update_variants', true)),
    ['invalid_input', 'payload'],
  )
  t.strictSame(
    refusal(() => bodyOf('update_variants', { variants, payloads: { c: '1' } })),
    ['invalid_input', 'payload'],
  )
})

t.test('refused requests', async (t) => {
  const soon = { scheduled_at: at(NOW_MS + HOUR_MS) }
  const daily = { is_recurring: true, recurrence_interval: 'daily' } as const
  const two = flagOf({ filters: { groups: [{}, {}] } })
  const stepsOf = (...steps: JsonObject[]) => ({ payload: rampPayload({ steps }) })
  const cases: [string, ScheduleRequest, readonly string[], Flag?][] = [
    ['no payload', soon, ['required', 'payload']],
    ['no time', { payload: ON }, ['required', 'scheduled_at']],
    ['a past time', { payload: ON, scheduled_at: '2020-01-01' }, ['invalid_input', 'scheduled_at']],
    ['no time at all', { payload: ON, scheduled_at: 'soon' }, ['invalid_input', 'scheduled_at']],
    [
      'no interval',
      { payload: ON, ...soon, is_recurring: true },
      ['invalid_input', 'recurrence_interval'],
    ],
    [
      'an interval of a single change',
      { payload: ON, ...soon, recurrence_interval: 'daily' },
      ['invalid_input', 'recurrence_interval'],
    ],
    [
      'an end before the start',
      { payload: ON, ...soon, ...daily, end_date: at(NOW_MS) },
      ['invalid_input', 'end_date'],
    ],
    [
      'conditions again and again',
      { payload: { operation: 'add_release_condition', value: {} }, ...soon, ...daily },
      ['invalid_input', 'payload'],
    ],
    ['a ramp again and again', { payload: rampPayload(), ...daily }, ['invalid_input', 'payload']],
    [
      'cron',
      { payload: ON, ...soon, cron_expression: '0 9 * * 1' },
      ['invalid_input', 'cron_expression'],
    ],
    [
      'a large payload',
      { payload: { ...ON, x: 'x'.repeat(70_000) }, ...soon },
      ['invalid_input', 'payload'],
    ],
    ['no steps', stepsOf(), ['invalid_input', 'payload']],
    ['no percentage', stepsOf({ at: at(NOW_MS) }), ['invalid_input', 'payload']],
    ['a percentage of 101', stepsOf({ rollout_percentage: 101 }), ['invalid_input', 'payload']],
    ['a NaN', stepsOf({ rollout_percentage: Number.NaN }), ['invalid_input', 'payload']],
    [
      'a step without a time',
      stepsOf({ rollout_percentage: 1 }, { rollout_percentage: 2 }),
      ['invalid_input', 'payload'],
    ],
    [
      'a step with two times',
      stepsOf({ rollout_percentage: 1, at: at(NOW_MS), after_seconds: 1 }),
      ['invalid_input', 'payload'],
    ],
    [
      'reversed steps',
      stepsOf(
        { rollout_percentage: 1, at: at(NOW_MS + DAY_MS) },
        { rollout_percentage: 2, at: at(NOW_MS + HOUR_MS) },
      ),
      ['invalid_input', 'payload'],
    ],
    [
      'two different starts',
      { ...stepsOf({ rollout_percentage: 1, at: at(NOW_MS + DAY_MS) }), ...soon },
      ['invalid_input', 'scheduled_at'],
    ],
    ['an unknown member', { payload: rampPayload({ speed: 1 }) }, ['invalid_input', 'payload']],
    [
      'a negative tolerance',
      { payload: rampPayload({ guards: [{ tolerance: -1 }] }) },
      ['invalid_input', 'payload'],
    ],
    [
      'a missing condition',
      { payload: rampPayload({ condition: 1 }) },
      ['invalid_input', 'payload'],
    ],
    ['an ambiguous condition', { payload: rampPayload() }, ['invalid_input', 'payload'], two],
    ['a state', { payload: rampPayload(), state: 'halted' }, ['invalid_input', 'state']],
  ]
  for (const [name, request, wanted, flag] of cases) {
    t.strictSame(
      refusal(() => draft(request, flag)),
      wanted,
      name,
    )
  }
  const change = draft({ payload: ON, ...soon })
  const patches: [string, ScheduledChange, ScheduleRequest, readonly (string | null)[]][] = [
    ['another flag', change, { record_id: 2 }, ['invalid_input', 'record_id']],
    ['an ended change', afterExecution(change, NOW_MS), {}, ['invalid_input', null]],
    ['a state', change, { state: 'halted' }, ['invalid_input', 'state']],
    ['a ramp instead', change, { payload: rampPayload() }, ['invalid_input', 'payload']],
    [
      'other steps',
      draft({ payload: rampPayload() }),
      { payload: ON },
      ['invalid_input', 'payload'],
    ],
    ['a past time', change, { scheduled_at: '2020-01-01' }, ['invalid_input', 'scheduled_at']],
  ]
  for (const [name, before, request, wanted] of patches) {
    t.strictSame(
      refusal(() => changedChange(before, request, flagOf(), NOW_MS)),
      wanted,
      name,
    )
  }
})
