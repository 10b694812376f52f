/**
 * Computes one number for each person from the numbers in the events of the person, such as their sum, mean or median.
 */

import { numberOf } from '../filters/property-filter.ts'
import { propertyText } from '../filters/property-text.ts'
import { largestPerson } from './actor-page.ts'
import type { ValueColumn } from './event-columns.ts'

const QUANTILES: ReadonlyMap<string, number> = new Map([
  ['median', 0.5],
  ['p75', 0.75],
  ['p90', 0.9],
  ['p95', 0.95],
  ['p99', 0.99],
])

/** Counts the occurrences of each key below `size`. The cost is linear. */
export function countsOf(keys: Uint32Array, count: number, size: number): Uint32Array {
  const counts = new Uint32Array(size)
  for (let row = 0; row < count; row++) {
    const key = keys[row] ?? 0
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

/**
 * Returns the aggregate for each person number: `sum`, `avg`, `min`, `max`, or a quantile that is interpolated linearly
 * between neighbors. `persons` contains the person number of each event. A text that contains a number counts as this
 * number. The aggregate of a person without numbers is NaN.
 */
export function aggregatesByPerson(
  persons: Uint32Array,
  count: number,
  { ids, values }: ValueColumn,
  math: string,
): Float64Array {
  const numbers = Float64Array.from(values, readNumber)
  const results = new Float64Array(largestPerson(persons, count) + 1).fill(Number.NaN)
  const quantile = QUANTILES.get(math)
  if (quantile !== undefined) {
    // The numbers of all persons in one list, in which the numbers of each person are adjacent.
    const gathered = new Float64Array(count)
    const ends = countsOf(persons, count, results.length)
    for (let person = 0, start = 0; person < ends.length; person++) {
      const own = ends[person] ?? 0
      ends[person] = start
      start += own
    }
    for (let row = 0; row < count; row++) {
      const person = persons[row] ?? 0
      const place = ends[person] ?? 0
      gathered[place] = numbers[ids[row] ?? 0] ?? Number.NaN
      ends[person] = place + 1
    }
    for (let person = 1; person < ends.length; person++) {
      const own = gathered.subarray(ends[person - 1], ends[person])
      if (own.length > 0) results[person] = quantileOf(own.sort(), quantile)
    }
    return results
  }
  const counts = new Uint32Array(results.length)
  const isExtreme = math === 'min' || math === 'max'
  const isMaximum = math === 'max'
  for (let row = 0; row < count; row++) {
    const number = numbers[ids[row] ?? 0] ?? Number.NaN
    if (Number.isNaN(number)) continue
    const person = persons[row] ?? 0
    const before = results[person] ?? Number.NaN
    const known = counts[person] ?? 0
    counts[person] = known + 1
    if (known === 0) results[person] = number
    else if (!isExtreme) results[person] = before + number
    else if (isMaximum ? number > before : number < before) results[person] = number
  }
  if (math !== 'avg') return results
  for (let person = 0; person < results.length; person++) {
    results[person] = (results[person] ?? 0) / (counts[person] ?? 1)
  }
  return results
}

/** Returns a value that is a number, or the number in a text, ignoring spaces. Returns NaN for any other value. */
export function readNumber(value: unknown): number {
  const number = typeof value === 'number' ? value : numberOf(propertyText(value))
  return Number.isFinite(number) ? number : Number.NaN
}

/**
 * Returns the quantile of sorted numbers, interpolated between neighbors. NaN comes after all numbers and does not
 * count. Returns NaN if there are no numbers.
 */
export function quantileOf(sorted: Float64Array, quantile: number): number {
  let count = sorted.length
  while (count > 0 && Number.isNaN(sorted[count - 1])) count--
  const place = quantile * (count - 1)
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  return below + (above - below) * (place - Math.floor(place))
}
