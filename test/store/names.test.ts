/**
 * The names of events and properties that a store gathers, compared with all events one by one.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { type PropertyType, propertyType } from '../../src/rules/events/definitions.ts'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES, pairKey } from '../../src/store/lmdb/keys.ts'
import { SegmentTables } from '../../src/store/warehouse/format/segment-tables.ts'
import { PROJECT_NAMES_BYTES_MAX } from '../../src/store/warehouse/limits.ts'
import type { ProjectNames } from '../../src/store/warehouse/names/project-names.ts'
import type { EventReader } from '../../src/store/warehouse/read/event-reader.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'
import {
  type EventSketch,
  eventInput,
  openReader,
  openWriter,
  randomNumbers,
  uuidOf,
} from '../fixtures/stored-events.ts'

const START_MS = Date.UTC(2024, 0, 10)
const HOUR_MS = 3_600_000
const NAMES = ['$pageview', 'signup', '<b>bold</b>', 'constructor', '__proto__', '']
const LONG = 'k'.repeat(4096)
const NO_CHECK = (): void => {}

interface Facts {
  count: number
  firstSeenMs: number
  lastSeenMs: number
}

function noteIn(all: Map<string, Facts>, name: string, timeMs: number): void {
  const known = all.get(name)
  if (known === undefined) all.set(name, { count: 1, firstSeenMs: timeMs, lastSeenMs: timeMs })
  else {
    known.count++
    known.firstSeenMs = Math.min(known.firstSeenMs, timeMs)
    known.lastSeenMs = Math.max(known.lastSeenMs, timeMs)
  }
}

/** What all events of project 1 say, read one by one. */
function expectedOf(reader: EventReader) {
  const events = new Map<string, Facts>()
  const properties = new Map<string, Facts>()
  const types = new Map<string, PropertyType>()
  const pairs = new Set<string>()
  const { results } = reader.listEvents({ projectId: 1, limit: 1_000_000 })
  for (const event of [...results].sort((a, b) => a.id - b.id)) {
    const timeMs = Date.parse(event.timestamp)
    noteIn(events, event.event, timeMs)
    for (const [key, value] of Object.entries(event.properties)) {
      noteIn(properties, key, timeMs)
      pairs.add(`${event.event} has ${key}`)
      const type = propertyType(value)
      if (type !== null && !types.has(key)) types.set(key, type)
    }
  }
  return { events, properties, types, pairs }
}

function compare(t: Test, names: ProjectNames, reader: EventReader, message: string): void {
  const expected = expectedOf(reader)
  const factsOf = (all: Iterable<Facts & { name: string }>): Map<string, Facts> =>
    new Map(
      [...all].map(({ name, count, firstSeenMs, lastSeenMs }) => [
        name,
        { count, firstSeenMs, lastSeenMs },
      ]),
    )
  const sorted = (all: Map<string, unknown>) => [...all].sort(([a], [b]) => (a < b ? -1 : 1))
  t.strictSame(sorted(factsOf(names.events)), sorted(expected.events), `${message}: events`)
  const properties = factsOf(names.properties as Iterable<Facts & { name: string }>)
  t.strictSame(sorted(properties), sorted(expected.properties), `${message}: properties`)
  const pairs: string[] = []
  for (const { name } of names.events) {
    const isSeen = names.isSeenOn([name, 'unknown'])
    for (const property of names.properties) {
      if (isSeen(property)) pairs.push(`${name} has ${property.name}`)
    }
  }
  t.strictSame(pairs.sort(), [...expected.pairs].sort(), `${message}: which has which`)
  const listed = [...names.properties]
  t.strictSame(
    listed.map(({ name, type }) => [name.slice(0, 40), type]),
    listed.map(({ name }) => [name.slice(0, 40), expected.types.get(name) ?? null]),
    `${message}: types`,
  )
}

function randomSketches(count: number, seed: number): readonly EventSketch[] {
  const random = randomNumbers(seed)
  const pick = <T>(list: readonly T[]): T =>
    list[Math.floor(random() * list.length)] ?? (list[0] as T)
  return Array.from({ length: count }, (_, index) => {
    const properties: Record<string, unknown> = { plan: pick(['pro', 'free', null]) }
    if (random() < 0.5) properties['amount'] = pick([null, index, 'two'])
    if (random() < 0.3) properties['at'] = '2024-05-02T10:00:00Z'
    if (random() < 0.2) properties['me'] = 'user-1'
    if (random() < 0.1) properties[LONG] = [index]
    if (random() < 0.1) properties[`rare ${Math.floor(random() * 20)}`] = index
    if (random() < 0.1) Object.defineProperty(properties, '__proto__', own(true))
    return {
      name: pick(NAMES.slice(0, 5)),
      uuid: uuidOf(seed * 100_000 + index),
      timestampMs: START_MS + Math.floor(random() * 150) * HOUR_MS,
      createdAtMs: START_MS + 200 * HOUR_MS + index,
      properties,
    }
  })
}

