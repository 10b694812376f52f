/**
 * Trends and filters that would take too long, or give more than fits: refused before they are computed.
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
  ...{ projectId: 1, timezone: 'UTC', nowMs: 0, testAccountFilters: [] },
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => null,
}

/** The page of a query about no events at all. */
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

t.test('lines of more numbers than an answer can hold are not made', async (t) => {
  t.throws(() => pageOf({ series: series(26), ...minutes(120) }), { code: 'query_too_large' })
  const formulas = Array.from({ length: 26 }, () => 'A')
  t.throws(() => pageOf({ series: series(1), ...minutes(120), trendsFilter: { formulas } }), {
    code: 'query_too_large',
  })
  t.match(pageOf({ series: series(26), ...minutes(2) }).results, { length: 26 })
  t.match(pageOf({ series: series(1), ...minutes(120), trendsFilter: { formula: 'A' } }).results, {
    length: 1,
  })
})

t.test('lists of texts that are looked for end somewhere', async (t) => {
  const filters = (counts: readonly number[], operator: string) => ({
    series: series(1),
    properties: counts.map((count) => ({
      ...{ key: 'k', type: 'event', operator },
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
