/**
 * Tests that the time limit of a query is checked in every phase, including the merge of parts and the answer.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { planQuery } from '../../../src/rules/queries/kinds.ts'
import type { QueryContext } from '../../../src/rules/queries/query-kind.ts'
import { MemoryScanner } from '../../fixtures/analytics/memory-scanner.ts'
import { memoryShard } from '../../fixtures/queries/memory-shard.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const CONTEXT: QueryContext = {
  projectId: 1,
  timezone: 'UTC',
  testAccountFilters: [],
  nowMs: Date.UTC(2023, 0, 10),
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => null,
}
const PERSONS = Array.from({ length: 40 }, (_, index) => ({
  number: index + 1,
  uuid: `u${index}`,
  createdMs: 0,
  properties: {},
  distinctIds: [`d${index}`],
}))
const EVENTS = Array.from({ length: 100 }, (_, number) => ({
  timeMs: Date.UTC(2023, 0, 4) + number * 600_000,
  name: '$pageview',
  distinctId: `d${Math.floor(number / 3)}`,
  properties: { browser: `b${number}`, $current_url: `/${number % 30}` },
}))
const VALUES = { breakdownFilter: { breakdown: 'browser', breakdown_limit: 3 } }
const series = [{ event: '$pageview' }]
const steps = [...series, { event: '$pageview' }]

/** Queries, and whether their parts take long to merge. */
const QUERIES: Readonly<Record<string, { readonly query: Json; readonly isMerged: boolean }>> = {
  trends: { query: { kind: 'TrendsQuery', series, ...VALUES }, isMerged: true },
  persons: {
    query: { kind: 'TrendsQuery', series: [{ event: '$pageview', math: 'weekly_active' }] },
    isMerged: false,
  },
  quantiles: {
    query: {
      kind: 'TrendsQuery',
      series: [{ event: '$pageview', math: 'p90', math_property: 'browser' }],
      ...VALUES,
    },
    isMerged: true,
  },
  funnel: { query: { kind: 'FunnelsQuery', series: steps, ...VALUES }, isMerged: true },
  'funnel over time': {
    query: {
      kind: 'FunnelsQuery',
      series: steps,
      ...VALUES,
      funnelsFilter: { funnelVizType: 'trends' },
    },
    isMerged: true,
  },
  paths: { query: { kind: 'PathsQuery' }, isMerged: true },
  retention: { query: { kind: 'RetentionQuery', ...VALUES }, isMerged: true },
}

t.test('each phase ends when the time is over', async (t) => {
  const scanner = new MemoryScanner({ events: EVENTS, persons: PERSONS })
  const over = {
    checkLimits(): never {
      throw new ServiceError('query_timeout', 'the time is over')
    },
  }
  for (const [name, { query, isMerged }] of Object.entries(QUERIES)) {
    const { kind, plan } = planQuery(query, CONTEXT)
    // The page resolves the owners of many rows from their bits.
    const isBits = name === 'persons'
    const ofRows = isBits ? ({ by: 'segments', index: 0, count: 1 } as const) : null
    const shard = memoryShard(scanner, CONTEXT, ofRows)
    const part: unknown = kind.partial(plan, shard)
    const timeout = { code: 'query_timeout' }
    const merge = (): unknown => kind.merge(plan, [part, part], over)
    if (isMerged) t.throws(merge, timeout, `${name}: the merge ends`)
    const whole: unknown = kind.merge(plan, [part, part], scanner)
    const late = new Proxy(scanner, {
      get(target, member): unknown {
        if (member === 'checkLimits') return over.checkLimits
        const own: unknown = Reflect.get(target, member)
        return typeof own === 'function' ? own.bind(target) : own
      },
    })
    const page = () => kind.page(plan, whole, memoryShard(late, CONTEXT))
    if (name === 'retention') t.ok(page(), name)
    else t.throws(page, timeout, `${name}: the page ends`)
  }
})
