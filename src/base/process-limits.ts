/**
 * The limits of the operating system for this process. They are checked before anything is loaded or written, because a
 * limit that is too low shows later as an unrelated error or as the end of the process.
 *
 * This file imports no other source file: with few file descriptors, the rest of the program cannot be read either.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** The number of files that a command has open at the same time. Most of them are its own code. */
const COMMAND_FILES = 56
/** The number of files that a daemon with one reading thread has open, and the number that each further thread adds. */
const DAEMON_FILES = 60
const THREAD_FILES = 4
/** If the limit of open files is at least this, open files are not counted, because the limit is then far away. */
const PLENTY_FILES = 4096
/** The address space that every command needs, in GiB. Each WebAssembly memory reserves about 10 GiB. */
const COMMAND_ADDRESSES_GIB = 64
/**
 * The address space that a process with an open store needs, in GiB. Two data files are mapped with 256 GiB each. The
 * rest is for Node.
 */
export const STORE_ADDRESSES_GIB = 640
const GIB = 1024 ** 3

/** Returns the soft limit of open files of this process, or Infinity if the system does not report it. */
export function openFilesMax(): number {
  return limitOf('Max open files')
}

/** Returns how many files and connections this process can still open, or Infinity if the system does not report it. */
export function openFilesLeft(): number {
  const filesMax = openFilesMax()
  if (filesMax >= PLENTY_FILES) return filesMax
  try {
    return filesMax - readdirSync('/proc/self/fd').length
  } catch {
    // Not even the folder could be opened, so no descriptor is left.
    return 0
  }
}

/** Returns how many files a daemon with this number of reading threads has open, not counting its connections. */
export function filesOfDaemon(readingThreads: number): number {
  return DAEMON_FILES + THREAD_FILES * (readingThreads - 1)
}

/** Returns a sentence that says why no command can run in this process, or null. */
export function commandObstacle(): string | null {
  return filesMissing() ?? addressesMissing(COMMAND_ADDRESSES_GIB)
}

/** Returns a sentence that says why this process can open too few files, or null. */
export function filesMissing(filesNeeded = COMMAND_FILES): string | null {
  const files = openFilesMax()
  if (files >= filesNeeded) return null
  return (
    `The limit of open files is ${files}, but at least ${filesNeeded} are needed. Raise it with \`ulimit -n 65536\`, ` +
    'or with LimitNOFILE=65536 in the service file. Nothing was changed.'
  )
}

/** Returns a sentence that says why this process cannot reserve enough addresses to open a store, or null. */
export function addressesMissing(neededGib = STORE_ADDRESSES_GIB): string | null {
  const bytes = limitOf('Max address space')
  if (bytes >= neededGib * GIB) return null
  return (
    `The limit of address space is ${Math.floor(bytes / GIB)} GiB, but at least ${neededGib} GiB are needed. ` +
    'Remove the limit with `ulimit -v unlimited`, or with LimitAS=infinity in the service file. Data files reserve ' +
    'addresses to grow, which takes no memory. To limit memory, set MemoryMax= in the service file. Nothing was changed.'
  )
}

function limitOf(name: string): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const soft = new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(limits)?.[1]
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
