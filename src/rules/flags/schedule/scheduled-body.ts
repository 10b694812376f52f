/** Scheduled changes as the private API shows them. Source: docs/compatibility/schedules.md, "Fields". */
import type { JsonObject } from '../../../base/json.ts'
import { optionalTimeText, timeText } from '../../../base/time.ts'
import { stepDueAt } from './due-changes.ts'
import type { GuardLook } from './ramp-guard.ts'
import type { Ramp, ScheduledChange } from './scheduled-change.ts'

/** What an answer about a change shows in addition to the stored change. */
export interface ScheduledContext {
  /** The user who created the change, in the form in which answers show users. */
  readonly createdBy: unknown
  /** The results of the last check of the guards of a ramp on this machine. */
  readonly looks: { readonly atMs: number; readonly results: readonly GuardLook[] } | null
}

/** Returns the JSON of a scheduled change. */
export function scheduledBody(change: ScheduledChange, context: ScheduledContext): JsonObject {
  return {
    id: change.id,
    team_id: change.projectId,
    record_id: String(change.flagId),
    model_name: 'FeatureFlag',
    payload: change.payload,
    scheduled_at: timeText(change.scheduledAtMs),
    executed_at: optionalTimeText(change.executedAtMs),
    failure_reason: change.failureReason,
    created_at: timeText(change.createdAtMs),
    created_by: context.createdBy,
    updated_at: timeText(change.updatedAtMs),
    is_recurring: change.isRecurring,
    recurrence_interval: change.recurrenceInterval,
    cron_expression: null,
    last_executed_at: optionalTimeText(change.lastExecutedAtMs),
    end_date: optionalTimeText(change.endAtMs),
    timezone: 'UTC',
    ramp: change.ramp === null ? null : rampBody(change, change.ramp, context),
  }
}

function rampBody(change: ScheduledChange, ramp: Ramp, { looks }: ScheduledContext): JsonObject {
  return {
    state: ramp.state,
    reason: ramp.reason,
    condition: ramp.condition,
    rollout_percentage_before: ramp.before.rolloutPercentage,
    active_before: ramp.before.isActive,
    on_breach: ramp.onBreach,
    steps: stepBodies(change, ramp),
    guards: ramp.guards,
    watched_from: optionalTimeText(ramp.watchedFromMs),
    looked_at: optionalTimeText(looks?.atMs ?? null),
    looks: (looks?.results ?? []).map(lookBody),
  }
}

/**
 * Returns the steps of a ramp. Each has the time at which it was made, or the time at which it will be made if nothing
 * stops the ramp.
 */
function stepBodies({ scheduledAtMs }: ScheduledChange, { steps }: Ramp): readonly JsonObject[] {
  let dueAtMs: number | null = null
  return steps.map((step, index) => {
    const { rolloutPercentage, executedAtMs } = step
    const before = steps[index - 1]
    if (executedAtMs === null) {
      dueAtMs =
        dueAtMs === null || before === undefined ? scheduledAtMs : stepDueAt(step, before, dueAtMs)
    }
    return {
      rollout_percentage: rolloutPercentage,
      due_at: optionalTimeText(executedAtMs === null ? dueAtMs : null),
      executed_at: optionalTimeText(executedAtMs),
    }
  })
}

function lookBody(look: GuardLook): JsonObject {
  const { event, worse, tolerance, value, control, treatment, bound, missing } = look
  return {
    event,
    worse,
    tolerance,
    value,
    persons_without_flag: control.persons,
    persons_without_flag_with_event: control.converted,
    persons_with_flag: treatment.persons,
    persons_with_flag_with_event: treatment.converted,
    difference: bound?.estimate ?? null,
    difference_at_least: bound !== null && worse === 'higher' ? bound.bound : null,
    difference_at_most: bound !== null && worse === 'lower' ? bound.bound : null,
    is_violated: bound?.isWorse ?? false,
    missing,
  }
}
