/**
 * Tests the routes of scheduled changes, and that the daemon makes each change once, with an entry in the flag's
 * activity log and in the audit log. If a flag cannot be changed, the reason is stored.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const CHANGES = 'scheduled_changes/'
const FLAGS = 'feature_flags/'
const ON = { operation: 'update_status', value: true }
const daemon = await shareDecisions(2)
let flagCount = 0

const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString()

async function makeFlag(more: JsonObject = {}): Promise<number> {
  const key = `scheduled-${++flagCount}`
  const { body } = await daemon.api('POST', FLAGS, 1, { key, active: false, ...more })
  return Number(body['id'])
}

async function schedule(flag: number, payload: JsonObject, more: JsonObject = {}) {
  const change = { record_id: flag, model_name: 'FeatureFlag', payload, ...more }
  return await daemon.api('POST', CHANGES, 1, change)
}

async function ended(id: unknown): Promise<JsonObject> {
  let shown: JsonObject = {}
  await daemon.until(async () => {
    const { body } = await daemon.api('GET', `${CHANGES}${String(id)}/`)
    shown = body
    return body['executed_at'] !== null
  })
  return shown
}

const auditOf = async (flag: number) => {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const path = '/api/organizations/@current/audit_log/?limit=1000'
  const { body } = await daemon.ask(path, { headers })
  const entries = body['results'] as readonly JsonObject[]
  return entries.filter(
    (entry) => entry['source'] === 'schedule' && entry['object_id'] === String(flag),
  )
}

t.test('a change in the shape of PostHog', async (t) => {
  const flag = await makeFlag()
  const scheduled_at = inMs(3_600_000)
  const { status, body } = await schedule(flag, ON, { scheduled_at })
  t.equal(status, 201)
  t.match(body, {
    team_id: daemon.idOf(),
    record_id: String(flag),
    model_name: 'FeatureFlag',
    payload: ON,
    executed_at: null,
    failure_reason: null,
    is_recurring: false,
    recurrence_interval: null,
    last_executed_at: null,
    end_date: null,
    created_by: { email: /@/ },
    ramp: null,
  })
  t.equal(Date.parse(String(body['scheduled_at'])), Date.parse(scheduled_at))
  const path = `${CHANGES}${String(body['id'])}/`
  const later = inMs(7_200_000)
  const patched = await daemon.api('PATCH', path, 1, { scheduled_at: later })
  t.equal(patched.status, 200)
  t.equal(Date.parse(String(patched.body['scheduled_at'])), Date.parse(later))
  const idsOf = async (query: string) => {
    const { body: list } = await daemon.api('GET', `${CHANGES}?${query}`)
    return (list['results'] as readonly JsonObject[]).map((one) => one['id'])
  }
  t.strictSame(await idsOf(`record_id=${flag}`), [body['id']])
  t.strictSame(await idsOf(`model_name=FeatureFlag&record_id=${flag}`), [body['id']])
  t.strictSame(await idsOf('model_name=Survey'), [])
  t.strictSame(await idsOf('record_id=nothing'), [])
  t.equal((await daemon.api('GET', path, 2)).status, 404, 'another project does not have it')
  t.equal((await daemon.api('DELETE', path)).status, 204)
  t.equal((await daemon.api('GET', path)).status, 404)
  t.equal((await daemon.api('DELETE', path)).status, 404)
  t.equal((await daemon.api('PATCH', path, 1, {})).status, 404)
})

t.test('refusals', async (t) => {
  const flag = await makeFlag()
  const deleted = await makeFlag()
  await daemon.api('PATCH', `${FLAGS}${deleted}/`, 1, { deleted: true })
  const soon = { scheduled_at: inMs(60_000) }
  const cohort = { key: 'id', type: 'cohort', value: 99_999 }
  const withCohort = { groups: [{ properties: [cohort], rollout_percentage: 100 }] }
  const half = [{ key: 'a', rollout_percentage: 50 }]
  const cases: [string, Promise<{ status: number; body: JsonObject }>, JsonObject][] = [
    ['an unknown flag', schedule(999_999, ON, soon), { code: 'does_not_exist', attr: 'record_id' }],
    ['a deleted flag', schedule(deleted, ON, soon), { code: 'does_not_exist', attr: 'record_id' }],
    [
      'a past time',
      schedule(flag, ON, { scheduled_at: '2020-01-01T00:00:00Z' }),
      { code: 'invalid_input', attr: 'scheduled_at' },
    ],
    [
      'an unknown operation',
      schedule(flag, { operation: 'explode', value: 1 }, soon),
      { code: 'invalid_input', attr: 'payload' },
    ],
    ['no value', schedule(flag, { operation: 'ramp' }), { attr: 'payload' }],
    [
      'a status that is none',
      schedule(flag, { operation: 'update_status', value: 'maybe' }, soon),
      { code: 'invalid_input', attr: 'active' },
    ],
    [
      'a condition that no flag may have',
      schedule(flag, { operation: 'add_release_condition', value: withCohort }, soon),
      { code: 'cohort_does_not_exist', attr: 'filters' },
    ],
    [
      'variants that do not add up',
      schedule(flag, { operation: 'update_variants', value: { variants: half } }, soon),
      { code: 'invalid_input', attr: 'filters' },
    ],
    ['another model', schedule(flag, ON, { model_name: 'Survey' }), { attr: 'model_name' }],
    [
      'an unknown interval',
      schedule(flag, ON, { ...soon, is_recurring: true, recurrence_interval: 'hourly' }),
      { code: 'invalid_choice', attr: 'recurrence_interval' },
    ],
  ]
  for (const [name, answer, wanted] of cases) {
    const { status, body } = await answer
    t.equal(status, 400, name)
    t.match(body, { type: 'validation_error', ...wanted }, name)
    t.match(body['detail'], /\.$/, `${name}: ${String(body['detail'])}`)
  }
})

t.test('the daemon makes a change at its time, once', async (t) => {
  const flag = await makeFlag()
  const { body } = await schedule(flag, ON, { scheduled_at: inMs(300) })
  const made = await ended(body['id'])
  t.equal(made['failure_reason'], null)
  const { body: shown } = await daemon.api('GET', `${FLAGS}${flag}/`)
  t.match(shown, { active: true, version: 2 })
  const { body: log } = await daemon.api('GET', `${FLAGS}${flag}/activity/`)
  const [newest] = log['results'] as readonly JsonObject[]
  t.match(newest, {
    user: { is_system: true },
    detail: { note: new RegExp(`^Scheduled change ${String(made['id'])}, created by `) },
  })
  const entries = await auditOf(flag)
  t.equal(entries.length, 1)
  t.match(entries[0], {
    source: 'schedule',
    route: `scheduled change ${String(made['id'])}: update_status`,
    user: { email: /@/ },
    method: null,
    status: null,
  })
  const again = await daemon.api('PATCH', `${CHANGES}${String(made['id'])}/`, 1, {})
  t.match(again, { status: 400, body: { code: 'invalid_input' } }, 'an ended change is final')
})

t.test('a change that the flag does not accept any more has a reason', async (t) => {
  const flag = await makeFlag()
  const { body } = await schedule(flag, ON, { scheduled_at: inMs(500) })
  await daemon.api('PATCH', `${FLAGS}${flag}/`, 1, { deleted: true })
  t.equal((await ended(body['id']))['failure_reason'], 'The flag was deleted.')
  t.match(await auditOf(flag), [{ route: /failed: The flag was deleted\.$/ }])
})

t.test('a recurring change waits for its next time', async (t) => {
  const flag = await makeFlag()
  const { body } = await schedule(flag, ON, {
    scheduled_at: inMs(100),
    is_recurring: true,
    recurrence_interval: 'weekly',
  })
  const path = `${CHANGES}${String(body['id'])}/`
  await daemon.until(async () => (await daemon.api('GET', path)).body['last_executed_at'] !== null)
  const { body: shown } = await daemon.api('GET', path)
  const [first, next] = [body, shown].map((one) => Date.parse(String(one['scheduled_at'])))
  t.equal((next ?? 0) - (first ?? 0), 7 * 86_400_000)
  t.equal(shown['executed_at'], null)
})

t.test('a ramp makes its steps, and a preview shows whom they reach', async (t) => {
  await daemon.capture(
    Array.from({ length: 60 }, (_, number) => ({
      event: 'seen',
      distinct_id: `person ${number}`,
      properties: {},
    })),
  )
  const flag = await makeFlag({ filters: { groups: [{ properties: [], rollout_percentage: 0 }] } })
  const steps = [
    { rollout_percentage: 10 },
    { rollout_percentage: 50, after_seconds: 0.2 },
    { rollout_percentage: 100, after_seconds: 0.2 },
  ]
  const payload = { operation: 'ramp', value: { steps } }
  const preview = await daemon.api('POST', `${CHANGES}preview/`, 1, { record_id: flag, payload })
  t.equal(preview.status, 200)
  const shown = preview.body['steps'] as readonly Record<string, number>[]
  const people = shown[0]?.['sampled'] ?? 0
  t.ok(people >= 60)
  t.equal(shown[2]?.['enabled'], people)
  const sum = shown.reduce((all, step) => all + (step['newly_enabled'] ?? 0), 0)
  t.equal(sum, people, 'each person gets the flag in one of the steps')
  const { status, body } = await schedule(flag, payload)
  t.equal(status, 201)
  t.match(body, { ramp: { state: 'running', steps: [{}, {}, {}], rollout_percentage_before: 0 } })
  const made = await ended(body['id'])
  t.match(made, { ramp: { state: 'done', reason: null }, failure_reason: null })
  const { body: after } = await daemon.api('GET', `${FLAGS}${flag}/`)
  t.match(after, { active: true, version: 4, filters: { groups: [{ rollout_percentage: 100 }] } })
  t.strictSame(
    (await auditOf(flag)).map(({ route }) => String(route).replace(/^.*: /, '')).reverse(),
    ['10 %', '50 %', '100 %'],
  )
})

t.test('a person who changes the flag halts its ramp', async (t) => {
  const flag = await makeFlag({ filters: { groups: [{ properties: [], rollout_percentage: 0 }] } })
  const steps = [{ rollout_percentage: 10 }, { rollout_percentage: 50, after_seconds: 1 }]
  const { body } = await schedule(flag, { operation: 'ramp', value: { steps } })
  const path = `${CHANGES}${String(body['id'])}/`
  const stateOf = async () =>
    (await daemon.api('GET', path)).body['ramp'] as Record<string, unknown>
  await daemon.until(
    async () => (await daemon.api('GET', `${FLAGS}${flag}/`)).body['active'] === true,
  )
  const none = { groups: [{ properties: [], rollout_percentage: 0 }] }
  await daemon.api('PATCH', `${FLAGS}${flag}/`, 1, { filters: none })
  await daemon.until(async () => (await stateOf())['state'] === 'halted')
  t.match(await stateOf(), { reason: /changed by somebody: it has 0 % instead of 10 %/ })
  const resumed = await daemon.api('PATCH', path, 1, { state: 'running' })
  t.match(resumed, { status: 200, body: { ramp: { state: 'running', reason: null } } })
  const halted = await daemon.api('PATCH', path, 1, { state: 'halted' })
  t.match(halted, { status: 200, body: { ramp: { state: 'halted', reason: /person/ } } })
})
