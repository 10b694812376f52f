/**
 * Reads the events of a series and fills a tally, value by value. For measures that distinguish actors, it also works
 * actor by actor.
 */
import { largestPerson } from '../../analytics/actor-page.ts'
import { rowsByActor } from '../../analytics/actor-rows.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import { ActorNumbers } from '../actor-events.ts'
import {
  type ActorSets,
  activeCounts,
  firstCounts,
  scanSets,
  setsOfEvents,
  sizeOf,
} from '../actor-sets.ts'
import type { QueryShard } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { type CellValue, type Tally, TallyBuilder } from './tally.ts'
import { reducerOf } from './trend-measures.ts'
import { countPieces } from './trend-pieces.ts'
import { actorsOfRows, bucketsOfRows, CHECK_EVERY, scanRows, type TrendRows } from './trend-rows.ts'
import { type ActiveWindow, type Span, spanOf } from './trend-spans.ts'
import { isCountedOnce, type TrendSeries, type TrendsPlan } from './trends-plan.ts'

/** Returns the tally of a series in a range. Throws as `EventScanner.scan`. */
export function tallyOf(
  plan: TrendsPlan,
  series: TrendSeries,
  range: QueryRange,
  shard: QueryShard,
): Tally {
  const { measure, exists } = series
  const span = spanOf(measure, range, plan.isTotal)
  const tally = new TallyBuilder(span.bucketCount, reducerOf(measure))
  if (!exists || range.fromMs > range.toMs) return tally.finish()
  const { fromMs, toMs, periods } = span
  const isUntimed = periods === null
  const count = (persons: FilterGroup | null, value: CellValue): void => {
    if (measure.of === 'events' && countPieces(plan, series, span, persons, value, shard, tally)) {
      return
    }
    const wish = { fromMs, toMs, isUntimed, persons, keepsOwnerless: isOfEvents(measure) }
    const rows = scanRows(plan, series, wish, shard)
    new RowCounter(plan, series, span, rows, shard, tally).countAll(value)
    shard.scanner.giveBack()
  }
  const cohorts = plan.breakdown?.cohorts ?? []
  for (const cohort of cohorts) count(cohortFilter(cohort), [String(cohort)])
  if (cohorts.length === 0) count(null, [])
  return tally.finish()
}

/** Whether events are counted, or their numbers, whoever they belong to: those of deleted persons, too. */
function isOfEvents({ of }: TrendSeries['measure']): boolean {
  return of === 'events' || of === 'numbers'
}

/** Returns the distinct IDs of a series in each period of a range. Throws as `EventScanner.scan`. */
export function idSetsOf(
  plan: TrendsPlan,
  { measure, match, exists }: TrendSeries,
  range: QueryRange,
  shard: QueryShard,
): ActorSets {
  const { fromMs, toMs, periods } = spanOf(measure, range, plan.isTotal)
  if (!exists || range.fromMs > range.toMs)
    return Array.from({ length: periods?.count ?? 1 }, () => null)
  const scan = { fromMs, toMs, filter: plan.filter, series: [match] }
  const [sets = []] = scanSets(shard, scan, periods)
  return sets
}

/** Returns the filter for the members of a cohort. Null means everybody. */
export function cohortFilter(cohort: number | 'all'): FilterGroup | null {
  if (cohort === 'all') return null
  return { type: 'AND', values: [{ key: 'id', type: 'cohort', value: cohort, operator: 'in' }] }
}

/** Counts the rows of one scan. */
class RowCounter {
  readonly #series: TrendSeries
  readonly #span: Span
  /** True if an actor counts only in its first bucket. */
  readonly #isOnce: boolean
  readonly #rows: TrendRows
  readonly #limits: QueryShard['scanner']
  readonly #tally: TallyBuilder
  /** Of each row. */
  readonly #buckets: Uint32Array
  /** By number of the measured value; empty for measures without numbers. */
  readonly #numbers: Float64Array
  /** Of the current actor, by bucket; all 0 in between. */
  readonly #counts: Uint32Array
  /** The last bucket of a value, or the last value, in which an actor was counted, as a number that only grows. */
  #cellOfActor = NO_ROWS
  #actorNumbers = new ActorNumbers(0)
  #cell = 0
  #actors = 0

