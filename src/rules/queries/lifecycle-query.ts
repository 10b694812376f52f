/**
 * Lifecycle: the persons that were new, returning, resurrecting or dormant in each interval. It answers the kind
 * `LifecycleQuery` and the route persons/lifecycle. Sources: docs/compatibility/queries.md, "LifecycleQuery", and
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import { pageOfPersons, personsMarked } from '../analytics/actor-page.ts'
import {
  type ActorPage,
  globalFilter,
  type Inquiry,
  NO_ACTORS,
  rangeRequest,
} from '../analytics/analytic-query.ts'
import { dateRange, momentOfText } from '../analytics/date-range.ts'
import {
  type DistinctIdOwners,
  markedPersons,
  type SeriesMatch,
} from '../analytics/event-columns.ts'
import { type PeriodRules, Periods, periodStart, shiftedPeriodStart } from '../analytics/periods.ts'
import type { ParametersOf } from '../analytics/questions.ts'
import { readSeries } from '../analytics/series.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import { activityOf, EARLIER, WITHIN } from './actor-events.ts'
import {
  type ActorSets,
  bitCount,
  eachStretch,
  mergeSets,
  scanSets,
  setsOfEvents,
} from './actor-sets.ts'
import { firstIdOfPersons, ownerSets } from './owner-sets.ts'
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
import {
  type QueryContext,
  type QueryKind,
  type QueryShard,
  type ScannedShard,
  scanShard,
} from './query-kind.ts'
import { type QueryRange, readDate, readInterval, readRange } from './query-range.ts'
import { type QuerySeries, readSeriesList } from './query-series.ts'

const STATUSES = ['new', 'returning', 'resurrecting', 'dormant'] as const

/** What somebody is in an interval. */
type Status = (typeof STATUSES)[number]

interface LifecyclePlan {
  readonly series: QuerySeries
  readonly action: JsonObject
  readonly filter: FilterGroup | null
  /** From the start of its first interval on. */
  readonly range: QueryRange
  readonly hasPersonsUrls: boolean
}

/**
 * The bits of those with a status, of 32 persons in one interval: who came, who came in the one before, who was
 * created and came first.
 */
type StatusBits = (now: number, before: number, fresh: number) => number

const STATUS_BITS: Readonly<Record<Status, StatusBits>> = {
  new: (_, __, fresh) => fresh,
  returning: (now, before) => now & before,
  resurrecting: (now, before, fresh) => now & ~before & ~fresh,
  dormant: (now, before) => before & ~now,
}

/** The kind for new, returning, resurrecting and dormant persons. */
export const LIFECYCLE_QUERY: QueryKind<LifecyclePlan, ActorSets> = {
  dividedBy: 'segments',

  // Who was created when, and who owns what.
  isOfOneState: () => true,

  plan(query, context) {
    query.refuse('aggregation_group_type_index')
    const [first, second] = readSeriesList(query, context, 1, () => null)
    if (first === undefined || second !== undefined) {
      throw query.fault('series', 'must be a list of one series')
    }
    const { series } = first
    if (!series.exists) throw query.fault('series.0.id', 'refers to an action that does not exist')
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

  rangeOf: (plan) => stretchOf(plan).scanned,

  partial(plan, shard) {
    const { periods, scanned, isEmpty } = stretchOf(plan)
    if (isEmpty) return []
    const { filter, series } = plan
    const [came = []] = scanSets(shard, { filter, series: [series.match], ...scanned }, periods)
    return came
  },

  merge: (_, parts, limits) => mergeSets(parts, limits),

  page(plan, whole, shard) {
    const { range, series, action, hasPersonsUrls } = plan
    const counts = countsOf(plan, whole, shard)
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
    const bucket = bucketsOf(range).indexOf(day.momentMs)
    const { periods, scanned, isEmpty } = stretchOf(plan)
    const persons =
      isEmpty || bucket < 0
        ? []
        : personsWith(status, plan.series.match, plan.filter, shard, {
            ...scanned,
            beforeMs: periods.startMs(bucket),
            startMs: periods.startMs(bucket + 1),
            endMs: periods.startMs(bucket + 2),
          })
    return { groupTypeIndex: null, persons: [...persons], groupKeys: [] }
  },
}

/** The route begins weeks on Monday, and has no minutes. */
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

/** Returns the number of persons with each status in each interval, for the owners of now. */
function countsOf(
  plan: LifecyclePlan,
  ids: ActorSets,
  shard: QueryShard,
): Readonly<Record<Status, Uint32Array>> {
  const { scanner, context } = shard
  const owners = scanner.owners(context.projectId)
  // When a distinct_id without a person was new, nobody knows.
  const came = ownerSets(ids, owners, scanner, true)
  const created = createdSets(plan, shard, owners)
  const length = bucketCount(plan.range, bucketsOf(plan.range))
  const zeros = () => new Uint32Array(length)
  const counts = { new: zeros(), returning: zeros(), resurrecting: zeros(), dormant: zeros() }
  eachStretch([came, created], scanner, ([bits, createdBits], { words }) => {
    if (bits === undefined || createdBits === undefined) return
    compareIntervals(bits, createdBits, words, (bucket, ...presence) => {
      for (const status of STATUSES) {
        const own = counts[status]
        own[bucket] = (own[bucket] ?? 0) + bitCount(STATUS_BITS[status](...presence))
      }
    })
  })
  return counts
}

/** The intervals that decide: those of the range, and one before. */
function stretchOf({ range }: Pick<LifecyclePlan, 'range'>) {
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

/** Returns the persons that were created in each interval, each at its smallest distinct ID number. */
function createdSets(
  plan: LifecyclePlan,
  { scanner, context }: QueryShard,
  owners: DistinctIdOwners,
): ActorSets {
  const { periods, scanned, isEmpty } = stretchOf(plan)
  if (isEmpty) return []
  const { lastDistinctId } = scanner.extent(context.projectId)
  const { fromMs, toMs } = scanned
  const { persons, timesMs } = scanner.createdWithin(context.projectId, fromMs, toMs + 1)
  const firstIds = firstIdOfPersons(owners)
  const { length: count } = persons
  const actors = persons.map((person) => firstIds[person] ?? 0)
  const events = { count, actors, timesMs, seriesMasks: new Uint32Array(count).fill(1) }
  return setsOfEvents(events, periods, 1, null, lastDistinctId, scanner)
}

/** Called for each interval of the range and 32 persons. */
type PresenceVisitor = (bucket: number, ...presence: Parameters<StatusBits>) => void

/** Compares each interval, from the second on, with the one before; bits as `eachStretch` has them. */
function compareIntervals(
  bits: Uint32Array,
  createdBits: Uint32Array,
  words: number,
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
      visit(start / words - 1, now, before, fresh)
    }
  }
}

