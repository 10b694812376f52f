/**
 * Makes sure that LMDB never writes to a full disk. If LMDB fails to write a page, lmdb-js writes an error message into
 * a buffer that can be too short, and damages the heap of the process. A transaction may therefore commit only if the
 * data file already has enough room for every page that the transaction can write:
 *
 *     | pages up to the last one, in use or free | zeros, which no other file can take |
 *                                                ^ LMDB appends here
 *
 * Before the commit, zeros are written after the last page. This happens inside the write transaction, when no other
 * process can write to the file. If the disk has no room, writing the zeros fails instead of the commit, and the
 * transaction is rolled back. The zeros do no harm, because LMDB never reads a page after the last one.
 *
 * While the disk has plenty of free space, all of this is skipped.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { CUT_FOR_BYTES_MAX } from './limits.ts'

/** The unit in which zeros are written, in bytes. It is so large that not every transaction has to write zeros. */
const STEP_BYTES = 256 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)
const BLOCK_BYTES = 512
/** The unit in which zeros are cut off the end of the file, in bytes. */
const CUT_STEP_BYTES = 4096
/**
 * File systems that write each changed page to a new location. Zeros in the file reserve no space on them, so the disk
 * itself must have free space. The numbers are from linux/magic.h and the sources of ZFS and bcachefs.
 */
const COPYING_FILE_SYSTEMS: ReadonlySet<number> = new Set([0x9123683e, 0x2fc12fc1, 0xca451a4e])
/**
 * The number of free bytes that a file system in `COPYING_FILE_SYSTEMS` needs for each written byte, including its own
 * metadata.
 */
const COPYING_FACTOR = 2

/** The space in one data file, and on its disk, for the pages that a transaction writes. */
export class DataFileRoom {
  readonly #folder: string
  /**
   * The descriptor of the file. The file is opened when it is first needed, because the process may have few
   * descriptors left.
   */
  #opened: number | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * The free disk space that this process may use, in bytes. This and all other members of the class may throw errors
   * of the file system.
   */
  get freeDiskBytes(): number {
    return this.#disk().freeBytes
  }

  /** Returns the number of bytes between the last used page, which ends at `usedBytes`, and the end of the file. */
  insideBytes(usedBytes: number): number {
    return Math.max(0, fstatSync(this.#descriptor()).size - usedBytes)
  }

  /**
   * Makes sure that a transaction can write pages with `bytes` bytes in total. `usedBytes` is the offset at which the
   * last page of the file ends. Throws an error with the code ENOSPC if there is not enough room. Call it only within a
   * write transaction, or while no other process writes.
   */
  require(bytes: number, usedBytes: number): void {
    const { freeBytes, isCopying } = this.#disk()
    if (isCopying) {
      if (freeBytes < bytes * COPYING_FACTOR) throw noSpace(bytes)
      return
    }
    const { size, blocks } = fstatSync(this.#descriptor())
    const holeBytes = Math.min(bytes, Math.max(0, size - blocks * BLOCK_BYTES))
    const missingBytes = bytes - holeBytes - Math.max(0, size - usedBytes)
    if (Math.max(0, missingBytes) + holeBytes > freeBytes) {
      this.#cut(size, holeBytes - freeBytes, bytes > CUT_FOR_BYTES_MAX ? 0 : -missingBytes)
      if (holeBytes > this.#disk().freeBytes) throw noSpace(holeBytes)
    } else if (missingBytes > 0) {
      const rounded = Math.ceil(missingBytes / STEP_BYTES) * STEP_BYTES
      this.#extend(size, rounded <= freeBytes - holeBytes ? rounded : missingBytes)
    }
  }

  close(): void {
    if (this.#opened !== null) closeSync(this.#opened)
    this.#opened = null
  }

  #descriptor(): number {
    this.#opened ??= openSync(join(this.#folder, 'data.mdb'), 'r+')
    return this.#opened
  }

  #disk(): { readonly freeBytes: number; readonly isCopying: boolean } {
    const { bavail, bsize, type } = statfsSync(this.#folder)
    return { freeBytes: bavail * bsize, isCopying: COPYING_FILE_SYSTEMS.has(type) }
  }

  /**
   * Cuts at least `bytes` bytes of zeros off the end of a file of `size` bytes, in multiples of `CUT_STEP_BYTES`. At
   * most `spareBytes` bytes may be cut off. If that is not enough, throws ENOSPC.
   */
  #cut(size: number, bytes: number, spareBytes: number): void {
    const rounded = Math.ceil(bytes / CUT_STEP_BYTES) * CUT_STEP_BYTES
    if (rounded > spareBytes) throw noSpace(bytes - spareBytes)
    ftruncateSync(this.#descriptor(), size - rounded)
  }

  #extend(position: number, bytes: number): void {
    let written = 0
    while (written < bytes) {
      const length = Math.min(ZEROS.length, bytes - written)
      const count = writeSync(this.#descriptor(), ZEROS, 0, length, position + written)
      if (count === 0) throw noSpace(length)
      written += count
    }
  }
}

/**
 * Returns an error with the same text as an error of the file system about a full disk. Errors that come from another
 * thread are recognized by their text.
 */
function noSpace(bytes: number): Error {
  const text = `ENOSPC: no space left on device, write (${Math.ceil(bytes)} bytes for the data file)`
  return Object.assign(new Error(text), { code: 'ENOSPC', syscall: 'write' })
}
