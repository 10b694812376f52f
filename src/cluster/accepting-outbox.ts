/**
 * The outbox of every machine of a cluster: it appends accepted blocks to its own log on disk and publishes them to the
 * shared log of the brokers at the same time. A request is answered when both are done. The outbox sends one message at
 * a time. The next message contains all blocks that have arrived in the meantime. So blocks stay in the order in which
 * they were accepted, and a busy machine sends few large messages.
 *
 * If no majority of brokers answers within a second, the setting decides whether the copy on the local disk is enough
 * for an answer, or whether the events are refused. Blocks that the brokers do not have yet stay in the outbox and are
 * sent later. Blocks that the brokers have stay too, until enough replicas have processed and stored their events. So
 * nothing is lost, even if the brokers lose everything.
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
/**
 * The minimum time between two attempts to send lost blocks again. When it has passed, the blocks of the last attempt
 * have arrived, or are lost again.
 */
const SEND_AGAIN_MS = 3000

/** What an outbox needs from the rest of the node. */
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
  /**
   * What happens without a majority of brokers. True: events are refused. False: they are accepted if this disk has
   * them.
   */
  readonly isMajorityNeeded: boolean
  /** The number of replicas that must have stored the events of a block before the outbox drops the block. */
  readonly copies: number
  /** Called when the outbox need not keep blocks any more, with the number of the last such block. */
  readonly onStored: (through: number) => void
}

interface Waiting {
  readonly last: number
  readonly resolve: (refused: ServiceError | null) => void
  readonly timer: NodeJS.Timeout
}

/** A message that is sent again and again until the brokers confirm it. */
interface Sending {
  readonly first: number
  readonly last: number
  readonly message: Buffer
}

/** The outbox of one partition on this machine. */
export class AcceptingOutbox {
  readonly #options: AcceptingOutboxOptions
  /** The number of the newest block in the log of the outbox. */
  #last = 0
  /** The number of the next block to send. */
  #next = 1
  /** The newest blocks, without gaps, as copies in memory that wait to be sent. */
  #queue: (BlockCopy & { readonly number: number })[] = []
  #queueBytes = 0
  readonly #memory = new BlockMemory()
  readonly #encoder: MessageEncoder
  #waiting: Waiting[] = []
  #isSending = false
  #isClosed = false
  /**
   * The number of the current epoch. A new epoch begins with each incarnation of the stream, when an append to the log
   * fails, and when blocks are sent again. The confirmation of a message from an earlier epoch is ignored.
   */
  #epoch = 0
  /**
   * Random bytes of this process in every message id. Without them, the brokers could take a message for the duplicate
   * of one that an earlier process sent.
   */
  readonly #life = randomBytes(6).toString('hex')
  #acked = 0
  /** The position in the stream of the newest message that the brokers have confirmed. */
  #ackedAt: StreamPosition = { incarnation: '', sequence: 0 }
  #sentAgainAtMs = Number.NEGATIVE_INFINITY
  /** The time at which the brokers lost their majority, or null while they have one. */
  #aloneSinceMs: number | null = null
  /**
   * For each replica: the place up to which it has stored all blocks of this machine, and the time of its last
   * progress. block-message.ts explains places.
   */
  readonly #stored = new Map<string, { readonly place: number; readonly atMs: number }>()
  /**
   * `alone`: the number of commits that were answered without a majority of brokers. `messages` and `messageBytes`: the
   * number of messages that the brokers have confirmed, and their bytes.
   */
  readonly counts = { alone: 0, messages: 0, messageBytes: 0 }

  constructor(options: AcceptingOutboxOptions) {
    this.#options = options
    this.#encoder = new MessageEncoder(options.identity.bytes)
    options.others.onReport((report) => this.#noteStored(report))
    options.shared.onIncarnation(() => this.#beginAnew())
  }

  /**
   * Opens the log and starts to send what it contains. `last` is the number of its newest block. Throws
   * `OperatorError`.
   */
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

  /** The time at which the brokers lost their majority. Null: as far as this process knows, they have one. */
  get aloneSinceMs(): number | null {
    return this.#aloneSinceMs
  }

  /** The number of blocks that the brokers do not have yet. */
  get unsentBlocks(): number {
    return this.#last - this.#acked
  }

  /**
   * Appends blocks to the log of the outbox, as `WorkerPool.append` does, but removes old blocks only if the brokers
   * have them. If the settings require a majority of brokers, `replicated` resolves with null when the brokers have the
   * blocks, or with the refusal for the requests.
   */
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
    // Keep the blocks of this append in memory: they are being written to disk, and cannot be read from there yet.
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

  /**
   * Handles a failed append. Its blocks may already be published, and later blocks will get the same numbers. A new run
   * (outbox-identity.ts) therefore begins, so that blocks with the same number have different places.
   */
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
    copy?.release()
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
      // A message that is sent again has the same id, so the brokers recognize the duplicate. Other blocks never get
      // this id.
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

  /** Returns the next message to send, or null if there is nothing to send. */
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
   * Handles the report of a replica. Drops the blocks that enough replicas have stored. Blocks that another replica
   * still lacks are kept, as long as that replica has made progress within `LAGGARD_MS_MAX`. Brokers may lose messages
   * that they have confirmed. A replica that has read the whole stream then still lacks a block, and the outbox sends
   * the block again.
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

  /**
   * Returns true if a replica has processed the stream at least up to the newest confirmed message of this outbox, but
   * lacks blocks of this outbox.
   */
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
    // The log no longer has the block, because it was dropped earlier. Only backups of replicas have its events.
    if ((log.extent()?.first ?? this.#last + 1) > number) return
    logger.warn({ from: number }, 'The brokers have lost messages. Tenrec sends them again.')
    this.#epoch++
    this.#next = number
    this.#acked = number - 1
    this.#send()
  }
}
