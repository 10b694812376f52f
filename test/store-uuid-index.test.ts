/** The uuid index: what was added is found, through flushes, merges and reopening. */
import t from 'tap'
import { Environment } from '../src/store/environment.ts'
import { UuidFilter } from '../src/store/uuid-filter.ts'
import { UuidFingerprint } from '../src/store/uuid-fingerprint.ts'
import { findHighInRun, UuidIndex } from '../src/store/uuid-index.ts'
import { loadChunkRuns, loadRuns, RunCursor } from '../src/store/uuid-run.ts'
import { UuidTable } from '../src/store/uuid-table.ts'
import { randomNumbers, uuidOf } from './fixtures/stored-events.ts'

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

t.test('a filter has everything that was added and little else', async (t) => {
  const all = fingerprints(40_000, 2)
  const filter = UuidFilter.forEntries(20_000)
  for (const [high, low] of all.slice(0, 20_000)) filter.add(high, low)
  t.ok(all.slice(0, 20_000).every(([high, low]) => filter.mayHave(high, low)))
  const wrong = all.slice(20_000).filter(([high, low]) => filter.mayHave(high, low)).length
  t.ok(wrong < 300, `${wrong} of 20000 unknown ones are taken for known`)
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
  const environment = new Environment({
    dataDir: t.testdir(),
    name: 'events',
    tables: ['uuid_runs', 'uuid_chunks'],
  })
  t.teardown(() => environment.close())
  const tables = {
    runs: environment.table('uuid_runs'),
    chunks: environment.table('uuid_chunks'),
  }
  const options = { tableEntriesMax: 1500, runsPerMerge: 3 }
  let index = new UuidIndex(tables, options)
  const all = [...fingerprints(20_000, 3)]
  // Many events with one uuid: their high halves are equal, over several chunks.
  for (const [position, [, low]] of all.entries()) if (position % 3 === 0) all[position] = [5, low]
  let merges = 0
  for (const [position, [high, low]] of all.entries()) {
    index.add(high, low, position + 1)
    if (!index.isFull) continue
    environment.write(() => index.flush())
    let slices = 0
    while (index.hasWork) {
      // A crash in the middle of a merge: the next opening begins it anew.
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
  t.ok(merges > 3, `${merges} merges`)
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
  for (const run of runs) findHighInRun(new RunCursor(tables, run), 5, 1e6, sequences)
  t.equal(sequences.length, inRuns.filter(([high]) => high === 5).length)
  const few: number[] = []
  const [run] = runs
  if (run !== undefined) findHighInRun(new RunCursor(tables, run), 5, 10, few)
  t.equal(few.length, 10)
})
