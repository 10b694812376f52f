/**
 * Tests that a value in many rows is stored once, also when the merged segments have mostly unique other values. A few
 * bytes from a client must not become many bytes that every merge and every query reads.
 *
 * @lane all
 */
import t from 'tap'
import { ColumnBuilder } from '../../src/store/events/format/column-builder.ts'
import { SegmentTables } from '../../src/store/events/format/segment-tables.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'

const SHORT_VALUES = 200
const BODIES = 24
const ROWS_PER_BODY = 39
const LONG_BYTES = 100_000

function sent(p: unknown): SentEvent {
  const timestamp = '2024-01-10T00:00:00Z'
  return { event: 'seen', distinct_id: 'u', timestamp, properties: { p } }
}

/** Unique values in two commits, and then one long value in all rows of each commit. */
function fill(log: PersonLog, longValue: (body: number) => unknown): readonly unknown[] {
  const values: unknown[] = []
  const commit = (some: readonly unknown[]): void => {
    log.send(1, some.map(sent))
    log.process()
    values.push(...some)
  }
  for (const half of ['a', 'b']) {
    commit(Array.from({ length: SHORT_VALUES }, (_, index) => `short ${half}${index}`))
  }
  for (let body = 0; body < BODIES; body++) commit(Array(ROWS_PER_BODY).fill(longValue(body)))
  return values
}

/** Returns the bytes of the values of all segments, as queries decode them, and the number of segments. */
async function stored(dataDir: string): Promise<{ valueBytes: number; segments: number }> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const tables = new SegmentTables(environment.tables)
  const summaries = [...tables.summaries(1, 1, Number.MAX_SAFE_INTEGER, () => undefined)]
  const views = summaries.map(({ firstSequence }) => tables.segmentAt(1, firstSequence))
  const valueBytes = views.reduce((sum, view) => sum + view.valueBytes, 0)
  await environment.close()
  return { valueBytes, segments: views.length }
}

const KINDS = {
  texts: (body: number) => `${body}`.padEnd(LONG_BYTES, 'x'),
  objects: (body: number) => ({ body, text: 'x'.repeat(LONG_BYTES) }),
  lists: (body: number) => [body, 'x'.repeat(LONG_BYTES)],
}

for (const [kind, longValue] of Object.entries(KINDS)) {
  t.test(`merged segments hold each of the long ${kind} once`, async (t) => {
    const log = new PersonLog(t, t.testdir())
    const values = fill(log, longValue)
    const { valueBytes, segments } = await stored(log.dataDir)
    t.ok(segments < BODIES / 2, 'segments were merged')
    t.ok(valueBytes < 2 * BODIES * LONG_BYTES, `${valueBytes} bytes for ${BODIES} long values`)
    const { results } = log.reader.listEvents({ projectId: 1, limit: 10_000 })
    const found = results.toSorted((a, b) => a.id - b.id).map(({ properties }) => properties['p'])
    t.strictSame(found, values, 'every event has its value')
  })
}

t.test('a list of unique values becomes a dictionary again, with the same values', async (t) => {
  const column = new ColumnBuilder('p', 4096)
  const values: unknown[] = []
  const put = (value: unknown): void => {
    column.put(values.length, value)
    values.push(value)
  }
  for (let index = 0; index < 300; index++) put(index % 3 === 0 ? { index } : `text ${index}`)
  t.ok(column.isPlain, 'the column became a list')
  column.makeDictionary(values.length)
  for (let index = 0; index < 300; index++) put(`text ${1 + (index % 2)}`)
  column.settle(values.length)
  t.notOk(column.isPlain, 'it stays a dictionary')
  t.equal(column.valueCount, 300, 'a repeated value is not stored twice')
  const found = values.map((_, row) => column.values[(column.ids[row] ?? 0) - 1])
  t.strictSame(found, values)
})

t.test('mostly unique values, one of them long, do not become a list', async (t) => {
  const column = new ColumnBuilder('p', 4096)
  const long = 'x'.repeat(LONG_BYTES)
  for (let row = 0; row < 300; row++) column.put(row, row % 10 === 9 ? long : row)
  column.settle(300)
  t.notOk(column.isPlain)
})
