/**
 * The shapes of erasure requests, of their receipts and of retention rules. Also turns retention rules into erasure
 * rules with fixed times. The store finds the events. Source: docs/compatibility/events.md, "Erasure and retention".
 */
const DAY_MS = 86_400_000

/** The criteria of an erasure. It erases the events that meet all criteria that are not null. */
export interface ErasureCriteria {
  readonly event: string | null
  /** Selects only events whose timestamp is at or after this time, in milliseconds. */
  readonly afterMs: number | null
  /** Selects only events whose timestamp is before this time, in milliseconds. */
  readonly beforeMs: number | null
  readonly distinctId: string | null
  /** The uuid of a person, in lower case with hyphens. */
  readonly personId: string | null
}

/**
 * A rule that erases events within a time range: the events of one name, or of all names without a rule of their own.
 */
export interface ErasureRule {
  /** The name of the events. Null means all names that have no rule of their own. */
  readonly event: string | null
  readonly afterMs: number | null
  readonly beforeMs: number | null
}

/** Returns a rule that erases nothing, because its range is empty. */
function nothing(event: string): ErasureRule {
  return { event, afterMs: 0, beforeMs: 0 }
}

/** The retention of the events of one name. */
export interface EventRetention {
  readonly event: string
  /**
   * The number of days after which the events are erased. Null means that they are kept for ever, regardless of the
   * rule for other events.
   */
  readonly days: number | null
}

/** The retention rules of a project. Null means no limit. */
export interface RetentionRules {
  readonly days: number | null
  /** The maximum number of bytes of segments. */
  readonly bytesMax: number | null
  readonly events: readonly EventRetention[]
}

/** The rules of a project without configured rules. */
export const NO_RETENTION: RetentionRules = { days: null, bytesMax: null, events: [] }

/**
 * Returns the erasure rules that follow from retention rules at `nowMs`. The moment before which events are erased is
 * the start of a day in UTC, so that all events of a day are erased at once.
 */
export function rulesAt(rules: RetentionRules, nowMs: number): readonly ErasureRule[] {
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS
  const before = (days: number): number => today - days * DAY_MS
  const named = rules.events.map(({ event, days }) =>
    days === null ? nothing(event) : { event, afterMs: null, beforeMs: before(days) },
  )
  if (rules.days === null) return named
  return [...named, { event: null, afterMs: null, beforeMs: before(rules.days) }]
}

/** The amount of data that an erasure would remove now. */
export interface ErasureEstimate {
  readonly events: number
  /** The number of bytes of segments that belong to the events, estimated in proportion to the number of events. */
  readonly bytes: number
}

/** The events that retention would erase now. */
export interface RetentionPlan extends ErasureEstimate {
  readonly rules: readonly ErasureRule[]
  /**
   * All events up to this sequence number are erased because the project is larger than `bytesMax`. It is 0 if no
   * events are erased for this reason.
   */
  readonly oldestThrough: number
  /** The arrival time of the newest event up to `oldestThrough`, in milliseconds. */
  readonly arrivedThroughMs: number | null
  /** True if an erasure by retention is still running, so that some of these events are already being removed. */
  readonly isRunning: boolean
  /** False if segments are damaged. Their events are not counted. */
  readonly isComplete: boolean
}

/** The retention rules of a project, and its size. */
export interface RetentionView {
  readonly rules: RetentionRules
  /** The number of bytes that the segments of the project have now. */
  readonly bytes: number
}

/** The reason for an erasure: a deleted person, a request, or the retention rules. */
export type ErasureOrigin = 'person' | 'request' | 'retention'

/** The receipt of an erasure. Times are in ISO 8601. */
export interface ErasureReceipt {
  /** The number of the receipt within the project. It begins at 1 and is never reused. */
  readonly id: number
  readonly origin: ErasureOrigin
  /** `incomplete` means that the job is finished, but that damaged segments may still contain selected events. */
  readonly status: 'running' | 'done' | 'incomplete'
  /** The e-mail address of the user who requested the erasure. Null if the daemon itself started it. */
  readonly requested_by: string | null
  readonly requested_at: string
  readonly finished_at: string | null
  readonly criteria: {
    readonly event: string | null
    readonly after: string | null
    readonly before: string | null
    readonly distinct_id: string | null
    readonly person_id: string | null
    /**
     * For retention: the event names, each with the time before which its events are erased. A null name stands for all
     * other names.
     */
    readonly rules: readonly { readonly event: string | null; readonly before: string | null }[]
    /** For retention by size: all events that arrived up to this moment are erased. */
    readonly arrived_through: string | null
  }
  readonly events_removed: number
  readonly bytes_released: number
  /** The number of damaged segments, which were not changed. They may still contain selected events. */
  readonly segments_unreadable: number
}

/** A page of receipts, newest first. */
export interface ErasurePage {
  readonly count: number
  /** The number of receipts in the whole list that are not finished. */
  readonly runningCount: number
  readonly results: readonly ErasureReceipt[]
}

/** A command about erasure; see `PersonCommand`. */
export type ErasureCommand =
  | { readonly kind: 'erase_events'; readonly criteria: ErasureCriteria }
  | { readonly kind: 'set_retention'; readonly rules: RetentionRules }
  /**
   * The daemon reports that a job was executed. The receipt gets the time of this command, unless it already has a
   * time.
   */
  | { readonly kind: 'finish_erasure'; readonly job: number }
  /**
   * Erases the events whose retention has ended. The command contains fixed times and a sequence number instead of
   * durations and sizes, so that a replay of the log erases the same events.
   */
  | {
      readonly kind: 'run_retention'
      readonly rules: readonly ErasureRule[]
      readonly oldestThrough: number
      readonly arrivedThroughMs: number | null
    }
