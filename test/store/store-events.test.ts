/**
 * Tests storing events: round trips, duplicates, atomic commits, separate projects, reopening.
 *
 * @lane quick
 */

import fc from 'fast-check'
import t from 'tap'
import { readProcessedPosition } from '../../src/store/directory/data-dir.ts'
import type { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { runsOf } from '../fixtures/random-depth.ts'
import {
  type EventSketch,
  eventInput,
  openReader,
  openWriter,
  randomNumbers,
  uuidOf,
} from '../fixtures/stored-events.ts'

/** Adds events and commits them at the next position. Returns the results of `add`. */
function store(writer: ProcessingWriter, sketches: readonly EventSketch[]): readonly boolean[] {
  const answers = sketches.map((sketch) => writer.add(eventInput(sketch)))
  writer.commit(writer.readPosition() + 1)
  writer.warehouse.writeIndex?.()
  return answers
}

/** Properties as a client may send them, with keys that repeat often and keys that never repeat. */
const jsonProperties = fc.dictionary(
  fc.oneof(
    fc.constantFrom('$browser', '$current_url', 'plan', 'n', '__proto__', 'constructor', '7'),
    fc.string({ unit: 'grapheme', maxLength: 20 }),
    fc.string({ minLength: 501, maxLength: 600 }),
  ),
  fc.oneof(
    fc.jsonValue({ maxDepth: 4 }),
    fc.constantFrom('Chrome', 'user-1', '00ff00ff00ff', '', null, true, 0, 1.5, 1e300),
    fc.uuid(),
  ),
  { noNullPrototype: true },
)

t.test('properties of any JSON are read unchanged', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const reader = openReader(t, dataDir)
  let next = 0
  fc.assert(
    fc.property(fc.array(jsonProperties, { minLength: 1, maxLength: 30 }), (all) => {
      // JSON has no negative zero.
      const plain = all.map((properties) => JSON.parse(JSON.stringify(properties)) as object)
      const first = next
      store(
        writer,
        plain.map((properties) => ({
          properties: properties as Record<string, unknown>,
          uuid: uuidOf(next++),
        })),
      )
      const { results } = reader.listEvents({ projectId: 1, limit: plain.length })
      const stored = results.toReversed().map((event) => event.properties)
      if (results.length !== next - first) throw new Error('a row is missing')
      for (const [index, properties] of plain.entries()) {
        const expected = Object.entries(properties).sort(byKey)
        const got = Object.entries(stored[index] ?? {}).sort(byKey)
        if (JSON.stringify(got) !== JSON.stringify(expected)) {
          throw new Error(`${JSON.stringify(got)} is not ${JSON.stringify(expected)}`)
        }
      }
    }),
    runsOf(60),
  )
})

function byKey([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1
}

t.test('every field of an event is read unchanged', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  store(writer, [
    {
      name: 'sign up',
      distinctId: 'anon',
      timestampMs: Date.UTC(2024, 1, 29, 12, 0, 0, 7),
      createdAtMs: Date.UTC(2024, 2, 1),
      properties: { b: 1, a: { deep: [null, 'x'] }, distinct_id: 'anon' },
      elementsChain: 'a.btn:nth-child="1"',
      uuid: uuidOf(5),
      personMode: 'force_upgrade',
      isHistorical: true,
    },
    { uuid: uuidOf(6), timestampMs: 0 },
  ])
  const reader = openReader(t, dataDir)
  const [event, plain] = reader.listEvents({ projectId: 1, limit: 10 }).results
  t.strictSame(event, {
    id: 1,
    uuid: event?.uuid,
    event: 'sign up',
    distinct_id: 'anon',
    timestamp: '2024-02-29T12:00:00.007Z',
    created_at: '2024-03-01T00:00:00.000Z',
    properties: { b: 1, a: { deep: [null, 'x'] }, distinct_id: 'anon' },
    person: null,
    person_id: '7318c711-4e13-553f-aa67-bd012837acb9',
    person_mode: 'force_upgrade',
    elements_chain: 'a.btn:nth-child="1"',
    historical_migration: true,
  })
  t.equal(event?.uuid.replaceAll('-', ''), Buffer.from(uuidOf(5)).toString('hex'))
  t.notOk('historical_migration' in (plain ?? {}))
  t.equal(plain?.elements_chain, '')
})

t.test('properties keep the order in which they were sent', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  store(writer, [{ properties: { z: 1, a: 2, m: 3 } }])
  const [event] = openReader(t, dataDir).listEvents({ projectId: 1, limit: 1 }).results
  t.strictSame(Object.keys(event?.properties ?? {}), ['z', 'a', 'm'])
})

