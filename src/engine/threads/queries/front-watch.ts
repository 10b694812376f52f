/**
 * How threads for analytics give way to the front. A thread that wakes up takes the place of none that works,
 * however nice that is, until its slice of some milliseconds is over (Linux since 6.6): with as many busy
 * threads as cores, requests wait that long. So while requests come, these threads rest after each short
 * piece of work, which hands the core to whoever waits for it.
 */

import type { ScanLimits } from '../../../ports/warehouse.ts'

/** A piece of work, milliseconds; it ends at the next look at the limits of a query. */
const PIECE_MS = 0.5
/** A rest: what the timers of the kernel add is most of it. */
const REST_MS = 0.02
/** The front is at work until no request came for so long. */
const QUIET_MS = 50

/** Looks at the requests of the front, and rests. */
export class FrontWatch {
  readonly #requests: Int32Array
  readonly #nobody = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  #seen = 0
  #lastMs = Number.NEGATIVE_INFINITY
  #pieceStartMs = 0

  /** `requests`: shared with the front, which counts the requests of SDKs there. */
  constructor(requests: Int32Array) {
    this.#requests = requests
  }

  /** Whether a request has come lately; `nowMs` by the clock of `performance.now()`. */
  isAtWork(nowMs: number): boolean {
    const requests = Atomics.load(this.#requests, 0)
    if (requests !== this.#seen) {
      this.#seen = requests
      this.#lastMs = nowMs
    }
    return nowMs - this.#lastMs < QUIET_MS
  }

  /** Rests when it is time to. Call it often: it costs some 50 ns. */
  giveWay(): void {
    const nowMs = performance.now()
    if (nowMs - this.#pieceStartMs < PIECE_MS) return
    if (this.isAtWork(nowMs)) Atomics.wait(this.#nobody, 0, 0, REST_MS)
    this.#pieceStartMs = performance.now()
  }
}

/** What a query that gives way to the front works with. */
interface LimitedTools {
  readonly stores: { readonly queryMsMax: number; readonly front: FrontWatch }
  /** Another number than 0: nobody waits any more. */
  readonly cancelled: Int32Array
}

/**
 * The limits of a query whose thread gives way to the front. `spentMs`: of the time of the query, what others
 * have spent on it.
 */
export function queryLimits({ stores, cancelled }: LimitedTools, spentMs = 0): ScanLimits {
  return {
    deadlineMs: performance.now() + stores.queryMsMax - spentMs,
    isCancelled: () => {
      stores.front.giveWay()
      return Atomics.load(cancelled, 0) !== 0
    },
  }
}
