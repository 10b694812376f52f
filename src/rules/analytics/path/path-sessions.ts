/**
 * The paths of one person: consecutive events that are split into sessions, and the test whether a session follows the
 * requested path. Source: docs/compatibility/analytics.md, "Paths".
 */
import { type ItemTable, NO_ITEM } from './path-items.ts'
import type { PathParameters } from './path-shapes.ts'

/** Two events that are this far apart, or farther, belong to different sessions. */
const SESSION_GAP_MS = 30 * 60_000
const FOLD = '...'

/**
 * The start point, the end point and the step limit by which a session is cut to a path. The points are texts of items.
 */
export type PathCut = Pick<PathParameters, 'startPoint' | 'endPoint'> & {
  readonly stepLimit: number
}

/**
 * The items that a path must have at certain positions. A key such as `2_/about` gives a position, counted from 1, and
 * an item. If `dropOffKey` is set, `startKey` and `endKey` are ignored.
 */
export type PathKeys = Pick<PathParameters, 'startKey' | 'endKey' | 'dropOffKey'>

/** A requested key, with the number of its item in the `ItemTable`. An item that no event has gets a number too. */
interface PathKey {
  readonly position: number
  readonly item: number
}

/**
 * The events of persons. `rows` contains the rows of each person in the order of time. `items` and `timesMs` are
 * indexed by row.
 */
export interface PathEvents {
  readonly rows: Uint32Array
  readonly items: Int32Array
  readonly timesMs: Float64Array
}

/** Walks over the paths of a person. One walker is used for all persons, one after the other. */
export class PathWalker {
  readonly #startPoint: number | null
  readonly #endPoint: number | null
  readonly #stepLimit: number
  readonly #empty: number
  readonly #fold: number
  /**
   * The items of the current session. Only the first `#count` entries are valid; later ones are left from longer
   * sessions.
   */
  readonly #session: number[] = []
  /**
   * For each item of `#session`, the time of its last event in milliseconds. Consecutive events with the same item are
   * one item.
   */
  readonly #sessionMs: number[] = []
  #count = 0
  #length = 0
  /**
   * The index in the session at which the path begins. If a path with a start point and an end point is longer than the
   * step limit, one step replaces the items in the middle. With the limit 4, for example, a path of 10 items becomes 2
   * items, `...` for 6 items, and 2 items. `#foldAt` is then 2, the index of the step `...`, and `#folded` is 5, the
   * number of steps by which the path became shorter.
   */
  #first = 0
  #foldAt = Number.POSITIVE_INFINITY
  #folded = 0

  constructor({ startPoint, endPoint, stepLimit }: PathCut, table: ItemTable) {
    this.#startPoint = startPoint === null ? null : table.numberOf(startPoint)
    this.#endPoint = endPoint === null ? null : table.numberOf(endPoint)
    this.#stepLimit = stepLimit
    this.#empty = table.numberOf('')
    this.#fold = table.numberOf(FOLD)
  }

  /** The number of steps of the current path. */
  get length(): number {
    return this.#length
  }

  /** Returns the item of a step, counted from 0. Returns `NO_ITEM` outside of the path. */
  itemAt(step: number): number {
    if (step < 0 || step >= this.#length) return NO_ITEM
    return step === this.#foldAt ? this.#fold : (this.#session[this.#placeOf(step)] ?? NO_ITEM)
  }

  /** Returns the time of a step of the path, counted from 0, in milliseconds. */
  timeMsAt(step: number): number {
    return this.#sessionMs[this.#placeOf(step)] ?? 0
  }

  /**
   * Calls `visit` for each path of a person's events, in order, until `visit` returns true. Returns whether `visit`
   * returned true.
   */
  walk(events: PathEvents, start: number, end: number, visit: () => boolean): boolean {
    const { rows, items, timesMs } = events
    let count = 0
    let last = NO_ITEM
    let previousMs = 0
    for (let place = start; place < end; place++) {
      const row = rows[place] ?? 0
      const item = items[row] ?? NO_ITEM
      if (item === NO_ITEM) continue
      const timeMs = timesMs[row] ?? 0
      if (count > 0 && timeMs - previousMs >= SESSION_GAP_MS) {
        if (this.#isShown(count, visit)) return true
        count = 0
        last = NO_ITEM
      }
      previousMs = timeMs
      if (item !== last) this.#session[count++] = item
      this.#sessionMs[count - 1] = timeMs
      last = item
    }
    return count > 0 && this.#isShown(count, visit)
  }

  #isShown(count: number, visit: () => boolean): boolean {
    this.#count = this.#session[count - 1] === this.#empty ? count - 1 : count
    this.#cut()
    return this.#length > 0 && visit()
  }

  #placeOf(step: number): number {
    return this.#first + step + (step > this.#foldAt ? this.#folded : 0)
  }

