/**
 * The kind `WebTrendsQuery`: the figures of `WebOverviewQuery` for each period of a range, so that a chart and the
 * figures above it agree. Source: docs/compatibility/queries.md, "WebTrendsQuery".
 */
import type { Interval, Periods } from '../../analytics/periods.ts'
import { bucketDays, bucketsOf, resolvedRange } from '../query-buckets.ts'
import type { QueryFields } from '../query-fields.ts'
import type { QueryKind, QueryShard } from '../query-kind.ts'
import { type QueryRange, readInterval } from '../query-range.ts'
import { CURRENT, PREVIOUS, WebEvents } from './candidates.ts'
import {
  type ByRange,
  type Counted,
  convertedOf,
  counted,
  merged,
  sumOf,
  visitorsOf,
} from './counted.ts'
import { idsOfSessions } from './rows.ts'
import { VIEW_SERIES } from './sessions.ts'
import { rangeOf, readWebPlan, type WebPlan } from './web-plan.ts'

/**
 * The figures, by the names that requests use. All figures except those that count persons can be summed over periods.
 */
const METRICS = {
  UniqueUsers: visitorsOf,
  PageViews: (found) => sumOf(found, 'events 0'),
  Sessions: (found) => sumOf(found, 'sessions'),
  // PostHog accepts both names for the same number.
  TotalSessions: (found) => sumOf(found, 'sessions'),
  SessionDuration: (found) => sumOf(found, 'duration'),
  Bounces: (found) => sumOf(found, 'bounces'),
  TotalConversions: (found) => sumOf(found, 'events 1'),
  UniqueConversions: convertedOf,
} as const satisfies Readonly<Record<string, (found: Counted) => ByRange>>

type Metric = keyof typeof METRICS
const METRIC_NAMES = Object.keys(METRICS) as readonly Metric[]
/** The figures that need a goal. */
const GOAL_METRICS: readonly Metric[] = ['TotalConversions', 'UniqueConversions']

interface WebTrendsPlan extends WebPlan {
  readonly interval: Interval
  readonly metrics: readonly Metric[]
}

/** The kind for figures of a site over time. */
export const WEB_TRENDS: QueryKind<WebTrendsPlan, Counted> = {
  dividedBy: 'sessions',
  rangeOf,
  isOfOneThread: true,
  plan(query, context) {
    const plan = readWebPlan(query, context)
    const interval = readInterval(query)
    // Refuse too many periods before any event is scanned.
    for (const range of rangesOf(plan)) bucketsIn(range, interval)
    return { ...plan, interval, metrics: readMetrics(query, plan.goal !== null) }
  },
  partPlan: ({ metrics: _, ...plan }) => plan,
  partial: countedOf,
  combine: merged,
  merge: (_, parts) => merged(parts),
  page({ current, previous, interval, metrics }, found) {
    const idOf = new Map(found.values.map((value, id) => [value, id]))
    const figures = metrics.map((name) => [name, METRICS[name](found)] as const)
    const itemsOf = (range: QueryRange, place: 0 | 1) => {
      const days = bucketDays({ ...range, interval }, bucketsIn(range, interval))
      return days.map((bucket, index) => {
        const id = idOf.get(index) ?? 0
        const numbers = figures.map(([name, byRange]) => [name, byRange[place][id] ?? 0] as const)
        return { bucket, metrics: Object.fromEntries(numbers) }
      })
    }
    const before = previous === null ? null : itemsOf(previous, 1)
    const results = itemsOf(current, 0).map((item, index) =>
      before === null ? item : { ...item, previous: before[index] ?? null },
    )
    return { results, members: { ...resolvedRange(current), usedPreAggregatedTables: false } }
  },
}

function readMetrics(query: QueryFields, hasGoal: boolean): readonly Metric[] {
  const names = query.texts('metrics')
  const metrics = METRIC_NAMES.filter((name) => names.includes(name))
  if (metrics.length < new Set(names).size) {
    throw query.fault('metrics', `must be a list of ${METRIC_NAMES.join(', ')}`)
  }
  const unknown = hasGoal ? undefined : metrics.find((name) => GOAL_METRICS.includes(name))
  if (unknown !== undefined) {
    throw query.fault('metrics', `cannot have ${unknown} without a \`conversionGoal\``)
  }
  return metrics.length === 0 ? ['UniqueUsers'] : metrics
}

/** Counts the events by the period in which their session begins. The value of a period is its number. */
function countedOf(plan: WebTrendsPlan, shard: QueryShard): Counted {
  const { filters, interval, goal } = plan
  const series = goal === null ? [VIEW_SERIES] : [VIEW_SERIES, goal]
  const events = new WebEvents(plan, shard)
  const { rows, ranges } = events.candidates({ series, filters, isByStart: true })
  const { table } = events.properties
  // The ranges may overlap. A session that is in both ranges belongs to a different period of each range, so each range
  // is counted separately.
  const parts = rangesOf(plan).map((range, place) => {
    const buckets = bucketsIn(range, interval)
    const ofSession = table.first.timesMs.map((startMs) =>
      // NaN means that there is no session with this number.
      Number.isNaN(startMs) ? 0 : buckets.indexOf(startMs) + 1,
    )
    const ids = idsOfSessions(rows, Uint32Array.from(ofSession))
    const bit = place === 0 ? CURRENT : PREVIOUS
    const values = [undefined, ...Array.from({ length: buckets.count }, (_, index) => index)]
    return counted(
      { rows, ranges: ranges.map((bits) => bits & bit), ids, values, seriesCount: series.length },
      { duration: table.durations, bounces: table.bounces },
      shard.scanner,
    )
  })
  return merged(parts)
}

function rangesOf({ current, previous }: WebPlan): readonly QueryRange[] {
  return previous === null ? [current] : [current, previous]
}

function bucketsIn(range: QueryRange, interval: Interval): Periods {
  return bucketsOf({ ...range, interval })
}
