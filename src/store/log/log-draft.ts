/**
 * Files of the log before they are used. Their disk is taken before it is needed: zeros are written to small
 * ones, so that an append changes nothing but bytes; large ones, which mean that much comes in, are allocated
 * by fallocate(1), because each byte would be written twice; or a file that is no longer needed is taken
 * instead. Under its number stands a whole file or none.
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
/** What is left to make of a file is allocated from this on, else zeros are written. */
const ALLOCATED_BYTES_MIN = 8 * 1024 * 1024

/** What passes when another file cannot be made, and how it is answered. */
const REASONS: Readonly<Record<string, 'disk_full' | 'not_stored'>> = {
  ...{ ENOSPC: 'disk_full', EDQUOT: 'disk_full', EMFILE: 'not_stored', ENFILE: 'not_stored' },
}

/** A file that is ready. */
export interface ReadyFile {
  readonly number: number
  readonly bytes: number
  readonly salt: Buffer
}

/** The next file of a log, while it is made. */
export class LogDraft {
  readonly #room: LogRoom
  readonly #folder: string
  readonly #path: string
  /** Opened beforehand: where descriptors run out, nothing is done by half. */
  readonly #place: number
  readonly #descriptor: number
  #bytes: number
  #written: number

  /** Of so many bytes. `spare`: a file to use again, which has as many. Throws what the file system throws. */
  constructor(room: LogRoom, bytes: number, spare: string | null) {
    const { folder } = room
    this.#room = room
    this.#folder = folder
    this.#path = join(folder, DRAFT_NAME)
    this.#bytes = bytes
    this.#written = spare === null ? 0 : bytes
    // Never one that is cut off: a power cut may leave it as long as it was.
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
      // Before another number is written into it.
      this.#rename(spare, this.#path)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Makes it larger, unless it is large enough. */
  require(bytes: number): void {
    this.#bytes = Math.max(this.#bytes, bytes)
  }

  /**
   * Writes at least so many more bytes of it; whether all of it is written. Throws ENOSPC also when too little
   * would be left for others: what is processed needs room in the store. Can be called again after a throw.
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

  /** Node has no such call. False: there is no such program, the file system cannot, or the disk is full. */
  #isAllocated(): boolean {
    const rest = this.#bytes - this.#written
    const words = ['-o', String(this.#written), '-l', String(rest), this.#path]
    const options = { stdio: 'ignore', timeout: LOG_ALLOCATION_MS_MAX } as const
    if (spawnSync('fallocate', words, options).status !== 0) return false
    fsyncSync(this.#descriptor)
    return true
  }

  /** Gives it a number. Can be called again after a throw. */
  publish(number: number): ReadyFile {
    const salt = randomBytes(8)
    const head = encodeFileHead(number, this.#bytes, salt)
    writeAll(this.#descriptor, [head], head.length, 0)
    this.#rename(this.#path, logPath(this.#folder, number))
    this.close()
    return { number, bytes: this.#bytes, salt }
  }

  /** Durably, or not at all: a flush that fails says nothing about the next one without another rename. */
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

/** The refusal for why another file could not be made, or `cause` itself where that does not pass. */
export function refusalOf(cause: unknown): unknown {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const reason = REASONS[code]
  return reason === undefined ? cause : refusal(reason, { cause })
}

/** Writes all of `parts`, which have `bytes` bytes, however many the system takes at once. */
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
    if (missing > 0) rest = behind(rest, written)
  }
}

function behind(parts: readonly Buffer[], bytes: number): readonly Buffer[] {
  let start = bytes
  const rest: Buffer[] = []
  for (const part of parts) {
    if (start < part.length) rest.push(part.subarray(start))
    start = Math.max(0, start - part.length)
  }
  return rest
}
