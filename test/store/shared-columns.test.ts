/**
 * Tests columns of large segments in memory that all analytics threads share.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { blockShares } from '../../src/base/shared-blocks.ts'
import {
  type EventScanRequest,
  OWNER_BITS,
  type ValueRequest,
} from '../../src/rules/analytics/event-columns.ts'
import { SCAN_OPEN_ROWS_MAX } from '../../src/store/events/limits.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import {
  BASE,
  compare,
  NO_LIMITS,
  REQUESTS,
  randomEvents,
} from '../fixtures/analytics/scan-comparison.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const ROWS = SCAN_OPEN_ROWS_MAX + 100
const MIB = 1024 ** 2
const VALUES: readonly ValueRequest[] = [
  { kind: 'event_property', key: 'amount' },
  { kind: 'event_property', key: '$current_url' },
  { kind: 'event_property', key: 'list' },
  { kind: 'event_property', key: 'price' },
  { kind: 'event_name' },
]

/** Queries that read all columns. */
const FEW = REQUESTS.filter(([name]) =>
  ['everything', 'a tree', 'values', 'many numbers'].includes(name),
)

/** A store with some large segments. */
function store(t: Test, segments: number): PersonLog {
  const log = new PersonLog(t, t.testdir())
  for (let commit = 0; commit < segments; commit++) {
    log.send(1, randomEvents(ROWS, commit + 1))
    log.process()
  }
  return log
}

/** Two readers that share memory for columns. */
function openTwo(t: Test, { dataDir }: PersonLog, bytesMax: number) {
  const readers = blockShares(bytesMax, 2).map(
    (scanCache) => new EventReader({ dataDir, scanCache }),
  )
  t.teardown(async () => {
    for (const reader of readers) await reader.close()
  })
  const [first, second] = readers
  if (first === undefined || second === undefined) throw new Error('two readers')
  return { first, second }
}

const bytesOf = ({ scans }: EventReader): number => scans?.cachedBytes ?? 0

/** Returns the full result of a scan of everything, as text. */
function everything(reader: EventReader, request: Partial<EventScanRequest> = {}): string {
  const found = reader.scanner(NO_LIMITS).scan({ ...BASE, values: VALUES, ...request })
  const values = found.values.map(({ ids, values: texts }) => Array.from(ids, (id) => texts[id]))
  return JSON.stringify([found.timesMs, found.persons, found.sequences, values], (_, value) =>
    ArrayBuffer.isView(value) ? [...(value as Float64Array)] : (value as unknown),
  )
}

t.test('a second reader finds the columns of the first, and the same events', async (t) => {
  const log = store(t, 1)
  const { first, second } = openTwo(t, log, 16 * MIB)
  compare(t, first, new Map(), REQUESTS)
  const read = bytesOf(first)
  t.ok(read > ROWS * 20, 'there are shared columns')
  compare(t, second, new Map(), REQUESTS)
  const again = bytesOf(first)
  t.ok(again - read < read / 10, 'each column is there once')
  const [gone] = log.reader
    .persons()
    .list({ projectId: 1, limit: 1, offset: 0, nowMs: BASE.nowMs * 2 }).results
  log.run(1, { kind: 'delete_person', person: gone?.id ?? 0, deletesEvents: true })
  log.process()
  log.process()
  const last = Math.max(...log.reader.scanner(NO_LIMITS).scan(BASE).sequences)
  const deleted = new Map(gone?.distinct_ids.map((id) => [id, last]))
  for (const reader of [second, first]) compare(t, reader, deleted, FEW)
})

t.test('distinct_ids are read in place by readers that only look at them', async (t) => {
  const { first, second } = openTwo(t, store(t, 2), 16 * MIB)
  const differences = new Differences()
  for (const names of [null, ['buy', 'signup'], ['rare'], ['none']]) {
    const named = `events named ${names?.join() ?? 'anything'}`
    const request = { ...BASE, series: [{ names, filter: null, steps: [] }] }
    const expected = [...first.scanner(NO_LIMITS).scan(request).persons].sort()
    for (const reader of [first, second]) {
      const scanner = reader.scanner(NO_LIMITS)
      const { words } = scanner.owners(1)
      const found: number[] = []
      const asked = {
        ...request,
        order: 'any',
        areIds: true,
        looksAt: () => 'persons' as const,
      } as const
      scanner.scanChunks(asked, ({ count, persons }) => {
        differences.equal(count, persons.length, `${named}: the number of rows is right`)
        for (const id of persons) found.push((words[id] ?? 0) & OWNER_BITS)
      })
      differences.same(found.sort(), expected, named)
    }
  }
  t.strictSame(differences.list(), [], 'the same persons own the events')
})

t.test("readers that evict each other's columns find the same as alone", async (t) => {
  const log = store(t, 4)
  const wide = new EventReader({ dataDir: log.dataDir, scanCache: 16 * MIB })
  t.teardown(() => wide.close())
  const all = everything(wide)
  const columns = bytesOf(wide)
  const differences = new Differences()
  for (const share of [0.1, 0.4, 0.8]) {
    const bytesMax = Math.floor(columns * share)
    const { first, second } = openTwo(t, log, bytesMax)
    for (let round = 0; round < 3; round++) {
      for (const reader of [first, second]) {
        differences.equal(everything(reader), all, `the results are equal with ${bytesMax} bytes`)
        reader.scans?.rest()
        for (const filter of [
          { key: 'lib', value: 'web' },
          { key: 'amount', value: '3' },
        ]) {
          const request = { filter: { type: 'AND', values: [filter] } } as const
          const expected = everything(wide, request)
          const name = `${filter.key} in ${bytesMax} bytes`
          differences.equal(everything(reader, request), expected, name)
        }
      }
      differences.ok(bytesOf(first) <= bytesMax, `${bytesMax} bytes are not exceeded`)
    }
  }
  t.strictSame(differences.list(), [], 'the same events within the memory')
})

t.test('columns in use stay unchanged while others fill the memory', async (t) => {
  const log = store(t, 3)
  const { first, second } = openTwo(t, log, 200_000)
  const shown = { ...BASE, order: 'any', areIds: true, looksAt: () => 'persons' as const } as const
  let chunks = 0
  const differences = new Differences()
  first.scanner(NO_LIMITS).scanChunks(shown, ({ persons }) => {
    const before = [...persons]
    for (const key of ['amount', 'lib', '$current_url', 'list', 'price']) {
      everything(second, { values: [{ kind: 'event_property', key }] })
      second.scans?.rest()
    }
    differences.same([...persons], before, `chunk ${chunks}`)
    chunks++
  })
  t.strictSame(differences.list(), [], 'no chunk changes')
  t.ok(chunks > 2)
  t.equal(everything(first), everything(second))
})
