/**
 * More events arrive than can be processed. The daemon answers 503 before the lag grows without limit. Reads and
 * changes of persons still work, no acknowledged event is lost, and events are accepted again afterward.
 *
 * @lane all
 */
import { readdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import t from 'tap'
import { PROCESSING_NICENESS } from '../../src/engine/threads/processing/processing-priority.ts'
import { type Answer, closeConnections, jsonOf, postJson, send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { eventually } from '../fixtures/timed-command.ts'

const EVENTS_PER_REQUEST = 500
const SENDERS = 6
const HEADERS = { Authorization: `Bearer ${PERSONAL_KEY}` }

t.teardown(closeConnections)
t.setTimeout(300_000)

function batch(url: string, count: number, ordinal = 0): Promise<Answer> {
  const events = Array.from({ length: count }, (_, index) => ({
    event: 'filling',
    distinct_id: `user ${ordinal}-${index}`,
    properties: { $set: { number: index }, pad: 'x'.repeat(200) },
  }))
  return postJson(`${url}/batch/`, { api_key: 'phc_project_1', batch: events })
}

async function metric(url: string, name: string): Promise<number> {
  const page = (await send(`${url}/metrics`)).body.toString()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1])
}

const THREADS = '/proc/self/task'

/**
 * Returns the thread of this process with the niceness of the processing thread, or 0 where threads have no niceness.
 */
function processingThread(): number {
  if (process.platform !== 'linux') return 0
  const niceness = Math.min(getPriority(process.pid) + PROCESSING_NICENESS, 19)
  const threads = readdirSync(THREADS).map(Number)
  return threads.find((thread) => getPriority(thread) === niceness) ?? 0
}

t.test('events that cannot be processed in time are refused', async (t) => {
  const daemon = await startDecisions(t, 1, { 'processing-lag-limit-ms': '1000' })
  const { url } = daemon
  t.equal((await batch(url, 1)).status, 200)
  const personOf = async (): Promise<string> => {
    const { body } = await daemon.api('GET', 'persons/?distinct_id=user%200-0')
    return (body['results'] as { uuid: string }[])[0]?.uuid ?? ''
  }
  t.ok(await eventually(async () => (await personOf()) !== ''))
  const personId = await personOf()
  const thread = processingThread()
  const usualNiceness = getPriority(thread)
  const nicenesses = new Set<number>()
  const looking = setInterval(() => nicenesses.add(getPriority(thread)), 5)
  t.teardown(() => clearInterval(looking))
  const refused: Answer[] = []
  let accepted = 1
  let ordinal = 1
  let highestLag = 0
  const sendUntilRefused = async (): Promise<void> => {
    while (refused.length < 20 && ordinal < 4000) {
      const answer = await batch(url, EVENTS_PER_REQUEST, ordinal++)
      if (answer.status === 200) accepted += EVENTS_PER_REQUEST
      else {
        // The lag may have fallen again when it is read, but not every time.
        highestLag = Math.max(highestLag, await metric(url, 'ingest_lag_seconds'))
        refused.push(answer)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }
  await Promise.all(Array.from({ length: SENDERS }, sendUntilRefused))
  t.ok(refused.length > 0, `refused after ${accepted} events`)
  for (const answer of refused) {
    t.equal(answer.status, 503)
    t.equal(answer.headers['retry-after'], '5')
    t.match(jsonOf(answer), { code: 'server_error', detail: /faster than they are processed/ })
  }
  t.ok(highestLag > 0, 'the metric shows the lag')
  t.equal((await send(`${url}/api/projects/1/events/?limit=1`, { headers: HEADERS })).status, 200)
  t.equal(
    (await daemon.api('DELETE', `persons/${personId}/`)).status,
    202,
    'a person can be changed during the lag',
  )
  t.equal(await personOf(), '', 'the change is visible immediately')
  t.ok(
    await eventually(async () => (await batch(url, 1)).status === 200),
    'events are accepted again',
  )
  t.ok(
    await eventually(async () => {
      await batch(url, 1)
      return getPriority(thread) === usualNiceness
    }),
    'the processing thread has its own priority again',
  )
  t.ok(await eventually(async () => (await metric(url, 'ingest_queue_depth')) === 0))
  const page = (await send(`${url}/metrics`)).body.toString()
  const stored = Number(/^ingest_events_total\{.*fate="stored"\} (\d+)$/m.exec(page)?.[1])
  t.equal(stored, Number(/^ingest_events_total\{.*fate="accepted"\} (\d+)$/m.exec(page)?.[1]))
  if (thread > 0 && process.getuid?.() === 0) {
    t.ok(nicenesses.has(getPriority(process.pid)), 'processing had the priority of the main thread')
  }
  t.ok(stored > accepted, 'every event that was answered with 200 is stored')
})
