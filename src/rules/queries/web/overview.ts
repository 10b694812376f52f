/**
 * The kind `WebOverviewQuery`: the visitors, views, sessions, session duration and bounce rate of a site. With a goal,
 * it shows conversions instead. Source: docs/compatibility/queries.md, "WebOverviewQuery".
 */
import { wallOf } from '../../../base/time-zone.ts'
import { bucketDay } from '../query-buckets.ts'
import type { QueryKind, QueryShard } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { WebEvents } from './candidates.ts'
import {
  type ByRange,
  type Counted,
  convertedOf,
  counted,
  meanOf,
  merged,
  quotient,
  sumOf,
  visitorsOf,
} from './counted.ts'
import { VIEW_SERIES } from './sessions.ts'
import { countedVisits, isOfVisits } from './visits.ts'
import { rangeOf, readWebPlan, type WebPlan } from './web-plan.ts'

/** A figure in the current and the previous range. Null means that the figure does not exist. */
type Pair = readonly [current: number | null, previous: number | null]

interface OverviewPlan extends WebPlan {
  readonly isShownBefore: boolean
}

/** The kind for the overview of a site. */
export const WEB_OVERVIEW: QueryKind<OverviewPlan, Counted | readonly Pair[]> = {
  dividedBy: 'sessions',
  rangeOf,
  isOfOneThread: true,
  plan(query, context) {
    const isShownBefore = query.within('compareFilter').boolean('compare')
    return { ...readWebPlan(query, context), isShownBefore }
  },
  partial: (plan, shard) =>
    shard.part?.isPiece === true && isOfVisits(plan)
      ? countedVisits(plan, shard)
      : countedOf(plan, shard),
  combine: (parts) => merged(parts as readonly Counted[]),
  // The parts contain counts. Only the merged result is a list of figures.
  merge: (plan, parts) => figuresOf(plan, merged(parts as readonly Counted[])),
  page({ goal, current, isShownBefore }, whole) {
    const items = goal === null ? ITEMS : GOAL_ITEMS
    const results = items.map(([key, kind], index) => {
      const scale = kind === 'percentage' ? 100 : 1
      const [value, previous] = ((whole as readonly Pair[])[index] ?? [null, null]).map((number) =>
        number === null ? null : number * scale,
      )
      const before = isShownBefore ? (previous ?? null) : null
      return {
        key,
        kind,
        value: value ?? null,
        previous: before,
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

/** Counts all events under one value. */
function countedOf({ goal, filters, ...plan }: WebPlan, shard: QueryShard): Counted {
  const series = goal === null ? [VIEW_SERIES] : [VIEW_SERIES, goal]
  const events = new WebEvents({ ...plan, goal, filters }, shard)
  const { rows, ranges } = events.candidates({ series, filters, isByStart: true })
  const { table } = events.properties
  const ids = new Uint32Array(rows.count).fill(1)
  return counted(
    { rows, ranges, ids, values: [undefined, ''], seriesCount: series.length },
    { duration: table.durations, bounces: table.bounces },
    shard.scanner,
  )
}

/** Returns the figures of both ranges, in the order of `ITEMS` or `GOAL_ITEMS`. */
function figuresOf({ goal }: WebPlan, found: Counted): readonly Pair[] {
  const visitors = visitorsOf(found)
  if (goal !== null) {
    const converted = convertedOf(found)
    const rate: ByRange = [quotient(converted[0], visitors[0]), quotient(converted[1], visitors[1])]
    return [visitors, sumOf(found, 'events 1'), converted, rate].map(pairOf)
  }
  return [
    visitors,
    sumOf(found, 'events 0'),
    sumOf(found, 'sessions'),
    meanOf(found, 'duration'),
    meanOf(found, 'bounces'),
  ].map(pairOf)
}

/**
 * Returns the change in per cent, rounded half to even. Returns null if a number is missing or the earlier number is 0.
 */
function changeOf(value: number | null, previous: number | null): number | null {
  if (value === null || previous === null || previous === 0) return null
  const change = (100 * (value - previous)) / previous
  const below = Math.floor(change)
  if (change - below !== 0.5) return Math.round(change)
  return below % 2 === 0 ? below : below + 1
}

/** Returns the numbers of the only breakdown value, which is at position 1. */
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
