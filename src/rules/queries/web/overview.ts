/**
 * The figures of a site: visitors, views, sessions, how long they are and how many bounce; or, with a goal,
 * how many meet it. Source: docs/compatibility/queries.md, "WebOverviewQuery".
 */
import { wallOf } from '../../../base/time-zone.ts'
import { bucketDay } from '../query-buckets.ts'
import type { QueryKind, QueryShard } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { rememberedPart, WebEvents } from './candidates.ts'
import { type ByRange, countOf, meanOf, personsOf, plainGroups, quotient, sumOf } from './groups.ts'
import { durationOf, VIEW_SERIES } from './sessions.ts'
import { readWebPlan, type WebPlan } from './web-plan.ts'

/** A figure in both ranges; null: there is none. */
type Pair = readonly [current: number | null, previous: number | null]

interface OverviewPlan extends WebPlan {
  readonly isShownBefore: boolean
}

/** `WebOverviewQuery`. */
export const WEB_OVERVIEW: QueryKind<OverviewPlan, readonly Pair[]> = {
  dividedBy: 'nothing',
  isOfOneThread: true,
  plan(query, context) {
    const isShownBefore = query.within('compareFilter').boolean('compare')
    return { ...readWebPlan(query, context), isShownBefore }
  },
  partial: (plan, shard) =>
    rememberedPart(
      plan,
      shard,
      () => figures(plan, shard),
      (pairs) => pairs.length,
    ),
  merge: (_plan, [part = []]) => part,
  page({ goal, current, isShownBefore }, whole) {
    const items = goal === null ? ITEMS : GOAL_ITEMS
    const results = items.map(([key, kind], index) => {
      const scale = kind === 'percentage' ? 100 : 1
      const [value, previous] = (whole[index] ?? [null, null]).map((number) =>
        number === null ? null : number * scale,
      )
      const before = isShownBefore ? (previous ?? null) : null
      return {
        ...{ key, kind, value: value ?? null, previous: before },
        changeFromPreviousPct: changeOf(value ?? null, before),
        isIncreaseBad: key === 'bounce rate' ? true : null,
      }
    })
    const samplingRate = { numerator: 1, denominator: null }
    const dates = { dateFrom: wallText(current, 'fromMs'), dateTo: wallText(current, 'toMs') }
    return { results, members: { samplingRate, ...dates, usedPreAggregatedTables: false } }
  },
}

const ITEMS = [
  ['visitors', 'unit'],
  ['views', 'unit'],
  ['sessions', 'unit'],
  ['session duration', 'duration_s'],
  ['bounce rate', 'percentage'],
] as const
const GOAL_ITEMS = [
  ['visitors', 'unit'],
  ['total conversions', 'unit'],
  ['unique conversions', 'unit'],
  ['conversion rate', 'percentage'],
] as const

/** The figures of both ranges, in the order of the items. */
function figures(plan: WebPlan, shard: QueryShard): readonly Pair[] {
  const { goal, filters } = plan
  const series = goal === null ? [VIEW_SERIES] : [VIEW_SERIES, goal]
  const events = new WebEvents(plan, shard)
  const groups = plainGroups(events, { series, filters, isByStart: true })
  const { table } = events.properties
  const total = (numberIn: (group: number) => number): ByRange => sumOf(groups, 2, numberIn)
  const perSession = (numberIn: (session: number) => number): ByRange =>
    meanOf(groups, 2, (group) => numberIn(groups.sessions[group] ?? 0))
  const visitors = personsOf(groups, 2, null)
  const eventsOf = (index: number) => total((group) => groups.events[index]?.[group] ?? 0)
  if (goal !== null) {
    const converted = personsOf(groups, 2, 1)
    const rate: ByRange = [quotient(converted[0], visitors[0]), quotient(converted[1], visitors[1])]
    return [visitors, eventsOf(1), converted, rate].map(pairOf)
  }
  return [
    visitors,
    eventsOf(0),
    countOf(groups, 2),
    perSession((session) => durationOf(table, session)),
    perSession((session) => table.bounces[session] ?? Number.NaN),
  ].map(pairOf)
}

/** Per cent, rounded to even halves; null where nothing can be said. */
function changeOf(value: number | null, previous: number | null): number | null {
  if (value === null || previous === null || previous === 0) return null
  const change = (100 * (value - previous)) / previous
  const below = Math.floor(change)
  if (change - below !== 0.5) return Math.round(change)
  return below % 2 === 0 ? below : below + 1
}

/** The one value that all events share has the number 1. */
function pairOf([current, previous]: ByRange): Pair {
  return [numberAt(current), numberAt(previous)]
}

function numberAt(numbers: Float64Array): number | null {
  const number = numbers[1] ?? Number.NaN
  return Number.isNaN(number) ? null : number
}

function wallText(range: QueryRange, end: 'fromMs' | 'toMs'): string {
  const wall = wallOf(range[end], range.timezone)
  return `${bucketDay(wall, 'minute').slice(0, -2)}${String(wall[5]).padStart(2, '0')}`
}
