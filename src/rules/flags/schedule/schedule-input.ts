/**
 * Reads scheduled changes from request bodies. The route has already checked the types of the members. The store checks
 * whether the flag accepts the change, with the rules of a PATCH request. All other rules are here. Source:
 * docs/compatibility/schedules.md, "Fields".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import { EVENT_NAME_UNITS_MAX } from '../../../base/limits.ts'
import { timeText } from '../../../base/time.ts'
import { compileInput } from '../../../base/validator.ts'
import type { Actor } from '../../access/user.ts'
import { parseTimestamp } from '../../capture/timestamp.ts'
import { RAMP_GUARDS_MAX, RAMP_STEPS_MAX, SCHEDULED_PAYLOAD_UNITS_MAX } from '../limits.ts'
import type { Flag } from '../types.ts'
import { nextExecution, stepDueAt } from './due-changes.ts'
import { conditionOf } from './flag-move.ts'
import {
  nextStepOf,
  type Ramp,
  type RampGuard,
  type RampStep,
  type RecurrenceInterval,
  type ScheduledChange,
  stepsMade,
} from './scheduled-change.ts'

/**
 * The members of a body that schedules a change or modifies a scheduled one. If a member is absent, its value stays as
 * it is.
 */
export interface ScheduleRequest {
  readonly record_id?: string | number
  readonly payload?: JsonObject
  readonly scheduled_at?: string | null
  readonly is_recurring?: boolean
  readonly recurrence_interval?: RecurrenceInterval | null
  readonly end_date?: string | null
  readonly cron_expression?: string | null
  readonly state?: 'running' | 'halted'
}

/** Additional input for the creation of a scheduled change that is copied from another flag. */
export interface ScheduleCopy {
  /**
   * The id of the newest scheduled change of the flag, or 0 if it had none, at the time when the caller found that the
   * flag does not have the copy yet. If the flag has a newer change by now, nothing is created, because that change may
   * be the copy.
   */
  readonly newestId: number
  /** The time from which a recurring change counts its intervals. If absent, they count from the first execution. */
  readonly anchorMs?: number | undefined
}

/**
 * A time that is further in the past than this is refused. The tolerance is needed because the machine's clock may be
 * ahead of the client's.
 */
const PAST_MS = 60_000
const SECOND_MS = 1000
/** The largest `after_seconds` of a step: ten years. */
const AFTER_SECONDS = 315_576_000

/** The schema of the member `value` of a payload whose operation is `ramp`. */
export const RAMP_VALUE: JsonObject = {
  type: 'object',
  required: ['steps'],
  additionalProperties: false,
  properties: {
    steps: {
      type: 'array',
      minItems: 1,
      maxItems: RAMP_STEPS_MAX,
      items: {
        type: 'object',
        required: ['rollout_percentage'],
        additionalProperties: false,
        properties: {
          rollout_percentage: { type: 'number', minimum: 0, maximum: 100 },
          at: { type: 'string', description: 'The time of the step.' },
          after_seconds: {
            type: 'number',
            minimum: 0,
            maximum: AFTER_SECONDS,
            description: 'The seconds after the step before.',
          },
        },
      },
    },
    condition: {
      type: 'integer',
      minimum: 0,
      description:
        'Index of the condition whose percentage is changed, from 0. Needed if the flag has several.',
    },
    guards: {
      type: 'array',
      maxItems: RAMP_GUARDS_MAX,
      items: {
        type: 'object',
        additionalProperties: false,
        properties: {
          event: {
            type: 'string',
            minLength: 1,
            maxLength: EVENT_NAME_UNITS_MAX,
            description: 'Name of the event. The default is $exception.',
          },
          worse: {
            enum: ['higher', 'lower'],
            description: 'Whether more or fewer persons with the event are worse. Default: higher.',
          },
          tolerance: {
            type: 'number',
            minimum: 0,
            maximum: 1,
            description:
              'The tolerated change of the share of persons with the event. 0.01 is one percentage point. Default: 0.',
          },
        },
      },
    },
    on_breach: {
      enum: ['turn_back', 'halt'],
      description: 'What happens if a guard is violated. The default is turn_back.',
    },
  },
}

