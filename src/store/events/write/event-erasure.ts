/**
 * Erases events. An erasure job (identity/erasure-records.ts) goes through the segments of its project in order and
 * removes the contents of the matching rows. For each segment, one transaction stores the rewritten segment and the
 * progress of the job.
 */
import { ServiceError } from '../../../base/errors.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { ErasedJob, ErasureJob } from '../../../ports/warehouse.ts'
import { isToCarryOut } from '../../../rules/events/erasure-job.ts'
import {
  type ErasureMatch,
  erasureMatch,
  isMeant,
  mayMatch,
} from '../../../rules/events/erasure-match.ts'
import { attempt, type DamagedRecordError, type DamageListener } from '../../faults.ts'
import {
  loadOpenJobs,
  type OpenJob,
  storeCopied,
  storeProgress,
} from '../../identity/erasure-records.ts'
import type { Environment } from '../../lmdb/environment.ts'
import { type EventsTable, numberInKey, pairKey } from '../../lmdb/keys.ts'
import { countRows, matchedRows } from '../erase/matched-rows.ts'
import { SegmentBuilder } from '../format/segment-builder.ts'
import type { SegmentEncoder } from '../format/segment-encoder.ts'
import { QUALITY_SMALL, type SegmentSummary } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import type { RowIdentity } from '../format/segment-view.ts'
import type { OpenProject } from './open-project.ts'
import { replaceSegments } from './segment-compactor.ts'
import { appendSegment } from './segment-merge.ts'

/**
 * If the warehouse cannot return the moved columns of a segment, the job tries again after this time, in milliseconds.
 */
const AWAY_AGAIN_MS = 5000

/** What the erasure of events needs. */
export interface EventErasureOptions {
  readonly environment: Environment<EventsTable>
  readonly segments: SegmentTables
  readonly encoder: SegmentEncoder
  readonly projectOf: (projectId: number) => OpenProject
  readonly onDamage: DamageListener
  /** True if ClickHouse has copies of the events. A job then ends only when its events are erased there too. */
  readonly hasCopies: boolean
}

/** The job that is going through the segments now. */
interface RunningJob {
  open: OpenJob
  readonly match: ErasureMatch
}

/** Runs the jobs, one segment at a time. */
export class EventErasure {
  readonly #options: EventErasureOptions
  readonly #waiting: OpenJob[]
  #running: RunningJob | null = null
  /** The next segment is not processed before `performance.now()` returns this time. */
  #againAtMs = 0
  /**
   * For each job that is ordered but not complete: what its events must match. By project and by the number of the job.
   */
  readonly #ordered = new Map<number, Map<number, ErasureMatch>>()
  readonly #carriedOut: ErasedJob[]

