/**
 * Goes through the events of a series and fills a tally: value by value, and for measures that tell actors
 * apart, actor by actor.
 */
import { type ActorRows, rowsByActor } from '../../analytics/actor-rows.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import type { QueryShard } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { type CellValue, type Tally, TallyBuilder } from './tally.ts'
import { actorKindOf, reducerOf } from './trend-measures.ts'
import { actorsOfRows, bucketsOfRows, CHECK_EVERY, scanRows, type TrendRows } from './trend-rows.ts'
import { type Span, spanOf } from './trend-spans.ts'
import type { TrendSeries, TrendsPlan } from './trends-plan.ts'

/** What a series has in a range. Throws as `EventScanner.scan`. */
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
    const rows = scanRows(plan, series, { fromMs, toMs, isUntimed, persons }, shard)
    new RowCounter(plan, series, span, rows, shard, tally).countAll(value)
    shard.scanner.giveBack()
  }
  const cohorts = plan.breakdown?.cohorts ?? []
  for (const cohort of cohorts) count(cohortFilter(cohort), [String(cohort)])
  if (cohorts.length === 0) count(null, [])
  return tally.finish()
}

/** The members of a cohort; null: everybody. */
export function cohortFilter(cohort: number | 'all'): FilterGroup | null {
  if (cohort === 'all') return null
  return { type: 'AND', values: [{ key: 'id', type: 'cohort', value: cohort, operator: 'in' }] }
}

/** Counts the rows of one scan. */
class RowCounter {
  readonly #plan: TrendsPlan
  readonly #series: TrendSeries
  readonly #span: Span
  readonly #rows: TrendRows
  readonly #limits: QueryShard['scanner']
  readonly #tally: TallyBuilder
  /** Of each row. */
  readonly #buckets: Uint32Array
  /** By number of the measured value; empty for measures without numbers. */
  readonly #numbers: Float64Array
  /** For each bucket (period) who was seen there last. */
  readonly #lastSeen: Uint32Array
  #actors = 0

  constructor(
    plan: TrendsPlan,
    series: TrendSeries,
    span: Span,
    rows: TrendRows,
    { scanner }: QueryShard,
    tally: TallyBuilder,
  ) {
    this.#plan = plan
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
    this.#lastSeen = new Uint32Array(periods?.count ?? 1)
  }

  /** `value` is that of all rows, unless they are split by properties. */
  countAll(value: CellValue): void {
    const { columns, chosen, cells, values } = this.#rows
    const { count } = columns
    const actorOf =
      actorKindOf(this.#series.measure) === null || this.#series.measure.of === 'first_events'
        ? null
        : actorsOfRows(this.#rows, this.#series)
    const order = actorOf === null ? chosen : rowsByActor(actorOf, count, chosen).rows
    if (cells === null) {
      this.#countCell(order, 0, order?.length ?? count, actorOf)
      this.#tally.endCell(value)
      return
    }
    const { keys, starts, rows }: ActorRows = rowsByActor(cells, count, order)
    for (const [cell, key] of keys.entries()) {
      if (cell % CELLS_EACH === 0) this.#limits.checkLimits()
      this.#countCell(rows, starts[cell] ?? 0, starts[cell + 1] ?? 0, actorOf)
      this.#tally.endCell(values[key] ?? [])
    }
  }

  /** The rows of one value; those of an actor lie side by side. `order` null: they are the positions. */
  #countCell(
    order: Uint32Array | null,
    start: number,
    end: number,
    actorOf: Uint32Array | null,
  ): void {
    const { measure } = this.#series
    if (actorOf === null) {
      if (measure.of === 'numbers') this.#addNumbers(order, start, end)
      else this.#countEvents(order, start, end)
      return
    }
    const rows = order ?? NO_ROWS
    const actives = this.#span.window === null ? null : new ActiveCounts(this.#span)
    for (let position = start; position < end; ) {
      if (this.#actors++ % CHECK_EVERY === 0) this.#limits.checkLimits()
      const actor = actorOf[rows[position] ?? 0]
      const first = position
      while (position < end && actorOf[rows[position] ?? 0] === actor) position++
      if (measure.of === 'counts') this.#addCounts(rows, first, position)
      else if (actives !== null) actives.add(this.#bucketsSeen(rows, first, position))
      else this.#countActor(rows, first, position)
    }
    actives?.finish(this.#tally)
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

  /** The number of events of one actor, in each bucket. */
  #addCounts(rows: Uint32Array, start: number, end: number): void {
    const counts = new Map<number, number>()
    for (let position = start; position < end; position++) {
      const bucket = this.#buckets[rows[position] ?? 0] ?? 0
      counts.set(bucket, (counts.get(bucket) ?? 0) + 1)
    }
    for (const [bucket, count] of counts) this.#tally.add(bucket, count)
  }

  /** One actor, once in each bucket; or only in the first, where each number contains those before it. */
  #countActor(rows: Uint32Array, start: number, end: number): void {
    const { measure } = this.#series
    const isSession = measure.of === 'actors' && measure.actor?.kind === 'event_property'
    if (!this.#plan.isCumulative || isSession) {
      const actor = this.#actors
      for (let position = start; position < end; position++) {
        const bucket = this.#buckets[rows[position] ?? 0] ?? 0
        if (this.#lastSeen[bucket] === actor) continue
        this.#lastSeen[bucket] = actor
        this.#tally.count(bucket)
      }
      return
    }
    let first = Number.POSITIVE_INFINITY
    for (let position = start; position < end; position++) {
      first = Math.min(first, this.#buckets[rows[position] ?? 0] ?? 0)
    }
    this.#tally.count(first)
  }

  /** The different periods of one actor, ascending. */
  #bucketsSeen(rows: Uint32Array, start: number, end: number): readonly number[] {
    const seen: number[] = []
    const actor = this.#actors
    for (let position = start; position < end; position++) {
      const bucket = this.#buckets[rows[position] ?? 0] ?? 0
      if (this.#lastSeen[bucket] === actor) continue
      this.#lastSeen[bucket] = actor
      seen.push(bucket)
    }
    return seen.sort((a, b) => a - b)
  }
}

const NO_ROWS = new Uint32Array(0)
/** Values between two looks at the limits of a query. */
const CELLS_EACH = 256

/** How many actors were active within the periods up to each one. */
class ActiveCounts {
  readonly #length: number
  readonly #lastPeriods: Uint32Array
  /** By how many more a period has than the one before. */
  readonly #changes: Int32Array

  constructor({ window, periods }: Span) {
    this.#length = window?.length ?? 1
    this.#lastPeriods = window?.lastPeriods ?? NO_ROWS
    this.#changes = new Int32Array((periods?.count ?? 1) + this.#length + 1)
  }

  /** One actor, by the periods with its events, ascending. */
  add(periods: readonly number[]): void {
    const changes = this.#changes
    let until = -1
    for (const period of periods) {
      if (period > until) {
        if (until >= 0) changes[until] = (changes[until] ?? 0) - 1
        changes[period] = (changes[period] ?? 0) + 1
      }
      until = period + this.#length
    }
    if (until >= 0) changes[until] = (changes[until] ?? 0) - 1
  }

  finish(tally: TallyBuilder): void {
    const actives = new Int32Array(this.#changes.length)
    let active = 0
    for (const [period, change] of this.#changes.entries()) {
      active += change
      actives[period] = active
    }
    for (const [bucket, period] of this.#lastPeriods.entries()) {
      const count = actives[period] ?? 0
      if (count > 0) tally.count(bucket, count)
    }
  }
}
