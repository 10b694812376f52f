/**
 * Tests the actors behind a number of a trend.
 *
 * @lane quick
 */
import t from 'tap'
import { QueryFields } from '../../../../src/rules/queries/query-fields.ts'
import type { QueryContext } from '../../../../src/rules/queries/query-kind.ts'
import { TRENDS_QUERY } from '../../../../src/rules/queries/trends/trends-query.ts'
import { type ShortEvent, scannerOf } from '../../../fixtures/analytics/memory-scanner.ts'
import { memoryShard } from '../../../fixtures/queries/memory-shard.ts'
import type { Json } from '../../../fixtures/queries/query-cases.ts'

const EVENTS: readonly ShortEvent[] = [
  ['a', '2023-01-02T10:00:00Z', 'view', { k: 'x', n: 1, $group_0: 'g1' }],
  ['a', '2023-01-02T11:00:00Z', 'view', { k: 'y', n: 9, $group_0: 'g2' }],
  ['b', '2023-01-03T10:00:00Z', 'view', { k: 'x/', n: 5 }],
  ['c', '2023-01-05T10:30:00Z', 'view', { n: 'none', $group_0: 'g1' }],
  ['d', '2023-01-12T10:00:00Z', 'view', { k: '', n: 4 }],
  ['d', '2023-01-12T10:00:00Z', 'buy', { k: 'x' }],
]
const CONTEXT: QueryContext = {
  projectId: 1,
  timezone: 'UTC',
  nowMs: Date.parse('2023-02-01T12:00:00Z'),
  testAccountFilters: [],
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => null,
}
const RANGE = { date_from: '2023-01-03', date_to: '2023-01-11' }

/** Names of persons, or keys of groups, with their event counts. */
function actorsOf(query: Json, pick: Json): string {
  const scanner = scannerOf(EVENTS, {}, { cohorts: new Map([[3, new Set([1, 2])]]) })
  const series = [{ event: 'view', ...(query['first'] as Json) }]
  const fields = new QueryFields({ series, dateRange: RANGE, ...query })
  const shard = memoryShard(scanner, CONTEXT)
  const plan = TRENDS_QUERY.plan(fields, CONTEXT)
  const found = TRENDS_QUERY.actors?.(plan, new QueryFields(pick), shard)
  const names = [
    ...(found?.persons ?? []).map((one) => scanner.nameOf(one)),
    ...(found?.groupKeys ?? []),
  ]
  if (pick['wantsIds'] === true) return JSON.stringify(found?.distinctIds)
  return names
    .map((name, index) => `${name}:${found?.eventCounts?.[index]}`)
    .sort()
    .join(' ')
}

const K = { breakdownFilter: { breakdown: 'k' } }
const BINS = { breakdownFilter: { breakdowns: [{ property: 'n', histogram_bin_count: 2 }] } }
const TOTAL = { trendsFilter: { display: 'BoldNumber' } }

type Row = readonly [name: string, query: Json, pick: Json, expected: string]

