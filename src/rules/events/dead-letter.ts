/**
 * An event, or a block of the log, that could not be processed. Shapes only: the store keeps them.
 */

/** What else the log knew about an event. */
export interface DeadLetterOrigin {
  /** RECORD_* bits of the record. */
  readonly flags: number
  readonly arrivedAtMs: number
  /** NaN when the client gave no send time. */
  readonly sentAtMs: number
  /** '' where the project stores no addresses. */
  readonly address: string
  /** 16 bytes; null when the client gave none. */
  readonly uuid: Uint8Array | null
}

/** How many letters there are. */
export interface DeadLetterCounts {
  readonly count: number
  readonly bytes: number
  /** Given up for the limits since the last call. */
  readonly forgotten: number
}

/** An event, or a whole block, that could not be processed. */
export interface DeadLetter {
  /** 0 when the project is not known. */
  readonly projectId: number
  /** Where it failed: `read` or `process`. */
  readonly step: string
  /** What was thrown. */
  readonly reason: string
  /** What was accepted. */
  readonly raw: Uint8Array
  readonly origin?: DeadLetterOrigin
}

/** A dead letter as it was stored. */
export interface StoredDeadLetter extends Omit<DeadLetter, 'origin'> {
  readonly number: number
  readonly storedAtMs: number
  /** Null for blocks, commands, and letters of old versions. */
  readonly origin: DeadLetterOrigin | null
}