t.test(
  'expanded properties are what the reader is told to derive from the stored ones',
  async (t) => {
    const dataDir = t.testdir()
    store(openWriter(t, dataDir), [{ properties: { $browser: 'Firefox' }, name: '$pageview' }])
    const reader = openReader(t, dataDir, {
      expand: (properties, name, isPersonless) => ({ ...properties, name, isPersonless }),
    })
    const [event] = reader.listEvents({ projectId: 1, limit: 1 }).results
    t.strictSame(event?.properties, { $browser: 'Firefox', name: '$pageview', isPersonless: false })
  },
)

t.test('timestamps of any size and fraction are exact to the millisecond', async (t) => {
  const dataDir = t.testdir()
  const times = [
    0,
    -1,
    8.64e15,
    -8.64e15,
    1_700_000_000_123,
    Date.UTC(9999, 11, 31),
    -62_135_596_800_000,
  ]
  store(
    openWriter(t, dataDir),
    times.map((timestampMs, index) => ({ timestampMs, uuid: uuidOf(index) })),
  )
  const { results } = openReader(t, dataDir).listEvents({ projectId: 1, limit: 10 })
  const expected = times.toSorted((a, b) => b - a).map((time) => new Date(time).toISOString())
  t.strictSame(
    results.map((event) => event.timestamp),
    expected,
  )
})

t.test('a duplicate has the same uuid, name and distinct_id', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const first = { uuid: uuidOf(1), name: 'a', distinctId: 'x', properties: { turn: 1 } }
  t.strictSame(
    store(writer, [
      first,
      { ...first, timestampMs: 5, properties: { turn: 2 } },
      { ...first, name: 'b' },
      { ...first, distinctId: 'y' },
      { ...first, uuid: uuidOf(2) },
      { ...first, projectId: 2 },
      { ...first, name: 'b' },
    ]),
    [true, false, true, true, true, true, false],
    'within one batch',
  )
  t.strictSame(store(writer, [first, { ...first, name: 'b' }, { ...first, name: 'c' }]), [
    false,
    false,
    true,
  ])
  const kept = openReader(t, dataDir).listEvents({ projectId: 1, limit: 10, event: 'a' })
  t.strictSame(
    kept.results.map((event) => event.properties),
    [{ turn: 1 }, { turn: 1 }, { turn: 1 }],
    'the first content wins',
  )
})

t.test('an event with a server uuid is not a duplicate, and is found by the uuid', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const event = { uuid: uuidOf(1), hasClientUuid: false }
  t.strictSame(store(writer, [event, event]), [true, true])
  const [newest] = openReader(t, dataDir).listEvents({ projectId: 1, limit: 1 }).results
  t.equal(openReader(t, dataDir).getEvent(1, newest?.uuid ?? '')?.id, 2)
})

t.test('duplicates are found in runs of the index, also after reopening', async (t) => {
  const dataDir = t.testdir()
  const options = { tableEntriesMax: 50, runsPerMerge: 3, segmentRowsTarget: 64 }
  const sketch = (number: number): EventSketch => ({
    projectId: 1 + (number % 2),
    uuid: uuidOf(number >> 1),
    distinctId: `user-${number % 7}`,
  })
  let writer = openWriter(t, dataDir, options)
  let next = 0
  for (let batch = 0; batch < 40; batch++) {
    const sketches = Array.from({ length: 20 }, () => sketch(next++))
    t.ok(store(writer, sketches).every((isStored) => isStored))
    if (batch % 3 === 0) while (writer.warehouse.maintain(5));
    if (batch % 10 === 9) {
      await writer.close()
      writer = openWriter(t, dataDir, options)
      t.equal(writer.readPosition(), batch + 1)
    }
  }
  const again = Array.from({ length: next }, (_, number) => sketch(number))
  t.ok(store(writer, again).every((isStored) => !isStored))
  const reader = openReader(t, dataDir)
  const figures = reader.statistics()
  t.equal(
    figures.projects.reduce((sum, project) => sum + project.rows, 0),
    next,
  )
  t.ok(figures.uuidRunEntries > next / 2, `runs hold ${figures.uuidRunEntries} entries`)
  for (const number of [0, 1, 2, 399, 400, 777, next - 1]) {
    const projectId = 1 + (number % 2)
    const uuid = Buffer.from(uuidOf(number >> 1)).toString('hex')
    t.equal(
      reader.getEvent(projectId, uuid)?.distinct_id,
      `user-${number % 7}`,
      `event ${number} is a duplicate`,
    )
  }
  t.equal(reader.getEvent(1, Buffer.from(uuidOf(99_999)).toString('hex')), null)
  t.equal(reader.getEvent(3, Buffer.from(uuidOf(0)).toString('hex')), null)
  t.equal(reader.getEvent(1, 'no uuid'), null)
})

