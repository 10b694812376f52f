/**
 * Tests that threads report their memory, and that idle threads are ended and started again.
 *
 * @lane quick
 */
import t from 'tap'
import { memoryBoard, readBoard, shortageCount } from '../../src/base/memory/memory-board.ts'
import { blockShares, usedBlockBytes } from '../../src/base/shared-blocks.ts'
import { memoryPlan } from '../../src/config/memory-plan.ts'
import { LongReads } from '../../src/engine/threads/long-reads.ts'
import type { QueryOutcome } from '../../src/engine/threads/queries/query-tasks.ts'
import type { ThreadDeath } from '../../src/engine/threads/thread-group.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'

const START_MS = Date.UTC(2024, 0, 10)
const DAY_MS = 86_400_000

t.test('ended threads release all memory, and the next query starts new ones', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const timestamp = new Date(START_MS).toISOString()
  for (let request = 0; request < 6; request++) {
    log.send(
      1,
      Array.from({ length: 500 }, (_, index) => {
        const distinct_id = `person ${index}`
        return { event: 'buy', distinct_id, timestamp, properties: { shop: `${index % 7}` } }
      }),
    )
  }
  log.process()
  const deaths: ThreadDeath[] = []
  const shares = () => blockShares(4_000_000, 2).map((cache) => ({ queryMsMax: 30_000, cache }))
  const first = shares()
  const plan = memoryPlan({ memoryBytesMax: 400_000_000, coreCount: 2 })
  const threads = new LongReads({
    kind: 'analytics',
    threads: { ...threadSettings(log.dataDir), plan },
    analytics: first,
    threadCount: 2,
    onDeath: (death) => deaths.push(death),
  })
  t.teardown(() => threads.close())
  const query = {
    kind: 'TrendsQuery',
    series: [{ event: 'buy', math: 'total' }],
    breakdownFilter: { breakdown: 'shop' },
    dateRange: { date_from: '2024-01-01', date_to: '2024-01-20' },
  }
  const facts = {
    projectId: 1,
    timezone: 'UTC',
    nowMs: START_MS + DAY_MS,
    testAccountFilters: [],
  }
  const ask = async (): Promise<string> => {
    const values = [{ ...facts, query, format: 'json' }, false]
    const outcome = (await threads.run({ call: 'query', values }, 0, () => {})) as QueryOutcome
    return outcome.kind === 'answer' ? Buffer.from(outcome.text).toString() : outcome.kind
  }
  t.strictSame(threads.memory, [], 'none has started')
  t.equal(threads.idleMs, 0)
  const answer = await ask()
  const [memory] = threads.memory
  t.match(memory, { number: 1 })
  t.ok((memory?.heapUsedBytes ?? 0) > 0)
  t.ok((memory?.heapBytesMax ?? 0) >= plan.heapMib.analytics * 1024 ** 2)
  t.ok(threads.idleMs > 0)
  t.ok(usedBlockBytes(first[0]?.cache.shared as never) > 0, 'its columns are in shared memory')
  const second = shares()
  await threads.end(second)
  t.strictSame(threads.memory, [])
  t.equal(await ask(), answer)
  t.ok(
    usedBlockBytes(second[0]?.cache.shared as never) > 0,
    'the next threads have their own columns',
  )
  t.strictSame(deaths, [], 'no thread was lost')
})

t.test('the slot of an ended thread is free', async (t) => {
  const board = memoryBoard(2, shortageCount())
  board.owners.set([7, 8])
  t.strictSame(
    readBoard(board, new Set([7, 8])).map(({ number }) => number),
    [1, 2],
  )
  t.strictSame(
    readBoard(board, new Set([8])).map(({ number }) => number),
    [2],
  )
  t.strictSame([...board.owners], [0, 8])
})
