/**
 * One file of the log: `log/<number>.log`. Its space is allocated before it is used, and one appender writes it from
 * its beginning. When all of its blocks are processed, it is removed, or reused under a new number. The sequence
 * numbers here count the blocks of the log, not events. All numbers are little-endian.
 *
 *   file    header, 4096 bytes:
 *             magic u32 "TNLF" | crc32 u32 of the next 24 bytes | number f64 | bytes of the file f64
 *             | salt, 8 random bytes | unused
 *           frames, each at a multiple of 4096; the last one is a closing frame if another file follows
 *   frame   magic u32 "TNFR" | crc32 u32 of the rest of this head | salt of the file
 *           | sequence number of its first block, or of the next block if it has none, f64
 *           | blocks up to this number are trimmed (not needed any more) f64
 *           | the file before this offset was on the disk f64 | number of blocks u32 | FRAME_* bits u32
 *           | for each block: bytes as stored u32 (highest bit: deflated)
 *             | crc32 u32 of the block without its first 8 bytes | copy of the first 8 bytes of the block
 *           | the blocks, as stored (stored-block.ts) | unused up to the next multiple of 4096
 *
 * When a file gets a number, it also gets a new random salt. Old frames, and bytes of a client at the start of a page,
 * have a different salt and cannot be mistaken for frames.
 *
 * The first 8 bytes of a block are its magic number and its checksum (rules/capture/log-block.ts). The frame stores the
 * same checksum, so it is computed only once. The checksum does not cover these 8 bytes, so the frame contains a copy.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { isBlockStart, readBlockHead } from '../../rules/capture/log-block.ts'
import { inflateBlock, inflateStart, type StoredBlock } from './stored-block.ts'

/** Frames begin at multiples of this number of bytes, so that whole pages are written without being read first. */
export const PAGE_BYTES = 4096
/** The size in bytes of the head of a frame, without its list of blocks. */
export const FRAME_HEAD_BYTES = 48
/** The size in bytes of one entry in the list of blocks. */
export const BLOCK_ENTRY_BYTES = 16
/** A bit of the flags of a frame: the frame is the last one of its file. */
export const FRAME_CLOSING = 1
/**
 * A bit of the flags of a frame: the sequence numbers before the frame were skipped on purpose, so no blocks are
 * missing there.
 */
export const FRAME_RAISING = 2
/** A part of a stored block that contains the head of the block, even if the block is deflated. */
const BLOCK_START_BYTES = 2048
/** The name of a file that is being created. */
export const DRAFT_NAME = 'next.new'

const FILE_MAGIC = 0x464c4e54
const FRAME_MAGIC = 0x52464e54
const FILE_HEAD_BYTES = 32
const CRC_START = 8
/** This bit is set in the stored length of a block if the block is deflated. */
const DEFLATED_BIT = 0x8000_0000
const NAME_PATTERN = /^(\d{12})\.log$/
/** Thrown if a file of the log is missing, or if its content differs from what was written. */
export class DamagedLogError extends Error {
  override readonly name = 'DamagedLogError'
  /** The absolute path of the file. */
  readonly file: string
  readonly what: string

  constructor(file: string, what: string) {
    super(`${file} is damaged: ${what}`)
    this.file = file
    this.what = what
  }
}

/** A frame: the blocks that one append wrote, or no blocks. */
export interface Frame {
  /** The offset at which the frame begins in its file, and the offset at which it ends and the next one begins. */
  readonly position: number
  readonly end: number
  /** The sequence numbers of its first and last block. `last` is `first - 1` if the frame has no blocks. */
  readonly first: number
  readonly last: number
  readonly trimmed: number
  /** The offset in the file before which everything was on the disk when the frame was written. */
  readonly flushed: number
  /** The bits `FRAME_CLOSING` and `FRAME_RAISING`. */
  readonly flags: number
  /** The size in bytes of the head, including the list of blocks. */
  readonly headBytes: number
  /** For each block, its bytes as stored, and whether it is deflated. */
  readonly blockBytes: readonly number[]
  readonly areDeflated: readonly boolean[]
}

/** The values in the head of a frame. */
export interface FrameHead extends Pick<Frame, 'first' | 'trimmed' | 'flushed' | 'flags'> {
  readonly salt: Buffer
  readonly blocks: readonly StoredBlock[]
}

/** Returns the path of the folder that contains the log. */
export function logFolder(dataDir: string): string {
  return join(dataDir, 'log')
}

/** Returns the path of a file of the log. */
export function logPath(folder: string, number: number): string {
  return join(folder, `${String(number).padStart(12, '0')}.log`)
}

/** Returns the numbers of the log files in a folder, in ascending order. Returns none if the folder does not exist. */
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

/** Rounds a number of bytes up to a multiple of the page size. */
export function pageEnd(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}

/** Returns the bytes of the first page of a file. */
export function encodeFileHead(number: number, bytes: number, salt: Buffer): Buffer {
  const head = Buffer.alloc(PAGE_BYTES)
  head.writeUInt32LE(FILE_MAGIC, 0)
  head.writeDoubleLE(number, 8)
  head.writeDoubleLE(bytes, 16)
  salt.copy(head, 24)
  head.writeUInt32LE(crc32(head.subarray(CRC_START, FILE_HEAD_BYTES)), 4)
  return head
}

/**
 * Writes the head of a frame to the beginning of `target`, which must be large enough. Returns the number of bytes
 * written.
 */
