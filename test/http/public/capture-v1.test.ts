/**
 * Capture v1 (`/i/v1/analytics/events`) and `/i/v0/ai/batch/`: the requests of the newest SDKs, the result of each
 * event, the stored events, and the refusals.
 *
 * @lane quick
 */
import { randomUUID } from 'node:crypto'
import * as zlib from 'node:zlib'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import {
  PERSONAL_KEY as OWNER_KEY,
  PROJECT_KEY,
  type SpawnedDaemon,
  spawnDaemon,
} from '../../fixtures/daemon.ts'
import { untilStored } from '../../fixtures/event-pages.ts'
import { jsonOf, send } from '../../fixtures/exact-client.ts'
import {
  type DecisionDaemon,
  type JsonAnswer,
  PERSONAL_KEY,
  startDecisions,
} from '../../fixtures/flags/decision-daemon.ts'

const EVENTS = '/i/v1/analytics/events'
const ANALYTICS = [EVENTS, `${EVENTS}/`, '/i/v1/ai/events']
const OK = { result: 'ok' }
const FAST = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }
const ZSTD_START = Buffer.from('28b52ffd', 'hex')
/** The parameter `ZSTD_c_contentSizeFlag` of zstd. Without the size of the content, a frame states its window. */
const ZSTD_CONTENT_SIZE_FLAG = 200
/** Compresses with zstd. Null on a version of Node without it. */
const zstd = zstdOf(zlib)

t.setTimeout(120_000)
const daemon = await startDecisions(t, 3)

type Zstd = (data: string | Buffer, params?: Record<number, number>) => Buffer

function zstdOf(node: object): Zstd | null {
  if (!('zstdCompressSync' in node)) return null
  const compress = node.zstdCompressSync as (data: string | Buffer, options: object) => Buffer
  return (data, params = {}) => compress(data, { params })
}

/** An event as SDKs write it. */
function eventOf(more: JsonObject = {}): JsonObject & { readonly uuid: string } {
  return {
    event: 'signed up',
    uuid: randomUUID(),
    distinct_id: 'ann',
    timestamp: new Date().toISOString(),
    options: {},
    properties: {},
    ...more,
  } as JsonObject & { readonly uuid: string }
}

function headersOf(key: string, more: Record<string, string> = {}): Record<string, string> {
  return {
    'Content-Type': 'application/json',
    Authorization: `Bearer ${key}`,
    'PostHog-Sdk-Info': 'posthog-rs/1.2.3',
    'PostHog-Attempt': '1',
    'PostHog-Request-Id': randomUUID(),
    'PostHog-Request-Timestamp': new Date().toISOString(),
    ...more,
  }
}

function sendBatch(
  batch: readonly unknown[],
  headers: Record<string, string> = {},
  projectId = 1,
  path = EVENTS,
): Promise<JsonAnswer> {
  const json = { created_at: new Date().toISOString(), batch }
  return daemon.ask(path, { json, headers: headersOf(daemon.key(projectId), headers) })
}

/** Waits until the event can be read and returns the stored event. */
async function stored(uuid: string, source: DecisionDaemon = daemon): Promise<JsonObject> {
  let found: JsonObject = {}
  await source.until(async () => {
    const answer = await source.api('GET', `events/${uuid}/`)
    found = answer.body
    return answer.status === 200
  })
  return found
}

t.test('the fields of capture v1 are stored as the properties of /batch/', async (t) => {
  for (const path of ANALYTICS) {
    const event = eventOf({
      session_id: 'a session',
      window_id: 'a window',
      options: {
        disable_skew_correction: 'true',
        process_person_profile: 0,
        product_tour_id: 7,
        unknown: [],
      },
      properties: { plan: 'größe 💻', $lib: 'its own', $session_id: 'its own' },
    })
    const answer = await sendBatch([event], {}, 1, path)
    t.equal(answer.status, 200)
    t.strictSame(answer.body, { results: { [event.uuid]: OK } }, path)
    const { properties, ...rest } = await stored(event.uuid)
    t.match(rest, { event: 'signed up', distinct_id: 'ann', person_mode: 'propertyless' })
    t.match(properties, {
      plan: 'größe 💻',
      $session_id: 'a session',
      $window_id: 'a window',
      $ignore_sent_at: true,
      $process_person_profile: false,
      $product_tour_id: '7',
      $lib: 'posthog-rs',
      $lib_version: '1.2.3',
    })
  }
})

