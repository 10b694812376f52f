/** The space of file systems. */
import { statfs } from 'node:fs/promises'
import { OperatorError } from './errors.ts'

/** What a command wants to be free before it writes its few pages. */
const COMMAND_BYTES = 16 * 1024 ** 2

/** A file system: bytes that this process could still write, and all that it can hold. */
export interface DiskSpace {
  readonly freeBytes: number
  readonly sizeBytes: number
}

/** The space of the file system of a folder. Throws what `statfs` throws. */
export async function diskSpace(path: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(path)
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize }
}

/**
 * Refuses a command that is about to write to a disk that is nearly full. Throws `OperatorError`.
 */
export async function requireFreeDisk(path: string): Promise<void> {
  const { freeBytes } = await diskSpace(path)
  if (freeBytes >= COMMAND_BYTES) return
  const freeMib = Math.floor(freeBytes / 1024 ** 2)
  throw new OperatorError(
    `the disk of ${path} is nearly full (${freeMib} MiB free): make room, at least ` +
      `${COMMAND_BYTES / 1024 ** 2} MiB`,
  )
}
