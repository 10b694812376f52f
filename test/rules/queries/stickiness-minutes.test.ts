/**
 * Tests stickiness by the minute with criteria, for more actors and intervals than the bit set can hold at a time.
 *
 * @lane quick
 */
import t from 'tap'
import { planQuery } from '../../../src/rules/queries/kinds.ts'
import type { QueryContext } from '../../../src/rules/queries/query-kind.ts'
import { MemoryScanner } from '../../fixtures/analytics/memory-scanner.ts'
import { memoryShard } from '../../fixtures/queries/memory-shard.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const CONTEXT: QueryContext = {
  projectId: 1,
  timezone: 'UTC',
  nowMs: 0,
  testAccountFilters: [],
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => null,
}
const PERSONS = 4000
const MINUTE_MS = 60_000
const FROM_MS = Date.UTC(2023, 0, 1)

/** Person n has two events in each of n % 4 minutes, and one event in another minute. */
const scanner = new MemoryScanner({
  persons: Array.from({ length: PERSONS }, (_, index) => ({
    number: index + 1,
    uuid: `u${index}`,
    createdMs: 0,
    properties: {},
    distinctIds: [`d${index}`],
  })),
  events: Array.from({ length: PERSONS }, (_, index) =>
    Array.from({ length: (index % 4) * 2 + 1 }, (__, number) => ({
      timeMs: FROM_MS + (index + Math.floor(number / 2) * 1000) * MINUTE_MS,
      name: 'view',
      distinctId: `d${index}`,
      properties: {},
    })),
  ).flat(),
})

t.test('each event is read once, however many intervals there are', async (t) => {
  const shard = memoryShard(scanner, CONTEXT)
  const ask = (stickinessCriteria: Json | null) => {
    const query = {
      kind: 'StickinessQuery',
      series: [{ event: 'view' }],
      interval: 'minute',
      dateRange: { date_from: '2023-01-01', date_to: '2023-01-16T23:59:00Z' },
      stickinessFilter: { stickinessCriteria },
    }
    const { kind, plan } = planQuery(query, CONTEXT)
    const before = scanner.limitChecks
    const part: unknown = kind.partial(plan, shard)
    t.ok(scanner.limitChecks - before <= 3, 'events are not read again for each part of the actors')
    const [item] = kind.page(plan, part, shard).results as readonly { readonly data: number[] }[]
    return item?.data.slice(0, 5)
  }
  const quarter = PERSONS / 4
  t.strictSame(ask({ operator: 'gte', value: 2 }), [quarter, quarter, quarter, 0, 0])
  t.strictSame(ask({ operator: 'exact', value: 1 }), [PERSONS, 0, 0, 0, 0])
  t.strictSame(ask({ operator: 'lte', value: 2 }), [quarter, quarter, quarter, quarter, 0])
  t.strictSame(ask(null), [quarter, quarter, quarter, quarter, 0])
})
