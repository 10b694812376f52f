/**
 * The outbox of every machine of a cluster: accepted blocks are appended to its own log and published to the shared log
 * at the same time.
 * A request is answered when both are done. One message is sent at a time and contains all blocks that have arrived
 * meanwhile. So the order is that of acceptance, and a busy edge sends few large messages.
 *
 * If no majority of brokers answers within a second, either the local disk is enough, or events are refused, depending
 * on the setting. Blocks that the brokers do not have stay in the outbox and are sent later. Blocks that they have stay
 * until enough copies have stored their results, so that nothing is lost if the brokers lose everything.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { ServiceError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { refusal } from '../base/refusals.ts'
import { type BlockCopy, BlockMemory } from '../engine/threads/appending/block-memory.ts'
import type { AppendResult, AppendTask } from '../engine/threads/tasks.ts'
import type { LogReader } from '../ports/log.ts'
import { MessageEncoder, numberOf, type PlacedBlock } from './block-message.ts'
import {
  LAGGARD_MS_MAX,
  MESSAGE_BYTES_MAX,
  OUTBOX_MEMORY_BYTES_MAX,
  PUBLISH_MS_MAX,
  REPLICATION_MS_MAX,
} from './limits.ts'
import type { OutboxIdentity } from './outbox-identity.ts'
import type { Announcements, NodeReport, SharedStream, StreamPosition } from './shared-stream.ts'

const AGAIN_MS = 50
/** The minimum time between two repeats of lost blocks, because repeated blocks may still be on their way. */
const SEND_AGAIN_MS = 3000

/** The dependencies of an outbox. */
export interface AcceptingOutboxOptions {
  /** Appends to the log of the outbox, one append at a time. */
  readonly append: (task: AppendTask) => Promise<AppendResult>
  /** Reads the log of the outbox. */
  readonly log: LogReader
  readonly shared: SharedStream
  readonly others: Announcements
  readonly identity: OutboxIdentity
  readonly clock: Clock
  readonly logger: Logger
  /** True to refuse events without a majority, false to accept them on this disk alone. */
  readonly isMajorityNeeded: boolean
  /** The number of copies that must have stored a block before the outbox drops it. */
  readonly copies: number
  /** Called with the number up to which blocks may be dropped. */
  readonly onStored: (through: number) => void
}

interface Waiting {
  readonly last: number
  readonly resolve: (refused: ServiceError | null) => void
  readonly timer: NodeJS.Timeout
}

/** A message that is sent until the brokers have it. */
interface Sending {
  readonly first: number
  readonly last: number
  readonly message: Buffer
}

/** The outbox of this process. */
export class AcceptingOutbox {
  readonly #options: AcceptingOutboxOptions
  /** The number of the newest block in the log of the outbox. */
  #last = 0
  /** The number of the next block to send. */
  #next = 1
  /** The blocks that wait in memory, without gaps, up to the newest. */
  #queue: (BlockCopy & { readonly number: number })[] = []
  #queueBytes = 0
  readonly #memory = new BlockMemory()
  readonly #encoder: MessageEncoder
  #waiting: Waiting[] = []
  #isSending = false
  #isClosed = false
  /** Changes with each incarnation. A message of an earlier epoch does not count. */
  #epoch = 0
  /**
   * A part of message ids, so that the brokers do not take a message for a duplicate if it was sent by an earlier
   * process.
   */
  readonly #life = randomBytes(6).toString('hex')
  #acked = 0
  /** The position of the newest block that the brokers have. */
  #ackedAt: StreamPosition = { incarnation: '', sequence: 0 }
  #sentAgainAtMs = Number.NEGATIVE_INFINITY
  /** The time since when the brokers have had no majority, or null. */
  #aloneSinceMs: number | null = null
  /** For each copy: the place up to which it has everything of this edge, and the time of that news. */
  readonly #stored = new Map<string, { readonly place: number; readonly atMs: number }>()
  /** The number of answers that did not wait for a majority, and of messages. */
  readonly counts = { alone: 0, messages: 0, messageBytes: 0 }

