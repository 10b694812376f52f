/**
 * Decides which scheduled changes are due at a given time, and when they are due again. The decisions depend only on
 * the stored change and on the given time. If the clock goes back, changes are delayed, but none is repeated. If the
 * clock goes forward, at most one step of a ramp and one execution of a recurring change are made.
 */
import {
  nextStepOf,
  type PendingChange,
  type Ramp,
  type RampStep,
  type RecurrenceInterval,
  type ScheduledChange,
} from './scheduled-change.ts'

/** What has to be done with a change now: make it, end it without making it, or nothing. */
export type DueAction = 'execute' | 'end' | null

const DAY_MS = 86_400_000
const MONTHS: Readonly<Record<'monthly' | 'yearly', number>> = { monthly: 1, yearly: 12 }

/** Returns what has to be done with a change at `nowMs`. */
export function dueAction(change: ScheduledChange, nowMs: number): DueAction {
  if (!isPending(change)) return null
  const { recurrenceInterval, endAtMs, scheduledAtMs } = change
  if (recurrenceInterval !== null && endAtMs !== null && endAtMs <= nowMs) return 'end'
  return scheduledAtMs <= nowMs ? 'execute' : null
}

/**
 * Returns the facts that the main thread needs about a change that waits. Returns null if the change has ended or is
 * paused.
 */
export function pendingOf(change: ScheduledChange): PendingChange | null {
  if (!isPending(change)) return null
  const { projectId, id, flagId, executions, ramp, scheduledAtMs, endAtMs } = change
  const isWatched = ramp !== null && ramp.guards.length > 0 && ramp.watchedFromMs !== null
  const dueAtMs = ramp === null ? Math.min(scheduledAtMs, endAtMs ?? scheduledAtMs) : scheduledAtMs
  return { projectId, id, flagId, executions, isWatched, dueAtMs }
}

function isPending({
  executedAtMs,
  isRecurring,
  recurrenceInterval,
  ramp,
}: ScheduledChange): boolean {
  const isPaused = !isRecurring && recurrenceInterval !== null
  return executedAtMs === null && !isPaused && (ramp === null || ramp.state === 'running')
}

/**
 * Returns the time of the first execution of a recurring change after `afterMs`. Missed executions are skipped. Months
 * are counted from `anchorMs`, so a change on 31 January is made on 28 February and on 31 March. Source of the
 * intervals: PostHog posthog/tasks/process_scheduled_changes.py `compute_next_run`.
 */
export function nextExecution(
  anchorMs: number,
  interval: RecurrenceInterval,
  afterMs: number,
): number {
  if (afterMs < anchorMs) return anchorMs
  if (interval === 'daily' || interval === 'weekly') {
    const lengthMs = interval === 'daily' ? DAY_MS : 7 * DAY_MS
    return anchorMs + (Math.floor((afterMs - anchorMs) / lengthMs) + 1) * lengthMs
  }
  const length = MONTHS[interval]
  const [anchor, after] = [new Date(anchorMs), new Date(afterMs)]
  const years = after.getUTCFullYear() - anchor.getUTCFullYear()
  const months = 12 * years + after.getUTCMonth() - anchor.getUTCMonth()
  // The estimate is right or one interval too low, so the loop makes at most one step.
  let count = Math.max(1, Math.floor(months / length))
  while (monthsLater(anchor, count * length) <= afterMs) count++
  return monthsLater(anchor, count * length)
}

/**
 * Returns the moment some months later, on the same day of the month and at the same time of day. In a month that is
 * too short, it is the last day.
 */
function monthsLater(from: Date, months: number): number {
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth() + months]
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const day = Math.min(from.getUTCDate(), lastDay)
  const dayMs = from.getTime() % DAY_MS
  // A time before 1970 has a negative remainder.
  return Date.UTC(year, month, day) + (dayMs < 0 ? dayMs + DAY_MS : dayMs)
}

/** Returns a change as it is stored after it was made at `nowMs`. It waits for its next execution, or has ended. */
export function afterExecution(change: ScheduledChange, nowMs: number): ScheduledChange {
  const { isRecurring, recurrenceInterval, anchorMs, scheduledAtMs, endAtMs } = change
  const made = { ...change, executions: change.executions + 1, updatedAtMs: nowMs }
  if (!isRecurring || recurrenceInterval === null) return { ...made, executedAtMs: nowMs }
  const nextMs = nextExecution(anchorMs, recurrenceInterval, Math.max(nowMs, scheduledAtMs))
  const isOver = endAtMs !== null && nextMs > endAtMs
  return {
    ...made,
    lastExecutedAtMs: nowMs,
    ...(isOver ? { executedAtMs: nowMs } : { scheduledAtMs: nextMs }),
  }
}

/**
 * Returns the time at which a step of a ramp is due. `before` is the step before it, which was made at `madeAtMs`. If
 * `before` was made later than planned, this step is delayed too, so that the flag keeps the percentage of `before` as
 * long as planned.
 */
export function stepDueAt(
  step: Pick<RampStep, 'atMs' | 'afterMs'>,
  before: Pick<RampStep, 'atMs'>,
  madeAtMs: number,
): number {
  if (step.atMs === null) return madeAtMs + (step.afterMs ?? 0)
  const lengthMs = before.atMs === null ? 0 : step.atMs - before.atMs
  return Math.max(step.atMs, madeAtMs + lengthMs)
}

/** Returns a ramp as it is stored after its next step was made at `nowMs`. */
export function afterStep(change: ScheduledChange, ramp: Ramp, nowMs: number): ScheduledChange {
  const index = ramp.steps.findIndex(({ executedAtMs }) => executedAtMs === null)
  const made = ramp.steps[index]
  if (made === undefined) return change
  const steps = ramp.steps.with(index, { ...made, executedAtMs: nowMs })
  const next = nextStepOf({ steps })
  const expected = { ...ramp.expected, rolloutPercentage: made.rolloutPercentage }
  const after: Ramp = { ...ramp, steps, expected, watchedFromMs: nowMs }
  const common = {
    ...change,
    executions: change.executions + 1,
    lastExecutedAtMs: nowMs,
    updatedAtMs: nowMs,
  }
  return next === undefined
    ? { ...common, executedAtMs: nowMs, ramp: { ...after, state: 'done' } }
    : { ...common, scheduledAtMs: stepDueAt(next, made, nowMs), ramp: after }
}
