/**
 * The kind `StickinessQuery`: for each number of intervals, how many actors had events in that many intervals of a
 * range. Source: docs/compatibility/queries.md, "StickinessQuery".
 */
import { rowsByActor } from '../analytics/actor-rows.ts'
import type { DistinctIdOwners } from '../analytics/event-columns.ts'
import type { Periods } from '../analytics/periods.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import { type ActorEvents, ActorKeys, ActorNumbers } from './actor-events.ts'
import { checkPoints } from './answer-formats.ts'
import { lengthCounts, ownerBits } from './owner-bits.ts'
import { PacedLimits, type QueryLimits } from './paced-limits.ts'
import {
  actorRanges,
  addPeriodCounts,
  type CountTest,
  isPlain,
  periodBits,
  timesWanted,
} from './period-bits.ts'
import { areBitsSmall, type IdBits, isOfBits, mergeBits, scanIdBits } from './person-bits.ts'
import {
  NO_URLS,
  PersonsUrls,
  rangeParameters,
  targetParameters,
  type UrlMaker,
} from './persons-urls.ts'
import { bucketCount, bucketsOf, resolvedRange } from './query-buckets.ts'
import type { QueryFields } from './query-fields.ts'
import { readGlobalFilter } from './query-filters.ts'
import { type QueryKind, type QueryShard, scanShard } from './query-kind.ts'
import {
  eventsFromMs,
  type QueryRange,
  readComparedRange,
  readInterval,
  readRange,
} from './query-range.ts'
import { type QuerySeries, type ReadSeries, readSeriesList } from './query-series.ts'

/** A series, with the index of the group type that it counts. A null index means that the series counts persons. */
type StickinessSeries = ReadSeries<number | null>

interface StickinessPlan {
  /** The series, without those whose action does not exist. */
  readonly series: readonly StickinessSeries[]
  readonly filter: FilterGroup | null
  /** The range of the query, and the comparison range if there is one. */
  readonly ranges: readonly [QueryRange, ...QueryRange[]]
  readonly isCumulative: boolean
  readonly test: CountTest | null
  readonly hasPersonsUrls: boolean
}

/**
 * The result for a part of the events, for each range and each series. If the events are divided by segments, the
 * result is the bits of the active distinct ids. Otherwise, it is a list in which entry k is the number of actors that
 * were active in exactly k + 1 intervals.
 */
type StickinessPart = readonly (readonly (IdBits | Uint32Array)[])[]

/** The number of intervals in which each actor of a series was active. */
interface SeriesCounts {
  /** The number of intervals in which each actor was active, indexed by actor number. */
  readonly counts: Uint32Array
  readonly keys: ActorKeys
  readonly numbers: ActorNumbers
}

/** The kind for stickiness. */
export const STICKINESS_QUERY: QueryKind<StickinessPlan, StickinessPart> = {
  dividedBy({ series, ranges, test }, lastDistinctId) {
    if (series.some(({ more }) => more !== null)) return 'nothing'
    const periods = ranges.reduce((sum, range) => sum + bucketsOf(range).count, 0)
    const areBits = isPlain(test) && areBitsSmall(periods * series.length, lastDistinctId)
    return areBits ? 'segments' : 'persons'
  },

  workOf({ series, filter, test }) {
    const isByNames =
      filter === null &&
      series.every(({ series: { match } }) => match.filter === null && match.steps.length === 0)
    return isByNames && isPlain(test) ? 'simple' : 'much'
  },

  // `page` reads the owners of distinct ids. They can change, but `page` must see them as they were for the parts.
  isOfOneState: () => true,

  plan(query, context) {
    const fields = query.within('stickinessFilter')
    const range = readRange(query, readInterval(query), context)
    const compared = readComparedRange(query, range)
    query.whole('intervalCount', 1, 1)
    // A range with too many intervals is refused below.
    const ranges: StickinessPlan['ranges'] = compared === null ? [range] : [range, compared]
    const series = readSeriesList(query, context, 1, groupTypeOf)
    let numbers = 0
    for (const one of ranges) numbers += bucketCount(one, bucketsOf(one)) * series.length
    checkPoints(numbers)
    return {
      ranges,
      series: series.filter(({ series }) => series.exists),
      filter: readGlobalFilter(query, context),
      isCumulative: fields.choice('computedAs', ['non_cumulative', 'cumulative']) === 'cumulative',
      test: readTest(fields),
      hasPersonsUrls: query.boolean('persons_urls'),
    }
  },

  rangeOf: ({ ranges }) => ({
    fromMs: Math.min(...ranges.map(eventsFromMs)),
    toMs: Math.max(...ranges.map(({ toMs }) => toMs)),
  }),

  partial: (plan, shard) =>
    plan.ranges.map((range) => {
      if (isOfBits(shard.part)) return bitsOf(plan, range, shard)
      return countsOf(plan, plan.series, range, shard).map(({ counts }) => lengths(counts, range))
    }),

  merge: ({ ranges, series }, parts) =>
    ranges.map((_, range) =>
      series.map((__, place) =>
        merged(parts.map((part) => part[range]?.[place]).filter((one) => one !== undefined)),
      ),
    ),

  page(plan, whole, { context, scanner }) {
    const { series, ranges, isCumulative } = plan
    const owners = scanner.owners(context.projectId)
    const urls = plan.hasPersonsUrls ? new PersonsUrls(context) : null
    const results = series.flatMap((one, place) =>
      ranges.map((range, index) => {
        const data = dataOf(whole[index]?.[place], range, owners, scanner)
        return {
          ...itemOf(one.series, range, data, isCumulative),
          ...(urls === null ? {} : urlMembers(urlsOf(urls, plan, one, range), data)),
          ...(ranges.length === 1
            ? {}
            : { compare: true, compare_label: index === 0 ? 'current' : 'previous' }),
        }
      }),
    )
    return { results, members: resolvedRange(ranges[0]) }
  },

  actors(plan, pick, shard) {
    const wanted = pick.whole('day', 1)
    if (wanted === null) throw pick.fault('day', 'is missing. Send a number of intervals')
    const series = pickedSeries(plan.series, pick)
    const [found] = countsOf(plan, [series], plan.ranges[0], shard)
    if (found === undefined) return { groupTypeIndex: series.more, persons: [], groupKeys: [] }
    const picked: number[] = []
    for (const [actor, count] of found.counts.entries()) {
      const isPicked = plan.isCumulative ? count >= wanted : count === wanted
      if (isPicked) picked.push(found.numbers.keyOf(actor))
    }
    return found.keys.actors(picked)
  },
}

