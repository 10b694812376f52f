/**
 * The released posthog-node, version 5 (gzip, also through capture v1) and version 3 (plain JSON), against the built
 * daemon. Every event arrives once with its properties, and no request is sent twice.
 *
 * @lane quick
 */
import { gunzipSync } from 'node:zlib'
import { PostHog } from 'posthog-node'
import { PostHog as PostHog3 } from 'posthog-node-3'
import t, { type Test } from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { type StoredEvent, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections } from '../fixtures/exact-client.ts'

const BATCH_EVENTS = 25
/** The single calls of `useAll`, and its batch. */
const ALL_EVENTS = 5 + BATCH_EVENTS

/** The requests that one SDK has sent. */
interface Recorded {
  readonly path: string
  readonly status: number
  readonly isGzip: boolean
  readonly eventCount: number
}

/** The part of both versions that is used here. */
interface Client {
  capture(message: {
    distinctId: string
    event: string
    properties?: Record<string, unknown>
    groups?: Record<string, string>
    timestamp?: Date
  }): void
  identify(message: { distinctId: string; properties: Record<string, unknown> }): void
  alias(message: { distinctId: string; alias: string }): void
  groupIdentify(message: {
    groupType: string
    groupKey: string
    properties: Record<string, unknown>
  }): void
  flush(): unknown
}

t.teardown(closeConnections)
t.setTimeout(300_000)

/** A `fetch` that records requests and answers. */
function recordingFetch(recorded: Recorded[]) {
  return async (
    url: string,
    options: { method: string; headers: Record<string, string>; body?: unknown },
  ): Promise<Response> => {
    const body = options.body as string | Uint8Array<ArrayBuffer>
    const bytes = Buffer.from(typeof body === 'string' ? body : new Uint8Array(body))
    const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b
    const text = (isGzip ? gunzipSync(bytes) : bytes).toString()
    const answer = await fetch(url, { method: options.method, headers: options.headers, body })
    const { batch } = JSON.parse(text) as { batch?: unknown[] }
    const { pathname: path } = new URL(url)
    recorded.push({ path, status: answer.status, isGzip, eventCount: batch?.length ?? 0 })
    return answer
  }
}

async function useAll(client: Client, distinctId: string): Promise<void> {
  const timestamp = new Date('2025-03-04T05:06:07.089Z')
  client.capture({ distinctId, event: 'signed up', properties: { plan: 'größe 💻', n: [1, null] } })
  client.capture({ distinctId, event: 'dated', timestamp, groups: { company: 'acme' } })
  client.identify({ distinctId, properties: { email: 'user@example.com' } })
  client.alias({ distinctId, alias: `${distinctId} alias` })
  client.groupIdentify({ groupType: 'company', groupKey: 'acme', properties: { seats: 5 } })
  await client.flush()
  for (let index = 0; index < BATCH_EVENTS; index++) {
    client.capture({ distinctId, event: 'in a batch', properties: { index } })
  }
}

function checkStored(t: Test, events: readonly StoredEvent[], version: RegExp, user: string): void {
  t.equal(events.length, ALL_EVENTS)
  t.equal(new Set(events.map(({ uuid }) => uuid)).size, ALL_EVENTS)
  const named = (name: string) => events.filter(({ event }) => event === name)
  const only = (name: string): StoredEvent => {
    const [event, ...others] = named(name)
    if (event === undefined || others.length > 0) throw new Error(`not one event ${name}`)
    return event
  }
  t.match(only('signed up'), {
    distinct_id: user,
    properties: { plan: 'größe 💻', n: [1, null], $lib: 'posthog-node', $lib_version: version },
  })
  t.equal(only('dated').timestamp.slice(0, 19), '2025-03-04T05:06:07')
  t.match(only('dated').properties, { $groups: { company: 'acme' } })
  t.match(only('$identify'), {
    distinct_id: user,
    properties: { $set: { email: 'user@example.com' } },
  })
  t.match(only('$create_alias').properties, { distinct_id: user, alias: `${user} alias` })
  t.match(only('$groupidentify'), {
    distinct_id: '$company_acme',
    properties: { $group_type: 'company', $group_key: 'acme', $group_set: { seats: 5 } },
  })
  const indexes = named('in a batch').map(({ properties }) => Number(properties['index']))
  t.strictSame(
    indexes.sort((left, right) => left - right),
    Array.from({ length: BATCH_EVENTS }, (_, index) => index),
  )
  for (const { uuid } of events) t.match(uuid, /^[0-9a-f-]{36}$/)
}

