/**
 * Queries for charts with more points than a person can distinguish.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

/** 14,400 minutes. */
const MINUTES = {
  interval: 'minute',
  dateRange: { date_from: '2023-01-01', date_to: '2023-01-11' },
}
/** 28,800 points. */
const MANY_MINUTES = { ...MINUTES, dateRange: { date_from: '2023-01-01', date_to: '2023-01-21' } }
const BROWSERS = { breakdownFilter: { breakdown: 'browser', breakdown_limit: 1000 } }
const VALUES = 30

t.test('they are refused before the points are computed', async (t) => {
  const daemon = await shareDecisions()
  await daemon.capture(
    Array.from({ length: VALUES }, (_, number) => ({
      event: 'view',
      distinct_id: `d${number}`,
      timestamp: '2023-01-02T12:00:00Z',
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
    minutes: { ...trends, ...MANY_MINUTES, series: series(1) },
    lifecycle: { ...trends, ...MANY_MINUTES, kind: 'LifecycleQuery', series: series(1) },
    funnel: {
      ...trends,
      kind: 'FunnelsQuery',
      series: series(2),
      ...BROWSERS,
      funnelsFilter: { funnelVizType: 'trends' },
    },
  }
  for (const [name, query] of Object.entries(queries)) {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    const refusal = { status: 400, type: 'validation_error', code: 'query_too_large' }
    t.match({ status, ...body }, { ...refusal, attr: 'interval', detail: /longer interval/ }, name)
  }
  const totals = {
    ...trends,
    ...MANY_MINUTES,
    series: series(26),
    trendsFilter: { display: 'BoldNumber' },
  }
  const { status } = await daemon.api('POST', 'query/', 1, { query: totals })
  t.equal(status, 200, 'one number for each is not a time series')
})
