/**
 * Decides whether events and changes may be written now. It checks the possible reasons for a refusal in a fixed order.
 * base/refusals.ts contains the answer for each reason.
 *
 * If a queue is over its limit, only the senders that fill it are refused at first (fair-shares.ts).
 */
import type { ServiceError } from '../../base/errors.ts'
import { type RefusalReason, reasonText, refusal } from '../../base/refusals.ts'
import { type DiskReserve, NOTHING_ACCEPTED } from './disk-reserve.ts'
import type { GroupCommit } from './group-commit.ts'
import { LAG_RESUMED_PART, type ProcessingLoop } from './processing-loop.ts'
import type { FairShares, SenderAccount } from './shares/fair-shares.ts'

/**
 * A queue may exceed its limit by this share of the limit, but only by events of senders that have little waiting (see
 * `HALF`).
 */
const LIGHT_PART = 0.125
/**
 * While a queue is over its limit, senders that have little waiting are still admitted. To find them, suppose that the
 * work of the largest senders were all cut to the same level, so that this share of the waiting work is left. The
 * senders below that level have little waiting.
 */
const HALF = 0.5

/**
 * The refusal reasons about a queue that all senders share. Such a refusal may be the fault of a sender that fills the
 * queue.
 */
const SHARED_REASONS: ReadonlySet<RefusalReason> = new Set([
  'disk_queue_full',
  'log_backlog',
  'processing_behind',
])

/**
 * The kind of record that a request wants to write to the log: events, a change of persons, or a change that frees
 * space.
 */
export type LogWish = 'event' | 'change' | 'erasing'

/** The state on which the decision depends. */
export interface AdmissionOptions {
  readonly settings: {
    readonly inFlightBytesMax: number
    readonly backlogBytesMax: number
    readonly processingLagMsMax: number
  }
  readonly disk: Pick<DiskReserve, 'isBelowFloor' | 'isBelowReserve'>
  /** The memory that request bodies use while they are received. */
  readonly budget: { readonly bytesInFlight: number }
  readonly loop: Pick<ProcessingLoop, 'backlogBytes' | 'isBehind' | 'lagMs'>
  readonly shares: FairShares
  readonly groupCommit: Pick<GroupCommit, 'isHealthy' | 'pendingBytes'>
  /** Returns true if this process must not write any more, because the store has failed. */
  readonly hasFailed: () => boolean
}

/** Decides which writes are allowed. Each check costs a few comparisons. */
export class Admission {
  readonly #options: AdmissionOptions

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /**
   * Returns the error with which a write must be refused, or null if the write is allowed. It is called for every
   * request, before the body is read.
   */
  refusal(wish: LogWish): ServiceError | null {
    const reason = this.#reasonAgainstWriting(wish, null)
    return reason === null ? null : refusal(reason)
  }

  /**
   * Returns the error with which the events of a sender must be refused, or null. Called before the body is read, and
   * again when the number of bytes and events is known.
   */
  refusalOfEvents(account: SenderAccount, bytes = 0, events = 0): ServiceError | null {
    const { shares, loop } = this.#options
    const isOver = (): boolean => shares.isOverShare(account, loop, bytes, events)
    const reason =
      this.#reasonAgainstWriting('event', account) ?? (isOver() ? 'processing_behind' : null)
    if (reason === null) return null
    // The sender is told that it used more than its share only if other senders are active.
    if (!SHARED_REASONS.has(reason) || !shares.hasOthers(account.sender)) return refusal(reason)
    shares.refused.queue++
    return refusal('sender_share')
  }

  /**
   * Returns the error with which changes of flags must be refused, or null. Waiting events are no reason to refuse
   * them.
   */
  refusalOfChanges(): ServiceError | null {
    const isFull = this.#options.disk.isBelowReserve(NOTHING_ACCEPTED)
    if (!this.#options.hasFailed() && !isFull) return null
    return refusal(isFull ? 'changes_disk_full' : 'changes_stopped')
  }

  /**
   * Returns the reason why no events are accepted now, as a sentence for monitoring. Returns null if events are
   * accepted.
   */
  reasonAgainstWriting(): string | null {
    const reason = this.#reasonAgainstWriting('event', this.#options.shares.newcomer)
    return reason === null ? null : reasonText(reason)
  }

  /**
   * A list with one sentence for monitoring if only the senders that fill a queue are refused. Otherwise an empty list.
   */
  get troubles(): readonly string[] {
    const reason = this.#reasonAgainstWriting('event', null)
    if (reason === null || this.reasonAgainstWriting() !== null) return []
    return [`${reasonText(reason)} Only clients that fill the queue are refused.`]
  }

  /**
   * Returns the reason against a write, or null. If `account` is null, the limits are strict: the exceptions for
   * senders with little waiting do not apply.
   */
  #reasonAgainstWriting(wish: LogWish, account: SenderAccount | null): RefusalReason | null {
    const { settings, disk, budget, loop, groupCommit, hasFailed } = this.#options
    if (hasFailed()) return 'store_failed'
    if (!groupCommit.isHealthy) return 'disk_silent'
    const { pendingBytes } = groupCommit
    if (this.#isFull(pendingBytes, settings.inFlightBytesMax, account)) return 'disk_queue_full'
    if (this.#isFull(loop.backlogBytes, settings.backlogBytesMax, account)) return 'log_backlog'
    const inFlight = pendingBytes + budget.bytesInFlight
    const accepted = { inFlight, backlog: loop.backlogBytes }
    const isFull = wish === 'erasing' ? disk.isBelowFloor(accepted) : disk.isBelowReserve(accepted)
    if (isFull) return 'disk_full'
    // Changes are accepted even if processing is behind. There are few of them, and processing starts immediately if a
    // client waits for a change.
    if (wish !== 'event' || !loop.isBehind) return null
    const part = (settings.processingLagMsMax * LAG_RESUMED_PART) / loop.lagMs
    return this.#isLight(account, part) ? null : 'processing_behind'
  }

  #isFull(bytes: number, bytesMax: number, account: SenderAccount | null): boolean {
    if (bytes <= bytesMax) return false
    return bytes > bytesMax * (1 + LIGHT_PART) || !this.#isLight(account, HALF)
  }

  #isLight(account: SenderAccount | null, part: number): boolean {
    return account !== null && this.#options.shares.isLight(account, part)
  }
}
