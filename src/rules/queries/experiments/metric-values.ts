/**
 * Adds up the values of exposed persons: numbers of events, and sums, means, minima and maxima of a property. The events
 * may come in any order. Source: docs/EXPERIMENTS.md, "What counts".
 */
import type { ValueRequest } from '../../analytics/event-columns.ts'
import { withRoom } from '../../analytics/growing-arrays.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import { type QueryScan, type QueryShard, scanShardPieces } from '../query-kind.ts'
import type { CountedSource, ExposurePlan } from './experiment-plan.ts'
import type { ExposedPersons } from './exposed-persons.ts'
import { ValueNumbers } from './value-numbers.ts'

/** The times at which events of a person count, in milliseconds relative to the first exposure. */
export interface MetricWindow {
  /** The window after the exposure, without its last moment. Null: until the end of the experiment. */
  readonly windowMs: number | null
  /** The period before the exposure. Null: it is not counted. */
  readonly lookbackMs: number | null
}

/** The values of each person, by row. */
export interface MetricValues {
  readonly after: Float64Array
  /** Null if the period before is not counted. */
  readonly before: Float64Array | null
}

const VALUES_START = 1024

/** Adds up a source for every exposed person. Throws as `EventScanner.scan`. */
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
    const numbers = new ValueNumbers(new Float64Array(VALUES_START), readNumber)
    const scan: QueryScan = {
      fromMs: range.fromMs - (lookbackMs ?? 0),
      toMs: range.toMs + (windowMs ?? 0),
      filter,
      series: [source.match],
      values: valuesOf(source),
      order: 'any',
    }
    scanShardPieces(exposed.shardOf(shard), scan, (piece) => {
      const { timesMs, values } = piece
      const rows = exposed.rowsOf(piece)
      const ids = values[0]?.ids
      const numberOf = source.key === null ? null : numbers.of(values[0]?.values ?? [])
      for (let index = 0; index < piece.count; index++) {
        const row = rows[index] ?? -1
        if (row < 0) continue
        const timeMs = timesMs[index] ?? 0
        const sinceMs = timeMs - (firstMs[row] ?? 0)
        const id = ids?.[index] ?? 0
        const value = numberOf === null ? id : (numberOf[id] ?? Number.NaN)
        if (sinceMs >= 0) {
          if (sinceMs < reachMs && timeMs <= endMs) after.add(row, value)
        } else if (before !== null && -sinceMs <= (lookbackMs ?? 0)) before.add(row, value)
      }
    })
    shard.scanner.giveBack()
  }
  return { after: after.values(), before: before?.values() ?? null }
}

function valuesOf({ math, key }: CountedSource): readonly ValueRequest[] {
  if (key !== null) return [{ kind: 'event_property', key }]
  return math === 'unique_session' ? [{ kind: 'session' }] : []
}

/** The events of each person, as far as they are added up. */
interface Tally {
  /** `value` is the number of the property, NaN without one. For sessions it is the number of the session, or 0. */
  add(row: number, value: number): void
  /** Returns the value of each person. It is 0 for persons without events. */
  values(): Float64Array
}

function tallyOf({ math }: CountedSource, count: number): Tally {
  const values = new Float64Array(count)
  switch (math) {
    case 'total':
      return {
        add(row) {
          values[row] = (values[row] ?? 0) + 1
        },
        values: () => values,
      }
    case 'dau':
      return {
        add(row) {
          values[row] = 1
        },
        values: () => values,
      }
    case 'sum':
      return {
        add(row, value) {
          if (!Number.isNaN(value)) values[row] = (values[row] ?? 0) + value
        },
        values: () => values,
      }
    case 'avg':
      return averages(values)
    case 'min':
      return extremes(values, (known, value) => value < known)
    case 'max':
      return extremes(values, (known, value) => value > known)
    case 'unique_session':
      return sessions(values)
  }
}

function averages(sums: Float64Array): Tally {
  const counts = new Uint32Array(sums.length)
  return {
    add(row, value) {
      if (Number.isNaN(value)) return
      sums[row] = (sums[row] ?? 0) + value
      counts[row] = (counts[row] ?? 0) + 1
    },
    values: () => sums.map((sum, row) => sum / Math.max(1, counts[row] ?? 0)),
  }
}

function extremes(
  values: Float64Array,
  isBetter: (known: number, value: number) => boolean,
): Tally {
  values.fill(Number.NaN)
  return {
    add(row, value) {
      const known = values[row] ?? 0
      if (Number.isNaN(known) || isBetter(known, value)) values[row] = value
    },
    values: () => values.map((value) => (Number.isNaN(value) ? 0 : value)),
  }
}

/** Counts different sessions. Nearly all sessions are those of one person, so a number for each session is enough. */
function sessions(counts: Float64Array): Tally {
  /** For each session the row plus one of the first person with an event of it. */
  let owners = new Uint32Array(VALUES_START)
  /** Sessions of further persons. */
  const shared = new Set<string>()
  return {
    add(row, session) {
      if (session === 0) return
      owners = withRoom(owners, session)
      const owner = owners[session] ?? 0
      if (owner === row + 1) return
      if (owner === 0) owners[session] = row + 1
      else {
        const key = `${session} ${row}`
        if (shared.has(key)) return
        shared.add(key)
      }
      counts[row] = (counts[row] ?? 0) + 1
    },
    values: () => counts,
  }
}
