/**
 * Adds up the values of exposed persons: numbers of events, and sums, means, minima and maxima of a property. The
 * events may come in any order. Source: docs/EXPERIMENTS.md, "What counts".
 */
import type { EventColumns, ValueColumn, ValueRequest } from '../../analytics/event-columns.ts'
import { withRoom } from '../../analytics/growing-arrays.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import type { QueryScan, QueryShard } from '../query-kind.ts'
import type { CountedSource, ExposurePlan } from './experiment-plan.ts'
import type { ExposedPersons } from './exposed-persons.ts'

/** The times of the events that are added up for a person, in milliseconds relative to the person's first exposure. */
export interface MetricWindow {
  /**
   * The length of the window after the exposure; its last moment is excluded. Null means until the end of the
   * experiment.
   */
  readonly windowMs: number | null
  /**
   * The length of the period before the exposure whose events are added up separately (CUPED). Null if there is no such
   * period.
   */
  readonly lookbackMs: number | null
}

/** The values of each person, by row. */
export interface MetricValues {
  readonly after: Float64Array
  /** The values from the period before the exposure. Null if `MetricWindow.lookbackMs` is null. */
  readonly before: Float64Array | null
}

const SESSIONS_START = 1024
const NO_VALUES = new Float64Array(0)

/** Adds up the values of a source for every exposed person. Throws the same errors as `EventScanner.scan`. */
export function metricValues(
  source: CountedSource,
  { windowMs, lookbackMs }: MetricWindow,
  { filter, range }: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): MetricValues {
  const { count, firstMs } = exposed
  const after = tallyOf(source, count)
  const before = lookbackMs === null ? null : tallyOf(source, count)
  if (count > 0) {
    const endMs = windowMs === null ? range.toMs : Number.POSITIVE_INFINITY
    const reachMs = windowMs ?? Number.POSITIVE_INFINITY
    const scan: QueryScan = {
      fromMs: range.fromMs - (lookbackMs ?? 0),
      toMs: range.toMs + (windowMs ?? 0),
      filter,
      series: [source.match],
      values: valuesOf(source),
      areValuesLocal: true,
      order: 'any',
    }
    let kept = new Int32Array(0)
    exposed.scanChunks(shard, scan, (chunk) => {
      const [column] = chunk.values
      const values =
        column === undefined ? NO_VALUES : source.key === null ? column.ids : numbersOf(column)
      const rows = exposed.rowsOf(chunk)
      if (kept.length < chunk.count) kept = new Int32Array(chunk.count)
      if (before !== null) {
        const window = { fromMs: -(lookbackMs ?? 0), untilMs: 0, lastMs: Number.POSITIVE_INFINITY }
        before.add(within(window, chunk, rows, firstMs, kept), values)
      }
      const window = { fromMs: 0, untilMs: reachMs, lastMs: endMs }
      after.add(within(window, chunk, rows, firstMs, kept), values)
    })
    shard.scanner.releaseResults()
  }
  return { after: after.values(), before: before?.values() ?? null }
}

/**
 * A window relative to the first exposure. The start is inclusive and the end is exclusive. `lastMs` is an absolute
 * time since 1970.
 */
interface Window {
  readonly fromMs: number
  readonly untilMs: number
  readonly lastMs: number
}

/**
 * Writes into `kept` the row of each event that lies in a window, and -1 for all other events. `rows` contains the row
 * of each event, or -1 if the event does not count. Returns the written part of `kept`.
 */
function within(
  { fromMs, untilMs, lastMs }: Window,
  { count, timesMs }: Pick<EventColumns, 'count' | 'timesMs'>,
  rows: Int32Array,
  firstMs: Float64Array,
  kept: Int32Array,
): Int32Array {
  for (let index = 0; index < count; index++) {
    const row = rows[index] ?? -1
    const timeMs = timesMs[index] ?? 0
    const sinceMs = row < 0 ? Number.NaN : timeMs - (firstMs[row] ?? 0)
    kept[index] = sinceMs >= fromMs && sinceMs < untilMs && timeMs <= lastMs ? row : -1
  }
  return kept.subarray(0, count)
}

/** Returns the number in each event, or NaN if the value is not a number. */
function numbersOf({ ids, values }: ValueColumn): Float64Array {
  const numbers = new Float64Array(ids.length)
  if (values.length > ids.length) {
    for (let index = 0; index < ids.length; index++) {
      numbers[index] = readNumber(values[ids[index] ?? 0])
    }
    return numbers
  }
  const numberOf = new Float64Array(values.length)
  for (let id = 0; id < values.length; id++) numberOf[id] = readNumber(values[id])
  for (let index = 0; index < ids.length; index++) numbers[index] = numberOf[ids[index] ?? 0] ?? 0
  return numbers
}