interface RampValue {
  readonly steps: readonly {
    readonly rollout_percentage: number
    readonly at?: string
    readonly after_seconds?: number
  }[]
  readonly condition?: number
  readonly guards?: readonly Partial<RampGuard>[]
  readonly on_breach?: Ramp['onBreach']
}

let checkRamp: ReturnType<typeof compileInput> | null = null

/** Returns the id of the flag that `record_id` names, or null if it cannot be the id of a flag. */
export function flagIdOf(recordId: string | number): number | null {
  return /^[1-9][0-9]{0,14}$/.test(String(recordId)) ? Number(recordId) : null
}

/** Returns the change that the body of a POST schedules for a flag. The store adds its id. Throws 400. */
export function draftChange(
  request: ScheduleRequest,
  flag: Flag,
  { nowMs, actor }: { readonly nowMs: number; readonly actor: Actor },
): Omit<ScheduledChange, 'id'> {
  refuseCron(request)
  if (request.state !== undefined) {
    throw invalidInput(
      'state',
      'must be absent when a change is created. A new ramp is always running',
    )
  }
  const { payload } = request
  if (payload === undefined) throw required('payload')
  checkSize(payload)
  const ramp = rampOf(payload, flag)
  const scheduledAtMs = ramp
    ? startOfRamp(request, ramp, nowMs)
    : readTime('scheduled_at', request.scheduled_at)
  if (scheduledAtMs === null) throw required('scheduled_at')
  requireFuture('scheduled_at', scheduledAtMs, nowMs)
  const recurrence = readRecurrence(request, payload)
  if (!recurrence.isRecurring && recurrence.recurrenceInterval !== null) {
    throw invalidInput('recurrence_interval', 'needs `is_recurring: true`')
  }
  return {
    projectId: flag.projectId,
    flagId: flag.id,
    payload,
    scheduledAtMs,
    anchorMs: scheduledAtMs,
    executedAtMs: null,
    lastExecutedAtMs: null,
    executions: 0,
    failureReason: null,
    ...recurrence,
    endAtMs: readEnd(request, scheduledAtMs, null),
    createdBy: actor,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
    ramp,
  }
}

/** Returns a scheduled change after the body of a PATCH was applied to it. Throws 400. */
export function changedChange(
  before: ScheduledChange,
  request: ScheduleRequest,
  flag: Flag | null,
  nowMs: number,
): ScheduledChange {
  refuseCron(request)
  if (request.record_id !== undefined && flagIdOf(request.record_id) !== before.flagId) {
    throw invalidInput('record_id', 'cannot be changed. Schedule a new change for the other flag')
  }
  if (before.executedAtMs !== null) {
    const detail = 'The change has already ended, so it cannot be modified. Schedule a new one.'
    throw new ServiceError('invalid_input', detail)
  }
  const after =
    before.ramp === null ? before : changedRamp(before, before.ramp, request, flag, nowMs)
  if (request.state !== undefined && before.ramp === null) {
    throw invalidInput('state', 'exists for ramps only')
  }
  if (before.ramp === null && request.payload?.['operation'] === 'ramp') {
    throw invalidInput('payload', 'cannot become a ramp. Schedule a new change')
  }
  const payload = request.payload ?? after.payload
  checkSize(payload)
  const sentAtMs = readTime('scheduled_at', request.scheduled_at)
  if (sentAtMs !== null && sentAtMs !== before.scheduledAtMs) {
    requireFuture('scheduled_at', sentAtMs, nowMs)
  }
  const { is_recurring: isRecurring = before.isRecurring } = request
  const { recurrence_interval: interval = before.recurrenceInterval } = request
  const sent = { is_recurring: isRecurring, recurrence_interval: interval }
  const recurrence = readRecurrence(sent, payload)
  const anchorMs = sentAtMs ?? before.anchorMs
  const isContinued = isRecurring && !before.isRecurring && interval !== null
  const waitedAtMs = sentAtMs ?? after.scheduledAtMs
  // Executions that were missed during a pause are skipped.
  const scheduledAtMs =
    isContinued && waitedAtMs < nowMs ? nextExecution(anchorMs, interval, nowMs) : waitedAtMs
  return {
    ...after,
    payload,
    scheduledAtMs,
    anchorMs,
    ...recurrence,
    endAtMs: readEnd(request, scheduledAtMs, before.endAtMs),
    updatedAtMs: nowMs,
  }
}