  constructor(options: EventErasureOptions) {
    this.#options = options
    const { deletion_jobs, copied_erasures } = options.environment.tables
    const jobs = loadOpenJobs(deletion_jobs)
    this.#waiting = jobs.filter(({ job }) => isToCarryOut(job))
    const carriedOut = jobs.filter(({ job }) => !isToCarryOut(job)).map(keyOf)
    // Add the jobs that are complete in this store, but whose events ClickHouse may still have.
    if (options.hasCopies) carriedOut.push(...copied_erasures.getKeys({}))
    const keys = new Set(carriedOut.map((key) => key.toString('hex')))
    this.#carriedOut = [...keys].map((key) => numberOf(Buffer.from(key, 'hex')))
    for (const job of this.#waiting) this.order(job)
  }

  /** Makes the events of a job count as erased from now on; see `WarehouseWriter.order`. */
  order({ projectId, number, job }: ErasureJob): void {
    const newJobs = () => new Map<number, ErasureMatch>()
    const ordered = getOrAdd(this.#ordered, projectId, newJobs)
    getOrAdd(ordered, number, () => erasureMatch(job))
  }

  /** Returns whether an event counts as erased, although it may still be stored. */
  isOrdered(
    projectId: number,
    sequence: number,
    { distinctId, name }: RowIdentity,
    timestampMs: () => number,
  ): boolean {
    const ordered = this.#ordered.get(projectId)
    if (ordered === undefined) return false
    for (const match of ordered.values()) {
      if (isMeant(match, sequence, distinctId, name, timestampMs())) return true
    }
    return false
  }

  /** Returns the jobs whose events were erased from this store since the last call; see `WarehouseWriter`. */
  takeCarriedOut(): readonly ErasedJob[] {
    return this.#carriedOut.splice(0)
  }

  /** Must be called when ClickHouse has no events of these jobs any more; see `WarehouseWriter`. */
  forgetCopies(jobs: readonly ErasedJob[]): void {
    const { environment } = this.#options
    if (jobs.length === 0) return
    environment.write(() => {
      for (const job of jobs) environment.tables.copied_erasures.removeSync(keyOf(job))
    })
  }

  /** Adds jobs that are stored to the queue. */
  add(jobs: readonly OpenJob[]): void {
    this.#waiting.push(...jobs)
  }

  /** True if the next segment can be processed now. False while the erasure waits for the warehouse to answer. */
  get hasWork(): boolean {
    const isThere = this.#running !== null || this.#waiting.length > 0
    return isThere && performance.now() >= this.#againAtMs
  }

  /** Processes the next segment. Returns true if it was rewritten. It takes about 0.2 s for the largest segment. */
  step(): boolean {
    const next = this.#running === null ? this.#waiting.shift() : undefined
    if (next !== undefined) this.#running = { open: next, match: erasureMatch(next.job) }
    const job = this.#running
    if (job === null) return false
    const summary = this.#nextSegment(job)
    if (summary === null) {
      this.#finish(job)
      return false
    }
    const before = job.open
    progress(job, { progress: summary.firstSequence + summary.rows - 1 })
    try {
      return (
        attempt(
          () => this.#eraseFrom(job, summary),
          (error) => this.#skip(job, error),
        ) ?? false
      )
    } catch (cause) {
      // A `ServiceError` means that the warehouse cannot return the moved columns now, so the job tries again later.
      // Any other error is a fault.
      if (!(cause instanceof ServiceError)) throw cause
      job.open = before
      this.#againAtMs = performance.now() + AWAY_AGAIN_MS
      return false
    }
  }

  #nextSegment(job: RunningJob): SegmentSummary | null {
    const { match } = job
    const { projectId } = job.open
    const { progress } = job.open.job
    if (progress >= match.through) return null
    const { segments } = this.#options
    const first = segments.firstSequenceOf(projectId, progress + 1)
    const damaged = (error: DamagedRecordError): void => this.#skip(job, error)
    const { rows } = this.#options.projectOf(projectId).counters
    for (const summary of segments.summaries(projectId, first, rows, damaged)) {
      if (summary.firstSequence > match.through) return null
      if (summary.firstSequence + summary.rows - 1 <= progress) continue
      if (mayMatch(match, summary)) return summary
    }
    return null
  }

  #eraseFrom(job: RunningJob, { firstSequence }: SegmentSummary): boolean {
    const { environment, segments, encoder, projectOf } = this.#options
    const { projectId } = job.open
    const { projects, deletion_jobs } = environment.tables
    const view = segments.segmentAt(projectId, firstSequence)
    const deleted = matchedRows(job.match, view)
    if (deleted === null) return false
    const count = countRows(deleted)
    // Also mark the rows that were erased earlier, because they have no contents that could be copied.
    for (const [row, id] of view.distinctIds.entries()) if (id === 0) deleted[row] = 1
    const project = projectOf(projectId)
    const builder = new SegmentBuilder((distinctId) => project.textOf(distinctId))
    appendSegment(builder, view, deleted)
    const rewritten = encoder.encode(projectId, firstSequence, builder, QUALITY_SMALL)
    const { deletedRows, releasedBytes } = job.open.job
    const released = Math.max(0, view.storedBytes - rewritten.bytes)
    progress(job, { deletedRows: deletedRows + count, releasedBytes: releasedBytes + released })
    environment.write(() => {
      replaceSegments(segments, projects, project, [view], rewritten)
      storeProgress(deletion_jobs, job.open)
    })
    return true
  }

  #skip(job: RunningJob, error: DamagedRecordError): void {
    progress(job, { damagedSegments: job.open.job.damagedSegments + 1 })
    this.#options.onDamage(error)
  }

  #finish(job: RunningJob): void {
    const { environment, hasCopies } = this.#options
    progress(job, { isCarriedOut: true })
    const { deletion_jobs, copied_erasures } = environment.tables
    const isDone = environment.write(() => {
      if (hasCopies) storeCopied(copied_erasures, job.open)
      return storeProgress(deletion_jobs, job.open)
    })
    const { projectId, number } = job.open
    const ordered = this.#ordered.get(projectId)
    ordered?.delete(number)
    if (ordered?.size === 0) this.#ordered.delete(projectId)
    if (!isDone || hasCopies) this.#carriedOut.push({ projectId, number })
    this.#running = null
  }
}

function keyOf({ projectId, number }: ErasedJob): Buffer {
  return pairKey(projectId, number)
}

function numberOf(key: Buffer): ErasedJob {
  return { projectId: numberInKey(key, 0), number: numberInKey(key, 4) }
}

function progress(running: RunningJob, changes: Partial<OpenJob['job']>): void {
  running.open = { ...running.open, job: { ...running.open.job, ...changes } }
}