  constructor(
    plan: TrendsPlan,
    series: TrendSeries,
    span: Span,
    rows: TrendRows,
    { scanner }: QueryShard,
    tally: TallyBuilder,
  ) {
    this.#series = series
    this.#span = span
    this.#rows = rows
    this.#limits = scanner
    this.#tally = tally
    this.#isOnce = isCountedOnce(plan, series.measure)
    const { periods } = span
    this.#buckets =
      periods === null
        ? new Uint32Array(rows.columns.count)
        : bucketsOfRows(rows.columns, periods, scanner)
    const { measure } = series
    const measured = measure.of === 'numbers' ? (rows.measured?.values ?? []) : []
    const factor = measure.of === 'numbers' ? measure.factor : 1
    this.#numbers = Float64Array.from(measured, (value) => readNumber(value) * factor)
    this.#counts = new Uint32Array(periods?.count ?? 1)
  }

  /** `value` is that of all rows, unless they are split by properties. */
  countAll(value: CellValue): void {
    const { columns, cells, values } = this.#rows
    const { count } = columns
    const { of } = this.#series.measure
    const actorOf =
      of === 'actors' || of === 'counts' ? actorsOfRows(this.#rows, this.#series) : null
    if (of === 'actors' && actorOf !== null) {
      const largest = largestPerson(actorOf, count)
      if (this.#isBySets) this.#actorNumbers = new ActorNumbers(largest)
      else this.#cellOfActor = new Uint32Array(largest + 1)
    }
    const order = this.#orderOf(actorOf)
    if (cells === null) {
      this.#countCell({ order, start: 0, end: order?.length ?? count, actorOf }, value)
      return
    }
    const { keys, starts, rows } = rowsByActor(cells, count, order)
    for (const [cell, key] of keys.entries()) {
      if (cell % CELLS_EACH === 0) this.#limits.checkLimits()
      const [start, end] = [starts[cell] ?? 0, starts[cell + 1] ?? 0]
      this.#countCell({ order: rows, start, end, actorOf }, values[key] ?? [])
    }
  }

  /**
   * Whether actors are counted by sets. With many values, each of few events, sets cost more than the order of rows that
   * `#countActors` needs.
   */
  get #isBySets(): boolean {
    return this.#rows.cells === null || this.#span.window !== null
  }

  /** The rows of an actor lie side by side if its events are counted, and those of a bucket if actors are. */
  #orderOf(actorOf: Uint32Array | null): Uint32Array | null {
    const { columns, chosen } = this.#rows
    const { of } = this.#series.measure
    if (actorOf === null) return chosen
    if (of === 'counts') return rowsByActor(actorOf, columns.count, chosen).rows
    if (this.#isBySets || this.#span.periods === null) return chosen
    // The key 0 would be left out.
    const keys = this.#buckets.map((bucket) => bucket + 1)
    return rowsByActor(keys, columns.count, chosen).rows
  }

  #countCell(rows: CellRows, value: CellValue): void {
    const { order, start, end, actorOf } = rows
    const { of } = this.#series.measure
    if (of === 'numbers') this.#addNumbers(order, start, end)
    else if (actorOf === null) this.#countEvents(order, start, end)
    else if (of === 'counts') this.#addCounts(order ?? NO_ROWS, start, end, actorOf)
    else if (this.#isBySets) this.#countSets(order?.subarray(start, end) ?? null, actorOf)
    else this.#countActors(order, start, end, actorOf)
    this.#tally.endCell(value)
  }

  /** The different actors of each bucket, or of the first bucket of each; the rows of a bucket lie side by side. */
  #countActors(order: Uint32Array | null, start: number, end: number, actorOf: Uint32Array): void {
    const tally = this.#tally
    const buckets = this.#buckets
    const cellOfActor = this.#cellOfActor
    let lastBucket = -1
    let cell = ++this.#cell
    for (let position = start; position < end; position++) {
      if (position % CHECK_EVERY === 0) this.#limits.checkLimits()
      const row = order === null ? position : (order[position] ?? 0)
      const actor = actorOf[row] ?? 0
      if (actor === 0) continue
      const bucket = buckets[row] ?? 0
      if (bucket !== lastBucket && !this.#isOnce) cell = ++this.#cell
      lastBucket = bucket
      if (cellOfActor[actor] === cell) continue
      cellOfActor[actor] = cell
      tally.count(bucket)
    }
  }

  /** The actors of each bucket, or of the window up to it, from sets by period. `rows` null: all. */
  #countSets(rows: Uint32Array | null, actorOf: Uint32Array): void {
    const { columns } = this.#rows
    const { periods, window } = this.#span
    const count = rows?.length ?? columns.count
    const keys = new Uint32Array(count)
    const timesMs = new Float64Array(count)
    // Times may be absent if there are no periods.
    for (let index = 0; index < count; index++) {
      const row = rows === null ? index : (rows[index] ?? 0)
      keys[index] = actorOf[row] ?? 0
      timesMs[index] = columns.timesMs[row] ?? 0
    }
    // The actors of a value are few: numbers without gaps take less memory.
    const numbers = this.#actorNumbers
    numbers.clear()
    const events = { count, actors: numbers.add(keys, count), timesMs, seriesMasks: NO_ROWS }
    const sets = setsOfEvents(events, periods, null, null, numbers.count, this.#limits)
    for (const [bucket, own] of this.#countsOf(sets, window).entries()) {
      if (own > 0) this.#tally.count(bucket, own)
    }
  }

  #countsOf(sets: ActorSets, window: ActiveWindow | null): readonly number[] {
    if (window !== null) return activeCounts(sets, window, this.#limits)
    return this.#isOnce ? firstCounts(sets) : sets.map(sizeOf)
  }

  /** The number of events of each actor, in each bucket; the rows of an actor lie side by side. */
  #addCounts(rows: Uint32Array, start: number, end: number, actorOf: Uint32Array): void {
    const tally = this.#tally
    const counts = this.#counts
    const buckets: number[] = []
    for (let position = start; position < end; ) {
      const last = this.#endOfActor(rows, position, end, actorOf)
      buckets.length = 0
      for (; position < last; position++) {
        const bucket = this.#buckets[rows[position] ?? 0] ?? 0
        const before = counts[bucket] ?? 0
        if (before === 0) buckets.push(bucket)
        counts[bucket] = before + 1
      }
      for (const bucket of buckets) {
        tally.add(bucket, counts[bucket] ?? 0)
        counts[bucket] = 0
      }
    }
  }

