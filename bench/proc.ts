/** What Linux knows about a process: CPU time and memory, read from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks a second of /proc/PID/stat; 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100
const KIB = 1024

/** Resident memory, bytes. File pages belong to the page cache and can be taken back at any time. */
export interface Memory {
  readonly anonymousBytes: number
  readonly fileBytes: number
  readonly totalBytes: number
  /** The highest total so far. */
  readonly peakBytes: number
}

/** User and system time of all threads of a process, ended threads included, in seconds. */
export function cpuSeconds(pid: number): number {
  return parseCpuSeconds(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

/** The same by thread, of those that are now not less important than others. */
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
 * CPU time between two looks at the threads of a process, seconds. Who was less important at one of them does not
 * count: processing is as long as it is not late.
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

/** Reads the text of /proc/PID/stat. The command name may hold spaces and brackets. */
export function parseCpuSeconds(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // Fields 14 and 15 of proc(5); the first here is field 3.
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** Reads the text of /proc/PID/status. */
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

/**
 * CPU time of a process and all below it, in seconds: what ended children took is in the figures of those
 * who waited for them. Reads /proc once.
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

/** Parent, and ticks: own user and system, ended children's user and system; null for a process that is gone. */
function statNumbers(pid: number): readonly number[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [1, 11, 12, 13, 14].map((index) => Number(fields[index]))
  } catch {
    return null
  }
}
