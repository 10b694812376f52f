/**
 * Erasing events: what can be asked for, what a receipt says, and the rules of retention. Shapes, and
 * the moments that follow from rules; the store finds the events. Source: docs/compatibility/events.md,
 * "Erasure and retention".
 */
const DAY_MS = 86_400_000

/** Which events to erase: those that fulfil everything that is not null. */
export interface ErasureCriteria {
  readonly event: string | null
  /** Timestamps from this moment on, milliseconds. */
  readonly afterMs: number | null
  /** Timestamps before this moment, milliseconds. */
  readonly beforeMs: number | null
  readonly distinctId: string | null
  /** uuid of a person, in lower case with hyphens. */
  readonly personId: string | null
}

/** Erases events of a name, or of every name that has no rule of its own, within a range of time. */
export interface ErasureRule {
  /** Null: of all names without a rule. */
  readonly event: string | null
  readonly afterMs: number | null
  readonly beforeMs: number | null
}

/** A rule that erases nothing: its range is empty. */
function nothing(event: string): ErasureRule {
  return { event, afterMs: 0, beforeMs: 0 }
}

/** How long events of one name are kept. */
export interface EventRetention {
  readonly event: string
  /** Null: for ever, whatever the rule for the others says. */
  readonly days: number | null
}

/** How long a project keeps its events; null: for ever, as much as there is. */
export interface RetentionRules {
  readonly days: number | null
  /** Bytes of segments. */
  readonly bytesMax: number | null
  readonly events: readonly EventRetention[]
}

/** What a project has that nobody has given rules. */
export const NO_RETENTION: RetentionRules = { days: null, bytesMax: null, events: [] }

/** Rules with the moments that they mean at `nowMs`: whole days of UTC, so that each goes at once. */
export function rulesAt(rules: RetentionRules, nowMs: number): readonly ErasureRule[] {
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS
  const before = (days: number): number => today - days * DAY_MS
  const named = rules.events.map(({ event, days }) =>
    days === null ? nothing(event) : { event, afterMs: null, beforeMs: before(days) },
  )
  if (rules.days === null) return named
  return [...named, { event: null, afterMs: null, beforeMs: before(rules.days) }]
}

/** How much an erasure would remove now. */
export interface ErasureEstimate {
  readonly events: number
  /** Bytes of segments, in proportion to the events. */
  readonly bytes: number
}

/** What retention would erase now. */
export interface RetentionPlan extends ErasureEstimate {
  readonly rules: readonly ErasureRule[]
  /** Because of the size, everything up to this S goes; 0: nothing. */
  readonly oldestThrough: number
  /** When the newest of those arrived, milliseconds. */
  readonly arrivedThroughMs: number | null
  /** An erasure by retention is still at work, so that some of these events are on their way out. */
  readonly isRunning: boolean
  /** False: segments are damaged, and what goes of them is not counted. */
  readonly isComplete: boolean
}

/** Rules, and how large the project is. */
export interface RetentionView {
  readonly rules: RetentionRules
  /** Bytes of its segments now. */
  readonly bytes: number
}

/** Why events were erased: with their person, because somebody asked, or because of the rules. */
export type ErasureOrigin = 'person' | 'request' | 'retention'

/** The receipt of an erasure. Times in ISO 8601. */
export interface ErasureReceipt {
  /** Number within the project, from 1, never reused. */
  readonly id: number
  readonly origin: ErasureOrigin
  /** Incomplete: it is over, but damaged segments may still hold such events. */
  readonly status: 'running' | 'done' | 'incomplete'
  /** E-mail address of the user; null for the daemon itself. */
  readonly requested_by: string | null
  readonly requested_at: string
  readonly finished_at: string | null
  readonly criteria: {
    readonly event: string | null
    readonly after: string | null
    readonly before: string | null
    readonly distinct_id: string | null
    readonly person_id: string | null
    /** Retention: before which moment events of a name (null: of the others) go. */
    readonly rules: readonly { readonly event: string | null; readonly before: string | null }[]
    /** Retention by size: everything that arrived up to this moment. */
    readonly arrived_through: string | null
  }
  readonly events_removed: number
  readonly bytes_released: number
  /** Damaged segments that were left alone; they may hold what was to be erased. */
  readonly segments_unreadable: number
}

/** A page of receipts, newest first. */
export interface ErasurePage {
  readonly count: number
  /** Those of the whole list that are not done. */
  readonly runningCount: number
  readonly results: readonly ErasureReceipt[]
}

/** A command about erasing; see `PersonCommand`. */
export type ErasureCommand =
  | { readonly kind: 'erase_events'; readonly criteria: ErasureCriteria }
  | { readonly kind: 'set_retention'; readonly rules: RetentionRules }
  /** From the daemon itself: a job is carried out. Its receipt gets the time of this command, if it has none. */
  | { readonly kind: 'finish_erasure'; readonly job: number }
  /** Says every moment that it means, so that a replay erases the same events. */
  | {
      readonly kind: 'run_retention'
      readonly rules: readonly ErasureRule[]
      readonly oldestThrough: number
      readonly arrivedThroughMs: number | null
    }
