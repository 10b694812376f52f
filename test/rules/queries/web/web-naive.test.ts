/**
 * Compares the figures and tables of web analytics with a slow evaluation of the listed events, on a store that goes
 * through every kind of change.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { planQuery } from '../../../../src/rules/queries/kinds.ts'
import type { QueryContext, QueryShard } from '../../../../src/rules/queries/query-kind.ts'
import { languageNames } from '../../../../src/rules/queries/web/breakdowns.ts'
import { PersonLog, type SentEvent } from '../../../fixtures/persons/person-log.ts'
import { NaiveWeb } from '../../../fixtures/queries/naive-web.ts'
import { mismatch } from '../../../fixtures/queries/query-cases.ts'
import { roundsOf, seedOf } from '../../../fixtures/random-depth.ts'
import { randomNumbers } from '../../../fixtures/stored-events.ts'

const START_MS = Date.UTC(2024, 0, 1)
const DAY_MS = 86_400_000
const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }
/** Everything, as one of the pieces in which a query is computed if memory is short. */
const PIECE = { by: 'sessions', index: 0, count: 1, isPiece: true } as const
const BREAKDOWNS = [
  'Page',
  'InitialPage',
  'ExitPage',
  'ExitClick',
  'PreviousPage',
  'ScreenName',
  'Browser',
  'InitialChannelType',
  'InitialReferringDomain',
  'InitialUTMSource',
  'InitialUTMMedium',
  'InitialUTMSourceMediumCampaign',
  'OS',
  'DeviceType',
  'Viewport',
  'Country',
  'Region',
  'City',
  'Timezone',
  'Language',
  'FrustrationMetrics',
  'Page',
  'Page',
  'Page',
]
/** The last two exist with a goal only. */
const METRICS = [
  'UniqueUsers',
  'PageViews',
  'Sessions',
  'TotalSessions',
  'SessionDuration',
  'Bounces',
  'TotalConversions',
  'UniqueConversions',
]
const RULES = [
  { regex: '/item/\\d+', alias: '/item/:id' },
  { regex: ':id', alias: '<id>' },
]
const FILTERS = [
  { key: '$pathname', type: 'event', operator: 'exact', value: ['/', '/a'] },
  { key: '$pathname', type: 'event', operator: 'is_cleaned_path_exact', value: '/item/999' },
  { key: '$browser', type: 'event', operator: 'is_not', value: 'Chrome' },
  { key: '$browser', type: 'event', operator: 'not_icontains', value: ['fire', 'saf'] },
  { key: '$session_duration', type: 'session', operator: 'gt', value: 9 },
  { key: '$channel_type', type: 'session', operator: 'exact', value: ['Direct', 'Email'] },
  { key: '$channel_type', type: 'session', operator: 'is_not', value: 'Direct' },
  { key: '$is_bounce', type: 'session', operator: 'exact', value: ['0'] },
  { key: '$entry_has_gclid', type: 'session', operator: 'exact', value: 'true' },
  { key: '$entry_utm_source', type: 'session', operator: 'is_set', value: 'is_set' },
  { key: '$entry_pathname', type: 'session', operator: 'regex', value: '^/item' },
  { key: '$entry_pathname', type: 'session', operator: 'is_cleaned_path_exact', value: '/item/1' },
  { key: '$pageview_count', type: 'session', operator: 'gt', value: 1 },
  { key: '$num_uniq_urls', type: 'session', operator: 'gt', value: 1 },
  { key: '$last_external_click_url', type: 'session', operator: 'icontains', value: 'ONE' },
]

class Dice {
  readonly next: () => number

  constructor(seed: number) {
    this.next = randomNumbers(seed)
  }

  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T
  }

  /** One of the items, or sometimes nothing. */
  maybe(chance: number, make: () => object): object {
    return this.next() < chance ? make() : {}
  }
}

/**
 * Events that arrive late, at the same time, from several persons of one session, and from visitors without a person,
 * with `otherIds` of the session.
 */
