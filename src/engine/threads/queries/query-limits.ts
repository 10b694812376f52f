/** How long a query on a thread may work. */
import type { ScanLimits } from '../../../ports/warehouse.ts'

import type { WorkingMemory } from './working-memory.ts'

/** What a query that somebody waits for works with. */
interface LimitedTools {
  readonly stores: { readonly queryMsMax: number }
  /** Another number than 0: nobody waits any more. */
  readonly cancelled: Int32Array
}

/** The limits of a query. `spentMs`: of the time of the query, what others have spent on it. */
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
