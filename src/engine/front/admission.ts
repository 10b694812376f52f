/**
 * Whether events and changes may be written now. Every reason to answer 503 before anything is written
 * stands here, in the order in which it is looked for.
 */
import { ServiceError } from '../../base/errors.ts'
import type { DiskGuard } from './disk-guard.ts'
import type { GroupCommit } from './group-commit.ts'
import type { ProcessingLoop } from './processing-loop.ts'

const RETRY_AFTER_SECONDS = 5
/** What waits in the log counts as this part of what is not written at all: it grows less. */
const LOGGED_PART = 0.25

/** What decides. */
export interface AdmissionOptions {
  readonly settings: { readonly inFlightBytesMax: number; readonly backlogBytesMax: number }
  readonly disk: Pick<DiskGuard, 'isBelowFloor' | 'isBelowReserve'>
  /** Bodies that are being received. */
  readonly budget: { readonly bytesInFlight: number }
  readonly loop: Pick<ProcessingLoop, 'backlogBytes'>
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

  /** Why no event can be accepted now. Asked for every request, before its body is read. */
  refusal(isErasing = false): ServiceError | null {
    const reason = this.reasonAgainstWriting(isErasing)
    return reason === null ? null : unavailable(`${reason} Send the events again later.`)
  }

  /** Why no flag can be changed now: events that wait are no reason. */
  refusalOfChanges(): ServiceError | null {
    const isFull = this.#options.disk.isBelowReserve(0)
    if (!this.#options.hasFailed() && !isFull) return null
    const reason = isFull ? 'The disk is nearly full.' : 'The store is about to be restarted.'
    return unavailable(`${reason} Try again later.`)
  }

  /** The same as a sentence, for those who watch; null when events are accepted. */
  reasonAgainstWriting(isErasing = false): string | null {
    const { settings, disk, budget, loop, groupCommit, hasFailed } = this.#options
    if (hasFailed()) return 'The store has failed and is about to be restarted.'
    if (!groupCommit.isHealthy) return 'The disk does not answer.'
    const { pendingBytes } = groupCommit
    if (pendingBytes > settings.inFlightBytesMax) return 'Too many events wait for the disk.'
    if (loop.backlogBytes > settings.backlogBytesMax) {
      return 'Too many events wait to be processed.'
    }
    const bytes = pendingBytes + budget.bytesInFlight + loop.backlogBytes * LOGGED_PART
    const isFull = isErasing ? disk.isBelowFloor(bytes) : disk.isBelowReserve(bytes)
    return isFull ? 'The disk is nearly full.' : null
  }
}

function unavailable(detail: string): ServiceError {
  return new ServiceError('server_error', detail, { retryAfterSeconds: RETRY_AFTER_SECONDS })
}