const ROWS: readonly Row[] = [
  ['a day', {}, { day: '2023-01-05' }, 'c:1'],
  ['a day before the range', {}, { day: '2023-01-02' }, 'a:2'],
  ['a moment of a day', {}, { day: '2023-01-02T10:30:00Z' }, 'a:1 b:1'],
  ['an hour', { interval: 'hour' }, { day: '2023-01-02 10:00:00' }, 'a:1'],
  ['a week, not cut to the range', { interval: 'week' }, { day: '2023-01-01' }, 'a:2 b:1 c:1'],
  ['a month', { interval: 'month' }, { day: '2023-01-01' }, 'a:2 b:1 c:1 d:1'],
  [
    'an explicit range cuts',
    { interval: 'week', dateRange: { ...RANGE, explicitDate: true } },
    { day: '2023-01-01' },
    'b:1 c:1',
  ],
  ['seven days', { first: { math: 'weekly_active' } }, { day: '2023-01-08' }, 'a:2 b:1 c:1'],
  ['seven days later', { first: { math: 'weekly_active' } }, { day: '2023-01-09' }, 'b:1 c:1'],
  ['thirty days', { first: { math: 'monthly_active' } }, { day: '2023-02-01' }, 'b:1 c:1 d:1'],
  [
    'seven days by the hour',
    { interval: 'hour', first: { math: 'weekly_active' } },
    { day: '2023-01-09 10:00:00' },
    'a:1 b:1 c:1',
  ],
  ['a total', TOTAL, {}, 'b:1 c:1'],
  [
    'a total of seven days',
    { ...TOTAL, first: { math: 'weekly_active' }, dateRange: { ...RANGE, date_to: '2023-01-12' } },
    {},
    'd:1',
  ],
  ['the first of each', { first: { math: 'first_time_for_user' } }, { day: '2023-01-02' }, 'a:1'],
  [
    'groups',
    { first: { math: 'unique_group', math_group_type_index: 0 } },
    { day: '2023-01-02' },
    'g1:1 g2:1',
  ],
  [
    'groups by dau',
    { first: { math: 'dau', math_group_type_index: 0 } },
    { day: '2023-01-03' },
    '',
  ],
  ['sessions are of persons', { first: { math: 'unique_session' } }, { day: '2023-01-02' }, 'a:2'],
  ['ids', {}, { day: '2023-01-02', wantsIds: true }, '[["a"]]'],
  ['ids of a value', K, { day: '2023-01-02', breakdown: 'y', wantsIds: true }, '[["a"]]'],
  [
    'ids of groups',
    { first: { math: 'unique_group', math_group_type_index: 0 } },
    { day: '2023-01-05', wantsIds: true },
    '[["c"]]',
  ],
  [
    'a series',
    { series: [{ event: 'view' }, { event: 'buy' }] },
    { day: '2023-01-12', series: 1 },
    'd:1',
  ],
  [
    'an action that does not exist',
    { series: [{ kind: 'ActionsNode', id: 7 }] },
    { day: '2023-01-12' },
    '',
  ],
  ['a value', K, { day: '2023-01-02', breakdown: 'y' }, 'a:1'],
  ['no value', K, { day: '2023-01-12', breakdown: '$$_posthog_breakdown_null_$$' }, 'd:1'],
  ['other values', K, { day: '2023-01-02', breakdown: '$$_posthog_breakdown_other_$$' }, 'a:2'],
  [
    'a value without its slash',
    { breakdownFilter: { breakdown: 'k', breakdown_normalize_url: true } },
    { day: '2023-01-03', breakdown: 'x' },
    'b:1',
  ],
  [
    'values of two properties',
    { breakdownFilter: { breakdowns: [{ property: 'k' }, { property: 'n' }] } },
    { day: '2023-01-02', breakdown: ['x', '1'] },
    'a:1',
  ],
  ['a bin', BINS, { day: '2023-01-02', breakdown: '[5,9.01]' }, 'a:1'],
  ['no bin', BINS, { day: '2023-01-05', breakdown: ['$$_posthog_breakdown_null_$$'] }, 'c:1'],
  [
    'a cohort',
    { ...TOTAL, breakdownFilter: { breakdown: [3], breakdown_type: 'cohort' } },
    { breakdown: 3 },
    'b:1',
  ],
  [
    'everybody',
    { ...TOTAL, breakdownFilter: { breakdown: [3, 'all'], breakdown_type: 'cohort' } },
    { breakdown: 'all' },
    'b:1 c:1',
  ],
]

t.test('a number lists its actors and their events', async (t) => {
  for (const [name, query, pick, expected] of ROWS) t.equal(actorsOf(query, pick), expected, name)
})

t.test('a request that selects no number is refused', async (t) => {
  const refused: readonly (readonly [Json, Json, string])[] = [
    [{}, {}, 'day'],
    [{}, { day: 'soon' }, 'day'],
    [{}, { day: '-1d' }, 'day'],
    [{}, { day: 3 }, 'day'],
    [TOTAL, { day: '2023-01-03' }, 'day'],
    [{}, { day: '2023-01-03', series: 1 }, 'series'],
    [{}, { day: '2023-01-03', compare: 'previous' }, 'compare'],
    [{}, { day: '2023-01-03', breakdown: 'x' }, 'breakdown'],
    [K, { day: '2023-01-03', breakdown: ['x', 'y'] }, 'breakdown'],
    [BINS, { day: '2023-01-03', breakdown: '5' }, 'breakdown'],
    [
      { breakdownFilter: { breakdown: [3], breakdown_type: 'cohort' } },
      { day: '2023-01-03', breakdown: 4 },
      'breakdown',
    ],
  ]
  for (const [query, pick, attr] of refused) {
    t.throws(() => actorsOf(query, pick), { code: 'invalid_query', attr }, JSON.stringify(pick))
  }
})
