/**
 * Calculates the members of a cohort whose rule filters on behavior. For each filter on behavior, scans of events set
 * one bit for each person that passes the filter. Then the rule is tested once for each person. Times are wall-clock
 * times in the zone of the project. Source: docs/compatibility/persons.md, "Cohorts by behavior".
 */
import {
  addDays,
  addMonths,
  hourStart,
  momentOf,
  startOfDay,
  wallOf,
} from '../../base/time-zone.ts'
import { type DateRange, dateRange } from '../analytics/date-range.ts'
import type { SeriesMatch } from '../analytics/event-columns.ts'
import { type BehaviorFilter, isBehavior, type TimeUnit } from '../filters/behavior-filter.ts'
import { type FilterGroup, filtersOf, type PropertyFilter } from '../filters/filter-group.ts'
import type { PersonCandidate, PersonTest } from '../filters/person-filter.ts'
import { firstIdOfPersons } from './owner-bits.ts'
import { PacedLimits } from './paced-limits.ts'
import { type QueryScan, type QueryShard, scanShard, scanShardChunks } from './query-kind.ts'

const HOUR_MS = 3_600_000
/**
 * The time limit is checked each time that enough steps were counted. Testing one person counts as this many steps, and
 * not as one, because a test may have to read the person.
 */
const PERSON_STEPS = 32
/**
 * Matches a date with a time of day. If the end of a range is a date without a time of day, the range includes that
 * whole day.
 */
const HAS_CLOCK = /\d[T ]\d/

/** The differences between the calculated members of a cohort and the stored ones. */
export interface MemberChanges {
  /** The new members. Each is given as the smallest distinct ID number that the person owns. */
  readonly added: Uint32Array<ArrayBuffer>
  /** The person numbers of persons that are no longer members. */
  readonly removed: Uint32Array<ArrayBuffer>
  /** The number of all calculated members, new or not. */
  readonly count: number
}

/**
 * Calculates the members of a rule, and returns how they differ from the stored members, which are person numbers. The
 * call needs about 10 bytes of memory per person of the project, and 16 more if a filter on the first event of a person
 * also has event filters. Each filter on behavior costs one to three scans (a filter on regular behavior: one scan for
 * each period), and each person costs one test of the rule. Throws the same errors as `EventScanner.scan`.
 */
export function memberChanges(
  rule: FilterGroup,
  shard: QueryShard,
  stored: Iterable<number>,
): MemberChanges {
  const { scanner, actorSource, context } = shard
  const owners = scanner.owners(context.projectId)
  const size = Math.max(1, owners.firstPersonless)
  const behaviors = new BehaviorBits(shard, size)
  const bitOf = new Map<BehaviorFilter, number>()
  for (const [bit, filter] of filtersOf(rule).filter(isBehavior).entries()) {
    behaviors.mark(filter, bit)
    bitOf.set(filter, 1 << bit)
  }
  const { bits } = behaviors
  const test = actorSource.personTest(rule, (filter): PersonTest => {
    const mask = bitOf.get(filter) ?? 0
    return ({ number }) => ((bits[number] ?? 0) & mask) !== 0
  })
  const pace = new PacedLimits(scanner)
  const isMember = new Uint8Array(size)
  let count = 0
  for (const number of actorSource.numbers('created_at', false)) {
    pace.count(PERSON_STEPS)
    if (number >= size || !test(new LazyCandidate(number, actorSource))) continue
    isMember[number] = 1
    count++
  }
  const removed: number[] = []
  for (const number of stored) {
    pace.count(1)
    if (isMember[number] === 1) isMember[number] = 0
    else removed.push(number)
  }
  const firstIds = firstIdOfPersons(owners)
  const added: number[] = []
  for (const [number, isNew] of isMember.entries()) {
    if (isNew === 1 && (firstIds[number] ?? 0) !== 0) added.push(firstIds[number] ?? 0)
  }
  return { added: Uint32Array.from(added), removed: Uint32Array.from(removed), count }
}

/** A person whose properties are not read until a filter needs them. */
class LazyCandidate implements PersonCandidate {
  readonly number: number
  readonly #actorSource: QueryShard['actorSource']
  #person: PersonCandidate | null | undefined