  /** Returns the index of the first occurrence of an item at or after `from`, or -1. */
  #find(item: number, from: number): number {
    for (let place = from; place < this.#count; place++) {
      if (this.#session[place] === item) return place
    }
    return -1
  }

  #cut(): void {
    const startPoint = this.#startPoint
    const endPoint = this.#endPoint
    const limit = this.#stepLimit
    this.#length = 0
    this.#foldAt = Number.POSITIVE_INFINITY
    const start = startPoint === null ? 0 : this.#find(startPoint, 0)
    if (start < 0) return
    this.#first = start
    if (endPoint === null) {
      this.#length = Math.min(limit, this.#count - start)
      return
    }
    const end = this.#find(endPoint, startPoint === null ? 0 : start + 1)
    if (end < 0) return
    const length = end + 1 - start
    if (length <= limit) {
      this.#length = length
    } else if (startPoint === null) {
      this.#first = end + 1 - limit
      this.#length = limit
    } else {
      const half = Math.floor(limit / 2)
      this.#foldAt = half
      this.#length = 2 * half + 1
      this.#folded = length - this.#length
    }
  }
}

/** Tests which paths follow the requested keys. */
export class PathFinder {
  readonly #walker: PathWalker
  readonly #startKey: PathKey | null
  readonly #endKey: PathKey | null
  readonly #dropOffKey: PathKey | null
  readonly #isWanted: () => boolean

  constructor({ startKey, endKey, dropOffKey, ...cut }: PathKeys & PathCut, table: ItemTable) {
    this.#walker = new PathWalker(cut, table)
    this.#startKey = readKey(startKey, table)
    this.#endKey = readKey(endKey, table)
    this.#dropOffKey = readKey(dropOffKey, table)
    this.#isWanted = () => this.#goesTheWay()
  }

  /** Returns whether one of the sessions of a person's events follows the requested keys. */
  hasPath(events: PathEvents, start: number, end: number): boolean {
    return this.#walker.walk(events, start, end, this.#isWanted)
  }

  /** Returns the number of a person's sessions that follow the requested keys. */
  countPaths(events: PathEvents, start: number, end: number): number {
    let count = 0
    this.#walker.walk(events, start, end, () => {
      if (this.#goesTheWay()) count++
      return false
    })
    return count
  }

  #goesTheWay(): boolean {
    const path = this.#walker
    const dropOff = this.#dropOffKey
    if (dropOff !== null) {
      return path.length === dropOff.position && path.itemAt(path.length - 1) === dropOff.item
    }
    const startKey = this.#startKey
    const endKey = this.#endKey
    if (endKey !== null && path.itemAt(endKey.position - 1) !== endKey.item) return false
    if (startKey === null) return true
    if (endKey !== null && endKey.position !== startKey.position + 1) return false
    return path.itemAt(startKey.position - 1) === startKey.item && path.length > startKey.position
  }
}

/** Reads a key. A text without the form of a key becomes a key with position 0, which no path has. */
function readKey(text: string | null, table: ItemTable): PathKey | null {
  if (text === null) return null
  const [, position = '0', item = ''] = /^([1-9][0-9]{0,5})_([\s\S]*)$/.exec(text) ?? []
  return { position: Number(position), item: table.numberOf(item) }
}