  /** The position behind the rows of the actor of a position. */
  #endOfActor(rows: Uint32Array, start: number, end: number, actorOf: Uint32Array): number {
    if (this.#actors++ % CHECK_EVERY === 0) this.#limits.checkLimits()
    const actor = actorOf[rows[start] ?? 0]
    let last = start + 1
    while (last < end && actorOf[rows[last] ?? 0] === actor) last++
    return last
  }

  #countEvents(order: Uint32Array | null, start: number, end: number): void {
    const tally = this.#tally
    const buckets = this.#buckets
    if (this.#span.periods === null) {
      if (end > start) tally.count(0, end - start)
      return
    }
    for (let position = start; position < end; position++) {
      if (position % CHECK_EVERY === 0) this.#limits.checkLimits()
      tally.count(buckets[order === null ? position : (order[position] ?? 0)] ?? 0)
    }
  }

  #addNumbers(order: Uint32Array | null, start: number, end: number): void {
    const tally = this.#tally
    const ids = this.#rows.measured?.ids ?? NO_ROWS
    if (end > start) tally.keepCell()
    for (let position = start; position < end; position++) {
      if (position % CHECK_EVERY === 0) this.#limits.checkLimits()
      const row = order === null ? position : (order[position] ?? 0)
      const number = this.#numbers[ids[row] ?? 0] ?? Number.NaN
      if (Number.isFinite(number)) tally.add(this.#buckets[row] ?? 0, number)
    }
  }
}

/** The rows of one value. */
interface CellRows {
  /** Null: they are the positions. */
  readonly order: Uint32Array | null
  readonly start: number
  readonly end: number
  readonly actorOf: Uint32Array | null
}

const NO_ROWS = new Uint32Array(0)
/** Values between two looks at the limits of a query. */
const CELLS_EACH = 256
