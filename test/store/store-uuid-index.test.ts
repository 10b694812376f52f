/**
 * Tests the uuid index: added uuids are found through flushes, merges and reopening.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { memoryPlan } from '../../src/config/memory-plan.ts'
import { UUID_TABLE_ENTRIES_MAX } from '../../src/store/events/limits.ts'
import { UuidFilter } from '../../src/store/events/uuid/uuid-filter.ts'
import { UuidFingerprint } from '../../src/store/events/uuid/uuid-fingerprint.ts'
import { UuidIndex } from '../../src/store/events/uuid/uuid-index.ts'
import { loadChunkRuns, loadRuns, RunCursor } from '../../src/store/events/uuid/uuid-run.ts'
import { UuidTable } from '../../src/store/events/uuid/uuid-table.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import type { DamagedRecordError } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_ENVIRONMENT } from '../../src/store/lmdb/keys.ts'
import { Differences } from '../fixtures/differences.ts'
import {
  eventInput,
  openReader,
  openWriter,
  randomNumbers,
  uuidOf,
} from '../fixtures/stored-events.ts'

/** Random fingerprints, as signed halves. */
function fingerprints(count: number, seed: number): readonly (readonly [number, number])[] {
  const random = randomNumbers(seed)
  const half = (): number => Math.floor(random() * 2 ** 32) | 0
  return Array.from({ length: count }, () => [half(), half()] as const)
}

t.test('a table finds every entry, equal ones too, and grows', async (t) => {
  const table = new UuidTable()
  const all = fingerprints(20_000, 1)
  for (const [index, [high, low]] of all.entries()) table.add(high, low, index + 1)
  table.add(all[7]?.[0] ?? 0, all[7]?.[1] ?? 0, 99_999)
  const found: number[] = []
  let wrong = 0
  for (const [index, [high, low]] of all.entries()) {
    found.length = 0
    table.find(high, low, found)
    if (!found.includes(index + 1)) wrong++
  }
  t.equal(wrong, 0)
  found.length = 0
  table.find(all[7]?.[0] ?? 0, all[7]?.[1] ?? 0, found)
  t.strictSame(found, [8, 99_999])
  found.length = 0
  table.find(1, 2, found)
  t.strictSame(found, [])
  t.equal(table.count, 20_001)
  let previous = -1
  let visited = 0
  table.visitSorted((high, low) => {
    const position = high * 2 ** 20 + low / 2 ** 12
    if (position < previous) wrong++
    previous = position
    visited++
  })
  t.strictSame([wrong, visited], [0, 20_001])
})

t.test('a table is sorted, however many events share a uuid', async (t) => {
  const table = new UuidTable()
  const all = fingerprints(5000, 3).map(([high, low], index): [number, number] => [
    index % 3 === 0 ? 0x7fff_0000 | (index % 7) : index % 5 === 0 ? -1 : high,
    low,
  ])
  for (const [index, [high, low]] of all.entries()) table.add(high, low, index + 1)
  const wanted = all
    .map(([high, low], index) => [high >>> 0, low >>> 0, index + 1])
    .sort(([a = 0, b = 0], [c = 0, d = 0]) => a - c || b - d)
  const sorted: number[][] = []
  table.visitSorted((...entry) => sorted.push(entry))
  t.strictSame(sorted, wanted)
})

t.test('a filter contains all added entries and few others', async (t) => {
  const all = fingerprints(40_000, 2)
  const filter = UuidFilter.forEntries(20_000)
  for (const [high, low] of all.slice(0, 20_000)) filter.add(high, low)
  t.ok(all.slice(0, 20_000).every(([high, low]) => filter.mayHave(high, low)))
  const wrong = all.slice(20_000).filter(([high, low]) => filter.mayHave(high, low)).length
  t.ok(wrong < 300, `${wrong} of 20000 unknown entries are reported as present`)
  const loaded = new UuidFilter(filter.words.slice())
  t.ok(all.slice(0, 20_000).every(([high, low]) => loaded.mayHave(high, low)))
})

