/**
 * Tests copying stored events: whatever fails in between, ClickHouse has exactly the events of the store, each of them
 * once.
 *
 * @lane cluster
 */
import t, { type Test } from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { WarehouseError } from '../../src/clickhouse/clickhouse.ts'
import { BATCH_ROWS_MAX } from '../../src/clickhouse/limits.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { expected, openSink, rowsOf, seen, sendAll } from '../fixtures/clickhouse/copies.ts'
import { type EventSketch, eventInput, openWriter, uuidOf } from '../fixtures/stored-events.ts'

t.setTimeout(300_000)

const NOON_MS = Date.UTC(2026, 2, 31, 12)
const MONTH_MS = 31 * 86_400_000
/** Properties with special cases in a segment: each encoding of values, and values that need escaping. */
const TEXTS = ["it's", 'a\\b', '"quoted"', 'tab\tline\n', 'ü😀', '', '\u0000', 'x'.repeat(300)]

function sketchOf(index: number): EventSketch {
  const properties: Record<string, unknown> = {
    plan: TEXTS[index % TEXTS.length],
    price: index / 8,
    large: 2 ** 53 + index * 2,
    session: formatUuid(uuidOf(index * 7), 0),
    digest: (index * 123_457).toString(16).padStart(12, '0'),
    "a key's \\ name": index % 3 === 0,
  }
  if (index % 2 === 0) properties['only some'] = { nested: [index, null, { deep: 'ä' }] }
  if (index % 5 === 0) properties['distinct_id'] = `user-${index % 50}`
  return {
    uuid: uuidOf(index),
    name: ['$pageview', "it's bought", 'signup'][index % 3] ?? '',
    distinctId: `user-${index % 50}`,
    timestampMs: NOON_MS + index * 1000,
    createdAtMs: NOON_MS + index * 1000 + 250,
    properties,
    elementsChain: index % 4 === 0 ? 'a:text="x"' : '',
    isHistorical: index % 7 === 0,
  }
}

function store(t: Test, folder: string, sketches: readonly EventSketch[], begin = 0): void {
  const writer = openWriter(t, folder)
  for (const sketch of sketches) writer.add(eventInput(sketch))
  writer.commit(begin + 1)
}