function valuesOf({ math, key }: CountedSource): readonly ValueRequest[] {
  if (key !== null) return [{ kind: 'event_property', key }]
  return math === 'unique_session' ? [{ kind: 'session' }] : []
}

/** Adds up the value of each person, event by event. */
interface Tally {
  /**
   * Adds the events of a chunk. `rows` contains the row of each event, or -1 if the event does not count. `values`
   * contains the number in each event, or NaN if there is none. If sessions are counted, `values` contains the number
   * of each event's session, or 0. A query adds millions of events, so implementations use plain loops without calls.
   */
  add(rows: Int32Array, values: Values): void
  /** Returns the value of each person. A person without events has 0. */
  values(): Float64Array
}

type Values = Float64Array | Uint32Array

function tallyOf({ math }: CountedSource, count: number): Tally {
  const numbers = new Float64Array(count)
  switch (math) {
    case 'total':
      return totals(numbers)
    case 'dau':
      return actives(numbers)
    case 'sum':
      return sums(numbers)
    case 'avg':
      return averages(numbers)
    case 'min':
      return extremes(numbers, -1)
    case 'max':
      return extremes(numbers, 1)
    case 'unique_session':
      return sessions(numbers)
  }
}

function totals(counts: Float64Array): Tally {
  return {
    add(rows) {
      for (let index = 0; index < rows.length; index++) {
        const row = rows[index] ?? -1
        if (row >= 0) counts[row] = (counts[row] ?? 0) + 1
      }
    },
    values: () => counts,
  }
}

function actives(marks: Float64Array): Tally {
  return {
    add(rows) {
      for (let index = 0; index < rows.length; index++) {
        const row = rows[index] ?? -1
        if (row >= 0) marks[row] = 1
      }
    },
    values: () => marks,
  }
}

function sums(numbers: Float64Array): Tally {
  return {
    add(rows, values) {
      for (let index = 0; index < rows.length; index++) {
        const row = rows[index] ?? -1
        const value = values[index] ?? 0
        if (row >= 0 && !Number.isNaN(value)) numbers[row] = (numbers[row] ?? 0) + value
      }
    },
    values: () => numbers,
  }
}

function averages(numbers: Float64Array): Tally {
  const counts = new Uint32Array(numbers.length)
  return {
    add(rows, values) {
      for (let index = 0; index < rows.length; index++) {
        const row = rows[index] ?? -1
        const value = values[index] ?? 0
        if (row < 0 || Number.isNaN(value)) continue
        numbers[row] = (numbers[row] ?? 0) + value
        counts[row] = (counts[row] ?? 0) + 1
      }
    },
    values: () => numbers.map((sum, row) => sum / Math.max(1, counts[row] ?? 0)),
  }
}

/** `direction` is 1 for the largest number and -1 for the smallest one. */
function extremes(numbers: Float64Array, direction: 1 | -1): Tally {
  numbers.fill(Number.NaN)
  return {
    add(rows, values) {
      for (let index = 0; index < rows.length; index++) {
        const row = rows[index] ?? -1
        const value = values[index] ?? 0
        if (row < 0 || Number.isNaN(value)) continue
        const known = numbers[row] ?? 0
        if (Number.isNaN(known) || value * direction > known * direction) numbers[row] = value
      }
    },
    values: () => numbers.map((number) => (Number.isNaN(number) ? 0 : number)),
  }
}

/**
 * Counts the different sessions of each person. Almost every session belongs to one person, so one number for each
 * session is usually enough. The set `shared` contains the rare exceptions.
 */
function sessions(counts: Float64Array): Tally {
  /** For each session, the row plus one of the first person that has an event in it. */
  let owners = new Uint32Array(SESSIONS_START)
  /** The pairs of a session and a further person that has events in it. */
  const shared = new Set<string>()
  const isNew = (row: number, session: number): boolean => {
    owners = withRoom(owners, session)
    const owner = owners[session] ?? 0
    if (owner === 0) owners[session] = row + 1
    if (owner === 0 || owner === row + 1) return owner === 0
    const key = `${session} ${row}`
    if (shared.has(key)) return false
    shared.add(key)
    return true
  }
  return {
    add(rows, values) {
      for (let index = 0; index < rows.length; index++) {
        const row = rows[index] ?? -1
        const session = values[index] ?? 0
        if (row >= 0 && session !== 0 && isNew(row, session)) counts[row] = (counts[row] ?? 0) + 1
      }
    },
    values: () => counts,
  }
}