t.test('a fingerprint depends on all of its parts', async (t) => {
  const of = (
    project: number,
    uuid: number,
    distinctId: number,
    name: string,
    seed = 1,
  ): string => {
    const fingerprint = new UuidFingerprint(seed)
    const hash = fingerprint.hashName(name)
    fingerprint.compute(project, uuidOf(uuid), 0, distinctId, hash)
    return `${fingerprint.high} ${fingerprint.low}`
  }
  const base = of(1, 1, 1, 'a')
  t.equal(of(1, 1, 1, 'a'), base)
  for (const other of [of(2, 1, 1, 'a'), of(1, 2, 1, 'a'), of(1, 1, 1, 'a', 2)]) {
    t.not(other.split(' ')[0], base.split(' ')[0])
  }
  for (const other of [of(1, 1, 2, 'a'), of(1, 1, 1, 'b')]) {
    t.equal(other.split(' ')[0], base.split(' ')[0], 'the high half finds a uuid')
    t.not(other, base)
  }
  const uuids = new Set(Array.from({ length: 50_000 }, (_, index) => of(1, index, 1, 'a')))
  t.equal(uuids.size, 50_000)
})

t.test('entries are found in runs of all levels, after merges and after reopening', async (t) => {
  const environment = openTables(t)
  const { tables } = environment
  const options = { tableEntriesMax: 1500, runsPerMerge: 3 }
  let index = new UuidIndex(tables, options)
  const all = [...fingerprints(20_000, 3)]
  // Many events with one uuid: their high halves are equal, over several chunks.
  for (const [position, [, low]] of all.entries()) if (position % 3 === 0) all[position] = [5, low]
  let merges = 0
  for (const [position, [high, low]] of all.entries()) {
    index.add(high, low, position + 1)
    if (!index.isFull) continue
    index.flush((write) => environment.write(write))
    let slices = 0
    while (index.hasWork) {
      // A crash in the middle of a merge. The next opening starts the merge again.
      if (merges === 2 && slices === 1) index = new UuidIndex(tables, options)
      environment.write(() => index.maintain(() => true))
      slices++
    }
    if (slices > 0) merges++
  }
  const inRuns = all.slice(0, all.length - index.tableEntries)
  const check = (checked: UuidIndex): number => {
    let missing = 0
    for (const [position, [high, low]] of inRuns.entries()) {
      const found: number[] = []
      checked.find(high, low, found)
      if (!found.includes(position + 1)) missing++
    }
    return missing
  }
  t.equal(check(index), 0)
  t.ok(merges > 3, `there were ${merges} merges`)
  t.equal(check(new UuidIndex(tables, options)), 0)
  const runs = loadRuns(tables)
  t.strictSame(
    loadChunkRuns(tables),
    runs.map((run) => run.number),
    'no chunk is left of what was merged',
  )
  t.equal(
    runs.reduce((sum, run) => sum + run.entries, 0),
    inRuns.length,
  )
  const sequences: number[] = []
  for (const run of runs) new RunCursor(tables, run).collect(5, null, sequences, 1e6)
  t.equal(sequences.length, inRuns.filter(([high]) => high === 5).length)
  const few: number[] = []
  const [run] = runs
  if (run !== undefined) new RunCursor(tables, run).collect(5, null, few, 10)
  t.equal(few.length, 10)
})

/** The largest usual commit: four thirds of 49,152 events (engine/processor/log-processor.ts). */
const COMMIT_EVENTS = 65_536

function openTables(t: Test): Environment<'uuid_runs' | 'uuid_chunks'> {
  const environment = new Environment({
    dataDir: t.testdir(),
    name: 'events',
    tables: ['uuid_runs', 'uuid_chunks'],
  })
  t.teardown(() => environment.close())
  return environment
}

/** Adds entries with different fingerprints. */
function addMany(index: UuidIndex, count: number): void {
  for (let number = 1; number <= count; number++) {
    index.add(Math.imul(number, 0x9e37_79b1), Math.imul(number, 0x85eb_ca6b), number)
  }
}

t.test('the commit that fills the table does not double it', async (t) => {
  const budgets = [640, 384].map((mib) => mib * 1024 ** 2)
  for (const memoryBytesMax of budgets) {
    const { uuidTableEntries } = memoryPlan({ memoryBytesMax, coreCount: 2 })
    const index = new UuidIndex(openTables(t).tables, { tableEntriesMax: uuidTableEntries })
    addMany(index, uuidTableEntries - 1)
    t.notOk(index.isFull)
    addMany(index, COMMIT_EVENTS)
    t.ok(index.isFull)
    const { bytes, bytesMax } = index.memory
    t.ok(bytes <= bytesMax, `${uuidTableEntries} entries: ${bytes} bytes of ${bytesMax}`)
  }
  const { uuidTableEntries } = memoryPlan({ memoryBytesMax: 640 * 1024 ** 2, coreCount: 2 })
  t.equal(uuidTableEntries, UUID_TABLE_ENTRIES_MAX)
})

