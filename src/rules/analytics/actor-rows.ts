/**
 * Groups the rows of a scan by actor with a counting sort, and then orders the rows of each actor by time. This is far
 * less work than sorting all rows by time.
 */
import { largestPerson } from './actor-page.ts'
import type { EventColumns, EventScanner } from './event-columns.ts'

/**
 * The insertion sort of an actor's rows stops early if it moves rows by more than this number of positions on average.
 */
const SHIFTS_A_ROW = 16
/** The number of actors that the loop goes through between two checks of the query's time limit. */
const CHECK_EVERY = 4096

/**
 * The rows of a scan, grouped by actor. The rows of actor i are `rows[starts[i]]` up to, but not including,
 * `rows[starts[i + 1]]`.
 */
export interface ActorRows {
  /** The key of each actor (a person number, or the position of a value), ascending and without duplicates. */
  readonly keys: Uint32Array
  /** The index in `rows` of the first row of each actor. It has one entry more than `keys`. */
  readonly starts: Uint32Array
  /**
   * Positions in the scan. The rows of each actor are in the order of the scan until `orderRows` sorts them by time.
   */
  readonly rows: Uint32Array
}

/**
 * Groups rows by key. Rows with the key 0 belong to nobody and are left out. `order` lists the rows to take and their
 * order; null means all rows in the order of the scan. `isLeftOut` marks keys whose rows are left out. The cost is
 * linear in the rows and in the largest key.
 */
export function rowsByActor(
  keyOfRow: Uint32Array,
  count: number,
  order: Uint32Array | null = null,
  isLeftOut: (key: number) => boolean = keepsAll,
): ActorRows {
  const length = order === null ? count : order.length
  const largest = largestPerson(keyOfRow, count)
  // For each key: first the number of its rows, later the next free index in `rows` plus one.
  const places = new Uint32Array(largest + 1)
  for (let position = 0; position < length; position++) {
    const key = keyOfRow[order === null ? position : (order[position] ?? 0)] ?? 0
    places[key] = (places[key] ?? 0) + 1
  }
  let actors = 0
  for (let key = 1; key <= largest; key++) {
    if (places[key] === 0) continue
    if (isLeftOut(key)) places[key] = 0
    else actors++
  }
  const keys = new Uint32Array(actors)
  const starts = new Uint32Array(actors + 1)
  let next = 0
  let actor = 0
  for (let key = 1; key <= largest; key++) {
    const rowCount = places[key] ?? 0
    if (rowCount === 0) continue
    keys[actor] = key
    starts[actor++] = next
    // One is added because 0 marks a key whose rows are left out.
    places[key] = next + 1
    next += rowCount
  }
  starts[actor] = next
  const rows = new Uint32Array(next)
  places[0] = 0
  for (let position = 0; position < length; position++) {
    const row = order === null ? position : (order[position] ?? 0)
    const key = keyOfRow[row] ?? 0
    const place = places[key] ?? 0
    if (place === 0) continue
    rows[place - 1] = row
    places[key] = place + 1
  }
  return { keys, starts, rows }
}

function keepsAll(): boolean {
  return false
}

/**
 * Splits the rows of actors by a second key, such as a breakdown value. An actor then occurs once for each of its
 * second keys, in the order of these keys. The rows of each part keep their order in `rows`; rows without a key are
 * left out. The cost is linear in the rows and in the largest keys.
 */
export function splitActors(
  rows: Uint32Array,
  keyOfRow: Uint32Array,
  secondKeyOfRow: Uint32Array,
  count: number,
): ActorRows {
  // Both sorts are stable. Sorting by the second key and then by actor makes the rows of each part adjacent.
  const bySecondKey = rowsByActor(secondKeyOfRow, count, rows)
  const actors = rowsByActor(keyOfRow, count, bySecondKey.rows)
  const keys: number[] = []
  const starts: number[] = []
  for (let actor = 0; actor < actors.keys.length; actor++) {
    let secondKey = 0
    const end = actors.starts[actor + 1] ?? 0
    for (let place = actors.starts[actor] ?? 0; place < end; place++) {
      const secondKeyHere = secondKeyOfRow[actors.rows[place] ?? 0] ?? 0
      if (secondKeyHere === secondKey) continue
      secondKey = secondKeyHere
      keys.push(actors.keys[actor] ?? 0)
      starts.push(place)
    }
  }
  starts.push(actors.rows.length)
  return { keys: Uint32Array.from(keys), starts: Uint32Array.from(starts), rows: actors.rows }
}

/**
 * Orders the rows of each actor by time; equal times are in the order of arrival. The cost is linear as long as the
 * rows are nearly in order.
 */
export function orderRows(
  { keys, starts, rows }: ActorRows,
  columns: Pick<EventColumns, 'timesMs' | 'sequences'>,
  limits: Pick<EventScanner, 'checkLimits'>,
): void {
  const { timesMs, sequences } = columns
  for (let actor = 0; actor < keys.length; actor++) {
    if (actor % CHECK_EVERY === 0) limits.checkLimits()
    const start = starts[actor] ?? 0
    const end = starts[actor + 1] ?? 0
    if (insertionSort(rows, start, end, columns)) continue
    rows
      .subarray(start, end)
      .sort(
        (a, b) =>
          (timesMs[a] ?? 0) - (timesMs[b] ?? 0) || (sequences[a] ?? 0) - (sequences[b] ?? 0),
      )
  }
}

/**
 * Sorts the rows of one actor by time. Returns false if it gives up because the rows are far from sorted; the rows are
 * then in any order.
 */
function insertionSort(
  rows: Uint32Array,
  start: number,
  end: number,
  { timesMs, sequences }: Pick<EventColumns, 'timesMs' | 'sequences'>,
): boolean {
  let shiftsLeft = (end - start) * SHIFTS_A_ROW
  for (let index = start + 1; index < end; index++) {
    const row = rows[index] ?? 0
    const time = timesMs[row] ?? 0
    let place = index
    while (place > start) {
      const before = rows[place - 1] ?? 0
      const timeBefore = timesMs[before] ?? 0
      if (timeBefore < time) break
      if (timeBefore === time && (sequences[before] ?? 0) < (sequences[row] ?? 0)) break
      rows[place--] = before
      if (--shiftsLeft < 0) {
        rows[place] = row
        return false
      }
    }
    rows[place] = row
  }
  return true
}

/**
 * The times (in milliseconds) and the series masks of rows. Entry i of both lists belongs to row i of the given rows.
 */
export interface GatheredRows {
  readonly timesMs: Float64Array
  readonly masks: Uint32Array
}

/** Copies the columns that the algorithms read, so that the rows of an actor are adjacent. */
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
