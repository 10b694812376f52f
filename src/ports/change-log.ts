/**
 * The catalogue (organization, projects, keys, roles, flags, audit) as a sequence of write sets, so that several
 * copies can be the same. A write set is what one transaction of the store wrote: every key with its value. The
 * copies that take the same sets in the same order hold the same bytes. Whoever orders them knows neither tables
 * nor keys: a set is bytes to them.
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

/** Where a copy stands. */
export interface ChangePlace {
  /** Of the sequence; '' before the first. It may be forgotten as a whole, and then there is another. */
  readonly incarnation: string
  /** In this incarnation; from 1, growing, with gaps. */
  readonly sequence: number
  /** Write sets that led to the copy, over all incarnations. */
  readonly number: number
}

/** What a transaction has decided and not written. */
export interface Proposal {
  /** What it was decided by. */
  readonly place: ChangePlace
  /** A write set for all copies. */
  readonly changes: Uint8Array
  /** What it would write besides, on this machine alone. */
  readonly local: Uint8Array
}

/** A write set that has its place. */
export interface PlacedChanges {
  readonly place: ChangePlace
  readonly changes: Uint8Array
  /** Of who proposed it. */
  readonly local: Uint8Array | null
}

/** All that a copy holds, in write sets of bounded size. */
export interface WholeCopy {
  readonly place: ChangePlace
  readonly parts: readonly Uint8Array[]
}

/** One copy. */
export interface CatalogueCopy {
  /** Takes a write set durably; one that it has is left out. Throws when a set before it is missing. */
  apply(set: PlacedChanges): void | Promise<void>
  /** Holds what the parts say, and nothing else, durably. */
  replace(whole: WholeCopy): void | Promise<void>
  /** The state of one moment. */
  whole(): WholeCopy | Promise<WholeCopy>
}

/** Orders what copies propose. */
export interface ChangeLog {
  /**
   * Gives a proposal its place, and answers what was decided when this copy has applied it. Where others were
   * first, `again` decides on what is there now. Rejects with what `again` does, and with the `ServiceError`
   * `control_not_replicated`; the change may be made nevertheless then.
   */
  commit<T>(first: Decided<T>, again: () => Promise<Decided<T>>): Promise<T>
}

/** What a transaction answered, and what it would write; null: nothing that others must know. */
export interface Decided<T> {
  readonly result: T
  readonly proposal: Proposal | null
}
