/** Processes as this process sees them: which numbers mean the same, and who is still there. */
import { readFileSync, readlinkSync } from 'node:fs'

/**
 * Names the pid namespace, such as `pid:[4026531836]`: two processes with the same name see the same
 * process under a number. Null when it cannot be told, and then it is equal to none. Systems other than
 * Linux have one.
 */
export function ownPidNamespace(): string | null {
  if (process.platform !== 'linux') return 'pid:[all]'
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return null
  }
}

/** When this process started, as `startTimeOf`. */
export function ownStartTime(): string | null {
  return startTimeIn('/proc/self/stat')
}

/**
 * When a process started, in ticks since the machine did; null when there is no such process, when it
 * is a zombie, or when it is hidden from us: by its user, or in another pid namespace.
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
  // The second field is the program's name in parentheses and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = ''] = fields
  return state === 'Z' || state === 'X' ? null : (fields[19] ?? null)
}

/** `NAMESPACE-PID-START`: this process in the name of a folder, for `hasProcessEnded`. */
export function ownProcessName(): string {
  return [namespaceNumber(), process.pid, ownStartTime() ?? 0].join('-')
}

/** Whether the process with such a name is gone; null when it lives in a pid namespace that we cannot look into. */
export function hasProcessEnded(name: string): boolean | null {
  const [namespace, pid, startTime] = name.split('-')
  if (namespace !== namespaceNumber()) return null
  return startTimeOf(Number(pid)) !== startTime
}

function namespaceNumber(): string {
  return /\d+/.exec(ownPidNamespace() ?? '')?.[0] ?? '0'
}
