/**
 * Counts the sessions of a site without storing their events. This needs one scan instead of two, and a third of the
 * memory of rows.ts, which stores the events of each session side by side. This module is used for an overview whose
 * events do not fit into memory and are counted in parts. In all other cases, rows.ts is better, because tables that
 * are shown together share its rows.
 */

import { largestPerson } from '../../analytics/actor-page.ts'
import type { DateRange } from '../../analytics/date-range.ts'
import type { EventColumns } from '../../analytics/event-columns.ts'
import { grown } from '../../analytics/growing-arrays.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { PacedLimits } from '../paced-limits.ts'
import { type QueryShard, scanShardChunks } from '../query-kind.ts'
import { CURRENT, PREVIOUS } from './candidates.ts'
import { type Counted, SessionTally } from './counted.ts'
import {
  AUTOCAPTURE,
  collectSessions,
  ENGAGED_S,
  type GrowingSessions,
  VIEW,
  VIEW_SERIES,
} from './sessions.ts'
import { rangeOf, type WebPlan } from './web-plan.ts'

/** The number of sessions for which a new list has capacity. */
const SESSIONS_START = 1024
/**
 * The bits of a session. `VIEWED` means that it has a view. `ENGAGED` means that it has several views or an
 * autocaptured event.
 */
const VIEWED = 1
const ENGAGED = 2

/**
 * Returns whether sessions can be counted without storing their events: the plan has no goal, and all its filters are
 * on events.
 */
export function isOfVisits({ goal, filters }: WebPlan): boolean {
  return goal === null && filters.every(({ kind }) => kind === 'events')
}

/**
 * Counts the sessions and views of a site, all under the value '', as the overview does. Throws the same errors as
 * `EventScanner.scan`.
 */
export function countedVisits(plan: WebPlan, shard: QueryShard): Counted {
  const range = rangeOf(plan)
  const trees = plan.filters.flatMap((filter) => (filter.kind === 'events' ? [filter.tree] : []))
  const visits = new Visits(plan, trees.length === 0)
  collectSessions(shard, range, visits)
  if (trees.length > 0) addFilteredViews(visits, shard, range, trees)
  return visits.counted(shard)
}

function addFilteredViews(
  visits: Visits,
  shard: QueryShard,
  range: DateRange,
  trees: readonly FilterGroup[],
): void {
  scanShardChunks(
    shard,
    {
      ...range,
      series: [VIEW_SERIES],
      filter: allOf(trees),
      values: [{ kind: 'session' }],
      order: 'unsorted',
    },
    (chunk) => visits.addViews(chunk),
  )
}

/** Sessions, as parallel lists indexed by session number. */
class Visits implements GrowingSessions {
  size = 1
  marks = new Uint8Array(SESSIONS_START)
  /** The times of the first and last event. */
  #firstMs = new Float64Array(SESSIONS_START)
  #lastMs = new Float64Array(SESSIONS_START)
  #bits = new Uint8Array(SESSIONS_START)
  /**
   * For each session: the number of its views that are in one of the ranges and pass the filters, and the time, the
   * sequence number and the owner of the first of these views.
   */
  #views = new Uint32Array(SESSIONS_START)
  #viewMs = new Float64Array(SESSIONS_START)
  #viewSequences = new Uint32Array(SESSIONS_START)
  #viewPersons = new Uint32Array(SESSIONS_START)
  readonly #plan: Pick<WebPlan, 'current' | 'previous'>
  readonly #areAllViews: boolean

  /**
   * If `areAllViews` is true, all views are counted. Otherwise only the views that are passed to `addViews` are
   * counted.
   */
  constructor(plan: Pick<WebPlan, 'current' | 'previous'>, areAllViews: boolean) {
    this.#plan = plan
    this.#areAllViews = areAllViews
  }

