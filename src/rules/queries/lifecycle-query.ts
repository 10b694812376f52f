/**
 * The kind `LifecycleQuery`: the number of persons that were new, returning, resurrecting or dormant in each interval.
 * Source: docs/compatibility/queries.md, "LifecycleQuery".
 */
import type { JsonObject } from '../../base/json.ts'
import type { DistinctIdOwners } from '../analytics/event-columns.ts'
import { Periods, shiftedPeriodStart } from '../analytics/periods.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import { type ActorEvents, ActorKeys, ActorNumbers } from './actor-events.ts'
import { firstIdOfPersons, ownerBits } from './owner-bits.ts'
import { type ActorRange, actorRanges, bitCount, eachBit, periodBits } from './period-bits.ts'
import {
  areBitsSmall,
  bitsOfEvents,
  flatBits,
  type IdBits,
  isOfBits,
  mergeBits,
  type PersonBits,
  scanIdBits,
  wordsOfBits,
} from './person-bits.ts'
import {
  momentText,
  NO_URLS,
  PersonsUrls,
  rangeParameters,
  seriesParameters,
  type UrlMaker,
} from './persons-urls.ts'
import {
  bucketCount,
  bucketDays,
  bucketLabels,
  bucketRules,
  bucketsOf,
  resolvedRange,
} from './query-buckets.ts'
import { readGlobalFilter } from './query-filters.ts'
import { type QueryContext, type QueryKind, type QueryShard, scanShard } from './query-kind.ts'
import { type QueryRange, readDate, readInterval, readRange } from './query-range.ts'
import { type QuerySeries, readSeriesList } from './query-series.ts'

const STATUSES = ['new', 'returning', 'resurrecting', 'dormant'] as const

/** The status of a person in an interval. */
type Status = (typeof STATUSES)[number]

interface LifecyclePlan {
  readonly series: QuerySeries
  readonly action: JsonObject
  readonly filter: FilterGroup | null
  /** The range, extended to the start of its first interval. */
  readonly range: QueryRange
  readonly hasPersonsUrls: boolean
}

/** For each status, the number of persons that have it in each interval of the range. */
type StatusCounts = Readonly<Record<Status, Uint32Array>>

/**
 * The result for a part of the events. It is counts if the events are divided by persons, and the bits of the active
 * distinct IDs if they are divided by segments.
 */
type LifecyclePart = StatusCounts | IdBits

/**
 * Returns the bits of those persons that have a status, for 32 persons in one interval. A person's bit is set in `now`
 * if the person is active in the interval, in `before` if it was active in the previous interval, and in `fresh` if it
 * was created in the interval and is active for the first time.
 */
type StatusBits = (now: number, before: number, fresh: number) => number

const STATUS_BITS: Readonly<Record<Status, StatusBits>> = {
  new: (_, __, fresh) => fresh,
  returning: (now, before) => now & before,
  resurrecting: (now, before, fresh) => now & ~before & ~fresh,
  dormant: (now, before) => before & ~now,
}

