/**
 * Decides whether events and changes may be written now. The reasons against writing are checked in a fixed order; the
 * answer for each is in base/refusals.ts.
 *
 * If a queue is over a limit, only the senders that fill it are refused (fair-shares.ts).
 */
import type { ServiceError } from '../../base/errors.ts'
import { type RefusalReason, reasonText, refusal } from '../../base/refusals.ts'
import { type DiskReserve, NOTHING_ACCEPTED } from './disk-reserve.ts'
import type { GroupCommit } from './group-commit.ts'
import { LAG_RESUMED_PART, type ProcessingLoop } from './processing-loop.ts'
import type { FairShares, SenderAccount } from './shares/fair-shares.ts'

/** The part of a limit by which senders with few waiting bytes may exceed it after others have reached it. */
const LIGHT_PART = 0.125
/** Above a limit, the senders that hold the larger half of the bytes are refused. */
const HALF = 0.5

/** The reasons that concern a queue shared by all senders. */
const SHARED_REASONS: ReadonlySet<RefusalReason> = new Set([
  'disk_queue_full',
  'log_backlog',
  'processing_behind',
])

/** The kind of a write to the log: events, a change of persons, or a change that frees space. */
export type LogWish = 'event' | 'change' | 'erasing'

/** The state that the decision is based on. */
export interface AdmissionOptions {
  readonly settings: {
    readonly inFlightBytesMax: number
    readonly backlogBytesMax: number
    readonly processingLagMsMax: number
  }
  readonly disk: Pick<DiskReserve, 'isBelowFloor' | 'isBelowReserve'>
  /** The request bodies that are being received. */
  readonly budget: { readonly bytesInFlight: number }
  readonly loop: Pick<ProcessingLoop, 'backlogBytes' | 'isBehind' | 'lagMs'>
  readonly shares: FairShares
  readonly groupCommit: Pick<GroupCommit, 'isHealthy' | 'pendingBytes'>
  /** Returns true if this process must not write any more. */
  readonly hasFailed: () => boolean
}

/** Decides which writes are allowed. Each check costs a few comparisons. */
export class Admission {
  readonly #options: AdmissionOptions

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** Returns the refusal of a write, or null if it is allowed. Called for every request, before its body is read. */
  refusal(wish: LogWish): ServiceError | null {
    const reason = this.#reasonAgainstWriting(wish, null)
    return reason === null ? null : refusal(reason)
  }

  /** Returns the refusal of events of a sender, or null. Called again when the number of bytes and events is known. */
  refusalOfEvents(account: SenderAccount, bytes = 0, events = 0): ServiceError | null {
    const { shares, loop } = this.#options
    const isOver = (): boolean => shares.isOverShare(account, loop, bytes, events)
    const reason =
      this.#reasonAgainstWriting('event', account) ?? (isOver() ? 'processing_behind' : null)
    if (reason === null) return null
    // A sender without other senders has no share to exceed.
    if (!SHARED_REASONS.has(reason) || !shares.hasOthers(account.sender)) return refusal(reason)
    shares.refused.queue++
    return refusal('sender_share')
  }

  /** Returns the reason why no flag can be changed now, or null. Waiting events are not a reason. */
  refusalOfChanges(): ServiceError | null {
    const isFull = this.#options.disk.isBelowReserve(NOTHING_ACCEPTED)
    if (!this.#options.hasFailed() && !isFull) return null
    return refusal(isFull ? 'changes_disk_full' : 'changes_stopped')
  }

  /** Returns the reason why no event is accepted now, as a sentence for monitoring, or null. */
  reasonAgainstWriting(): string | null {
    const reason = this.#reasonAgainstWriting('event', this.#options.shares.newcomer)
    return reason === null ? null : reasonText(reason)
  }

  /** Returns sentences for monitoring while only the senders that fill the queue are refused. */
  get troubles(): readonly string[] {
    const reason = this.#reasonAgainstWriting('event', null)
    if (reason === null || this.reasonAgainstWriting() !== null) return []
    return [`${reasonText(reason)} Only clients that fill the queue are refused.`]
  }

  /** If `account` is null, nobody is allowed to exceed a limit. */
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
    // There are few changes, and a client waits for each: processing runs sooner for them.
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