  constructor(number: number, actorSource: QueryShard['actorSource']) {
    this.number = number
    this.#actorSource = actorSource
  }

  property(key: string): unknown {
    this.#person ??= this.#actorSource.person(this.number)
    return this.#person?.property(key)
  }
}

/** The filters on behavior that each person passes: bit i is set if the person passes filter i. */
class BehaviorBits {
  readonly bits: Uint32Array
  readonly #shard: QueryShard
  readonly #size: number
  /** The number of events of each person, indexed by person number. Each call of `#count` overwrites the array. */
  readonly #counts: Uint32Array

  constructor(shard: QueryShard, size: number) {
    this.#shard = shard
    this.#size = size
    this.bits = new Uint32Array(size)
    this.#counts = new Uint32Array(size)
  }

  /** Sets the bit of all persons that pass a filter. The member `negation` of the filter is ignored. */
  mark(filter: BehaviorFilter, bit: number): void {
    const mask = 1 << bit
    const match = this.#match(filter.event_type, filter.key, filter.event_filters)
    switch (filter.value) {
      case 'performed_event':
        this.#markCounted(match, this.#rangeOf(filter), mask, (count) => count > 0)
        break
      case 'performed_event_multiple':
        this.#markCounted(match, this.#rangeOf(filter), mask, countTest(filter))
        break
      case 'performed_event_first_time':
        this.#markFirst(filter, match, mask)
        break
      case 'performed_event_sequence':
        this.#markSequence(filter, match, mask)
        break
      case 'performed_event_regularly':
        this.#markRegular(filter, match, mask)
        break
      case 'stopped_performing_event':
        this.#markStopped(filter, match, mask)
        break
      case 'restarted_performing_event':
        this.#markRestarted(filter, match, mask)
        break
    }
  }