function checkSentOnce(
  t: Test,
  recorded: readonly Recorded[],
  isGzip: boolean,
  path = '/batch/',
): void {
  t.ok(recorded.length >= 2)
  for (const request of recorded) {
    t.match(request, { path, status: 200, isGzip })
  }
  const eventCount = recorded.reduce((sum, request) => sum + request.eventCount, 0)
  t.equal(eventCount, ALL_EVENTS, 'no event was sent twice')
}

async function start(t: Test): Promise<SpawnedDaemon> {
  const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
  t.teardown(() => daemon.stop())
  return daemon
}

t.test('posthog-node 5', async (t) => {
  const daemon = await start(t)
  const recorded: Recorded[] = []
  const client = new PostHog(PROJECT_KEY, {
    host: daemon.url,
    fetch: recordingFetch(recorded),
    fetchRetryDelay: 100,
  })
  const failures: unknown[] = []
  client.on('error', (error) => failures.push(error))
  await useAll(client, 'user of 5')
  await client.shutdown()
  t.strictSame(failures, [])
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  checkStored(t, await untilStored(source, ALL_EVENTS), /^5\./, 'user of 5')
  checkSentOnce(t, recorded, true)
})

t.test('posthog-node 5 by capture v1', async (t) => {
  const daemon = await start(t)
  const recorded: Recorded[] = []
  process.env['POSTHOG_CAPTURE_MODE'] = 'v1'
  t.teardown(() => delete process.env['POSTHOG_CAPTURE_MODE'])
  const client = new PostHog(PROJECT_KEY, {
    host: daemon.url,
    fetch: recordingFetch(recorded),
    fetchRetryDelay: 100,
  })
  const failures: unknown[] = []
  client.on('error', (error) => failures.push(error))
  await useAll(client, 'user of v1')
  await client.flush()
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  checkStored(t, await untilStored(source, ALL_EVENTS), /^5\./, 'user of v1')
  checkSentOnce(t, recorded, true, '/i/v1/analytics/events')

  client.capture({
    distinctId: 'user of v1',
    event: 'with options',
    properties: { $session_id: 'one session', $process_person_profile: false },
  })
  client.capture({ distinctId: 'user of v1', event: '$ai_span', properties: {} })
  await client.flush()
  t.strictSame(failures, [])
  client.capture({ distinctId: ' ', event: 'of nobody' })
  await client.shutdown()
  t.match(failures, [{ name: 'CaptureV1Error', drops: [{ details: 'missing_distinct_id' }] }])
  const events = await untilStored(source, ALL_EVENTS + 2)
  t.match(
    events.find(({ event }) => event === 'with options'),
    { properties: { $session_id: 'one session', $process_person_profile: false } },
  )
  t.ok(events.some(({ event }) => event === '$ai_span'))
})

t.test('posthog-node 3', async (t) => {
  const daemon = await start(t)
  const recorded: Recorded[] = []
  const client = new PostHog3(PROJECT_KEY, {
    host: daemon.url,
    fetch: recordingFetch(recorded),
    fetchRetryDelay: 100,
  })
  const failures: unknown[] = []
  client.on('error', (error) => failures.push(error))
  await useAll(client, 'user of 3')
  await client.shutdownAsync()
  t.strictSame(failures, [])
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  checkStored(t, await untilStored(source, ALL_EVENTS), /^3\./, 'user of 3')
  checkSentOnce(t, recorded, false)
})
