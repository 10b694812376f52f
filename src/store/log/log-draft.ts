/**
 * Files of the log before they are used. The disk space of a file is taken before it is needed, in one of three ways. A
 * small file is filled with zeros, so that an append changes only bytes and no metadata. A large file is needed when
 * many events arrive: it is allocated by fallocate(1), because zeros would double the bytes written. Otherwise a file
 * that is no longer needed is used again. A file appears under its number only when it is complete.
 */

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, constants, fsyncSync, openSync, renameSync, rmSync, writevSync } from 'node:fs'
import { join } from 'node:path'
import { refusal } from '../../base/refusals.ts'
import { LOG_ALLOCATION_MS_MAX, LOG_FILE_BYTES_MIN } from './limits.ts'
import { DRAFT_NAME, encodeFileHead, logPath } from './log-file.ts'
import type { LogRoom } from './log-room.ts'

const ZEROS = Buffer.alloc(1024 * 1024)
/**
 * If at least this many bytes of the file are missing, they are allocated by fallocate(1). Fewer bytes are written as
 * zeros.
 */
const ALLOCATED_BYTES_MIN = 8 * 1024 * 1024

/** Temporary errors that prevent the creation of a file, and the reason that clients receive. */
const REASONS: Readonly<Record<string, 'disk_full' | 'not_stored'>> = {
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EMFILE: 'not_stored',
  ENFILE: 'not_stored',
}

/** A complete file that is ready for appends. */
export interface ReadyFile {
  readonly number: number
  readonly bytes: number
  readonly salt: Buffer
}

/** The next file of a log while it is being created. */
export class LogDraft {
  readonly #room: LogRoom
  readonly #folder: string
  readonly #path: string
  /** The folder, opened in advance, so that a lack of descriptors cannot interrupt `publish` halfway. */
  readonly #place: number
  readonly #descriptor: number
  #bytes: number
  #written: number

  /**
   * Starts a file of `bytes` bytes. `spare` is the path of a file of the same size to use again. Throws errors of the
   * file system.
   */
  constructor(room: LogRoom, bytes: number, spare: string | null) {
    const { folder } = room
    this.#room = room
    this.#folder = folder
    this.#path = join(folder, DRAFT_NAME)
    this.#bytes = bytes
    this.#written = spare === null ? 0 : bytes
    // A draft that was cut short is never used: after a power cut it may have its full length without its contents.
    if (spare === null) rmSync(this.#path, { force: true })
    const make = spare === null ? constants.O_CREAT | constants.O_EXCL : 0
    const flags = constants.O_WRONLY | constants.O_DSYNC | make
    this.#descriptor = openSync(spare ?? this.#path, flags, 0o600)
    try {
      this.#place = openSync(folder, 'r')
    } catch (error) {
      closeSync(this.#descriptor)
      throw error
    }
    if (spare === null) return
    try {
      // The file leaves its old name before a new number is written into it.
      this.#rename(spare, this.#path)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Makes the file at least this large. */
  require(bytes: number): void {
    this.#bytes = Math.max(this.#bytes, bytes)
  }

  /**
   * Writes at least this many more bytes of the file. Returns whether the file is complete. Throws ENOSPC also if too
   * little space would be left for the store, which needs it to process events. May be called again after an error.
   */
  grow(bytes: number): boolean {
    if (this.#bytes > LOG_FILE_BYTES_MIN && this.#written < this.#bytes) this.#requireRoom()
    if (this.#bytes - this.#written >= ALLOCATED_BYTES_MIN && this.#isAllocated()) {
      this.#written = this.#bytes
    }
    const until = Math.min(this.#bytes, this.#written + bytes)
    while (this.#written < until) {
      const length = Math.min(ZEROS.length, this.#bytes - this.#written)
      writeAll(this.#descriptor, [ZEROS.subarray(0, length)], length, this.#written)
      this.#written += length
    }
    return this.#written === this.#bytes
  }

  #requireRoom(): void {
    if (this.#room.freeBytes >= this.#bytes - this.#written) return
    throw Object.assign(new Error('the next file of the log has no room'), { code: 'ENOSPC' })
  }

  /**
   * Tries to allocate the rest of the file with fallocate(1), because Node.js has no such call. Returns false if the
   * program is missing, the file system does not support it, or the disk is full.
   */
  #isAllocated(): boolean {
    const rest = this.#bytes - this.#written
    const words = ['-o', String(this.#written), '-l', String(rest), this.#path]
    const options = { stdio: 'ignore', timeout: LOG_ALLOCATION_MS_MAX } as const
    if (spawnSync('fallocate', words, options).status !== 0) return false
    fsyncSync(this.#descriptor)
    return true
  }

  /** Publishes the file under a number. May be called again after an error. */
  publish(number: number): ReadyFile {
    const salt = randomBytes(8)
    const head = encodeFileHead(number, this.#bytes, salt)
    writeAll(this.#descriptor, [head], head.length, 0)
    this.#rename(this.#path, logPath(this.#folder, number))
    this.close()
    return { number, bytes: this.#bytes, salt }
  }

  /**
   * Renames the file durably or not at all. A failed flush is undone by renaming back, because a later flush would
   * prove nothing about this rename.
   */
  #rename(from: string, to: string): void {
    renameSync(from, to)
    try {
      fsyncSync(this.#place)
    } catch (error) {
      renameSync(to, from)
      throw error
    }
  }

  close(): void {
    closeSync(this.#descriptor)
    closeSync(this.#place)
  }
}

/**
 * Returns the refusal for a temporary error that prevented the creation of a file, or `cause` itself if the error is
 * not temporary.
 */
export function refusalOf(cause: unknown): unknown {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const reason = REASONS[code]
  return reason === undefined ? cause : refusal(reason, { cause })
}

/** Writes all of `parts`, which have `bytes` bytes in total, even if the system writes only some of them at a time. */
export function writeAll(
  descriptor: number,
  parts: readonly Buffer[],
  bytes: number,
  position: number,
): void {
  let rest = parts
  let missing = bytes
  while (missing > 0) {
    const written = writevSync(descriptor, rest, position + bytes - missing)
    if (written === 0) throw Object.assign(new Error('nothing is written'), { code: 'EIO' })
    missing -= written
    if (missing > 0) rest = skipBytes(rest, written)
  }
}

function skipBytes(parts: readonly Buffer[], bytes: number): readonly Buffer[] {
  let start = bytes
  const rest: Buffer[] = []
  for (const part of parts) {
    if (start < part.length) rest.push(part.subarray(start))
    start = Math.max(0, start - part.length)
  }
  return rest
}
