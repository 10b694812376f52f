/**
 * Tests reading stored events: order, pages and filters, also during merges and after damage.
 *
 * @lane quick
 */
import { join } from 'node:path'
import { open } from 'lmdb'
import t from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import type {
  EventCursor,
  EventListQuery,
  EventView,
} from '../../src/rules/events/event-queries.ts'
import type { ExportedSegment } from '../../src/rules/events/exported-event.ts'
import type { EventReader } from '../../src/store/events/read/event-reader.ts'
import type { DamagedRecordError } from '../../src/store/faults.ts'
import {
  type EventSketch,
  eventInput,
  openReader,
  openWriter,
  randomNumbers,
  uuidOf,
} from '../fixtures/stored-events.ts'

const START_MS = 1_700_000_000_000
const NAMES = ['$pageview', '$autocapture', 'sign up']

/** Events in order of arrival, with timestamps that are out of order and often equal. */
function sketches(count: number, seed: number): readonly EventSketch[] {
  const random = randomNumbers(seed)
  const upTo = (limit: number): number => Math.floor(random() * limit)
  return Array.from({ length: count }, (_, index) => ({
    uuid: uuidOf(seed * 100_000 + index),
    name: NAMES[upTo(3)] ?? '',
    distinctId: `user-${upTo(10)}`,
    timestampMs: START_MS + (index + upTo(60)) * 1000,
    properties: {
      plan: ['free', 'pro', 7][upTo(3)],
      ...(upTo(3) === 0 ? { amount: upTo(1000) / 100 } : {}),
      ...(upTo(20) === 0 ? { rare: { nested: upTo(3) } } : {}),
      text: `text ${index}`,
      insert: index.toString(16).padStart(8, '0'),
      distinct_id: `user-${upTo(2)}`,
    },
    elementsChain: upTo(4) === 0 ? 'a:href="/"' : '',
    isHistorical: upTo(9) === 0,
  }))
}

/** Returns all events of a query, page by page, and calls `between` after each page. */
function readAll(
  reader: EventReader,
  query: Omit<EventListQuery, 'projectId' | 'limit'>,
  limit: number,
  between: () => void = () => undefined,
): readonly EventView[] {
  const all: EventView[] = []
  let cursor: EventCursor | null = null
  do {
    const page = reader.listEvents({
      projectId: 1,
      limit,
      ...query,
      ...(cursor === null ? {} : { cursor }),
    })
    if (page.results.length > limit) throw new Error('a page is too long')
    all.push(...page.results)
    cursor = page.nextCursor
    between()
  } while (cursor !== null)
  return all
}

/** Returns the expected list, computed from the sketches. */
function expectedIds(
  all: readonly EventSketch[],
  isWanted: (sketch: EventSketch) => boolean,
): readonly number[] {
  return all
    .map((sketch, index) => ({ sketch, id: index + 1, time: sketch.timestampMs ?? 0 }))
    .filter(({ sketch }) => isWanted(sketch))
    .sort((a, b) => b.time - a.time || b.id - a.id)
    .map(({ id }) => id)
}

const idsOf = (events: readonly EventView[]): readonly number[] => events.map((event) => event.id)

