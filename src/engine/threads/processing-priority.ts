/** How the processing thread stands against the front when both want a core. */
import { constants, getPriority, setPriority } from 'node:os'

/** Added to the niceness of the processing thread, so that accepting comes first when the cores are busy. */
export const PROCESSING_NICENESS = 15

/**
 * Gives the processing thread, which calls it, the front's priority while it is late, else the lower one.
 * Linux lets root raise priorities, and services within `LimitNICE`; elsewhere all stays as it was.
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
