/**
 * Group commit: all requests that arrive during a commit share the next one. There is no timer: an idle server commits
 * at once, a busy one commits larger batches.
 *
 * Each request is answered exactly once: with success when its bytes are durable, or with 503.
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

/** The initial memory of a block. A block that outgrows it gets more. */
const BLOCK_BUFFER_BYTES = 1024 * 1024
/**
 * If at least this many requests took part in a commit or arrived during it, the next commit starts no earlier than a
 * spacing after the start of the previous one. Under load, a commit costs as much CPU time as many requests, so fewer
 * and larger commits leave more of it for requests. A few clients that wait for each answer are not delayed.
 */
const SPACED_REQUESTS_MIN = 8
const SPACING_MS = 1
/** A write of this many bytes costs almost as much as one of five times as many, which arrive in a longer spacing. */
const LARGE_COMMIT_BYTES = 64 * 1024
const LARGE_SPACING_MS = 2

/** A caller that waits for an answer. */
export interface AcknowledgeTarget {
  /** The account whose share of the queue the request uses. Null or absent: no account. */
  readonly account?: SenderAccount | null
  /** Called exactly once: with null when the request is durable, otherwise with the error to answer. */
  acknowledge(error: ServiceError | null): void
}

/** A large request as a block of its own. */
export interface RequestBlock {
  readonly block: HeldBlock
  readonly projectId: number
  readonly eventCount: number
}

/** The receiver of accepted requests: one group commit, or one for each partition of a cluster. */
export type Commits = Pick<GroupCommit, keyof GroupCommit>

/** The dependencies of a group commit. */
export interface GroupCommitOptions extends CommitOptions {
  readonly pool: Pick<WorkerPool, 'append'>
  /**
   * The time for which a sender is charged for events that are never reported as processed, in milliseconds. Default:
   * without limit.
   */
  readonly chargeMsMax?: number
}

/** The dependencies that all group commits share. */
export interface CommitOptions {
  readonly clock: Clock
  readonly log: Logger
  /** The bytes and events that each sender has waiting are counted there. */
  readonly shares: FairShares
  /** Called when a commit has failed: this process must not write to the log again. */
  readonly onFailure: (cause: unknown) => void
  /** Called when a commit is durable. It added `bytes` and `events` for this number of requests. */
  readonly onCommit: (result: AppendResult, bytes: number, events: number, requests: number) => void
}

/** Collects accepted requests and writes them to disk. */
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

  /** The bytes that wait for the disk. */
  get pendingBytes(): number {
    return this.#waitingBytes + this.#committingBytes
  }

  /** False after a commit has failed, or while a commit takes too long. */
  get isHealthy(): boolean {
    return !this.#isFailed && this.commitAgeMs < COMMIT_MS_MAX
  }

  /** The duration of the current commit so far; 0 if there is none. */
  get commitAgeMs(): number {
    return this.#isCommitting ? this.#options.clock.monotonic() - this.#commitStartedAtMs : 0
  }

  /** Adds one accepted request. Its events are copied before this returns. Returns the bytes that they take. */
  add(header: RecordHeader, events: RecordEvents, target: AcknowledgeTarget): number {
    const bytes = this.#filling.add(header, events)
    this.#wait(target, bytes, events.eventCount)
    return bytes
  }

  /** Adds the block of one large request. Its slab is given back when the block is durable. */
  addBlock({ block, eventCount }: RequestBlock, target: AcknowledgeTarget): void {
    this.#finished.push(block)
    this.#finishedEvents += eventCount
    this.#wait(target, block.bytes, eventCount)
  }

  /** Records that blocks up to this sequence number are processed. The next commit removes them. */
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

  /** True also for bytes whose requests were already answered at the deadline of the previous commit. */
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

  /** The commit starts after all requests that are ready on the sockets were read. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#commit)
  }

  /** `sharedBy` is the number of requests in the commit that has just ended, `bytes` is their size. */
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
      this.#options.log.error({ requests }, 'The log does not answer.')
      answer(targets, refusal('not_stored'))
      answer(this.#waiting, refusal('not_stored'))
      // Further requests may follow: their bodies were admitted earlier.
      deadline = setTimeout(giveUp, COMMIT_MS_MAX)
    }
    let deadline = setTimeout(giveUp, COMMIT_MS_MAX)
    try {
      const result = await this.#options.pool.append({ blocks, trimThrough: this.#trimmed })
      // New requests fill the next commit while the current ones are answered.
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
        // The log is still intact: its disk is full, or another thread will take the next commit.
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
      // A write that a thread began before it ended may still be in progress.
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

  /** Keeps the memory of blocks that were filled here for reuse. */
  #keep({ buffer, slab }: HeldBlock): void {
    if (slab !== null || !(buffer instanceof SharedArrayBuffer)) return
    if (buffer.byteLength > COMMIT_SPARE_BYTES_MAX) return
    if (this.#spares.length < COMMIT_SPARE_BUFFERS_MAX) this.#spares.push(Buffer.from(buffer))
  }
}

/** Allocates shared memory, so that the writer thread can use it without a transfer. */
function sharedMemory(bytes: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(bytes))
}

/**
 * Answers each waiting request once. Requests that are added during the calls are not answered until the next round.
 */
function answer(targets: AcknowledgeTarget[], error: ServiceError | null): void {
  for (const target of targets.splice(0)) target.acknowledge(error)
}
