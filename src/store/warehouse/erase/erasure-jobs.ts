/**
 * Jobs that erase events: of deleted persons, of criteria that somebody asked for, of retention. Table
 * `deletion_jobs`: project, number -> JSON of `DeletionJob`, sealed; a job that is done stays as the
 * receipt. They are carried out by event-erasure.ts.
 */
import type {
  ErasureCriteria,
  ErasureOrigin,
  ErasureReceipt,
} from '../../../rules/events/erasure.ts'
import { seal, unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey } from '../../lmdb/keys.ts'
import type { ErasureTarget } from './erasure-match.ts'

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
    status: statusOf(job),
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

function statusOf({ doneAt, damagedSegments }: DeletionJob): ErasureReceipt['status'] {
  if (doneAt === null) return 'running'
  return damagedSegments > 0 ? 'incomplete' : 'done'
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
export function loadOpenJobs(table: Table): OpenJob[] {
  const open: OpenJob[] = []
  for (const { key, value } of table.getRange({})) {
    const job = decodeJob(key, value)
    if (job.job.doneAt === null) open.push(job)
  }
  return open
}
