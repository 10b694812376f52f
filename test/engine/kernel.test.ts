/**
 * Compares processing with the kernel with processing without it. The same log must leave the same bytes in every table
 * (except data that depends on a seed of the store), and subscribers must receive the same, whatever the events are.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { isObject } from '../../src/base/json.ts'
import { BoundedOutbox } from '../../src/engine/processor/bounded-outbox.ts'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import type { LogReader } from '../../src/ports/log.ts'
import type { ProjectDirectory } from '../../src/rules/access/project-directory.ts'
import { acceptCapture, type CaptureRequest } from '../../src/rules/capture/accept.ts'
import { LogBlockWriter, seal } from '../../src/rules/capture/log-block.ts'
import { Scanner } from '../../src/rules/capture/scanner/scanner.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { Differences } from '../fixtures/differences.ts'
import { runsOf } from '../fixtures/random-depth.ts'
import { randomBody, tellingEvent } from '../fixtures/random-events.ts'
import { PYTHON_EVENTS, SDK_EVENTS } from '../fixtures/sdk-events.ts'

const NOW_MS = Date.UTC(2024, 0, 15, 12)
const BYTES_MAX = 20 * 1024 * 1024
const PROJECTS = [1, 2, 3].map((id) => ({ id, apiKey: `phc_${id}`, isIpAnonymized: id === 3 }))
const DIRECTORY: ProjectDirectory = {
  projectByKey: (key) => PROJECTS.find(({ apiKey }) => apiKey === key) ?? null,
  projectById: (id) => PROJECTS.find((project) => project.id === id) ?? null,
  personalKey: () => null,
}
/** Data that depends on a seed of the store, or on the time. */
const OWN_TABLES = new Set(['state', 'uuid_runs', 'uuid_chunks', 'dead_letters', 'dropped_counts'])
const scanner = new Scanner()

class Blocks implements LogReader {
  readonly #blocks: Buffer[] = []
  #requests = 0
  /** The newest block that a reader finds. */
  last = Number.POSITIVE_INFINITY

  get count(): number {
    return this.#blocks.length
  }

