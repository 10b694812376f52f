/**
 * Counts the events of a series into a tally, one breakdown value after the other. For measures that distinguish
 * actors, the events of a breakdown value are counted actor by actor.
 */
import { largestPerson } from '../../analytics/actor-page.ts'
import { rowsByActor } from '../../analytics/actor-rows.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import { type IdBits, scanIdBits } from '../person-bits.ts'
import type { QueryShard } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { ActorCounts } from './actor-counts.ts'
import { emptyPeriods, isFewPeriods, type SeenPeriods, takePeriods } from './seen-periods.ts'
import { type CellValue, type Tally, TallyBuilder } from './tally.ts'
import { reducerOf } from './trend-measures.ts'
import { countChunks } from './trend-pieces.ts'
import { actorsOfRows, bucketsOfRows, CHECK_EVERY, scanRows, type TrendRows } from './trend-rows.ts'
import { type Span, spanOf } from './trend-spans.ts'
import { isCountedOnce, type TrendSeries, type TrendsPlan } from './trends-plan.ts'

/** Returns the tally of a series in a range. Throws the same errors as `EventScanner.scan`. */
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
    if (measure.of === 'events' && countChunks(plan, series, span, persons, value, shard, tally)) {
      return
    }
    const wish = { fromMs, toMs, isUntimed, persons, keepsOwnerless: isOfEvents(measure) }
    const rows = scanRows(plan, series, wish, shard)
    new RowCounter(plan, series, span, rows, shard, tally).countAll(value)
    shard.scanner.releaseResults()
  }
  const cohorts = plan.breakdown?.cohorts ?? []
  for (const cohort of cohorts) count(cohortFilter(cohort), [String(cohort)])
  if (cohorts.length === 0) count(null, [])
  return tally.finish()
}

/**
 * Returns whether a measure counts events, or numbers in events, regardless of the persons that own the events. Such a
 * measure also counts the events of deleted persons.
 */
function isOfEvents({ of }: TrendSeries['measure']): boolean {
  return of === 'events' || of === 'numbers'
}

/**
 * Returns the bits of the distinct ids that have events of a series, for each period of a range. Throws the same errors
 * as `EventScanner.scan`.
 */