/** The interval whose persons are wanted, and the events that decide. Times are in milliseconds. */
interface WantedInterval {
  /** The first and the last moment of events. */
  readonly fromMs: number
  readonly toMs: number
  /** The start of the interval before. */
  readonly beforeMs: number
  readonly startMs: number
  /** The start of the interval after. */
  readonly endMs: number
}

/**
 * Returns the numbers of the persons with a status in an interval, ascending. There are none for an unknown status.
 * Only the events of two intervals are read. Throws as `EventScanner.scan`.
 */
function personsWith(
  status: string,
  match: SeriesMatch,
  filter: FilterGroup | null,
  shard: ScannedShard,
  { fromMs: firstMs, toMs: lastMs, beforeMs, startMs, endMs }: WantedInterval,
): Uint32Array {
  const fromMs = Math.max(firstMs, beforeMs)
  const toMs = Math.min(lastMs, endMs - 1)
  if (fromMs > toMs) return new Uint32Array(0)
  const scan = { filter, series: [match], hasProfile: true }
  const marks = activityOf(scanShard(shard, { ...scan, fromMs, toMs }), startMs)
  if (status === 'dormant') return personsMarked(marks, EARLIER)
  if (status === 'returning') return personsMarked(marks, EARLIER | WITHIN)
  // 1 for each person that was created in the interval, and active in it but not in the one before.
  const created = new Uint8Array(marks.length)
  const { projectId } = shard.context
  for (const person of shard.scanner.createdWithin(projectId, startMs, endMs).persons) {
    if (marks[person] === WITHIN) created[person] = 1
  }
  // Older events decide about these few persons, and hardly any segment can have some.
  if (created.includes(1) && firstMs < fromMs) {
    const older = { fromMs: firstMs, toMs: fromMs - 1, persons: markedPersons(created) }
    const { count, persons } = scanShard(shard, { ...scan, ...older })
    for (let row = 0; row < count; row++) created[persons[row] ?? 0] = 0
  }
  const wanted = status === 'new' ? 1 : status === 'resurrecting' ? 0 : -1
  return personsMarked(marks, WITHIN).filter((person) => created[person] === wanted)
}

/**
 * Returns the page of persons, by uuid, that have the requested status in the period of `targetDate`. The page is empty
 * for an unknown status. Weeks begin on Monday. Throws 400 for an invalid request, `invalid_input` without `attr` for a
 * request without a series, and as `EventScanner.scan`.
 */
export function lifecycleActors(inquiry: Inquiry<ParametersOf<'lifecycle'>>): ActorPage {
  const { parameters, context } = inquiry
  const [series] = readSeries(parameters, context.actions)
  if (series === undefined) {
    const detail = 'The query needs a series. Send `events`, a list with at least one series.'
    throw new ServiceError('invalid_input', detail)
  }
  const filter = globalFilter(inquiry)
  const request = rangeRequest(inquiry)
  const { interval, timezone } = request
  const rules: PeriodRules = { interval, timezone, weekStart: 'monday' }
  const range = dateRange(request, { isWidened: false, isRounded: false })
  const startMs = periodStart(momentOfText(parameters.targetDate, request), rules)
  if (range.fromMs > range.toMs) return NO_ACTORS
  const persons = personsWith(parameters.lifecycleType, series.match, filter, inquiry, {
    fromMs: shiftedPeriodStart(periodStart(range.fromMs, rules), -1, rules),
    toMs: shiftedPeriodStart(periodStart(range.toMs, rules), 1, rules) - 1,
    beforeMs: shiftedPeriodStart(startMs, -1, rules),
    startMs,
    endMs: shiftedPeriodStart(startMs, 1, rules),
  })
  return pageOfPersons(persons, inquiry)
}