t.test('the client clock corrects the timestamp unless the event disables it', async (t) => {
  // The client clock is set to 2020. An event from one day before the request happened yesterday.
  const timestamp = '2020-01-09T00:00:00.000Z'
  const corrected = eventOf({ timestamp })
  const kept = eventOf({ timestamp, options: { disable_skew_correction: true } })
  const sentAt = '2020-01-10T00:00:00.000Z'
  await sendBatch([corrected, kept], { 'PostHog-Request-Timestamp': sentAt })
  const yesterday = String((await stored(corrected.uuid))['timestamp'])
  t.ok(yesterday > '2026-01-01', yesterday)
  t.equal(Date.parse(String((await stored(kept.uuid))['timestamp'])), Date.parse(timestamp))
})

t.test(
  'each event has its own result, and an invalid one does not prevent others from being stored',
  async (t) => {
    const good = eventOf()
    const undated = eventOf({ timestamp: 'the day before yesterday' })
    const bare = { event: 'bare', uuid: randomUUID(), distinct_id: 'ann' }
    const upper = eventOf({ uuid: randomUUID().toUpperCase() })
    const bad: readonly (readonly [JsonObject & { readonly uuid: string }, string])[] = [
      [eventOf({ event: '' }), 'missing_event_name'],
      [eventOf({ distinct_id: ' ' }), 'missing_distinct_id'],
      [eventOf({ properties: [1] }), 'malformed_event_properties'],
      [eventOf({ properties: 'none' }), 'malformed_event_properties'],
      [eventOf({ options: [] }), 'invalid_options'],
      [eventOf({ options: { cookieless_mode: 'perhaps' } }), 'invalid_options'],
      [eventOf({ options: { product_tour_id: true } }), 'invalid_options'],
    ]
    const dropped: Record<string, JsonObject> = {}
    for (const [event, details] of bad) dropped[event.uuid] = { result: 'drop', details }
    const answer = await sendBatch([...bad.map(([event]) => event), undated, bare, upper, good])
    t.equal(answer.status, 200)
    t.strictSame(answer.body, {
      results: {
        ...dropped,
        [undated.uuid]: { result: 'warning', details: 'invalid_event_timestamp' },
        [bare.uuid]: OK,
        [upper.uuid]: OK,
        [good.uuid]: OK,
      },
    })
    // The last event of the batch. All others are processed by then.
    await stored(good.uuid)
    for (const { uuid } of [undated, bare, upper]) t.ok(await stored(uuid.toLowerCase()))
    for (const [{ uuid }, details] of bad) {
      t.equal((await daemon.api('GET', `events/${uuid}/`)).status, 404, details)
    }
  },
)

t.test(
  'a request that uses a UUID twice is refused, because its answer would be ambiguous',
  async (t) => {
    const event = eventOf()
    const pairs = [
      [event, event],
      [event, eventOf({ uuid: event.uuid.toUpperCase() })],
      [event, eventOf({ uuid: event.uuid.replaceAll('-', ''), event: '' })],
    ]
    for (const batch of pairs) {
      const { status, body } = await sendBatch([eventOf(), ...batch])
      t.match(
        { status, body },
        { status: 400, body: { code: 'invalid_payload', detail: /Event 2 / } },
      )
    }
  },
)

t.test('blanks around a distinct_id are removed, so that the person is the same', async (t) => {
  const padded = eventOf({ distinct_id: '  padded-ann\n' })
  t.strictSame((await sendBatch([padded])).body, { results: { [padded.uuid]: OK } })
  t.equal((await stored(padded.uuid))['distinct_id'], 'padded-ann')
})

