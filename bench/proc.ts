/** Information of Linux about a process: CPU time and memory, read from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks per second in /proc/PID/stat; 100 on every Linux that Node supports. */
const TICKS_PER_SECOND = 100
const KIB = 1024

/** Resident memory in bytes. File pages belong to the page cache and can be reclaimed at any time. */
export interface Memory {
  readonly anonymousBytes: number
  readonly fileBytes: number
  readonly totalBytes: number
  /** The maximum of the total so far. */
  readonly peakBytes: number
}

/** User and system time in seconds of all threads of a process, including ended threads. */
export function cpuSeconds(pid: number): number {
  return parseCpuSeconds(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

/** The CPU time by thread, of the threads that do not have a lower priority now. */
export function urgentThreads(pid: number): ReadonlyMap<string, number> {
  const threads = new Map<string, number>()
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
    // Field 19 of proc(5).
    const niceness = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
    if (niceness === 0) threads.set(thread, parseCpuSeconds(stat))
  }
  return threads
}

/**
 * CPU seconds between two readings of a process's threads. A thread with a lower priority at one of them does not
 * count. Processing has a lower priority while it is not late.
 */
export function urgentCpuSeconds(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): number {
  let seconds = 0
  for (const [thread, then] of before) seconds += (after.get(thread) ?? then) - then
  return seconds
}

export function memory(pid: number): Memory {
  return parseMemory(readFileSync(`/proc/${pid}/status`, 'utf8'))
}

/** Parses the text of /proc/PID/stat. The command name may contain spaces and brackets. */
export function parseCpuSeconds(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // Fields 14 and 15 of proc(5). The first one here is field 3.
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** Parses the text of /proc/PID/status. */
export function parseMemory(status: string): Memory {
  const read = (name: string): number => {
    const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)
    return Number(match?.[1] ?? 0) * KIB
  }
  return {
    anonymousBytes: read('RssAnon'),
    fileBytes: read('RssFile'),
    totalBytes: read('VmRSS'),
    peakBytes: read('VmHWM'),
  }
}

/** User and system time in seconds of all children of this process that have ended. */
export function endedChildrenCpuSeconds(): number {
  const [, , , children = 0, childrenSystem = 0] = statNumbers(process.pid) ?? []
  return (children + childrenSystem) / TICKS_PER_SECOND
}

/**
 * CPU seconds of a process and all its descendants. The time of ended children is included in the figures of the
 * parents that waited for them. Reads /proc once.
 */
export function treeCpuSeconds(pid: number): number {
  const stats = new Map<number, readonly number[]>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const numbers = statNumbers(Number(name))
    if (numbers !== null) stats.set(Number(name), numbers)
  }
  const family = new Set([pid])
  for (let size = 0; size !== family.size; ) {
    size = family.size
    for (const [child, [parent = 0]] of stats) if (family.has(parent)) family.add(child)
  }
  let ticks = 0
  for (const member of family) {
    const [, own = 0, ownSystem = 0, children = 0, childrenSystem = 0] = stats.get(member) ?? []
    ticks += own + ownSystem + children + childrenSystem
  }
  return ticks / TICKS_PER_SECOND
}

/** The parent, and ticks: own user and system time, and those of ended children. Null for a process that has ended. */
function statNumbers(pid: number): readonly number[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [1, 11, 12, 13, 14].map((index) => Number(fields[index]))
  } catch {
    return null
  }
}
