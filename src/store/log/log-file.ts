/**
 * One file of the log: `log/<number>.log`, preallocated with zeros, written from its beginning by one run of
 * one process, and given a new number when all it holds is processed. All numbers are little-endian.
 *
 *   file    header, 4096 bytes: magic u32 "TNLF" | crc32 u32 of the next 24 bytes | number f64 | bytes of the
 *           file f64 | salt, 8 random bytes | unused
 *           then frames, each from a multiple of 4096 on, the last one a closing frame if another file follows
 *   frame   magic u32 "TNFR" | crc32 u32 of the rest of this head | salt of the file | number of its first
 *           block f64, or of the next one | blocks up to this are forgotten f64 | all of the file before this
 *           position was on the disk f64 | count of blocks u32 | FRAME_* u32
 *           | for each block: bytes u32, crc32 u32 of it behind its first 8 bytes, its first 8 bytes
 *           | the blocks | unused up to the next multiple of 4096
 *
 * The salt is drawn anew with each number, so that neither a frame of before nor bytes of a client that lie
 * where a frame could begin pass for one. The checksum of a block is the one that its seal has
 * (rules/capture/log-block.ts), and is computed once for both.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'

/** Frames begin at multiples of this: whole pages are written without being read before. */
export const PAGE_BYTES = 4096
/** Bytes of a frame before its blocks are listed. */
export const FRAME_HEAD_BYTES = 48
/** Bytes of a block in that list. */
export const BLOCK_ENTRY_BYTES = 16
/** No frame follows in this file. */
export const FRAME_CLOSING = 1
/** Numbers were passed over on purpose. */
export const FRAME_RAISING = 2
/** Name of a file that is being made. */
export const DRAFT_NAME = 'next.new'

const FILE_MAGIC = 0x464c4e54
const FRAME_MAGIC = 0x52464e54
const FILE_HEAD_BYTES = 32
const CRC_START = 8
const NAME_PATTERN = /^(\d{12})\.log$/
/** A file that is not what was written, or not there. */
export class DamagedLogError extends Error {
  override readonly name = 'DamagedLogError'
  /** Absolute. */
  readonly file: string
  readonly what: string

  constructor(file: string, what: string) {
    super(`${file} is damaged: ${what}`)
    this.file = file
    this.what = what
  }
}

/** What one append wrote. */
export interface Frame {
  /** Where it begins in its file, and where the next one does. */
  readonly position: number
  readonly end: number
  /** Numbers of its blocks; `last` is `first - 1` when it has none. */
  readonly first: number
  readonly last: number
  readonly trimmed: number
  /** Position in the file before which all was on the disk. */
  readonly flushed: number
  /** FRAME_* bits. */
  readonly flags: number
  /** Bytes of the head with the list of blocks. */
  readonly headBytes: number
  readonly blockBytes: readonly number[]
}

/** What the head of a frame says. */
export interface FrameHead extends Pick<Frame, 'first' | 'trimmed' | 'flushed' | 'flags'> {
  readonly salt: Buffer
  readonly blocks: readonly Buffer[]
  /** The checksum of each block behind its first 8 bytes. */
  readonly checksums: readonly number[]
}

/** Where the files are. */
export function logFolder(dataDir: string): string {
  return join(dataDir, 'log')
}

/** The path of a file of the log. */
export function logPath(folder: string, number: number): string {
  return join(folder, `${String(number).padStart(12, '0')}.log`)
}

