/**
 * Tests ramps with a daemon, events and a clock: a ramp whose flag causes errors turns back and says so everywhere, a
 * harmless one goes on, and a clock that jumps repeats no step.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import { send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'

const CHANGES = 'scheduled_changes/'
const FLAGS = 'feature_flags/'
const PERSONS = 200

/** The time in which the daemon looks for due changes at least twice. */
const LOOKS_MS = 2500
let offsetMs = 0
const clock = { now: () => Date.now() + offsetMs, monotonic: () => performance.now() }

const daemon = await startDecisions(t, 1, {}, { guardLookMs: 100, clock })

/** Starts a ramp, by default to 20 %, and waits for its first step. */
async function makeRamp(
  key: string,
  value: JsonObject,
  more: JsonObject = {},
): Promise<{ flag: number; path: string }> {
  const filters = { groups: [{ properties: [], rollout_percentage: 0 }], ...more }
  const made = await daemon.api('POST', FLAGS, 1, { key, filters })
  const flag = Number(made.body['id'])
  const steps = [{ rollout_percentage: 20 }, { rollout_percentage: 100, after_seconds: 3600 }]
  const payload = { operation: 'ramp', value: { steps, ...value } }
  const change = { record_id: flag, model_name: 'FeatureFlag', payload }
  const { body } = await daemon.api('POST', CHANGES, 1, change)
  const path = `${CHANGES}${String(body['id'])}/`
  await daemon.until(async () => (await rampOf(path))['watched_from'] !== null)
  return { flag, path }
}

async function rampOf(path: string): Promise<Record<string, unknown>> {
  return (await daemon.api('GET', path)).body['ramp'] as Record<string, unknown>
}

/** Exposes persons to a flag. One of `every` persons has the event afterward. */
async function expose(key: string, value: boolean | string, event: string, every: number) {
  const events = Array.from({ length: PERSONS }, (_, number) => {
    const distinct_id = `${key} ${value} ${number}`
    const properties = { $feature_flag: key, $feature_flag_response: value }
    const exposed = { event: '$feature_flag_called', distinct_id, properties }
    return number % every === 0 ? [exposed, { event, distinct_id, properties: {} }] : [exposed]
  })
  await daemon.capture(events.flat())
}

t.test('a ramp is turned back if exposed persons have errors', async (t) => {
  const { flag, path } = await makeRamp('bad', { guards: [{}] })
  await expose('bad', false, '$exception', PERSONS)
  await expose('bad', true, '$exception', 2)
  await daemon.until(async () => (await rampOf(path))['state'] === 'turned_back')
  const ramp = await rampOf(path)
  t.match(ramp, { reason: /^50 % of 200 persons with the value true had \$exception/ })
  t.match(ramp, { steps: [{ executed_at: /Z$/ }, { executed_at: null }] })
  const { body } = await daemon.api('GET', `${FLAGS}${flag}/`)
  t.match(body, { filters: { groups: [{ rollout_percentage: 0 }] }, version: 3 })
  const audit = await daemon.ask('/api/organizations/@current/audit_log/?limit=1', {
    headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
  })
  t.match(audit.body, { results: [{ source: 'schedule', route: /ramp turned back: 50 % of/ }] })
  const page = (await send(`${daemon.url}/metrics`)).body.toString()
  t.match(page, /flag_schedule_moves_total\{outcome="turned_back"\} 1\n/)
  const events = async () => {
    const answer = await daemon.api('GET', 'events/?event=$feature_flag_guard_triggered')
    return answer.body['results'] as readonly JsonObject[]
  }
  await daemon.until(async () => (await events()).length > 0)
  t.match(await events(), [
    {
      distinct_id: 'tenrec',
      person: null,
      properties: {
        $feature_flag: 'bad',
        $feature_flag_response: 'true',
        flag_id: flag,
        scheduled_change_id: Number(/(\d+)\/$/.exec(path)?.[1]),
        action: 'turned_back',
        reason: /^50 % of 200 persons/,
        rollout_percentage: 20,
        rollout_percentage_before: 0,
        guard_event: '$exception',
        guard_worse: 'higher',
        guard_tolerance: 0,
        persons_without_flag: PERSONS,
        persons_without_flag_with_event: 1,
        persons_with_flag: PERSONS,
        persons_with_flag_with_event: PERSONS / 2,
        difference: Number,
        difference_at_least: Number,
        difference_at_most: null,
      },
    },
  ])
})

