/**
 * The kind `WebStatsTableQuery`: the visitors, views, bounces, conversions or frustration of a site, by page, source,
 * device and other breakdowns. Source: docs/compatibility/queries.md, "WebStatsTableQuery".
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
  languageNames,
  sessionColumn,
} from './breakdowns.ts'
import { type RowWish, WebEvents } from './candidates.ts'
import { relabeled } from './columns.ts'
import {
  type ByRange,
  type Countable,
  type Counted,
  convertedOf,
  counted,
  groupsOf,
  meanOf,
  merged,
  NOBODY,
  type OfSessions,
  quotient,
  renamed,
  sumOf,
  sumsOf,
  visitorsOf,
} from './counted.ts'
import { AS_IT_IS, type CleanPath } from './path-cleaning.ts'
import { idsByRow, idsOfSessions } from './rows.ts'
import { namedSeries, VIEW_SERIES } from './sessions.ts'
import {
  type Cell,
  readPaging,
  type StatsColumn,
  type StatsPaging,
  type StatsTable,
  statsPage,
} from './stats-rows.ts'
import { rangeOf, readWebPlan, type WebPlan, withKey, withoutKey } from './web-plan.ts'

const PATHNAME = '$pathname'
const PREVIOUS_PATHNAME = '$prev_pageview_pathname'
/** A visitor who saw more than this share of a page counts in the column `scroll_gt80_percentage`. */
const SEEN_SHARE = 0.8
const FRUSTRATIONS = ['$exception', '$rageclick', '$dead_click'].map((name) => namedSeries([name]))
const NO_VALUES: ValueColumn = { ids: new Uint32Array(0), values: [undefined] }

/** The parts of a query that decide which table is computed. */
interface TablePlan extends WebPlan {
  readonly breakdown: BreakdownName
  readonly includesBounces: boolean
  readonly includesScroll: boolean
  readonly isCleaned: boolean
}

interface StatsPlan extends TablePlan {
  readonly paging: StatsPaging
}

/** The columns of the table. Each column has one number for each breakdown value and range. */
type Numbers = readonly (readonly [column: StatsColumn, numbers: ByRange])[]

/** The kind for tables of a site. */
export const WEB_STATS_TABLE: QueryKind<StatsPlan, Counted | StatsTable> = {
  dividedBy: 'sessions',
  rangeOf,
  // Average scroll percentages are not whole numbers. Their sums would depend on how the events are divided into parts,
  // because of rounding.
  isWhole: (plan) => isOfEntries(plan) && plan.includesScroll,
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
  // All pages of a table share the same parts.
  partPlan: ({ paging: _, ...plan }) => plan,
  partial: countedOf,
  combine: (parts) => merged(parts as readonly Counted[]),
  merge(plan, parts) {
    // The parts contain counts. Only the merged result is a table.
    const found = merged(parts as readonly Counted[])
    if (plan.breakdown !== 'Language') return tableOf(plan, found)
    return tableOf(plan, renamed([found], languageNames(found.values, groupsOf(found))))
  },
  page: ({ paging }, whole) => statsPage(whole as StatsTable, paging),
}

function countedOf(plan: TablePlan, shard: QueryShard): Counted {
  const events = new WebEvents(plan, shard)
  const clean = plan.isCleaned ? events.clean : AS_IT_IS
  const { goal, filters, previous, breakdown } = plan
  if (isOfEntries(plan)) return pages(plan, events, clean)
  const names = goal === null ? [] : [goal]
  const isFrustration = breakdown === 'FrustrationMetrics'
  const series = isFrustration ? [...FRUSTRATIONS, VIEW_SERIES] : [VIEW_SERIES, ...names]
  const wish = { series, filters, isByStart: previous !== null }
  const hasBounces = plan.includesBounces && goal === null && !isFrustration
  const countable = countableBy(breakdown, wish, events, clean)
  return counted(countable, hasBounces ? bouncesOf(events) : {}, shard.scanner)
}

/** Returns whether the table lists pages, with the bounces of the sessions that began on each page. */
function isOfEntries({ breakdown, includesBounces, goal }: TablePlan): boolean {
  return breakdown === 'Page' && includesBounces && goal === null
}

function bouncesOf({ properties }: WebEvents): OfSessions {
  return { bounces: properties.table.bounces }
}

/** Returns the requested events with their breakdown values. */
function countableBy(
  breakdown: BreakdownName,
  wish: RowWish,
  events: WebEvents,
  clean: CleanPath,
): Countable {
  const { rows, ranges } = events.candidates(wish)
  const seriesCount = wish.series.length
  const ofSessions = sessionColumn(breakdown, events, clean)
  if (ofSessions !== null) {
    const { values } = ofSessions
    return { rows, ranges, ids: idsOfSessions(rows, ofSessions.ids), values, seriesCount }
  }
  const columns = events.valuesOf(rows, breakdownRequests(breakdown))
  const column = breakdownColumn(breakdown, columns, clean)
  return { rows, ranges, ids: idsByRow(rows, column), values: column.values, seriesCount }
}

/**
 * Counts pages, with the bounces of the sessions that began on them. An event counts in the range in which its session
 * begins.
 */
