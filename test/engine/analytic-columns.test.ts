/**
 * Tests the memory for decoded columns that analytics threads share: a thread that has answered holds no memory.
 *
 * @lane quick
 */
import t from 'tap'
import { blockShares, SharedBlocks } from '../../src/base/shared-blocks.ts'
import { LongReads } from '../../src/engine/threads/long-reads.ts'
import { SCAN_OPEN_ROWS_MAX } from '../../src/store/events/limits.ts'
import { randomEvents, START_MS } from '../fixtures/analytics/scan-comparison.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'

const VISITORS = {
  kind: 'TrendsQuery',
  series: [{ kind: 'EventsNode', event: 'buy', math: 'dau' }],
  dateRange: { date_from: '2024-01-10', date_to: '2024-01-20' },
}

t.test('columns of a query can be evicted once it is answered', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, randomEvents(SCAN_OPEN_ROWS_MAX + 100, 1))
  log.process()
  const [of, other] = blockShares(2_000_000, 2)
  if (of === undefined || other === undefined) throw new Error('two shares')
  const threads = new LongReads({
    kind: 'analytics',
    threads: threadSettings(log.dataDir),
    threadCount: 1,
    analytics: [{ queryMsMax: 30_000, cache: of }],
    onDeath: () => undefined,
  })
  t.teardown(() => threads.close())
  const ask = (query: object): Promise<unknown> => {
    const rest = { timezone: 'UTC', nowMs: START_MS, testAccountFilters: [], format: 'json' }
    const values = [{ projectId: 1, query, ...rest }, false]
    return threads.run({ call: 'query', values }, 0, () => undefined)
  }
  const others = new SharedBlocks(other.shared, 1)
  t.match(await ask(VISITORS), { kind: 'answer' })
  t.ok(others.usedBytes > 0, 'its columns are there')
  others.begin()
  const differences = new Differences()
  for (let unit = 0; unit < other.shared.unitCount; unit++) {
    const name = Uint32Array.of(unit, 0, 0, 0)
    differences.ok(others.put(name, [new Uint8Array(1)]), `block ${unit} has room`)
  }
  t.strictSame(differences.list(), [], 'there is room for every block')
  others.end()
})