function randomEvents(
  count: number,
  seed: number,
  otherIds: (id: string) => readonly string[] = () => [],
): readonly SentEvent[] {
  const dice = new Dice(seedOf(seed))
  const names = ['$pageview', '$pageview', '$pageview', '$screen', '$autocapture', '$pageleave']
  return Array.from({ length: count }, (): SentEvent => {
    // Some sessions are long. Most have one or two events.
    const session = dice.next() < 0.5 ? dice.below(20) : 20 + dice.below(250)
    const startMs =
      START_MS + (session % 6) * DAY_MS + (session < 20 ? dice.below(3) * DAY_MS * 0.7 : 0)
    const timestamp = new Date(startMs + dice.below(30) * dice.pick([0, 300, 1100])).toISOString()
    const who = dice.next() < 0.9 ? session % 11 : dice.below(11)
    const distinct_id = `u${who}`
    if (dice.next() < 0.02 && who !== 10) {
      const properties = { $anon_distinct_id: `u${dice.below(11)}` }
      return { event: '$identify', distinct_id, timestamp, properties }
    }
    const path = dice.pick(['/', '/a', '/item/1', '/item/22', '/b'])
    const id = `018f38bf-1d00-7a0e-8000-${String(session).padStart(12, '0')}`
    return {
      event: dice.pick([...names, 'buy', '$rageclick', '$dead_click', '$exception']),
      distinct_id,
      timestamp,
      properties: {
        ...(who > 7 ? { $process_person_profile: false } : {}),
        ...dice.maybe(0.85, () => ({
          $session_id: dice.pick([id, id, id, id.replace('-7', '-4'), ...otherIds(id)]),
        })),
        ...dice.maybe(0.9, () => ({ $pathname: path })),
        ...dice.maybe(0.9, () => ({ $current_url: `https://x.io${path}?q=1` })),
        ...dice.maybe(0.3, () => ({
          $prev_pageview_pathname: dice.pick(['/', '/a', '/item/1', '']),
        })),
        ...dice.maybe(0.3, () => ({ $prev_pageview_max_scroll_percentage: dice.below(11) / 10 })),
        ...dice.maybe(0.3, () => ({ $prev_pageview_max_content_percentage: dice.below(11) / 10 })),
        ...dice.maybe(0.5, () => ({
          $referrer: dice.pick(['https://x.io/z', 'https://google.com/', '$direct']),
          $referring_domain: dice.pick(['google.com', '$direct', 'news.example']),
        })),
        ...dice.maybe(0.3, () => ({ utm_source: dice.pick(['google', '', 'null', 'email']) })),
        ...dice.maybe(0.2, () => ({ utm_medium: dice.pick(['cpc', 'email']), utm_campaign: 'c' })),
        ...dice.maybe(0.1, () => ({ gclid: 'x' })),
        ...dice.maybe(0.1, () => ({
          $external_click_url: dice.pick(['https://one.io', 'https://b.io']),
        })),
        ...dice.maybe(0.8, () => ({ $browser: dice.pick(['Chrome', 'Firefox', 'Safari']) })),
        ...dice.maybe(0.8, () => ({
          $os: dice.pick(['iOS', 'Linux', '']),
          $device_type: 'Mobile',
        })),
        ...dice.maybe(0.5, () => ({ $viewport_width: dice.pick([0, 10]), $viewport_height: 20 })),
        ...dice.maybe(0.5, () => ({ $geoip_country_code: 'DE', $geoip_city_name: 'Berlin' })),
        ...dice.maybe(0.4, () => ({ $geoip_subdivision_1_code: dice.pick(['BE', 'HH']) })),
        ...dice.maybe(0.5, () => ({ $timezone_offset: dice.pick([0, 240, -330, 'none', '']) })),
        ...dice.maybe(0.7, () => ({
          $browser_language: dice.pick(['en-US', 'en-GB', 'en', 'nl', 'zh-Hans-CN']),
        })),
        $screen_name: dice.pick(['Home', 'Cart']),
      },
    }
  })
}

function randomQuery(dice: Dice): Readonly<Record<string, unknown>> {
  const from = dice.below(8)
  const date = (day: number) => new Date(START_MS + day * DAY_MS).toISOString().slice(0, 10)
  const isTable = dice.next() < 0.7
  const isTrends = !isTable && dice.next() < 0.5
  const hasGoal = dice.next() < 0.25
  const properties = FILTERS.filter(() => dice.next() < 0.04)
  return {
    kind: isTable ? 'WebStatsTableQuery' : isTrends ? 'WebTrendsQuery' : 'WebOverviewQuery',
    ...(isTrends
      ? {
          interval: dice.pick(['hour', 'day', 'week']),
          metrics: METRICS.slice(0, hasGoal ? 8 : 6).filter(() => dice.next() < 0.7),
        }
      : {}),
    properties,
    dateRange: { date_from: date(from), date_to: date(from + dice.below(5)) },
    ...dice.maybe(0.4, () => ({
      compareFilter: dice.pick([
        { compare: true },
        { compare: true, compare_to: '-1w' },
        { compare_to: '-30d' },
      ]),
    })),
    ...(hasGoal ? { conversionGoal: { customEventName: 'buy' } } : {}),
    ...(isTable ? { breakdownBy: dice.pick(BREAKDOWNS) } : {}),
    ...dice.maybe(0.5, () => ({ includeBounceRate: true })),
    ...dice.maybe(0.4, () => ({ includeScrollDepth: true })),
    ...dice.maybe(0.4, () => ({ doPathCleaning: true })),
    ...dice.maybe(0.4, () => ({
      orderBy: [
        dice.pick(['Views', 'BounceRate', 'ConversionRate', 'Errors', 'AverageScrollPercentage']),
        dice.pick(['ASC', 'DESC']),
      ],
    })),
  }
}

