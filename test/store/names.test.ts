/**
 * Compares the event and property names that a store gathers with those of all events, read one by one.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { type PropertyType, propertyType } from '../../src/rules/events/event-definitions.ts'
import { OrganizationStore } from '../../src/store/catalog/organization-store.ts'
import { SegmentTables } from '../../src/store/events/format/segment-tables.ts'
import {
  PROJECT_EVENT_NAMES_BYTES_MAX,
  PROJECT_PROPERTY_NAMES_BYTES_MAX,
  SEGMENT_NAMES_UNITS_MAX,
} from '../../src/store/events/limits.ts'
import type { ProjectNames } from '../../src/store/events/names/project-names.ts'
import type { EventReader } from '../../src/store/events/read/event-reader.ts'
import type { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES, pairKey } from '../../src/store/lmdb/keys.ts'
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
const LONG = 'k'.repeat(400)
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

/** Returns the names in all events of project 1, read one by one. */
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
      if (key.length > LONG.length) continue
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
    // Shares a column with others, so it is not listed.
    if (random() < 0.1) properties[`${LONG}${LONG}`] = index
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

/** Returns for each segment whether it carries gathered names. */
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

t.test('many segments, unmerged and merged', (t) => {
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
    // A merge may combine segments with and without gathered names.
    while (writer.warehouse.maintain(100));
    compare(t, reader.names(1, NO_CHECK), reader, `after ${start} events`)
  }
  compare(t, reader.names(1, NO_CHECK), reader, 'at the end')
  compare(t, openReader(t, dataDir).names(1, NO_CHECK), reader, 'all at once')
  let asked = 0
  reader.names(1, () => asked++)
  t.equal(asked, 0, 'no segment is read again')
  const { events } = reader.names(1, NO_CHECK)
  const [first] = [...events].sort((a, b) => a.firstArrivalMs - b.firstArrivalMs)
  t.equal(first?.firstArrivalMs, START_MS + 200 * HOUR_MS)
  t.end()
})

t.test('there are more properties than columns', (t) => {
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

t.test('segments with names that are slow to find carry their names', (t) => {
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
  t.strictSame(carried(t, log.dataDir), [true, true])
  compare(
    t,
    reader.names(1, NO_CHECK),
    reader,
    'and a small one in which properties share a column',
  )
  const criteria = { afterMs: null, beforeMs: null, distinctId: '2024-05-02', personId: null }
  log.run(1, { kind: 'erase_events', criteria: { ...criteria, event: null } })
  const hasOwn = (): boolean =>
    [...reader.names(1, NO_CHECK).properties].some(({ name }) => name === 'own')
  // Each call erases for a short time only.
  for (let calls = 0; calls < 100 && hasOwn(); calls++) log.process()
  t.strictSame(carried(t, log.dataDir), [true, true])
  compare(t, reader.names(1, NO_CHECK), reader, 'erased')
  t.notOk(hasOwn())
  t.end()
})

t.test('a segment with too many names carries the names of its newest rows', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const events = Math.ceil(SEGMENT_NAMES_UNITS_MAX / 200)
  for (let index = 0; index < events; index++) {
    const properties = { [`${'x'.repeat(200)} ${index}`]: index, all: index }
    writer.add(eventInput({ uuid: uuidOf(index), properties }))
  }
  writer.commit(1)
  t.strictSame(carried(t, dataDir), [true])
  const reader = openReader(t, dataDir)
  const listed = new Map([...reader.names(1, NO_CHECK).properties].map((one) => [one.name, one]))
  t.equal(listed.get('all')?.count, events)
  t.ok(listed.has(`${'x'.repeat(200)} ${events - 1}`))
  t.ok(listed.size < events)
  t.end()
})

t.test('a segment of few large events carries its names', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const long = 'lorem ipsum '.repeat(50_000)
  for (let index = 0; index < 3; index++) {
    const input = eventInput({ uuid: uuidOf(index), properties: { text: `${index}${long}` } })
    const admission = writer.admit(input)
    if (admission === null) throw new Error('a duplicate')
    writer.append(input, admission, START_MS, 'full', false, long.length)
  }
  writer.commit(1)
  t.strictSame(carried(t, dataDir), [true])
  const reader = openReader(t, dataDir)
  compare(t, reader.names(1, NO_CHECK), reader, 'large values')
  t.end()
})

t.test('a property with a name that is too long is not listed', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const tooLong = 'k'.repeat(401)
  for (let index = 0; index < 3; index++) {
    writer.add(eventInput({ uuid: uuidOf(index), properties: { [tooLong]: 1, [LONG]: 1 } }))
  }
  writer.commit(1)
  const { properties } = openReader(t, dataDir).names(1, NO_CHECK)
  t.strictSame(
    [...properties].map(({ name }) => name.length),
    [400],
  )
  t.end()
})

