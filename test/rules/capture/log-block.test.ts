/**
 * Tests the bytes of the log: a block decodes to the events that were encoded, and no part of a damaged block is ever
 * read as an event.
 *
 * @lane quick
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { formatUuid } from '../../../src/base/ids.ts'
import {
  eventBytes,
  eventStart,
  eventUuidOffset,
  hasClientUuid,
  LogBlockWriter,
  type LogRecord,
  ParsedEvents,
  RECORD_HISTORICAL,
  RECORD_IP_ANONYMIZED,
  readBlock,
  seal,
} from '../../../src/rules/capture/log-block.ts'
import { Scanner } from '../../../src/rules/capture/scanner/scanner.ts'
import { Differences } from '../../fixtures/differences.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

/** So small that every block outgrows it. */
const SMALL_BYTES = 64
const SEED = 20_261_121

interface Request {
  readonly projectId: number
  readonly flags: number
  readonly arrivedAtMs: number
  readonly sentAtMs: number
  readonly address: string
  readonly events: readonly { readonly text: string; readonly uuid: Uint8Array | null }[]
}

interface Found {
  readonly text: string
  readonly uuid: string
  readonly isClientUuid: boolean
}

function blockOf(requests: readonly Request[]): Buffer {
  const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(SMALL_BYTES))
  for (const { events, ...header } of requests) {
    const texts = events.map(({ text }) => text)
    const uuids = events.map(({ uuid }) => uuid)
    writer.add(header, new ParsedEvents(texts, uuids))
  }
  const block = writer.finish()
  seal(block)
  return block
}

function eventsOf(record: LogRecord): readonly Found[] {
  return Array.from({ length: record.eventCount }, (_, index) => {
    const start = eventStart(record, index)
    return {
      text: record.bytes.toString('utf8', start, start + eventBytes(record, index)),
      uuid: formatUuid(record.bytes, eventUuidOffset(record, index)),
      isClientUuid: hasClientUuid(record, index),
    }
  })
}

const anyEvent = fc.record({
  text: fc
    .dictionary(fc.string({ unit: 'binary', maxLength: 8 }), fc.jsonValue(), { maxKeys: 5 })
    .map((value) => JSON.stringify(value)),
  uuid: fc.option(fc.uint8Array({ minLength: 16, maxLength: 16 })),
})

const anyRequest: fc.Arbitrary<Request> = fc.record({
  projectId: fc.integer({ min: 1, max: 0xffff_ffff }),
  flags: fc.integer({ min: 0, max: 7 }),
  arrivedAtMs: fc.integer({ min: 0, max: 4_102_444_800_000 }),
  sentAtMs: fc.oneof(fc.constant(Number.NaN), fc.integer({ min: -1e14, max: 1e14 })),
  address: fc.string({ unit: 'grapheme-ascii', maxLength: 64 }),
  events: fc.array(anyEvent, { maxLength: 8 }),
})

t.test('a block decodes to the events that were encoded', async () => {
  fc.assert(
    fc.property(fc.array(anyRequest, { maxLength: 10 }), (requests) => {
      const records = readBlock(blockOf(requests))
      assert.equal(records.length, requests.length)
      for (const [index, record] of records.entries()) {
        const request = requests[index]
        assert.ok(request !== undefined)
        const { events, ...header } = request
        const { projectId, flags, arrivedAtMs, sentAtMs, address } = record
        assert.deepEqual({ projectId, flags, arrivedAtMs, sentAtMs, address }, header)
        const found = eventsOf(record)
        assert.deepEqual(
          found.map(({ text, isClientUuid }) => [text, isClientUuid]),
          events.map(({ text, uuid }) => [text, uuid !== null]),
        )
        for (const [position, { uuid }] of events.entries()) {
          if (uuid !== null) assert.equal(found[position]?.uuid, formatUuid(uuid, 0))
        }
      }
    }),
    runsOf(300, SEED),
  )
})

const ONE: Request = {
  projectId: 7,
  flags: RECORD_HISTORICAL | RECORD_IP_ANONYMIZED,
  arrivedAtMs: 1_700_000_000_123,
  sentAtMs: Number.NaN,
  address: '2001:db8::1',
  events: [
    { text: '{"event":"größe 💻"}', uuid: null },
    { text: '{}', uuid: new Uint8Array(16).fill(0xab) },
    { text: '{"event":"b"}', uuid: null },
  ],
}

