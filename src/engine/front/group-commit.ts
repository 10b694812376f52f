/**
 * Group commit: all requests that arrive while one commit is on its way to the disk share the next one.
 * There is no timer: an idle server commits at once, a busy one commits larger batches.
 *
 * A request is answered exactly once: with success when its bytes are durable, or with 503.
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { refusal } from '../../base/refusals.ts'
import {
  LogBlockWriter,
  type RecordEvents,
  type RecordHeader,
} from '../../rules/capture/log-block.ts'
import type { WorkerPool } from '../threads/pool.ts'
import type { AppendResult, HeldBlock } from '../threads/tasks.ts'
import { ThreadEndedError } from '../threads/thread-group.ts'
import {
  COMMIT_MS_MAX,
  COMMIT_SPACED_BYTES_MAX,
  COMMIT_SPARE_BUFFERS_MAX,
  COMMIT_SPARE_BYTES_MAX,
} from './limits.ts'
import type { ChargeLedger, FairShares, SenderAccount } from './shares/fair-shares.ts'

/** Memory of a block to begin with; a block that outgrows it gets more. */
const BLOCK_BUFFER_BYTES = 1024 * 1024
/**
 * When this many requests took part in a commit or came while it was on its way, the next one begins no
 * earlier than some time after it has begun. Under load a commit costs the processor as much as many requests,
 * so larger ones leave more of it for requests; a few clients that wait for each answer are not held up.
 */
const SPACED_REQUESTS_MIN = 8
const SPACING_MS = 1
/** A write of this many bytes costs hardly less than one of five times as many, which come in a longer time. */
const LARGE_COMMIT_BYTES = 64 * 1024
const LARGE_SPACING_MS = 2

/** Someone who waits for an answer. */
export interface AcknowledgeTarget {
  /** Whose share of the queue it takes; null or absent: nobody's. */
  readonly account?: SenderAccount | null
  /** Called exactly once: null when the request is durable, else what to answer. */
  acknowledge(error: ServiceError | null): void
}

/** A large request as a block. */
export interface RequestBlock {
  readonly block: HeldBlock
  readonly projectId: number
  readonly eventCount: number
}

/** What takes accepted requests: a group commit, or one for each partition of a cluster. */
export type Commits = Pick<GroupCommit, keyof GroupCommit>

/** What a group commit works with. */
export interface GroupCommitOptions extends CommitOptions {
  readonly pool: Pick<WorkerPool, 'append'>
  /** How long a sender is charged for what is never said to be processed, milliseconds. Default: for ever. */
  readonly chargeMsMax?: number
}

/** The same for all that there are. */
export interface CommitOptions {
  readonly clock: Clock
  readonly log: Logger
  /** What senders have waiting is counted there. */
  readonly shares: FairShares
  /** A commit failed: the log must not be written again by this process. */
  readonly onFailure: (cause: unknown) => void
  /** A commit is durable; `bytes` and `events` are what it added for so many requests. */
  readonly onCommit: (result: AppendResult, bytes: number, events: number, requests: number) => void
}

/** Collects accepted requests and sees them to the disk. */
export class GroupCommit {
  readonly #options: GroupCommitOptions
  readonly #ledger: ChargeLedger
  readonly #spares: Buffer[] = []
  #filling: LogBlockWriter
  #finished: HeldBlock[] = []
  #finishedEvents = 0
  #waiting: AcknowledgeTarget[] = []
  #waitingBytes = 0
  #committingBytes = 0
  #isCommitting = false
  #isScheduled = false
  /** The pause before the next commit, if there is one. */
  #pause: NodeJS.Timeout | undefined
  #isFailed = false
  #commitStartedAtMs = 0
  #trimThrough = 0
  #trimmed = 0
  #idleCallbacks: (() => void)[] = []
  readonly #commit: () => void