function changedRamp(
  before: ScheduledChange,
  ramp: Ramp,
  request: ScheduleRequest,
  flag: Flag | null,
  nowMs: number,
): ScheduledChange {
  const { state, payload } = request
  if (payload !== undefined) {
    const detail = 'The steps of a ramp cannot be changed. Remove it and schedule a new one.'
    throw new ServiceError('invalid_input', detail, { attr: 'payload' })
  }
  if (state === undefined || state === ramp.state) return before
  if (state === 'halted') {
    return { ...before, ramp: { ...ramp, state, reason: 'A person halted the ramp.' } }
  }
  return resumed(before, ramp, flag, nowMs)
}

/**
 * Continues a halted ramp with the flag as it is now. The next step waits for its whole time again, and guards count
 * only exposures from now on.
 */
function resumed(
  before: ScheduledChange,
  ramp: Ramp,
  flag: Flag | null,
  nowMs: number,
): ScheduledChange {
  const expected = flag === null || flag.deleted ? null : conditionOf(flag, ramp.condition)
  const index = stepsMade(ramp)
  const [last, next] = [ramp.steps[index - 1], nextStepOf(ramp)]
  if (expected === null || next === undefined) {
    const detail = 'The ramp cannot go on, because the flag or its condition does not exist.'
    throw new ServiceError('invalid_input', detail, { attr: 'state' })
  }
  const scheduledAtMs =
    last === undefined ? Math.max(nowMs, before.scheduledAtMs) : stepDueAt(next, last, nowMs)
  const watchedFromMs = last === undefined ? null : nowMs
  return {
    ...before,
    scheduledAtMs,
    failureReason: null,
    ramp: { ...ramp, state: 'running', reason: null, expected, watchedFromMs },
  }
}

function refuseCron({ cron_expression: expression }: ScheduleRequest): void {
  if (expression === undefined || expression === null) return
  throw invalidInput('cron_expression', 'is not supported. Use `recurrence_interval`')
}

function checkSize(payload: JsonObject): void {
  const units = JSON.stringify(payload).length
  if (units <= SCHEDULED_PAYLOAD_UNITS_MAX) return
  const what = `may have at most ${SCHEDULED_PAYLOAD_UNITS_MAX} characters of JSON`
  throw invalidInput('payload', what)
}

function readTime(attr: string, text: string | null | undefined): number | null {
  if (text === undefined || text === null) return null
  const timeMs = parseTimestamp(text)
  if (timeMs !== null) return timeMs
  throw invalidInput(attr, 'must be a time such as 2026-05-01T12:00:00Z')
}

function requireFuture(attr: string, timeMs: number, nowMs: number): void {
  if (timeMs >= nowMs - PAST_MS) return
  const what = `is ${timeText(timeMs)}, which is in the past. Send a time that is still to come`
  throw invalidInput(attr, what)
}

function readRecurrence(
  { is_recurring: isRecurring = false, recurrence_interval: interval = null }: ScheduleRequest,
  { operation }: JsonObject,
) {
  if (isRecurring && interval === null) {
    throw invalidInput('recurrence_interval', 'is needed for a recurring change')
  }
  if (isRecurring && (operation === 'add_release_condition' || operation === 'ramp')) {
    const what = `cannot be recurring with the operation ${operation}, because repeating it makes no sense`
    throw invalidInput('payload', what)
  }
  return { isRecurring, recurrenceInterval: interval }
}

