/**
 * The scheduled changes that are copied with a flag. A change that adds a condition may refer to cohorts and other
 * flags. In the copy, these references are replaced as in the flag itself. Source: docs/compatibility/flags.md, "Copies
 * of feature flags".
 */
import { isObject, isSameJson, type JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import {
  bodyOfPortable,
  type NamedObjects,
  portableFlag,
} from '../../../rules/flags/edit/portable-flag.ts'
import type { ScheduleRequest } from '../../../rules/flags/schedule/schedule-input.ts'
import {
  type RampStep,
  type ScheduledChange,
  stepsMade,
} from '../../../rules/flags/schedule/scheduled-change.ts'
import type { Flag, FlagSet } from '../../../rules/flags/types.ts'

const SECOND_MS = 1000

/** A scheduled change that can be copied to another project. */
export interface PortableChange {
  readonly request: ScheduleRequest & { readonly payload: JsonObject }
  /** The time from which a recurring change counts its intervals. Undefined if the change is made once. */
  readonly anchorMs: number | undefined
  /**
   * The conditions that the change adds, in the form that the filters of a flag have in a file. Null if it adds none.
   */
  readonly conditions: JsonObject | null
}

/**
 * Returns the scheduled changes to copy with a flag. Halted ramps and paused recurring changes are left out, because
 * somebody must first decide whether they continue. If a ramp has already made some of its steps, only the other steps
 * are copied.
 */
export function portableChanges(
  changes: readonly ScheduledChange[],
  flag: Flag,
  set: FlagSet,
  nowMs: number,
): readonly PortableChange[] {
  return changes.filter(isWaiting).map((change) => {
    const { scheduledAtMs, anchorMs, isRecurring, recurrenceInterval, endAtMs } = change
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
      anchorMs: isRecurring ? anchorMs : undefined,
      conditions: adds ? portableFlag({ ...flag, filters: value }, set) : null,
    }
  })
}

/**
 * Returns the request that schedules a copied change in the target project. `faults` are the reasons why the conditions
 * of the change cannot be stored there.
 */
export function requestOf(
  { request, conditions }: PortableChange,
  names: NamedObjects,
): { readonly request: PortableChange['request']; readonly faults: readonly string[] } {
  if (conditions === null) return { request, faults: [] }
  const { body, faults } = bodyOfPortable(conditions, names)
  return {
    request: { ...request, payload: { ...request.payload, value: body['filters'] } },
    faults,
  }
}

/**
 * Returns the scheduled change of the target that an earlier copy has made from the same change of the source, or
 * undefined if there is none. Of two ramps, only the conditions and guards are compared, because the time and the
 * remaining steps of a copied ramp depend on when it was copied. Halted ramps are compared, too. Otherwise a second
 * copy would start a halted ramp again.
 */
export function scheduledAlready(
  request: PortableChange['request'],
  known: readonly ScheduledChange[],
): ScheduledChange | undefined {
  const ramp = rampOf(request.payload)
  if (ramp !== null) {
    return known.find(({ payload, executedAtMs }) => {
      return executedAtMs === null && isSameJson(rampOf(payload), ramp)
    })
  }
  const { payload, scheduled_at, recurrence_interval, end_date } = request
  return known.filter(isWaiting).find((change) => {
    const { scheduledAtMs, recurrenceInterval, endAtMs } = change
    const end = endAtMs === null ? null : timeText(endAtMs)
    const own = [change.payload, timeText(scheduledAtMs), recurrenceInterval, end]
    return isSameJson(own, [payload, scheduled_at, recurrence_interval, end_date])
  })
}

/** Returns a ramp without its steps, or null if the payload is no ramp. */
function rampOf({ operation, value }: JsonObject): JsonObject | null {
  if (operation !== 'ramp' || !isObject(value)) return null
  const { steps: _, ...plan } = value
  return plan
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
  const made = stepsMade(ramp)
  const left = (value['steps'] as readonly JsonObject[]).slice(made)
  const steps = left.map(({ rollout_percentage, ...time }, index) => {
    // The first step has no time of its own. It is made at the time for which the change is scheduled.
    return index === 0
      ? { rollout_percentage }
      : { rollout_percentage, ...lasting(time, ramp.steps, made + index) }
  })
  return { ...payload, value: { ...value, steps } }
}

/**
 * Returns the time of a step. If this step and the step before it have fixed times, it is returned as the number of
 * seconds between them. The copy may begin later than planned, but each step then still lasts as long as planned.
 */
function lasting(time: JsonObject, steps: readonly RampStep[], index: number): JsonObject {
  const [beforeMs, atMs] = [steps[index - 1]?.atMs ?? null, steps[index]?.atMs ?? null]
  if (beforeMs === null || atMs === null) return time
  return { after_seconds: (atMs - beforeMs) / SECOND_MS }
}
