/**
 * Finds the actors that are counted in each cell of a retention table. A row is the period of an actor's target event,
 * and a column is the number of periods until the actor returned. The bits of 32 actors are processed at a time.
 * Source: docs/compatibility/queries.md, "RetentionQuery".
 */
import type { EventScanner } from '../../analytics/event-columns.ts'
import type { Periods } from '../../analytics/periods.ts'
import type { ActorEvents } from '../actor-events.ts'
import { type ActorRange, actorRanges, periodBits } from '../period-bits.ts'
import type { RetentionPlan } from './retention-plan.ts'

/** The bit of the series masks that is set for target events. The target is the first series of the scan. */
const TARGET = 1
/**
 * For `retention_first_ever_occurrence`: the bit of events with the target's name, even if they do not pass the
 * target's own filters.
 */
const BARE_TARGET = 2

/** The events from which one retention table is computed, with their actors. */
export interface RetentionEvents extends ActorEvents {
  /** The number of actors. */
  readonly actorCount: number
  /** The numbers of the actors that had a target event before the first row. A 0 in the list stands for no actor. */
  readonly earlier: Uint32Array
}

type Limits = Pick<EventScanner, 'checkLimits'>

/**
 * Called for every row, column and group of 32 actors. Bit i of `bits` is set if the actor with the number `first + i`
 * is counted in the cell.
 */
export type CellVisitor = (row: number, column: number, bits: number, first: number) => void

/**
 * Calls `visit` for the cells of the retention table. The cost is linear in the events, plus rows times columns for
 * every 32 actors. Throws the same errors as `EventScanner.checkLimits`.
 */
export function eachCell(
  plan: RetentionPlan,
  events: RetentionEvents,
  periods: Periods,
  limits: Limits,
  visit: CellVisitor,
): void {
  const { test } = plan
  const firsts = plan.type === 'retention_recurring' ? null : firstEvents(plan, events)
  // The series of returning events is the last one of the scan.
  const bareCount = plan.type === 'retention_first_ever_occurrence' ? 1 : 0
  const returning = plan.returning === null ? TARGET : TARGET << (1 + bareCount)
  const isShared = firsts === null && returning === TARGET && test.value === 1
  for (const actorRange of actorRanges(events.actorCount, periods, test)) {
    const targets = periodBits(firsts ?? events, actorRange, periods, TARGET, null, limits)
    const returns = isShared
      ? targets
      : periodBits(events, actorRange, periods, returning, test, limits)
    compareRows(plan, targets, returns, actorRange, limits, visit)
  }
}

/**
 * Calls `visit` for each cell of the table. `targets` and `returns` are the bits of target events and of returning
 * events, in the form of the result of `periodBits`.
 */
export function compareRows(
  { rows, columns, isCumulative }: RetentionPlan,
  targets: Uint32Array,
  returns: Uint32Array,
  { first, words }: ActorRange,
  limits: Limits,
  visit: CellVisitor,
): void {
  for (let row = 0; row < rows; row++) {
    limits.checkLimits()
    const last = Math.min(columns, rows - row) - 1
    for (let word = 0; word < words; word++) {
      const members = targets[row * words + word] ?? 0
      if (members === 0) continue
      const firstActor = first + word * 32
      visit(row, 0, members, firstActor)
      let later = 0
      for (let column = last; column > 0; column--) {
        const came = returns[(row + column) * words + word] ?? 0
        later = isCumulative ? later | came : came
        const bits = members & later
        if (bits !== 0) visit(row, column, bits, firstActor)
      }
    }
  }
}

/**
 * Returns the first target event of each actor. The series mask of the event is 0 if the actor is counted in no row.
 * This is the case if the actor has no target event within the rows, or has one before the first row. For
 * `retention_first_ever_occurrence`, it is also the case if the actor has an earlier event with the target's name that
 * does not pass the target's filters.
 */
function firstEvents(
  { type }: RetentionPlan,
  { count, actors, timesMs, seriesMasks, actorCount, earlier }: RetentionEvents,
): ActorEvents {
  const isFirstEver = type === 'retention_first_ever_occurrence'
  const bare = isFirstEver ? BARE_TARGET : 0
  const firstMs = new Float64Array(actorCount + 1).fill(Number.POSITIVE_INFINITY)
  const bareMs = isFirstEver ? firstMs.slice() : firstMs
  for (let row = 0; row < count; row++) {
    const actor = actors[row] ?? 0
    const timeMs = timesMs[row] ?? 0
    const mask = seriesMasks[row] ?? 0
    if ((mask & TARGET) !== 0 && timeMs < (firstMs[actor] ?? 0)) firstMs[actor] = timeMs
    if ((mask & bare) !== 0 && timeMs < (bareMs[actor] ?? 0)) bareMs[actor] = timeMs
  }
  for (const actor of earlier) bareMs[actor] = Number.NEGATIVE_INFINITY
  const masks = new Uint32Array(actorCount + 1)
  const numbers = new Uint32Array(actorCount + 1)
  for (let actor = 1; actor <= actorCount; actor++) {
    numbers[actor] = actor
    const isCounted = firstMs[actor] === bareMs[actor] && Number.isFinite(firstMs[actor])
    if (isCounted) masks[actor] = TARGET
  }
  return { count: actorCount + 1, actors: numbers, timesMs: firstMs, seriesMasks: masks }
}
