/**
 * The log that several machines share: a stream of messages, kept by a majority of brokers. What is in it, and in
 * which order, is the same for everybody. It may be forgotten as a whole: then there is another incarnation of it,
 * and edges send again what their outboxes hold.
 */

/** A message in the stream. */
export interface StreamMessage {
  /** From 1, without a gap, within an incarnation. */
  readonly sequence: number
  readonly data: Buffer
}

/** A place in the stream. */
export interface StreamPosition {
  /** '': none yet. */
  readonly incarnation: string
  readonly sequence: number
}

/** What a copy says about itself: of each edge, the place up to which everything is stored durably. */
export interface StoredPlaces {
  readonly replica: string
  readonly places: Readonly<Record<string, number>>
}

/** Told of what comes. */
export interface StreamListener {
  /** Where to go on; asked whenever following begins. */
  position(): StreamPosition
  /** Takes a message; the next one waits until it is resolved. */
  take(message: StreamMessage, incarnation: string): Promise<void> | void
}

/** The shared log, as one process sees it. It is there from the start, with or without brokers. */
export interface SharedLog {
  readonly isConnected: boolean
  /**
   * Resolves when a majority of brokers has the message. A message with an `id` that came some moments before is
   * not added again. Rejects after `timeoutMs`, or when there is no majority; the outcome is unknown then.
   */
  publish(data: Uint8Array, id: string, timeoutMs: number): Promise<void>
  /** Follows the stream until `close`. */
  follow(listener: StreamListener): void
  /** Calls when there is another incarnation, and for the first one. */
  onIncarnation(listener: () => void): void
  /** Tells everybody, at most once and without promise. */
  announce(stored: StoredPlaces): void
  onStored(listener: (stored: StoredPlaces) => void): void
  close(): Promise<void>
}
