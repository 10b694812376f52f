/**
 * Tests clock jumps: order of arrival, uuids, ages and timers do not depend on the clock, and scheduled changes of flags
 * are made once.
 *
 * @lane all
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import { readEvents, untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'

const HOUR_MS = 3_600_000
const YEAR_MS = 365 * 86_400_000
const EVENTS_EACH = 20
/** The time in which the daemon looks for due changes of flags at least twice. */
const LOOKS_MS = 2500

t.teardown(closeConnections)

t.test('years forward and hours back: arrival order holds, and nothing is lost', async (t) => {
  let offsetMs = 0
  const clock = { now: () => Date.now() + offsetMs, monotonic: () => performance.now() }
  const { daemon } = await startDecisions(t, 1, {}, { clock })
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  const capture = async (index: number, fields: object = {}): Promise<void> => {
    const event = { api_key: 'phc_project_1', event: `e${index}`, distinct_id: 'a', ...fields }
    const { status } = await postJson(`${daemon.url}/capture/`, event)
    if (status !== 200) throw new Error(`an event was answered ${status}`)
  }
  let index = 0
  for (const jumpMs of [0, 10 * YEAR_MS, -3 * 3_600_000, -20 * YEAR_MS, 10 * YEAR_MS]) {
    offsetMs += jumpMs
    for (let count = 0; count < EVENTS_EACH; count++) await capture(index++)
    const metrics = (await send(`${daemon.url}/metrics`)).body.toString()
    t.notMatch(metrics, /^ingest_oldest_unprocessed_age_seconds -/m, 'no negative age')
    t.equal((await send(`${daemon.url}/_readyz`)).status, 200)
  }
  const uuid = crypto.randomUUID()
  await capture(index, { uuid })
  await untilVisible(source, uuid)
  const events = await readEvents(source)
  t.strictSame(
    events.map(({ event }) => event),
    Array.from({ length: index + 1 }, (_, number) => `e${number}`),
  )
  t.equal(new Set(events.map((event) => event.uuid)).size, index + 1, 'no uuid occurs twice')
})

t.test('each scheduled change of a flag is made once, however the clock jumps', async (t) => {
  let offsetMs = 0
  const clock = { now: () => Date.now() + offsetMs, monotonic: () => performance.now() }
  const daemon = await startDecisions(t, 1, {}, { clock })
  const schedule = async (key: string, payload: JsonObject, more: JsonObject = {}) => {
    const filters = { groups: [{ properties: [], rollout_percentage: 0 }] }
    const { body: flag } = await daemon.api('POST', 'feature_flags/', 1, { key, filters })
    const change = { record_id: flag['id'], model_name: 'FeatureFlag', payload, ...more }
    const { status, body } = await daemon.api('POST', 'scheduled_changes/', 1, change)
    t.equal(status, 201, JSON.stringify(body))
    return String(flag['id'])
  }
  const startMs = Date.now()
  const scheduled_at = new Date(startMs + HOUR_MS).toISOString()
  const off = { operation: 'update_status', value: false }
  const steps = [1, 2, 3].map((share) => ({
    rollout_percentage: share,
    ...(share === 1 ? {} : { after_seconds: HOUR_MS / 1000 }),
  }))
  const daily = { scheduled_at, is_recurring: true, recurrence_interval: 'daily' }
  const flags = [
    await schedule('once', off, { scheduled_at }),
    await schedule('daily', off, daily),
    await schedule('ramp', { operation: 'ramp', value: { steps } }),
  ]
  /** Returns how often the change of each flag was made. */
  const made = async (): Promise<readonly number[]> => {
    const path = '/api/organizations/@current/audit_log/?limit=1000'
    const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
    const entries = (await daemon.ask(path, { headers })).body['results'] as readonly JsonObject[]
    const own = entries.filter(({ source }) => source === 'schedule')
    return flags.map((flag) => own.filter((entry) => entry['object_id'] === flag).length)
  }
  // Hours since the start, and how often each change was made by then.
  const jumps: [number, readonly number[]][] = [
    [0, [0, 0, 1]],
    [2, [1, 1, 2]],
    [-24, [1, 1, 2]],
    [2, [1, 1, 2]],
    [26, [1, 2, 3]],
    [-720, [1, 2, 3]],
    [120, [1, 3, 3]],
    [0, [1, 3, 3]],
    [119, [1, 3, 3]],
  ]
  for (const [hours, wanted] of jumps) {
    offsetMs = hours * HOUR_MS
    await sleep(LOOKS_MS)
    await daemon.until(async () => String(await made()) === String(wanted))
    t.strictSame(await made(), wanted, `at hour ${hours}`)
  }
})
