/**
 * Memory that several threads keep together: each has a share of its own, and beyond it what the others leave of all
 * there is. Who keeps more than its share finds out when it looks the next time.
 */

/** What a thread is told of it. */
export interface BudgetShare {
  readonly bytesMax: number
  readonly shareBytes: number
  /** In shared memory: what each thread keeps, KiB. */
  readonly kept: Int32Array
  /** The number of the thread. */
  readonly index: number
}

const KIB = 1024

/** The shares of so many threads, which are alike. */
export function budgetShares(bytesMax: number, threads: number): readonly BudgetShare[] {
  const kept = new Int32Array(new SharedArrayBuffer(threads * Int32Array.BYTES_PER_ELEMENT))
  const shareBytes = Math.floor(bytesMax / threads)
  return Array.from({ length: threads }, (_, index) => ({ bytesMax, shareBytes, kept, index }))
}

/** That of a thread that is alone. */
export function onlyShare(bytesMax: number): BudgetShare {
  return { bytesMax, shareBytes: bytesMax, kept: new Int32Array(1), index: 0 }
}

/** Says that the thread keeps so many bytes; how many it may. Linear in the threads. */
export function budgetOf(
  { bytesMax, shareBytes, kept, index }: BudgetShare,
  bytes: number,
): number {
  Atomics.store(kept, index, Math.ceil(bytes / KIB))
  let others = 0
  for (let other = 0; other < kept.length; other++) {
    if (other !== index) others += Atomics.load(kept, other)
  }
  return Math.max(shareBytes, bytesMax - others * KIB)
}
