/**
 * Keeps LMDB from meeting a full disk. When the write of a page fails, lmdb-js formats a message into memory that can
 * be too short for it, and the heap of the process is damaged. So a transaction may commit only when its data file has
 * room, within itself, for every page that the transaction can write:
 *
 *     | pages up to the last one, in use or free | zeros, which nobody else can take |
 *                                                ^ where LMDB appends
 *
 * Zeros are written behind the last page before the commit, inside the write transaction: no other process can write
 * to the file then. When there is no room for them, the write of zeros fails instead of the commit, and the
 * transaction is taken back. A long file does no harm: LMDB looks at no page behind the last one.
 *
 * While the disk has plenty of room none of this is done.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { CUT_FOR_BYTES_MAX } from './limits.ts'

/** Zeros are written in steps of that many bytes, so that not every transaction writes some. */
const STEP_BYTES = 256 * 1024
const ZEROS = Buffer.alloc(STEP_BYTES)
const BLOCK_BYTES = 512
/** Zeros are cut off in steps of that many bytes. */
const CUT_STEP_BYTES = 4096
/**
 * File systems that write each page to a new place: zeros keep no room there, so the disk itself must have it. Numbers:
 * linux/magic.h, and those of ZFS and bcachefs.
 */
const COPYING_FILE_SYSTEMS: ReadonlySet<number> = new Set([0x9123683e, 0x2fc12fc1, 0xca451a4e])
/** Free bytes that such a file system needs for each byte that is written, for its own trees. */
const COPYING_FACTOR = 2

/** The room of one data file. */
export class DataFileRoom {
  readonly #folder: string
  /** Opened when it is first needed: descriptors may be few. */
  #opened: number | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Bytes of the disk that this process could still take. All of this throws what the file system throws. */
  get freeDiskBytes(): number {
    return this.#disk().freeBytes
  }

  /** Bytes of the file behind its last page in use; `usedBytes`: up to there. */
  insideBytes(usedBytes: number): number {
    return Math.max(0, fstatSync(this.#descriptor()).size - usedBytes)
  }

  /**
   * Makes sure that pages of `bytes` bytes can be written to a file whose last page ends at `usedBytes`. Throws an
   * error with the code ENOSPC when they cannot. Only within a write transaction, or where nobody else writes.
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

  /** Cuts `bytes` bytes or a few more off the end of a file of `size` bytes. Throws when only `spareBytes` may go. */
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

/** As the file system says it, so that it is known on another thread, too. */
function noSpace(bytes: number): Error {
  const text = `ENOSPC: no space left on device, write (${Math.ceil(bytes)} bytes for the data file)`
  return Object.assign(new Error(text), { code: 'ENOSPC', syscall: 'write' })
}
