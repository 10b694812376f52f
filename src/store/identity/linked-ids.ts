/**
 * The distinct_ids of one person in the order of their links. The first eight are in the record of the person, and each
 * further one in a record of table `person_ids`. Ids can be added at both ends. A merge puts the ids of one person
 * before or after those of the other. The person with more ids keeps its stored rows unchanged.
 *
 *   index      0 ... 7   8 ...                                                        count - 1
 *              inline    front, reversed       stored rows           back
 *   position             firstPosition + index, modulo 2^32
 *
 * The ids in `front` and `back` wait for the next commit. The first id of a person has position 0 at the beginning. If
 * ids are later put before stored ones, the stored ids keep their positions, and the new first id gets an earlier
 * position: for three new ids, 2^32 - 3.
 */
import type { Table } from '../lmdb/environment.ts'
import { tripleKey } from '../lmdb/keys.ts'
import { store } from '../lmdb/records.ts'
import { INLINE_IDS_MAX, numberBytes, numbersOf } from './person-records.ts'

/** The number of positions. Positions wrap around: after the largest one comes 0. */
const POSITIONS = 2 ** 32
/** The number of bytes of memory that an id takes until the next commit, including its record. */
const PENDING_ID_BYTES = 96

/** Some rows of a person in table `person_ids` that follow each other. */
export interface StoredRows {
  /** The position of the id that is in the first row. */
  readonly start: number
  readonly count: number
}

const NO_ROWS: StoredRows = { start: 0, count: 0 }

/** The distinct ID numbers of a person, in the order of their links. Methods add ids at both ends. */
export class LinkedIds {
  #inline: number[]
  #count: number
  #firstPosition: number
  /**
   * The ids between `#inline` and the stored rows, in reverse order: the last element comes directly after the inline
   * ids.
   */
  #front: number[] = []
  #back: number[] = []
  #stored: StoredRows
  /** Rows that are stored but no longer belong to the person. The next commit removes them. */
  #outdated = NO_ROWS
  /** True if ids were added or removed since the last `store`. */
  areChanged = false

  /** Creates the ids of a stored person from its record. For a new person, `inline` are all its ids, at most eight. */
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

  /** The first eight ids, which are stored in the record of the person. */
  get inline(): readonly number[] {
    return this.#inline
  }

  /** The position of the first id; see the diagram at the top of this file. */
  get firstPosition(): number {
    return this.#firstPosition
  }

  /** The rows that are in the table now, including those that the next commit removes. */
  get rows(): StoredRows {
    return this.#outdated.count > 0 ? this.#outdated : this.#stored
  }

  /** The estimated number of bytes of memory of the ids that wait for the next commit. */
  get pendingBytes(): number {
    return (this.#front.length + this.#back.length) * PENDING_ID_BYTES
  }

  append(distinctId: number): void {
    if (this.#count < INLINE_IDS_MAX) this.#inline.push(distinctId)
    else this.#back.push(distinctId)
    this.#count++
    this.areChanged = true
  }

  /** Adds ids before all ids of the person. The cost depends only on the number of added ids. */
  prepend(distinctIds: readonly number[]): void {
    const added = distinctIds.length
    if (added === 0) return
    const ids = [...distinctIds, ...this.#inline]
    const hasRows = this.#count > INLINE_IDS_MAX
    this.#inline = ids.slice(0, INLINE_IDS_MAX)
    if (hasRows) this.#firstPosition = positionOf(this.#firstPosition, POSITIONS - added)
    // The ids in stored rows must keep their positions, so with stored rows the first id gets an earlier position.
    // Without stored rows, `#firstPosition` can stay as it is.
    for (let index = ids.length - 1; index >= INLINE_IDS_MAX; index--)
      this.#front.push(ids[index] ?? 0)
    this.#count += added
    this.areChanged = true
  }

  /** Removes all ids except one. The other ids must already belong to other persons. */
  keepOnly(distinctId: number): void {
    // If `keepOnly` was already called since the last commit, `#outdated` already contains all rows in the table,
    // because no rows were stored since then.
    if (this.#outdated.count === 0) this.#outdated = this.#stored
    this.#stored = NO_ROWS
    this.#inline = [distinctId]
    this.#front = []
    this.#back = []
    this.#count = 1
    this.#firstPosition = 0
    this.areChanged = true
  }

  /** Returns all ids in a new array. Throws `DamagedRecordError`. */
  all(table: Table, projectId: number, number: number): number[] {
    if (this.#count <= INLINE_IDS_MAX) return [...this.#inline]
    return [...this.inOrder(table, projectId, number)]
  }

  /** Yields all ids in order. No id may be added during the iteration. Throws `DamagedRecordError`. */
  *inOrder(table: Table, projectId: number, number: number): Generator<number> {
    yield* this.#inline
    for (let index = this.#front.length - 1; index >= 0; index--) yield this.#front[index] ?? 0
    const { start, count } = this.#stored
    if (count > 0) yield* rowsAt(table, projectId, number, start, count)
    yield* this.#back
  }

  /** Stores the changed rows. Call it only within a write transaction. */
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

/** Removes rows of a person. Call it only within a write transaction. */
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

/**
 * Yields the distinct ID numbers in `count` rows of a person, in order, beginning with the row at the position `start`.
 * Throws `DamagedRecordError`.
 */
export function* rowsAt(
  table: Table,
  projectId: number,
  number: number,
  start: number,
  count: number,
): Generator<number> {
  // Positions wrap around: the largest position is followed by 0.
  const untilEnd = Math.min(count, POSITIONS - start)
  const end = start + untilEnd
  yield* numbersOf(table, {
    start: tripleKey(projectId, number, start),
    end:
      end === POSITIONS ? tripleKey(projectId, number + 1, 0) : tripleKey(projectId, number, end),
  })
  if (untilEnd < count) yield* rowsAt(table, projectId, number, 0, count - untilEnd)
}

/** Returns the position of the id with the index `index` among the ids of a person. */
export function positionOf(firstPosition: number, index: number): number {
  return (firstPosition + index) % POSITIONS
}
