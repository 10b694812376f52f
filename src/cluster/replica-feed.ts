/**
 * Follows the shared log for the replica in this process. It takes messages from the stream, skips blocks that the
 * replica already has, passes the others to the processing thread, and tracks which of these are stored durably.
 */
import { BroadcastChannel } from 'node:worker_threads'
import type { Logger } from '../base/log.ts'
import type { LogOrigin } from '../ports/log.ts'
import { numberOf, readHead } from './block-message.ts'
import { BEGIN, BEGUN, type HandedMessage } from './handed-log.ts'
import { FOLLOWED_BYTES_MAX } from './limits.ts'
import type { SharedStream, StreamMessage, StreamPosition } from './shared-stream.ts'

/** What a `ReplicaFeed` needs from its node. */
export interface ReplicaFeedOptions {
  readonly shared: SharedStream
  readonly channel: string
  readonly logger: Logger
  /**
   * The position in the stream, and for each edge the place (block-message.ts) of its newest block, as the store has
   * recorded them together with its events. Null: the store has followed no stream yet.
   */
  readonly origin: LogOrigin | null
  /** The number of the newest block that the store has processed. */
  readonly position: number
  /**
   * Called when a further block was passed to the processing thread, with the number of the block, and with the bytes
   * and events that were passed.
   */
  readonly onBlock: (number: number, bytes: number, events: number) => void
}

interface Waiting {
  readonly message: HandedMessage
  readonly edge: string
  /** The places (block-message.ts) of those blocks in the message that must be processed. */
  readonly places: readonly number[]
}

/** Passes the shared log to one replica. */
export class ReplicaFeed {
  readonly #options: ReplicaFeedOptions
  readonly #channel: BroadcastChannel
  /** The messages that were passed to the processing thread and whose processing is not confirmed yet, oldest first. */
  #waiting: Waiting[] = []
  #waitingBytes = 0
  #last: number
  /** The position of the last message that was taken from the stream. */
  position: StreamPosition
  /**
   * For each edge: the place of the newest block that was passed on (`#handed`), and of the newest one that is stored
   * (`#stored`).
   */
  readonly #handed: Map<string, number>
  readonly #stored: Map<string, number>
  /** For each edge of which blocks are missing: a sentence about the missing blocks. */
  readonly #lacking = new Map<string, string>()
  #onRoom: (() => void) | null = null
  #trouble: string | null = null
  #isNews = true

  constructor(options: ReplicaFeedOptions) {
    this.#options = options
    const { channel, origin, position, shared } = options
    this.#last = position
    this.position = { incarnation: origin?.incarnation ?? '', sequence: origin?.sequence ?? 0 }
    this.#handed = new Map(Object.entries(origin?.places ?? {}))
    this.#stored = new Map(this.#handed)
    this.#channel = new BroadcastChannel(channel)
    this.#channel.unref()
    this.#channel.onmessage = ({ data }: { readonly data?: unknown }) => {
      if (data !== BEGIN) return
      this.#channel.postMessage(BEGUN)
      for (const { message } of this.#waiting) this.#channel.postMessage(message)
    }
    shared.follow({
      position: () => this.position,
      take: (message, incarnation) => this.#take(message, incarnation),
    })
  }

  /** The reason why this replica cannot continue, as a sentence. Null: nothing is wrong. */
  get trouble(): string | null {
    return this.#trouble ?? [...this.#lacking.values()][0] ?? null
  }

  /** The number of messages that wait to be processed. */
  get waitingCount(): number {
    return this.#waiting.length
  }

  /** For each edge: the place (block-message.ts) up to which all its blocks are stored durably here. */
  get places(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#stored)
  }

  /** The sequence number up to which the messages of the stream are stored durably. */
  get storedSequence(): number {
    const [oldest] = this.#waiting
    return oldest === undefined ? this.position.sequence : oldest.message.sequence - 1
  }

  /** Returns true if further blocks were stored since the last call. */
  takeNews(): boolean {
    const isNews = this.#isNews
    this.#isNews = false
    return isNews
  }

  /** Must be called when everything up to block `through` is stored durably. */
  processed(through: number): void {
    let count = 0
    for (const { message, edge, places } of this.#waiting) {
      const place = places[through - message.first] ?? places.at(-1)
      if (through < message.first || place === undefined) break
      this.#stored.set(edge, place)
      if (through < message.first + places.length - 1) break
      this.#waitingBytes -= message.data.length
      count++
    }
    if (count === 0) return
    this.#waiting.splice(0, count)
    this.#isNews = true
    if (this.#waitingBytes <= FOLLOWED_BYTES_MAX) this.#onRoom?.()
  }

  close(): void {
    this.#channel.close()
    this.#onRoom?.()
  }

  async #take({ sequence, data }: StreamMessage, incarnation: string): Promise<void> {
    if (this.#trouble !== null) return
    const { edge, blocks } = readHead(data)
    const after = this.#handed.get(edge) ?? 0
    const fresh = blocks.filter(({ place }) => place > after)
    const [first] = fresh
    if (first !== undefined && numberOf(first.place) > numberOf(after) + 1) {
      this.#lack(edge, numberOf(after), numberOf(first.place))
      const isLost =
        this.position.incarnation === incarnation && sequence <= this.position.sequence + 1
      // If the brokers have lost messages, the edge sends them again, so the replica waits for them. Messages that the
      // stream has removed because of their age, or from before this replica existed, never come again, so the replica
      // stops.
      if (!isLost || after === 0) this.#trouble = this.trouble
      else this.position = { incarnation, sequence }
      return
    }
    if (first !== undefined) this.#lacking.delete(edge)
    this.position = { incarnation, sequence }
    const places = fresh.map(({ place }) => place)
    const newest = places.at(-1)
    if (newest === undefined) return
    this.#handed.set(edge, newest)
    const skipped = blocks.length - fresh.length
    const message = { first: this.#last + 1, skipped, incarnation, sequence, data }
    this.#last += fresh.length
    this.#waiting.push({ message, edge, places })
    this.#waitingBytes += data.length
    this.#channel.postMessage(message)
    const bytes = fresh.reduce((sum, block) => sum + block.bytes, 0)
    const events = fresh.reduce((sum, block) => sum + block.events, 0)
    this.#options.onBlock(this.#last, bytes, events)
    if (this.#waitingBytes <= FOLLOWED_BYTES_MAX) return
    await new Promise<void>((resolve) => {
      this.#onRoom = resolve
    })
    this.#onRoom = null
  }

  /**
   * Records that blocks of an edge are missing. If the brokers have lost these blocks, the edge sends them again, as
   * long as its outbox has them.
   */
  #lack(edge: string, has: number, comes: number): void {
    if (this.#lacking.has(edge)) return
    this.#lacking.set(edge, `This replica lacks blocks ${has + 1} to ${comes - 1} of edge ${edge}.`)
    this.#options.logger.error(
      { edge, has, comes },
      'This replica lacks blocks that should have come first. If they do not arrive soon, restore a newer backup of another replica.',
    )
  }
}
