/**
 * Jobs that erase events: of deleted persons, of criteria that somebody asked for, of retention. Table
 * `deletion_jobs`: project, number -> JSON of `DeletionJob`, sealed; a job that is done stays as the
 * receipt. A job goes through the segments in order and blanks the rows that it means; after each
 * segment its progress is stored with the rewritten segment in one transaction.
 */
import type { ErasureCriteria, ErasureOrigin, ErasureReceipt } from '../query/erasure.ts'
import { DamagedRecordError, seal, unseal } from './codec.ts'
import type { Environment, Table } from './environment.ts'
import {
  countRows,
  type ErasureMatch,
  type ErasureTarget,
  erasureMatch,
  matchedRows,
  mayMatch,
} from './erasure-match.ts'
import { NUMBER_MAX, numberInKey, pairKey } from './keys.ts'
import type { OpenProject } from './open-project.ts'
import { SegmentBuilder } from './segment-builder.ts'
import { replaceSegments } from './segment-compactor.ts'
import type { SegmentEncoder } from './segment-encoder.ts'
import { QUALITY_SMALL, type SegmentSummary } from './segment-format.ts'
import { appendSegment } from './segment-merge.ts'
import type { SegmentTables } from './segment-view.ts'

const JOBS = 'deletion_jobs'

/** The erasure of events. */
export interface DeletionJob extends ErasureTarget {
  readonly origin: ErasureOrigin
  /** As it was asked for; of a deleted person only `personId`. */
  readonly criteria: ErasureCriteria
  /** E-mail address of the user, '' for the daemon itself. */
  readonly requestedBy: string
  readonly requestedAt: string
  readonly doneAt: string | null
  /** Retention by size: when the newest event that goes for it arrived, milliseconds. */
  readonly arrivedThroughMs: number | null
  /** S up to which everything is done. */
  readonly progress: number
  readonly deletedRows: number
  readonly releasedBytes: number
  /** Segments that could not be read, and may hold what was to be erased. */
  readonly damagedSegments: number
}

type JobProgress = 'doneAt' | 'progress' | 'deletedRows' | 'releasedBytes' | 'damagedSegments'

/** What a new job says. */
export type JobOrder = Omit<DeletionJob, JobProgress>

/** A job that has not begun. */
export function newJob(order: JobOrder): DeletionJob {
  const figures = { progress: 0, deletedRows: 0, releasedBytes: 0, damagedSegments: 0 }
  return { ...order, doneAt: null, ...figures }
}

/** A job that is not done. */
export interface OpenJob {
  readonly projectId: number
  readonly number: number
  readonly job: DeletionJob
}

/** Stores a job. Only in a write transaction. */
export function storeJob(table: Table, projectId: number, number: number, job: DeletionJob): void {
  const key = pairKey(projectId, number)
  void table.put(key, seal(key, Buffer.from(JSON.stringify(job))))
}

/** The jobs of a project, newest first, done or not. Throws `DamagedRecordError`. */
export function* loadJobs(table: Table, projectId: number): Generator<OpenJob> {
  const start = pairKey(projectId, NUMBER_MAX)
  const range = { start, end: pairKey(projectId, 0), reverse: true }
  for (const { key, value } of table.getRange(range)) yield decodeJob(key, value)
}

/** One job, or null. Throws `DamagedRecordError`. */
export function loadJob(table: Table, projectId: number, number: number): DeletionJob | null {
  if (!Number.isInteger(number) || number < 1 || number > NUMBER_MAX) return null
  const key = pairKey(projectId, number)
  const value = table.get(key)
  return value === undefined ? null : decodeJob(key, value).job
}

/** A job as its receipt says it. */
export function receiptOf(number: number, job: DeletionJob): ErasureReceipt {
  const { criteria, rules } = job
  return {
    id: number,
    origin: job.origin,
    status: job.doneAt === null ? 'running' : 'done',
    requested_by: job.requestedBy === '' ? null : job.requestedBy,
    requested_at: job.requestedAt,
    finished_at: job.doneAt,
    criteria: {
      event: criteria.event,
      after: timeText(criteria.afterMs),
      before: timeText(criteria.beforeMs),
      distinct_id: criteria.distinctId,
      person_id: criteria.personId,
      rules:
        job.origin === 'retention'
          ? rules
              .filter(({ afterMs }) => afterMs === null)
              .map(({ event, beforeMs }) => ({ event, before: timeText(beforeMs) }))
          : [],
      arrived_through: timeText(job.arrivedThroughMs),
    },
    events_removed: job.deletedRows,
    bytes_released: job.releasedBytes,
    segments_unreadable: job.damagedSegments,
  }
}

function timeText(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString()
}

function decodeJob(key: Uint8Array, value: Buffer): OpenJob {
  // Written by `storeJob`, and unchanged since: the checksum says so.
  const job = JSON.parse(unseal(JOBS, key, value).toString('utf8')) as DeletionJob
  return { projectId: numberInKey(key, 0), number: numberInKey(key, 4), job }
}

/** The jobs of all projects that are not done, oldest first. Throws `DamagedRecordError`. */
function loadOpenJobs(table: Table): OpenJob[] {
  const open: OpenJob[] = []
  for (const { key, value } of table.getRange({})) {
    const job = decodeJob(key, value)
    if (job.job.doneAt === null) open.push(job)
  }
  return open
}

/** What the deletion of events works with. */
export interface EventDeletionOptions {
  readonly environment: Environment
  readonly segments: SegmentTables
  /** Table `projects`. */
  readonly projects: Table
  readonly jobs: Table
  readonly encoder: SegmentEncoder
  readonly projectOf: (projectId: number) => OpenProject
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly onDamage: (error: DamagedRecordError) => void
}

/** A job on its way through the segments. */
interface RunningJob extends OpenJob {
  readonly match: ErasureMatch
  progress: number
  deletedRows: number
  releasedBytes: number
  damagedSegments: number
}

/** Carries out deletion jobs, one segment at a time. */
export class EventDeletion {
  readonly #options: EventDeletionOptions
  readonly #waiting: OpenJob[]
  #running: RunningJob | null = null

  constructor(options: EventDeletionOptions) {
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
      return this.#deleteFrom(job, summary)
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
    for (const summary of segments.summaries(projectId, first, damaged)) {
      if (summary.firstSequence > match.through) return null
      if (summary.firstSequence + summary.rows - 1 <= progress) continue
      if (mayMatch(match, summary)) return summary
    }
    return null
  }

  #deleteFrom(job: RunningJob, { firstSequence }: SegmentSummary): boolean {
    const { environment, segments, projects, encoder, projectOf, jobs } = this.#options
    const { projectId, number } = job
    const view = segments.segmentAt(projectId, firstSequence)
    const deleted = view === null ? null : matchedRows(job.match, view)
    if (view === null || deleted === null) return false
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