  add(
    { count, timesMs, sequences, seriesMasks, persons, values: [column] }: EventColumns,
    isNew: (timeMs: number) => boolean,
  ): void {
    if (column === undefined) return
    const { ids } = column
    this.#reserve(1 + largestPerson(ids, count))
    const { marks } = this
    const [firstMs, lastMs, bits] = [this.#firstMs, this.#lastMs, this.#bits]
    for (let row = 0; row < count; row++) {
      const session = ids[row] ?? 0
      const timeMs = timesMs[row] ?? 0
      if (session === 0 || !isNew(timeMs)) continue
      if (marks[session] === 0) {
        marks[session] = 1
        firstMs[session] = timeMs
        lastMs[session] = timeMs
      } else if (timeMs < (firstMs[session] ?? 0)) firstMs[session] = timeMs
      else if (timeMs > (lastMs[session] ?? 0)) lastMs[session] = timeMs
      const mask = seriesMasks[row] ?? 0
      const before = bits[session] ?? 0
      if ((mask & AUTOCAPTURE) !== 0) bits[session] = before | ENGAGED
      if ((mask & VIEW) === 0) continue
      bits[session] = before | (before === 0 ? VIEWED : VIEWED | ENGAGED)
      if (this.#areAllViews && this.#isWithin(timeMs)) {
        this.#addView(session, timeMs, sequences[row] ?? 0, persons[row] ?? 0)
      }
    }
  }

  /** Adds views that pass the filters. The sessions of the views must have been added with `add` before. */
  addViews({ count, timesMs, sequences, persons, values: [column] }: EventColumns): void {
    for (let row = 0; row < count; row++) {
      const session = column?.ids[row] ?? 0
      const timeMs = timesMs[row] ?? 0
      if (session === 0 || !this.#isWithin(timeMs)) continue
      this.#addView(session, timeMs, sequences[row] ?? 0, persons[row] ?? 0)
    }
  }

  counted({ scanner }: Pick<QueryShard, 'scanner'>): Counted {
    const { current, previous } = this.#plan
    const tally = new SessionTally()
    const paced = new PacedLimits(scanner)
    for (let session = 1; session < this.size; session++) {
      paced.count(1)
      const views = this.#views[session] ?? 0
      if (views === 0) continue
      const startMs = this.#firstMs[session] ?? 0
      const range =
        (isIn(current, startMs) ? CURRENT : 0) |
        (previous !== null && isIn(previous, startMs) ? PREVIOUS : 0)
      if (range === 0) continue
      const endS = Math.floor((this.#lastMs[session] ?? 0) / 1000)
      const durationS = endS - Math.floor(startMs / 1000)
      const isEngaged = ((this.#bits[session] ?? 0) & ENGAGED) !== 0
      const person = this.#viewPersons[session] ?? 0
      tally.add(range, person, views, durationS, !isEngaged && durationS < ENGAGED_S)
    }
    return tally.finish()
  }

  #addView(session: number, timeMs: number, sequence: number, person: number): void {
    const views = this.#views[session] ?? 0
    this.#views[session] = views + 1
    const firstMs = this.#viewMs[session] ?? 0
    const isFirst =
      views === 0 ||
      timeMs < firstMs ||
      (timeMs === firstMs && sequence < (this.#viewSequences[session] ?? 0))
    if (!isFirst) return
    this.#viewMs[session] = timeMs
    this.#viewSequences[session] = sequence
    this.#viewPersons[session] = person
  }

  #isWithin(timeMs: number): boolean {
    const { current, previous } = this.#plan
    return isIn(current, timeMs) || (previous !== null && isIn(previous, timeMs))
  }

  #reserve(size: number): void {
    this.size = Math.max(this.size, size)
    if (size <= this.marks.length) return
    const length = Math.max(size, 2 * this.marks.length)
    this.marks = grown(this.marks, length)
    this.#firstMs = grown(this.#firstMs, length)
    this.#lastMs = grown(this.#lastMs, length)
    this.#bits = grown(this.#bits, length)
    this.#views = grown(this.#views, length)
    this.#viewMs = grown(this.#viewMs, length)
    this.#viewSequences = grown(this.#viewSequences, length)
    this.#viewPersons = grown(this.#viewPersons, length)
  }
}

function isIn({ fromMs, toMs }: DateRange, timeMs: number): boolean {
  return timeMs >= fromMs && timeMs <= toMs
}