  /** Returns false if the request is refused. */
  add(body: string | Uint8Array, more: Partial<CaptureRequest> = {}): boolean {
    const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(4096))
    const request: CaptureRequest = {
      kind: 'capture',
      method: 'POST',
      contentType: 'application/json',
      contentEncoding: '',
      query: '',
      address: this.#requests % 5 === 0 ? '' : '203.0.113.7',
      arrivedAtMs: NOW_MS + this.#requests++ * 1000,
      body: Buffer.from(body),
      ...more,
    }
    const limits = {
      decodedBytesMax: BYTES_MAX,
      slowBytesMax: BYTES_MAX,
      outlinedBytesMax: BYTES_MAX,
    }
    try {
      acceptCapture(request, { scanner, directory: DIRECTORY, ...limits }, writer)
    } catch {
      return false
    }
    if (writer.eventCount === 0) return true
    // The server gives random uuids to events without one: once for both sides.
    const block = Buffer.from(writer.finish())
    seal(block)
    this.#blocks.push(block)
    return true
  }

  refresh(): void {}

  extent() {
    return { first: 1, last: Math.min(this.last, this.#blocks.length) }
  }

  block(sequence: number): Buffer | undefined {
    return this.#blocks[sequence - 1]
  }

  async close(): Promise<void> {}
}

interface Processed {
  readonly tables: ReadonlyMap<string, readonly string[]>
  readonly events: number
  readonly recognized: number
  /** The outbox data of each event. */
  readonly told: readonly string[]
}

/** JSON with the keys of all objects sorted. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    isObject(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  )
}

/** Processes the whole log. If `from` is set, the store has processed that many blocks without the kernel before. */
async function process(
  dataDir: string,
  log: Blocks,
  isKernelUsed: boolean,
  commitEvents: number,
  from = 0,
): Promise<Processed> {
  if (from > 0) {
    log.last = from
    await process(dataDir, log, false, commitEvents)
    log.last = Number.POSITIVE_INFINITY
  }
  const outbox = new BoundedOutbox()
  const listener = outbox.subscribe(1_000_000)
  const told: string[] = []
  const store = new ProcessingWriter({
    dataDir,
    outbox,
    isFlushDeferred: true,
    segmentRowsTarget: 700,
  })
  const onDamage = (error: Error): void => {
    throw error
  }
  const settings = {
    dataDir,
    propertiesBytesMax: 5000,
    aiPropertiesBytesMax: 5000,
    isFlushDeferred: true,
  }
  const options = { settings, log, store, onDamage, commitEvents, isKernelUsed }
  const processor = new LogProcessor(options)
  const result = processor.run(3_600_000)
  while (!processor.run(1000).isIdle);
  for (let next = listener.take(); next !== null; next = listener.take()) {
    if (next.kind === 'gap') throw new Error('the listener missed something')
    for (const { event, ...row } of next.rows) {
      const { name, distinctId, timestampMs, elementsChain, properties } = event
      told.push(canonical({ ...row, name, distinctId, timestampMs, elementsChain, properties }))
    }
  }
  await processor.close()
  const environment = new Environment({ dataDir, name: 'events', tables: [], isReadOnly: true })
  environment.openAll()
  const pin = environment.pin()
  const tables = new Map<string, readonly string[]>()
  for (const table of EVENTS_TABLES) {
    // Work that is done when processing is idle.
    if (table === 'kept_names' || table === 'kept_properties') continue
    if (OWN_TABLES.has(table)) continue
    const rows = [...pin.entries(table)]
    tables.set(
      table,
      rows.map(({ key, value }) => `${key.toString('hex')} ${value.toString('base64')}`),
    )
  }
  pin.release()
  await environment.close()
  return { tables, events: result.eventCount, recognized: result.recognizedCount, told }
}

/** The share of events that the kernel recognized. */
async function checkSame(t: Test, log: Blocks, commitEvents: number, from = 0): Promise<number> {
  const folder = t.testdir({ with: {}, without: {} })
  const left = await process(`${folder}/with`, log, true, commitEvents, from)
  const right = await process(`${folder}/without`, log, false, commitEvents, from)
  t.equal(left.events, right.events)
  t.equal(right.recognized, 0)
  const differs = right.told.findIndex((row, index) => row !== left.told[index])
  t.equal(left.told[differs], right.told[differs], 'subscribers receive the same')
  t.equal(left.told.length, right.told.length)
  const differences = new Differences()
  for (const [table, rows] of right.tables) {
    const others = left.tables.get(table) ?? []
    const at = rows.findIndex((row, index) => row !== others[index])
    differences.equal(others[at], rows[at], `${table}: row ${at} is equal`)
    differences.equal(others.length, rows.length, `${table}: the rows are equal`)
  }
  t.strictSame(differences.list(), [], 'every table has the same bytes')
  return left.recognized / left.events
}

for (const [seed, commitEvents] of [
  [1, 40],
  [2, 2000],
  [3, 50_000],
] as const) {
  t.test(`random events are stored alike, ${commitEvents} a commit`, async (t) => {
    const log = new Blocks()
    const bodies = fc.sample(randomBody, runsOf(700, seed))
    const accepted = bodies.filter((text) => log.add(text)).length
    t.ok(accepted > bodies.length * 0.7, `${accepted} requests were accepted`)
    const share = await checkSame(t, log, commitEvents)
    t.ok(share > 0.2, `${share} of the events were recognized`)
  })
}

for (const commitEvents of [1, 30, 5000]) {
  t.test(
    `events about persons and groups are stored alike, ${commitEvents} a commit`,
    async (t) => {
      const log = new Blocks()
      const events = fc.sample(tellingEvent, runsOf(3000, commitEvents))
      for (let start = 0; start < events.length; start += 5) {
        log.add(`{"api_key":"phc_1","batch":[${events.slice(start, start + 5).join(',')}]}`)
      }
      const share = await checkSame(t, log, commitEvents)
      t.ok(share > 0.25, `${share} of the events were recognized`)
    },
  )
}

t.test('a store that was made without the kernel continues with it', async (t) => {
  const log = new Blocks()
  const events = fc.sample(tellingEvent, runsOf(3000, 7))
  for (let start = 0; start < events.length; start += 5) {
    log.add(`{"api_key":"phc_1","batch":[${events.slice(start, start + 5).join(',')}]}`)
    if (start % 50 === 0) {
      log.add(
        JSON.stringify({
          api_key: 'phc_1',
          batch: SDK_EVENTS,
          sent_at: '2024-01-15T12:00:00.000Z',
        }),
      )
    }
  }
  const share = await checkSame(t, log, 300, Math.floor(log.count / 2))
  t.ok(share > 0.25, `${share} of the events were recognized`)
})

t.test('the kernel recognizes events of SDKs', async (t) => {
  const log = new Blocks()
  for (let round = 0; round < 40; round++) {
    log.add(
      JSON.stringify({ api_key: 'phc_1', batch: SDK_EVENTS, sent_at: '2024-01-15T12:00:00.000Z' }),
    )
    log.add(PYTHON_EVENTS)
  }
  const share = await checkSame(t, log, 500)
  t.ok(share > 0.9, `${share} of the events were recognized`)
})

t.test('every request of the ingestion cases gives the same result', async (t) => {
  // The shape that its first line names.
  const { cases } = JSON.parse(
    readFileSync(new URL('../fixtures/ingestion-cases.json', import.meta.url), 'utf8'),
  ) as { cases: readonly { steps: readonly { request: { body?: string } }[] }[] }
  const log = new Blocks()
  for (const { steps } of cases) {
    for (const { request } of steps) {
      const text = request.body ?? ''
      log.add(text.replaceAll(/phc_project_(one_key|two_key|anon_ips)/g, 'phc_1'))
    }
  }
  await checkSame(t, log, 50)
})

t.test('many values, many keys and many columns are stored alike', async (t) => {
  const log = new Blocks()
  for (let batch = 0; batch < 60; batch++) {
    const events = Array.from({ length: 50 }, (_, index) => {
      const at = batch * 50 + index
      const many = Object.fromEntries(
        Array.from({ length: 12 }, (_, key) => [`key${(at * 7 + key) % 1900}`, key]),
      )
      const unique = {
        id: `id-${at}`,
        url: `https://example.com/${at % 700}`,
        n: at / 8,
        hex: `${1e9 + at}ab`,
      }
      const own = at % 90 < 60 ? { user: `user ${at % 300}` } : { user: 'other' }
      const uuid = `0190a6a1-2b3c-7d4e-8f50-${String(at % 2900).padStart(12, '0')}`
      const properties = {
        ...unique,
        ...own,
        ...(at % 3 === 0 ? many : {}),
        distinct_id: `user ${at % 300}`,
      }
      return { event: `name ${at % 400}`, uuid, properties }
    })
    log.add(JSON.stringify({ api_key: `phc_${1 + (batch % 2)}`, batch: events }))
  }
  const share = await checkSame(t, log, 900)
  t.ok(share > 0.25, `${share} of the events were recognized`)
})
