/**
 * Splits the events of a RetentionQuery by the values of its breakdown. Source: docs/compatibility/queries.md,
 * "RetentionQuery".
 */
import { largestPerson } from '../../analytics/actor-page.ts'
import { type ActorRows, rowsByActor } from '../../analytics/actor-rows.ts'
import type { EventColumns, ValueRequest } from '../../analytics/event-columns.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { type ActorKeys, ActorNumbers, TextNumbers } from '../actor-events.ts'
import { type BreakdownProperty, breakdownText } from '../query-breakdown.ts'
import { type QueryShard, scanShard } from '../query-kind.ts'
import type { RetentionEvents } from './retention-counts.ts'
import type { RetentionPlan } from './retention-plan.ts'

/** The events of one breakdown value. */
export interface RetentionSplit {
  /** The text of the value, or the number of the cohort. It is '' without a breakdown. */
  readonly label: string
  readonly events: RetentionEvents
  /** The numbers of the actors in `events`. They are valid until the next split is read. */
  readonly numbers: ActorNumbers
}

/** The events within the rows and, for first-time retention, the target events before the first row. */
interface FoundEvents {
  readonly columns: EventColumns
  readonly earlier: EventColumns | null
}

/** Yields the events of each breakdown value. Throws the same errors as `EventScanner.scan`. */
export function* retentionSplits(
  plan: RetentionPlan,
  shard: QueryShard,
  keys: ActorKeys,
): Generator<RetentionSplit> {
  const { filter, breakdown, rows } = plan
  if (rows === 0) return
  if (breakdown === null) {
    yield wholeSplit('', eventsOf(plan, shard, filter, keys.values), keys)
  } else if (breakdown.property === null) {
    for (const cohort of breakdown.cohorts) {
      const members = allOf([filter, cohort === 'all' ? null : cohortFilter(cohort)])
      const found = eventsOf(plan, shard, members, keys.values)
      yield wholeSplit(cohort === 'all' ? '0' : String(cohort), found, keys)
      shard.scanner.releaseResults()
    }
  } else {
    const values = [...keys.values, breakdown.property.value]
    yield* valueSplits(eventsOf(plan, shard, filter, values), breakdown.property, keys)
  }
}

function cohortFilter(value: number): FilterGroup {
  return { type: 'AND', values: [{ key: 'id', type: 'cohort', operator: 'in', value }] }
}

/**
 * Scans the events. For `retention_first_ever_occurrence`, it also scans the events with the target's name that do not
 * pass the target's own filters.
 */
function eventsOf(
  { target, returning, type, fromMs, toMs }: RetentionPlan,
  shard: QueryShard,
  filter: FilterGroup | null,
  values: readonly ValueRequest[],
): FoundEvents {
  const isFirstEver = type === 'retention_first_ever_occurrence'
  const first = isFirstEver ? { ...target, filter: null } : target
  const series = [
    target,
    ...(isFirstEver ? [first] : []),
    ...(returning === null ? [] : [returning]),
  ]
  const columns = scanShard(shard, { fromMs, toMs, filter, series, values })
  if (type === 'retention_recurring') return { columns, earlier: null }
  const startMs = shard.context.firstEventMs() ?? fromMs
  if (startMs >= fromMs) return { columns, earlier: null }
  const range = { fromMs: startMs, toMs: fromMs - 1 }
  const wish = { filter, series: [first], values, isPersonsOnly: true }
  return { columns, earlier: scanShard(shard, { ...range, ...wish }) }
}

function wholeSplit(
  label: string,
  { columns, earlier }: FoundEvents,
  keys: ActorKeys,
): RetentionSplit {
  const { numbers, actors } = ActorNumbers.of(keys.keysOf(columns), columns.count)
  const before = earlier === null ? new Uint32Array() : keys.keysOf(earlier)
  const found = { earlier: before.map((key) => numbers.numberOf(key)), actorCount: numbers.count }
  return { label, numbers, events: { ...columns, actors, ...found } }
}

/** Splits the events by their breakdown value, which is the last of the values that the scan reads for each event. */
function* valueSplits(
  { columns, earlier }: FoundEvents,
  property: BreakdownProperty,
  keys: ActorKeys,
): Generator<RetentionSplit> {
  const labels = new TextNumbers()
  const rowsOf = ({ count, values }: EventColumns): ActorRows => {
    const textOf = (value: unknown): string => breakdownText(value, property) ?? ''
    const column = values.at(-1) ?? { ids: new Uint32Array(), values: [] }
    return rowsByActor(labels.add(column, count, textOf), count)
  }
  const own = rowsOf(columns)
  const before = earlier === null ? null : rowsOf(earlier)
  const actorKeys = keys.keysOf(columns)
  const earlierKeys = earlier === null ? new Uint32Array() : keys.keysOf(earlier)
  const numbers = new ActorNumbers(largestPerson(actorKeys, columns.count))
  for (const [place, label] of own.keys.entries()) {
    numbers.clear()
    const rows = rowsAt(own, place)
    const actors = numbers.add(picked(actorKeys, rows), rows.length)
    const earlierRows =
      before === null ? rows.subarray(0, 0) : rowsAt(before, before.keys.indexOf(label))
    const events = {
      count: rows.length,
      actors,
      timesMs: gathered(columns.timesMs, rows, new Float64Array(rows.length)),
      seriesMasks: picked(columns.seriesMasks, rows),
      actorCount: numbers.count,
      earlier: picked(earlierKeys, earlierRows).map((key) => numbers.numberOf(key)),
    }
    yield { label: labels.textOf(label), events, numbers }
  }
}

/** Returns the rows of the breakdown value at the index `place` of `keys`. For the index -1, there are no rows. */
function rowsAt({ starts, rows }: ActorRows, place: number): Uint32Array {
  return place < 0 ? rows.subarray(0, 0) : rows.subarray(starts[place], starts[place + 1])
}

function picked(list: Uint32Array, rows: Uint32Array): Uint32Array {
  return gathered(list, rows, new Uint32Array(rows.length))
}

function gathered<List extends Uint32Array | Float64Array>(
  list: List,
  rows: Uint32Array,
  into: List,
): List {
  for (let index = 0; index < rows.length; index++) into[index] = list[rows[index] ?? 0] ?? 0
  return into
}
