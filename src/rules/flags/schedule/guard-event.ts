/**
 * The event that Tenrec adds to a project when a guard stops a ramp. It is in lists, streams, exports and charts like
 * every other event. Source: docs/compatibility/schedules.md, "The event of a guard".
 */
import type { JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import type { Flag } from '../types.ts'
import type { GuardLook } from './ramp-guard.ts'
import type { GuardVerdict, Ramp, RampState, ScheduledChange } from './scheduled-change.ts'

const NAME = '$feature_flag_guard_triggered'
/** The event belongs to no user, but every event needs a `distinct_id`. */
const DISTINCT_ID = 'tenrec'

/** An event that is stored when a ramp is stopped, until the event has been written to the log. */
export interface GuardEvent {
  readonly projectId: number
  /** The number of the record in its table. */
  readonly number: number
  /**
   * The UUID of the event. If the event is written to the log twice, the second one has the same UUID and is dropped as
   * a duplicate.
   */
  readonly uuid: string
  /** When the ramp was stopped, in milliseconds since 1970. */
  readonly atMs: number
  readonly properties: JsonObject
}

/** How a guard stopped a ramp. */
export interface StoppedRamp {
  readonly change: Pick<ScheduledChange, 'id' | 'flagId'>
  /** The ramp before it was stopped. */
  readonly ramp: Ramp
  /** The flag, or null if it was removed in the meantime. */
  readonly flag: Pick<Flag, 'key'> | null
  readonly verdict: GuardVerdict
  readonly state: RampState
  readonly reason: string
}

/** Returns the properties of the event that contain the result of the guard. */
export function seenProperties(look: GuardLook): JsonObject {
  const { event, worse, tolerance, value, control, treatment, bound } = look
  return {
    $feature_flag_response: value,
    guard_event: event,
    guard_worse: worse,
    guard_tolerance: tolerance,
    persons_without_flag: control.persons,
    persons_without_flag_with_event: control.converted,
    persons_with_flag: treatment.persons,
    persons_with_flag_with_event: treatment.converted,
    difference: bound?.estimate ?? null,
    difference_at_least: worse === 'higher' ? (bound?.bound ?? null) : null,
    difference_at_most: worse === 'lower' ? (bound?.bound ?? null) : null,
  }
}

/** Returns all properties of the event. */
export function guardProperties(stopped: StoppedRamp): JsonObject {
  const { change, ramp, flag, verdict, state, reason } = stopped
  return {
    $process_person_profile: false,
    $feature_flag: flag?.key ?? null,
    flag_id: change.flagId,
    scheduled_change_id: change.id,
    action: state,
    reason,
    rollout_percentage: ramp.expected.rolloutPercentage,
    rollout_percentage_before: ramp.before.rolloutPercentage,
    ...verdict.seen,
  }
}

/** Returns the JSON of the event as a client would send it. */
export function guardEventText({ atMs, properties }: GuardEvent): string {
  return JSON.stringify({
    event: NAME,
    distinct_id: DISTINCT_ID,
    timestamp: timeText(atMs),
    properties,
  })
}