t.test('a table that a large commit has enlarged is smaller after it was written', async (t) => {
  const environment = openTables(t)
  const index = new UuidIndex(environment.tables, { tableEntriesMax: 5000 })
  addMany(index, 50_000)
  t.ok(index.memory.bytes > index.memory.bytesMax)
  index.flush((write) => environment.write(write))
  t.ok(index.memory.bytes <= index.memory.bytesMax)
  addMany(index, 4999)
  t.ok(index.memory.bytes <= index.memory.bytesMax)
  const found: number[] = []
  index.find(Math.imul(4999, 0x9e37_79b1), Math.imul(4999, 0x85eb_ca6b), found)
  t.strictSame(found, [4999, 4999], 'in the table and in the run')
})

/** Changes one byte in the middle of the records of a table, and returns their number. */
async function damage(dataDir: string, table: string, isMeant: (key: Buffer) => boolean) {
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: [table] })
  const records = environment.table(table)
  const keys = [...records.getKeys({})].map((key) => Buffer.from(key)).filter(isMeant)
  environment.write(() => {
    for (const key of keys) {
      const value = Buffer.from(records.get(key) ?? [])
      const middle = value.length >> 1
      value[middle] = (value[middle] ?? 0) ^ 1
      records.putSync(key, value)
    }
  })
  await environment.close()
  return keys.length
}

/** A store with all of its events in four runs of the index. */
async function storeWithRuns(t: Test): Promise<string> {
  const dataDir = t.testdir()
  const writer = new ProcessingWriter({ dataDir, tableEntriesMax: 50 })
  for (let number = 0; number < 200; number++) {
    writer.add(eventInput({ uuid: uuidOf(number) }))
    if (number % 50 !== 49) continue
    writer.commit(number)
    writer.warehouse.writeIndex?.()
  }
  await writer.close()
  return dataDir
}

const KIND_ENTRIES = 0
const KIND_FILTER = 1

t.test('with a damaged index, no duplicate is stored, and no event unchecked', async (t) => {
  const dataDir = await storeWithRuns(t)
  t.ok((await damage(dataDir, 'uuid_chunks', (key) => key[4] === KIND_ENTRIES)) > 0)
  const writer = openWriter(t, dataDir, { runsPerMerge: 100 })
  t.throws(() => writer.add(eventInput({ uuid: uuidOf(7) })), {
    name: 'DamagedRecordError',
    table: 'uuid_chunks',
  })
  t.equal(writer.warehouse.lastSequence(1), 200)
  const reader = openReader(t, dataDir)
  t.throws(() => reader.getEvent(1, formatUuid(uuidOf(7), 0)), {
    name: 'DamagedRecordError',
    table: 'uuid_chunks',
  })
})

t.test('a damaged filter of the index is rebuilt from its entries', async (t) => {
  const dataDir = await storeWithRuns(t)
  t.ok((await damage(dataDir, 'uuid_chunks', (key) => key[4] === KIND_FILTER)) > 0)
  const reported: DamagedRecordError[] = []
  const writer = openWriter(t, dataDir, { onDamage: (error) => reported.push(error) })
  t.equal(reported.length, 4)
  const differences = new Differences()
  for (let number = 0; number < 200; number++) {
    const isAdded = writer.add(eventInput({ uuid: uuidOf(number) }))
    differences.equal(isAdded, false, `event ${number} is added`)
  }
  t.strictSame(differences.list(), [], 'every event is a duplicate')
  t.equal(writer.add(eventInput({ uuid: uuidOf(1000) })), true)
})

t.test('runs with damage stay unchanged, and others are merged', async (t) => {
  const dataDir = await storeWithRuns(t)
  const isFirst = (key: Buffer): boolean => key.readUInt32BE() === 1 && key[4] === KIND_ENTRIES
  t.equal(await damage(dataDir, 'uuid_chunks', isFirst), 1)
  const reported: DamagedRecordError[] = []
  const onDamage = (error: DamagedRecordError): void => void reported.push(error)
  const writer = openWriter(t, dataDir, { runsPerMerge: 2, tableEntriesMax: 50, onDamage })
  for (let round = 0; round < 20; round++) writer.warehouse.maintain(20)
  t.equal(writer.warehouse.maintain(20), false, 'merging comes to an end')
  t.equal(reported.length, 1)
  t.equal(openReader(t, dataDir).statistics().uuidRunEntries, 200)
  t.equal(writer.add(eventInput({ uuid: uuidOf(199) })), false)
})
