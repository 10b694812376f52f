/**
 * Tests clock jumps: order of arrival, uuids, ages and timers do not depend on the clock.
 *
 * @lane all
 */
import t from 'tap'
import { readEvents, untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'

const YEAR_MS = 365 * 86_400_000
const EVENTS_EACH = 20

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
