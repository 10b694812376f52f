/**
 * What several machines share: streams of messages, kept by a majority of brokers. What is in a stream, and in
 * which order, is the same for everybody. It may be forgotten as a whole: then there is another incarnation of it,
 * and whoever has something sends it again.
 */

/** A message in a stream. */
export interface StreamMessage {
  /** From 1, within an incarnation; without a gap but where the stream was cut. */
  readonly sequence: number
  readonly data: Buffer
}

/** A place in a stream. */
export interface StreamPosition {
  /** '': none yet. */
  readonly incarnation: string
  readonly sequence: number
}

/** Told of what comes. */
export interface StreamListener {
  /** Where to go on; asked whenever following begins. */
  position(): StreamPosition
  /** Takes a message; the next one waits until it is resolved. */
  take(message: StreamMessage, incarnation: string): Promise<void> | void
}

/** The message is not in the stream: another one has the place behind the one that was expected. */
export class OvertakenError extends Error {}

/** A stream, as one process sees it. It is there from the start, with or without brokers. */
export interface SharedStream {
  /** '' while it is not known. */
  readonly incarnation: string
  /** The newest sequence that was seen when it was looked last, every second; 0 before. */
  readonly seen: number
  /**
   * Resolves with its sequence when a majority of brokers has the message. A message with an `id` that came some
   * moments before is not added again. Rejects with `OvertakenError` when `expected` is not the newest sequence; and
   * after `timeoutMs`, or when there is no majority: the outcome is unknown then.
   */
  publish(data: Uint8Array, id: string, timeoutMs: number, expected?: number): Promise<number>
  /** Follows the stream until the end; once. */
  follow(listener: StreamListener): void
  /** Calls when there is another incarnation, and for the first one. */
  onIncarnation(listener: () => void): void
  /** How the stream is now. Rejects without a majority of brokers. */
  state(): Promise<StreamState>
  /** Lets the brokers forget the messages before that one. */
  cut(before: number): Promise<void>
}

/** A stream, now. */
export interface StreamState {
  readonly incarnation: string
  readonly first: number
  /** The newest; 0 before there was one. */
  readonly last: number
  readonly bytes: number
  /** When the oldest message came, milliseconds; null: there is none. */
  readonly oldestMs: number | null
  /** The brokers that keep it, the one that leads it first. */
  readonly brokers: readonly {
    readonly name: string
    /** It has what the others have. */
    readonly isCurrent: boolean
  }[]
}

/** What a machine says about itself. */
export interface NodeReport {
  /** The partition that it stores; null: none, it accepts and asks. */
  readonly partition: number | null
  /** Those that projects belong to. */
  readonly partitions: readonly number[]
  /** Its name as an edge and as a replica. */
  readonly replica: string
  readonly host: string
  /** Where it reads the stream of events; '' and 0 before it began. */
  readonly position: StreamPosition
  /** Messages that it has taken and not processed. */
  readonly waiting: number
  /** Blocks that it has accepted and the brokers do not have. */
  readonly unsent: number
  /** The newest change of the catalogue that it has made; -1: none. */
  readonly control: number
  /** The warehouse that receipts of erasures wait for, null: none; and whether this machine copies to it. */
  readonly warehouse: string | null
  readonly isCopying: boolean
  /** As `/_health` tells them. */
  readonly troubles: readonly string[]
  /** Of each edge, the place up to which everything is stored durably here. */
  readonly places: Readonly<Record<string, number>>
}

/** What machines tell each other besides: at most once and without promise. */
export interface Announcements {
  announce(report: NodeReport): void
  onReport(listener: (report: NodeReport) => void): void
}

/** Where a message comes from, and where its answer is wanted. */
export interface MessagePlace {
  readonly subject: string
  /** '': no answer is wanted. */
  readonly answerTo: string
}

/** Messages between machines, at most once each, in the order of who sends them. */
export interface Messages {
  /** Bytes that one may have; null: no broker is connected. */
  readonly messageBytesMax: number | null
  /** Sends one to whoever listens to the subject. False: it is not sent, because no broker is connected. */
  send(subject: string, data: Uint8Array, answerTo?: string): boolean
  /**
   * Listens until what it answers is called; of a `group` one member gets each. Null: nobody listens where the answer
   * was to come from.
   */
  listen(
    subject: string,
    on: (data: Buffer | null, place: MessagePlace) => void,
    group?: string,
  ): () => void
}
