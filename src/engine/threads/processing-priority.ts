/** How the processing thread stands against the front when both want a core. */
import { constants, getPriority, setPriority } from 'node:os'

/** Added to the niceness of the processing thread, so that accepting comes first when the cores are busy. */
export const PROCESSING_NICENESS = 15

/**
 * Gives the processing thread, which calls it, the front's priority when it is late, else the lower one, until
 * it is late: in `lateInMs`, which the function that is answered looks at. Linux lets those raise
 * priorities who have CAP_SYS_NICE, and services within `LimitNICE`; elsewhere it stays a little lower.
 */
export function watchPriority(lateInMs: number): () => void {
  let lateAtMs = performance.now() + lateInMs
  setPriorityOfThread(lateInMs <= 0)
  return () => {
    if (performance.now() < lateAtMs) return
    lateAtMs = Number.POSITIVE_INFINITY
    setPriorityOfThread(true)
  }
}

function setPriorityOfThread(isLate: boolean): void {
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
