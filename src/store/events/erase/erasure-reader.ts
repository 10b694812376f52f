/**
 * Answers queries about erasures: receipts, retention rules, and estimates of how much an erasure would remove. An
 * estimate reads every segment, except those that their headers exclude. It takes some milliseconds for each segment.
 */

import {
  type ErasureCriteria,
  type ErasureEstimate,
  type ErasurePage,
  type ErasureReceipt,
  type RetentionPlan,
  type RetentionRules,
  type RetentionView,
  rulesAt,
} from '../../../rules/events/erasure.ts'
import { type DeletionJob, type ErasureSpan, receiptOf } from '../../../rules/events/erasure-job.ts'
import { type ErasureMatch, erasureMatch, mayMatch } from '../../../rules/events/erasure-match.ts'
import { attempt, type DamageListener, refuseDamage } from '../../faults.ts'
import { loadDistinctId } from '../../identity/distinct-ids.ts'
import {
  loadJobs,
  loadRetention,
  type OpenJob,
  retainedProjects,
} from '../../identity/erasure-records.ts'
import type { PersonReader } from '../../identity/person-reader.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { loadNumbered } from '../../lmdb/numbered-records.ts'
import { loadCounters, type ProjectCounters } from '../format/event-projects.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { countLive, countRows, matchedRows } from './matched-rows.ts'

interface Share {
  events: number
  bytes: number
}

/** The oldest events of a project: those that must be removed so that the project gets below its size limit. */
interface Oldest extends Share {
  through: number
  arrivedMs: number | null
}

/**
 * If a project exceeds its size limit, events are removed until it has this fraction of the limit, so that it does not
 * exceed the limit again soon.
 */
const SIZE_TARGET = 0.95

/** Reads receipts and rules, and estimates erasures. */
export class ErasureReader {
  readonly #tables: EventTables
  readonly #segments: SegmentReader
  readonly #persons: PersonReader
  readonly #onDamage: DamageListener

  /**
   * `onDamage` receives an error for each damaged record that a retention plan has to skip. Without `onDamage`, the
   * plan throws.
   */
  constructor(
    tables: EventTables,
    segments: SegmentReader,
    persons: PersonReader,
    onDamage: DamageListener = refuseDamage,
  ) {
    this.#tables = tables
    this.#segments = segments
    this.#persons = persons
    this.#onDamage = onDamage
  }

