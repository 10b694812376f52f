/**
 * Carries out the erasure of events: a job (erasure-jobs.ts) goes through the segments in order and blanks
 * the rows that it means; after each segment its progress is stored with the rewritten segment in one
 * transaction.
 */

import type { DeletionJob } from '../../../rules/events/erasure-job.ts'
import { DamagedRecordError, type DamageListener } from '../../faults.ts'
import type { Environment, Table } from '../../lmdb/environment.ts'
import { SegmentBuilder } from '../format/segment-builder.ts'
import type { SegmentEncoder } from '../format/segment-encoder.ts'
import { QUALITY_SMALL, type SegmentSummary } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-view.ts'
import type { OpenProject } from '../write/open-project.ts'
import { replaceSegments } from '../write/segment-compactor.ts'
import { appendSegment } from '../write/segment-merge.ts'
import { loadOpenJobs, type OpenJob, storeJob } from './erasure-jobs.ts'
import {
  countRows,
  type ErasureMatch,
  erasureMatch,
  matchedRows,
  mayMatch,
} from './erasure-match.ts'

/** What the erasure of events works with. */
export interface EventErasureOptions {
  readonly environment: Environment
  readonly segments: SegmentTables
  /** Table `projects`. */
  readonly projects: Table
  readonly jobs: Table
  readonly encoder: SegmentEncoder
  readonly projectOf: (projectId: number) => OpenProject
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly onDamage: DamageListener
}

/** A job on its way through the segments. */
interface RunningJob extends OpenJob {
  readonly match: ErasureMatch
  progress: number
  deletedRows: number
  releasedBytes: number
  damagedSegments: number
}

/** Carries out the jobs, one segment at a time. */
export class EventErasure {
  readonly #options: EventErasureOptions
  readonly #waiting: OpenJob[]
  #running: RunningJob | null = null

  constructor(options: EventErasureOptions) {
    this.#options = options
    this.#waiting = loadOpenJobs(options.jobs)
  }

  /** Takes on jobs that are stored. */
  add(jobs: readonly OpenJob[]): void {
    this.#waiting.push(...jobs)
  }

  get hasWork(): boolean {
    return this.#running !== null || this.#waiting.length > 0
  }

  /** Looks at one segment; true when it was rewritten. Some 0.2 s for the largest. */
  step(): boolean {
    const next = this.#running === null ? this.#waiting.shift() : undefined
    if (next !== undefined) this.#running = running(next)
    const job = this.#running
    if (job === null) return false
    const summary = this.#nextSegment(job)
    if (summary === null) {
      this.#finish(job)
      return false
    }
    job.progress = summary.firstSequence + summary.rows - 1
    try {
      return this.#eraseFrom(job, summary)
    } catch (cause) {
      if (!(cause instanceof DamagedRecordError)) throw cause
      this.#skip(job, cause)
      return false
    }
  }

  #nextSegment(job: RunningJob): SegmentSummary | null {
    const { projectId, progress, match } = job
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
    const { environment, segments, projects, encoder, projectOf, jobs } = this.#options
    const { projectId, number } = job
    const view = segments.segmentAt(projectId, firstSequence)
    const deleted = matchedRows(job.match, view)
    if (deleted === null) return false
    const count = countRows(deleted)
    // What was erased before has nothing to keep either.
    for (const [row, id] of view.distinctIds.entries()) if (id === 0) deleted[row] = 1
    const project = projectOf(projectId)
    const builder = new SegmentBuilder((distinctId) => project.textOf(distinctId))
    appendSegment(builder, view, deleted)
    const rewritten = encoder.encode(projectId, firstSequence, builder, QUALITY_SMALL)
    job.deletedRows += count
    job.releasedBytes += Math.max(0, view.storedBytes - rewritten.bytes)
    environment.write(() => {
      replaceSegments(segments, projects, project, [view], rewritten)
      storeJob(jobs, projectId, number, stateOf(job))
    })
    return true
  }

  #skip(job: RunningJob, error: DamagedRecordError): void {
    job.damagedSegments++
    this.#options.onDamage(error)
  }

  #finish(job: RunningJob): void {
    const { environment, jobs, now } = this.#options
    const doneAt = new Date(now()).toISOString()
    // The receipt says what was asked for, and whom it concerned only as far as it was asked.
    const ids = job.job.ids === null ? null : []
    const done = { ...stateOf(job), doneAt, ids }
    environment.write(() => storeJob(jobs, job.projectId, job.number, done))
    this.#running = null
  }
}

function running(open: OpenJob): RunningJob {
  const { progress, deletedRows, releasedBytes, damagedSegments } = open.job
  const figures = { progress, deletedRows, releasedBytes, damagedSegments }
  return { ...open, match: erasureMatch(open.job), ...figures }
}

function stateOf(running: RunningJob): DeletionJob {
  const { job, progress, deletedRows, releasedBytes, damagedSegments } = running
  return { ...job, progress, deletedRows, releasedBytes, damagedSegments }
}