t.test('events are copied to ClickHouse', { skip: isClickHouseMissing }, async (t) => {
  const server = await ClickHouseServer.start(t, t.testdir({}))

  t.test('ClickHouse has the events of the store', async (t) => {
    const folder = t.testdir({})
    store(
      t,
      folder,
      Array.from({ length: 2500 }, (_, index) => sketchOf(index)),
    )
    const copying = openSink(t, folder, server)
    await sendAll(copying)
    t.strictSame((await rowsOf(server)).map(seen), expected(t, folder))
    t.equal(copying.sink.state().waitingEvents, 0)
    t.equal(await server.ask('SELECT sum(bitAnd(mode, 4) != 0) FROM events.tenrec_events'), '358')

    await t.test('a copy from the beginning creates no duplicates', async (t) => {
      const again = openSink(t, folder, server)
      await sendAll(again)
      t.equal(again.sink.state().rows, 2500, 'as many rows are sent again as one insert may span')
      t.equal((await rowsOf(server)).length, 2500)
    })

    await t.test('a gap left by an interrupted insert is filled', async (t) => {
      await server.ask('ALTER TABLE events.tenrec_events DELETE WHERE sequence BETWEEN 700 AND 900')
      await server.ask('ALTER TABLE events.tenrec_events DELETE WHERE sequence > 2400')
      while ((await server.ask('SELECT count() FROM events.tenrec_events')) !== '2199') {
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await sendAll(openSink(t, folder, server))
      t.strictSame((await rowsOf(server)).map(seen), expected(t, folder))
    })

    await t.test('a store with other events of the project sends nothing', async (t) => {
      const other = t.testdir({})
      store(
        t,
        other,
        Array.from({ length: 2600 }, (_, index) => sketchOf(index + 1)),
      )
      const copying = openSink(t, other, server)
      await sendAll(copying)
      t.strictSame(copying.sink.state().strangers, [1])
      const older = t.testdir({})
      store(t, older, [sketchOf(0)])
      const restored = openSink(t, older, server)
      await sendAll(restored)
      t.strictSame(restored.sink.state().strangers, [1], 'nor one of an earlier time')
      t.equal((await rowsOf(server)).length, 2500)
    })
    await server.ask('DROP TABLE events.tenrec_events')
  })

  t.test('client timestamps create a bounded number of partitions', async (t) => {
    const folder = t.testdir({})
    const sketches = Array.from({ length: 400 }, (_, index) => ({
      ...sketchOf(index),
      createdAtMs: NOON_MS,
      timestampMs: NOON_MS + (index - 300) * MONTH_MS,
    }))
    store(t, folder, sketches)
    await sendAll(openSink(t, folder, server))
    t.equal((await rowsOf(server)).length, 400)
    const months = await server.ask(
      'SELECT DISTINCT month FROM events.tenrec_events ORDER BY month',
    )
    const list = months.split('\n')
    t.equal(list.length, 27)
    t.strictSame([list[0], list[1], list.at(-1)], ['190001', '202403', '202604'])
    await server.ask('DROP TABLE events.tenrec_events')
  })

  t.test('several projects, and more events than one insert takes', async (t) => {
    const folder = t.testdir({})
    const writer = openWriter(t, folder)
    const count = BATCH_ROWS_MAX + 1000
    for (let index = 0; index < count; index++) {
      const projectId = index < 500 ? 2 : 1
      writer.add(eventInput({ projectId, uuid: uuidOf(index), properties: { index } }))
    }
    writer.commit(1)
    const copying = openSink(t, folder, server)
    await sendAll(copying)
    t.equal(copying.sink.state().inserts, 2)
    const counts = await server.ask(
      'SELECT project, count(), min(sequence), max(sequence), uniqExact(sequence) FROM events.tenrec_events GROUP BY project ORDER BY project',
    )
    const ones = String(count - 500)
    t.strictSame(counts.split('\n'), [
      ['1', ones, '1', ones, ones].join('\t'),
      ['2', '500', '1', '500', '500'].join('\t'),
    ])
    await server.ask('DROP TABLE events.tenrec_events')
  })

  t.test('a segment partly taken by an insert is sent again', async (t) => {
    const folder = t.testdir({})
    const large = Array.from({ length: 24 }, (_, index) => ({
      ...sketchOf(index),
      distinctId: `user-${index % 3}`,
      properties: { index, body: String(index).repeat(500_000) },
    }))
    store(t, folder, large)
    const copying = openSink(t, folder, server)
    await sendAll(copying)
    const before = copying.sink.state().inserts
    await server.ask('TRUNCATE TABLE events.tenrec_events')
    const segment = copying.segments.segmentOf(1, 1)
    t.equal(segment.view.summary.rows, large.length)
    await copying.sink.resend(segment)
    t.equal(copying.sink.state().inserts - before, 2)
    t.strictSame((await rowsOf(server)).map(seen), expected(t, folder))
    await server.ask('DROP TABLE events.tenrec_events')
  })

  t.test('ClickHouse is away, returns, and refuses', async (t) => {
    const folder = t.testdir({})
    store(
      t,
      folder,
      Array.from({ length: 100 }, (_, index) => sketchOf(index)),
    )
    const copying = openSink(t, folder, server)
    await server.kill()
    const away = await copying.sink.step().then(
      () => null,
      (error: unknown) => error,
    )
    t.ok(away instanceof WarehouseError && !away.isRefusal)
    t.match(String(away), /does not answer: (ECONNREFUSED|ECONNRESET|other side closed)/)
    t.notMatch(String(away), 'secret')
    const { waitingEvents, waitingSinceMs } = copying.sink.state()
    t.strictSame(
      { waitingEvents, waitingSinceMs },
      { waitingEvents: 100, waitingSinceMs: NOON_MS + 250 },
    )
    server.begin()
    while (!(await server.isListening())) await new Promise((resolve) => setTimeout(resolve, 50))
    await sendAll(copying)
    t.strictSame((await rowsOf(server)).map(seen), expected(t, folder))
    const refused = await copying.clickhouse.ask('SELECT nothing FROM nowhere').then(
      () => null,
      (error: unknown) => error,
    )
    t.ok(refused instanceof WarehouseError && refused.isRefusal)
    t.match(String(refused), /refused the request: Code: 60/)
    const late = await copying.clickhouse.ask('SELECT sleep(3)', { msMax: 200 }).then(
      () => null,
      (error: unknown) => error,
    )
    t.match(String(late), /does not answer within 200 ms/)
  })
})
