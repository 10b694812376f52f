/**
 * Group commit: all requests that arrive during a commit share the next one. An idle server therefore commits
 * immediately, and a busy server commits larger batches.
 *
 * Each request is answered exactly once: with success when its bytes are on disk, or with 503.
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

/** The initial number of bytes of memory for a block. A block that needs more gets a larger buffer. */
const BLOCK_BUFFER_BYTES = 1024 * 1024
/**
 * If at least this many requests took part in a commit or arrived during it, the next commit starts no earlier than
 * `SPACING_MS` milliseconds after the start of the previous one. Under load, a commit costs as much CPU time as many
 * requests, so fewer and larger commits leave more CPU time for requests. A few clients that wait for each answer are
 * not delayed.
 */
const SPACED_REQUESTS_MIN = 8
const SPACING_MS = 1
/**
 * After a commit of at least this many bytes, `LARGE_SPACING_MS` is used instead of `SPACING_MS`. Such a commit costs
 * almost as much as one with five times as many bytes.
 */
const LARGE_COMMIT_BYTES = 64 * 1024
const LARGE_SPACING_MS = 2

/** A caller that waits until its request is stored. */
export interface AcknowledgeTarget {
  /** The account whose share of the queue the request uses. If null or undefined, no account is charged. */
  readonly account?: SenderAccount | null
  /** Called exactly once: with null when the request is on disk, otherwise with the error that the client must get. */
  acknowledge(error: ServiceError | null): void
}

/** A large request. Its events are a block of their own. */
export interface RequestBlock {
  readonly block: HeldBlock
  readonly projectId: number
  readonly eventCount: number
}

/**
 * The object that takes accepted requests: the group commit of a single machine, or the group commits of all partitions
 * in a cluster.
 */
export type Commits = Pick<GroupCommit, keyof GroupCommit>

/** The dependencies and options of a group commit. */
export interface GroupCommitOptions extends CommitOptions {
  readonly pool: Pick<WorkerPool, 'append'>
  /**
   * The longest time in milliseconds for which the events of a sender count as waiting. Default: until they are
   * processed.
   */
  readonly chargeMsMax?: number
}

/** The options that all group commits of a process share. */
export interface CommitOptions {
  readonly clock: Clock
  readonly log: Logger
  /** Counts the bytes and events that each sender has waiting. */
  readonly shares: FairShares
  /** Called if a commit has failed. This process must then not write to the log again. */
  readonly onFailure: (cause: unknown) => void
  /** Called when a commit is on disk. It added `bytes` bytes and `events` events for `requests` requests. */
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
  /** The timer of the pause before the next commit. Undefined if there is no pause. */
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

  /** The number of bytes that are not on disk yet. */
  get pendingBytes(): number {
    return this.#waitingBytes + this.#committingBytes
  }

  /** False after a commit has failed, or while a commit takes too long. */
  get isHealthy(): boolean {
    return !this.#isFailed && this.commitAgeMs < COMMIT_MS_MAX
  }

  /** The time since the current commit began, in milliseconds. 0 if no commit is running. */
  get commitAgeMs(): number {
    return this.#isCommitting ? this.#options.clock.monotonic() - this.#commitStartedAtMs : 0
  }

  /**
   * Adds an accepted request. The events are copied before the method returns. Returns the number of bytes of the copy.
   */
  add(header: RecordHeader, events: RecordEvents, target: AcknowledgeTarget): number {
    const bytes = this.#filling.add(header, events)
    this.#wait(target, bytes, events.eventCount)
    return bytes
  }

  /** Adds the block of a large request. The memory of the block is released when the block is on disk. */
  addBlock({ block, eventCount }: RequestBlock, target: AcknowledgeTarget): void {
    this.#finished.push(block)
    this.#finishedEvents += eventCount
    this.#wait(target, block.bytes, eventCount)
  }

  /** Records that the blocks up to this number are processed. The next commit removes them from the log. */
  trim(through: number): void {
    this.#trimThrough = through
    this.#ledger.processed(through)
    if (!this.#isCommitting && this.#waiting.length === 0) this.#schedule()
  }

  /** Resolves when no request waits and no commit is running. */
  drained(): Promise<void> {
    if (this.#isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#idleCallbacks.push(resolve))
  }

  get #isIdle(): boolean {
    return !this.#isCommitting && !this.#isScheduled && this.#waiting.length === 0
  }

  /**
   * True if there is something to commit. If the previous commit took too long, the waiting requests were already
   * answered with an error, but their bytes must still be committed.
   */
  get #hasWork(): boolean {
    return this.#waitingBytes > 0 || this.#trimThrough > this.#trimmed
  }

  #wait(target: AcknowledgeTarget, bytes: number, eventCount: number): void {
    if (this.#isFailed) {
      for (const { slab } of this.#finished.splice(0)) slab?.release()
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

  /** Starts a commit after all requests that have already arrived were read from their sockets. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#commit)
  }

  /**
   * Starts the next commit after a commit has ended, immediately or after a pause. `sharedBy` and `bytes` are the
   * number of requests and the size of the commit that has ended.
   */
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
      this.#options.log.error(
        { requests },
        'Writing to the log takes too long. The requests are refused.',
      )
      answer(targets, refusal('not_stored'))
      answer(this.#waiting, refusal('not_stored'))
      // Requests that were admitted before may still be added while this commit is running. The timer starts again, so
      // that they, too, are answered after at most `COMMIT_MS_MAX`.
      deadline = setTimeout(giveUp, COMMIT_MS_MAX)
    }
    let deadline = setTimeout(giveUp, COMMIT_MS_MAX)
    try {
      const result = await this.#options.pool.append({ blocks, trimThrough: this.#trimmed })
      // The next commit starts before the requests of this one are answered, so that both happen at the same time.
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
        // The log is intact: either the disk is full, or the thread ended before it wrote anything. Another thread will
        // take the next commit.
        answer(targets, isRefused ? cause : refusal('not_stored', { cause }))
        if (this.#hasWork) this.#schedule()
        this.#tellIdle()
        return
      }
      this.#isFailed = true
      this.#waitingBytes = 0
      for (const { slab } of this.#finished.splice(0)) slab?.release()
      answer(targets, refusal('not_stored', { cause }))
      answer(this.#waiting, refusal('not_stored', { cause }))
      this.#options.onFailure(cause)
    } finally {
      clearTimeout(deadline)
      // If the thread ended during a write, the operating system may still read the memory of the blocks, so the memory
      // is not reused.
      for (const block of held) {
        block.slab?.release(!isThreadGone)
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

  /**
   * Keeps the buffer of a block for later commits. Does nothing if the buffer is too large or if enough others are
   * kept.
   */
  #keep({ buffer, slab }: HeldBlock): void {
    if (slab !== null || !(buffer instanceof SharedArrayBuffer)) return
    if (buffer.byteLength > COMMIT_SPARE_BYTES_MAX) return
    if (this.#spares.length < COMMIT_SPARE_BUFFERS_MAX) this.#spares.push(Buffer.from(buffer))
  }
}

/** Returns new shared memory, which the writer thread can read without a copy. */
function sharedMemory(bytes: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(bytes))
}

/** Answers each waiting request once. Requests that are added to `targets` during the calls are not answered. */
function answer(targets: AcknowledgeTarget[], error: ServiceError | null): void {
  for (const target of targets.splice(0)) target.acknowledge(error)
}