/**
 * Returns a list whose entry k is the number of actors that were active in exactly k + 1 intervals. `counts` contains
 * the number of intervals of each actor.
 */
function lengths(counts: Uint32Array, range: QueryRange): Uint32Array {
  const data = new Uint32Array(bucketCount(range, bucketsOf(range)))
  for (const count of counts) if (count > 0) data[count - 1] = (data[count - 1] ?? 0) + 1
  return data
}

/** Merges the results of parts. If there are no results, the range is empty. */
function merged(all: readonly (IdBits | Uint32Array)[]): IdBits | Uint32Array {
  const [first = new Uint32Array(), ...rest] = all.filter(isCounts)
  const bits = all.filter((one): one is IdBits => !isCounts(one))
  if (bits.length > 0) return mergeBits(bits)
  return first.map((count, index) => rest.reduce((sum, other) => sum + (other[index] ?? 0), count))
}

function dataOf(
  found: IdBits | Uint32Array | undefined,
  range: QueryRange,
  owners: DistinctIdOwners,
  limits: QueryLimits,
): Uint32Array {
  if (found === undefined || isCounts(found)) return found ?? new Uint32Array()
  const counts = lengthCounts(ownerBits(found, owners, limits))
  return counts.subarray(1, bucketCount(range, bucketsOf(range)) + 1)
}

function isCounts(found: IdBits | Uint32Array): found is Uint32Array {
  return found instanceof Uint32Array
}

/** Returns the bits of the active distinct ids for each series. Returns an empty list for an empty range. */
function bitsOf(
  { filter, series }: StickinessPlan,
  range: QueryRange,
  shard: QueryShard,
): readonly IdBits[] {
  const scan = { fromMs: eventsFromMs(range), toMs: range.toMs, filter }
  if (series.length === 0 || scan.fromMs > scan.toMs) return []
  const match = series.map((one) => one.series.match)
  const found = scanIdBits(shard, { ...scan, series: match }, bucketsOf(range))
  shard.scanner.releaseResults()
  return found
}

/**
 * Returns the maker of the URLs for the persons behind a number. The persons route only lists persons that had events
 * in an exact number of intervals, and it does not support intervals of a minute. For all other series, there are no
 * URLs.
 */
function urlsOf(
  urls: PersonsUrls,
  { filter, isCumulative, test }: StickinessPlan,
  { series, more }: StickinessSeries,
  range: QueryRange,
): UrlMaker {
  const { interval, toMs } = range
  if (isCumulative || test !== null || more !== null || interval === 'minute') return NO_URLS
  const dates = rangeParameters({ fromMs: eventsFromMs(range), toMs })
  return urls.of({
    route: 'stickiness',
    filter,
    series: [series],
    parameters: { ...targetParameters(series), interval, ...dates },
  })
}

function urlMembers(urlOf: UrlMaker, counts: Uint32Array) {
  return { persons_urls: Array.from(counts, (_, index) => urlOf({ stickiness_days: index + 1 })) }
}

/** Returns the series that is named in the member `series` of a request for actors. The default is the first one. */
function pickedSeries(series: readonly StickinessSeries[], pick: QueryFields): StickinessSeries {
  const order = pick.whole('series', 0) ?? series[0]?.series.order
  const found = series.find((one) => one.series.order === order)
  if (found === undefined)
    throw pick.fault('series', 'must be the index of a series, counted from 0')
  return found
}

