/**
 * Funnels over events of the same millisecond, which are ordered by arrival so that each of them can be a step of its
 * own, and funnels whose range ends with a day.
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const DAY = { date_from: '2024-05-06', date_to: '2024-05-06' }
const ANY = { kind: 'EventsNode', event: '$pageview' }
const PRICING = {
  ...ANY,
  properties: [{ type: 'event', key: 'path', operator: 'exact', value: '/pricing' }],
}
const STEPS = [ANY, PRICING, { kind: 'EventsNode', event: 'signup' }]

/** Events of one person, each at a number of seconds after ten o'clock. */
function visitOf(distinct_id: string, events: readonly (readonly [number, string, string?])[]) {
  return events.map(([seconds, event, path]) => ({
    event,
    distinct_id,
    timestamp: new Date(Date.UTC(2024, 4, 6, 10) + seconds * 1000).toISOString(),
    properties: { path, plan: 'pro' },
  }))
}

const VISIT = [
  [0, '$pageview', '/'],
  [60, '$pageview', '/pricing'],
  [60, 'signup'],
] as const

t.test('events of the same millisecond are ordered by arrival', async (t) => {
  const daemon = await shareDecisions(3)
  await daemon.capture(visitOf('ann', VISIT))
  // The sign-up arrives before the page view that it needs.
  const late = [
    [0, '$pageview', '/'],
    [60, 'signup'],
    [60, '$pageview', '/pricing'],
  ] as const
  await daemon.capture(visitOf('bob', late), 2)
  // Another event arrives between the two.
  const mixed = [
    [0, '$pageview', '/'],
    [60, '$pageview', '/pricing'],
    [60, 'hover'],
    [60, 'signup'],
  ] as const
  await daemon.capture(visitOf('cat', mixed), 3)
  const ask = async (project: number, query: Json = {}) => {
    const { status, body } = await daemon.api('POST', 'query/', project, {
      query: { kind: 'FunnelsQuery', series: STEPS, dateRange: DAY, ...query },
    })
    return status === 200 ? body['results'] : body
  }
  const countsOf = (results: unknown): readonly unknown[] =>
    (results as readonly Json[]).map(({ count }) => count)

  t.strictSame(countsOf(await ask(1)), [1, 1, 1], 'ordered')
  t.strictSame(countsOf(await ask(2)), [1, 1, 0], 'in the order of arrival')
  const strict = { funnelsFilter: { funnelOrderType: 'strict' } }
  t.strictSame(countsOf(await ask(1, strict)), [1, 1, 1], 'strict')
  t.strictSame(countsOf(await ask(3, strict)), [1, 1, 0], 'strict, with an event between')
  t.strictSame(countsOf(await ask(3)), [1, 1, 1], 'ordered, with an event between')
  const time = await ask(1, { funnelsFilter: { funnelVizType: 'time_to_convert' } })
  t.equal((time as Json)['average_conversion_time'], 60)
  const overTime = await ask(1, { funnelsFilter: { funnelVizType: 'trends' } })
  t.strictSame((overTime as readonly Json[])[0]?.['data'], [100])
  const split = await ask(1, { breakdownFilter: { breakdown: 'plan' } })
  t.strictSame((split as readonly (readonly Json[])[]).map(countsOf), [[1, 1, 1]])
  const one = await ask(1, { series: [ANY, ANY, ANY] })
  t.strictSame(countsOf(one), [1, 1, 0], 'an event is at most one step')
  const whole = await ask(1, { interval: 'hour' })
  t.strictSame(
    countsOf(whole),
    [1, 1, 1],
    'the interval of another kind of query has no effect on the range',
  )
})
