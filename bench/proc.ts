/** What Linux knows about a process: CPU time and memory, read from /proc. */
import { readFileSync } from 'node:fs'

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
