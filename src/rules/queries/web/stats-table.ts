/**
 * Visitors, views, bounces, conversions or frustration of a site, split by page, source, device and the
 * like. Source: docs/compatibility/queries.md, "WebStatsTableQuery".
 */
import type { ValueColumn } from '../../analytics/event-columns.ts'
import { numberOf } from '../../filters/property-filter.ts'
import { propertyText } from '../../filters/property-text.ts'
import type { QueryKind, QueryShard } from '../query-kind.ts'
import {
  BREAKDOWN_NAMES,
  type BreakdownName,
  breakdownColumn,
  breakdownRequests,
  languageLabels,
  sessionColumn,
} from './breakdowns.ts'
import { rememberedPart, WebEvents } from './candidates.ts'
import {
  type ByRange,
  countOf,
  type Groups,
  groupsOf,
  meanOf,
  type PlainWish,
  personsOf,
  plainGroups,
  quotient,
  sumOf,
  withSessionValues,
} from './groups.ts'
import { AS_IT_IS, type CleanPath } from './path-cleaning.ts'
import { namedSeries, VIEW_SERIES } from './sessions.ts'
import {
  type Cell,
  readPaging,
  type StatsColumn,
  type StatsPaging,
  type StatsTable,
  statsPage,
} from './stats-rows.ts'
import { readWebPlan, type WebPlan, withKey, withoutKey } from './web-plan.ts'

const PATHNAME = '$pathname'
const PREVIOUS_PATHNAME = '$prev_pageview_pathname'
/** Content that was seen: more of it is most of it. */
const SEEN_SHARE = 0.8

/** What a table is made of. */
interface TablePlan extends WebPlan {
  readonly breakdown: BreakdownName
  readonly includesBounces: boolean
  readonly includesScroll: boolean
  readonly isCleaned: boolean
}

interface StatsPlan extends TablePlan {
  readonly paging: StatsPaging
}

/** Numbers of each value, by column. */
type Numbers = readonly (readonly [column: StatsColumn, numbers: ByRange])[]

/** `WebStatsTableQuery`. */
export const WEB_STATS_TABLE: QueryKind<StatsPlan, StatsTable> = {
  dividedBy: 'nothing',
  isOfOneThread: true,
  plan(query, context) {
    const breakdown = BREAKDOWN_NAMES.find((name) => name === query.value('breakdownBy'))
    if (breakdown === undefined) {
      throw query.fault('breakdownBy', `must be one of ${BREAKDOWN_NAMES.join(', ')}`)
    }
    query.choice('pathExtractionMethod', ['pathname'])
    return {
      ...readWebPlan(query, context),
      breakdown,
      includesBounces: query.boolean('includeBounceRate'),
      includesScroll: query.boolean('includeScrollDepth'),
      isCleaned: query.boolean('doPathCleaning'),
      paging: readPaging(query),
    }
  },
  partial({ paging: _, ...plan }, shard) {
    // All pages are of the same table.
    return rememberedPart(
      plan,
      shard,
      () => statsTable(plan, shard),
      ({ rows }) => rows.length,
    )
  },
  merge: (_plan, [part = { columns: [], rows: [] }]) => part,
  page: ({ paging }, whole) => statsPage(whole, paging),
}

function statsTable(plan: TablePlan, shard: QueryShard): StatsTable {
  const events = new WebEvents(plan, shard)
  const clean = plan.isCleaned ? events.clean : AS_IT_IS
  if (plan.breakdown === 'FrustrationMetrics') return frustration(plan, events, clean)
  return isOfEntries(plan) ? pages(plan, events, clean) : plainTable(plan, events, clean)
}

/** Whether bounces are those of the sessions that were entered by a page. */
function isOfEntries({ breakdown, includesBounces, goal }: TablePlan): boolean {
  return breakdown === 'Page' && includesBounces && goal === null
}

