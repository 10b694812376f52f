/**
 * Labels the rows of a scan: with the group that an event was sent with, or with the values of several columns at once.
 */
import { propertyText } from '../filters/property-text.ts'
import type { ValueColumn } from './event-columns.ts'

/** Combinations of texts, without duplicates. */
export interface ValueLabels {
  /** For each row, the position in `texts`. */
  readonly ids: Uint32Array
  /** The combinations. Each has one text for each column. */
  readonly texts: readonly (readonly string[])[]
}

/**
 * Combines the values of several columns into one label for each row. `textOf` turns a value into a text; it also
 * receives the position of the column, and is called once for each different value. The cost is linear in the rows.
 */
export function labelsOf(
  columns: readonly ValueColumn[],
  count: number,
  textOf: (value: unknown, column: number) => string,
): ValueLabels {
  let ids = new Uint32Array(count)
  let texts: readonly (readonly string[])[] = [[]]
  for (const [index, column] of columns.entries()) {
    const own = column.values.map((value) => textOf(value, index))
    // Different values may have the same text, such as the number 1 and the text `1`. They are one label.
    const numbers = new Map(own.map((text, id) => [text, id]))
    const numberOf = Uint32Array.from(own, (text) => numbers.get(text) ?? 0)
    const known = new Map<number, number>()
    const pairs: (readonly string[])[] = []
    const next = new Uint32Array(count)
    for (let row = 0; row < count; row++) {
      const left = ids[row] ?? 0
      const right = numberOf[column.ids[row] ?? 0] ?? 0
      const pair = left * own.length + right
      let id = known.get(pair)
      if (id === undefined) {
        id = pairs.push([...(texts[left] ?? []), own[right] ?? '']) - 1
        known.set(pair, id)
      }
      next[row] = id
    }
    ids = next
    texts = pairs
  }
  return { ids, texts }
}

/** Returns the group of each row as a position in `values`, or 0 if the event has no group key or an empty one. */
export function groupIds({ ids, values }: ValueColumn): Uint32Array {
  const isEmpty = values.map((value) => propertyText(value) === '')
  return isEmpty.lastIndexOf(true) <= 0 ? ids : ids.map((id) => (isEmpty[id] === true ? 0 : id))
}
