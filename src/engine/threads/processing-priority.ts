/** How the processing thread stands against the front when both want a core. */
import { constants, getPriority, setPriority } from 'node:os'

/** Added to the niceness of the processing thread, so that accepting comes first when the cores are busy. */
export const PROCESSING_NICENESS = 15

/**
 * Called on the processing thread: gives it the priority of the front while it is late, so that a full
 * machine does not starve it, and the lower one otherwise. Linux knows priorities of threads, and allows
 * raising them to root and within `LimitNICE` of a service; elsewhere the thread stays as it was started.
 */
export function setProcessingPriority(isLate: boolean): void {
  if (process.platform !== 'linux') return
  // That of the main thread, whose number is the process's; 0 is the thread that asks.
  const front = getPriority(process.pid)
  const niceness = isLate
    ? front
    : Math.min(front + PROCESSING_NICENESS, constants.priority.PRIORITY_LOW)
  if (getPriority(0) === niceness) return
  try {
    setPriority(0, niceness)
  } catch {
    // Not allowed: what is accepted is bounded by the lag all the same.
  }
}