/** Of each segment whether it carries what is known about its names. */
function carried(t: Test, dataDir: string): readonly boolean[] {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  t.teardown(() => environment.close())
  const segments = new SegmentTables(environment.tables)
  const summaries = [...segments.summaries(1, 1, 1)]
  return summaries.map(({ firstSequence }) => segments.segmentAt(1, firstSequence).facts !== null)
}

function own(value: unknown): PropertyDescriptor {
  return { value, enumerable: true, configurable: true, writable: true }
}

t.test('many segments, as they come and are merged', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 512 })
  const reader = openReader(t, dataDir)
  t.strictSame([...reader.names(1, NO_CHECK).events], [], 'a project without events')
  const sketches = randomSketches(3000, 1)
  let position = 0
  for (let start = 0; start < sketches.length; ) {
    const end = start + 1 + ((start * 7) % 90)
    for (const sketch of sketches.slice(start, end)) writer.add(eventInput(sketch))
    writer.commit(++position)
    start = end
    if (position % 20 !== 0) continue
    // A merge may join what is known with what is not.
    while (writer.warehouse.maintain(100));
    compare(t, reader.names(1, NO_CHECK), reader, `after ${start} events`)
  }
  compare(t, reader.names(1, NO_CHECK), reader, 'at the end')
  compare(t, openReader(t, dataDir).names(1, NO_CHECK), reader, 'all at once')
  let asked = 0
  reader.names(1, () => asked++)
  t.equal(asked, 0, 'nothing is read again')
  const { events } = reader.names(1, NO_CHECK)
  const [first] = [...events].sort((a, b) => a.firstArrivalMs - b.firstArrivalMs)
  t.equal(first?.firstArrivalMs, START_MS + 200 * HOUR_MS)
  t.end()
})

t.test('more properties than there are columns', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 1500 })
  const reader = openReader(t, dataDir)
  for (let index = 0; index < 1200; index++) {
    const properties = { [`p${index % 700}`]: index, [`q${index % 300}`]: `${index}`, all: true }
    writer.add(eventInput({ name: `event ${index % 3}`, uuid: uuidOf(index), properties }))
    if (index % 400 === 399) writer.commit(index + 1)
  }
  compare(t, reader.names(1, NO_CHECK), reader, 'shared')
  while (writer.warehouse.maintain(100));
  compare(t, openReader(t, dataDir).names(1, NO_CHECK), reader, 'merged')
  t.strictSame(carried(t, dataDir), [true])
  t.end()
})

t.test('large segments carry what they say', (t) => {
  const log = new PersonLog(t, t.testdir())
  const reader = openReader(t, log.dataDir)
  const random = randomSketches(2500, 3)
  const event = ({ name, timestampMs = 0, properties }: EventSketch, index: number): SentEvent => ({
    event: name,
    distinct_id: index % 7 === 0 ? '2024-05-02' : 'user-1',
    timestamp: new Date(timestampMs).toISOString(),
    properties: { ...properties, ...(index % 7 === 0 ? { own: '2024-05-02' } : {}) },
  })
  log.send(1, random.slice(0, 2000).map(event))
  log.process()
  t.strictSame(carried(t, log.dataDir), [true])
  compare(t, reader.names(1, NO_CHECK), reader, 'one segment')
  log.send(1, random.slice(2000).map(event))
  log.process()
  t.strictSame(carried(t, log.dataDir), [true, false])
  compare(t, reader.names(1, NO_CHECK), reader, 'and a small one')
  const criteria = { afterMs: null, beforeMs: null, distinctId: '2024-05-02', personId: null }
  log.run(1, { kind: 'erase_events', criteria: { ...criteria, event: null } })
  const hasOwn = (): boolean =>
    [...reader.names(1, NO_CHECK).properties].some(({ name }) => name === 'own')
  // Each call erases for a short while only.
  for (let calls = 0; calls < 100 && hasOwn(); calls++) log.process()
  t.strictSame(carried(t, log.dataDir), [true, false])
  compare(t, reader.names(1, NO_CHECK), reader, 'erased')
  t.notOk(hasOwn())
  t.end()
})

t.test('a segment with too many names carries nothing', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  for (let index = 0; index < 1100; index++) {
    const properties = { [`${'x'.repeat(480)} ${index}`]: index }
    writer.add(eventInput({ uuid: uuidOf(index), properties }))
  }
  writer.commit(1)
  t.strictSame(carried(t, dataDir), [false])
  const reader = openReader(t, dataDir)
  compare(t, reader.names(1, NO_CHECK), reader, 'found in the columns')
  t.end()
})