  /**
   * Returns the series for the name of an event or the number of an action. If the action does not exist, no event
   * matches.
   */
  #match(
    type: 'events' | 'actions',
    key: string,
    filters: readonly PropertyFilter[] = [],
  ): SeriesMatch {
    const filter: FilterGroup | null =
      filters.length === 0 ? null : { type: 'AND', values: filters }
    if (type === 'events') return { names: [key], filter, steps: [] }
    const steps = this.#shard.context.action(Number(key))?.steps ?? []
    return { names: steps.length === 0 ? [] : null, filter, steps }
  }

  /**
   * Returns the range of a filter: the dates that it contains, or the time from its first day (or hour) to the end of
   * today.
   */
  #rangeOf({
    time_value: value = 1,
    time_interval: unit = 'day',
    explicit_datetime: from,
    explicit_datetime_to: to,
  }: BehaviorFilter): DateRange {
    const { timezone, nowMs } = this.#shard.context
    const request = { interval: 'day', timezone, nowMs, firstEventMs: null } as const
    const { toMs } = dateRange({
      ...request,
      dateFrom: null,
      dateTo: to ?? null,
      isExplicit: to !== undefined && HAS_CLOCK.test(to),
    })
    if (from === undefined) return { fromMs: this.#startMs(value, unit), toMs }
    return {
      fromMs: dateRange({ ...request, dateFrom: from, dateTo: null, isExplicit: true }).fromMs,
      toMs,
    }
  }

  /** Returns the start of the day or hour that is `value` units before now. */
  #startMs(value: number, unit: TimeUnit): number {
    const { timezone, nowMs } = this.#shard.context
    if (unit === 'hour') return hourStart(nowMs - value * HOUR_MS, timezone)
    const today = startOfDay(wallOf(nowMs, timezone))
    switch (unit) {
      case 'day':
        return momentOf(addDays(today, -value), timezone)
      case 'week':
        return momentOf(addDays(today, -7 * value), timezone)
      case 'month':
        return momentOf(addMonths(today, -value), timezone)
      case 'year':
        return momentOf(addMonths(today, -12 * value), timezone)
    }
  }

  /** Counts the events of each person in a range. The result is valid until the next call. */
  #count(match: SeriesMatch, range: DateRange): Uint32Array {
    const counts = this.#counts.fill(0)
    this.#scan(match, range, (person) => {
      counts[person] = (counts[person] ?? 0) + 1
    })
    return counts
  }

  #scan(match: SeriesMatch, { fromMs, toMs }: DateRange, visit: (person: number) => void): void {
    if (fromMs > toMs) return
    const scan: QueryScan = {
      fromMs,
      toMs,
      series: [match],
      hasProfile: true,
      looksAt: () => 'persons',
    }
    scanShardChunks(this.#shard, scan, ({ count, persons }) => {
      for (let row = 0; row < count; row++) visit(persons[row] ?? 0)
    })
  }

  #markCounted(
    match: SeriesMatch,
    range: DateRange,
    mask: number,
    test: (count: number) => boolean,
  ): void {
    const counts = this.#count(match, range)
    for (let person = 1; person < this.#size; person++) {
      // A person without such an event passes no comparison, not even `lte`. PostHog does the same.
      const count = counts[person] ?? 0
      if (count > 0 && test(count)) this.#set(person, mask)
    }
  }

  /**
   * Marks persons whose first event of the name or action is in the range, if this event also passes the event filters.
   */
  #markFirst(filter: BehaviorFilter, match: SeriesMatch, mask: number): void {
    const range = this.#rangeOf(filter)
    const ofAnyKind = { ...match, filter: null }
    if (match.filter === null) {
      const before = { fromMs: Number.NEGATIVE_INFINITY, toMs: range.fromMs - 1 }
      this.#markCounted(match, range, mask, () => true)
      this.#scan(match, before, (person) => this.#unset(person, mask))
      return
    }
    const first = new Float64Array(this.#size).fill(Number.POSITIVE_INFINITY)
    const firstFitting = new Float64Array(this.#size).fill(Number.POSITIVE_INFINITY)
    const scan: QueryScan = {
      fromMs: Number.NEGATIVE_INFINITY,
      toMs: range.toMs,
      series: [ofAnyKind, match],
      hasProfile: true,
      looksAt: () => 'all',
    }
    scanShardChunks(this.#shard, scan, ({ count, persons, timesMs, seriesMasks }) => {
      for (let row = 0; row < count; row++) {
        const person = persons[row] ?? 0
        const timeMs = timesMs[row] ?? 0
        if (timeMs < (first[person] ?? 0)) first[person] = timeMs
        const isFitting = ((seriesMasks[row] ?? 0) & 2) !== 0
        if (isFitting && timeMs < (firstFitting[person] ?? 0)) firstFitting[person] = timeMs
      }
    })
    for (let person = 1; person < this.#size; person++) {
      const timeMs = first[person] ?? 0
      const isWithin = timeMs >= range.fromMs && timeMs <= range.toMs
      if (isWithin && firstFitting[person] === timeMs) this.#set(person, mask)
    }
  }

  /**
   * Marks persons that have the event and, within the given time after it, the second event. Both must be in the range.
   */
  #markSequence(filter: BehaviorFilter, match: SeriesMatch, mask: number): void {
    const { fromMs, toMs } = this.#rangeOf(filter)
    if (fromMs > toMs) return
    const { seq_event = '', seq_event_type = 'events' } = filter
    const { seq_time_value: value = 1, seq_time_interval: unit = 'day' } = filter
    const series = [match, this.#match(seq_event_type, seq_event)]
    const withinMs = value * UNIT_MS[unit]
    const scan: QueryScan = { fromMs, toMs, series, hasProfile: true, order: 'time' }
    const { count, persons, timesMs, seriesMasks } = scanShard(this.#shard, scan)
    const lastMs = new Float64Array(this.#size).fill(Number.NEGATIVE_INFINITY)
    for (let row = 0; row < count; row++) {
      const person = persons[row] ?? 0
      const timeMs = timesMs[row] ?? 0
      const series = seriesMasks[row] ?? 0
      // `lastMs` is the time of the person's latest event that matches the first series. It is set after the
      // comparison, because an event cannot follow itself.
      if ((series & 2) !== 0 && timeMs - (lastMs[person] ?? 0) <= withinMs) this.#set(person, mask)
      if ((series & 1) !== 0) lastMs[person] = timeMs
    }
    this.#shard.scanner.releaseResults()
  }

  /**
   * Marks persons that had enough events in at least `min_periods` of the last `total_periods` periods. Periods are
   * counted back from the start of today or, for hours, from the start of this hour.
   */
  #markRegular(filter: BehaviorFilter, match: SeriesMatch, mask: number): void {
    const { time_value: value = 1, time_interval: unit = 'day' } = filter
    const { total_periods: total = 1, min_periods: least = 1 } = filter
    const test = countTest(filter)
    const periods = new Uint8Array(this.#size)
    for (let period = 1; period <= total; period++) {
      const fromMs = this.#startMs(value * period, unit)
      const toMs =
        (period === 1 ? this.#nowStartMs(unit) : this.#startMs(value * (period - 1), unit)) - 1
      const counts = this.#count(match, { fromMs, toMs })
      for (let person = 1; person < this.#size; person++) {
        const count = counts[person] ?? 0
        if (count > 0 && test(count)) periods[person] = (periods[person] ?? 0) + 1
      }
    }
    for (let person = 1; person < this.#size; person++) {
      if ((periods[person] ?? 0) >= least) this.#set(person, mask)
    }
  }

  #nowStartMs(unit: TimeUnit): number {
    const { timezone, nowMs } = this.#shard.context
    return unit === 'hour'
      ? hourStart(nowMs, timezone)
      : momentOf(startOfDay(wallOf(nowMs, timezone)), timezone)
  }

  /** Marks persons that have the event in the range of the filter, but not in the recent part of the range. */
  #markStopped(filter: BehaviorFilter, match: SeriesMatch, mask: number): void {
    const { before, recent } = this.#splitRange(filter)
    this.#markCounted(match, before, mask, () => true)
    this.#scan(match, recent, (person) => this.#unset(person, mask))
  }

  /**
   * Marks persons that have the event in the recent part of the range and also before the range, but not in the rest of
   * the range.
   */
  #markRestarted(filter: BehaviorFilter, match: SeriesMatch, mask: number): void {
    const { before, recent } = this.#splitRange(filter)
    const earlier = { fromMs: Number.NEGATIVE_INFINITY, toMs: before.fromMs - 1 }
    const didEarlier = new Uint8Array(this.#size)
    this.#scan(match, earlier, (person) => {
      didEarlier[person] = 1
    })
    const counts = this.#count(match, recent)
    for (let person = 1; person < this.#size; person++) {
      if ((counts[person] ?? 0) > 0 && didEarlier[person] === 1) this.#set(person, mask)
    }
    this.#scan(match, before, (person) => this.#unset(person, mask))
  }

  /** Divides the range of a filter into a recent part and the part before it. */
  #splitRange(filter: BehaviorFilter): { readonly before: DateRange; readonly recent: DateRange } {
    const { seq_time_value: value = 1, seq_time_interval: unit = 'day' } = filter
    const { fromMs, toMs } = this.#rangeOf(filter)
    const recentMs = Math.max(fromMs, this.#startMs(value, unit))
    return { before: { fromMs, toMs: recentMs - 1 }, recent: { fromMs: recentMs, toMs } }
  }

  #set(person: number, mask: number): void {
    this.bits[person] = (this.bits[person] ?? 0) | mask
  }

  #unset(person: number, mask: number): void {
    this.bits[person] = (this.bits[person] ?? 0) & ~mask
  }
}

/**
 * The milliseconds of each unit in which a sequence limits the time between two events. The units do not follow the
 * calendar, so a month always has 30 days and a year 365.
 */
const UNIT_MS: Readonly<Record<TimeUnit, number>> = {
  hour: HOUR_MS,
  day: 24 * HOUR_MS,
  week: 7 * 24 * HOUR_MS,
  month: 30 * 24 * HOUR_MS,
  year: 365 * 24 * HOUR_MS,
}

function countTest({
  operator = 'exact',
  operator_value: wanted = 1,
}: BehaviorFilter): (count: number) => boolean {
  switch (operator) {
    case 'gte':
      return (count) => count >= wanted
    case 'lte':
      return (count) => count <= wanted
    case 'gt':
      return (count) => count > wanted
    case 'lt':
      return (count) => count < wanted
    case 'eq':
    case 'exact':
      return (count) => count === wanted
  }
}
