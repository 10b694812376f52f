/**
 * Prepares files of the log. The disk space of a file is allocated before it is needed, in one of three ways. A small
 * file is filled with zeros, so that an append changes only the content of the file and not its metadata. A large file,
 * which is needed when many events arrive, is allocated by fallocate(1), because zeros would double the number of bytes
 * that are written. The third way is to reuse a file whose blocks are all processed. A file gets its number only when
 * it is complete.
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
 * If a file lacks at least this number of bytes, fallocate(1) allocates them. If it lacks fewer, they are filled with
 * zeros.
 */
const ALLOCATED_BYTES_MIN = 8 * 1024 * 1024

/** The error codes of temporary problems in creating a file, each with the reason that the clients are given. */
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
  /**
   * The descriptor of the folder. The folder is opened in advance, so that a lack of descriptors cannot interrupt
   * `publish` halfway.
   */
  readonly #place: number
  readonly #descriptor: number
  #bytes: number
  #written: number

  /**
   * Begins a file of `bytes` bytes. `spare` is the path of a file of the same size to reuse, or null. Throws errors of
   * the file system.
   */
  constructor(room: LogRoom, bytes: number, spare: string | null) {
    const { folder } = room
    this.#room = room
    this.#folder = folder
    this.#path = join(folder, DRAFT_NAME)
    this.#bytes = bytes
    this.#written = spare === null ? 0 : bytes
    // The remains of an earlier draft are never reused, because after a power cut such a file may have its full length
    // but not its content.
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
      // The file loses its old name before a new number is written into it. So the number in a file never differs from
      // the number in its name.
      this.#rename(spare, this.#path)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Makes sure that the file will have at least this many bytes. */
  require(bytes: number): void {
    this.#bytes = Math.max(this.#bytes, bytes)
  }

  /**
   * Writes at least `bytes` more bytes of the file, or all that are missing. Returns whether the file is complete.
   * Throws ENOSPC if the disk is full. Also throws ENOSPC if too little space would be left for the store, because
   * processing needs that space to store events. It may be called again after an error.
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
    throw Object.assign(new Error('the disk has no room for the next file of the log'), {
      code: 'ENOSPC',
    })
  }

  /**
   * Tries to allocate the rest of the file with the program fallocate(1), because Node.js has no function for this.
   * Returns false if the program is missing, the file system does not support the call, or the disk is full.
   */
  #isAllocated(): boolean {
    const rest = this.#bytes - this.#written
    const words = ['-o', String(this.#written), '-l', String(rest), this.#path]
    const options = { stdio: 'ignore', timeout: LOG_ALLOCATION_MS_MAX } as const
    if (spawnSync('fallocate', words, options).status !== 0) return false
    fsyncSync(this.#descriptor)
    return true
  }

  /** Gives the complete file its number, under which the log then uses it. It may be called again after an error. */
  publish(number: number): ReadyFile {
    const salt = randomBytes(8)
    const head = encodeFileHead(number, this.#bytes, salt)
    writeAll(this.#descriptor, [head], head.length, 0)
    this.#rename(this.#path, logPath(this.#folder, number))
    this.close()
    return { number, bytes: this.#bytes, salt }
  }

  /**
   * Renames a file. When it returns, the new name is on disk. If flushing the folder fails, the file gets its old name
   * back, because even a later successful flush would not prove that this rename is on the disk.
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
 * Returns the error for clients if the creation of a file failed because of a temporary problem. Otherwise returns
 * `cause` itself.
 */
export function refusalOf(cause: unknown): unknown {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const reason = REASONS[code]
  return reason === undefined ? cause : refusal(reason, { cause })
}

/**
 * Writes all of `parts`, which have `bytes` bytes in total. One call of the system may write only some of the bytes, so
 * the call is repeated until all are written.
 */
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
    if (written === 0)
      throw Object.assign(new Error('the system has written no bytes'), { code: 'EIO' })
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
