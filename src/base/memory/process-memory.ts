/**
 * The resident memory of this process by purpose. Pages of mapped files, such as those of the store, are counted
 * separately, because the system can drop them whenever it needs memory.
 */
import { readFileSync } from 'node:fs'

/** The resident memory of a process, in bytes. */
export interface ProcessMemory {
  readonly residentBytes: number
  /** Heaps, buffers and stacks: the part that is limited by the memory budget. */
  readonly anonymousBytes: number
  /** Pages of mapped files: the program and the store. */
  readonly fileBytes: number
}

/** The figures that this thread has read last. */
let known: ProcessMemory = { residentBytes: 0, anonymousBytes: 0, fileBytes: 0 }

/**
 * Returns the current memory of the process. If the system does not report how much of it belongs to mapped files, all
 * memory counts as anonymous. If the figures cannot be read, for example because the process has no file descriptor
 * left, returns the figures of the last call.
 */
export function processMemory(): ProcessMemory {
  known = readStatus() ?? readResident() ?? known
  return known
}

function readStatus(): ProcessMemory | null {
  let status: string
  try {
    status = readFileSync('/proc/self/status', 'utf8')
  } catch {
    return null
  }
  const bytesOf = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024
  const anonymousBytes = bytesOf('RssAnon') + bytesOf('RssShmem')
  if (anonymousBytes === 0) return null
  return { residentBytes: bytesOf('VmRSS'), anonymousBytes, fileBytes: bytesOf('RssFile') }
}

function readResident(): ProcessMemory | null {
  try {
    const residentBytes = process.memoryUsage.rss()
    return { residentBytes, anonymousBytes: residentBytes, fileBytes: 0 }
  } catch {
    return null
  }
}

let knownUsage: NodeJS.MemoryUsage = {
  rss: 0,
  heapTotal: 0,
  heapUsed: 0,
  external: 0,
  arrayBuffers: 0,
}

/**
 * Returns `process.memoryUsage()`. That function needs a file descriptor and throws if the process has none left. In
 * that case, returns the last result in this thread.
 */
export function memoryUsage(): NodeJS.MemoryUsage {
  try {
    knownUsage = process.memoryUsage()
  } catch {
    // The result of an earlier call is used. It is slightly out of date.
  }
  return knownUsage
}