t.test('erased events are forgotten', (t) => {
  const log = new PersonLog(t, t.testdir())
  const event = (name: string, day: number): SentEvent => ({
    event: name,
    distinct_id: 'ann',
    timestamp: new Date(Date.UTC(2024, 0, day)).toISOString(),
    properties: { [`of ${name}`]: day, day },
  })
  const reader = openReader(t, log.dataDir)
  log.send(1, [event('first', 1), event('second', 2), event('first', 3)])
  log.process()
  compare(t, reader.names(1, NO_CHECK), reader, 'before')
  const criteria = { afterMs: null, beforeMs: null, distinctId: null, personId: null }
  log.run(1, { kind: 'erase_events', criteria: { ...criteria, event: 'second' } })
  log.process()
  compare(t, reader.names(1, NO_CHECK), reader, 'after an erasure')
  t.notOk([...reader.names(1, NO_CHECK).properties].some(({ name }) => name === 'of second'))
  log.send(1, [event('second', 4), event('third', 5)])
  log.process()
  compare(t, reader.names(1, NO_CHECK), reader, 'after more events')
  t.end()
})

t.test('who gives up keeps what was read', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const reader = openReader(t, dataDir)
  for (let commit = 1; commit <= 10; commit++) {
    writer.add(eventInput({ name: `event ${commit}`, uuid: uuidOf(commit) }))
    writer.commit(commit)
  }
  let left = 4
  const giveUp = (): void => {
    if (left-- === 0) throw new Error('nobody waits')
  }
  t.throws(() => reader.names(1, giveUp), { message: 'nobody waits' })
  let asked = 0
  compare(
    t,
    reader.names(1, () => asked++),
    reader,
    'afterwards',
  )
  t.equal(asked, 6)
  t.end()
})

t.test('names have a limit of bytes, and those that came first stay', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const reader = openReader(t, dataDir)
  const keys = Math.ceil(PROJECT_NAMES_BYTES_MAX / 8000)
  for (let index = 0; index < keys; index += 50) {
    const properties: Record<string, unknown> = { first: 1 }
    for (let more = 0; more < 50; more++) properties[`${LONG}${index + more}`] = 1
    writer.add(eventInput({ uuid: uuidOf(index), properties }))
    writer.commit(index + 1)
  }
  writer.add(eventInput({ name: 'late', uuid: uuidOf(keys), properties: { first: 2, late: 1 } }))
  writer.commit(keys + 1)
  const names = reader.names(1, NO_CHECK)
  t.ok(names.bytes <= PROJECT_NAMES_BYTES_MAX + 1024)
  const listed = new Map([...names.properties].map((property) => [property.name, property]))
  t.equal(listed.get('first')?.count, Math.ceil(keys / 50) + 1)
  t.ok(listed.size < keys)
  t.end()
})

t.test('a damaged segment is no answer', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  for (let commit = 1; commit <= 3; commit++) {
    writer.add(eventInput({ name: `event ${commit}`, uuid: uuidOf(commit) }))
    writer.commit(commit)
  }
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  t.teardown(() => environment.close())
  const { segment_headers } = environment.tables
  const sound = Buffer.from(segment_headers.get(pairKey(1, 2)) ?? [])
  const damaged = Buffer.from(sound)
  damaged[60] = (damaged[60] ?? 0) ^ 1
  environment.write(() => void segment_headers.put(pairKey(1, 2), damaged))
  const reader = openReader(t, dataDir)
  t.throws(() => reader.names(1, NO_CHECK), DamagedRecordError)
  t.throws(() => reader.names(1, NO_CHECK), DamagedRecordError)
  environment.write(() => void segment_headers.put(pairKey(1, 2), sound))
  compare(t, reader.names(1, NO_CHECK), reader, 'put back')
})

t.test('values of a property, by time and name', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const reader = openReader(t, dataDir)
  const sketches = randomSketches(600, 2)
  for (const [index, sketch] of sketches.entries()) {
    writer.add(eventInput(sketch))
    if (index % 100 === 99) writer.commit(index + 1)
  }
  const limits = { deadlineMs: Number.POSITIVE_INFINITY, isCancelled: () => false }
  const query = { projectId: 1, key: 'plan', contains: '', eventNames: null }
  for (const [fromMs, toMs] of [
    [START_MS, START_MS + 200 * HOUR_MS],
    [START_MS + 20 * HOUR_MS, START_MS + 70 * HOUR_MS],
  ] as const) {
    for (const eventNames of [null, ['signup', 'constructor'], ['unknown']]) {
      const counts = new Map<unknown, number>()
      for (const { name = '', timestampMs = 0, properties = {} } of sketches) {
        const plan = properties['plan']
        const isMeant = eventNames === null || eventNames.includes(name)
        if (plan === null || !isMeant || timestampMs < fromMs || timestampMs > toMs) continue
        counts.set(plan, (counts.get(plan) ?? 0) + 1)
      }
      const expected = [...counts].sort(([, a], [, b]) => b - a).map(([name]) => ({ name }))
      const found = reader.eventValues({ ...query, eventNames, fromMs, toMs }, limits).offered()
      t.strictSame(found, expected, `${fromMs} ${String(eventNames)}`)
    }
  }
  const isCancelled = (): boolean => true
  const all = { ...query, fromMs: 0, toMs: START_MS * 2 }
  t.throws(() => reader.eventValues(all, { ...limits, isCancelled }), { code: 'query_timeout' })
  t.end()
})