function readEnd(
  { end_date: text }: ScheduleRequest,
  scheduledAtMs: number,
  before: number | null,
): number | null {
  const endAtMs = text === undefined ? before : readTime('end_date', text)
  if (endAtMs !== null && endAtMs <= scheduledAtMs) {
    throw invalidInput('end_date', 'must be after `scheduled_at`')
  }
  return endAtMs
}

/** Reads the plan of a ramp from a payload. Throws 400 if it is invalid or the flag does not have the condition. */
function readRamp(payload: JsonObject, flag: Flag): Ramp {
  const { steps, guards = [], on_breach: onBreach = 'turn_back', ...plan } = rampValue(payload)
  const groups = flag.filters['groups']
  const count = Array.isArray(groups) ? groups.length : 0
  if (plan.condition === undefined && count > 1) {
    const what = `needs \`value.condition\`, because the flag has ${count} conditions. Send the index of one, from 0`
    throw invalidInput('payload', what)
  }
  const condition = plan.condition ?? 0
  const expected = conditionOf(flag, condition)
  if (expected === null) {
    throw invalidInput('payload', `names condition ${condition}, which the flag does not have`)
  }
  const { rolloutPercentage } = expected
  return {
    state: 'running',
    reason: null,
    condition,
    steps: readSteps(steps),
    guards: guards.map(({ event = '$exception', worse = 'higher', tolerance = 0 }) => ({
      event,
      worse,
      tolerance,
    })),
    onBreach,
    expected,
    before: { rolloutPercentage, isActive: flag.active },
    watchedFromMs: null,
  }
}

/** Returns the ramp that a payload describes, or null if the payload has another operation. Throws 400. */
export function rampOf(payload: JsonObject, flag: Flag): Ramp | null {
  return payload['operation'] === 'ramp' ? readRamp(payload, flag) : null
}

function rampValue({ value }: JsonObject): RampValue {
  checkRamp ??= compileInput(RAMP_VALUE)
  // A value that is not an object is checked as an empty object, so that the error names a missing member.
  const fault = checkRamp(isObject(value) ? value : {})
  if (fault === null) return value as RampValue
  const { path, message, params, keyword } = fault
  const at = ['value', ...path].join('.')
  const extra =
    keyword === 'additionalProperties' ? ` (${String(params['additionalProperty'])})` : ''
  throw invalidInput('payload', `is not valid at \`${at}\`: it ${message}${extra}`)
}

function readSteps(steps: RampValue['steps']): readonly RampStep[] {
  let lastAtMs = Number.NEGATIVE_INFINITY
  return steps.map(({ rollout_percentage: rolloutPercentage, at, after_seconds: after }, index) => {
    const name = `has a step ${index + 1} that`
    if (at !== undefined && after !== undefined) {
      throw invalidInput('payload', `${name} has both \`at\` and \`after_seconds\`. Send one`)
    }
    if (index > 0 && at === undefined && after === undefined) {
      throw invalidInput('payload', `${name} needs \`at\` or \`after_seconds\``)
    }
    const atMs = readTime('payload', at)
    if (atMs !== null && atMs <= lastAtMs) {
      throw invalidInput('payload', `${name} is not after the steps before it`)
    }
    lastAtMs = atMs ?? lastAtMs
    const afterMs = after === undefined ? null : after * SECOND_MS
    return { rolloutPercentage, atMs, afterMs, executedAtMs: null }
  })
}

/** Returns the time of the first step of a ramp. The scheduled change or the step itself may give it. */
function startOfRamp(
  { scheduled_at: sent }: ScheduleRequest,
  { steps: [first] }: Ramp,
  nowMs: number,
): number {
  const { atMs = null, afterMs = null } = first ?? {}
  const sentAtMs = readTime('scheduled_at', sent)
  if (sentAtMs !== null && atMs !== null && atMs !== sentAtMs) {
    throw invalidInput(
      'scheduled_at',
      'differs from `at` of the first step. Send only one of the two',
    )
  }
  return sentAtMs ?? atMs ?? nowMs + (afterMs ?? 0)
}

function required(attr: string): ServiceError {
  const detail = `\`${attr}\` is missing. Send it in the body.`
  return new ServiceError('required', detail, { attr })
}
