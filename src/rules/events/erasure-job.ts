/**
 * Jobs that erase events, because a person was deleted, because of a request, or because of retention. A finished job
 * is the receipt.
 */
import type { ErasureCriteria, ErasureOrigin, ErasureReceipt, ErasureRule } from './erasure.ts'

/**
 * A distinct ID number, and the range of the sequence numbers of its selected events: greater than `after` and at most
 * `through`.
 */
export type ErasureSpan = readonly [distinctId: number, after: number, through: number]

/** The events that an erasure selects, in the form that jobs store. */
export interface ErasureTarget {
  /** The distinct ids whose events are selected. Null means the events of everybody. */
  readonly ids: readonly ErasureSpan[] | null
  /**
   * The rules that decide about each event. A rule with the name of the event takes precedence over the rule without a
   * name. An event for which there is no rule is kept.
   */
  readonly rules: readonly ErasureRule[]
  /** All events up to this sequence number are selected, regardless of the rules. */
  readonly oldestThrough: number
  /** Events after this sequence number are never selected. */
  readonly through: number
}

/** A job that erases events. */
export interface DeletionJob extends ErasureTarget {
  readonly origin: ErasureOrigin
  /** The criteria of the request. For a deleted person, only `personId` is set. */
  readonly criteria: ErasureCriteria
  /** The e-mail address of the user who requested the erasure, or '' if the daemon itself started it. */
  readonly requestedBy: string
  readonly requestedAt: string
  /** The time at which the log first recorded that the job was executed. Null until then. */
  readonly doneAt: string | null
  /**
   * True if this store has erased all selected events. The job is finished if `doneAt` is also set. The member is
   * absent in jobs of old versions. Such a job is finished if `doneAt` is set.
   */
  readonly isCarriedOut?: boolean
  /** For retention by size: the arrival time in milliseconds of the newest event that is erased because of the size. */
  readonly arrivedThroughMs: number | null
  /** The job has gone through all events up to this sequence number. */
  readonly progress: number
  readonly deletedRows: number
  readonly releasedBytes: number
  /** The number of segments that could not be read. They may still contain selected events. */
  readonly damagedSegments: number
}

type JobProgress =
  | 'doneAt'
  | 'isCarriedOut'
  | 'progress'
  | 'deletedRows'
  | 'releasedBytes'
  | 'damagedSegments'

/** The properties of a new job. */
export type JobOrder = Omit<DeletionJob, JobProgress>

/** Returns a job that has not started. */
export function newJob(order: JobOrder): DeletionJob {
  const figures = { progress: 0, deletedRows: 0, releasedBytes: 0, damagedSegments: 0 }
  return { ...order, doneAt: null, isCarriedOut: false, ...figures }
}

/** Returns whether a store still has events to erase for a job. */
export function isToCarryOut({ isCarriedOut, doneAt }: DeletionJob): boolean {
  return isCarriedOut === undefined ? doneAt === null : !isCarriedOut
}

/**
 * Returns a finished job without its distinct ids, which are not needed any more. The criteria of the request stay in
 * the receipt.
 */
export function withoutNeedlessIds(job: DeletionJob): DeletionJob {
  const isOver = job.doneAt !== null && !isToCarryOut(job)
  return isOver && job.ids !== null ? { ...job, ids: [] } : job
}

/** Returns the receipt of a job. */
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
