/** What math computes of the numbers that the events of each person have. */

import { numberOf } from '../filters/property-filter.ts'
import { propertyText } from '../filters/property-text.ts'
import { largestPerson } from './actor-page.ts'
import { rowsByActor } from './actor-rows.ts'
import type { ValueColumn } from './event-columns.ts'

const QUANTILES: ReadonlyMap<string, number> = new Map([
  ['median', 0.5],
  ['p75', 0.75],
  ['p90', 0.9],
  ['p95', 0.95],
  ['p99', 0.99],
])
const COMBINED: Readonly<Record<string, (known: number, number: number) => number>> = {
  sum: (known, number) => known + number,
  avg: (known, number) => known + number,
  min: (known, number) => (number < known ? number : known),
  max: (known, number) => (number > known ? number : known),
}

/** How often each key below `size` occurs. Linear. */
export function countsOf(keys: Uint32Array, count: number, size: number): Uint32Array {
  const counts = new Uint32Array(size)
  for (let row = 0; row < count; row++) {
    const key = keys[row] ?? 0
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

/**
 * The aggregate for each P: `sum`, `avg`, `min`, `max`, or a quantile that interpolates linearly between
 * neighbours. `persons` has the P of each event. Numbers are read from text, too; NaN for a person without
 * any.
 */
export function aggregatesByPerson(
  persons: Uint32Array,
  count: number,
  { ids, values }: ValueColumn,
  math: string,
): Float64Array {
  const numbers = Float64Array.from(values, readNumber)
  const results = new Float64Array(largestPerson(persons, count) + 1).fill(Number.NaN)
  const combined = COMBINED[math]
  if (combined === undefined) {
    const { keys, starts, rows } = rowsByActor(persons, count)
    const gathered = new Float64Array(rows.length)
    for (const [place, row] of rows.entries())
      gathered[place] = numbers[ids[row] ?? 0] ?? Number.NaN
    for (const [actor, person] of keys.entries()) {
      const own = gathered.subarray(starts[actor], starts[actor + 1])
      results[person] = quantileOf(own.sort(), QUANTILES.get(math) ?? Number.NaN)
    }
    return results
  }
  const counts = new Uint32Array(results.length)
  for (let row = 0; row < count; row++) {
    const number = numbers[ids[row] ?? 0] ?? Number.NaN
    if (Number.isNaN(number)) continue
    const person = persons[row] ?? 0
    const known = counts[person] ?? 0
    results[person] = known === 0 ? number : combined(results[person] ?? 0, number)
    counts[person] = known + 1
  }
  return math === 'avg' ? results.map((sum, person) => sum / (counts[person] ?? 1)) : results
}

function readNumber(value: unknown): number {
  const number = typeof value === 'number' ? value : numberOf(propertyText(value))
  return Number.isFinite(number) ? number : Number.NaN
}

/** NaN stands behind all numbers and is none of them. */
function quantileOf(sorted: Float64Array, quantile: number): number {
  const firstNaN = sorted.findIndex(Number.isNaN)
  const place = quantile * ((firstNaN < 0 ? sorted.length : firstNaN) - 1)
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  return below + (above - below) * (place - Math.floor(place))
}
