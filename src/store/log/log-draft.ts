/**
 * Files of the log before they are used: zeros are written to all of them, so that the disk is taken before
 * it is needed and an append changes nothing but bytes, or a file that is no longer needed is taken instead.
 * Under its number stands a whole file or none.
 */

import { randomBytes } from 'node:crypto'
import { closeSync, constants, fsyncSync, openSync, renameSync, writevSync } from 'node:fs'
import { join } from 'node:path'
import { DRAFT_NAME, encodeFileHead, logPath } from './log-file.ts'

const ZEROS = Buffer.alloc(1024 * 1024)

/** A file that is ready. */
export interface ReadyFile {
  readonly number: number
  readonly bytes: number
  readonly salt: Buffer
}

/** The next file of a log, while it is made. */
export class LogDraft {
  readonly #folder: string
  readonly #path: string
  /** Opened beforehand: where descriptors run out, nothing is done by half. */
  readonly #place: number
  readonly #descriptor: number
  #bytes: number
  #written: number

  /** Of so many bytes. `spare`: a file to use again, which has as many. Throws what the file system throws. */
  constructor(folder: string, bytes: number, spare: string | null) {
    this.#folder = folder
    this.#path = join(folder, DRAFT_NAME)
    this.#bytes = bytes
    this.#written = spare === null ? 0 : bytes
    const make = spare === null ? constants.O_CREAT | constants.O_TRUNC : 0
    const flags = constants.O_WRONLY | constants.O_DSYNC | make
    this.#descriptor = openSync(spare ?? this.#path, flags, 0o600)
    try {
      this.#place = openSync(folder, 'r')
    } catch (error) {
      closeSync(this.#descriptor)
      throw error
    }
    if (spare === null) return
    renameSync(spare, this.#path)
    // Before another number is written into it.
    fsyncSync(this.#place)
  }

  /** Makes it larger, unless it is large enough. */
  require(bytes: number): void {
    this.#bytes = Math.max(this.#bytes, bytes)
  }

  /** Writes at least so many more bytes of it; whether all of it is written. Can be called again after a throw. */
  grow(bytes: number): boolean {
    const until = Math.min(this.#bytes, this.#written + bytes)
    while (this.#written < until) {
      const length = Math.min(ZEROS.length, this.#bytes - this.#written)
      writeAll(this.#descriptor, [ZEROS.subarray(0, length)], length, this.#written)
      this.#written += length
    }
    return this.#written === this.#bytes
  }

  /** Gives it a number. */
  publish(number: number): ReadyFile {
    const salt = randomBytes(8)
    const head = encodeFileHead(number, this.#bytes, salt)
    writeAll(this.#descriptor, [head], head.length, 0)
    renameSync(this.#path, logPath(this.#folder, number))
    fsyncSync(this.#place)
    this.close()
    return { number, bytes: this.#bytes, salt }
  }

  close(): void {
    closeSync(this.#descriptor)
    closeSync(this.#place)
  }
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
