/** The priority of the processing thread relative to the front, if both need the same CPU core. */
import { constants, getPriority, setPriority } from 'node:os'

/** The increment of the processing thread's niceness, so that accepting has priority when the cores are busy. */
export const PROCESSING_NICENESS = 15
/** The increment if it cannot be undone: beside a front that is never idle, 15 would starve processing. */
export const STEADY_NICENESS = 5

/** True if this thread may raise its priority again; null until it was tried. */
let mayRaise: boolean | null = null

/**
 * Sets the priority of the calling processing thread: equal to the front if processing is late, otherwise lower.
 * Processing becomes late in `lateInMs`; the returned function checks this time. Linux allows raising a priority with
 * CAP_SYS_NICE, and for services within `LimitNICE`. Without that right, the priority stays slightly lower.
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

/** Gives this thread `more` niceness than the front. Returns true if it has it now. */
function isSet(more: number): boolean {
  // `process.pid` is also the number of the main thread; 0 is the calling thread.
  const niceness = Math.min(getPriority(process.pid) + more, constants.priority.PRIORITY_LOW)
  try {
    if (getPriority(0) !== niceness) setPriority(0, niceness)
    return true
  } catch {
    return false
  }
}