const NAIVE: Readonly<
  Record<string, (naive: NaiveWeb, query: Readonly<Record<string, unknown>>) => readonly unknown[]>
> = {
  WebOverviewQuery: (naive, query) => naive.overview(query),
  WebStatsTableQuery: (naive, query) => naive.table(query),
  WebTrendsQuery: (naive, query) =>
    naive.trends(
      (query['metrics'] as readonly string[]).length === 0
        ? { ...query, metrics: ['UniqueUsers'] }
        : query,
    ),
}

/** `deleted` is the position up to which the events of a distinct_id belong to a deleted person. */
function compare(
  t: Test,
  log: PersonLog,
  seed: number,
  count: number,
  deleted: ReadonlyMap<string, number> = new Map(),
): void {
  const scanner = log.reader.scanner(NO_LIMITS)
  const context: QueryContext = {
    projectId: 1,
    timezone: 'UTC',
    nowMs: START_MS + 40 * DAY_MS,
    testAccountFilters: [],
    pathCleaningFilters: RULES,
    channelTypeRules: [],
    action: () => null,
    cohortName: () => null,
    firstEventMs: () => scanner.firstEventMs(1),
  }
  // These query kinds read nothing else.
  const shard = { context, scanner, part: null } as unknown as QueryShard
  const { results: events } = log.reader.listEvents({ projectId: 1, limit: 1_000_000 })
  const naive = new NaiveWeb(
    events.filter(({ id, distinct_id }) => id > (deleted.get(distinct_id) ?? 0)),
    RULES,
  )
  const dice = new Dice(seedOf(seed))
  let rowCount = 0
  const faults: string[] = []
  const rounds = roundsOf(count, 10)
  for (let index = 0; index < rounds; index++) {
    const query = randomQuery(dice)
    const { kind, plan } = planQuery(query, context)
    const expected: readonly unknown[] = NAIVE[String(query['kind'])]?.(naive, query) ?? []
    rowCount += expected.length
    for (const part of [null, PIECE]) {
      const merged: unknown = kind.merge(
        plan,
        [kind.partial(plan, { ...shard, part })],
        shard.scanner,
      )
      const actual = kind.page(plan, merged, shard).results as readonly unknown[]
      const fault =
        mismatch(expected, actual, 'results') ??
        (actual.length === expected.length ? null : `rows: ${actual.length} for ${expected.length}`)
      const how = part === null ? '' : ' as a piece'
      if (fault !== null) faults.push(`${JSON.stringify(query)}${how}: ${fault}`)
    }
  }
  t.strictSame(faults, [])
  t.ok(rowCount > rounds, 'the queries find something')
}

t.test('web analytics agree with the slow evaluation', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const events = randomEvents(900, 5)
  for (let start = 0; start < events.length; start += 100) {
    log.send(1, events.slice(start, start + 100))
    log.process()
    if (start === 200)
      await t.test('segments of several commits', async (t) => compare(t, log, 1, 100))
  }
  await t.test('merged segments', async (t) => compare(t, log, 2, 200))
  const query = { projectId: 1, limit: 9, offset: 0, nowMs: START_MS * 2 }
  const [first, second] = log.reader.persons().list(query).results
  const last = Math.max(
    ...log.reader.listEvents({ projectId: 1, limit: 1_000_000 }).results.map(({ id }) => id),
  )
  const gone = new Map(
    [first, second].flatMap((one) => one?.distinct_ids.map((id) => [id, last] as const) ?? []),
  )
  log.run(1, { kind: 'delete_person', person: first?.id ?? 0, deletesEvents: true })
  log.run(1, { kind: 'delete_person', person: second?.id ?? 0, deletesEvents: false })
  log.process()
  log.process()
  await t.test('erased events', async (t) => compare(t, log, 3, 100, gone))
  // Each spelling of an id is another session, if it is a valid id.
  log.send(
    1,
    randomEvents(100, 6, (id) => [id.toUpperCase(), id.replace('bf', 'BF'), `{${id}}`, '7']),
  )
  log.process()
  await t.test('late events', async (t) => compare(t, log, 4, 100, gone))
})

t.test('a language is shown with its most frequent region', async (t) => {
  const groups = { 'en-US': 1, 'en-GB': 3, en: 2, 'de-DE': 2, 'de-AT': 2, nl: 1, 'zh-Hans-CN': 1 }
  const names = languageNames(
    [undefined, ...Object.keys(groups)],
    Float64Array.of(9, ...Object.values(groups)),
  )
  t.strictSame(['en-US', 'en', 'de-DE', 'nl', 'zh-Hans-CN', 'fr-FR'].map(names), [
    'en-GB',
    'en-GB',
    'de-AT',
    'nl-',
    'zh-Hans-CN',
    undefined,
  ])
})
