/**
 * Computes columns of values from other columns. Each different value, or combination of values, is processed once,
 * however many rows have it.
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { ValueColumn } from '../../analytics/event-columns.ts'

/** The largest number of combinations for which `paired` uses an array instead of a map. */
const COUNTED_IN_ARRAY = 1 << 20

/** Assigns numbers to values, from 1. Values that are equal as JSON get the same number. Undefined gets 0. */
export class Labels {
  readonly values: unknown[] = [undefined]
  readonly #ids = new Map<unknown, number>()

  idOf(value: unknown): number {
    if (value === undefined) return 0
    const isList = typeof value === 'object' && value !== null
    // No text value begins with this prefix, so the key of a list is never equal to a text value.
    const key = isList ? `\u0000${JSON.stringify(value)}` : value
    return getOrAdd(this.#ids, key, () => this.values.push(value) - 1)
  }
}

/** Returns a column in which `make` has replaced each value. If `make` returns undefined, the value is missing. */
export function relabeled(column: ValueColumn, make: (value: unknown) => unknown): ValueColumn {
  const labels = new Labels()
  const idOf = Uint32Array.from(column.values, (value) => labels.idOf(make(value)))
  const ids = new Uint32Array(column.ids.length)
  for (let index = 0; index < ids.length; index++) ids[index] = idOf[column.ids[index] ?? 0] ?? 0
  return { ids, values: labels.values }
}

/**
 * Returns a column that contains the result of `make` for each number below `size`. Undefined means a missing value.
 */
export function columnOf(size: number, make: (index: number) => unknown): ValueColumn {
  const labels = new Labels()
  const ids = new Uint32Array(size)
  for (let index = 0; index < size; index++) ids[index] = labels.idOf(make(index))
  return { ids, values: labels.values }
}

/** Returns one column whose values are lists. Each list contains the values of all columns for one row. */
export function combined(columns: readonly ValueColumn[]): ValueColumn {
  const [first, ...others] = columns
  if (first === undefined) return { ids: new Uint32Array(0), values: [] }
  let ids = first.ids
  let lists: (readonly unknown[])[] = first.values.map((value) => [value])
  for (const other of others) {
    const width = other.values.length
    // No row has a value in this column, so a missing value is appended to each list.
    if (width === 1) lists = lists.map((list) => [...list, undefined])
    else ({ ids, lists } = paired(ids, lists, other))
  }
  return { ids, values: lists }
}

function paired(ids: Uint32Array, lists: (readonly unknown[])[], other: ValueColumn) {
  const width = other.values.length
  const size = lists.length * width
  const array = size <= COUNTED_IN_ARRAY ? new Uint32Array(size) : null
  const map = new Map<number, number>()
  const found: (readonly unknown[])[] = []
  const combinations = new Uint32Array(ids.length)
  for (let row = 0; row < ids.length; row++) {
    const id = ids[row] ?? 0
    const otherId = other.ids[row] ?? 0
    const key = id * width + otherId
    // The number of the combination plus one, or 0 if the combination has no number yet.
    let number = (array === null ? map.get(key) : array[key]) ?? 0
    if (number === 0) {
      number = found.push([...(lists[id] ?? []), other.values[otherId]])
      if (array === null) map.set(key, number)
      else array[key] = number
    }
    combinations[row] = number - 1
  }
  return { ids: combinations, lists: found }
}
