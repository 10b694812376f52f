/**
 * The catalogue (organization, projects, keys, roles, flags, audit) as a sequence of write sets, so that several
 * machines can have the same copy. A write set is everything that one transaction of the store wrote: each key with its
 * value. Copies that apply the same write sets in the same order contain the same bytes. The code that orders the write
 * sets treats each one as bytes and knows nothing about tables and keys.
 */

/** One change in a write set: a key of a table gets a new value, or is removed. */
export interface Write {
  readonly table: string
  readonly key: Uint8Array
  /** The new value of the key, or null if the key is removed. */
  readonly value: Uint8Array | null
}

/** Everything that one transaction wrote, in the order in which it was written. */
export type WriteSet = readonly Write[]

/** The position of a copy in the sequence of write sets: the last write set that the copy has applied. */
export interface ChangePlace {
  /**
   * The name of the sequence, or '' before the first write set. If the brokers lose the whole sequence, a new one with
   * a new name begins.
   */
  readonly incarnation: string
  /**
   * The sequence number of the last applied write set in this incarnation. Sequence numbers start at 1 and grow, with
   * gaps.
   */
  readonly sequence: number
  /** The number of write sets that led to the content of this copy, in all incarnations together. */
  readonly number: number
}

/** The writes that a transaction has decided on but not yet made. */
export interface Proposal {
  /**
   * The position of this machine's copy when the transaction read it. The writes are right only if the copy is still at
   * this position.
   */
  readonly place: ChangePlace
  /** The write set that all copies apply. */
  readonly changes: Uint8Array
  /** Writes of the same transaction that only this machine applies, such as console sessions and login codes. */
  readonly local: Uint8Array
}

/** A write set with its position in the sequence. */
export interface PlacedChanges {
  readonly place: ChangePlace
  readonly changes: Uint8Array
  /** The writes that only the machine that proposed the set applies (`Proposal.local`). Null on all other machines. */
  readonly local: Uint8Array | null
}

/** The whole content of a copy, as write sets of limited size. */
export interface WholeCopy {
  readonly place: ChangePlace
  readonly parts: readonly Uint8Array[]
}

/** One copy of the catalogue, as the code that orders write sets uses it. */
export interface CatalogueCopy {
  /**
   * Applies a write set durably. A set that was applied before is skipped. Throws if an earlier set is missing. Throws
   * `OperatorError` if the operator must do something before the copy can continue.
   */
  apply(set: PlacedChanges): void | Promise<void>
  /** Replaces the content of this copy durably by `whole`. Throws `OperatorError` as `apply` does. */
  replace(whole: WholeCopy): void | Promise<void>
  /** Returns the content of this copy at one moment. */
  whole(): WholeCopy | Promise<WholeCopy>
}

/** Orders the write sets that the copies propose. */
export interface ChangeLog {
  /**
   * Gives a proposal its position in the sequence, and resolves with the result of the transaction once this copy has
   * applied the proposal. If another machine changed the catalogue first, it calls `again`, which runs the transaction
   * again on the current content. Rejects with any error of `again`, or with the `ServiceError`
   * `control_not_replicated`. After that error, the change may still be made later.
   */
  commit<T>(first: Decided<T>, again: () => Promise<Decided<T>>): Promise<T>
}

/**
 * The result of a transaction, and the writes that it proposes to all copies. `proposal` is null if there is nothing to
 * replicate.
 */
export interface Decided<T> {
  readonly result: T
  readonly proposal: Proposal | null
}
