/**
 * The stream of stored events over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../../src/base/clock.ts'
import { Gauge } from '../../../src/base/metrics.ts'
import { LIVE_QUEUE_BYTES_MAX, LIVE_STREAMS_MAX } from '../../../src/engine/front/limits.ts'
import { LiveEvents } from '../../../src/engine/front/live-events.ts'
import { STREAM_NAMES_MAX } from '../../../src/http/routes/limits.ts'
import type { LiveEvent } from '../../../src/rules/events/live-events.ts'
import { EventStream } from '../../fixtures/event-stream.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { startOrganization } from '../../fixtures/organization-daemon.ts'

t.setTimeout(300_000)

const PATH = 'events/stream/'
const organization = await startOrganization(t)
const { decisions } = organization

const STORED: LiveEvent = {
  projectId: 1,
  sequence: 1,
  uuid: '',
  name: 'a',
  distinctId: 'ann',
  distinctIdNumber: 1,
  timestampMs: 0,
  createdAtMs: 0,
  elementsChain: '',
  properties: '{}',
  personMode: 'full',
  isHistorical: false,
}

async function stream(query = '', { project = 1, key = PERSONAL_KEY } = {}): Promise<EventStream> {
  const url = `${decisions.url}/api/projects/${project}/${PATH}${query}`
  const opened = await EventStream.open(url, key)
  t.teardown(() => opened.close())
  return opened
}

async function send(events: readonly object[], projectId = 1): Promise<void> {
  const batch = events.map((event) => ({ distinct_id: 'ann', properties: {}, ...event }))
  const { status } = await decisions.ask('/batch/', {
    json: { api_key: decisions.key(projectId), batch },
  })
  if (status !== 200) throw new Error(`the batch was refused with ${status}`)
}

t.test(
  'an event is sent before the next one is captured, in the same form as in the list',
  async (t) => {
    const opened = await stream()
    t.equal(opened.status, 200)
    t.equal(opened.headers.get('content-type'), 'text/event-stream')
    t.equal(opened.headers.get('cache-control'), 'no-store')
    t.equal(opened.headers.get('x-accel-buffering'), 'no')
    const properties = { $set: { plan: 'pro' }, path: '/"\n\u2028' }
    for (const count of [1, 2, 3]) {
      await send([{ event: 'bought', properties }])
      await opened.have(count)
      t.equal(opened.events.length, count)
    }
    const row = opened.events[0] ?? {}
    t.match(row, { event: 'bought', distinct_id: 'ann', properties: { path: '/"\n\u2028' } })
    const { body } = await decisions.api('GET', 'events/?event=bought')
    t.strictSame(opened.events.toReversed(), body['results'])
  },
)

t.test('names and a distinct_id select events, and each project has its own stream', async (t) => {
  const named = await stream('?event=a&event=b&distinct_id=ann')
  const other = await stream('', { project: 2 })
  await send([
    { event: 'a', distinct_id: 'bob' },
    { event: 'c' },
    { event: 'b' },
    { event: 'a', properties: { last: true } },
  ])
  await send([{ event: 'a' }], 2)
  await named.have(2)
  await other.have(1)
  t.strictSame(
    named.events.map(({ event }) => event),
    ['b', 'a'],
  )
  t.match(other.events, [{ event: 'a', id: 1 }])
  t.equal(named.missed + other.missed, 0)
  const names = Array.from({ length: STREAM_NAMES_MAX + 1 }, () => 'event=a').join('&')
  t.match(await decisions.api('GET', `${PATH}?${names}`), {
    status: 400,
    body: { code: 'invalid_input', attr: 'event' },
  })
})

t.test('a second stream of the same key and project ends the first', async (t) => {
  const first = await stream()
  const other = await stream('', { project: 2 })
  const second = await stream()
  await first.ended
  t.match(first.messages.at(-1), {
    event: 'replaced',
    data: { detail: /at most 1 streams can be open at a time/ },
  })
  await send([{ event: 'again' }])
  await second.have(1)
  t.strictSame([first.events.length, other.messages.some(({ event }) => event !== '')], [0, false])
})

t.test('a burst is sampled, and the number of omitted events is reported', async (t) => {
  const opened = await stream('?event=burst')
  await send([...Array.from({ length: 3000 }, () => ({ event: 'burst' })), { event: 'other' }])
  await opened.have(3000)
  t.equal(opened.events.length + opened.missed, 3000)
  t.ok(opened.events.length >= 1 && opened.missed > 0)
})

t.test('a stream ends when its key is revoked, and requires the scope of the list', async (t) => {
  const { keys } = organization.store.projects
  const { key: record, text } = keys.create({ userId: 1, scopes: ['event:read'] })
  const narrow = keys.create({ userId: 1, scopes: ['person:read'] })
  await organization.settled()
  const opened = await stream('', { key: text })
  const refused = await stream('', { key: narrow.text })
  t.equal(refused.status, 403)
  keys.revoke(record.id)
  await opened.ended
  t.equal((await stream('', { key: text })).status, 401)
})

t.test('the number of streams is limited', async (t) => {
  const keys = Array.from({ length: LIVE_STREAMS_MAX }, () => organization.keyOf({ userId: 1 }))
  await organization.settled()
  const opened: EventStream[] = []
  for (const key of keys) opened.push(await stream('?event=none', { project: 2, key }))
  const [refused] = opened.filter(({ status }) => status !== 200)
  t.match([refused?.status, refused?.headers.get('retry-after')], [503, '30'])
  for (const each of opened) each.close()
  await decisions.until(async () => {
    const again = await stream('', { project: 2, key: keys[0] ?? '' })
    again.close()
    return again.status === 200
  })
})

t.test('a slow reader is told how many events it missed', async (t) => {
  const text = JSON.stringify({ event: 'x'.repeat(100_000) })
  const queries = { liveEvents: async (events: readonly LiveEvent[]) => events.map(() => text) }
  const live = new LiveEvents(queries, SYSTEM_CLOCK, new Gauge())
  const filter = { projectId: 1, events: [], distinctId: null }
  const opened = await live.open({ owner: '', ownedMax: 1, filter, isAllowed: () => true })
  const [watch] = live.begin()
  const events = [1, 2, 3, 4].map((sequence) => ({ ...STORED, sequence }))
  live.stored([{ id: watch?.id ?? 0, events, missed: 5 }])
  await new Promise((resolve) => setImmediate(resolve))
  const said = Buffer.from((await opened.next()) ?? []).toString()
  t.ok(said.length <= LIVE_QUEUE_BYTES_MAX + 1000)
  t.equal(said.split('event: event').length - 1, 2)
  t.match(said, /event: missed\ndata: {"count":7}\n\n$/)
  live.close()
  t.equal(await opened.next(), null)
})

t.test(
  'faster events are sent once a second, and omitted ones are reported as often',
  async (t) => {
    let nowMs = 0
    const queries = { liveEvents: async (events: readonly LiveEvent[]) => events.map(() => '{}') }
    const live = new LiveEvents(queries, { monotonic: () => nowMs }, new Gauge())
    t.teardown(() => live.close())
    const filter = { projectId: 1, events: [], distinctId: null }
    const opened = await live.open({ owner: '', ownedMax: 1, filter, isAllowed: () => true })
    const rooms: (number | undefined)[] = []
    const said: string[] = []
    const reading = (async () => {
      for (let text = await opened.next(); text !== null; text = await opened.next())
        said.push(Buffer.from(text).toString())
    })()
    for (let run = 0; run <= 10; run++) {
      const [watch] = live.begin()
      rooms.push(watch?.eventsMax)
      const events = Array.from({ length: watch?.eventsMax ?? 0 }, () => ({ ...STORED }))
      live.stored([{ id: watch?.id ?? 0, events, missed: 100 }])
      await new Promise((resolve) => setImmediate(resolve))
      nowMs += 200
    }
    t.strictSame(rooms, [50, 0, 0, 0, 0, 10, 0, 0, 0, 0, 10])
    t.equal(said.filter((text) => text.includes('event: event')).length, 3)
    const counts = () =>
      said.flatMap((text) => [...text.matchAll(/"count":(\d+)/g)].map(([, one]) => Number(one)))
    t.strictSame(counts(), [100, 500, 500], 'there is no message for each run')
    live.stored([{ id: live.begin()[0]?.id ?? 0, events: [], missed: 7 }])
    await new Promise((resolve) => setTimeout(resolve, 1500))
    t.strictSame(counts(), [100, 500, 500, 7], 'within a second where nothing is shown')
    live.close()
    await reading
  },
)

t.test('shutdown ends the streams without waiting for them', async (t) => {
  const opened = await stream()
  await decisions.stop()
  // A shutdown that waits would abort the remaining streams, and this promise would reject.
  await t.resolves(opened.ended, 'it comes to a proper end')
})