/** The main form: what groups of session and value have. */
function plainTable(plan: TablePlan, events: WebEvents, clean: CleanPath): StatsTable {
  const { goal, filters, previous, breakdown } = plan
  const series = goal === null ? [VIEW_SERIES] : [VIEW_SERIES, goal]
  const wish = { series, filters, isByStart: previous !== null }
  const [found, column] = groupsBy(breakdown, wish, events, clean)
  const [groups, values] =
    breakdown === 'Language' ? byLanguage(found, column) : [found, column.values]
  const size = values.length
  const visitors = personsOf(groups, size, null)
  const eventsOf = (index: number) =>
    sumOf(groups, size, (group) => groups.events[index]?.[group] ?? 0)
  if (goal !== null) {
    const converted = personsOf(groups, size, 1)
    const rate: ByRange = [quotient(converted[0], visitors[0]), quotient(converted[1], visitors[1])]
    return tableOf(plan, values, visitors, [
      ['visitors', visitors],
      ['total_conversions', eventsOf(1)],
      ['unique_conversions', converted],
      ['conversion_rate', rate],
    ])
  }
  const numbers: Numbers = [
    ['visitors', visitors],
    ['views', eventsOf(0)],
  ]
  if (!plan.includesBounces) return tableOf(plan, values, visitors, numbers)
  const { bounces: isBounce } = events.properties.table
  const bounces = meanOf(groups, size, (group) => isBounce[groups.sessions[group] ?? 0] ?? 0)
  return tableOf(plan, values, visitors, [...numbers, ['bounce_rate', bounces]])
}

/** The events of a wish by session, or else person, and value; with the values. */
function groupsBy(
  breakdown: BreakdownName,
  wish: PlainWish,
  events: WebEvents,
  clean: CleanPath,
): readonly [Groups, Pick<ValueColumn, 'values'>] {
  const ofSessions = sessionColumn(breakdown, events, clean)
  if (ofSessions !== null) {
    return [withSessionValues(plainGroups(events, wish), ofSessions.ids), ofSessions]
  }
  const candidates = events.candidates({ ...wish, values: breakdownRequests(breakdown) })
  const column = breakdownColumn(breakdown, candidates, clean)
  const { scanner } = events.shard
  return [groupsOf(candidates, column.ids, wish.series.length, scanner), column]
}

function frustration(plan: TablePlan, events: WebEvents, clean: CleanPath): StatsTable {
  const series = ['$exception', '$rageclick', '$dead_click'].map((name) => namedSeries([name]))
  const wish = {
    series: [...series, VIEW_SERIES],
    filters: plan.filters,
    isByStart: plan.previous !== null,
  }
  const [groups, { values }] = groupsBy(plan.breakdown, wish, events, clean)
  const eventsOf = (index: number) =>
    sumOf(groups, values.length, (group) => groups.events[index]?.[group] ?? 0)
  return tableOf(plan, values, personsOf(groups, values.length, null), [
    ['rage_clicks', eventsOf(1)],
    ['dead_clicks', eventsOf(2)],
    ['errors', eventsOf(0)],
  ])
}

/** Pages with the bounces of the sessions that were entered by them; the start of a session decides. */
function pages(plan: TablePlan, events: WebEvents, clean: CleanPath): StatsTable {
  const { filters, includesScroll } = plan
  const wish = { series: [VIEW_SERIES], isByStart: true }
  const [groups, { values }] = groupsBy('Page', { ...wish, filters }, events, clean)
  const size = values.length
  const visitors = personsOf(groups, size, null)
  const plainFilters = includesScroll ? filters : withoutKey(filters, PATHNAME)
  const entered = plainGroups(events, { ...wish, filters: plainFilters })
  return tableOf(plan, values, visitors, [
    ['visitors', visitors],
    ['views', sumOf(groups, size, (group) => groups.events[0]?.[group] ?? 0)],
    ['bounce_rate', bouncesByEntry(values, entered, events, clean)],
    ...(includesScroll ? scrollOf(values, plan, events, clean) : []),
  ])
}

