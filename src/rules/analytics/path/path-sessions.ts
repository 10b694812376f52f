/**
 * Paths of one person: events one behind the other, cut into sessions, and whether one of them goes the
 * way that is asked for. Source: docs/compatibility/analytics.md, "Paths".
 */
import { type ItemTable, NO_ITEM } from './path-items.ts'
import type { PathParameters } from './path-shapes.ts'

/** A gap of this length ends a session. */
const SESSION_GAP_MS = 30 * 60_000
const FOLD = '...'

/**
 * How sessions are cut, by items as their texts, and what is asked for: keys of the form `2_/about`, a
 * position from 1 and an item. With `dropOffKey` the other two do not count.
 */
export type PathWish = Pick<
  PathParameters,
  'startPoint' | 'endPoint' | 'startKey' | 'endKey' | 'dropOffKey'
> & { readonly stepLimit: number }

/** A key; an item that does not occur has a number too. */
interface PathKey {
  readonly position: number
  readonly item: number
}

/** Tests the paths of one person after the other. */
export class PathFinder {
  readonly #startPoint: number | null
  readonly #endPoint: number | null
  readonly #stepLimit: number
  readonly #startKey: PathKey | null
  readonly #endKey: PathKey | null
  readonly #dropOffKey: PathKey | null
  readonly #empty: number
  readonly #fold: number
  /** Items of the session at hand. */
  readonly #session: number[] = []

  constructor(wish: PathWish, table: ItemTable) {
    const { startPoint, endPoint } = wish
    this.#startPoint = startPoint === null ? null : table.numberOf(startPoint)
    this.#endPoint = endPoint === null ? null : table.numberOf(endPoint)
    this.#stepLimit = wish.stepLimit
    this.#startKey = readKey(wish.startKey, table)
    this.#endKey = readKey(wish.endKey, table)
    this.#dropOffKey = readKey(wish.dropOffKey, table)
    this.#empty = table.numberOf('')
    this.#fold = table.numberOf(FOLD)
  }

  /** Whether one of the sessions of a person's events, in order, goes the way that is asked for. */
  hasPath(
    rows: Uint32Array,
    start: number,
    end: number,
    items: Int32Array,
    timesMs: Float64Array,
  ): boolean {
    const session = this.#session
    session.length = 0
    let previousMs = 0
    for (let place = start; place < end; place++) {
      const row = rows[place] ?? 0
      const item = items[row] ?? NO_ITEM
      if (item === NO_ITEM) continue
      const timeMs = timesMs[row] ?? 0
      if (session.length > 0 && timeMs - previousMs >= SESSION_GAP_MS) {
        if (this.#isWanted()) return true
        session.length = 0
      }
      previousMs = timeMs
      if (session.at(-1) !== item) session.push(item)
    }
    return session.length > 0 && this.#isWanted()
  }

  #isWanted(): boolean {
    const path = this.#cutSession()
    if (path.length === 0) return false
    const dropOff = this.#dropOffKey
    if (dropOff !== null) {
      return path.length === dropOff.position && path.at(-1) === dropOff.item
    }
    const startKey = this.#startKey
    const endKey = this.#endKey
    if (endKey !== null && path[endKey.position - 1] !== endKey.item) return false
    if (startKey === null) return true
    if (endKey !== null && endKey.position !== startKey.position + 1) return false
    return path[startKey.position - 1] === startKey.item && path.length > startKey.position
  }

  #cutSession(): readonly number[] {
    const session = this.#session
    if (session.at(-1) === this.#empty) session.pop()
    const startPoint = this.#startPoint
    const endPoint = this.#endPoint
    const limit = this.#stepLimit
    const start = startPoint === null ? 0 : session.indexOf(startPoint)
    if (start < 0) return []
    if (endPoint === null) return session.slice(start, start + limit)
    const end = session.indexOf(endPoint, startPoint === null ? 0 : start + 1)
    if (end < 0) return []
    const path = session.slice(start, end + 1)
    if (path.length <= limit) return path
    if (startPoint === null) return path.slice(-limit)
    const half = Math.floor(limit / 2)
    return [...path.slice(0, half), this.#fold, ...path.slice(path.length - half)]
  }
}

/** A text that is no key is one that nobody has. */
function readKey(text: string | null, table: ItemTable): PathKey | null {
  if (text === null) return null
  const [, position = '0', item = ''] = /^([1-9][0-9]{0,5})_([\s\S]*)$/.exec(text) ?? []
  return { position: Number(position), item: table.numberOf(item) }
}