function groupTypeOf(node: QueryFields): number | null {
  const math = node.choice('math', ['total', 'dau', 'unique_group'])
  const typeIndex = node.whole('math_group_type_index', 0, 4)
  if (math !== 'unique_group') return null
  if (typeIndex !== null) return typeIndex
  throw node.fault('math_group_type_index', 'is missing. Send the number of the group type')
}

function readTest(fields: QueryFields): CountTest | null {
  if (fields.value('stickinessCriteria') === undefined) return null
  const criteria = fields.within('stickinessCriteria')
  const operator = criteria.choice('operator', ['gte', 'lte', 'exact'])
  const value = criteria.whole('value', 0)
  if (value === null) throw criteria.fault('value', 'is missing. Send a number of events')
  return { operator, value }
}

/** Counts all series of a range with one scan. Returns an empty list for an empty range. */
function countsOf(
  { filter, test }: StickinessPlan,
  series: readonly StickinessSeries[],
  range: QueryRange,
  shard: QueryShard,
): readonly SeriesCounts[] {
  const types = [...new Set(series.map(({ more }) => more))]
  const kinds = types.map((typeIndex) => new ActorKeys(typeIndex))
  const fromMs = eventsFromMs(range)
  if (series.length === 0 || fromMs > range.toMs) return []
  const columns = scanShard(shard, {
    fromMs,
    toMs: range.toMs,
    filter,
    series: series.map((one) => one.series.match),
    values: kinds.flatMap(({ values }) => values),
  })
  const periods = bucketsOf(range)
  let place = 0
  const events = kinds.map((keys) => {
    const found = ActorNumbers.of(keys.keysOf(columns, place), columns.count)
    place += keys.values.length
    return { ...columns, ...found, keys }
  })
  const counted = series.flatMap(({ more }, bit) => {
    const own = events[types.indexOf(more)]
    if (own === undefined) return []
    const { keys, numbers } = own
    const [actorRange, second] = actorRanges(numbers.count, periods, test)
    let counts = new Uint32Array(numbers.count + 1)
    if (second !== undefined) counts = manyCounts(own, numbers.count, periods, bit, test, shard)
    else if (actorRange !== undefined) {
      const bits = periodBits(own, actorRange, periods, 1 << bit, test, shard.scanner)
      addPeriodCounts(bits, actorRange, counts)
    }
    return { counts, keys, numbers }
  })
  shard.scanner.releaseResults()
  return counted
}

/**
 * Returns the number of intervals in which each actor was active, indexed by actor number. This function is used if one
 * bit for each actor and interval would need too much memory. The events are grouped by actor, and the cost is linear
 * in the events.
 */
function manyCounts(
  { count, actors, timesMs, seriesMasks }: ActorEvents,
  actorCount: number,
  periods: Periods,
  bit: number,
  test: CountTest | null,
  { scanner }: QueryShard,
): Uint32Array<ArrayBuffer> {
  const { least, most } = timesWanted(test)
  const pace = new PacedLimits(scanner)
  const { keys, starts, rows } = rowsByActor(actors, count)
  const counts = new Uint32Array(actorCount + 1)
  // The number of events of the current actor in each interval. All entries are set to 0 again before the next actor.
  const times = new Uint32Array(periods.count)
  const met: number[] = []
  for (const [index, actor] of keys.entries()) {
    const end = starts[index + 1] ?? 0
    let place = starts[index] ?? 0
    pace.count(end - place)
    met.length = 0
    for (; place < end; place++) {
      const row = rows[place] ?? 0
      if (((seriesMasks[row] ?? 0) & (1 << bit)) === 0) continue
      const period = periods.indexOf(timesMs[row] ?? 0)
      const before = times[period] ?? 0
      if (before === 0) met.push(period)
      times[period] = before + 1
    }
    for (const period of met) {
      const number = times[period] ?? 0
      if (number >= least && number <= most) counts[actor] = (counts[actor] ?? 0) + 1
      times[period] = 0
    }
  }
  return counts
}

function itemOf(
  { order, label, customName }: QuerySeries,
  { interval }: QueryRange,
  exact: Uint32Array,
  isCumulative: boolean,
) {
  const counts = Array.from(exact)
  const count = counts.reduce((sum, one) => sum + one, 0)
  const days = counts.map((_, index) => index + 1)
  if (isCumulative) {
    for (let index = counts.length - 2; index >= 0; index--) {
      counts[index] = (counts[index] ?? 0) + (counts[index + 1] ?? 0)
    }
  }
  const more = isCumulative ? ' or more' : ''
  return {
    action: { id: label, type: 'events', order, name: label, custom_name: customName },
    label,
    count,
    data: counts,
    days,
    labels: days.map((day) => `${day} ${interval}${day === 1 ? '' : 's'}${more}`),
  }
}