function bouncesByEntry(
  values: readonly unknown[],
  entered: Groups,
  events: WebEvents,
  clean: CleanPath,
): ByRange {
  const { properties } = events
  const { bounces } = properties.table
  const paths = properties.column('$entry_pathname')
  const pageOf = pagesOf(values, paths.values, clean)
  const pages = paths.ids.map((id) => pageOf[id] ?? 0)
  const groups = withSessionValues(entered, pages)
  return meanOf(
    groups,
    values.length,
    (group) => bounces[groups.sessions[group] ?? 0] ?? Number.NaN,
  )
}

/** How far visitors had scrolled on a page when they left it. */
function scrollOf(
  values: readonly unknown[],
  { filters }: TablePlan,
  events: WebEvents,
  clean: CleanPath,
): Numbers {
  const keys = [
    PREVIOUS_PATHNAME,
    ...['$prev_pageview_max_scroll_percentage', '$prev_pageview_max_content_percentage'],
  ]
  const candidates = events.candidates({
    series: [namedSeries(['$pageview', '$pageleave', '$screen'])],
    filters: withKey(filters, PATHNAME, PREVIOUS_PATHNAME),
    values: keys.map((key) => ({ kind: 'event_property', key })),
    isByStart: true,
  })
  const { count, ranges } = candidates
  const [paths, scrolled, seen] = candidates.values.map((column) => ({
    ...column,
    numbers: Float64Array.from(column.values, (value) => numberOf(propertyText(value))),
  }))
  const pageOf = pagesOf(values, paths?.values ?? [], clean)
  const rows = {
    count,
    ranges,
    values: (paths?.ids ?? new Uint32Array(0)).map((id) => pageOf[id] ?? 0),
  }
  const numberAt = (column: typeof scrolled, row: number): number =>
    column?.numbers[column.ids[row] ?? 0] ?? Number.NaN
  const size = values.length
  return [
    ['average_scroll_percentage', meanOf(rows, size, (row) => numberAt(scrolled, row))],
    [
      'scroll_gt80_percentage',
      meanOf(rows, size, (row) => {
        const number = numberAt(seen, row)
        return Number.isNaN(number) ? number : Number(number > SEEN_SHARE)
      }),
    ],
  ]
}

/** The number of the row for each path, 0 for none. */
function pagesOf(
  values: readonly unknown[],
  paths: readonly unknown[],
  clean: CleanPath,
): Uint32Array {
  const rows = new Map(values.map((value, id) => [value, id]))
  return Uint32Array.from(paths, (path) => {
    const text = path === undefined || path === null ? '' : propertyText(path)
    return text === '' ? 0 : (rows.get(clean(text)) ?? 0)
  })
}

/** Groups of a session and a whole language, counted by language. */
function byLanguage(
  groups: Groups,
  { values }: Pick<ValueColumn, 'values'>,
): [Groups, readonly unknown[]] {
  const [current, previous] = countOf(groups, values.length)
  const labels = languageLabels(
    values,
    current.map((count, id) => count + (previous[id] ?? 0)),
  )
  return [{ ...groups, values: groups.values.map((id) => labels.ids[id] ?? 0) }, labels.values]
}

/** The rows that somebody visited in one of the ranges. */
function tableOf(
  plan: TablePlan,
  values: readonly unknown[],
  visitors: ByRange,
  numbers: Numbers,
): StatsTable {
  const shown = numbers.map(([column, [current, before]]) => {
    const isCount = column === 'visitors' || column === 'views'
    // As the original does it.
    const none = isOfEntries(plan) && isCount ? 0 : null
    return (id: number): Cell => [
      numberAt(current, id),
      plan.previous === null ? none : numberAt(before, id),
    ]
  })
  const rows = values.flatMap((value, id) => {
    const isVisited = (visitors[0][id] ?? 0) > 0 || (visitors[1][id] ?? 0) > 0
    return id === 0 || !isVisited ? [] : [{ value, cells: shown.map((cellOf) => cellOf(id)) }]
  })
  return { columns: numbers.map(([column]) => column), rows }
}

function numberAt(numbers: Float64Array, id: number): number | null {
  const number = numbers[id] ?? Number.NaN
  return Number.isNaN(number) ? null : number
}
