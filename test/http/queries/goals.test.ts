/**
 * Goals as the console stores them: actions that stand for an event or for pages. All figures of the page "Web" with a
 * goal equal a count of the single events.
 *
 * @lane quick
 */
import t from 'tap'
import {
  countedBy,
  goalDraft,
  goalWords,
  tagsWithoutGoal,
} from '../../../src/console/pages/web/goal.ts'
import { EMPTY_STEP } from '../../fixtures/action-step.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import { siteVisits } from '../../fixtures/site-visits.ts'

const DAY_MS = 86_400_000
const FROM = '2026-03-02'
const DAYS = 6
const FROM_MS = Date.parse(FROM)
const TO_MS = FROM_MS + DAYS * DAY_MS
const dateRange = { date_from: FROM, date_to: new Date(TO_MS - 1).toISOString().slice(0, 10) }

interface Visit {
  readonly event: string
  readonly distinct_id: string
  readonly timestamp: string
  readonly properties: Readonly<Record<string, string | undefined>>
}

/** Events within the range, before it and after it, and some of a server, which have no session. */
const EVENTS: readonly Visit[] = [
  ...(siteVisits(5, 60, FROM_MS - 2 * DAY_MS, DAYS + 4) as Visit[]),
  ...[0, 1, 2].map((index) => ({
    event: 'signed up',
    distinct_id: `visitor-${index}`,
    timestamp: new Date(FROM_MS + DAY_MS + index).toISOString(),
    properties: { $geoip_country_code: 'DE' },
  })),
]

/** Goals, and the events that meet them. */
const GOALS: readonly (readonly [
  counted: Parameters<typeof goalDraft>[1],
  isMet: (one: Visit) => boolean,
])[] = [
  [{ of: 'event', event: 'signed up' }, ({ event }) => event === 'signed up'],
  [
    { of: 'page', path: '/signup' },
    ({ event, properties }) => event === '$pageview' && properties['$pathname'] === '/signup',
  ],
  [
    { of: 'page', path: '/docs*' },
    ({ event, properties }) =>
      event === '$pageview' && String(properties['$pathname']).startsWith('/docs'),
  ],
  [{ of: 'page', path: '/d.cs' }, () => false],
]

const isView = ({ event }: Visit) => event === '$pageview' || event === '$screen'
const persons = (events: readonly Visit[]) => new Set(events.map((one) => one.distinct_id)).size
const atMs = ({ timestamp }: Visit) => Date.parse(timestamp)

const startOf = new Map<string, number>()
for (const one of EVENTS) {
  const session = one.properties['$session_id']
  if (session === undefined) continue
  startOf.set(session, Math.min(startOf.get(session) ?? Infinity, atMs(one)))
}

/** The visitors, the conversions and the people who converted. */
function figures(events: readonly Visit[], isMet: (one: Visit) => boolean) {
  const met = events.filter(isMet)
  return [persons(events.filter((one) => isView(one) || isMet(one))), met.length, persons(met)]
}

t.test('every figure of a goal equals a count of the events', async (t) => {
  const daemon = await shareDecisions()
  await daemon.capture(EVENTS)
  const ask = async (query: object) =>
    (await daemon.api('POST', 'query/', 1, { query: { properties: [], dateRange, ...query } })).body
  for (const [counted, isMet] of GOALS) {
    const made = await daemon.api('POST', 'actions/', 1, goalDraft('Goal', counted))
    t.equal(made.status, 201)
    t.strictSame(tagsWithoutGoal(made.body as never), [])
    t.strictSame(countedBy(made.body as never), counted, 'the list shows what was entered')
    const conversionGoal = { actionId: made.body['id'] }
    const name = goalWords(counted, String)

    // Tiles and charts count sessions by their start.
    const ofSessions = EVENTS.map(
      (one) => [one, startOf.get(one.properties['$session_id'] ?? '')] as const,
    )
    const within = (fromMs: number, toMs: number) =>
      ofSessions.flatMap(([one, startMs = -1]) =>
        startMs >= fromMs && startMs < toMs ? [one] : [],
      )
    const [visitors = 0, conversions, converted = 0] = figures(within(FROM_MS, TO_MS), isMet)
    const overview = await ask({ kind: 'WebOverviewQuery', conversionGoal })
    const values = (overview['results'] as readonly { value: number }[]).map(({ value }) => value)
    t.strictSame(values, [visitors, conversions, converted, 100 * (converted / visitors)], name)

    const metrics = ['UniqueUsers', 'TotalConversions', 'UniqueConversions'] as const
    const trends = await ask({ kind: 'WebTrendsQuery', interval: 'day', metrics, conversionGoal })
    const days = trends['results'] as readonly { metrics: Readonly<Record<string, number>> }[]
    t.strictSame(
      days.map((day) => metrics.map((metric) => day.metrics[metric])),
      days.map((_, day) =>
        figures(within(FROM_MS + day * DAY_MS, FROM_MS + (day + 1) * DAY_MS), isMet),
      ),
      `${name} by day`,
    )
    t.equal(days.length, DAYS)

    // A table counts each event at its own time, also without a session.
    const inRange = EVENTS.filter((one) => atMs(one) >= FROM_MS && atMs(one) < TO_MS)
    const table = await ask({ kind: 'WebStatsTableQuery', breakdownBy: 'Country', conversionGoal })
    const rows = table['results'] as readonly (readonly [string, ...(readonly [number])[]])[]
    t.ok(rows.length > 3)
    for (const [country, ...cells] of rows) {
      const own = inRange.filter((one) => one.properties['$geoip_country_code'] === country)
      const [all = 0, events, people = 0] = figures(own, isMet)
      const found = cells.slice(0, 4).map(([current]) => current)
      t.strictSame(found, [all, events, people, people / all], `${name} of ${country}`)
    }
  }
})

t.test('a goal is read from its action, and other actions stay as they are', async (t) => {
  const action = (steps: readonly object[]) => ({ steps, tags: ['goal'] }) as never
  t.strictSame(countedBy(action([{ ...EMPTY_STEP, event: 'a' }])), { of: 'event', event: 'a' })
  for (const path of ['/a.b', '/*', '*', '/a+(b)*[c]{2}|$^?\\d', '/**/x']) {
    const [made] = goalDraft('', { of: 'page', path }).steps ?? []
    t.strictSame(countedBy(action([{ ...EMPTY_STEP, ...made }])), { of: 'page', path }, path)
  }
  const path = (filter: object) =>
    action([{ ...EMPTY_STEP, event: '$pageview', properties: [filter] }])
  const exact = { key: '$pathname', type: 'event', operator: 'exact', value: '/a' }
  for (const other of [
    action([]),
    action([EMPTY_STEP, EMPTY_STEP]),
    action([EMPTY_STEP]),
    action([{ ...EMPTY_STEP, event: 'a', url: '/a' }]),
    action([{ ...EMPTY_STEP, event: 'a', properties: { type: 'AND', values: [] } }]),
    action([{ ...EMPTY_STEP, event: 'a', properties: [exact] }]),
    path({ ...exact, key: '$host' }),
    path({ ...exact, operator: 'icontains' }),
    path({ ...exact, value: ['/a'] }),
    path({ ...exact, value: '/a*' }),
    path({ ...exact, operator: 'regex', value: '^/a|b$' }),
    path({ ...exact, operator: 'regex', value: '/a.*' }),
  ]) {
    t.strictSame(countedBy(other), { of: 'action' })
  }
})
