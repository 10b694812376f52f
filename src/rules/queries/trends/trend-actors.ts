/**
 * Finds the actors behind a number of a trend: every person or group with an event of the series in the bucket.
 * Source: docs/compatibility/queries.md, "TrendsQuery".
 */
import { addDays, addMonths, hourStart, momentOf, type Wall } from '../../../base/time-zone.ts'
import { type ActorRows, rowsByActor } from '../../analytics/actor-rows.ts'
import type { ValueRequest } from '../../analytics/event-columns.ts'
import { shiftedPeriodStart } from '../../analytics/periods.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import { propertyText } from '../../filters/property-text.ts'
import { breakdownText, NULL_LABEL, OTHER_LABEL } from '../query-breakdown.ts'
import { bucketRules } from '../query-buckets.ts'
import type { QueryFields } from '../query-fields.ts'
import type { QueryActors, QueryShard } from '../query-kind.ts'
import { type QueryRange, readDate } from '../query-range.ts'
import { cohortFilter } from './trend-counts.ts'
import { actorsOfRows, binTest, scanRows, type TrendRows } from './trend-rows.ts'
import { activePeriods, spanOf } from './trend-spans.ts'
import type { TrendSeries, TrendsPlan } from './trends-plan.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

/**
 * Returns the actors behind the number that `pick` selects. Throws 400, see `invalidQuery`, and the same errors as
 * `EventScanner.scan`.
 */
export function trendActors(plan: TrendsPlan, pick: QueryFields, shard: QueryShard): QueryActors {
  pick.choice('compare', ['current'])
  const index = pick.whole('series', 0, plan.series.length - 1) ?? 0
  const series = plan.series[index]
  const [range] = plan.ranges
  if (series === undefined || range === undefined)
    throw pick.fault('series', 'must be the index of a series, counted from 0')
  const { measure, exists } = series
  const group =
    measure.of === 'actors' && measure.actor?.kind === 'group_key' ? measure.actor : null
  const groupTypeIndex = group?.typeIndex ?? null
  const [fromMs, toMs] = eventsOf(plan, series, range, pick, shard)
  const wanted = readWantedValue(plan, pick)
  if (!exists || fromMs > toMs)
    return { groupTypeIndex, persons: [], groupKeys: [], eventCounts: [], distinctIds: [] }
  const { persons } = wanted
  const wish = { fromMs, toMs, isUntimed: true, persons }
  const rows = scanRows(plan, series, wish, shard)
  let distinctIds: readonly (readonly string[])[] | undefined
  const { columns, measured } = rows
  const actorOf = group === null ? columns.persons : actorsOfRows(rows, series)
  const chosen = rowsPassing(rows, wanted.tests)
  const found = rowsByActor(actorOf, columns.count, chosen)
  const firstRows = Array.from(found.keys, (_, actor) => found.rows[found.starts[actor] ?? 0] ?? 0)
  return {
    groupTypeIndex,
    persons: group === null ? [...found.keys] : [],
    groupKeys:
      group === null
        ? []
        : firstRows.map((row) => propertyText(measured?.values[measured.ids[row] ?? 0])),
    eventCounts: Array.from(
      found.keys,
      (_, actor) => (found.starts[actor + 1] ?? 0) - (found.starts[actor] ?? 0),
    ),
    // Only a few callers need the distinct ids, and reading texts is slow, so they are read when they are accessed.
    get distinctIds() {
      distinctIds ??= distinctIdsOf(found, scanRows(plan, series, wish, shard, DISTINCT_ID))
      return distinctIds
    },
  }
}

const DISTINCT_ID: ValueRequest = { kind: 'distinct_id' }

/** Returns, for each actor, the distinct ids of its events, without duplicates and in the order of the scan. */
function distinctIdsOf({ keys, starts, rows }: ActorRows, { columns }: TrendRows) {
  const column = columns.values.at(-1)
  return Array.from(keys, (_, actor) => {
    const own = rows.subarray(starts[actor], starts[actor + 1])
    const ids = new Set(Array.from(own, (row) => column?.ids[row] ?? 0))
    return Array.from(ids, (id) => propertyText(column?.values[id]))
  })
}

