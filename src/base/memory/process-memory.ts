/**
 * The resident memory of this process by what it is for. Pages of files that are mapped, which is how the store is
 * read, are the page cache of the system: it takes them back whenever it needs them, so they are told apart.
 */
import { readFileSync } from 'node:fs'

/** Resident bytes. */
export interface ProcessMemory {
  readonly residentBytes: number
  /** Heaps, buffers, stacks: what the budget is about. */
  readonly anonymousBytes: number
  /** Of mapped files: the program and the store. */
  readonly fileBytes: number
}

/** What this thread read last. */
let known: ProcessMemory = { residentBytes: 0, anonymousBytes: 0, fileBytes: 0 }

/**
 * Returns the memory that the process has now. If the system does not report what it is for, everything counts as
 * anonymous. If it cannot be read, for example because no file can be opened, the result is what was read before.
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
 * Returns what `process.memoryUsage()` returns. If that throws, because it needs a file descriptor and none is left, the
 * result is what it returned before in this thread.
 */
export function memoryUsage(): NodeJS.MemoryUsage {
  try {
    knownUsage = process.memoryUsage()
  } catch {
    // The figures are a little old then.
  }
  return knownUsage
}
