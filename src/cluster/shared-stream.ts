/**
 * The streams of messages that several machines share. A majority of brokers stores them. The content and order of a
 * stream are the same for all machines. The brokers may lose a stream as a whole. It then starts as another
 * incarnation, and the machines send their unprocessed data again.
 */

/** A message in a stream. */
export interface StreamMessage {
  /** The sequence number, from 1 in each incarnation. There are no gaps, except where the stream was cut. */
  readonly sequence: number
  readonly data: Buffer
}

/** A position in a stream. */
export interface StreamPosition {
  /** The incarnation. '': none yet. */
  readonly incarnation: string
  readonly sequence: number
}

/** Receives the messages of a stream. */
export interface StreamListener {
  /** Returns the position to continue from. Called whenever following starts. */
  position(): StreamPosition
  /** Takes a message. The next one waits until the promise resolves. */
  take(message: StreamMessage, incarnation: string): Promise<void> | void
}

/** The message is not in the stream, because another one has the sequence number after the expected one. */
export class OvertakenError extends Error {}

/** A stream, as one process sees it. The object exists from the start, with or without brokers. */
export interface SharedStream {
  /** The incarnation, or '' while it is unknown. */
  readonly incarnation: string
  /** The newest sequence number at the last check, which is made every second; 0 before. */
  readonly seen: number
  /**
   * Resolves with the sequence number when a majority of brokers has the message. A message whose `id` was used shortly
   * before is not added again. Rejects with `OvertakenError` if `expected` is not the newest sequence number. Also
   * rejects after `timeoutMs`, or without a majority; the outcome is then unknown.
   */
  publish(data: Uint8Array, id: string, timeoutMs: number, expected?: number): Promise<number>
  /** Follows the stream until `close`. Call it once. */
  follow(listener: StreamListener): void
  /** Calls `listener` for the first incarnation, and for each new one. */
  onIncarnation(listener: () => void): void
  /** Returns the current state of the stream. Rejects without a majority of brokers. */
  state(): Promise<StreamState>
  /** Makes the brokers drop the messages before this sequence number. */
  cut(before: number): Promise<void>
}

/** The state of a stream. */
export interface StreamState {
  readonly incarnation: string
  readonly first: number
  /** The newest sequence number; 0 before the first message. */
  readonly last: number
  readonly bytes: number
  /** The time of the oldest message, in milliseconds. Null: there is none. */
  readonly oldestMs: number | null
  /** The brokers that store it, the leader first. */
  readonly brokers: readonly {
    readonly name: string
    /** True if the broker has everything that the others have. */
    readonly isCurrent: boolean
  }[]
}

/** The report of a machine about itself. */
export interface NodeReport {
  /** The partition that it stores. Null: none; it accepts events and asks other machines. */
  readonly partition: number | null
  /** The partitions that projects belong to. */
  readonly partitions: readonly number[]
  /** The name of the machine, both as an edge and as a replica. */
  readonly replica: string
  readonly host: string
  /** Its position in the event stream; '' and 0 before it started. */
  readonly position: StreamPosition
  /** The number of messages that it has taken but not processed. */
  readonly waiting: number
  /** The number of blocks that it has accepted but that the brokers do not have. */
  readonly unsent: number
  /** The number of the newest change of the catalogue that it has applied; -1: none. */
  readonly control: number
  /** The warehouse that receipts of erasures wait for, or null; and whether this machine copies events to it. */
  readonly warehouse: string | null
  readonly isCopying: boolean
  /** The troubles as in `/_health`. */
  readonly troubles: readonly string[]
  /** For each edge: the place up to which everything is stored durably here. */
  readonly places: Readonly<Record<string, number>>
}

/** Reports between machines. Each is delivered at most once, and may be lost. */
export interface Announcements {
  announce(report: NodeReport): void
  onReport(listener: (report: NodeReport) => void): void
}

/** The subject of a message, and the subject for its answer. */
export interface MessagePlace {
  readonly subject: string
  /** The subject for the answer. '': no answer is wanted. */
  readonly answerTo: string
}

/** Messages between machines. Each is delivered at most once; messages of one sender keep their order. */
export interface Messages {
  /** The largest message in bytes. Null: no broker is connected. */
  readonly messageBytesMax: number | null
  /**
   * Sends a message to the listeners of a subject. Returns false if it was not sent, because no broker is connected.
   */
  send(subject: string, data: Uint8Array, answerTo?: string): boolean
  /**
   * Listens until the returned function is called. In a `group`, one member gets each message. The data is null if
   * nobody listens at the subject that the answer should come from.
   */
  listen(
    subject: string,
    on: (data: Buffer | null, place: MessagePlace) => void,
    group?: string,
  ): () => void
}
