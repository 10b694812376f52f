/**
 * The shared log as the processing thread reads it. The main thread takes messages from the stream and passes them on
 * through a channel. If a processing thread ends, the messages that it has not processed are passed to the next thread
 * again.
 */
import { BroadcastChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { LogExtent, LogOrigin, LogReader } from '../ports/log.ts'
import { readBlocks, readHead } from './block-message.ts'
import { STREAM_AGE_MS_MAX } from './limits.ts'

/** A message of the shared log, on its way to the processing thread. */
export interface HandedMessage {
  /**
   * The number of the first block in the message that must be processed. Block numbers start at 1 and have no gaps.
   * They are the same on every replica, even if the blocks are grouped into other messages.
   */
  readonly first: number
  /**
   * The number of blocks at the start of the message that must be skipped, because they were already processed from an
   * earlier message.
   */
  readonly skipped: number
  readonly incarnation: string
  readonly sequence: number
  readonly data: Uint8Array
}

/** Sent by a processing thread that starts. It asks for all messages that are not processed yet. */
export const BEGIN = 'begin'
/**
 * The reply to `BEGIN`. After it, all waiting messages are sent again, in order. Messages that arrive before it are
 * ignored, because other messages before them may be missing.
 */
export const BEGUN = 'begun'

interface WaitingBlock {
  readonly block: Buffer
  readonly edge: string
  readonly place: number
  readonly incarnation: string
  /**
   * The sequence number of the message with this block. After the block is stored, messages up to this one need not be
   * read from the stream again.
   */
  readonly sequence: number
}

/** The reading end of the channel, in the processing thread. */
export class HandedLog implements LogReader {
  /** Blocks of up to this age, in milliseconds, may arrive again after they were processed. */
  static readonly repeatedMsMax = STREAM_AGE_MS_MAX
  readonly #channel: BroadcastChannel
  readonly #messages: HandedMessage[] = []
  /** The blocks of the current message, by number. */
  readonly #blocks = new Map<number, WaitingBlock>()
  #isBegun = false
  #last = 0
  /** The stream position of the last block that was read. */
  #read: Omit<LogOrigin, 'places'> = { incarnation: '', sequence: 0 }
  /**
   * For each edge, the place (block-message.ts) of its newest block among the blocks that were read since the last
   * commit.
   */
  #places: Record<string, number> = {}

  constructor(channel: string) {
    this.#channel = new BroadcastChannel(channel)
    this.#channel.onmessage = ({ data }: { readonly data?: unknown }) => this.#add(data)
    this.#channel.unref()
    this.#channel.postMessage(BEGIN)
  }

  /**
   * Takes messages that arrived while the thread was busy. The event loop could not deliver them, because the thread
   * had not returned to it.
   */
  refresh(): void {
    for (;;) {
      // The cast is right: Node accepts a BroadcastChannel here, although its types only allow a MessagePort.
      const received = receiveMessageOnPort(this.#channel as unknown as MessagePort)
      if (received === undefined) return
      this.#add(received.message)
    }
  }

  extent(): LogExtent | null {
    const [number] = this.#blocks.keys()
    const first = number ?? this.#messages[0]?.first
    return first === undefined ? null : { first, last: this.#last }
  }

  block(number: number): Buffer | undefined {
    while (!this.#blocks.has(number) && (this.#messages[0]?.first ?? number + 1) <= number) {
      const message = this.#messages.shift()
      if (message !== undefined) this.#open(message)
    }
    const waiting = this.#blocks.get(number)
    if (waiting === undefined) return undefined
    this.#blocks.delete(number)
    const { block, edge, place, incarnation, sequence } = waiting
    this.#read = { incarnation, sequence }
    this.#places[edge] = place
    return block
  }

  origin(): LogOrigin {
    const places = this.#places
    this.#places = {}
    return { ...this.#read, places }
  }

  async close(): Promise<void> {
    this.#channel.close()
  }

  #add(data: unknown): void {
    if (data === BEGUN) this.#isBegun = true
    if (data === BEGUN || !this.#isBegun) return
    // The cast is right: the feed of this process sent the message.
    const message = data as HandedMessage
    if (message.first <= this.#last) return
    this.#messages.push(message)
    const { blocks } = readHead(bufferOf(message))
    this.#last = message.first + blocks.length - message.skipped - 1
  }

  #open(message: HandedMessage): void {
    const { first, skipped, incarnation, sequence } = message
    const data = bufferOf(message)
    const { edge, blocks } = readHead(data)
    const sealed = readBlocks(data)
    for (const [index, { place }] of blocks.entries()) {
      const block = sealed[index]
      if (index < skipped || block === undefined) continue
      const isLast = index === blocks.length - 1
      const through = isLast ? sequence : sequence - 1
      const number = first + index - skipped
      this.#blocks.set(number, { block, edge, place, incarnation, sequence: through })
    }
  }
}

function bufferOf({ data }: HandedMessage): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength)
}
