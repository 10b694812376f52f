/** How the processing thread stands against the front when both want a core. */
import { constants, getPriority, setPriority } from 'node:os'

/** Added to the niceness of the processing thread, so that accepting comes first when the cores are busy. */
export const PROCESSING_NICENESS = 15
/** The same where it could not be taken back: beside a front that is never idle, 15 would starve it. */
export const STEADY_NICENESS = 5

/** Whether this thread may raise its priority again; null until it was tried. */
let mayRaise: boolean | null = null

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
  mayRaise ??= isSet(STEADY_NICENESS) && isSet(0)
  if (mayRaise) isSet(isLate ? 0 : PROCESSING_NICENESS)
}

/** Whether this thread has now so much more niceness than the front. */
function isSet(more: number): boolean {
  // That of the main thread, whose number is the process's; 0 is the thread that asks.
  const niceness = Math.min(getPriority(process.pid) + more, constants.priority.PRIORITY_LOW)
  try {
    if (getPriority(0) !== niceness) setPriority(0, niceness)
    return true
  } catch {
    return false
  }
}
