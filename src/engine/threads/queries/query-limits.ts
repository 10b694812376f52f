/** The time limit of a query on a thread. */
import type { ScanLimits } from '../../../ports/warehouse.ts'

import type { WorkingMemory } from './working-memory.ts'

/** The data from which the limits of a query are made. */
interface LimitedTools {
  readonly stores: { readonly queryMsMax: number }
  /** A word in shared memory. A value other than 0 means that nobody waits for the query any more. */
  readonly canceled: Int32Array
}

/** Returns the limits of a query. `spentMs` is the part of its time limit that other threads have already used. */
export function queryLimits(
  { stores, canceled }: LimitedTools,
  spentMs = 0,
  memory?: WorkingMemory,
): ScanLimits {
  return {
    ...(memory === undefined ? {} : { checkMemory: (nowMs: number) => memory.check(nowMs) }),
    deadlineMs: performance.now() + stores.queryMsMax - spentMs,
    isCanceled: () => Atomics.load(canceled, 0) !== 0,
  }
}