t.test('groups are counted if each condition of the flag is for the same group type', async (t) => {
  const groups = [{ properties: [], rollout_percentage: 0, aggregation_group_type_index: 0 }]
  const { path } = await makeRamp('grouped', { guards: [{}] }, { groups })
  // One person sees all groups, so that a count of persons would have nobody to compare.
  const events = Array.from({ length: 2 * PERSONS }, (_, number) => {
    const isOn = number % 2 === 0
    const $groups = { company: `company ${number}` }
    const properties = { $feature_flag: 'grouped', $feature_flag_response: isOn, $groups }
    const exposed = { event: '$feature_flag_called', distinct_id: 'operator', properties }
    const failed = { event: '$exception', distinct_id: 'operator', properties: { $groups } }
    return isOn && number % 4 === 0 ? [exposed, failed] : [exposed]
  })
  await daemon.capture(events.flat())
  await daemon.until(async () => (await rampOf(path))['state'] === 'turned_back')
  t.match(await rampOf(path), { reason: /^50 % of 200 / })
})

t.test('a violated guard can only halt', async (t) => {
  const guards = [{ event: 'purchase', worse: 'lower', tolerance: 0.01 }]
  const multivariate = { variants: [{ key: 'blue', rollout_percentage: 100 }] }
  const value = { guards, on_breach: 'halt' }
  const { flag, path } = await makeRamp('slow', value, { multivariate })
  await expose('slow', false, 'purchase', 2)
  await expose('slow', 'blue', 'purchase', PERSONS)
  await daemon.until(async () => (await rampOf(path))['state'] === 'halted')
  t.match(await rampOf(path), { reason: /with the value blue had purchase.*points less/ })
  const { body } = await daemon.api('GET', `${FLAGS}${flag}/`)
  t.match(body, { filters: { groups: [{ rollout_percentage: 20 }] }, version: 2 })
})

t.test('a harmless ramp goes on, and shows what its guards see', async (t) => {
  const { path } = await makeRamp('good', { guards: [{ tolerance: 0.05 }] })
  await expose('good', false, '$exception', 20)
  await expose('good', true, '$exception', 20)
  // An SDK that could not evaluate the flag reports other values, or none.
  await expose('good', 'unknown', '$exception', 1)
  const looked = async () => ((await rampOf(path))['looks'] as readonly JsonObject[])[0] ?? {}
  await daemon.until(async () => (await looked())['persons_with_flag'] === PERSONS)
  t.match(await looked(), {
    event: '$exception',
    value: 'true',
    persons_without_flag: PERSONS,
    persons_without_flag_with_event: 10,
    persons_with_flag_with_event: 10,
    is_violated: false,
    missing: null,
  })
  t.match(await rampOf(path), { state: 'running', reason: null })
  t.equal((await daemon.api('DELETE', path)).status, 204)
})

t.test('a clock that jumps makes one step at most, and repeats none', async (t) => {
  const DAY_MS = 86_400_000
  const steps = [1, 2, 3].map((share) => ({
    rollout_percentage: share,
    ...(share === 1 ? {} : { after_seconds: 3600 }),
  }))
  const { flag, path } = await makeRamp('jumping', { steps })
  const madeSteps = async (): Promise<number> => {
    const { steps: all } = await rampOf(path)
    return (all as readonly JsonObject[]).filter((step) => step['executed_at'] !== null).length
  }
  await daemon.until(async () => (await madeSteps()) === 1)
  offsetMs = 2 * DAY_MS
  await daemon.until(async () => (await madeSteps()) === 2)
  offsetMs = -DAY_MS
  await sleep(LOOKS_MS)
  offsetMs = 2 * DAY_MS
  await sleep(LOOKS_MS)
  t.equal(await madeSteps(), 2)
  const { body } = await daemon.api('GET', `${FLAGS}${flag}/`)
  t.match(body, { version: 3, filters: { groups: [{ rollout_percentage: 2 }] } })
})
