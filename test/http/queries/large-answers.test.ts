/**
 * Queries whose answers would have more numbers over time than an answer has room for.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

/** 192,960 minutes. */
const MINUTES = {
  interval: 'minute',
  dateRange: { date_from: '2023-01-01', date_to: '2023-05-15' },
}
const BROWSERS = { breakdownFilter: { breakdown: 'browser', breakdown_limit: 1000 } }
const VALUES = 30

t.test('they are refused before these are made', async (t) => {
  const daemon = await shareDecisions()
  await daemon.capture(
    Array.from({ length: VALUES }, (_, number) => ({
      ...{ event: 'view', distinct_id: `d${number}`, timestamp: '2023-01-02T12:00:00Z' },
      properties: { browser: `b${number}` },
    })),
  )
  const series = (count: number) => Array.from({ length: count }, () => ({ event: 'view' }))
  const trends = { kind: 'TrendsQuery', ...MINUTES }
  const formulas = Array.from({ length: 26 }, (_, number) => `A + ${number}`)
  const queries: Readonly<Record<string, Json>> = {
    series: { ...trends, series: series(26), compareFilter: { compare: true } },
    values: { ...trends, series: series(1), ...BROWSERS },
    formulas: { ...trends, series: series(1), trendsFilter: { formulas } },
    stickiness: {
      ...trends,
      kind: 'StickinessQuery',
      series: series(26),
      compareFilter: { compare: true },
    },
    funnel: {
      ...{ ...trends, kind: 'FunnelsQuery', series: series(2), ...BROWSERS },
      funnelsFilter: { funnelVizType: 'trends' },
    },
  }
  for (const [name, query] of Object.entries(queries)) {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    t.match({ status, ...body }, { status: 400, code: 'query_too_large' }, name)
  }
  const totals = { ...trends, series: series(26), trendsFilter: { display: 'BoldNumber' } }
  const { status } = await daemon.api('POST', 'query/', 1, { query: totals })
  t.equal(status, 200, 'one number of each is no answer over time')
})
