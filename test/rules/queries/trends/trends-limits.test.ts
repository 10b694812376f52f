/**
 * Tests that trends and filters which would take too long or return too much are refused before they are computed.
 *
 * @lane quick
 */
import t from 'tap'
import { planQuery } from '../../../../src/rules/queries/kinds.ts'
import { QUERY_PATTERNS_MAX } from '../../../../src/rules/queries/limits.ts'
import type { QueryContext } from '../../../../src/rules/queries/query-kind.ts'
import { MemoryScanner } from '../../../fixtures/analytics/memory-scanner.ts'
import { memoryShard } from '../../../fixtures/queries/memory-shard.ts'
import type { Json } from '../../../fixtures/queries/query-cases.ts'

const CONTEXT: QueryContext = {
  projectId: 1,
  timezone: 'UTC',
  nowMs: 0,
  testAccountFilters: [],
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => null,
}

/** The page of a query that matches no events. */
function pageOf(query: Json) {
  const { kind, plan } = planQuery({ kind: 'TrendsQuery', ...query }, CONTEXT)
  const shard = memoryShard(new MemoryScanner({ events: [], persons: [] }), CONTEXT)
  return kind.page(plan, kind.merge(plan, [kind.partial(plan, shard)], shard.scanner), shard)
}

const series = (count: number) => Array.from({ length: count }, () => ({ event: 'view' }))
const minutes = (days: number) => ({
  interval: 'minute',
  dateRange: { date_from: '2023-01-01', date_to: new Date(Date.UTC(2023, 0, days)).toISOString() },
})

t.test('charts with too many points to be readable are refused', async (t) => {
  const tooLarge = { code: 'query_too_large', attr: 'interval', message: /longer interval/ }
  const formulas = Array.from({ length: 26 }, () => 'A')
  t.throws(
    () => pageOf({ series: series(1), ...minutes(20) }),
    tooLarge,
    'the points of one series count',
  )
  t.throws(
    () => pageOf({ series: series(26), ...minutes(10) }),
    tooLarge,
    'the points of all series count',
  )
  t.throws(
    () => pageOf({ series: series(1), ...minutes(10), trendsFilter: { formulas } }),
    tooLarge,
    'the points of all formulas count',
  )
  t.match(pageOf({ series: series(26), ...minutes(2) }).results, { length: 26 })
  t.match(pageOf({ series: series(1), ...minutes(18), trendsFilter: { formula: 'A' } }).results, {
    length: 1,
  })
  const days = (years: number) => ({
    dateRange: { date_from: `${2038 - years}-01-01`, date_to: '2037-12-31' },
  })
  t.match(
    pageOf({ series: series(1), ...days(68) }).results,
    { length: 1 },
    'the range is every day since 1970',
  )
  t.throws(() => pageOf({ series: series(1), ...days(69) }), tooLarge)
})

t.test('lists of search texts are limited', async (t) => {
  const filters = (counts: readonly number[], operator: string) => ({
    series: series(1),
    properties: counts.map((count) => ({
      key: 'k',
      type: 'event',
      operator,
      value: Array.from({ length: count }, (_, index) => `v${index}`),
    })),
  })
  for (const operator of ['icontains', 'not_icontains', 'regex', 'not_regex']) {
    t.throws(
      () => pageOf(filters([1, QUERY_PATTERNS_MAX], operator)),
      { code: 'invalid_query', attr: 'properties.1.value' },
      operator,
    )
  }
  t.ok(pageOf(filters([QUERY_PATTERNS_MAX], 'icontains')))
  t.ok(pageOf(filters([QUERY_PATTERNS_MAX + 1], 'exact')))
})
