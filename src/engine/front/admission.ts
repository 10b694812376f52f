/**
 * Whether events and changes may be written now: the reasons against it, in the order in which they are
 * looked for. What each answers stands in base/refusals.ts.
 *
 * When the queue is over a limit, the senders that fill it are refused, and others are let in (fair-shares.ts).
 */
import type { ServiceError } from '../../base/errors.ts'
import { type RefusalReason, reasonText, refusal } from '../../base/refusals.ts'
import { type DiskGuard, NOTHING_ACCEPTED } from './disk-guard.ts'
import type { GroupCommit } from './group-commit.ts'
import { LAG_RESUMED_PART, type ProcessingLoop } from './processing-loop.ts'
import type { FairShares, SenderAccount } from './shares/fair-shares.ts'

/** Bytes that senders may add who hold little, as a part of a limit that others have reached. */
const LIGHT_PART = 0.125
/** Of bytes beyond a limit the larger half is refused. */
const HALF = 0.5

/** Limits of a queue that all senders share. */
const SHARED_REASONS: ReadonlySet<RefusalReason> = new Set([
  'disk_queue_full',
  'log_backlog',
  'processing_behind',
])

/** What somebody wants to write to the log: events, a change of persons, or one that gives space back. */
export type LogWish = 'event' | 'change' | 'erasing'

/** What decides. */
export interface AdmissionOptions {
  readonly settings: {
    readonly inFlightBytesMax: number
    readonly backlogBytesMax: number
    readonly processingLagMsMax: number
  }
  readonly disk: Pick<DiskGuard, 'isBelowFloor' | 'isBelowReserve'>
  /** Bodies that are being received. */
  readonly budget: { readonly bytesInFlight: number }
  readonly loop: Pick<ProcessingLoop, 'backlogBytes' | 'isBehind' | 'lagMs'>
  readonly shares: FairShares
  readonly groupCommit: Pick<GroupCommit, 'isHealthy' | 'pendingBytes'>
  /** Nothing may be written by this process any more. */
  readonly hasFailed: () => boolean
}

/** Says what may be written. Each question costs some comparisons. */
export class Admission {
  readonly #options: AdmissionOptions

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** Why that cannot be accepted now. Asked for every request, before its body is read. */
  refusal(wish: LogWish): ServiceError | null {
    const reason = this.#reasonAgainstWriting(wish, null)
    return reason === null ? null : refusal(reason)
  }

  /** The same for events of a sender, and again when it is known how much they are. */
  refusalOfEvents(account: SenderAccount, bytes = 0, events = 0): ServiceError | null {
    const { shares, loop } = this.#options
    const isOver = (): boolean => shares.isOverShare(account, loop, bytes, events)
    const reason =
      this.#reasonAgainstWriting('event', account) ?? (isOver() ? 'processing_behind' : null)
    if (reason === null) return null
    // A sender that is alone has nobody to share with.
    if (!SHARED_REASONS.has(reason) || !shares.hasOthers(account.sender)) return refusal(reason)
    shares.refused.queue++
    return refusal('sender_share')
  }

  /** Why no flag can be changed now: events that wait are no reason. */
  refusalOfChanges(): ServiceError | null {
    const isFull = this.#options.disk.isBelowReserve(NOTHING_ACCEPTED)
    if (!this.#options.hasFailed() && !isFull) return null
    return refusal(isFull ? 'changes_disk_full' : 'changes_stopped')
  }

  /** Why no event can be accepted now, as a sentence for those who watch; null when they are. */
  reasonAgainstWriting(): string | null {
    const reason = this.#reasonAgainstWriting('event', this.#options.shares.newcomer)
    return reason === null ? null : reasonText(reason)
  }

  /** Sentences for those who watch while only senders that fill the queue are refused. */
  get troubles(): readonly string[] {
    const reason = this.#reasonAgainstWriting('event', null)
    if (reason === null || this.reasonAgainstWriting() !== null) return []
    return [`${reasonText(reason)} Senders that fill the queue are refused, others are not.`]
  }

  /** Null: nobody is let in beyond a limit. */
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
    // Changes are few, and somebody waits for each: processing hurries for them.
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