t.test('bodies in all encodings of SDKs are accepted, small and large', async (t) => {
  const ways: readonly (readonly [string, (text: string) => Uint8Array])[] = [
    ['gzip', zlib.gzipSync],
    ['deflate', zlib.deflateSync],
    ['br', (text) => zlib.brotliCompressSync(text, FAST)],
    ['identity', (text) => Buffer.from(text)],
  ]
  for (const [encoding, encode] of ways) {
    for (const count of [1, 3000]) {
      const batch = Array.from({ length: count }, () => eventOf())
      const headers = headersOf(daemon.key(), { 'Content-Encoding': encoding })
      const body = encode(JSON.stringify({ batch }))
      const answer = await daemon.ask(EVENTS, { method: 'POST', headers, body })
      t.equal(answer.status, 200)
      const results = Object.values(answer.body['results'] as JsonObject)
      t.equal(results.length, count)
      t.ok(results.every((result) => (result as JsonObject)['result'] === 'ok'))
      t.ok(await stored(String(batch.at(-1)?.uuid)), `${encoding}, ${count} events`)
    }
  }
  for (const encoding of ['deflate', 'br', ...(zstd === null ? [] : ['zstd'])]) {
    const plain = await sendBatch([eventOf()], { 'Content-Encoding': encoding })
    t.match(plain, { status: 400, body: { code: 'invalid_payload' } }, encoding)
  }
  const zipped = zlib.gzipSync(JSON.stringify({ batch: [eventOf()] }))
  for (const encoding of ['lz4', 'Compress', 'gzip, br', 'utf-8']) {
    const headers = headersOf(daemon.key(), { 'Content-Encoding': encoding })
    for (const count of [1, 3000]) {
      const body = JSON.stringify({ batch: Array.from({ length: count }, () => eventOf()) })
      const { status, body: refusal } = await daemon.ask(EVENTS, { method: 'POST', headers, body })
      const code = 'unsupported_media_type'
      t.match({ status, refusal }, { status: 415, refusal: { code, detail: /gzip/ } }, encoding)
    }
    const known = await daemon.ask(EVENTS, { method: 'POST', headers, body: zipped })
    t.equal(known.status, 200, `gzip is recognized, though it is declared as ${encoding}`)
  }
  const bomb = zlib.brotliCompressSync(Buffer.alloc(64 * 1024 * 1024, ' '), FAST)
  const headers = headersOf(daemon.key(), { 'Content-Encoding': 'br' })
  const answer = await daemon.ask(EVENTS, { method: 'POST', headers, body: bomb })
  t.match(answer, { status: 413, body: { code: 'request_too_large' } })
})

t.test('zstd is read where Node can decompress it, within the limits', async (t) => {
  const sendZstd = (body: Uint8Array) => {
    const headers = headersOf(daemon.key(), { 'Content-Encoding': 'zstd' })
    return daemon.ask(EVENTS, { method: 'POST', headers, body })
  }
  if (zstd === null) {
    const answer = await sendZstd(ZSTD_START)
    t.match(answer, {
      status: 415,
      body: { code: 'unsupported_media_type', detail: /22\.15.*gzip/ },
    })
    return
  }
  for (const count of [1, 3000]) {
    const batch = Array.from({ length: count }, () => eventOf())
    const answer = await sendZstd(zstd(JSON.stringify({ batch })))
    t.equal(answer.status, 200)
    t.ok(await stored(String(batch.at(-1)?.uuid)), `${count} events`)
  }
  const halves = JSON.stringify({ batch: [eventOf(), eventOf()] })
  const skippable = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7])
  const parts = [skippable, zstd(halves.slice(0, 90)), zstd(halves.slice(90))]
  t.equal((await sendZstd(Buffer.concat(parts))).status, 200, 'several frames')
  const mixed = await sendZstd(Buffer.concat([zstd(halves), Buffer.from('no frame')]))
  t.match(mixed, { status: 400, body: { code: 'invalid_payload' } }, 'bytes after the frame')
  const many = Buffer.concat(Array.from({ length: 1001 }, () => skippable))
  t.match(await sendZstd(many), { status: 400, body: { detail: /1000 zstd frames/ } })
  const bomb = await sendZstd(zstd(Buffer.alloc(64 * 1024 * 1024, ' ')))
  t.match(bomb, { status: 413, body: { code: 'request_too_large' } })
  const wide = zstd(JSON.stringify({ batch: [eventOf()] }), { [ZSTD_CONTENT_SIZE_FLAG]: 0 })
  // The byte after the flags is the window: the upper five bits are its power of two, less ten.
  wide[ZSTD_START.length + 1] = (31 - 10) << 3
  const { status, body } = await sendZstd(wide)
  t.match({ status, body }, { status: 400, body: { code: 'invalid_payload' } }, 'a window of 2 GiB')
})