function pages(plan: TablePlan, events: WebEvents, clean: CleanPath): Counted {
  const { filters, includesScroll } = plan
  const { scanner } = events.shard
  const wish = { series: [VIEW_SERIES], isByStart: true }
  const views = counted(countableBy('Page', { ...wish, filters }, events, clean), {}, scanner)
  const plainFilters = includesScroll ? filters : withoutKey(filters, PATHNAME)
  const entered = countableBy('InitialPage', { ...wish, filters: plainFilters }, events, clean)
  const { values, sums } = counted({ ...entered, seriesCount: 0 }, bouncesOf(events), scanner)
  const bounces = { bounces: sums['bounces'], 'bounces count': sums['bounces count'] }
  return merged([
    views,
    { values, sums: bounces as Counted['sums'], persons: NOBODY },
    ...(includesScroll ? [scrollOf(plan, events, clean)] : []),
  ])
}

/** Counts how far visitors had scrolled on a page when they left it. */
function scrollOf({ filters }: TablePlan, events: WebEvents, clean: CleanPath): Counted {
  const keys = [
    PREVIOUS_PATHNAME,
    '$prev_pageview_max_scroll_percentage',
    '$prev_pageview_max_content_percentage',
  ]
  const { rows, ranges } = events.candidates({
    series: [namedSeries(['$pageview', '$pageleave', '$screen'])],
    filters: withKey(filters, PATHNAME, PREVIOUS_PATHNAME),
    isByStart: true,
  })
  const [paths, scrolled, seen] = events.valuesOf(
    rows,
    keys.map((key) => ({ kind: 'event_property', key })),
  )
  const { ids, values } = relabeled(paths ?? NO_VALUES, (path) => {
    const text = path === undefined || path === null ? '' : propertyText(path)
    return text === '' ? undefined : clean(text)
  })
  const countable = { rows, ranges, ids: idsByRow(rows, { ids, values }), values }
  const numbersAt = (column: ValueColumn = NO_VALUES) => {
    const numbers = Float64Array.from(column.values, (value) => numberOf(propertyText(value)))
    const byRow = idsByRow(rows, column)
    return (row: number): number => numbers[byRow[row] ?? 0] ?? Number.NaN
  }
  const seenAt = numbersAt(seen)
  const isSeen = (row: number): number => {
    const share = seenAt(row)
    return Number.isNaN(share) ? share : Number(share > SEEN_SHARE)
  }
  return {
    values,
    sums: {
      ...sumsOf(countable, 'scroll', numbersAt(scrolled)),
      ...sumsOf(countable, 'seen', isSeen),
    },
    persons: NOBODY,
  }
}

/** Returns the numbers of each column. */
function numbersOf(plan: TablePlan, found: Counted): Numbers {
  const visitors = visitorsOf(found)
  if (plan.goal !== null) {
    const converted = convertedOf(found)
    const rate: ByRange = [quotient(converted[0], visitors[0]), quotient(converted[1], visitors[1])]
    return [
      ['visitors', visitors],
      ['total_conversions', sumOf(found, 'events 1')],
      ['unique_conversions', converted],
      ['conversion_rate', rate],
    ]
  }
  const scroll: Numbers = [
    ['average_scroll_percentage', meanOf(found, 'scroll')],
    ['scroll_gt80_percentage', meanOf(found, 'seen')],
  ]
  return [
    ['visitors', visitors],
    ['views', sumOf(found, 'events 0')],
    ...(plan.includesBounces ? [['bounce_rate', meanOf(found, 'bounces')] as const] : []),
    ...(isOfEntries(plan) && plan.includesScroll ? scroll : []),
  ]
}

function frustrationOf(found: Counted): Numbers {
  return [
    ['rage_clicks', sumOf(found, 'events 1')],
    ['dead_clicks', sumOf(found, 'events 2')],
    ['errors', sumOf(found, 'events 0')],
  ]
}

/** Returns the rows that have visitors in at least one of the ranges. */
function tableOf(plan: TablePlan, found: Counted): StatsTable {
  const isFrustration = plan.breakdown === 'FrustrationMetrics'
  const numbers = isFrustration ? frustrationOf(found) : numbersOf(plan, found)
  const visitors = visitorsOf(found)
  const shown = numbers.map(([column, [current, before]]) => {
    const isCount = column === 'visitors' || column === 'views'
    // If there is no comparison range, PostHog shows no previous numbers, with one exception: in a page table with
    // bounces, the previous visitors and views are 0.
    const none = isOfEntries(plan) && isCount ? 0 : null
    return (id: number): Cell => [
      numberAt(current, id),
      plan.previous === null ? none : numberAt(before, id),
    ]
  })
  const rows = found.values.flatMap((value, id) => {
    const isVisited = (visitors[0][id] ?? 0) > 0 || (visitors[1][id] ?? 0) > 0
    return id === 0 || !isVisited ? [] : [{ value, cells: shown.map((cellOf) => cellOf(id)) }]
  })
  return { columns: numbers.map(([column]) => column), rows }
}

function numberAt(numbers: Float64Array, id: number): number | null {
  const number = numbers[id] ?? Number.NaN
  return Number.isNaN(number) ? null : number
}