  constructor(options: GroupCommitOptions) {
    this.#options = options
    this.#ledger = options.shares.ledger(options.chargeMsMax)
    this.#filling = this.#newBlock()
    this.#commit = () => {
      this.#isScheduled = false
      this.#pause = undefined
      this.#startCommit()
      this.#tellIdle()
    }
  }

  /** Bytes that wait for the disk. */
  get pendingBytes(): number {
    return this.#waitingBytes + this.#committingBytes
  }

  /** False once a commit has failed, or while one takes too long. */
  get isHealthy(): boolean {
    return !this.#isFailed && this.commitAgeMs < COMMIT_MS_MAX
  }

  /** How long the commit that is on its way has taken so far; 0 when there is none. */
  get commitAgeMs(): number {
    return this.#isCommitting ? this.#options.clock.monotonic() - this.#commitStartedAtMs : 0
  }

  /** Adds one accepted request; its events are copied before this returns. Answers the bytes that they take. */
  add(header: RecordHeader, events: RecordEvents, target: AcknowledgeTarget): number {
    const bytes = this.#filling.add(header, events)
    this.#wait(target, bytes, events.eventCount)
    return bytes
  }

  /** Adds a block made of one large request; its slab is given back when it is durable. */
  addBlock({ block, eventCount }: RequestBlock, target: AcknowledgeTarget): void {
    this.#finished.push(block)
    this.#finishedEvents += eventCount
    this.#wait(target, block.bytes, eventCount)
  }

  /** Blocks up to this sequence are processed: the next commit removes them. */
  trim(through: number): void {
    this.#trimThrough = through
    this.#ledger.processed(through)
    if (!this.#isCommitting && this.#waiting.length === 0) this.#schedule()
  }

  /** Resolves when nothing waits any more. */
  drained(): Promise<void> {
    if (this.#isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#idleCallbacks.push(resolve))
  }

  get #isIdle(): boolean {
    return !this.#isCommitting && !this.#isScheduled && this.#waiting.length === 0
  }

  /** Also bytes whose requests were answered at the deadline of the commit before. */
  get #hasWork(): boolean {
    return this.#waitingBytes > 0 || this.#trimThrough > this.#trimmed
  }

  #wait(target: AcknowledgeTarget, bytes: number, eventCount: number): void {
    if (this.#isFailed) {
      for (const { slab } of this.#finished.splice(0)) slab?.give()
      target.acknowledge(refusal('not_stored'))
      return
    }
    this.#waiting.push(target)
    this.#waitingBytes += bytes
    if (target.account != null) this.#ledger.add(target.account, bytes, eventCount)
    if (this.#isCommitting) return
    if (this.#waitingBytes >= COMMIT_SPACED_BYTES_MAX) this.#endPause()
    this.#schedule()
  }

  #endPause(): void {
    if (this.#pause === undefined) return
    clearTimeout(this.#pause)
    this.#pause = undefined
    this.#isScheduled = false
  }

  /** All requests that the sockets have ready are read before the commit starts. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#commit)
  }

  /** `sharedBy`: requests of the commit that has just ended; `bytes`: what it has written for them. */
  #startNextCommit(sharedBy: number, bytes: number): void {
    const elapsedMs = this.#options.clock.monotonic() - this.#commitStartedAtMs
    const spacingMs = bytes < LARGE_COMMIT_BYTES ? SPACING_MS : LARGE_SPACING_MS
    const isSpaced =
      sharedBy + this.#waiting.length >= SPACED_REQUESTS_MIN &&
      this.#waitingBytes < COMMIT_SPACED_BYTES_MAX
    if (!isSpaced || elapsedMs >= spacingMs) {
      this.#startCommit()
    } else if (!this.#isScheduled) {
      this.#isScheduled = true
      this.#pause = setTimeout(this.#commit, spacingMs - elapsedMs)
    }
  }

  #startCommit(): void {
    if (this.#isCommitting || this.#isFailed || !this.#hasWork) return
    const blocks = this.#finished
    const eventCount = this.#finishedEvents + this.#filling.eventCount
    if (this.#filling.recordCount > 0) {
      const bytes = this.#filling.finish()
      blocks.push({ buffer: bytes.buffer, bytes: bytes.length, slab: null })
      this.#filling = this.#newBlock()
    }
    const targets = this.#waiting
    this.#finished = []
    this.#finishedEvents = 0
    this.#waiting = []
    this.#committingBytes = this.#waitingBytes
    this.#waitingBytes = 0
    this.#isCommitting = true
    this.#commitStartedAtMs = this.#options.clock.monotonic()
    this.#trimmed = this.#trimThrough
    void this.#finish(blocks, targets, eventCount, this.#ledger.begin())
  }

  async #finish(
    held: readonly HeldBlock[],
    targets: AcknowledgeTarget[],
    eventCount: number,
    charges: ReturnType<ChargeLedger['begin']>,
  ): Promise<void> {
    const bytes = this.#committingBytes
    const requests = targets.length
    let isThreadGone = false
    const blocks = held.map(({ buffer, bytes }) => ({ buffer, bytes }))
    const giveUp = (): void => {
      this.#options.log.error({ requests }, 'the log does not answer')
      answer(targets, refusal('not_stored'))
      answer(this.#waiting, refusal('not_stored'))
      // Some are on their way: their bodies were let in before.
      deadline = setTimeout(giveUp, COMMIT_MS_MAX)
    }
    let deadline = setTimeout(giveUp, COMMIT_MS_MAX)
    try {
      const result = await this.#options.pool.append({ blocks, trimThrough: this.#trimmed })
      // New requests fill the next commit while these are being answered.
      this.#isCommitting = false
      this.#committingBytes = 0
      this.#ledger.logged(charges, result.last)
      if (this.#hasWork) this.#startNextCommit(requests, bytes)
      if (result.replicated === undefined) answer(targets, null)
      else void result.replicated.then((refused) => answer(targets, refused))
      this.#options.onCommit(result, bytes, eventCount, requests)
    } catch (cause) {
      isThreadGone = cause instanceof ThreadEndedError
      this.#ledger.failed(charges)
      this.#isCommitting = false
      this.#committingBytes = 0
      const isRefused = cause instanceof ServiceError
      if (isRefused || (cause instanceof ThreadEndedError && !cause.wasWriting)) {
        // The log is as whole as before: its disk is full, or there is another thread for the next commit.
        answer(targets, isRefused ? cause : refusal('not_stored', { cause }))
        if (this.#hasWork) this.#schedule()
        this.#tellIdle()
        return
      }
      this.#isFailed = true
      this.#waitingBytes = 0
      for (const { slab } of this.#finished.splice(0)) slab?.give()
      answer(targets, refusal('not_stored', { cause }))
      answer(this.#waiting, refusal('not_stored', { cause }))
      this.#options.onFailure(cause)
    } finally {
      clearTimeout(deadline)
      // What a thread began before it ended may still be on its way to the disk.
      for (const block of held) {
        block.slab?.give(!isThreadGone)
        if (!isThreadGone) this.#keep(block)
      }
    }
    this.#tellIdle()
  }

  #tellIdle(): void {
    if (!this.#isIdle) return
    for (const callback of this.#idleCallbacks.splice(0)) callback()
  }

  #newBlock(): LogBlockWriter {
    return new LogBlockWriter(this.#spares.pop() ?? sharedMemory(BLOCK_BUFFER_BYTES), sharedMemory)
  }

  /** That of blocks which were filled here. */
  #keep({ buffer, slab }: HeldBlock): void {
    if (slab !== null || !(buffer instanceof SharedArrayBuffer)) return
    if (buffer.byteLength > COMMIT_SPARE_BYTES_MAX) return
    if (this.#spares.length < COMMIT_SPARE_BUFFERS_MAX) this.#spares.push(Buffer.from(buffer))
  }
}

/** Stays where it is while the writer thread works with it. */
function sharedMemory(bytes: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(bytes))
}

/** Each of them once, and whoever comes meanwhile not yet. */
function answer(targets: AcknowledgeTarget[], error: ServiceError | null): void {
  for (const target of targets.splice(0)) target.acknowledge(error)
}