/** The numbers of the files in the folder of a log, in order; none without a folder. */
export function logNumbers(folder: string): readonly number[] {
  let names: readonly string[]
  try {
    names = readdirSync(folder)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
  return names
    .map((name) => Number(NAME_PATTERN.exec(name)?.[1] ?? 0))
    .filter((number) => number > 0)
    .sort((a, b) => a - b)
}

/** The next multiple of a page. */
export function pageEnd(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}

/** The first page of a file. */
export function encodeFileHead(number: number, bytes: number, salt: Buffer): Buffer {
  const head = Buffer.alloc(PAGE_BYTES)
  head.writeUInt32LE(FILE_MAGIC, 0)
  head.writeDoubleLE(number, 8)
  head.writeDoubleLE(bytes, 16)
  salt.copy(head, 24)
  head.writeUInt32LE(crc32(head.subarray(CRC_START, FILE_HEAD_BYTES)), 4)
  return head
}

/** Writes the head of a frame to the beginning of `target`, which has room. Answers its bytes. */
export function encodeFrameHead(target: Buffer, head: FrameHead): number {
  target.writeUInt32LE(FRAME_MAGIC, 0)
  head.salt.copy(target, 8)
  target.writeDoubleLE(head.first, 16)
  target.writeDoubleLE(head.trimmed, 24)
  target.writeDoubleLE(head.flushed, 32)
  target.writeUInt32LE(head.blocks.length, 40)
  target.writeUInt32LE(head.flags, 44)
  let offset = FRAME_HEAD_BYTES
  for (const [index, block] of head.blocks.entries()) {
    target.writeUInt32LE(block.length, offset)
    target.writeUInt32LE(head.checksums[index] ?? 0, offset + 4)
    block.copy(target, offset + 8, 0, 8)
    offset += BLOCK_ENTRY_BYTES
  }
  target.writeUInt32LE(crc32(target.subarray(CRC_START, offset)), 4)
  return offset
}

/** A file of the log that is read, while another process may write it. */
export class LogFile {
  readonly number: number
  readonly path: string
  /** All of it, whatever is written yet. */
  readonly bytes: number
  readonly salt: Buffer
  readonly #descriptor: number
  #memory: Buffer
  /** What of the file is in memory. */
  #start = 0
  #end = 0

  /** Throws `DamagedLogError`, and what the file system throws. `windowBytes`: what is read at a time. */
  constructor(folder: string, number: number, windowBytes: number) {
    this.number = number
    this.path = logPath(folder, number)
    this.#memory = Buffer.allocUnsafeSlow(windowBytes)
    this.#descriptor = openSync(this.path, 'r')
    try {
      const stat = fstatSync(this.#descriptor)
      if (!stat.isFile()) this.#refuse('it is not a file')
      const head = this.#freshHead()
      this.bytes = head?.readDoubleLE(16) ?? 0
      if (head?.readDoubleLE(8) !== number) this.#refuse('its first page is not as it was written')
      if (stat.size !== this.bytes) this.#refuse(`it has ${stat.size} bytes of ${this.bytes}`)
      this.salt = head?.subarray(24) ?? Buffer.alloc(0)
    } catch (error) {
      closeSync(this.#descriptor)
      throw error
    }
  }

  /** The frame that begins there, or null. Its blocks are not looked at. */
  frameAt(position: number): Frame | null {
    const frame = this.#parse(position)
    if (frame !== null || this.#end === 0) return frame
    this.forget()
    return this.#parse(position)
  }

  /** A later frame which says that all before it was on the disk, this position (or another) included; or null. */
  frameBehind(position: number, flushed = position): Frame | null {
    for (let place = position + PAGE_BYTES; place < this.bytes; place += PAGE_BYTES) {
      const frame = this.#parse(place)
      if (frame !== null && frame.flushed > flushed) return frame
    }
    return null
  }

  /** Whether every block of a frame is as it was written. Reads all of them. */
  isWhole(frame: Frame): boolean {
    if (this.#fits(frame)) return true
    this.forget()
    return this.#fits(frame)
  }

  /** A block of a frame, valid until the next call of anything. */
  block(frame: Frame, index: number): Buffer {
    let offset = frame.position + frame.headBytes
    for (let before = 0; before < index; before++) offset += frame.blockBytes[before] ?? 0
    return this.#view(offset, frame.blockBytes[index] ?? 0)
  }

  /** From now on everything is read anew. */
  forget(): void {
    this.#end = this.#start
  }

  /** Whether it has got another number since. */
  isReused(): boolean {
    return this.#freshHead()?.subarray(24).equals(this.salt) !== true
  }

  close(): void {
    closeSync(this.#descriptor)
  }

  #parse(position: number): Frame | null {
    let head = this.#view(position, FRAME_HEAD_BYTES)
    if (head.length < FRAME_HEAD_BYTES || head.readUInt32LE(0) !== FRAME_MAGIC) return null
    if (this.salt.compare(head, 8, 16) !== 0) return null
    const count = head.readUInt32LE(40)
    const headBytes = FRAME_HEAD_BYTES + count * BLOCK_ENTRY_BYTES
    if (position + headBytes > this.bytes) return null
    head = this.#view(position, headBytes)
    if (head.readUInt32LE(4) !== crc32(head.subarray(CRC_START))) return null
    const blockBytes = Array.from({ length: count }, (_, index) =>
      head.readUInt32LE(FRAME_HEAD_BYTES + index * BLOCK_ENTRY_BYTES),
    )
    const first = head.readDoubleLE(16)
    const bytes = blockBytes.reduce((sum, length) => sum + length, headBytes)
    return {
      position,
      end: pageEnd(position + bytes),
      first,
      last: first + count - 1,
      trimmed: head.readDoubleLE(24),
      flushed: head.readDoubleLE(32),
      flags: head.readUInt32LE(44),
      headBytes,
      blockBytes,
    }
  }

  #fits(frame: Frame): boolean {
    const { position, headBytes, blockBytes } = frame
    const entries = Buffer.from(this.#view(position, headBytes).subarray(FRAME_HEAD_BYTES))
    return blockBytes.every((_, index) => {
      const entry = entries.subarray(index * BLOCK_ENTRY_BYTES)
      const block = this.block(frame, index)
      const isBegun = block.compare(entry, 8, 16, 0, 8) === 0
      return isBegun && crc32(block.subarray(8)) === entry.readUInt32LE(4)
    })
  }

  /** Bytes of the file; fewer than asked for where it ends. */
  #view(position: number, bytes: number): Buffer {
    if (position < this.#start || position + bytes > this.#end) {
      if (bytes > this.#memory.length) this.#memory = Buffer.allocUnsafeSlow(bytes)
      const read = readSync(this.#descriptor, this.#memory, 0, this.#memory.length, position)
      this.#start = position
      this.#end = position + read
    }
    const start = position - this.#start
    return this.#memory.subarray(start, Math.min(start + bytes, this.#end - this.#start))
  }

  /** What the first page says now; null when it is damaged. */
  #freshHead(): Buffer | null {
    const head = Buffer.alloc(FILE_HEAD_BYTES)
    readSync(this.#descriptor, head, 0, FILE_HEAD_BYTES, 0)
    if (head.readUInt32LE(0) !== FILE_MAGIC) return null
    return head.readUInt32LE(4) === crc32(head.subarray(CRC_START)) ? head : null
  }

  #refuse(what: string): never {
    throw new DamagedLogError(this.path, what)
  }
}
