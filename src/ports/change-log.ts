/**
 * The catalogue (organization, projects, keys, roles, flags, audit) as a sequence of write sets, so that several
 * copies can be the same. A write set is what one transaction of the store wrote: every key with its value. The
 * copies that take the same sets in the same order hold the same bytes.
 */

/** One write. */
export interface Write {
  readonly table: string
  readonly key: Uint8Array
  /** Null: the key is removed. */
  readonly value: Uint8Array | null
}

/** What one transaction wrote, in order. */
export type WriteSet = readonly Write[]

/** Told of each write set that follows, in order, with its number. */
export type ChangeListener = (number: number, changes: WriteSet) => void

/** Ends a following. */
export interface Following {
  close(): void
}

/** The sequence, as one copy sees it. */
export interface ChangeLog {
  /** Number of the newest write set; 0 before the first. */
  newest(): number
  /**
   * Adds a write set durably and answers its number, or null when `expected` is not the newest: somebody else
   * was first, so take their changes and decide again.
   */
  commit(expected: number, changes: WriteSet): Promise<number | null>
  /**
   * Tells of every write set behind number `after`: those that are there at once, later ones when they come. Null
   * when some of them are not kept any more: the copy has to be made anew.
   */
  follow(after: number, listener: ChangeListener): Following | null
}
