/**
 * Whether events and changes may be written now: the reasons against it, in the order in which they are
 * looked for. What each answers stands in base/refusals.ts.
 */
import type { ServiceError } from '../../base/errors.ts'
import { type RefusalReason, reasonText, refusal } from '../../base/refusals.ts'
import type { DiskGuard } from './disk-guard.ts'
import type { GroupCommit } from './group-commit.ts'
import type { ProcessingLoop } from './processing-loop.ts'

/** What waits in the log counts as this part of what is not written at all: it grows less. */
const LOGGED_PART = 0.25

/** What somebody wants to write to the log: events, a change of persons, or one that gives space back. */
export type LogWish = 'event' | 'change' | 'erasing'

/** What decides. */
export interface AdmissionOptions {
  readonly settings: { readonly inFlightBytesMax: number; readonly backlogBytesMax: number }
  readonly disk: Pick<DiskGuard, 'isBelowFloor' | 'isBelowReserve'>
  /** Bodies that are being received. */
  readonly budget: { readonly bytesInFlight: number }
  readonly loop: Pick<ProcessingLoop, 'backlogBytes' | 'isBehind'>
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
    const reason = this.#reasonAgainstWriting(wish)
    return reason === null ? null : refusal(reason)
  }

  /** Why no flag can be changed now: events that wait are no reason. */
  refusalOfChanges(): ServiceError | null {
    const isFull = this.#options.disk.isBelowReserve(0)
    if (!this.#options.hasFailed() && !isFull) return null
    return refusal(isFull ? 'changes_disk_full' : 'changes_stopped')
  }

  /** Why no event can be accepted now, as a sentence for those who watch; null when they are. */
  reasonAgainstWriting(): string | null {
    const reason = this.#reasonAgainstWriting('event')
    return reason === null ? null : reasonText(reason)
  }

  #reasonAgainstWriting(wish: LogWish): RefusalReason | null {
    const { settings, disk, budget, loop, groupCommit, hasFailed } = this.#options
    if (hasFailed()) return 'store_failed'
    if (!groupCommit.isHealthy) return 'disk_silent'
    const { pendingBytes } = groupCommit
    if (pendingBytes > settings.inFlightBytesMax) return 'disk_queue_full'
    if (loop.backlogBytes > settings.backlogBytesMax) return 'log_backlog'
    const bytes = pendingBytes + budget.bytesInFlight + loop.backlogBytes * LOGGED_PART
    const isFull = wish === 'erasing' ? disk.isBelowFloor(bytes) : disk.isBelowReserve(bytes)
    if (isFull) return 'disk_full'
    // Changes are few, and somebody waits for each: processing hurries for them.
    return wish === 'event' && loop.isBehind ? 'processing_behind' : null
  }
}
