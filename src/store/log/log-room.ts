/**
 * How much of the disk the files of a log may take: what processing needs of it to store what was accepted stays free.
 */
import { statfsSync } from 'node:fs'
import type { DiskRoom } from '../../base/disk-room.ts'
import { LOG_DISK_LEFT_BYTES_MIN, LOG_FILE_BYTES_MAX, LOG_FILE_BYTES_MIN } from './limits.ts'

/** The part of the room that a new file may take: there are three or four while events come in fast. */
const FILE_DIVISOR = 8

/** The room of one log. */
export class LogRoom {
  readonly folder: string
  readonly #disk: DiskRoom

  constructor(folder: string, disk: DiskRoom) {
    this.folder = folder
    this.#disk = disk
  }

  /** Bytes that new files may take now. Throws what the file system throws. */
  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.folder)
    const { promisedBytes, insideBytes } = this.#disk
    const promised = promisedBytes === 0 ? LOG_DISK_LEFT_BYTES_MIN : promisedBytes - insideBytes
    return bavail * bsize - Math.max(0, promised)
  }

  /** Bytes of the largest file that suits the disk. */
  fileBytesMax(): number {
    const share =
      Math.floor(this.freeBytes / FILE_DIVISOR / LOG_FILE_BYTES_MIN) * LOG_FILE_BYTES_MIN
    return Math.max(LOG_FILE_BYTES_MIN, Math.min(LOG_FILE_BYTES_MAX, share))
  }
}
