/**
 * Jobs that erase events: of deleted persons, of what somebody asked for, of retention; one that is
 * done is the receipt.
 */
import type { ErasureCriteria, ErasureOrigin, ErasureReceipt, ErasureRule } from './erasure.ts'

/** D with the S between which its events are meant: behind `after`, up to `through`. */
export type ErasureSpan = readonly [distinctId: number, after: number, through: number]

/** What an erasure means, as jobs store it. */
export interface ErasureTarget {
  /** Null: everybody's. */
  readonly ids: readonly ErasureSpan[] | null
  /**
   * An event falls under the rule of its name, else under the one without a name; without one it
   * stays.
   */
  readonly rules: readonly ErasureRule[]
  /** Everything up to this S, whatever the rules say. */
  readonly oldestThrough: number
  /** Nothing behind this S. */
  readonly through: number
}

/** The erasure of events. */
export interface DeletionJob extends ErasureTarget {
  readonly origin: ErasureOrigin
  /** As it was asked for; of a deleted person only `personId`. */
  readonly criteria: ErasureCriteria
  /** E-mail address of the user, '' for the daemon itself. */
  readonly requestedBy: string
  readonly requestedAt: string
  /** What the log says: when it was first heard that the job is carried out. */
  readonly doneAt: string | null
  /**
   * This store has erased everything that is meant. Together with `doneAt` the job is over. Absent in jobs of
   * old versions, which were carried out when they were done.
   */
  readonly isCarriedOut?: boolean
  /** Retention by size: when the newest event that goes for it arrived, milliseconds. */
  readonly arrivedThroughMs: number | null
  /** S up to which everything is done. */
  readonly progress: number
  readonly deletedRows: number
  readonly releasedBytes: number
  /** Segments that could not be read, and may hold what was to be erased. */
  readonly damagedSegments: number
}

type JobProgress =
  | 'doneAt'
  | 'isCarriedOut'
  | 'progress'
  | 'deletedRows'
  | 'releasedBytes'
  | 'damagedSegments'

/** What a new job says. */
export type JobOrder = Omit<DeletionJob, JobProgress>

/** A job that has not begun. */
export function newJob(order: JobOrder): DeletionJob {
  const figures = { progress: 0, deletedRows: 0, releasedBytes: 0, damagedSegments: 0 }
  return { ...order, doneAt: null, isCarriedOut: false, ...figures }
}

/** Whether a store still has something to erase for a job. */
export function isToCarryOut({ isCarriedOut, doneAt }: DeletionJob): boolean {
  return isCarriedOut === undefined ? doneAt === null : !isCarriedOut
}

/** A job that is over says what was asked for, and whom it concerned only as far as it was asked. */
export function withoutNeedlessIds(job: DeletionJob): DeletionJob {
  const isOver = job.doneAt !== null && !isToCarryOut(job)
  return isOver && job.ids !== null ? { ...job, ids: [] } : job
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
