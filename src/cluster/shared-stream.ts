/**
 * The streams of messages that several machines share. A majority of brokers stores each stream. All machines see the
 * same messages in the same order. The brokers may lose a whole stream. It then starts again as a new *incarnation*,
 * and the machines send their unprocessed data again.
 */

/** A message in a stream. */
export interface StreamMessage {
  /** The sequence number, from 1 in each incarnation. There are no gaps, except where older messages were deleted. */
  readonly sequence: number
  readonly data: Buffer
}

/** A position in a stream. */
export interface StreamPosition {
  /** The incarnation, or '' if no message was read yet. */
  readonly incarnation: string
  readonly sequence: number
}

/** Receives the messages of a stream. */
export interface StreamListener {
  /** Returns the position to continue from. Called whenever following starts. */
  position(): StreamPosition
  /** Takes a message. The next message waits until the promise resolves. */
  take(message: StreamMessage, incarnation: string): Promise<void> | void
}

/**
 * Says that a message was not added to the stream, because the stream already has a message after the sequence number
 * `expected`.
 */
export class OvertakenError extends Error {}

/** A stream, as one process sees it. The object exists from the start, with or without brokers. */
export interface SharedStream {
  /** The current incarnation of the stream, or '' while it is unknown. */
  readonly incarnation: string
  /**
   * The newest sequence number in the stream at the last check, or 0 before the first check. A check is made every
   * second.
   */
  readonly seen: number
  /**
   * Adds a message to the stream. Resolves with its sequence number when a majority of brokers has the message. If a
   * message with the same `id` was added shortly before, this one is not added again. Rejects with `OvertakenError` if
   * `expected` is not the newest sequence number. Also rejects after `timeoutMs`, or without a majority of brokers. It
   * is then unknown whether the message was added.
   */
  publish(data: Uint8Array, id: string, timeoutMs: number, expected?: number): Promise<number>
  /** Follows the stream until `close`. Call it once. */
  follow(listener: StreamListener): void
  /** Calls `listener` for the first incarnation, and for each new one. */
  onIncarnation(listener: () => void): void
  /** Returns the current state of the stream. Rejects without a majority of brokers. */
  state(): Promise<StreamState>
  /** Makes the brokers delete the messages before the sequence number `before`. */
  cut(before: number): Promise<void>
}

/** The state of a stream, as the brokers report it. */
export interface StreamState {
  readonly incarnation: string
  readonly first: number
  /** The sequence number of the newest message, or 0 if there was none yet. */
  readonly last: number
  readonly bytes: number
  /** The time of the oldest message, in milliseconds. Null: there is none. */
  readonly oldestMs: number | null
  /** The brokers that store the stream, the leader first. */
  readonly brokers: readonly {
    readonly name: string
    /** True if the broker has all messages that the other brokers have. */
    readonly isCurrent: boolean
  }[]
}

/** What a machine reports about itself to the others, every two seconds. */
export interface NodeReport {
  /** The partition that the machine stores. Null: it stores none; it only accepts events, and asks other machines. */
  readonly partition: number | null
  /** The partitions to which projects belong. */
  readonly partitions: readonly number[]
  /** The name of the machine, both as an edge and as a replica. */
  readonly replica: string
  readonly host: string
  /**
   * The edition of the data that the machine can read (older-machines.ts). An older machine that does not send its
   * edition has edition 0.
   */
  readonly edition?: number
  /** The position of the replica in the event stream. Before it has started: '' and 0. */
  readonly position: StreamPosition
  /** The number of messages that the replica has taken but not processed. */
  readonly waiting: number
  /** The number of blocks that the machine has accepted but that the brokers do not have. */
  readonly unsent: number
  /** The number of the newest catalogue change that the machine has applied. -1: none. */
  readonly control: number
  /**
   * `warehouse`: the name of the cluster's warehouse, or null. With a warehouse, the receipts of erasures wait until
   * the warehouse has erased the events, too. `isCopying`: whether this machine copies events to the warehouse.
   */
  readonly warehouse: string | null
  readonly isCopying: boolean
  /** The current problems of the machine, which its `/_health` shows too. */
  readonly troubles: readonly string[]
  /**
   * For each edge: the place (block-message.ts) up to which this machine has stored all blocks of that edge durably.
   */
  readonly places: Readonly<Record<string, number>>
}

/** Reports between machines. A report is delivered at most once, and may be lost. */
export interface Announcements {
  announce(report: NodeReport): void
  onReport(listener: (report: NodeReport) => void): void
}

/** The subject of a message, and the subject for its answer. */
export interface MessagePlace {
  readonly subject: string
  /** The subject to which an answer is sent. '': no answer is wanted. */
  readonly answerTo: string
}

/** Messages between machines. A message is delivered at most once. Messages of one sender keep their order. */
export interface Messages {
  /** The largest message that the brokers accept, in bytes. Null: no broker is connected. */
  readonly messageBytesMax: number | null
  /**
   * Sends a message to the listeners of a subject. Returns false if it was not sent, because no broker is connected.
   */
  send(subject: string, data: Uint8Array, answerTo?: string): boolean
  /**
   * Listens to a subject until the returned function is called. If `group` is given, only one listener of the group
   * gets each message. On a subject for answers, `data` is null if nobody listens to the subject to which the request
   * was sent.
   */
  listen(
    subject: string,
    on: (data: Buffer | null, place: MessagePlace) => void,
    group?: string,
  ): () => void
}