/** The kind for new, returning, resurrecting and dormant persons. */
export const LIFECYCLE_QUERY: QueryKind<LifecyclePlan, LifecyclePart> = {
  dividedBy(plan, lastDistinctId) {
    return areBitsSmall(2 * scannedPeriods(plan).periods.count, lastDistinctId)
      ? 'segments'
      : 'persons'
  },

  // The answer depends on the creation times of persons and on the owners of distinct ids. Both may change after the
  // parts were computed.
  isOfOneState: () => true,

  plan(query, context) {
    query.refuse('aggregation_group_type_index')
    const [first, second] = readSeriesList(query, context, 1, () => null)
    if (first === undefined || second !== undefined) {
      throw query.fault('series', 'must be a list with exactly one series')
    }
    const { series } = first
    if (!series.exists)
      throw query.fault(
        'series.0.id',
        'refers to an action that does not exist. Take its number from the list of actions',
      )
    const { type, order, label } = series
    const id = type === 'actions' ? String(series.id) : label
    const given = readRange(query, readInterval(query), context)
    const isEmpty = given.fromMs > given.toMs
    const fromMs = isEmpty ? given.fromMs : bucketsOf(given).startMs(0)
    return {
      series,
      action: { id, name: label, type, order, custom_name: series.customName, math: 'total' },
      filter: readGlobalFilter(query, context),
      range: { ...given, fromMs },
      hasPersonsUrls: query.boolean('persons_urls'),
    }
  },

  rangeOf: (plan) => scannedPeriods(plan).scanned,

  partial(plan, shard) {
    if (isOfBits(shard.part)) return bitsOf(plan, shard)
    return countsOf(plan, (visit) => eachPresence(plan, shard, visit))
  },

  merge({ range }, parts) {
    const bits = parts.filter(isBits)
    if (bits.length > 0) return mergeBits(bits)
    const sums = emptyCounts(bucketCount(range, bucketsOf(range)))
    for (const part of parts) {
      if (isBits(part)) continue
      for (const status of STATUSES) {
        const own = sums[status]
        for (const [bucket, count] of part[status].entries()) {
          own[bucket] = (own[bucket] ?? 0) + count
        }
      }
    }
    return sums
  },

  page(plan, whole, shard) {
    const { range, series, action, hasPersonsUrls } = plan
    const counts = isBits(whole)
      ? countsOf(plan, (visit) => {
          const owners = shard.scanner.owners(shard.context.projectId)
          const came = ownerBits(whole, owners, shard.scanner, true)
          eachOfBits(came, createdBits(plan, shard, owners), visit)
        })
      : whole
    const buckets = bucketsOf(range)
    const rest = { days: bucketDays(range, buckets), labels: bucketLabels(range, buckets) }
    const urlOf = hasPersonsUrls ? urlsOf(plan, shard.context) : null
    const results = STATUSES.map((status) => {
      const data = Array.from(counts[status], (count) =>
        status === 'dormant' && count > 0 ? -count : count,
      )
      const count = data.reduce((sum, one) => sum + one, 0)
      const urls = data.map((_, bucket) =>
        urlOf?.({ lifecycle_type: status, target_date: momentText(buckets.startMs(bucket)) }),
      )
      return {
        action,
        label: `${series.label} - ${status}`,
        status,
        count,
        data,
        ...rest,
        ...(hasPersonsUrls ? { persons_urls: urls } : {}),
      }
    })
    return { results, members: resolvedRange(range) }
  },

  actors(plan, pick, shard) {
    const { range } = plan
    const text = pick.text('day')
    const day = readDate(text ?? '', range.timezone, shard.context.nowMs)
    if (day === null) throw pick.fault('day', 'must be a day of the query, such as 2026-01-31')
    const wanted = pick.text('status')
    const status = STATUSES.find((one) => one === wanted)
    if (status === undefined) throw pick.fault('status', `must be one of ${STATUSES.join(', ')}`)
    const bucketOfDay = bucketsOf(range).indexOf(day.momentMs)
    const persons: number[] = []
    const numbers = eachPresence(plan, shard, (bucket, first, ...presence) => {
      if (bucket !== bucketOfDay) return
      eachBit(STATUS_BITS[status](...presence), first, (number) => persons.push(number))
    })
    return new ActorKeys(null).actors(persons.map((number) => numbers?.keyOf(number) ?? 0))
  },
}

/**
 * Returns the maker of the URLs that list the persons behind a number. The persons route begins weeks on Monday and has
 * no minutes, so queries by week or minute have no URLs.
 */
function urlsOf({ series, filter, range }: LifecyclePlan, context: QueryContext): UrlMaker {
  const { interval } = range
  if (interval === 'week' || interval === 'minute') return NO_URLS
  return new PersonsUrls(context).of({
    route: 'lifecycle',
    filter,
    series: [series],
    parameters: { ...seriesParameters([series]), interval, ...rangeParameters(range) },
  })
}

/** Counts the persons of each status. `each` must call `visit` once for each interval and each group of 32 persons. */
function countsOf({ range }: LifecyclePlan, each: (visit: PresenceVisitor) => void): StatusCounts {
  const counts = emptyCounts(bucketCount(range, bucketsOf(range)))
  each((bucket, _, now, before, fresh) => {
    for (const status of STATUSES) {
      const own = counts[status]
      own[bucket] = (own[bucket] ?? 0) + bitCount(STATUS_BITS[status](now, before, fresh))
    }
  })
  return counts
}

function emptyCounts(length: number): StatusCounts {
  const counts = () => new Uint32Array(length)
  return { new: counts(), returning: counts(), resurrecting: counts(), dormant: counts() }
}

/** Returns the intervals whose events are scanned: the intervals of the range, and the interval before the range. */
function scannedPeriods({ range }: Pick<LifecyclePlan, 'range'>) {
  const rules = bucketRules(range)
  const fromMs = shiftedPeriodStart(bucketsOf(range).startMs(0), -1, rules)
  const periods = Periods.covering(fromMs, range.toMs, rules)
  const toMs = periods.startMs(periods.count) - 1
  const isEmpty = range.fromMs > range.toMs
  return {
    periods,
    scanned: { fromMs: periods.startMs(0), toMs: isEmpty ? fromMs : toMs },
    isEmpty,
  }
}

