/**
 * Formulas over series with a breakdown. All series of a formula use the same breakdown values. Otherwise, a value of
 * one series could be combined with a number that another series counts in its group "other".
 *
 * @lane quick
 */
import t from 'tap'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const OTHER = '$$_posthog_breakdown_other_$$'
const SIGN_PER_VIEW = [
  { kind: 'EventsNode', event: 'sign' },
  { kind: 'EventsNode', event: 'view' },
]
const PAGES = Array.from({ length: 30 }, (_, page) => page)

interface Item {
  readonly breakdown_value: string | readonly string[]
  readonly compare_label?: string
  readonly data: readonly number[] | null
  readonly aggregated_value?: number
}

/** Returns this many events of a name on a page. */
function times(count: number, event: string, page: string, timestamp: string): Json[] {
  return Array.from({ length: count }, () => ({
    event,
    distinct_id: `${event} ${page}`,
    timestamp,
    properties: { page, site: 'a' },
  }))
}

t.test('a formula with a breakdown selects its values once for all series', async (t) => {
  const daemon = await shareDecisions()
  const day = '2024-05-06T10:00:00Z'
  const dayBefore = '2024-05-05T10:00:00Z'
  await daemon.capture(
    PAGES.flatMap((page) => [
      ...times(page + 1, 'sign', `/p${page}`, day),
      ...times(40 - page, 'view', `/p${page}`, day),
      // On the day before, the order of the pages is reversed.
      ...times(30 - page, 'sign', `/p${page}`, dayBefore),
      ...times(page + 11, 'view', `/p${page}`, dayBefore),
    ]),
  )
  const ask = async (query: Json): Promise<{ items: readonly Item[]; hasMore: unknown }> => {
    const { body } = await daemon.api('POST', 'query/', 1, {
      query: {
        kind: 'TrendsQuery',
        series: SIGN_PER_VIEW,
        dateRange: { date_from: '2024-05-06', date_to: '2024-05-06' },
        breakdownFilter: { breakdown: 'page' },
        trendsFilter: { formula: 'A/B' },
        ...query,
      },
    })
    return { items: body['results'] as readonly Item[], hasMore: body['hasMore'] }
  }
  const numberOf = ({ data, aggregated_value }: Item) => data?.[0] ?? aggregated_value ?? Number.NaN
  const found = ({ breakdown_value, ...item }: Item) => [
    [breakdown_value].flat().at(-1),
    Math.round(numberOf({ breakdown_value, ...item }) * 1e6),
  ]
  const ratio = (page: number) => [`/p${page}`, Math.round(((page + 1) / (40 - page)) * 1e6)]
  const best = PAGES.slice(5).reverse().map(ratio)
  const rest = [OTHER, Math.round((15 / 190) * 1e6)]
  const right = [...best, rest]

  const over = await ask({})
  t.strictSame(over.items.map(found), right, 'over time')
  t.equal(over.hasMore, true)
  const total = await ask({ trendsFilter: { formula: 'A/B', display: 'ActionsTable' } })
  t.strictSame(total.items.map(found), right, 'one number')
  const combined = await ask({
    breakdownFilter: { breakdowns: ['site', 'page'].map((property) => ({ property })) },
  })
  t.strictSame(combined.items.map(found), right, 'combined values')
  const hidden = await ask({
    breakdownFilter: { breakdown: 'page', breakdown_hide_other_aggregation: true },
  })
  t.strictSame(hidden.items.map(found), best, 'without the other values')
  t.equal(hidden.hasMore, true)
  const nodes = await ask({
    trendsFilter: { formulaNodes: [{ formula: 'A/B' }, { formula: 'B/A' }] },
    breakdownFilter: { breakdown: 'page', breakdown_limit: 1 },
  })
  t.strictSame(
    nodes.items.map(found),
    [
      ratio(29),
      [OTHER, Math.round((435 / 754) * 1e6)],
      ['/p0', 40e6],
      [OTHER, Math.round((725 / 464) * 1e6)],
    ],
    'each formula has its own order',
  )
  const compared = await ask({
    compareFilter: { compare: true },
    breakdownFilter: { breakdown: 'page', breakdown_limit: 2 },
  })
  const before = (page: number) => [`/p${page}`, Math.round(((30 - page) / (page + 11)) * 1e6)]
  t.strictSame(
    compared.items.map(found),
    [
      ratio(29),
      ratio(28),
      [OTHER, Math.round((406 / 742) * 1e6)],
      before(28),
      before(29),
      [OTHER, Math.round((462 / 686) * 1e6)],
    ],
    'both ranges use the same values',
  )
  const few = await ask({ breakdownFilter: { breakdown: 'page', breakdown_limit: 30 } })
  t.equal(few.hasMore, false)
  t.equal(few.items.length, 30)
})