  constructor(options: AcceptingOutboxOptions) {
    this.#options = options
    this.#encoder = new MessageEncoder(options.identity.bytes)
    options.others.onReport((report) => this.#noteStored(report))
    options.shared.onIncarnation(() => this.#beginAnew())
  }

  /** Opens the log, whose newest block is `last`. Throws `OperatorError`. */
  start(last: number): void {
    const { log, identity } = this.#options
    log.refresh()
    const first = log.extent()?.first ?? last + 1
    this.#last = last
    this.#next = first
    this.#acked = first - 1
    identity.beginRun(last + 1, first)
    this.#send()
  }

  /** The time since when the brokers have had no majority. Null: as far as known, they have one. */
  get aloneSinceMs(): number | null {
    return this.#aloneSinceMs
  }

  /** The number of blocks that the brokers do not have yet. */
  get unsentBlocks(): number {
    return this.#last - this.#acked
  }

  /** Appends as `WorkerPool.append` does, except for `trimThrough`. `replicated` resolves as the setting demands. */
  async append(task: AppendTask): Promise<AppendResult> {
    const first = this.#last + 1
    const last = this.#last + task.blocks.length
    const waiting = last < first ? undefined : this.#publish(first, task)
    try {
      const trimThrough = Math.min(task.trimThrough, this.#last - 1, this.#acked)
      const result = await this.#options.append({ ...task, trimThrough: Math.max(0, trimThrough) })
      if (waiting === undefined) return result
      this.#send()
      return { ...result, replicated: waiting }
    } catch (cause) {
      if (waiting !== undefined) this.#giveUp(first)
      throw cause
    }
  }

  close(): void {
    this.#isClosed = true
    for (const { timer, resolve } of this.#waiting.splice(0)) {
      clearTimeout(timer)
      resolve(refusal('not_stored'))
    }
  }

  /** Copies the blocks, because their memory is reused, and starts to send them. */
  #publish(first: number, { blocks }: AppendTask): Promise<ServiceError | null> {
    for (const [index, { buffer, bytes }] of blocks.entries()) {
      this.#queue.push({ number: first + index, ...this.#memory.copy(buffer, bytes) })
      this.#queueBytes += bytes
    }
    this.#last = first + blocks.length - 1
    // Blocks that are being written to disk stay in memory, because they cannot be read from there yet.
    while (
      this.#queueBytes > OUTBOX_MEMORY_BYTES_MAX &&
      (this.#queue[0]?.number ?? first) < first
    ) {
      this.#forgetOldest()
    }
    const waiting = this.#wait(this.#last)
    this.#send()
    return waiting
  }

  /** Handles a failed append. The published blocks must not be confused with later blocks of the same numbers. */
  #giveUp(first: number): void {
    const { identity, log } = this.#options
    this.#epoch++
    while ((this.#queue.at(-1)?.number ?? 0) >= first) this.#forget(this.#queue.pop())
    this.#last = first - 1
    this.#next = Math.min(this.#next, first)
    this.#acked = Math.min(this.#acked, this.#last)
    for (const waiting of this.#waiting.filter(({ last }) => last >= first))
      this.#end(waiting, null)
    log.refresh()
    identity.beginRun(first, log.extent()?.first ?? first)
  }

  #forgetOldest(): void {
    this.#forget(this.#queue.shift())
  }

  #forget(copy: BlockCopy | undefined): void {
    this.#queueBytes -= copy?.block.length ?? 0
    copy?.give()
  }

  #wait(last: number): Promise<ServiceError | null> {
    if (this.#aloneSinceMs !== null) return Promise.resolve(this.#answerAlone())
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#noteAlone()
        this.#end(waiting, this.#answerAlone())
      }, REPLICATION_MS_MAX)
      const waiting = { last, resolve, timer }
      this.#waiting.push(waiting)
    })
  }

  #end(waiting: Waiting, refused: ServiceError | null): void {
    clearTimeout(waiting.timer)
    this.#waiting = this.#waiting.filter((one) => one !== waiting)
    waiting.resolve(refused)
  }

  #answerAlone(): ServiceError | null {
    if (this.#options.isMajorityNeeded) return refusal('not_replicated')
    this.counts.alone++
    return null
  }

  #noteAlone(): void {
    if (this.#aloneSinceMs !== null) return
    const { clock, logger, isMajorityNeeded } = this.#options
    this.#aloneSinceMs = clock.now()
    const what = isMajorityNeeded ? 'events are refused' : 'events are stored on this disk only'
    logger.warn({ unsent: this.unsentBlocks }, `No majority of brokers answers: ${what}.`)
  }

  #beginAnew(): void {
    const { log } = this.#options
    if (this.#last === 0 || this.#isClosed) return
    this.#epoch++
    log.refresh()
    const first = log.extent()?.first ?? this.#last + 1
    if (first < this.#next) {
      this.#next = first
      this.#acked = first - 1
    }
    this.#send()
  }

  #send(): void {
    if (this.#isSending || this.#isClosed) return
    this.#isSending = true
    void this.#sendAll()
  }

  async #sendAll(): Promise<void> {
    const { shared, identity } = this.#options
    let sending: Sending | null = null
    let epoch = this.#epoch
    while (!this.#isClosed) {
      if (epoch !== this.#epoch) sending = null
      epoch = this.#epoch
      sending ??= await this.#nextMessage()
      if (sending === null) break
      const { first, last, message } = sending
      // The same blocks have the same message id, and no other blocks have it.
      const id = `${identity.name}.${identity.placeOf(first)}.${last}.${this.#life}.${epoch}`
      const { incarnation } = shared
      let sequence: number
      try {
        sequence = await shared.publish(message, id, PUBLISH_MS_MAX)
      } catch {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS).unref())
        continue
      }
      if (epoch !== this.#epoch) continue
      this.#ackedAt = { incarnation, sequence }
      this.#noteSent(last, message.length)
      sending = null
    }
    this.#isSending = false
    if (!this.#isClosed && this.#hasUnsent) this.#send()
  }

  get #hasUnsent(): boolean {
    return this.#next <= this.#last && (this.#queue.length > 0 || this.#isReadable)
  }

  get #isReadable(): boolean {
    const { log } = this.#options
    log.refresh()
    return (log.extent()?.last ?? 0) >= this.#next
  }

  #noteSent(last: number, bytes: number): void {
    const { logger } = this.#options
    this.#next = last + 1
    this.#acked = last
    this.counts.messages++
    this.counts.messageBytes += bytes
    while ((this.#queue[0]?.number ?? Number.POSITIVE_INFINITY) <= last) {
      this.#forgetOldest()
    }
    if (this.#aloneSinceMs !== null && this.#next > this.#last) {
      this.#aloneSinceMs = null
      logger.info('A majority of brokers has all events again.')
    }
    const sent = this.#waiting.filter((waiting) => waiting.last <= last)
    for (const waiting of sent) this.#end(waiting, null)
  }

  /** Returns the next message to send, or null. */
  async #nextMessage(): Promise<Sending | null> {
    const { identity } = this.#options
    const first = this.#next
    const blocks: PlacedBlock[] = []
    let bytes = 0
    for (let number = first; number <= this.#last; number++) {
      const block = this.#blockOf(number)
      if (block === undefined) break
      bytes += block.length
      if (blocks.length > 0 && bytes > MESSAGE_BYTES_MAX) break
      blocks.push({ place: identity.placeOf(number), block })
    }
    const newest = blocks.at(-1)
    if (newest === undefined) return null
    const message = await this.#encoder.encode(blocks)
    return { first, last: numberOf(newest.place), message }
  }

  #blockOf(number: number): Buffer | undefined {
    const oldest = this.#queue[0]?.number
    if (oldest !== undefined && number >= oldest) return this.#queue[number - oldest]?.block
    const { log } = this.#options
    log.refresh()
    const block = log.block(number)
    return block === undefined ? undefined : Buffer.from(block)
  }

  /**
   * Drops the blocks that enough copies have, unless another copy is about to receive them. Brokers may lose messages
   * that they have acknowledged. A copy that has read the whole stream then lacks a block, and the block is sent again.
   */
  #noteStored(report: NodeReport): void {
    const { identity, copies, onStored, clock } = this.#options
    const place = report.places[identity.name]
    if (place === undefined || this.#isClosed) return
    const now = clock.monotonic()
    const known = this.#stored.get(report.replica)
    const through = identity.numberThrough(place)
    const isNews = known?.place !== place || through >= this.#acked
    this.#stored.set(report.replica, { place, atMs: isNews ? now : known.atMs })
    const all = [...this.#stored.values()]
    const enough = all.map((copy) => copy.place).sort((a, b) => b - a)[copies - 1]
    const near = all.filter(({ atMs }) => now - atMs < LAGGARD_MS_MAX).map((copy) => copy.place)
    if (enough !== undefined) onStored(identity.numberThrough(Math.min(enough, ...near)))
    if (this.#lacks(report, through)) this.#sendAgain(through + 1, now)
  }

  /** Returns true if a copy has read past the newest block that the brokers have taken, but does not have it. */
  #lacks({ position, waiting }: NodeReport, through: number): boolean {
    const { incarnation, sequence } = this.#ackedAt
    const isBehind = position.incarnation === incarnation && position.sequence >= sequence
    return isBehind && waiting === 0 && through < this.#acked
  }

  #sendAgain(number: number, now: number): void {
    const { log, logger } = this.#options
    if (now - this.#sentAgainAtMs < SEND_AGAIN_MS) return
    this.#sentAgainAtMs = now
    log.refresh()
    // Blocks that were dropped are only in backups.
    if ((log.extent()?.first ?? this.#last + 1) > number) return
    logger.warn({ from: number }, 'The brokers have lost messages, which are sent again.')
    this.#epoch++
    this.#next = number
    this.#acked = number - 1
    this.#send()
  }
}
