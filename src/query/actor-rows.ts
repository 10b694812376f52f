/**
 * The rows of a scan gathered by actor: a counting sort, which keeps the order in time within each actor.
 */
import type { EventColumns } from './event-columns.ts'

/** Rows by actor: those of actor i are `rows[starts[i]]` up to, but not including, `rows[starts[i + 1]]`. */
export interface ActorRows {
  /** The key of each actor (P, or the position of a value), ascending, each once. */
  readonly keys: Uint32Array
  /** One longer than `keys`. */
  readonly starts: Uint32Array
  /** Positions in the scan; in time order for each actor. */
  readonly rows: Uint32Array
}

/**
 * Gathers rows by key; rows with the key 0 belong to nobody and are left out. `order` names the rows to
 * take and their order; null: all, as they come. Cost: linear in the rows and in the largest key.
 */
export function rowsByActor(
  keyOfRow: Uint32Array,
  count: number,
  order: Uint32Array | null = null,
): ActorRows {
  const length = order === null ? count : order.length
  let largest = 0
  for (let row = 0; row < count; row++) {
    const key = keyOfRow[row] ?? 0
    if (key > largest) largest = key
  }
  // Counts first, then where the rows of a key go next.
  const places = new Uint32Array(largest + 1)
  for (let position = 0; position < length; position++) {
    const key = keyOfRow[order === null ? position : (order[position] ?? 0)] ?? 0
    places[key] = (places[key] ?? 0) + 1
  }
  let actors = 0
  for (let key = 1; key <= largest; key++) if (places[key] !== 0) actors++
  const keys = new Uint32Array(actors)
  const starts = new Uint32Array(actors + 1)
  let next = 0
  let actor = 0
  for (let key = 1; key <= largest; key++) {
    const rowCount = places[key] ?? 0
    if (rowCount === 0) continue
    keys[actor] = key
    starts[actor++] = next
    places[key] = next
    next += rowCount
  }
  starts[actor] = next
  const rows = new Uint32Array(next)
  for (let position = 0; position < length; position++) {
    const row = order === null ? position : (order[position] ?? 0)
    const key = keyOfRow[row] ?? 0
    if (key === 0) continue
    const place = places[key] ?? 0
    rows[place] = row
    places[key] = place + 1
  }
  return { keys, starts, rows }
}

/** Times (milliseconds) and series masks of rows, side by side in their order. */
export interface GatheredRows {
  readonly timesMs: Float64Array
  readonly masks: Uint32Array
}

/** Copies what the algorithms look at, so that the rows of an actor lie side by side. */
export function gatherRows(
  { timesMs, seriesMasks }: EventColumns,
  rows: Uint32Array,
): GatheredRows {
  const times = new Float64Array(rows.length)
  const masks = new Uint32Array(rows.length)
  for (let position = 0; position < rows.length; position++) {
    const row = rows[position] ?? 0
    times[position] = timesMs[row] ?? 0
    masks[position] = seriesMasks[row] ?? 0
  }
  return { timesMs: times, masks }
}