t.test('other paths name an encoding that they cannot read', async (t) => {
  const json = JSON.stringify({ api_key: daemon.key(), batch: [eventOf()] })
  for (const [encoding, body] of [
    ['br', zlib.brotliCompressSync(json, FAST)],
    ['deflate', zlib.deflateSync(json)],
    ['zstd', Buffer.concat([ZSTD_START, Buffer.from([0xff])])],
  ] as const) {
    const headers = { 'Content-Type': 'application/json', 'Content-Encoding': encoding }
    const answer = await daemon.ask('/batch/', { method: 'POST', headers, body })
    const detail = new RegExp(`compressed with ${encoding}\\. Send it with gzip`)
    t.match(answer, { status: 400, body: { code: 'invalid_payload', detail } })
  }
})

t.test('an event of a language model may have 8 MiB, on each path', async (t) => {
  const kept: string[] = []
  for (const [path, event, bytes] of [
    ['/batch/', '$ai_generation', 3 * 1024 ** 2],
    ['/i/v0/ai/batch/', '$ai_embedding', 8 * 1024 ** 2 - 1000],
    ['/i/v0/ai/batch/', '$ai_span', 8 * 1024 ** 2 + 1],
    ['/i/v0/ai/batch/', 'signed up', 3 * 1024 ** 2],
    [EVENTS, '$ai_trace', 3 * 1024 ** 2],
  ] as const) {
    const sent = eventOf({ event, properties: { $ai_input: 'x'.repeat(bytes) } })
    const { status } =
      path === EVENTS
        ? await sendBatch([sent])
        : await daemon.ask(path, { json: { api_key: daemon.key(), batch: [sent] } })
    t.equal(status, 200)
    const mark = eventOf()
    await sendBatch([mark])
    await stored(mark.uuid)
    const read = await daemon.api('GET', `events/${sent.uuid}/`)
    const input = (read.body['properties'] as JsonObject | undefined)?.['$ai_input'] as string
    if (read.status === 200 && input.length === bytes) kept.push(event)
  }
  t.strictSame(kept, ['$ai_generation', '$ai_embedding', '$ai_trace'])
})

t.test('the key is in the Authorization header', async (t) => {
  const json = { api_key: daemon.key(), batch: [eventOf()] }
  const ask = (authorization: Record<string, string>, path = EVENTS) =>
    daemon.ask(path, { json, headers: authorization })
  const missing = { status: 401, body: { code: 'missing_api_key', detail: /Bearer/ } }
  t.match(await ask({}), missing)
  t.match(await ask({ Authorization: `Basic ${daemon.key()}` }), missing)
  t.match(await ask({ Authorization: 'Bearer phc_nobody' }), {
    status: 401,
    body: { code: 'invalid_api_key' },
  })
  t.match(await ask({ Authorization: `bearer  ${daemon.key()} ` }), { status: 200 })
  const personal = { Authorization: `Bearer ${PERSONAL_KEY}` }
  t.match(await ask(personal), { status: 400, body: { code: 'invalid_project' } })
  t.match(await ask(personal, `${EVENTS}?project_id=1`), { status: 200 })
})

t.test('a refused request stores nothing and returns the reason', async (t) => {
  const good = eventOf()
  const bodies: readonly (readonly [unknown, string, RegExp])[] = [
    [{ batch: [] }, 'no_data', /batch/],
    [{}, 'no_data', /./],
    [{ created_at: 'x' }, 'invalid_payload', /'batch'/],
    [{ batch: {} }, 'invalid_payload', /'batch'/],
    [[good], 'invalid_payload', /'batch'/],
    [good, 'invalid_payload', /'batch'/],
    [{ batch: [good, null] }, 'invalid_payload', /^Event 1 .*object/],
    [{ batch: [good, {}] }, 'invalid_payload', /^Event 1 .*object/],
    [{ batch: [good, { ...eventOf(), uuid: undefined }] }, 'invalid_payload', /^Event 1 .*'uuid'/],
    [{ batch: [good, { ...eventOf(), uuid: 'one' }] }, 'invalid_payload', /^Event 1 .*'uuid'/],
  ]
  for (const [json, code, detail] of bodies) {
    const answer = await daemon.ask(EVENTS, { json, headers: headersOf(daemon.key()) })
    t.match(answer, { status: 400, body: { code, detail } }, JSON.stringify(json).slice(0, 40))
  }
  const last = eventOf()
  await sendBatch([last])
  await stored(last.uuid)
  t.equal((await daemon.api('GET', `events/${good.uuid}/`)).status, 404)
  t.match(await daemon.ask(EVENTS), { status: 405, headers: { allow: 'POST, OPTIONS' } })
  const fates = await daemon.api('GET', 'ingestion_fates/')
  const reasons = (fates.body['results'] as readonly JsonObject[]).map(({ reason }) => reason)
  t.ok(reasons.includes('invalid_payload'), 'the refusals are reported to the project of the key')
})