  /** Returns a page of receipts, newest first. Reads all receipts of the project. */
  list(projectId: number, limit: number, offset: number): ErasurePage {
    const jobs: OpenJob[] = []
    let count = 0
    let runningCount = 0
    for (const job of loadJobs(this.#tables.deletion_jobs, projectId)) {
      if (count >= offset && jobs.length < limit) jobs.push(job)
      count++
      if (job.job.doneAt === null) runningCount++
    }
    const results = jobs.map(({ number, job }) => receiptOf(number, job))
    return { count, runningCount, results }
  }

  receipt(projectId: number, number: number): ErasureReceipt | null {
    const job = loadNumbered<DeletionJob>(this.#tables.deletion_jobs, projectId, number)
    return job === null ? null : receiptOf(number, job)
  }

  /**
   * Estimates how many events and bytes an erasure would remove. Returns null if the person of the criteria does not
   * exist.
   */
  estimate(projectId: number, criteria: ErasureCriteria): ErasureEstimate | null {
    const ids = this.#spansOf(projectId, criteria)
    if (ids === undefined) return null
    const { event, afterMs, beforeMs } = criteria
    const through = this.#counters(projectId)?.rows ?? 0
    const rules = [{ event, afterMs, beforeMs }]
    const match = erasureMatch({ ids, rules, oldestThrough: 0, through })
    return this.#total(projectId, match, refuseDamage)
  }

  retention(projectId: number): RetentionView {
    const bytes = this.#counters(projectId)?.bytes ?? 0
    return { rules: loadRetention(this.#tables.retention_rules, projectId), bytes }
  }

  retainedProjects(): readonly number[] {
    return retainedProjects(this.#tables.retention_rules)
  }

  /**
   * Estimates how many events the retention rules would remove: the rules in `given`, or the stored rules of the
   * project if `given` is null. Retention skips damaged records, so the estimate skips them too. If it had to skip any,
   * `isComplete` is false.
   */
  plan(projectId: number, given: RetentionRules | null, nowMs: number): RetentionPlan {
    const wanted = given ?? loadRetention(this.#tables.retention_rules, projectId)
    const { bytesMax } = wanted
    const counters = this.#counters(projectId)
    const rules = rulesAt(wanted, nowMs)
    const through = counters?.rows ?? 0
    const match = erasureMatch({ ids: null, rules, oldestThrough: 0, through })
    let isComplete = true
    const onDamage: DamageListener = (error) => {
      isComplete = false
      this.#onDamage(error)
    }
    const { events, bytes } = this.#total(projectId, match, onDamage)
    const left = (counters?.bytes ?? 0) - bytes
    const isTooLarge = bytesMax !== null && left > bytesMax
    const excess = isTooLarge ? left - bytesMax * SIZE_TARGET : 0
    const oldest = this.#oldest(projectId, excess, match, onDamage)
    return {
      rules,
      oldestThrough: oldest.through,
      arrivedThroughMs: oldest.arrivedMs,
      events: events + oldest.events,
      bytes: bytes + oldest.bytes,
      isRunning: this.#isRetentionRunning(projectId),
      isComplete,
    }
  }

  #isRetentionRunning(projectId: number): boolean {
    for (const { job } of loadJobs(this.#tables.deletion_jobs, projectId)) {
      if (job.origin === 'retention') return job.doneAt === null
    }
    return false
  }

  /**
   * Returns the oldest events that must be removed in order to release `excess` bytes. The bytes of events that other
   * rules remove anyway must already be subtracted from `excess`.
   */
  #oldest(
    projectId: number,
    excess: number,
    match: ErasureMatch,
    onDamage: DamageListener,
  ): Oldest {
    const oldest: Oldest = { events: 0, bytes: 0, through: 0, arrivedMs: null }
    let left = excess
    for (const { firstSequence } of this.#summaries(projectId, onDamage)) {
      if (left <= 0) break
      attempt(() => {
        const view = this.#segments.segmentAt(projectId, firstSequence)
        left -= takeOldest(oldest, view, matchedRows(match, view), left)
      }, onDamage)
    }
    return oldest
  }

  /** Returns how many events and bytes an erasure removes from all segments together. */
  #total(projectId: number, match: ErasureMatch, onDamage: DamageListener): Share {
    const total = { events: 0, bytes: 0 }
    for (const summary of this.#summaries(projectId, onDamage)) {
      if (!mayMatch(match, summary)) continue
      attempt(() => {
        const view = this.#segments.segmentAt(projectId, summary.firstSequence)
        const rows = matchedRows(match, view)
        if (rows === null) return
        const events = countRows(rows)
        const bytes = Math.round((view.storedBytes * events) / countLive(view))
        total.events += events
        total.bytes += bytes
      }, onDamage)
    }
    return total
  }

  #counters(projectId: number): ProjectCounters | null {
    return loadCounters(this.#tables.projects, projectId)
  }

  #summaries(projectId: number, onDamage: DamageListener): Iterable<SegmentSummary> {
    const rows = this.#counters(projectId)?.rows ?? 0
    return this.#segments.summaries(projectId, 1, rows, onDamage)
  }

  /**
   * Returns which events match criteria: for each distinct ID number, a range of sequence numbers. Returns null if
   * events of all persons match, and undefined if there is no such person.
   */
  #spansOf(
    projectId: number,
    { distinctId, personId }: ErasureCriteria,
  ): readonly ErasureSpan[] | null | undefined {
    const all = Number.MAX_SAFE_INTEGER
    const ids = personId === null ? null : this.#persons.idsOfUuid(projectId, personId)
    if (personId !== null && ids === null) return undefined
    if (distinctId === null) return ids && [...ids].map(([id, since]) => [id, since, all])
    const wanted = loadDistinctId(this.#tables, projectId, distinctId)
    if (ids === null) return [[wanted, 0, all]]
    const since = ids.get(wanted)
    return since === undefined ? [] : [[wanted, since, all]]
  }
}

/**
 * Adds the oldest events of a segment to `oldest`, until they release about `wanted` bytes. Events that other rules
 * remove anyway are left out. Returns the number of released bytes.
 */
function takeOldest(
  oldest: Oldest,
  view: SegmentView,
  matched: Uint8Array | null,
  wanted: number,
): number {
  const { distinctIds, summary, storedBytes, arrivals } = view
  const staying: number[] = []
  for (let row = 0; row < distinctIds.length; row++) {
    if (distinctIds[row] !== 0 && matched?.[row] !== 1) staying.push(row)
  }
  const live = countLive(view)
  // If all events of a segment were already removed, it has no bytes to release.
  if (live === 0) return 0
  const bytes = (storedBytes * staying.length) / live
  const count = Math.min(staying.length, Math.ceil((staying.length * wanted) / bytes))
  const last = staying[count - 1]
  if (last === undefined) return bytes
  const released = Math.round((bytes * count) / staying.length)
  oldest.events += count
  oldest.bytes += released
  oldest.through = summary.firstSequence + last
  oldest.arrivedMs = Math.max(oldest.arrivedMs ?? Number.NEGATIVE_INFINITY, arrivals[last] ?? 0)
  return released
}
