/**
 * Compares the segments that a search for sessions skips with a check of every event.
 *
 * @lane quick
 */
import t from 'tap'
import { uuidV7 } from '../../src/base/ids.ts'
import type { EventScanRequest } from '../../src/rules/analytics/event-columns.ts'
import { isSessionId, SESSION_ID } from '../../src/rules/analytics/session-id.ts'
import {
  type Directory,
  decodeDirectory,
  encodeHeader,
  NO_PART,
} from '../../src/store/events/format/segment-format.ts'
import { SegmentTables } from '../../src/store/events/format/segment-tables.ts'
import { pack, unpack } from '../../src/store/lmdb/codec.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'

const START_MS = Date.UTC(2024, 0, 10)
const HOUR_MS = 3_600_000
/** The bytes of a header before its directory. */
const HEADER_FIXED_BYTES = 44
const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }
const EVERYTHING: EventScanRequest = {
  projectId: 1,
  fromMs: Number.NEGATIVE_INFINITY,
  toMs: Number.POSITIVE_INFINITY,
  filter: null,
  series: [{ names: null, filter: null, steps: [] }],
  values: [{ kind: 'session' }],
  persons: null,
  nowMs: 0,
}

function seen(session: unknown, atMs: number, others: object = {}): SentEvent {
  const properties = { ...(session === undefined ? {} : { [SESSION_ID]: session }), ...others }
  return { event: 'seen', distinct_id: 'a', timestamp: new Date(atMs).toISOString(), properties }
}

/** The ranges in the header of each segment, oldest first. */
async function namedStarts(dataDir: string): Promise<readonly (readonly number[] | null)[]> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const tables = new SegmentTables(environment.tables)
  const summaries = [...tables.summaries(1, 1, 1)]
  const named = summaries.map(
    ({ firstSequence }) => tables.segmentAt(1, firstSequence).directory.sessions,
  )
  await environment.close()
  return named
}

t.test('events of sessions are found wherever they are stored', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const random = randomNumbers(9)
  const below = (limit: number) => Math.floor(random() * limit)
  const known: string[] = []
  for (let hour = 0; hour < 60; hour++) {
    const atMs = START_MS + hour * HOUR_MS
    const events = Array.from({ length: 1 + below(20) }, () => {
      const draw = below(12)
      // Ids of any time, with capitals, of earlier sessions, missing ids, and invalid ids.
      const id = uuidV7(draw === 0 ? below(2 ** 40) : atMs)
      if (draw === 1) return seen(undefined, atMs)
      if (draw === 2) return seen(below(2) === 0 ? '00000000-0000-4000-8000-000000000000' : 5, atMs)
      if (draw < 6 && known.length > 0) return seen(known[below(known.length)], atMs)
      known.push(draw === 6 ? id.toUpperCase() : id)
      return seen(known.at(-1), atMs)
    })
    // More properties than columns, so that the last ones share one column.
    const many = Object.fromEntries(Array.from({ length: 600 }, (_, at) => [`p${at}`, at]))
    if (hour % 20 === 7) {
      const shared = uuidV7(atMs)
      known.push(shared)
      log.send(1, [{ ...seen(undefined, atMs, { ...many, [SESSION_ID]: shared }) }])
    }
    log.send(1, events)
    log.process(true)
  }
  const scanner = log.reader.scanner(NO_LIMITS)
  const { sequences, values } = scanner.scan(EVERYTHING)
  const texts = values[0]?.values ?? []
  // The memory of a result is reused by the next one.
  const sessions = Array.from(values[0]?.ids ?? [])
  const places = Array.from(sequences)
  t.strictSame(new Set(texts.slice(1)), new Set(known.filter(isSessionId)))
  for (let round = 0; round < 100; round++) {
    const marks = new Uint8Array(texts.length)
    for (let marked = 0; marked <= round % 4; marked++) marks[1 + below(texts.length - 1)] = 1
    const found = log.reader.scanner(NO_LIMITS).scan({ ...EVERYTHING, sessions: marks })
    const expected = places.filter((_, row) => marks[sessions[row] ?? 0] === 1)
    t.strictSame(
      Array.from(found.sequences).sort((a, b) => a - b),
      expected.sort((a, b) => a - b),
    )
  }
})

t.test('a header holds the start times of the sessions of its events, if possible', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const early = '018d0a1b-2c3d-7e4f-8a5b-6c7d8e9f0a1b'
  const late = '018E0A1B-2C3D-7E4F-8A5B-6C7D8E9F0A1B'
  log.send(1, [seen(late, START_MS), seen(early, START_MS), seen('no session', START_MS)])
  log.process(true)
  log.send(1, [seen(undefined, START_MS)])
  log.process(true)
  const far = Array.from({ length: 65 }, (_, at) => seen(uuidV7(at * 2 ** 25), START_MS))
  log.send(1, far)
  log.process(true)
  t.strictSame(await namedStarts(log.dataDir), [[0x018d0a, 0x018e0a], [], null])
})

t.test('a header of an older version has neither facts nor start times', async (t) => {
  const parts = { timestamps: NO_PART, arrivals: NO_PART, distinctIds: NO_PART, modes: NO_PART }
  const uuids = { uuidHeads: NO_PART, uuidTails: NO_PART }
  const directory: Directory = {
    ...parts,
    ...uuids,
    names: [['seen', 1]],
    columns: [],
    facts: [1, 2, 3],
    sessions: [0x018d0a],
  }
  const times = { firstTimestampMs: 0, lastTimestampMs: 0, firstArrivalMs: 0, lastArrivalMs: 0 }
  const header = encodeHeader({ groups: 0, rows: 1, groupBytes: 0, ...times }, directory)
  t.strictSame(decodeDirectory(header), directory)
  const fixed = header.subarray(0, HEADER_FIXED_BYTES)
  const written = unpack(header.subarray(HEADER_FIXED_BYTES)) as readonly unknown[]
  const older = Buffer.concat([fixed, pack(written.slice(0, -2))])
  t.strictSame(decodeDirectory(older), { ...directory, facts: NO_PART, sessions: null })
})