export function encodeFrameHead(target: Buffer, head: FrameHead): number {
  target.writeUInt32LE(FRAME_MAGIC, 0)
  head.salt.copy(target, 8)
  target.writeDoubleLE(head.first, 16)
  target.writeDoubleLE(head.trimmed, 24)
  target.writeDoubleLE(head.flushed, 32)
  target.writeUInt32LE(head.blocks.length, 40)
  target.writeUInt32LE(head.flags, 44)
  let offset = FRAME_HEAD_BYTES
  for (const { block, bytes, isDeflated, checksum } of head.blocks) {
    target.writeUInt32LE(bytes.length + (isDeflated ? DEFLATED_BIT : 0), offset)
    target.writeUInt32LE(checksum, offset + 4)
    block.copy(target, offset + 8, 0, 8)
    offset += BLOCK_ENTRY_BYTES
  }
  target.writeUInt32LE(crc32(target.subarray(CRC_START, offset)), 4)
  return offset
}

/** A log file opened for reading. Another process may write it at the same time. */
export class LogFile {
  readonly number: number
  readonly path: string
  /** The size of the whole file, including the part that is not written yet. */
  readonly bytes: number
  readonly salt: Buffer
  readonly #descriptor: number
  #memory: Buffer
  /** The range of the file that is cached in memory: the offsets from `#start` up to `#end`. */
  #start = 0
  #end = 0

  /** `windowBytes` is the number of bytes read at a time. Throws `DamagedLogError` and errors of the file system. */
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
      if (head?.readDoubleLE(8) !== number) this.#refuse('its first page is not valid')
      if (stat.size !== this.bytes) this.#refuse(`it has ${stat.size} of ${this.bytes} bytes`)
      this.salt = head?.subarray(24) ?? Buffer.alloc(0)
    } catch (error) {
      closeSync(this.#descriptor)
      throw error
    }
  }

  /** Returns the frame that begins at an offset, or null. Does not check the blocks of the frame. */
  frameAt(position: number): Frame | null {
    const frame = this.#parse(position)
    if (frame !== null || this.#end === 0) return frame
    this.forget()
    return this.#parse(position)
  }

  /**
   * Returns the first frame after the offset `position` which records that the byte at the offset `flushed`, and
   * everything before it, was on the disk. Returns null if there is none.
   */
  frameBehind(position: number, flushed = position): Frame | null {
    for (let place = position + PAGE_BYTES; place < this.bytes; place += PAGE_BYTES) {
      const frame = this.#parse(place)
      if (frame !== null && frame.flushed > flushed) return frame
    }
    return null
  }

  /** Returns whether every block of a frame matches its checksum. Reads all blocks. */
  isWhole(frame: Frame): boolean {
    if (this.#fits(frame)) return true
    this.forget()
    return this.#fits(frame)
  }

  /** Returns a block of a frame. It is valid until the next call of any method. */
  block(frame: Frame, index: number): Buffer {
    let offset = frame.position + frame.headBytes
    for (let before = 0; before < index; before++) offset += frame.blockBytes[before] ?? 0
    const stored = this.#view(offset, frame.blockBytes[index] ?? 0)
    return frame.areDeflated[index] === true ? inflateBlock(stored) : stored
  }

  /**
   * Returns the number of events in those blocks of a frame whose sequence numbers are higher than `sequence`. Reads
   * only the beginning of each block, and does not compare it with a checksum. Bytes that do not begin as a block does
   * count as no events.
   */
  eventsAfter(frame: Frame, sequence: number): number {
    let offset = frame.position + frame.headBytes
    let events = 0
    for (const [index, bytes] of frame.blockBytes.entries()) {
      if (frame.first + index > sequence) {
        const stored = this.#view(offset, Math.min(bytes, BLOCK_START_BYTES))
        const block = frame.areDeflated[index] === true ? inflateStart(stored) : stored
        if (isBlockStart(block)) events += readBlockHead(block).events
      }
      offset += bytes
    }
    return events
  }

  /** Discards the cached bytes, so that everything is read from the file again. */
  forget(): void {
    this.#end = this.#start
  }

  /** Returns whether the file was reused under another number after it was opened. */
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
    const lengths = Array.from({ length: count }, (_, index) =>
      head.readUInt32LE(FRAME_HEAD_BYTES + index * BLOCK_ENTRY_BYTES),
    )
    const blockBytes = lengths.map((length) => length % DEFLATED_BIT)
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
      areDeflated: lengths.map((length) => length >= DEFLATED_BIT),
    }
  }

  #fits(frame: Frame): boolean {
    const { position, headBytes, blockBytes } = frame
    const entries = Buffer.from(this.#view(position, headBytes).subarray(FRAME_HEAD_BYTES))
    return blockBytes.every((_, index) => {
      const entry = entries.subarray(index * BLOCK_ENTRY_BYTES)
      const block = this.block(frame, index)
      // A damaged deflated block can still be inflated, possibly to fewer than 8 bytes. So the length is checked first.
      const isBegun = block.length >= 8 && block.compare(entry, 8, 16, 0, 8) === 0
      return isBegun && crc32(block.subarray(8)) === entry.readUInt32LE(4)
    })
  }

  /** Returns bytes of the file, fewer than requested at its end. */
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

  /** Reads the head of the first page from the disk again. Returns null if it is damaged. */
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