export function idBitsOf(
  plan: TrendsPlan,
  { measure, match, exists }: TrendSeries,
  range: QueryRange,
  shard: QueryShard,
): IdBits {
  const { fromMs, toMs, periods } = spanOf(measure, range, plan.isTotal)
  if (!exists || range.fromMs > range.toMs)
    return Array.from({ length: periods?.count ?? 1 }, () => null)
  const scan = { fromMs, toMs, filter: plan.filter, series: [match] }
  const [bits = []] = scanIdBits(shard, scan, periods)
  shard.scanner.releaseResults()
  return bits
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
  readonly #rows: TrendRows
  readonly #limits: QueryShard['scanner']
  readonly #tally: TallyBuilder
  /** For each row, the number of its bucket. */
  readonly #buckets: Uint32Array
  /**
   * The number that each measured value stands for, indexed by the position of the value in its column. Empty for
   * measures without numbers.
   */
  readonly #numbers: Float64Array
  /** The number of events of the current actor in each bucket. All entries are set to 0 again before the next actor. */
  readonly #counts: Uint32Array
  readonly #actorCounts: ActorCounts
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
    this.#actorCounts = new ActorCounts(span, isCountedOnce(plan, measure), tally)
  }

  /** Counts all rows. `value` is the breakdown value of all rows if they are not split by properties. */
  countAll(value: CellValue): void {
    const { columns, chosen, cells, values } = this.#rows
    const { count } = columns
    const { measure } = this.#series
    const hasActors = measure.of === 'actors' || measure.of === 'counts'
    const actorOf = hasActors ? actorsOfRows(this.#rows, this.#series) : null
    const isSeen = measure.of === 'actors' && isFewPeriods(this.#span.periods?.count ?? 1)
    const order = actorOf === null || isSeen ? chosen : rowsByActor(actorOf, count, chosen).rows
    const seen =
      actorOf !== null && isSeen
        ? emptyPeriods(this.#span.periods?.count ?? 1, largestPerson(actorOf, count))
        : null
    if (cells === null) {
      const length = order?.length ?? count
      this.#countCell({ order, start: 0, end: length, actorOf, seen }, value)
      return
    }
    const { keys, starts, rows } = rowsByActor(cells, count, order)
    for (const [cell, key] of keys.entries()) {
      if (cell % CELLS_EACH === 0) this.#limits.checkLimits()
      const [start, end] = [starts[cell] ?? 0, starts[cell + 1] ?? 0]
      this.#countCell({ order: rows, start, end, actorOf, seen }, values[key] ?? [])
    }
  }

  #countCell({ order, start, end, actorOf, seen }: CellRows, value: CellValue): void {
    const { measure } = this.#series
    if (measure.of === 'actors' && actorOf !== null) {
      if (seen === null) this.#countSorted(order ?? NO_ROWS, start, end, actorOf)
      else this.#countSeen(seen, this.#see(order, start, end, actorOf, seen))
      this.#actorCounts.endCell(value)
      return
    }
    if (measure.of === 'numbers') this.#addNumbers(order, start, end)
    else if (actorOf === null) this.#countEvents(order, start, end)
    else this.#addCounts(order ?? NO_ROWS, start, end, actorOf)
    this.#tally.endCell(value)
  }

  /** Sets, for the actor of each row, the bit of the period of the row. Returns the actors that had no bit before. */
  #see(
    order: Uint32Array | null,
    start: number,
    end: number,
    actorOf: Uint32Array,
    { words, wordsEach }: SeenPeriods,
  ): readonly number[] {
    const met: number[] = []
    for (let position = start; position < end; position++) {
      if (position % CHECK_EVERY === 0) this.#limits.checkLimits()
      const row = order === null ? position : (order[position] ?? 0)
      const actor = actorOf[row] ?? 0
      if (actor === 0) continue
      const period = this.#buckets[row] ?? 0
      const place = actor * wordsEach + (period >>> 5)
      const before = words[place] ?? 0
      // An actor with several words of bits may be in `met` twice. That is harmless: counting an actor clears its bits,
      // so the second time nothing is counted.
      if (before === 0) met.push(actor)
      words[place] = before | (1 << (period & 31))
    }
    return met
  }

  /** Counts actors by their bits, and clears the bits. */
  #countSeen(seen: SeenPeriods, actors: readonly number[]): void {
    const periods: number[] = []
    for (const actor of actors) {
      takePeriods(seen, actor, periods)
      for (let index = 0; index < seen.wordsEach; index++) {
        seen.words[actor * seen.wordsEach + index] = 0
      }
      this.#actorCounts.add(periods)
    }
  }

  /** Counts actors whose rows are adjacent. */
  #countSorted(rows: Uint32Array, start: number, end: number, actorOf: Uint32Array): void {
    for (let position = start; position < end; ) {
      const last = this.#endOfActor(rows, position, end, actorOf)
      const periods = new Set<number>()
      for (; position < last; position++) periods.add(this.#buckets[rows[position] ?? 0] ?? 0)
      this.#actorCounts.add([...periods].sort((a, b) => a - b))
    }
  }

  /** Adds the number of events of each actor in each bucket. The rows of an actor must be adjacent. */
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

  /** Returns the position after the last row of an actor. `start` is its first row. */
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

/** The rows of one breakdown value. */
interface CellRows {
  /**
   * The list that contains the row numbers from position `start` to before `end`. If it is null, `start` and `end` are
   * row numbers themselves.
   */
  readonly order: Uint32Array | null
  readonly start: number
  readonly end: number
  readonly actorOf: Uint32Array | null
  /** Memory for bits, all 0, if actors are counted by bits. Null if the rows of each actor are adjacent. */
  readonly seen: SeenPeriods | null
}

const NO_ROWS = new Uint32Array(0)
/** The loop over breakdown values checks the time limit of the query once for this number of values. */
const CELLS_EACH = 256
