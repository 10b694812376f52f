/** The free and total space of file systems. */
import { statfs } from 'node:fs/promises'
import { OperatorError } from './errors.ts'

/** The bytes that must be free before a command writes to a store. The command itself needs only a few pages. */
const COMMAND_BYTES = 16 * 1024 ** 2

/** The space of a file system: the bytes that this process can still write, and the total size. */
export interface DiskSpace {
  readonly freeBytes: number
  readonly sizeBytes: number
}

/** Returns the space of the file system that contains a folder. Throws the errors of `statfs`. */
export async function diskSpace(path: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(path)
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize }
}

/** Throws `OperatorError` if the disk is too full for a command that is about to write. */
export async function requireFreeDisk(path: string): Promise<void> {
  const { freeBytes } = await diskSpace(path)
  if (freeBytes >= COMMAND_BYTES) return
  const freeMib = Math.floor(freeBytes / 1024 ** 2)
  throw new OperatorError(
    `The disk of ${path} is nearly full (${freeMib} MiB free). Free at least ` +
      `${COMMAND_BYTES / 1024 ** 2} MiB.`,
  )
}