t.test('a page of another origin may send the headers of capture v1', async (t) => {
  const asked = 'authorization,content-type,posthog-attempt,posthog-request-id,posthog-sdk-info'
  const answer = await daemon.ask(EVENTS, {
    method: 'OPTIONS',
    headers: { Origin: 'https://example.com', 'Access-Control-Request-Headers': asked },
  })
  t.match(answer, {
    status: 204,
    headers: {
      'access-control-allow-origin': 'https://example.com',
      'access-control-allow-headers': asked,
    },
  })
})

t.test('above the daily limit every accepted event is reported as dropped', async (t) => {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const json = { daily_events_limit: 1 }
  const path = `/api/projects/${daemon.idOf(2)}/`
  t.match(await daemon.ask(path, { method: 'PATCH', headers, json }), { status: 200 })
  const first = eventOf()
  t.strictSame((await sendBatch([first], {}, 2)).body, { results: { [first.uuid]: OK } })
  const limited = { result: 'drop', details: 'daily_limit_reached' }
  for (const count of [2, 3000]) {
    const batch = Array.from({ length: count }, () => eventOf())
    const nameless = eventOf({ event: '' })
    const answer = await sendBatch([...batch, nameless], {}, 2)
    t.equal(answer.status, 200)
    t.strictSame(answer.body['results'], {
      ...Object.fromEntries(batch.map(({ uuid }) => [uuid, limited])),
      [nameless.uuid]: { result: 'drop', details: 'missing_event_name' },
    })
  }
})

t.test('an answered event is on disk, for small and large requests', async (t) => {
  const dataDir = `${t.testdir()}/data`
  const killed = await spawnDaemon({ dataDir })
  t.teardown(() => killed.kill())
  const counts = [1, 2000, 3]
  for (const count of counts) {
    const batch = Array.from({ length: count }, () => ({ ...eventOf(), distinct_id: 'bob' }))
    const body = zlib.gzipSync(JSON.stringify({ batch }))
    const headers = headersOf(PROJECT_KEY, { 'Content-Encoding': 'gzip' })
    const answer = await send(`${killed.url}${EVENTS}`, { method: 'POST', headers, body })
    t.equal(answer.status, 200)
    const { results } = jsonOf(answer) as { readonly results: object }
    t.equal(Object.keys(results).length, count)
  }
  await killed.kill()
  const again: SpawnedDaemon = await spawnDaemon({ dataDir })
  t.teardown(() => again.stop())
  const total = counts.reduce((sum, count) => sum + count)
  const events = await untilStored({ url: again.url, personalKey: OWNER_KEY }, total)
  t.equal(events.length, total)
  t.equal(new Set(events.map(({ uuid }) => uuid)).size, total)
})

t.test('/i/v0/ai/batch/ accepts the same bodies as /batch/', async (t) => {
  const uuid = randomUUID()
  const batch = [
    {
      event: '$ai_span',
      uuid,
      distinct_id: 'ann',
      type: 'capture',
      properties: { $ai_model: 'm' },
    },
  ]
  const json = { api_key: daemon.key(), batch, sent_at: new Date().toISOString() }
  const answer = await daemon.ask('/i/v0/ai/batch/', { json })
  t.match(answer, { status: 200, body: { status: 1 } })
  t.match(await stored(uuid), { event: '$ai_span', properties: { $ai_model: 'm' } })
  const body = zlib.gzipSync(
    JSON.stringify({ ...json, batch: [{ ...batch[0], uuid: randomUUID() }] }),
  )
  const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
  const zipped = await daemon.ask('/i/v0/ai/batch/', { method: 'POST', headers, body })
  t.match(zipped, { status: 200, body: { status: 1 } })
  t.match(await daemon.ask('/i/v0/ai/batch/', { json: { batch } }), {
    status: 401,
    body: { code: 'missing_api_key' },
  })
})
