/**
 * Identifies processes: tells whether two processes are in the same pid namespace, and whether a process still runs.
 */
import { readFileSync, readlinkSync } from 'node:fs'

/**
 * Returns the name of the pid namespace of this process, such as `pid:[4026531836]`. If two processes have the same
 * name, a process number means the same process to both. Returns null if the namespace is unknown. Systems other than
 * Linux have one namespace.
 */
export function ownPidNamespace(): string | null {
  if (process.platform !== 'linux') return 'pid:[all]'
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return null
  }
}

/** Returns the start time of this process, in the form of `startTimeOf`. */
export function ownStartTime(): string | null {
  return startTimeIn('/proc/self/stat')
}

/**
 * Returns the start time of a process, in ticks since the machine started. Returns null if there is no such process, if
 * it is a zombie, or if it is hidden because it belongs to another user or runs in another pid namespace.
 */
export function startTimeOf(pid: number): string | null {
  return startTimeIn(`/proc/${pid}/stat`)
}

function startTimeIn(path: string): string | null {
  let stat: string
  try {
    stat = readFileSync(path, 'latin1')
  } catch {
    return null
  }
  // The second field is the name of the program in parentheses and may contain any character. So the other fields are
  // those after the last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = ''] = fields
  return state === 'Z' || state === 'X' ? null : (fields[19] ?? null)
}

/**
 * Returns a name for a folder that identifies this process, in the form `NAMESPACE-PID-START` (see `hasProcessEnded`).
 */
export function ownProcessName(): string {
  return [namespaceNumber(), process.pid, ownStartTime() ?? 0].join('-')
}

/**
 * Returns whether the process that `name` identifies has ended. `name` comes from `ownProcessName`. Returns null if the
 * process runs in another pid namespace, because such a process is not visible here.
 */
export function hasProcessEnded(name: string): boolean | null {
  const [namespace, pid, startTime] = name.split('-')
  if (namespace !== namespaceNumber()) return null
  return startTimeOf(Number(pid)) !== startTime
}

function namespaceNumber(): string {
  return /\d+/.exec(ownPidNamespace() ?? '')?.[0] ?? '0'
}