t.test('neighboring events with other senders keep their addresses', async (t) => {
  const addresses = ['192.0.2.10', '192.0.2.10', '192.0.2.11', '', '', '192.0.2.1', '2001:db8::1']
  const records = readBlock(blockOf(addresses.map((address) => ({ ...ONE, address }))))
  t.same(
    records.map(({ address }) => address),
    addresses,
  )
})

t.test('an event without a uuid gets one of version 7 with the arrival time', async (t) => {
  const [record] = readBlock(blockOf([ONE]))
  if (record === undefined) throw new Error('the block is empty')
  const [first, second, third] = eventsOf(record)
  const time = ONE.arrivedAtMs.toString(16).padStart(12, '0')
  for (const event of [first, third]) {
    t.match(event?.uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    t.equal(event?.uuid.replaceAll('-', '').slice(0, 12), time)
  }
  t.not(first?.uuid, third?.uuid)
  t.equal(second?.uuid, 'abababab-abab-abab-abab-abababababab')
  t.strictSame(eventsOf(record), eventsOf(record), 'reading twice gives the same uuids')
})

t.test('events cut out by a scanner arrive unchanged', async (t) => {
  const scanner = new Scanner()
  const batch = [
    { event: 'a', uuid: '0190a6a1-2b3c-7d4e-8f50-0123456789ab', properties: { text: 'größe' } },
    { event: 'b', distinct_id: 'u' },
  ]
  t.ok(scanner.scan(Buffer.from(JSON.stringify({ api_key: 'phc_a', batch }))))
  const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(SMALL_BYTES))
  const { events: _, ...header } = ONE
  const bytes = writer.add(header, scanner)
  t.equal(writer.recordCount, 1)
  t.equal(writer.eventCount, 2)
  const block = writer.finish()
  seal(block)
  t.ok(block.length > bytes)
  const [record] = readBlock(block)
  if (record === undefined) throw new Error('the block is empty')
  const found = eventsOf(record)
  t.strictSame(
    found.map(({ text }) => JSON.parse(text)),
    batch,
  )
  t.strictSame(
    found.map(({ isClientUuid }) => isClientUuid),
    [true, false],
  )
  t.equal(found[0]?.uuid, batch[0]?.uuid)
})

t.test('a flipped bit anywhere is detected', async (t) => {
  const block = blockOf([ONE, { ...ONE, projectId: 8, sentAtMs: 5 }])
  for (let position = 0; position < block.length; position++) {
    // Bytes 4 to 7 are the checksum itself. A flipped bit there does not match the rest either.
    const damaged = Buffer.from(block)
    damaged[position] = (damaged[position] ?? 0) ^ (1 << (position % 8))
    try {
      readBlock(damaged)
      t.fail(`bit ${position % 8} of byte ${position} was not noticed`)
    } catch (error) {
      if (!(error instanceof RangeError)) t.fail(`byte ${position}: ${String(error)}`)
    }
  }
  t.equal(readBlock(block).length, 2, 'the undamaged block is read')
})

t.test('a truncated or unsealed block is refused', async (t) => {
  const block = blockOf([ONE])
  const differences = new Differences()
  for (let length = 0; length < block.length; length++) {
    const read = () => readBlock(block.subarray(0, length))
    differences.throws(read, RangeError, `a block of ${length} bytes`)
  }
  t.strictSame(differences.list(), [], 'every cut of a block is refused')
  const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(SMALL_BYTES))
  writer.add({ ...ONE }, new ParsedEvents(['{}'], [null]))
  t.throws(() => readBlock(writer.finish()), RangeError)
})

t.test('a block with inconsistent lengths is refused even if its checksum is valid', async (t) => {
  // Offsets of the first record: its length in bytes, its number of events, the length of its address.
  for (const [position, value] of [
    [16, 8],
    [16, 0x7fff_ffff],
    [28, 0x00ff_ffff],
    [28, 4],
    [56, 0xffff],
    [16, 0],
  ] as const) {
    const block = Buffer.from(blockOf([ONE]))
    if (position === 56) block.writeUInt16LE(value, position)
    else block.writeUInt32LE(value, position)
    seal(block)
    t.throws(() => readBlock(block).map(eventsOf), RangeError, `${value} at ${position}`)
  }
})
