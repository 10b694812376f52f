/**
 * A change of a flag that the daemon makes at a given time: once, at intervals, or as a ramp of several steps. It is
 * plain data that is stored as JSON. Source: docs/compatibility/schedules.md, "Fields".
 */
import type { JsonObject } from '../../../base/json.ts'
import type { Actor } from '../../access/user.ts'
import { SCHEDULED_REASON_UNITS_MAX } from '../limits.ts'

/** A moment, in milliseconds since 1970. */
type Ms = number

/** The operations of PostHog's scheduled changes, and `ramp`, which only Tenrec has. */
export const OPERATIONS = [
  'update_status',
  'add_release_condition',
  'update_variants',
  'ramp',
] as const
/** One of `OPERATIONS`. */
export type Operation = (typeof OPERATIONS)[number]

/** How often a change repeats. */
export const RECURRENCE_INTERVALS = ['daily', 'weekly', 'monthly', 'yearly'] as const
/** One of `RECURRENCE_INTERVALS`. */
export type RecurrenceInterval = (typeof RECURRENCE_INTERVALS)[number]

/**
 * - `running`: the next step is made at its time.
 * - `halted`: the ramp waits for a person. The flag keeps the percentage of the last step.
 * - `turned_back`: a guard was violated, and the flag has the percentage from before the ramp.
 * - `done`: all steps are made.
 */
export type RampState = 'running' | 'halted' | 'turned_back' | 'done'

/** A step of a ramp. The first step is made at `scheduledAtMs` of the change. */
export interface RampStep {
  readonly rolloutPercentage: number
  /** The earliest time of the step. Null: the step is made `afterMs` milliseconds after the step before it. */
  readonly atMs: Ms | null
  readonly afterMs: number | null
  /** The time at which the step was made. Null: the step has not been made yet. */
  readonly executedAtMs: Ms | null
}

/**
 * A guard of a ramp. It compares the share of persons who have an event, with the flag and without it. The guard is
 * violated if the share with the flag is worse by more than a tolerance.
 */
export interface RampGuard {
  readonly event: string
  readonly worse: 'higher' | 'lower'
  /** The tolerated change of the share of persons with the event. 0.01 is one percentage point. */
  readonly tolerance: number
}

/** The parts of a condition that a ramp compares to find out whether a person has changed the condition. */
export interface RampCondition {
  readonly rolloutPercentage: number | null
  /** The filters of the condition as JSON. */
  readonly filters: string
}

/** A ramp: a rollout percentage that changes in steps. */
export interface Ramp {
  readonly state: RampState
  /** Why the ramp halted or turned back, as a sentence. Null if it did neither. */
  readonly reason: string | null
  /** The index of the condition whose percentage is changed. */
  readonly condition: number
  readonly steps: readonly RampStep[]
  readonly guards: readonly RampGuard[]
  readonly onBreach: 'halt' | 'turn_back'
  /**
   * The condition as it was when the ramp was created or resumed, or after its last step. If the condition is different
   * now, a person has changed it.
   */
  readonly expected: RampCondition
  /** The state of the flag before the first step. The ramp restores it if it turns back. */
  readonly before: { readonly rolloutPercentage: number | null; readonly isActive: boolean }
  /** The time from which guards count exposures. Null: no step has been made yet. */
  readonly watchedFromMs: Ms | null
}

/** A scheduled change. */
export interface ScheduledChange {
  readonly id: number
  readonly projectId: number
  readonly flagId: number
  /** The object `{operation, value}` as the client sent it. */
  readonly payload: JsonObject
  /** The time of the next execution. */
  readonly scheduledAtMs: Ms
  /** The time of the first execution. A recurring change counts its intervals from here. */
  readonly anchorMs: Ms
  /** The time at which the change ended, successfully or not. Null: the change has not ended. */
  readonly executedAtMs: Ms | null
  readonly lastExecutedAtMs: Ms | null
  /**
   * How often the change was made. A request to make the change names this number, so that the change is not made
   * twice.
   */
  readonly executions: number
  readonly failureReason: string | null
  readonly isRecurring: boolean
  /** The interval of a recurring change. It is kept while the change is paused. */
  readonly recurrenceInterval: RecurrenceInterval | null
  readonly endAtMs: Ms | null
  readonly createdBy: Actor
  readonly createdAtMs: Ms
  readonly updatedAtMs: Ms
  /** The ramp, or null if the change has another operation. */
  readonly ramp: Ramp | null
}

/**
 * The facts about a waiting change from which the main thread decides when to execute the change or look at its guards.
 */
export interface PendingChange {
  readonly projectId: number
  readonly id: number
  readonly flagId: number
  readonly dueAtMs: Ms
  readonly executions: number
  /** True if the change is a ramp whose guards must be watched. */
  readonly isWatched: boolean
}

/** The decision of guards that a ramp must stop. */
export interface GuardVerdict {
  readonly action: Ramp['onBreach']
  /** The reason for the decision, as a sentence. */
  readonly reason: string
  /** The UUID of the event about the decision. Null: no event is stored. */
  readonly uuid: string | null
  /** The properties of that event that contain the result of the guard (`guard-event.ts`). */
  readonly seen: JsonObject
}

/** A request to make a change if it is due, or to stop a ramp. */
export interface ScheduledMove {
  readonly id: number
  /**
   * The number of executions when the caller read the change. If the change has another number now, nothing is done.
   */
  readonly executions: number
  /** The reason to stop a ramp. Absent: the change is made if it is due. */
  readonly verdict?: GuardVerdict
}

/**
 * The kinds of results of a move. `nothing` means that the change was not due, or that another machine made it first.
 */
export const MOVE_OUTCOMES = [
  'nothing',
  'executed',
  'ended',
  'failed',
  'halted',
  'turned_back',
] as const

/** The result of a `ScheduledMove`. */
export interface Moved {
  readonly outcome: (typeof MOVE_OUTCOMES)[number]
  /** The id of the flag, for the log of the daemon. */
  readonly flagId: number | null
  readonly text: string
  readonly reason: string | null
}

/** Returns the operation of a change. */
export function operationOf({ payload }: Pick<ScheduledChange, 'payload'>): Operation {
  // `readPayload` has checked the operation.
  return payload['operation'] as Operation
}

/** Returns the next step of a ramp, or undefined if all are made. */
export function nextStepOf({ steps }: Pick<Ramp, 'steps'>): RampStep | undefined {
  return steps.find(({ executedAtMs }) => executedAtMs === null)
}

/** Returns the number of steps that were made. */
export function stepsMade({ steps }: Pick<Ramp, 'steps'>): number {
  return steps.filter(({ executedAtMs }) => executedAtMs !== null).length
}

/** Returns a reason that is cut to the length that can be stored. */
export function cutReason(text: string): string {
  return text.slice(0, SCHEDULED_REASON_UNITS_MAX)
}
