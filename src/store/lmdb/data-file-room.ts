/**
 * Prevents LMDB from meeting a full disk. When the write of a page fails, lmdb-js formats a message into memory that
 * can be too short for it, and the heap of the process is damaged. A transaction may therefore commit only if its data
 * file has enough room inside it for every page that the transaction can write:
 *
 *     | pages up to the last one, in use or free | zeros, which no other file can take |
 *                                                ^ LMDB appends here
 *
 * Zeros are written after the last page before the commit, inside the write transaction, when no other process can
 * write to the file. If there is no room for them, writing the zeros fails instead of the commit, and the transaction
 * is rolled back. A long file does no harm, because LMDB never reads a page after the last one.
 *
 * None of this is done while the disk has plenty of free space.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { CUT_FOR_BYTES_MAX } from './limits.ts'

/** Zeros are written in steps of this many bytes, so that only some of the transactions have to write them. */
const STEP_BYTES = 256 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)
const BLOCK_BYTES = 512
/** Zeros are cut off the end of the file in steps of this many bytes. */
const CUT_STEP_BYTES = 4096
/**
 * File systems that write each changed page to a new location. Zeros reserve no room there, so the disk itself must
 * have free space. The numbers are from linux/magic.h and the sources of ZFS and bcachefs.
 */
const COPYING_FILE_SYSTEMS: ReadonlySet<number> = new Set([0x9123683e, 0x2fc12fc1, 0xca451a4e])
/** The number of free bytes that such a file system needs for each byte written, including its own metadata. */
const COPYING_FACTOR = 2

/** The room inside one data file. */
export class DataFileRoom {
  readonly #folder: string
  /** The descriptor of the file. It is opened when it is first needed, because descriptors may be scarce. */
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
   * Cuts zeros off the end of a file of `size` bytes: `bytes` bytes, rounded up. Throws ENOSPC if the rounded number is
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
 * Returns an error with the text that the file system uses for a full disk, so that it is recognized as such on another
 * thread too.
 */
function noSpace(bytes: number): Error {
  const text = `ENOSPC: no space left on device, write (${Math.ceil(bytes)} bytes for the data file)`
  return Object.assign(new Error(text), { code: 'ENOSPC', syscall: 'write' })
}
