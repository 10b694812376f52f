/**
 * The distinct_ids of one person in the order of their links. The first eight stand in the person's own record, each
 * further one in a record of table `person_ids`. Ids are added at both ends: a merge puts the ids of the smaller
 * person before or behind those of the larger one, which stay where they are.
 *
 * ```
 * index     0 ... 7   8 ...                                   count - 1
 *           inline    front, reversed    stored rows          back
 * position            firstPosition + index, modulo 2^32
 * ```
 *
 * `front` and `back` wait for the next commit. Positions are 0 for the first id of a person until ids are put before
 * stored ones: then the first id gets an earlier position, and all others keep theirs.
 */
import type { Table } from '../lmdb/environment.ts'
import { tripleKey } from '../lmdb/keys.ts'
import { store } from '../lmdb/records.ts'
import { INLINE_IDS_MAX, numberBytes, numbersOf } from './person-records.ts'

/** How many positions there are. */
const POSITIONS = 2 ** 32
/** Memory of an id that waits for the next commit, with its record. */
const PENDING_ID_BYTES = 96

/** Rows of a person in table `person_ids`. */
export interface StoredRows {
  /** Position of the first row. */
  readonly start: number
  readonly count: number
}

const NO_ROWS: StoredRows = { start: 0, count: 0 }

/** D of a person. */
export class LinkedIds {
  #inline: number[]
  #count: number
  #firstPosition: number
  /** The last element is the first id behind the inline ones. */
  #front: number[] = []
  #back: number[] = []
  #stored: StoredRows
  /** Rows that are stored and no longer those of the person. */
  #outdated = NO_ROWS
  /** Whether ids were added or removed since they were stored. */
  areChanged = false

  /** The ids of a person as its record has them; or of one that is not stored yet, with up to eight ids. */
  constructor(inline: number[], count = inline.length, firstPosition = 0) {
    this.#inline = inline
    this.#count = count
    this.#firstPosition = firstPosition
    const rows = Math.max(0, count - INLINE_IDS_MAX)
    this.#stored =
      rows === 0 ? NO_ROWS : { start: positionOf(firstPosition, INLINE_IDS_MAX), count: rows }
  }

  get count(): number {
    return this.#count
  }

  /** The first eight. */
  get inline(): readonly number[] {
    return this.#inline
  }

  /** The position of the first id. */
  get firstPosition(): number {
    return this.#firstPosition
  }

  /** The rows that are in the table now. */
  get rows(): StoredRows {
    return this.#outdated.count > 0 ? this.#outdated : this.#stored
  }

  /** Bytes of memory, estimated, of what waits for the next commit. */
  get pendingBytes(): number {
    return (this.#front.length + this.#back.length) * PENDING_ID_BYTES
  }

  append(distinctId: number): void {
    if (this.#count < INLINE_IDS_MAX) this.#inline.push(distinctId)
    else this.#back.push(distinctId)
    this.#count++
    this.areChanged = true
  }

  /** Puts ids before all others. Cost: linear in their number. */
  prepend(distinctIds: readonly number[]): void {
    const added = distinctIds.length
    if (added === 0) return
    const ids = [...distinctIds, ...this.#inline]
    const hasRows = this.#count > INLINE_IDS_MAX
    this.#inline = ids.slice(0, INLINE_IDS_MAX)
    if (hasRows) this.#firstPosition = positionOf(this.#firstPosition, POSITIONS - added)
    // Without rows there is no position that has to stay.
    for (let index = ids.length - 1; index >= INLINE_IDS_MAX; index--)
      this.#front.push(ids[index] ?? 0)
    this.#count += added
    this.areChanged = true
  }

  /** Leaves one id; the others have been given to somebody else. */
  keepOnly(distinctId: number): void {
    // What was outdated before is still in the table, and nothing else is.
    if (this.#outdated.count === 0) this.#outdated = this.#stored
    this.#stored = NO_ROWS
    this.#inline = [distinctId]
    this.#front = []
    this.#back = []
    this.#count = 1
    this.#firstPosition = 0
    this.areChanged = true
  }

  /** All ids, in an array of its own. Throws `DamagedRecordError`. */
  all(table: Table, projectId: number, number: number): number[] {
    if (this.#count <= INLINE_IDS_MAX) return [...this.#inline]
    return [...this.inOrder(table, projectId, number)]
  }

  /** All ids one by one, while none is added. Throws `DamagedRecordError`. */
  *inOrder(table: Table, projectId: number, number: number): Generator<number> {
    yield* this.#inline
    for (let index = this.#front.length - 1; index >= 0; index--) yield this.#front[index] ?? 0
    const { start, count } = this.#stored
    if (count > 0) yield* rowsAt(table, projectId, number, start, count)
    yield* this.#back
  }

  /** Stores the rows that have changed. Only in a write transaction. */
  store(table: Table, projectId: number, number: number): void {
    if (this.#outdated.count > 0) {
      removeRows(table, projectId, number, this.#outdated)
      this.#outdated = NO_ROWS
    }
    const added = this.#front.length + this.#back.length
    if (added > 0) {
      let index = INLINE_IDS_MAX
      const put = (id: number): void => {
        const key = tripleKey(projectId, number, positionOf(this.#firstPosition, index++))
        store(table, key, numberBytes(id))
      }
      for (let at = this.#front.length - 1; at >= 0; at--) put(this.#front[at] ?? 0)
      index += this.#stored.count
      for (const id of this.#back) put(id)
      const start = positionOf(this.#firstPosition, INLINE_IDS_MAX)
      this.#stored = { start, count: this.#stored.count + added }
      this.#front = []
      this.#back = []
    }
    this.areChanged = false
  }
}

/** Removes rows of a person. Only in a write transaction. */
export function removeRows(
  table: Table,
  projectId: number,
  number: number,
  { start, count }: StoredRows,
): void {
  for (let index = 0; index < count; index++) {
    void table.remove(tripleKey(projectId, number, positionOf(start, index)))
  }
}

/** D of `count` rows of a person in order, from a position on. Throws `DamagedRecordError`. */
export function* rowsAt(
  table: Table,
  projectId: number,
  number: number,
  start: number,
  count: number,
): Generator<number> {
  // Behind the last position comes the first one.
  const untilEnd = Math.min(count, POSITIONS - start)
  const end = start + untilEnd
  yield* numbersOf(table, {
    start: tripleKey(projectId, number, start),
    end:
      end === POSITIONS ? tripleKey(projectId, number + 1, 0) : tripleKey(projectId, number, end),
  })
  if (untilEnd < count) yield* rowsAt(table, projectId, number, 0, count - untilEnd)
}

/** The position of an id by its index. */
export function positionOf(firstPosition: number, index: number): number {
  return (firstPosition + index) % POSITIONS
}
