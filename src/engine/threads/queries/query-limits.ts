/** The time limit of a query on a thread. */
import type { ScanLimits } from '../../../ports/warehouse.ts'

import type { WorkingMemory } from './working-memory.ts'

/** The input of the limits. */
interface LimitedTools {
  readonly stores: { readonly queryMsMax: number }
  /** A number other than 0 means that nobody waits any more. */
  readonly cancelled: Int32Array
}

/** Returns the limits of a query. `spentMs` is the part of its time that other threads have already used. */
export function queryLimits(
  { stores, cancelled }: LimitedTools,
  spentMs = 0,
  memory?: WorkingMemory,
): ScanLimits {
  return {
    ...(memory === undefined ? {} : { checkMemory: (nowMs: number) => memory.check(nowMs) }),
    deadlineMs: performance.now() + stores.queryMsMax - spentMs,
    isCancelled: () => Atomics.load(cancelled, 0) !== 0,
  }
}
