/** Scans the events of a series, and finds the breakdown value and the bucket of each event. */
import { getOrAdd } from '../../../base/maps.ts'
import { largestPerson } from '../../analytics/actor-page.ts'
import type {
  EventColumns,
  SeriesMatch,
  ValueColumn,
  ValueRequest,
} from '../../analytics/event-columns.ts'
import type { Periods } from '../../analytics/periods.ts'
import { readNumber } from '../../analytics/person-aggregates.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { propertyText } from '../../filters/property-text.ts'
import { type BreakdownProperty, breakdownText } from '../query-breakdown.ts'
import { type QueryShard, scanShard } from '../query-kind.ts'
import type { CellValue } from './tally.ts'
import type { TrendSeries, TrendsPlan } from './trends-plan.ts'

/** The number of rows between two checks of the limits of a query. */
export const CHECK_EVERY = 65_536

/** The events of a series. A row is an index into the lists of `columns`. */
export interface TrendRows {
  readonly columns: EventColumns
  /** The rows that belong to the series, for example only the first event of each person. Null means all rows. */
  readonly chosen: Uint32Array | null
  /** For each row, the position of its breakdown value in `values`. Null if there is no breakdown by properties. */
  readonly cells: Uint32Array | null
  /** The breakdown values without duplicates. Position 0 is unused. */
  readonly values: readonly CellValue[]
  /** The values that the measure computes with. Null if the measure only counts. */
  readonly measured: ValueColumn | null
}

/** Which events of a series are scanned. Times are in milliseconds. */
export interface RowsWish {
  readonly fromMs: number
  readonly toMs: number
  /** True if the result does not depend on the times of events, so that they need not be read. */
  readonly isUntimed: boolean
  /** The filter on persons. Null means everybody. */
  readonly persons: FilterGroup | null
  /** True if events that belong to nobody are found as well. The default is false. */
  readonly keepsOwnerless?: boolean
}

/**
 * Scans the events of a series. A second call with the same arguments finds the same rows in the same order. If `last`
 * is given, the scan also reads this value, and its column is the last one of `columns.values`. Throws the same errors
 * as `EventScanner.scan`.
 */
export function scanRows(
  plan: TrendsPlan,
  { measure, match }: TrendSeries,
  { fromMs, toMs, isUntimed, persons, keepsOwnerless = false }: RowsWish,
  shard: QueryShard,
  last?: ValueRequest,
): TrendRows {
  const properties = plan.breakdown?.properties ?? []
  const wanted =
    measure.of === 'numbers' ? measure.value : measure.of === 'actors' ? measure.actor : null
  const own = [...properties.map(({ value }) => value), ...(wanted === null ? [] : [wanted])]
  const values = last === undefined ? own : [...own, last]
  const scan = { toMs, values }
  if (measure.of !== 'first_events') {
    const filter = allOf([plan.filter, persons])
    const rest = { series: [match], filter, isPersonsOnly: isUntimed, keepsOwnerless }
    const columns = scanShard(shard, { ...scan, ...rest, fromMs })
    const hasBins = properties.some(({ binCount }) => binCount !== null)
    const groups =
      wanted?.kind === 'group_key' && hasBins ? columns.values[properties.length] : undefined
    return rowsOf(columns, groups === undefined ? null : rowsWithText(groups), properties)
  }
  // If `isByName` is true, there are two series. The first one finds all events with the name, and the second one only
  // the events that also pass all filters. The mask of an event shows whether it belongs to the second one.
  const passing = { ...match, filter: allOf([plan.filter, match.filter]) }
  const series: readonly SeriesMatch[] = measure.isByName
    ? [{ ...match, filter: null }, passing]
    : [passing]
  const ever = { fromMs: Number.NEGATIVE_INFINITY, order: 'unsorted' } as const
  const columns = scanShard(shard, { ...scan, ...ever, series, filter: persons })
  const mask = 1 << (series.length - 1)
  return rowsOf(columns, firstRows(columns, fromMs, mask), properties)
}

/** Returns, for each row, the index of the period that contains its time. */
export function bucketsOfRows(
  { count, timesMs }: EventColumns,
  periods: Periods,
  limits: Pick<QueryShard['scanner'], 'checkLimits'>,
): Uint32Array {
  const buckets = new Uint32Array(count)
  // Consecutive events are mostly in the same period, so its bounds are compared before the period is looked up.
  let bucket = 0
  let startMs = 0
  let endMs = 0
  for (let row = 0; row < count; row++) {
    if (row % CHECK_EVERY === 0) limits.checkLimits()
    const timeMs = timesMs[row] ?? 0
    if (timeMs < startMs || timeMs >= endMs) {
      bucket = Math.max(0, periods.indexOf(timeMs))
      startMs = periods.startMs(bucket)
      endMs = periods.startMs(bucket + 1)
    }
    buckets[row] = bucket
  }
  return buckets
}

/**
 * Returns the rows whose event belongs to a group. The other rows are left out, because events without a group must not
 * affect the bounds of the bins.
 */
function rowsWithText({ ids, values }: ValueColumn): Uint32Array {
  const hasText = values.map((value) => propertyText(value ?? '') !== '')
  return Uint32Array.from(ids.keys()).filter((row) => hasText[ids[row] ?? 0] === true)
}