t.test('lists are ordered by timestamp, then arrival, and filters apply', async (t) => {
  const dataDir = t.testdir()
  const all = sketches(700, 1)
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 64 })
  for (const [index, sketch] of all.entries()) {
    writer.add(eventInput(sketch))
    if (index % 37 === 0) writer.commit(index)
  }
  writer.commit(700)
  const reader = openReader(t, dataDir)
  const check = (
    name: string,
    query: Omit<EventListQuery, 'projectId' | 'limit'>,
    isWanted: (sketch: EventSketch) => boolean,
  ): void => {
    const expected = expectedIds(all, isWanted)
    t.ok(expected.length > 0, `${name}: the filter matches some events`)
    t.strictSame(idsOf(readAll(reader, query, 50)), expected, name)
  }
  const middle = START_MS + 300_000
  check('all', {}, () => true)
  check('event', { event: 'sign up' }, (s) => s.name === 'sign up')
  check('distinct_id', { distinctId: 'user-3' }, (s) => s.distinctId === 'user-3')
  check('after', { afterMs: middle }, (s) => (s.timestampMs ?? 0) > middle)
  check('before', { beforeMs: middle }, (s) => (s.timestampMs ?? 0) < middle)
  const person = reader.listEvents({ projectId: 1, limit: 1, distinctId: 'user-3' }).results[0]
  check('person', { personId: person?.person_id ?? '' }, (s) => s.distinctId === 'user-3')
  check(
    'a number as text',
    { properties: [{ key: 'plan', value: '7' }] },
    (s) => s.properties?.['plan'] === 7,
  )
  check(
    'a property that equals the distinct_id for some',
    { properties: [{ key: 'distinct_id', value: 'user-1' }] },
    (s) => s.properties?.['distinct_id'] === 'user-1',
  )
  check(
    'several',
    {
      event: '$pageview',
      afterMs: middle,
      properties: [
        { key: 'amount', operator: 'gt', value: 5 },
        { key: 'plan', operator: 'is_not', value: 'pro' },
        { key: 'broken' },
        { key: 'id', type: 'mystery', value: 1 },
      ],
    },
    (s) =>
      s.name === '$pageview' &&
      (s.timestampMs ?? 0) > middle &&
      Number(s.properties?.['amount'] ?? 0) > 5 &&
      s.properties?.['plan'] !== 'pro',
  )
  check(
    'a property that no event has',
    { event: 'sign up', properties: [{ key: 'never', operator: 'is_not_set' }] },
    (s) => s.name === 'sign up',
  )
  for (const query of [
    { event: 'never' },
    { distinctId: 'nobody' },
    { properties: [{ key: 'never', operator: 'is_set' }] },
    { properties: [{ key: 'email', type: 'person', operator: 'is_set' }] },
    { personId: 'no uuid' },
    { afterMs: START_MS + 1e9 },
  ]) {
    t.strictSame(readAll(reader, query, 50), [], JSON.stringify(query))
  }
})

t.test('filters of lists apply to long texts', async (t) => {
  const dataDir = t.testdir()
  const random = randomNumbers(9)
  const parts = [
    'straße ',
    'STRASSE ',
    'ΟΔΟΣ ',
    'K',
    '300 \u212a',
    'line\nnext',
    '漢字',
    'x'.repeat(900),
  ]
  const pick = (): string => parts[Math.floor(random() * parts.length)] ?? ''
  const text = (): string => Array.from({ length: 6 }, pick).join('') + 'y'.repeat(400)
  const all = Array.from({ length: 400 }, (_, index): EventSketch => {
    const properties = index % 5 === 0 ? {} : { trace: index % 7 === 0 ? [text()] : text() }
    return { uuid: uuidOf(index), timestampMs: START_MS + index, name: 'e', properties }
  })
  const writer = openWriter(t, dataDir)
  for (const sketch of all) writer.add(eventInput(sketch))
  writer.commit(400)
  const reader = openReader(t, dataDir)
  const textOf = (sketch: EventSketch): string => {
    const value = sketch.properties?.['trace']
    return value === undefined || typeof value === 'string' ? (value ?? '') : JSON.stringify(value)
  }
  for (const needle of ['STRAẞE', 'οδος', 'k', 'kk', 'Next', '漢字', 'zz']) {
    const holds = (sketch: EventSketch): boolean =>
      textOf(sketch).toLowerCase().includes(needle.toLowerCase())
    for (const [operator, isWanted] of [
      ['icontains', holds],
      ['not_icontains', (sketch: EventSketch) => !holds(sketch)],
    ] as const) {
      const properties = [{ key: 'trace', operator, value: needle }]
      const expected = expectedIds(all, isWanted)
      t.strictSame(idsOf(readAll(reader, { properties }, 50)), expected, `${operator} ${needle}`)
    }
  }
  const properties = [{ key: 'trace', operator: 'regex', value: '^straße line\nnext' }] as const
  const expected = expectedIds(all, (sketch) => textOf(sketch).startsWith('straße line\nnext'))
  t.strictSame(idsOf(readAll(reader, { properties }, 50)), expected, 'a pattern')
})

