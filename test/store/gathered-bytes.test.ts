/**
 * Tests that the memory of persons, groups and distinct_ids in processing is counted in bytes. Data that waits for a
 * commit is reported. Data that is only cached is evicted between any two events.
 *
 * @lane quick
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseUuid, uuidV7 } from '../../src/base/ids.ts'
import type { JsonObject } from '../../src/base/json.ts'
import { applyEvent } from '../../src/rules/persons/apply-event.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../src/rules/persons/limits.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { refuseDamage } from '../../src/store/faults.ts'

const PROJECT = 1
const NOW_MS = Date.UTC(2024, 0, 15, 12)
const MIB = 1024 * 1024
const TEXT_BYTES = 500_000
/** A text of a person who is small enough to be read completely. */
const MEDIUM_TEXT_BYTES = 40_000
const CONTEXT = {
  projectId: PROJECT,
  arrivedAtMs: NOW_MS,
  propertiesBytesMax: PERSON_PROPERTIES_BYTES_MAX,
}

t.setTimeout(120_000)

/** The writing end of a store, which processes events as the processing thread does. */
class Processing {
  readonly store: ProcessingWriter
  #events = 0
  #commits = 0

  constructor(t: Test, dataDir: string, personCacheBytesMax: number) {
    this.store = new ProcessingWriter({ dataDir, onDamage: refuseDamage, personCacheBytesMax })
    t.teardown(() => this.store.close())
  }

