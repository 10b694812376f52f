/**
 * A change of a flag that the daemon makes at a time: once, again and again, or as a ramp of steps. Plain data, stored
 * as JSON. Source: docs/compatibility/schedules.md, "Fields".
 */
import type { JsonObject } from '../../../base/json.ts'
import type { Actor } from '../../access/user.ts'
import { SCHEDULED_REASON_UNITS_MAX } from '../limits.ts'

/** Milliseconds since 1970. */
type Ms = number

/** The operations of PostHog's scheduled changes, and `ramp`, which is our own. */
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

/** A step of a ramp. The first step is made at the time of the scheduled change. */
export interface RampStep {
  readonly rolloutPercentage: number
  /** The time of the step, at the earliest. Null: it is made `afterMs` after the step before. */
  readonly atMs: Ms | null
  readonly afterMs: number | null
  /** Null: not made yet. */
  readonly executedAtMs: Ms | null
}

/** An event that persons with the flag may do more often, or less often, only within bounds. */
export interface RampGuard {
  readonly event: string
  readonly worse: 'higher' | 'lower'
  /** The tolerated change of the share of persons with the event: 0.01 is one percentage point. */
  readonly tolerance: number
}

/** The part of a condition by which a ramp recognises that a person has changed it. */
export interface RampCondition {
  readonly rolloutPercentage: number | null
  /** The filters of the condition as JSON. */
  readonly filters: string
}

/** A percentage that rises in steps. */
export interface Ramp {
  readonly state: RampState
  /** Why the ramp halted or turned back, in a sentence. */
  readonly reason: string | null
  /** The index of the condition whose percentage is changed. */
  readonly condition: number
  readonly steps: readonly RampStep[]
  readonly guards: readonly RampGuard[]
  readonly onBreach: 'halt' | 'turn_back'
  /** The condition as the ramp left it or found it. */
  readonly expected: RampCondition
  /** The flag before the first step, to which the ramp turns back. */
  readonly before: { readonly rolloutPercentage: number | null; readonly isActive: boolean }
  /** Guards look at exposures from this time on. Null: no step is made yet. */
  readonly watchedFromMs: Ms | null
}

/** A scheduled change. */
export interface ScheduledChange {
  readonly id: number
  readonly projectId: number
  readonly flagId: number
  /** `{operation, value}` as the client sent it. */
  readonly payload: JsonObject
  /** The time of the next execution. */
  readonly scheduledAtMs: Ms
  /** The time of the first execution, from which a recurring change counts its intervals. */
  readonly anchorMs: Ms
  /** The time at which the change ended, successfully or not. Null: it waits. */
  readonly executedAtMs: Ms | null
  readonly lastExecutedAtMs: Ms | null
  /** How often the change was made. An execution names this number, so that it cannot happen twice. */
  readonly executions: number
  readonly failureReason: string | null
  readonly isRecurring: boolean
  /** Kept while a recurring change is paused. */
  readonly recurrenceInterval: RecurrenceInterval | null
  readonly endAtMs: Ms | null
  readonly createdBy: Actor
  readonly createdAtMs: Ms
  readonly updatedAtMs: Ms
  /** Null for all operations but `ramp`. */
  readonly ramp: Ramp | null
}

/** What the main thread knows of a change that waits. */
export interface PendingChange {
  readonly projectId: number
  readonly id: number
  readonly flagId: number
  readonly dueAtMs: Ms
  readonly executions: number
  /** True if the guards of a ramp are to be looked at. */
  readonly isWatched: boolean
}

/** A result of the guards of a ramp. */
export interface GuardVerdict {
  readonly action: Ramp['onBreach']
  /** Why, in a sentence. */
  readonly reason: string
}

/** A request to make a change that is due, or to stop a ramp. */
export interface ScheduledMove {
  readonly id: number
  /** The number of executions that the caller knows of. */
  readonly executions: number
  /** Absent: the change is made if it is due. */
  readonly verdict?: GuardVerdict
}

/** The kinds of results of a move. `nothing`: it was not due, or another machine was first. */
export const MOVE_OUTCOMES = [
  'nothing',
  'executed',
  'ended',
  'failed',
  'halted',
  'turned_back',
] as const

/** The result of a move. */
export interface Moved {
  readonly outcome: (typeof MOVE_OUTCOMES)[number]
  /** The flag, the operation and the reason, for the log of the daemon. */
  readonly flagId: number | null
  readonly text: string
  readonly reason: string | null
}

/** Returns the operation of a change. */
export function operationOf({ payload }: Pick<ScheduledChange, 'payload'>): Operation {
  // `readPayload` has checked it.
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

/** Returns a reason that is short enough to be stored. */
export function cutReason(text: string): string {
  return text.slice(0, SCHEDULED_REASON_UNITS_MAX)
}
