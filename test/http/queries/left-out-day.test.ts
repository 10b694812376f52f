/**
 * Queries over 30 December 2011, a day that did not exist in Samoa because its time zone moved across the date line.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

t.test('no kind of query has a bucket for the skipped day', async (t) => {
  const daemon = await shareDecisions()
  await daemon.api('PATCH', '', 1, { timezone: 'Pacific/Apia' })
  const seen = [
    ['ann', '2011-12-29T12:00:00Z'],
    ['ann', '2011-12-30T09:59:59Z'],
    ['bob', '2011-12-30T10:00:00Z'],
    ['ann', '2011-12-31T12:00:00Z'],
  ] as const
  await daemon.capture(
    seen.map(([distinct_id, timestamp]) => ({ event: 'a', distinct_id, timestamp })),
  )
  const results = async (query: Json): Promise<readonly Json[]> => {
    const { body } = await daemon.api('POST', 'query/', 1, { query })
    return body['results'] as readonly Json[]
  }
  const dateRange = { date_from: '2011-12-28', date_to: '2012-01-01' }
  const rest = { series: [{ event: 'a' }], dateRange }
  const days = ['2011-12-28', '2011-12-29', '2011-12-31', '2012-01-01']
  t.match(await results({ kind: 'TrendsQuery', ...rest }), [{ days, data: [0, 2, 1, 1] }])
  t.match(await results({ kind: 'StickinessQuery', ...rest }), [{ data: [1, 1, 0, 0] }])
  t.match(
    await results({
      kind: 'LifecycleQuery',
      ...rest,
      dateRange: { ...dateRange, date_from: '2011-12-31' },
    }),
    [
      { status: 'new', days: ['2011-12-31', '2012-01-01'], data: [1, 0] },
      { status: 'returning', data: [0, 0] },
      { status: 'resurrecting', data: [0, 1] },
      { status: 'dormant', data: [-1, -1] },
    ],
  )
  const target = { id: 'a', type: 'events' }
  const rows = await results({
    kind: 'RetentionQuery',
    dateRange: { date_to: '2012-01-01' },
    retentionFilter: { totalIntervals: 3, targetEntity: target, returningEntity: target },
  })
  t.match(rows, [
    { date: '2011-12-29T10:00:00Z', values: [{ count: 1 }, { count: 0 }, { count: 1 }] },
    { date: '2011-12-30T10:00:00Z', values: [{ count: 1 }, { count: 0 }, { count: 0 }] },
    { date: '2011-12-31T10:00:00Z', values: [{ count: 1 }, { count: 0 }, { count: 0 }] },
  ])
})
