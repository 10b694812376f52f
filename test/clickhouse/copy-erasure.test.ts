/**
 * Tests the erasure of copies: in ClickHouse, too, an erasure job erases exactly the events that it covers.
 *
 * @lane cluster
 */
import t from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { CopyErasure, conditionsOf } from '../../src/clickhouse/copy-erasure.ts'
import type { ErasureCriteria } from '../../src/rules/events/erasure.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { expected, openSink, rowsOf, seen, sendAll } from '../fixtures/clickhouse/copies.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { uuidOf } from '../fixtures/stored-events.ts'

t.setTimeout(300_000)

const NO_CRITERIA: ErasureCriteria = {
  event: null,
  afterMs: null,
  beforeMs: null,
  distinctId: null,
  personId: null,
}
const DAY_MS = 86_400_000
const FIRST_MS = Date.UTC(2023, 9, 1)
const ARRIVED_MS = Date.UTC(2024, 0, 15, 12)

/** Events of four months, three names and four people. */
function events(): readonly Readonly<Record<string, unknown>>[] {
  return Array.from({ length: 400 }, (_, index) => ({
    uuid: formatUuid(uuidOf(index), 0),
    event: ['even', "odd's", 'back\\slash'][index % 3],
    distinct_id: ['ann', 'bob', 'cy', 'di'][index % 4],
    timestamp: new Date(FIRST_MS + (index * DAY_MS) / 4).toISOString(),
    properties: { secret: `text of ${index}` },
  }))
}

t.test('an erasure job becomes a condition', async (t) => {
  const rule = (event: string | null, afterMs: number | null, beforeMs: number | null) => ({
    event,
    afterMs,
    beforeMs,
  })
  const target = { ids: null, rules: [], oldestThrough: 0, through: 9 }
  t.strictSame(conditionsOf(1, target), ['project = 1 AND sequence <= 9 AND (sequence <= 0 OR 0)'])
  const ids = Array.from({ length: 10_001 }, (_, index) => [index + 1, 0, 5] as const)
  const parts = conditionsOf(1, {
    ...target,
    ids: [...ids, [7, 2, 9]],
    rules: [rule(null, 3, null)],
  })
  t.equal(parts.length, 3)
  t.match(
    parts[1],
    /time_ms >= 3\)\)\) AND distinct_number IN \(10001\) AND sequence > 0 AND sequence <= 5$/,
  )
  t.match(parts[2], /IN \(7\) AND sequence > 2 AND sequence <= 9$/)
})

t.test('copies of erased events are erased', { skip: isClickHouseMissing }, async (t) => {
  const server = await ClickHouseServer.start(t, t.testdir({}))
  const cases: readonly (readonly [
    string,
    Partial<ErasureCriteria>,
    isAlone: boolean,
    left: number,
  ])[] = [
    ['by name', { event: "odd's" }, true, 267],
    ['by another name', { event: 'back\\slash' }, true, 267],
    ['before a moment', { beforeMs: Date.UTC(2023, 10, 20) }, true, 200],
    ['before a moment, beside others', { beforeMs: Date.UTC(2023, 10, 20) }, false, 200],
    ['a month', { afterMs: Date.UTC(2023, 10, 1), beforeMs: Date.UTC(2023, 11, 1) }, true, 280],
    ['by distinct_id', { distinctId: 'bob' }, true, 300],
    [
      'all conditions',
      { event: 'even', distinctId: 'ann', afterMs: FIRST_MS + 50 * DAY_MS },
      true,
      383,
    ],
    ['everything', { beforeMs: Date.UTC(2030, 0, 1) }, true, 0],
  ]
  for (const [name, criteria, isAlone, left] of cases) {
    await t.test(name, async (t) => {
      const log = new PersonLog(t, t.testdir({}))
      log.send(1, events(), ARRIVED_MS)
      log.send(2, events().slice(0, name === 'everything' ? 400 : 40), ARRIVED_MS)
      log.process()
      const copying = openSink(t, log.dataDir, server)
      await sendAll(copying)
      const others = expected(t, log.dataDir, 2)
      const order = { kind: 'erase_events', criteria: { ...NO_CRITERIA, ...criteria } } as const
      const result = log.run(1, order)
      if (result.kind !== 'done' || result.erasure === undefined) throw new Error(result.kind)
      const job = { projectId: 1, number: result.erasure.id }
      const target = copying.segments.erasure(1, job.number)
      log.process()
      // The same events arrive again after the erasure, and stay.
      log.send(1, events().slice(0, 3), ARRIVED_MS + 1000)
      log.process()
      await sendAll(copying)
      const { clickhouse } = copying
      const store = { erasure: () => target }
      const erasure = new CopyErasure({ clickhouse, database: 'events', store, isAlone })
      while (!(await erasure.step(job))) await new Promise((resolve) => setTimeout(resolve, 20))
      const rows = await rowsOf(server)
      const own = rows.filter(({ project }) => project === 1)
      t.strictSame(own.map(seen), expected(t, log.dataDir))
      t.equal(own.filter(({ sequence }) => Number(sequence) <= 400).length, left)
      t.strictSame(rows.filter(({ project }) => project === 2).map(seen), others)
      await server.ask('DROP TABLE events.tenrec_events')
    })
  }
})
