/** What math computes of the numbers that the events of each person have. */

import { numberOf } from '../filters/property-filter.ts'
import { propertyText } from '../filters/property-text.ts'
import type { EventColumns, ValueColumn } from './event-columns.ts'

const QUANTILES: ReadonlyMap<string, number> = new Map([
  ['median', 0.5],
  ['p75', 0.75],
  ['p90', 0.9],
  ['p95', 0.95],
  ['p99', 0.99],
])

/**
 * The aggregate for each P below `size`: `sum`, `avg`, `min`, `max`, or a quantile that interpolates
 * linearly between neighbours. Numbers are read from text, too; NaN for a person without any.
 */
export function aggregatesByPerson(
  columns: EventColumns,
  values: ValueColumn,
  math: string,
  size: number,
): Float64Array {
  const numbers = Float64Array.from(values.values, readNumber)
  const quantile = QUANTILES.get(math)
  if (quantile !== undefined) return quantiles(columns, values.ids, numbers, quantile, size)
  return math === 'min' || math === 'max'
    ? extremes(columns, values.ids, numbers, math === 'max', size)
    : sums(columns, values.ids, numbers, math === 'avg', size)
}

function readNumber(value: unknown): number {
  const number = typeof value === 'number' ? value : numberOf(propertyText(value))
  return Number.isFinite(number) ? number : Number.NaN
}

function sums(
  { count, persons }: EventColumns,
  ids: Uint32Array,
  numbers: Float64Array,
  isAverage: boolean,
  size: number,
): Float64Array {
  const results = new Float64Array(size).fill(Number.NaN)
  const counts = new Uint32Array(size)
  for (let row = 0; row < count; row++) {
    const number = numbers[ids[row] ?? 0] ?? Number.NaN
    if (Number.isNaN(number)) continue
    const person = persons[row] ?? 0
    const known = counts[person] ?? 0
    results[person] = known === 0 ? number : (results[person] ?? 0) + number
    counts[person] = known + 1
  }
  if (!isAverage) return results
  for (let person = 0; person < size; person++) {
    results[person] = (results[person] ?? 0) / (counts[person] ?? 1)
  }
  return results
}

function extremes(
  { count, persons }: EventColumns,
  ids: Uint32Array,
  numbers: Float64Array,
  isMaximum: boolean,
  size: number,
): Float64Array {
  const results = new Float64Array(size).fill(Number.NaN)
  for (let row = 0; row < count; row++) {
    const number = numbers[ids[row] ?? 0] ?? Number.NaN
    if (Number.isNaN(number)) continue
    const person = persons[row] ?? 0
    const known = results[person] ?? Number.NaN
    const isBeyond = isMaximum ? number > known : number < known
    if (isBeyond || Number.isNaN(known)) results[person] = number
  }
  return results
}

/** The numbers of each person side by side, in one list for all. */
function quantiles(
  { count, persons }: EventColumns,
  ids: Uint32Array,
  numbers: Float64Array,
  quantile: number,
  size: number,
): Float64Array {
  const ends = new Uint32Array(size + 1)
  for (let row = 0; row < count; row++) {
    if (Number.isNaN(numbers[ids[row] ?? 0] ?? Number.NaN)) continue
    const next = (persons[row] ?? 0) + 1
    ends[next] = (ends[next] ?? 0) + 1
  }
  for (let person = 1; person <= size; person++) {
    ends[person] = (ends[person] ?? 0) + (ends[person - 1] ?? 0)
  }
  const sorted = new Float64Array(ends[size] ?? 0)
  const starts = ends.slice()
  for (let row = 0; row < count; row++) {
    const number = numbers[ids[row] ?? 0] ?? Number.NaN
    if (Number.isNaN(number)) continue
    const person = persons[row] ?? 0
    const place = starts[person] ?? 0
    sorted[place] = number
    starts[person] = place + 1
  }
  const results = new Float64Array(size).fill(Number.NaN)
  for (let person = 0; person < size; person++) {
    const own = sorted.subarray(ends[person] ?? 0, ends[person + 1] ?? 0)
    if (own.length > 0) results[person] = quantileOf(own.sort(), quantile)
  }
  return results
}

function quantileOf(sorted: Float64Array, quantile: number): number {
  const place = quantile * (sorted.length - 1)
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  return below + (above - below) * (place - Math.floor(place))
}
