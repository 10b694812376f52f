/**
 * The CPU priority of the processing thread. It matters when the processing thread and the main thread need the same
 * CPU core.
 */
import { constants, getPriority, setPriority } from 'node:os'

/**
 * By how much the niceness of the processing thread is raised, so that accepting events has priority when all cores are
 * busy.
 */
export const PROCESSING_NICENESS = 15
/**
 * By how much the niceness is raised if this process has no right to lower it again later. With 15, a main thread that
 * is never idle would leave processing no CPU time.
 */
export const STEADY_NICENESS = 5

/** True if this thread has the right to raise its priority again after lowering it. Null until this was tried. */
let mayRaise: boolean | null = null

/**
 * Sets the priority of the calling thread, which must be the processing thread. If processing is late, the thread gets
 * the priority of the main thread, otherwise a lower one. Processing becomes late after `lateInMs` milliseconds. Call
 * the returned function from time to time: it raises the priority when processing has become late. Linux lets a process
 * raise a priority if the process has CAP_SYS_NICE, or if it is a service and `LimitNICE` allows it. Without this
 * right, the priority always stays slightly below that of the main thread.
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

/** Sets the niceness of this thread to that of the main thread plus `more`. Returns whether this succeeded. */
function isSet(more: number): boolean {
  // The ID 0 stands for the calling thread. `process.pid` is also the ID of the main thread.
  const niceness = Math.min(getPriority(process.pid) + more, constants.priority.PRIORITY_LOW)
  try {
    if (getPriority(0) !== niceness) setPriority(0, niceness)
    return true
  } catch {
    return false
  }
}
