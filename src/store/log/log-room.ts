/**
 * Limits how much of the disk the files of a log may take. The rest must be enough for processing, which stores the
 * accepted events.
 */
import { statfsSync } from 'node:fs'
import type { DiskRoom } from '../../base/disk-room.ts'
import { LOG_DISK_LEFT_BYTES_MIN, LOG_FILE_BYTES_MAX, LOG_FILE_BYTES_MIN } from './limits.ts'

/**
 * A new file may take at most one eighth of the free space, because three or four files exist at a time while events
 * arrive fast.
 */
const FILE_DIVISOR = 8

/** Answers how much disk space the files of a log may take. */
export class LogRoom {
  readonly folder: string
  readonly #disk: DiskRoom

  constructor(folder: string, disk: DiskRoom) {
    this.folder = folder
    this.#disk = disk
  }

  /** The number of bytes that new files may take now. Throws errors of the file system. */
  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.folder)
    const { promisedBytes, insideBytes } = this.#disk
    const promised = promisedBytes === 0 ? LOG_DISK_LEFT_BYTES_MIN : promisedBytes - insideBytes
    return bavail * bsize - Math.max(0, promised)
  }

  /** Returns the maximum size of a new file for the current free space, in bytes. */
  fileBytesMax(): number {
    const share =
      Math.floor(this.freeBytes / FILE_DIVISOR / LOG_FILE_BYTES_MIN) * LOG_FILE_BYTES_MIN
    return Math.max(LOG_FILE_BYTES_MIN, Math.min(LOG_FILE_BYTES_MAX, share))
  }
}