/** Returns a scan for events of persons. A distinct_id without a person has no creation time and is left out. */
function scanOf({ filter, series }: LifecyclePlan) {
  return { filter, series: [series.match], hasProfile: true }
}

function isBits(part: LifecyclePart): part is IdBits {
  return Array.isArray(part)
}

/** Returns the bits of the distinct ids that were active in each interval, for one part of the events. */
function bitsOf(plan: LifecyclePlan, shard: QueryShard): IdBits {
  const { periods, scanned, isEmpty } = scannedPeriods(plan)
  const nobody: IdBits = Array.from({ length: periods.count }, () => null)
  if (isEmpty) return nobody
  const { filter, series } = plan
  const scan = { filter, series: [series.match], ...scanned }
  const [came = nobody] = scanIdBits(shard, scan, periods)
  shard.scanner.releaseResults()
  return came
}

/**
 * Returns the bits of the persons that were created in each interval. The bit of a person is at the smallest distinct
 * ID number that it owns.
 */
function createdBits(
  plan: LifecyclePlan,
  { scanner, context }: QueryShard,
  owners: DistinctIdOwners,
): PersonBits {
  const { periods, scanned, isEmpty } = scannedPeriods(plan)
  if (isEmpty) return []
  const { lastDistinctId } = scanner.extent(context.projectId)
  const created = scanner.createdWithin(context.projectId, scanned.fromMs, scanned.toMs + 1)
  const firstIds = firstIdOfPersons(owners)
  // The distinct ID number 0 stands for persons without a distinct id, which have no events.
  const persons = created.persons.map((person) => firstIds[person] ?? 0)
  return bitsOfEvents({ persons, timesMs: created.timesMs }, periods, lastDistinctId)
}

/**
 * Receives the activity of 32 persons in one interval, as the bits that `StatusBits` takes. `first` is the number of
 * the first of these persons.
 */
type PresenceVisitor = (bucket: number, first: number, ...presence: Parameters<StatusBits>) => void

function eachOfBits(came: PersonBits, created: PersonBits, visit: PresenceVisitor): void {
  const words = wordsOfBits(came, created)
  compareIntervals(flatBits(came, words), flatBits(created, words), { first: 0, words }, visit)
}

/**
 * Compares each interval, from the second one on, with the interval before it. `bits` and `createdBits` have the form
 * of the result of `periodBits`.
 */
function compareIntervals(
  bits: Uint32Array,
  createdBits: Uint32Array,
  { first, words }: ActorRange,
  visit: PresenceVisitor,
): void {
  const seen = bits.slice(0, words)
  for (let start = words; start < bits.length; start += words) {
    for (let place = 0; place < words; place++) {
      const now = bits[start + place] ?? 0
      const before = bits[start - words + place] ?? 0
      if ((now | before) === 0) continue
      const known = seen[place] ?? 0
      const fresh = now & (createdBits[start + place] ?? 0) & ~known
      seen[place] = known | now
      visit(start / words - 1, first + place * 32, now, before, fresh)
    }
  }
}

/**
 * Scans the events, numbers their persons without gaps, and passes the activity of all these persons to `visit`.
 * Returns the numbers of the persons, or null if the range is empty.
 */
function eachPresence(
  plan: LifecyclePlan,
  shard: QueryShard,
  visit: PresenceVisitor,
): ActorNumbers | null {
  const { periods, scanned, isEmpty } = scannedPeriods(plan)
  if (isEmpty) return null
  const columns = scanShard(shard, { ...scanOf(plan), ...scanned })
  const { numbers, actors } = ActorNumbers.of(columns.persons, columns.count)
  const events = { ...columns, actors }
  const created = creationsOf(numbers, scanned, shard)
  for (const actorRange of actorRanges(numbers.count, periods, null)) {
    const bits = periodBits(events, actorRange, periods, 1, null, shard.scanner)
    const createdBits = periodBits(created, actorRange, periods, 1, null, shard.scanner)
    compareIntervals(bits, createdBits, actorRange, visit)
  }
  return numbers
}

/** Returns the creations of the numbered persons in the form of events, so that `periodBits` can process them. */
function creationsOf(
  numbers: ActorNumbers,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  { scanner, context }: QueryShard,
): ActorEvents {
  const { persons, timesMs } = scanner.createdWithin(context.projectId, fromMs, toMs + 1)
  const { length: count } = persons
  const actors = persons.map((person) => numbers.numberOf(person))
  return { count, actors, timesMs, seriesMasks: new Uint32Array(count).fill(1) }
}