/** Returns the row of each person's first event, if this event is not before `fromMs` and its mask contains `mask`. */
function firstRows(columns: EventColumns, fromMs: number, mask: number): Uint32Array {
  const { count, persons, timesMs, sequences, seriesMasks } = columns
  // The row of each person's first event, plus one. 0 means that the person has no row.
  const firsts = new Uint32Array(largestPerson(persons, count) + 1)
  for (let row = 0; row < count; row++) {
    const person = persons[row] ?? 0
    const known = (firsts[person] ?? 0) - 1
    const timeMs = timesMs[row] ?? 0
    const knownMs = timesMs[known] ?? Number.POSITIVE_INFINITY
    const isEarlier =
      timeMs < knownMs || (timeMs === knownMs && (sequences[row] ?? 0) < (sequences[known] ?? 0))
    if (isEarlier) firsts[person] = row + 1
  }
  const chosen = new Uint32Array(firsts.length)
  let length = 0
  for (const first of firsts) {
    const row = first - 1
    if (row < 0 || (timesMs[row] ?? 0) < fromMs) continue
    if (((seriesMasks[row] ?? 0) & mask) !== 0) chosen[length++] = row
  }
  return chosen.subarray(0, length)
}

function rowsOf(
  columns: EventColumns,
  chosen: Uint32Array | null,
  properties: readonly BreakdownProperty[],
): TrendRows {
  const measured = columns.values[properties.length] ?? null
  let cells: Uint32Array | null = null
  let values: readonly CellValue[] = []
  for (const [index, property] of properties.entries()) {
    const column = columns.values[index]
    if (column === undefined) continue
    const texts = valueTexts(column, property, chosen, columns.count)
    const cellOfId = numbered(texts)
    const own = column.ids.map((id) => cellOfId.numbers[id] ?? 0)
    if (cells === null) {
      cells = own
      values = cellOfId.values.map((value) => [value])
      continue
    }
    // A pair is a combination of the values of the earlier properties, together with a value of this property.
    const pairs = new Map<number, number>()
    const before = values
    const combined: CellValue[] = [[]]
    const size = cellOfId.values.length
    for (let row = 0; row < own.length; row++) {
      const pair = (cells[row] ?? 0) * size + (own[row] ?? 0)
      cells[row] = getOrAdd(pairs, pair, () => {
        const value = before[Math.floor(pair / size)] ?? []
        return combined.push([...value, cellOfId.values[pair % size] ?? null]) - 1
      })
    }
    values = combined
  }
  return { columns, chosen, cells, values, measured }
}

/** Returns the text that each value of a column has in the answer. */
function valueTexts(
  { ids, values }: ValueColumn,
  property: BreakdownProperty,
  chosen: Uint32Array | null,
  count: number,
): readonly (string | null)[] {
  if (property.binCount === null) return values.map((value) => breakdownText(value, property))
  const numbers = values.map(readNumber)
  const isUsed = new Uint8Array(values.length)
  for (let position = 0; position < (chosen?.length ?? count); position++) {
    isUsed[ids[chosen === null ? position : (chosen[position] ?? 0)] ?? 0] = 1
  }
  return binTexts(
    numbers.map((number, id) => (isUsed[id] === 1 ? number : Number.NaN)),
    property.binCount,
  )
}

/**
 * Returns the bin of each number. All bins are equally wide, from the smallest number to the largest. NaN is in no bin.
 */
function binTexts(numbers: readonly number[], count: number): readonly (string | null)[] {
  let min = Number.POSITIVE_INFINITY
  let max = Number.NEGATIVE_INFINITY
  for (const number of numbers) {
    if (number < min) min = number
    if (number > max) max = number
  }
  const width = (max - min) / count
  const bound = (bin: number): number => (bin === count ? max + 0.01 : min + bin * width)
  return numbers.map((number) => {
    if (Number.isNaN(number)) return null
    let bin = width > 0 ? Math.min(count - 1, Math.floor((number - min) / width)) : count - 1
    while (bin > 0 && number < bound(bin)) bin--
    while (bin < count - 1 && number >= bound(bin + 1)) bin++
    return `[${bound(bin)},${bound(bin + 1)}]`
  })
}

/** Returns a test whether a number is in the bin that a text describes. Returns null if the text is not a bin. */
export function binTest(text: string): ((value: unknown) => boolean) | null {
  const [, lower, upper] = /^\[(-?[\d.e+-]+),(-?[\d.e+-]+)\]$/.exec(text) ?? []
  const [from, until] = [Number(lower), Number(upper)]
  if (Number.isNaN(from) || Number.isNaN(until)) return null
  return (value) => {
    const number = readNumber(value)
    return number >= from && number < until
  }
}

/** Gives each text a number from 1 on. Equal texts have the same number. */
function numbered(texts: readonly (string | null)[]): {
  readonly numbers: Uint32Array
  readonly values: readonly (string | null)[]
} {
  const known = new Map<string | null, number>()
  const values: (string | null)[] = [null]
  const numbers = Uint32Array.from(texts, (text) =>
    getOrAdd(known, text, () => values.push(text) - 1),
  )
  return { numbers, values }
}

/**
 * Returns the number of the actor of each row: a person, or a session or group from the measured values. Rows with the
 * number 0 are left out. All events without a session count as one session. Events without a group are left out.
 */
export function actorsOfRows(
  { columns, measured }: TrendRows,
  { measure }: Pick<TrendSeries, 'measure'>,
): Uint32Array {
  if (measure.of !== 'actors' || measure.actor === null || measured === null) return columns.persons
  const isSession = measure.actor.kind === 'event_property'
  const known = new Map<string, number>()
  const numbers = Uint32Array.from(measured.values, (value) => {
    const text = propertyText(value ?? '')
    return text === '' && !isSession ? 0 : getOrAdd(known, text, () => known.size + 1)
  })
  return measured.ids.map((id) => numbers[id] ?? 0)
}
