/**
 * The scheduled changes that are copied with a flag. Conditions that they add name cohorts and other flags, like a flag
 * that is copied. Source: docs/compatibility/flags.md, "Copies of feature flags".
 */
import { isObject, type JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import {
  bodyOfPortable,
  type NamedObjects,
  portableFlag,
} from '../../../rules/flags/edit/portable-flag.ts'
import type { ScheduleRequest } from '../../../rules/flags/schedule/schedule-input.ts'
import { type ScheduledChange, stepsMade } from '../../../rules/flags/schedule/scheduled-change.ts'
import type { Flag, FlagSet } from '../../../rules/flags/types.ts'

/** A scheduled change that can be copied to another project. */
export interface PortableChange {
  readonly request: ScheduleRequest & { readonly payload: JsonObject }
  /** The conditions that it adds, as the filters of a flag in a file. Null if it adds none. */
  readonly conditions: JsonObject | null
}

/**
 * Returns the scheduled changes to copy with a flag. Changes that wait for a person are left out: halted ramps and
 * paused recurring changes. Of a ramp that has begun, the steps that are left are copied.
 */
export function portableChanges(
  changes: readonly ScheduledChange[],
  flag: Flag,
  set: FlagSet,
  nowMs: number,
): readonly PortableChange[] {
  return changes.filter(isWaiting).map((change) => {
    const { scheduledAtMs, isRecurring, recurrenceInterval, endAtMs } = change
    const payload = payloadOf(change)
    const { value } = payload
    const adds = payload['operation'] === 'add_release_condition' && isObject(value)
    return {
      request: {
        payload,
        scheduled_at: timeText(Math.max(scheduledAtMs, nowMs)),
        is_recurring: isRecurring,
        recurrence_interval: recurrenceInterval,
        end_date: endAtMs === null ? null : timeText(endAtMs),
      },
      conditions: adds ? portableFlag({ ...flag, filters: value }, set) : null,
    }
  })
}

/** Returns the request that schedules a copied change, and the reasons why its conditions cannot be stored. */
export function requestOf(
  { request, conditions }: PortableChange,
  names: NamedObjects,
): { readonly request: ScheduleRequest; readonly faults: readonly string[] } {
  if (conditions === null) return { request, faults: [] }
  const { body, faults } = bodyOfPortable(conditions, names)
  return {
    request: { ...request, payload: { ...request.payload, value: body['filters'] } },
    faults,
  }
}

/** Returns whether a project has a scheduled change already, so that a second copy need not add it again. */
export function isScheduled(request: ScheduleRequest, known: readonly ScheduledChange[]): boolean {
  const wanted = JSON.stringify([
    request.payload,
    request.scheduled_at,
    request.recurrence_interval,
    request.end_date,
  ])
  return known.filter(isWaiting).some((change) => {
    const { scheduledAtMs, recurrenceInterval, endAtMs } = change
    const end = endAtMs === null ? null : timeText(endAtMs)
    const at = timeText(scheduledAtMs)
    return JSON.stringify([payloadOf(change), at, recurrenceInterval, end]) === wanted
  })
}

function isWaiting({
  executedAtMs,
  ramp,
  isRecurring,
  recurrenceInterval,
}: ScheduledChange): boolean {
  const isPaused = recurrenceInterval !== null && !isRecurring
  const isHalted = ramp !== null && ramp.state !== 'running'
  return executedAtMs === null && !isPaused && !isHalted
}

function payloadOf({ payload, ramp }: ScheduledChange): JsonObject {
  const { value } = payload
  if (ramp === null || !isObject(value) || !Array.isArray(value['steps'])) return payload
  const [first, ...others] = value['steps'].slice(stepsMade(ramp)) as readonly JsonObject[]
  // The first step is made at the time of the change.
  const steps = [{ rollout_percentage: first?.['rollout_percentage'] }, ...others]
  return { ...payload, value: { ...value, steps } }
}
