/**
 * Compares the stored summary of names of a project with the names gathered from its segments.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { PropertyEntry } from '../../src/store/events/names/project-names.ts'
import type { EventReader } from '../../src/store/events/read/event-reader.ts'
import type { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES, numberKey } from '../../src/store/lmdb/keys.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { eventInput, openReader, openWriter, uuidOf } from '../fixtures/stored-events.ts'

const START_MS = Date.UTC(2024, 0, 10)
const EVENTS = 80_000
const COMMIT_EVENTS = 5000
const CRITERIA = { afterMs: null, beforeMs: null, distinctId: null, personId: null }

t.setTimeout(200_000)

/** Events of twelve names. The property `late` comes with the last ones only. */
function addEvents(writer: ProcessingWriter, first: number, end: number): void {
  for (let index = first; index < end; index++) {
    const properties: Record<string, unknown> = { plan: index % 3 === 0 ? null : 'pro', all: index }
    if (index % 7 === 0) properties[`p${index % 70}`] = `${index}`
    if (index >= EVENTS) properties['late'] = true
    const uuid = uuidOf(index)
    const name = `event ${index % 12}`
    // They arrive almost in order, some of them an hour late.
    const timestampMs = START_MS + index * 1000 - (index % 11 === 0 ? 3_600_000 : 0)
    writer.add(eventInput({ name, uuid, timestampMs, properties, hasClientUuid: false }))
    if ((index + 1) % COMMIT_EVENTS === 0 || index + 1 === end) writer.commit(0)
  }
}

function tablesOf(t: Test, dataDir: string) {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  t.teardown(() => environment.close())
  return environment
}

/** Returns the answer of a new reader, and the number of segments it reads. */
function ask(t: Test, dataDir: string): { readonly names: unknown; readonly segments: number } {
  let segments = 0
  const names = openReader(t, dataDir).names(1, () => segments++)
  const eventNames = [...names.events].map(({ name }) => name)
  const seen = eventNames.map((name) => {
    const isSeen = names.isSeenOn([name])
    return [...names.properties].filter(isSeen).map((property) => property.name)
  })
  const factsOf = ({ name, count, firstSeenMs, lastSeenMs, ...more }: PropertyEntry) => {
    const { firstArrivalMs, lastArrivalMs, lastSequence, type } = more
    return [name, count, firstSeenMs, lastSeenMs, firstArrivalMs, lastArrivalMs, lastSequence, type]
  }
  const facts = [...names.properties].map(factsOf)
  return { names: [[...names.events], facts, seen, names.through], segments }
}

t.test('the stored names equal those of the segments', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  addEvents(writer, 0, EVENTS)
  const gathered = ask(t, dataDir)
  t.ok(gathered.segments > 8, 'no summary is stored yet')
  while (writer.warehouse.maintain(1000));
  const kept = ask(t, dataDir)
  t.equal(kept.segments, 0, 'no segment is read')
  t.strictSame(kept.names, gathered.names)

  t.test('more events arrive', (t) => {
    addEvents(writer, EVENTS, EVENTS + COMMIT_EVENTS)
    while (writer.warehouse.maintain(1000));
    const { segments, names } = ask(t, dataDir)
    t.ok(segments <= 2, 'only segments after the summary are read')
    const environment = tablesOf(t, dataDir)
    const key = numberKey(1)
    const sound = Buffer.from(environment.tables.kept_names.get(key) ?? [])
    environment.write(() => void environment.tables.kept_names.remove(key))
    const anew = ask(t, dataDir)
    t.ok(anew.segments > 8)
    t.strictSame(names, anew.names)
    const damaged = Buffer.from(sound)
    damaged[20] = (damaged[20] ?? 0) ^ 1
    environment.write(() => void environment.tables.kept_names.put(key, damaged))
    t.strictSame(ask(t, dataDir).names, anew.names, 'a damaged record is passed over')
    t.end()
  })
})

t.test('erased names are not listed any more', async (t) => {
  const dataDir = t.testdir()
  const writer = openWriter(t, dataDir)
  addEvents(writer, 0, EVENTS + COMMIT_EVENTS)
  while (writer.warehouse.maintain(1000));
  t.ok(ask(t, dataDir).segments <= 2, 'a summary is stored')
  await writer.close()
  const log = new PersonLog(t, dataDir)
  log.run(1, { kind: 'erase_events', criteria: { ...CRITERIA, event: 'event 7' } })
  const reader: EventReader = openReader(t, dataDir)
  const isNamed = (): boolean =>
    [...reader.names(1, () => undefined).events].some(({ name }) => name === 'event 7')
  for (let calls = 0; calls < 500 && isNamed(); calls++) log.process()
  t.notOk(isNamed())
  for (let calls = 0; calls < 500 && ask(t, dataDir).segments > 2; calls++) log.process()
  const kept = ask(t, dataDir)
  t.ok(kept.segments <= 2, 'a summary is stored again')
  const environment = tablesOf(t, dataDir)
  environment.write(() => void environment.tables.kept_names.remove(numberKey(1)))
  t.strictSame(kept.names, ask(t, dataDir).names)
})