/** Returns the first and last moment of the events behind the number, in milliseconds. */
function eventsOf(
  plan: TrendsPlan,
  { measure }: TrendSeries,
  range: QueryRange,
  pick: QueryFields,
  { context: { timezone, nowMs } }: QueryShard,
): readonly [fromMs: number, toMs: number] {
  if (plan.isTotal) {
    if (pick.isGiven('day'))
      throw pick.fault(
        'day',
        'must be left out, because the query asks for one total and not for days',
      )
    const { fromMs, toMs } = spanOf(measure, range, true)
    return range.fromMs > range.toMs ? NOTHING : [fromMs, toMs]
  }
  const read = readDate(pick.text('day') ?? '', timezone, nowMs)
  if (read?.kind !== 'absolute') {
    throw pick.fault('day', 'must be a date from the `days` of the answer')
  }
  const dayMs = read.momentMs
  const activeDays = measure.of === 'actors' ? measure.activeDays : null
  if (activeDays !== null) {
    const { periods } = activePeriods(dayMs, dayMs, activeDays, range)
    const untilMs = periods.startMs(periods.count)
    return [periods.startMs(0), range.isExplicit ? Math.min(range.toMs, untilMs - 1) : untilMs - 1]
  }
  const untilMs = bucketEnd(read.wall, dayMs, range)
  return range.isExplicit
    ? [Math.max(range.fromMs, dayMs), Math.min(range.toMs, untilMs - 1)]
    : [dayMs, untilMs - 1]
}

const NOTHING = [0, -1] as const

/** Returns the end of the bucket that begins at a moment. */
function bucketEnd(wall: Wall, startMs: number, { interval, timezone }: QueryRange): number {
  if (interval === 'minute') return startMs + MINUTE_MS
  if (interval === 'hour') {
    // If the clocks change by a part of an hour, for example by 30 minutes, a bucket may not begin at a full hour. Such
    // a bucket ends one hour after its start.
    const isStart = hourStart(startMs, timezone) === startMs
    const rules = bucketRules({ interval, timezone })
    return isStart ? shiftedPeriodStart(startMs, 1, rules) : startMs + HOUR_MS
  }
  const end = interval === 'month' ? addMonths(wall, 1) : addDays(wall, interval === 'week' ? 7 : 1)
  return momentOf(end, timezone)
}

/** The breakdown value whose actors are requested. */
interface WantedValue {
  /** A filter for the persons. Null means everybody. */
  readonly persons: FilterGroup | null
  /** For each property, the test of its value. Null means any value. */
  readonly tests: readonly (((value: unknown) => boolean) | null)[]
}

function readWantedValue({ breakdown }: TrendsPlan, pick: QueryFields): WantedValue {
  const given = pick.value('breakdown')
  if (given === undefined) return { persons: null, tests: [] }
  if (breakdown === null)
    throw pick.fault('breakdown', 'must be left out, because the query has no breakdown')
  const values: readonly unknown[] = Array.isArray(given) ? given : [given]
  const { cohorts, properties } = breakdown
  if (cohorts.length > 0) {
    const [value] = values
    if (value === OTHER_LABEL) return { persons: null, tests: [] }
    const cohort = cohorts.find((one) => String(one) === String(value))
    if (cohort === undefined || values.length > 1) {
      throw pick.fault('breakdown', 'must be the number of one of the cohorts of the breakdown')
    }
    return { persons: cohortFilter(cohort), tests: [] }
  }
  if (values.length !== properties.length) {
    throw pick.fault('breakdown', 'must have a value for each property of the breakdown')
  }
  const tests = properties.map((property, index) => {
    const text = propertyText(values[index] ?? NULL_LABEL)
    if (text === OTHER_LABEL) return null
    if (property.binCount === null) {
      return (value: unknown) => (breakdownText(value, property) ?? NULL_LABEL) === text
    }
    if (text === NULL_LABEL) return (value: unknown) => Number.isNaN(readNumber(value))
    const isInBin = binTest(text)
    if (isInBin !== null) return isInBin
    throw pick.fault('breakdown', 'must be a bin such as [10,20]')
  })
  return { persons: null, tests }
}

/** Returns the rows that pass the tests of all values. Null means all rows. */
function rowsPassing(
  { columns, chosen }: TrendRows,
  tests: WantedValue['tests'],
): Uint32Array | null {
  let rows = chosen
  for (const [index, test] of tests.entries()) {
    const column = columns.values[index]
    if (test === null || column === undefined) continue
    const passes = column.values.map((value) => test(value))
    const before = rows ?? Uint32Array.from({ length: columns.count }, (_, row) => row)
    rows = before.filter((row) => passes[column.ids[row] ?? 0] === true)
  }
  return rows
}