t.test('pages return each event exactly once while others arrive and segments merge', async (t) => {
  const dataDir = t.testdir()
  const all = sketches(300, 2)
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 64, tableEntriesMax: 100 })
  for (const [index, sketch] of all.entries()) {
    writer.add(eventInput(sketch))
    if (index % 3 !== 0) continue
    writer.commit(index)
    writer.warehouse.writeIndex?.()
  }
  writer.commit(300)
  const reader = openReader(t, dataDir)
  let late = 0
  const ids = idsOf(
    readAll(reader, {}, 7, () => {
      // Newer events sort before the pages already read, late ones after them.
      for (const timestampMs of [START_MS + 1e7 + late, START_MS - 1e6]) {
        writer.add(eventInput({ uuid: uuidOf(1e6 + late++), timestampMs }))
      }
      writer.commit(1000 + late)
      writer.warehouse.writeIndex?.()
      writer.warehouse.maintain(5)
    }),
  )
  const old = ids.filter((id) => id <= 300)
  t.strictSame(
    old,
    expectedIds(all, () => true),
  )
  t.equal(new Set(ids).size, ids.length)
})

t.test('a merge keeps every event and the order, and reduces the number of segments', async (t) => {
  const dataDir = t.testdir()
  const all = sketches(900, 3)
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 256 })
  const reader = openReader(t, dataDir)
  for (const [index, sketch] of all.entries()) {
    writer.add(eventInput(sketch))
    // Sizes from 1 to 40, so that all tiers occur.
    if (index % (1 + (index % 41)) === 0) writer.commit(index)
  }
  writer.commit(900)
  const before = readAll(reader, {}, 1000)
  const segmentsBefore = reader.statistics().projects[0]?.segments ?? 0
  let merges = 0
  while (writer.warehouse.maintain(1)) merges++
  const [figures] = reader.statistics().projects
  t.ok(merges > 0)
  t.ok(segmentsBefore > 60, `there were ${segmentsBefore} segments before`)
  t.ok((figures?.segments ?? 99) <= 30, `there are ${figures?.segments} segments after`)
  t.strictSame(readAll(reader, {}, 1000), before)
  t.equal(before.length, 900)
  await writer.close()
  const again = openWriter(t, dataDir, { segmentRowsTarget: 256 })
  t.equal(again.warehouse.maintain(1000), false)
  t.strictSame(readAll(openReader(t, dataDir), {}, 1000), before)
  t.ok(
    all.every((sketch) => !again.add(eventInput(sketch))),
    'all events are duplicates',
  )
})

t.test('small segments between full ones are merged', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 32 })
  const reader = openReader(t, dataDir)
  let next = 0
  for (let commit = 1; commit <= 6; commit++) {
    for (let row = 0; row < 35; row++) writer.add(eventInput({ uuid: uuidOf(next++) }))
    writer.commit(commit)
  }
  while (writer.warehouse.maintain(5));
  t.equal(reader.statistics().projects[0]?.segments, 7)
  const ids = idsOf(readAll(reader, {}, 1000)).toReversed()
  t.strictSame(
    ids,
    Array.from({ length: next }, (_, index) => index + 1),
  )
})

t.test('a reader finishes its page while a writer in the same process commits', async (t) => {
  const dataDir = t.testdir()
  const reader = openReader(t, dataDir)
  t.strictSame(reader.listEvents({ projectId: 1, limit: 5 }), { results: [], nextCursor: null })
  t.equal(reader.getEvent(1, '018f3a00-0000-7000-8000-000000000000'), null)
  const writer = openWriter(t, dataDir)
  writer.add(eventInput())
  writer.commit(1)
  t.equal(reader.listEvents({ projectId: 1, limit: 5 }).results.length, 1)
})