t.test('nothing is visible before the commit, and uncommitted events leave nothing', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 4 })
  const reader = openReader(t, dataDir)
  for (let number = 0; number < 10; number++) writer.add(eventInput({ uuid: uuidOf(number) }))
  writer.addWarning(1, 0, { type: 'client_ingestion_warning', details: {} })
  writer.addDeadLetter({ projectId: 1, step: 'process', reason: 'x', raw: Buffer.from('{}') })
  t.equal(reader.listEvents({ projectId: 1, limit: 10 }).results.length, 0)
  t.equal(reader.listWarnings(1, 10).length, 0)
  await writer.close()
  const next = openWriter(t, dataDir)
  t.equal(next.readPosition(), 0)
  t.strictSame(store(next, [{ uuid: uuidOf(3) }]), [true])
  t.equal(reader.listEvents({ projectId: 1, limit: 10 }).results.length, 1)
  t.equal(reader.statistics().deadLetters, 0)
})

t.test('a batch larger than a segment becomes several, and its duplicates are found', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 8 })
  for (let number = 0; number < 30; number++) writer.add(eventInput({ uuid: uuidOf(number) }))
  t.equal(writer.add(eventInput({ uuid: uuidOf(2) })), false)
  t.equal(writer.add(eventInput({ uuid: uuidOf(29) })), false)
  const stats = writer.commit(1)
  t.strictSame([stats.rows, stats.segments], [30, 4])
  const [project] = openReader(t, dataDir).statistics().projects
  t.match(project, { projectId: 1, rows: 30, segments: 4, distinctIds: 1, bytes: stats.bytes })
})

t.test('the same events give the same answers after reopening', async (t) => {
  const dataDir = t.testdir()
  const random = randomNumbers(7)
  const writer = openWriter(t, dataDir, { segmentRowsTarget: 32 })
  for (let number = 0; number < 200; number++) {
    writer.add(
      eventInput({
        uuid: uuidOf(number),
        distinctId: `u${Math.floor(random() * 20)}`,
        timestampMs: 1_700_000_000_000 + Math.floor(random() * 1e6),
        properties: { n: Math.floor(random() * 5), text: `t${number}` },
      }),
    )
    if (number % 30 === 29) writer.commit(number)
  }
  writer.commit(200)
  const before = openReader(t, dataDir).listEvents({ projectId: 1, limit: 300 })
  await writer.close()
  t.equal(readProcessedPosition(dataDir), 200)
  const again = openWriter(t, dataDir)
  t.equal(again.readPosition(), 200)
  t.strictSame(openReader(t, dataDir).listEvents({ projectId: 1, limit: 300 }), before)
  t.equal(before.results.length, 200)
})

t.test('an event that cannot be stored leaves no trace', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const ring: Record<string, unknown> = {}
  ring['ring'] = ring
  writer.add(eventInput({ uuid: uuidOf(1), properties: { a: 1, b: 2 } }))
  t.throws(() => writer.add(eventInput({ uuid: uuidOf(2), properties: { a: 5, z: ring, b: 6 } })))
  writer.add(eventInput({ uuid: uuidOf(3), properties: { b: 3 } }))
  writer.commit(1)
  const { results } = openReader(t, dataDir).listEvents({ projectId: 1, limit: 10 })
  t.strictSame(
    results.map((event) => [event.id, event.properties]),
    [
      [2, { b: 3 }],
      [1, { a: 1, b: 2 }],
    ],
  )
})

t.test('many kinds of properties and many projects fit', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  const wide = Object.fromEntries(
    Array.from({ length: 1200 }, (_, index) => [`key ${index}`, index]),
  )
  for (let round = 0; round < 3; round++) {
    for (let projectId = 1; projectId <= 20; projectId++) {
      const uuid = uuidOf(round * 100 + projectId)
      writer.add(eventInput({ projectId, uuid, distinctId: `d${projectId}`, properties: wide }))
    }
    writer.commit(round + 1)
    while (writer.warehouse.maintain(5));
  }
  const reader = openReader(t, dataDir)
  for (const projectId of [1, 13, 20]) {
    const { results } = reader.listEvents({ projectId, limit: 10, distinctId: `d${projectId}` })
    t.equal(results.length, 3)
    t.strictSame(results[0]?.properties, wide)
    t.equal(reader.listEvents({ projectId, limit: 9, distinctId: 'd99' }).results.length, 0)
  }
})