t.test('erased events are not listed any more', (t) => {
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

t.test('a canceled reader keeps the names it has read', (t) => {
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
    'afterward',
  )
  t.equal(asked, 6)
  t.end()
})

async function saveInsight(
  dataDir: string,
  query: Readonly<Record<string, unknown>>,
): Promise<void> {
  const store = new OrganizationStore(dataDir)
  store.projects.bootstrap({ projectKey: 'phc_names', personalKey: 'phx_names_test_key' })
  const request = { projectId: 1, userId: 1, fields: { name: 'saved', query } }
  store.saved.createInsight({ ...request, dashboards: [] })
  await store.close()
}

/** Adds `count` events, each with its own name and property of 200 characters. */
function addNames(writer: ProcessingWriter, first: number, count: number, atMs: number): void {
  const filler = 'x'.repeat(180)
  for (let index = first; index < first + count; index++) {
    const name = `event ${index} ${filler}`
    const properties = { [`property ${index} ${filler}`]: 1 }
    writer.add(eventInput({ name, uuid: uuidOf(index), properties, createdAtMs: atMs }))
    if (index % 1000 === 999) writer.commit(index + 1)
  }
  writer.commit(first + count)
}

t.test('however many names there are, a new one is listed, and lasting ones stay', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const addReal = (number: number, name: string, atMs: number): void => {
    const properties = { [`property of ${name}`]: 1 }
    writer.add(eventInput({ name, uuid: uuidOf(number), properties, createdAtMs: atMs }))
  }
  const day = (number: number) => START_MS + number * 24 * HOUR_MS
  addReal(1_000_001, 'lasting', day(0))
  addReal(1_000_002, 'once', day(0))
  addReal(1_000_003, 'referred', day(0))
  addReal(1_000_004, 'lasting', day(1))
  const series = [{ kind: 'EventsNode', event: 'referred' }]
  const query = { kind: 'TrendsQuery', series, breakdown: 'property of referred' }
  await saveInsight(dataDir, query)
  for (let round = 0; round < 4; round++) {
    addNames(writer, round * 6000, 6000, day(2))
    while (writer.warehouse.maintain(1000));
  }
  addReal(1_000_005, 'new', day(2))
  writer.commit(1)
  const names = openReader(t, dataDir).names(1, NO_CHECK)
  t.ok(names.bytes < PROJECT_EVENT_NAMES_BYTES_MAX + PROJECT_PROPERTY_NAMES_BYTES_MAX)
  const events = new Set([...names.events].map(({ name }) => name))
  const properties = new Set([...names.properties].map(({ name }) => name))
  for (const name of ['new', 'lasting', 'referred']) {
    t.ok(events.has(name), name)
    t.ok(properties.has(`property of ${name}`), `the property of ${name} is listed`)
  }
  t.notOk(events.has('once'), 'a name that was seen once, long ago, gives way')
  t.notOk(properties.has('property of once'))
  const isSeen = names.isSeenOn(['new'])
  const seen = [...names.properties].filter(isSeen).map(({ name }) => name)
  t.strictSame(seen, ['property of new'], 'which event has which property is still known')
})

t.test('names that were sent on several days make room for a new one', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  for (const day of [0, 1, 2]) {
    for (let index = 0; index < 6000; index++) {
      const name = `event ${index} ${'x'.repeat(180)}`
      const uuid = uuidOf(day * 6000 + index)
      writer.add(eventInput({ name, uuid, createdAtMs: START_MS + day * 24 * HOUR_MS }))
      if (index % 1000 === 999) writer.commit(index + 1)
    }
    writer.add(eventInput({ name: `new ${day}`, uuid: uuidOf(900_000 + day) }))
    writer.commit(1)
    while (writer.warehouse.maintain(1000));
    const events = [...openReader(t, dataDir).names(1, NO_CHECK).events]
    t.ok(
      events.some(({ name }) => name === `new ${day}`),
      `after ${day + 1} days`,
    )
  }
  t.end()
})

t.test('a damaged segment gives an error, not a partial answer', async (t) => {
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

t.test('values of a property are listed by time and name', (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const reader = openReader(t, dataDir)
  const sketches = randomSketches(600, 2)
  for (const [index, sketch] of sketches.entries()) {
    writer.add(eventInput(sketch))
    if (index % 100 === 99) writer.commit(index + 1)
  }
  const limits = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }
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
  const isCanceled = (): boolean => true
  const all = { ...query, fromMs: 0, toMs: START_MS * 2 }
  t.throws(() => reader.eventValues(all, { ...limits, isCanceled }), { code: 'query_timeout' })
  t.end()
})
