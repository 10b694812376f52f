/**
 * The result of one part of a query about an experiment: a row of numbers for each exposed person, stored as parallel
 * lists.
 */
import { inOwnMemory } from '../../analytics/growing-arrays.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'

/** A list of numbers. */
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** The exposed persons or groups, one row for each. It is plain data that may cross threads. */
export interface PersonRows {
  readonly persons: Uint32Array
  /** See `SEVERAL_VARIANTS` of exposed-persons.ts. */
  readonly variants: Uint8Array
  /** The columns of the query, such as the values of a metric. */
  readonly columns: readonly Numbers[]
  /** The time of the latest first exposure, in milliseconds. 0 if nobody is exposed. */
  readonly latestMs: number
  /** The number of exposures without a group. 0 if persons are counted. */
  readonly ungrouped: number
}

/**
 * Returns the numbers in the smallest integer type that holds all of them. If any of them is not a whole number from 0
 * to 2^32 - 1, returns the given list itself.
 */
export function compacted(numbers: Float64Array): Numbers {
  let largest = 0
  for (let row = 0; row < numbers.length; row++) {
    const number = numbers[row] ?? 0
    if (!(number >= 0 && number <= 0xffff_ffff && Number.isInteger(number))) return numbers
    if (number > largest) largest = number
  }
  if (largest <= 0xff) return new Uint8Array(numbers)
  return largest <= 0xffff ? new Uint16Array(numbers) : new Uint32Array(numbers)
}

/** Marks all lists of a part as safe to transfer. A part for another thread is then transferred and not copied. */
export function inOwnRows(rows: PersonRows): PersonRows {
  const { persons, variants, columns } = rows
  return {
    ...rows,
    persons: inOwnMemory(persons),
    variants: inOwnMemory(variants),
    columns: columns.map((column) => inOwnMemory(column)),
  }
}

/** Returns the rows of all parts. Throws the same errors as `EventScanner.checkLimits`. */
export function mergedRows(parts: readonly PersonRows[], limits: QueryLimits): PersonRows {
  const [first] = parts
  if (first !== undefined && parts.length === 1) return first
  const pace = new PacedLimits(limits)
  for (const { persons } of parts) pace.count(persons.length)
  const columnsOf = (column: number): Numbers => joined(parts.map((part) => part.columns[column]))
  return {
    persons: joined(parts.map(({ persons }) => persons)) as Uint32Array,
    variants: joined(parts.map(({ variants }) => variants)) as Uint8Array,
    columns: (first?.columns ?? []).map((_, column) => columnsOf(column)),
    latestMs: Math.max(0, ...parts.map(({ latestMs }) => latestMs)),
    ungrouped: parts.reduce((sum, { ungrouped }) => sum + ungrouped, 0),
  }
}

/**
 * Returns the rows without the rows of some persons. `marks` contains 1 at the person number of each person to leave
 * out. Throws the same errors as `EventScanner.checkLimits`.
 */
export function rowsWithout(rows: PersonRows, marks: Uint8Array, limits: QueryLimits): PersonRows {
  const { persons, variants, columns } = rows
  new PacedLimits(limits).count(persons.length)
  const kept = (_: number, row: number): boolean => marks[persons[row] ?? 0] !== 1
  return {
    ...rows,
    persons: persons.filter(kept),
    variants: variants.filter(kept),
    columns: columns.map((column) => column.filter(kept)),
  }
}

/** Concatenates lists, using the widest of their types. */
function joined(lists: readonly (Numbers | undefined)[]): Numbers {
  const given = lists.filter((list) => list !== undefined)
  const length = given.reduce((sum, list) => sum + list.length, 0)
  const width = Math.max(1, ...given.map((list) => list.BYTES_PER_ELEMENT))
  const all = emptyOf(width, length)
  let place = 0
  for (const list of given) {
    all.set(list, place)
    place += list.length
  }
  return inOwnMemory(all)
}

function emptyOf(width: number, length: number): Numbers {
  if (width === 1) return new Uint8Array(length)
  if (width === 2) return new Uint16Array(length)
  return width === 4 ? new Uint32Array(length) : new Float64Array(length)
}
