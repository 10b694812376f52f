/** The CPU time and memory of a process, read from /proc of Linux. */
import { readdirSync, readFileSync } from 'node:fs'

/** The clock ticks per second in /proc/PID/stat. They are 100 on every Linux that Node supports. */
const TICKS_PER_SECOND = 100
const KIB = 1024

/**
 * The resident memory in bytes. The pages of files belong to the page cache, and the system can reclaim them at any
 * time.
 */
export interface Memory {
  readonly anonymousBytes: number
  readonly fileBytes: number
  readonly totalBytes: number
  /** The largest total so far. */
  readonly peakBytes: number
}

/** Returns the user and system time of all threads of a process in seconds. It includes threads that have ended. */
export function cpuSeconds(pid: number): number {
  return parseCpuSeconds(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

/** Returns the CPU time of each thread of a process, without the threads whose priority is lowered now. */
export function urgentThreads(pid: number): ReadonlyMap<string, number> {
  const threads = new Map<string, number>()
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
    // The niceness is field 19 of proc(5).
    const niceness = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
    if (niceness === 0) threads.set(thread, parseCpuSeconds(stat))
  }
  return threads
}

/**
 * Returns the CPU seconds between two readings of the threads of a process. A thread whose priority was lowered at one
 * of them does not count. Processing has a lower priority unless it is late.
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

/** Parses the text of /proc/PID/stat. The name of the command may contain spaces and brackets. */
export function parseCpuSeconds(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // These are fields 14 and 15 of proc(5). `fields` begins with field 3.
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

/** Returns the user and system time of all children of this process that have ended, in seconds. */
export function endedChildrenCpuSeconds(): number {
  const [, , , children = 0, childrenSystem = 0] = statNumbers(process.pid) ?? []
  return (children + childrenSystem) / TICKS_PER_SECOND
}

/**
 * Returns the CPU seconds of a process and all its descendants. The time of children that have ended is included in the
 * figures of the parents that waited for them. It reads /proc once.
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

/**
 * Returns the parent of a process, and its ticks: the user and system time of the process itself and of its children
 * that have ended. Returns null for a process that has ended.
 */
function statNumbers(pid: number): readonly number[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [1, 11, 12, 13, 14].map((index) => Number(fields[index]))
  } catch {
    return null
  }
}