/** Flips one bit in the middle of every record of a table with a given key prefix. */
async function flip(dataDir: string, table: string, prefix: Buffer): Promise<number> {
  const root = open({ path: join(dataDir, 'events'), keyEncoding: 'binary', encoding: 'binary' })
  const records = root.openDB<Buffer, Buffer>(table, {
    keyEncoding: 'binary',
    encoding: 'binary',
  })
  let count = 0
  for (const { key, value } of [...records.getRange({})]) {
    if (!Buffer.from(key).subarray(0, prefix.length).equals(prefix)) continue
    const copy = Buffer.from(value)
    const middle = copy.length >> 1
    copy[middle] = (copy[middle] ?? 0) ^ 4
    await records.put(Buffer.from(key), copy)
    count++
  }
  await root.close()
  return count
}

const linesOf = (segment: ExportedSegment): number => [...segment.events].length

t.test('a flipped bit is refused with table and key, and a merge leaves it alone', async (t) => {
  const folder = t.testdir()
  for (const table of ['segment_groups', 'segment_headers']) {
    const dataDir = `${folder}/${table}`
    const writer = openWriter(t, dataDir, { segmentRowsTarget: 50 })
    for (let number = 0; number < 150; number++) {
      writer.add(eventInput({ uuid: uuidOf(number), timestampMs: START_MS + number }))
    }
    writer.commit(1)
    await writer.close()
    const prefix = Buffer.from([0, 0, 0, 1, 0, 0, 0, 51])
    t.ok((await flip(dataDir, table, prefix)) > 0)
    const strict = openReader(t, dataDir)
    t.throws(() => strict.listEvents({ projectId: 1, limit: 200 }), {
      name: 'DamagedRecordError',
      table,
      message: /Table segment_.* key 0000000100000033/,
    })
    const reported: DamagedRecordError[] = []
    const again = openWriter(t, dataDir, {
      segmentRowsTarget: 500,
      onDamage: (error) => reported.push(error),
    })
    t.ok(reported.length > 0, 'opening reports the damage and continues')
    for (let budget = 0; budget < 20; budget++) again.warehouse.maintain(20)
    t.equal(again.warehouse.maintain(20), false, 'a merge leaves the damage alone')
    t.equal(again.add(eventInput({ uuid: uuidOf(149) })), false)
    const newest = formatUuid(uuidOf(120), 0)
    t.equal(strict.getEvent(1, newest)?.id, 121, 'newer events are found')
    t.throws(() => [...strict.exportEvents({ projectId: 1, afterId: 0 })].map(linesOf), {
      name: 'DamagedRecordError',
      table,
    })
    t.equal([...strict.exportEvents({ projectId: 1, afterId: 100 })].map(linesOf).length, 1)
  }
})

t.test('damage of other records is reported, too', async (t) => {
  const folder = t.testdir()
  for (const table of ['projects', 'distinct_texts', 'warnings', 'dead_letters', 'state']) {
    const dataDir = `${folder}/${table}`
    const writer = openWriter(t, dataDir)
    writer.add(eventInput())
    writer.addWarning(1, 0, { type: 'client_ingestion_warning', details: { message: 'x' } })
    writer.addDeadLetter({ projectId: 1, step: 'read', reason: 'r', raw: Buffer.from('raw') })
    writer.commit(1)
    await writer.close()
    t.ok((await flip(dataDir, table, Buffer.alloc(0))) > 0)
    const reader = openReader(t, dataDir)
    const readEverything = (): void => {
      reader.statistics()
      reader.listEvents({ projectId: 1, limit: 10 })
      reader.listWarnings(1, 10)
      for (const _ of reader.deadLetters());
    }
    t.throws(readEverything, { name: 'DamagedRecordError', table }, table)
  }
})