  apply(distinctId: string, name: string, properties: JsonObject): void {
    const event = {
      name,
      distinctId,
      timestampMs: NOW_MS,
      properties,
      elementsChain: '',
      isPersonless: false,
    }
    const uuidBytes = parseUuid(uuidV7(NOW_MS + this.#events++)) ?? new Uint8Array(16)
    const identity = { projectId: PROJECT, event, uuidBytes, uuidOffset: 0, hasClientUuid: false }
    const admission = this.store.admit(identity)
    if (admission === null) throw new Error('the event is a duplicate')
    const bytes = Buffer.byteLength(JSON.stringify(properties))
    applyEvent(event, bytes, this.store.persons(PROJECT, event, admission), CONTEXT)
    // These tests do not count the memory of the event itself.
    const stored = { ...identity, event: { ...event, properties: {} } }
    this.store.append(stored, admission, NOW_MS, 'full', false, 0)
  }

  commit(): void {
    this.store.commit(++this.#commits)
  }
}

const large = (index: number): string => String(index).padEnd(TEXT_BYTES, 'x')
const medium = (index: number): string => String(index).padEnd(MEDIUM_TEXT_BYTES, 'x')

t.test('persons that wait for a commit are counted in bytes, and released with it', (t) => {
  const processing = new Processing(t, t.testdir(), 4 * MIB)
  const { store } = processing
  for (let person = 1; person <= 8; person++) {
    processing.apply(`p${person}`, 'seen', { $set: { text: large(person) } })
    t.ok(store.gatheredBytes >= person * TEXT_BYTES, `${person} persons`)
  }
  processing.commit()
  t.equal(store.gatheredBytes, 0)
  t.ok(store.cachedBytes <= 4 * MIB, `${store.cachedBytes} bytes are cached`)
  for (let person = 1; person <= 8; person++) {
    const before = store.gatheredBytes
    processing.apply(`p${person}`, 'seen', { $set: { small: person } })
    const heldBytes = store.gatheredBytes - before
    t.ok(heldBytes > 0 && heldBytes < TEXT_BYTES / 10, 'the text of a large person is not held')
  }
  t.end()
})

t.test('a smaller person that changed is held completely', (t) => {
  const processing = new Processing(t, t.testdir(), 4 * MIB)
  const { store } = processing
  processing.apply('p', 'seen', { $set: { text: medium(1) } })
  processing.commit()
  processing.apply('p', 'seen', { $set: { n: 1 } })
  t.ok(store.gatheredBytes >= MEDIUM_TEXT_BYTES)
  t.end()
})

t.test('persons that are only read are evicted between two events', (t) => {
  const processing = new Processing(t, t.testdir(), 4 * MIB)
  const { store } = processing
  for (let person = 0; person < 300; person++) {
    processing.apply(`p${person}`, 'seen', { $set: { text: medium(person), n: person } })
    if (person % 50 === 49) processing.commit()
  }
  let cachedMax = 0
  for (let person = 0; person < 300; person++) {
    processing.apply(`p${person}`, 'seen', { $set: { n: person } })
    cachedMax = Math.max(cachedMax, store.cachedBytes)
  }
  t.ok(cachedMax > MIB && cachedMax <= 6 * MIB, `at most ${cachedMax} bytes are cached`)
  t.ok(store.gatheredBytes < MIB, 'no person was changed')
  processing.commit()
  t.end()
})

t.test('groups are counted and evicted in the same way', (t) => {
  const processing = new Processing(t, t.testdir(), 4 * MIB)
  const { store } = processing
  const identify = (group: number, set: JsonObject): void =>
    processing.apply('p', '$groupidentify', {
      $group_type: 'company',
      $group_key: `g${group}`,
      $group_set: set,
    })
  for (let group = 1; group <= 24; group++) {
    identify(group, { text: large(group), n: group })
    const waiting = ((group - 1) % 4) + 1
    t.ok(store.gatheredBytes >= waiting * TEXT_BYTES, `${waiting} groups wait`)
    if (group % 4 === 0) processing.commit()
  }
  let cachedMax = 0
  for (let group = 1; group <= 24; group++) {
    identify(group, { n: group })
    cachedMax = Math.max(cachedMax, store.cachedBytes)
  }
  t.ok(cachedMax <= 6 * MIB, `at most ${cachedMax} bytes are cached`)
  t.ok(store.gatheredBytes < MIB, 'no group was changed')
  processing.commit()
  t.end()
})

t.test('many projects share the cache limit', (t) => {
  const dataDir = t.testdir()
  const store = new ProcessingWriter({
    dataDir,
    onDamage: refuseDamage,
    personCacheBytesMax: 8 * MIB,
  })
  t.teardown(() => store.close())
  for (let projectId = 1; projectId <= 16; projectId++) {
    for (let person = 0; person < 12; person++) {
      const event = {
        name: 'seen',
        distinctId: `p${person}`,
        timestampMs: NOW_MS,
        properties: { $set: { text: medium(person) } },
        elementsChain: '',
        isPersonless: false,
      }
      const uuidBytes = parseUuid(uuidV7(NOW_MS + person)) ?? new Uint8Array(16)
      const identity = { projectId, event, uuidBytes, uuidOffset: 0, hasClientUuid: false }
      const admission = store.admit(identity)
      if (admission === null) throw new Error('the event is a duplicate')
      applyEvent(
        event,
        MEDIUM_TEXT_BYTES + 100,
        store.persons(projectId, event, admission),
        CONTEXT,
      )
      store.append(identity, admission, NOW_MS, 'full', false, 0)
    }
    store.commit(projectId)
  }
  t.ok(store.cachedBytes <= 8 * MIB, `${store.cachedBytes} bytes are cached`)
  t.end()
})

t.test('a person changed by many events counts its own size, not that of the events', (t) => {
  const processing = new Processing(t, t.testdir(), 4 * MIB)
  for (let event = 0; event < 5000; event++) {
    processing.apply('busy', 'seen', { $set: { last: `event ${event} ${'x'.repeat(500)}` } })
  }
  t.ok(processing.store.gatheredBytes < MIB, `${processing.store.gatheredBytes} bytes are counted`)
  processing.commit()
  t.end()
})

t.test('new and merged distinct_ids are counted', (t) => {
  const processing = new Processing(t, t.testdir(), 4 * MIB)
  for (let id = 0; id < 2000; id++) {
    processing.apply('user', '$identify', { $anon_distinct_id: `anonymous-${id}` })
  }
  t.ok(
    processing.store.gatheredBytes >= 2000 * 300,
    `${processing.store.gatheredBytes} bytes are counted`,
  )
  processing.commit()
  t.equal(processing.store.gatheredBytes, 0)
  t.end()
})

t.test('a long repetitive text takes few bytes on disk, and is read unchanged', async (t) => {
  const dataDir = t.testdir()
  const processing = new Processing(t, dataDir, 4 * MIB)
  processing.apply('first', 'seen', {})
  processing.commit()
  const bytesOf = (): number => statSync(join(dataDir, 'events', 'data.mdb')).size
  const before = bytesOf()
  for (let person = 0; person < 40; person++) {
    processing.apply(`p${person}`, 'seen', { $set: { text: large(person) } })
    processing.apply('first', '$groupidentify', {
      $group_type: 'company',
      $group_key: `g${person}`,
      $group_set: { text: large(person) },
    })
    if (person % 4 === 3) processing.commit()
  }
  const grownBytes = bytesOf() - before
  t.ok(grownBytes < 80 * TEXT_BYTES * 0.1, `80 texts take ${grownBytes} bytes`)
  const reader = new EventReader({ dataDir })
  t.teardown(() => reader.close())
  const query = { projectId: PROJECT, limit: 1, offset: 0, nowMs: NOW_MS, distinctId: 'p7' }
  t.equal(reader.persons().list(query).results[0]?.properties['text'], large(7))
  t.equal(reader.persons().group(PROJECT, 0, 'g39')?.group_properties['text'], large(39))
})
