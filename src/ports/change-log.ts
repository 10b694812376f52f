/**
 * The catalogue (organization, projects, keys, roles, flags, audit) as a sequence of write sets, so that several
 * machines can hold the same copy. A write set is everything that one transaction of the store wrote: each key with its
 * value. Copies that apply the same write sets in the same order hold the same bytes. The code that orders write sets
 * knows neither tables nor keys: to that code, a write set is bytes.
 */

/** One write of a key. */
export interface Write {
  readonly table: string
  readonly key: Uint8Array
  /** The new value, or null if the key is removed. */
  readonly value: Uint8Array | null
}

/** Everything that one transaction wrote, in order. */
export type WriteSet = readonly Write[]

/** The state of a copy, as a position in the sequence of write sets. */
export interface ChangePlace {
  /**
   * The incarnation of the sequence; '' before the first write set. If the brokers lose the whole sequence, a new
   * incarnation begins.
   */
  readonly incarnation: string
  /** The sequence number in this incarnation. It starts at 1 and grows, with gaps. */
  readonly sequence: number
  /** The number of write sets that led to this copy, over all incarnations. */
  readonly number: number
}

/** The writes that a transaction has decided on but not yet made. */
export interface Proposal {
  /** The state of the copy that the decision is based on. */
  readonly place: ChangePlace
  /** The write set for all copies. */
  readonly changes: Uint8Array
  /** Further writes, for this machine only. */
  readonly local: Uint8Array
}

/** A write set with its position in the sequence. */
export interface PlacedChanges {
  readonly place: ChangePlace
  readonly changes: Uint8Array
  /** The further writes for the machine that proposed the set. Null on all other machines. */
  readonly local: Uint8Array | null
}

/** The whole content of a copy, in write sets of bounded size. */
export interface WholeCopy {
  readonly place: ChangePlace
  readonly parts: readonly Uint8Array[]
}

/** One copy of the catalogue. */
export interface CatalogueCopy {
  /** Applies a write set durably. Skips a set that was applied before. Throws if an earlier set is missing. */
  apply(set: PlacedChanges): void | Promise<void>
  /** Replaces the content of this copy durably by the content of `whole`. */
  replace(whole: WholeCopy): void | Promise<void>
  /** Returns the content of this copy at one moment. */
  whole(): WholeCopy | Promise<WholeCopy>
}

/** Orders the write sets that the copies propose. */
export interface ChangeLog {
  /**
   * Gives a proposal its position, and resolves with the result of the decision once this copy has applied it. If
   * another machine changed the catalogue first, `again` decides anew on the current content. Rejects with any error of
   * `again`, or with the `ServiceError` `control_not_replicated`; after that error the change may still be made.
   */
  commit<T>(first: Decided<T>, again: () => Promise<Decided<T>>): Promise<T>
}

/** The result of a transaction and the writes that it proposes. `proposal` is null if there is nothing to replicate. */
export interface Decided<T> {
  readonly result: T
  readonly proposal: Proposal | null
}
