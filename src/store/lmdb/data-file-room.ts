/**
 * Makes sure that LMDB never writes to a full disk. If the write of a page fails, lmdb-js formats a message into a
 * buffer that can be too short, and damages the heap of the process. A transaction may therefore commit only if the
 * data file already has enough room for every page that the transaction can write:
 *
 *     | pages up to the last one, in use or free | zeros, which no other file can take |
 *                                                ^ LMDB appends here
 *
 * Before the commit, zeros are written after the last page. This happens inside the write transaction, when no other
 * process can write to the file. If the disk has no room, writing the zeros fails instead of the commit, and the
 * transaction is rolled back. The zeros do no harm, because LMDB never reads a page after the last one.
 *
 * While the disk has plenty of free space, nothing of this is done.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { CUT_FOR_BYTES_MAX } from './limits.ts'

/** Zeros are written in multiples of this many bytes, so that not every transaction has to write some. */
const STEP_BYTES = 256 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)
const BLOCK_BYTES = 512
/** Zeros are cut off the end of the file in multiples of this many bytes. */
const CUT_STEP_BYTES = 4096
/**
 * File systems that write each changed page to a new location. Zeros in the file reserve no space on them, so the disk
 * itself must have free space. The numbers are from linux/magic.h and the sources of ZFS and bcachefs.
 */
const COPYING_FILE_SYSTEMS: ReadonlySet<number> = new Set([0x9123683e, 0x2fc12fc1, 0xca451a4e])
/** The number of free bytes that such a file system needs for each written byte, including its own metadata. */
const COPYING_FACTOR = 2

/** The room inside one data file. */
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
   * The number of bytes that this process could still write to the disk. All members of this class throw errors of the
   * file system.
   */
  get freeDiskBytes(): number {
    return this.#disk().freeBytes
  }

  /** Returns the number of bytes of the file after its last used page, which ends at `usedBytes`. */
  insideBytes(usedBytes: number): number {
    return Math.max(0, fstatSync(this.#descriptor()).size - usedBytes)
  }

  /**
   * Ensures that pages of `bytes` bytes can be written to a file whose last page ends at `usedBytes`. Throws an error
   * with the code ENOSPC if they cannot. Call it only within a write transaction, or while no other process writes.
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
   * Cuts `bytes` zero bytes, rounded up, off the end of a file of `size` bytes. Throws ENOSPC if the rounded number is
   * more than `spareBytes`.
   */
  #cut(size: number, bytes: number, spareBytes: number): void {
    const rounded = Math.ceil(bytes / CUT_STEP_BYTES) * CUT_STEP_BYTES
    if (rounded > spareBytes) throw noSpace(bytes)
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
 * Returns an error with the text that the file system uses for a full disk, so that another thread also recognizes it
 * as such.
 */
function noSpace(bytes: number): Error {
  const text = `ENOSPC: no space left on device, write (${Math.ceil(bytes)} bytes for the data file)`
  return Object.assign(new Error(text), { code: 'ENOSPC', syscall: 'write' })
}
