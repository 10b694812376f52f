/**
 * The writer and the reader of the log. The log contains the accepted blocks that are not processed yet, in the order
 * of their arrival. It has files of its own (log-file.ts), so that a request is acknowledged after a single disk write.
 * One thread appends (`LogAppender`), and any thread or process may read (`LogReader`). Both implement ports/log.ts. A
 * block is *trimmed* when it is not needed any more. Its file may then be removed or reused.
 *
 * Each new appender starts a new file and closes the previous one after its last whole frame. So nothing is ever
 * written after the remains of an append that a power cut interrupted. If the disk is too full for a new file, the
 * appender continues in the previous one, but only if the rest of that file is blank.
 */
import {
  closeSync,
  constants,
  fdatasync,
  fdatasyncSync,
  fsyncSync,
  mkdirSync,
  openSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { DiskRoom } from '../../base/disk-room.ts'
import { ServiceError } from '../../base/errors.ts'
import type * as ports from '../../ports/log.ts'
import { seal } from '../../rules/capture/log-block.ts'
import { counted } from '../faults.ts'
import {
  LOG_CALM_BYTES_MAX,
  LOG_FILE_BYTES_MAX,
  LOG_FILE_BYTES_MIN,
  LOG_FILES_REMOVED_MAX,
} from './limits.ts'
import { LogCursor } from './log-cursor.ts'
import { LogDraft, type ReadyFile, refusalOf, writeAll } from './log-draft.ts'
import {
  BLOCK_ENTRY_BYTES,
  DamagedLogError,
  DRAFT_NAME,
  encodeFrameHead,
  FRAME_CLOSING,
  FRAME_HEAD_BYTES,
  FRAME_RAISING,
  type Frame,
  logFolder,
  logPath,
  PAGE_BYTES,
  pageEnd,
} from './log-file.ts'
import { isBlank, lookAtFiles } from './log-folder.ts'
import { LogRoom } from './log-room.ts'
import { type StoredBlock, storedBlock } from './stored-block.ts'

const PADDING = Buffer.alloc(PAGE_BYTES)
/**
 * While the second half of the current file is filled, the next file is prepared: this number of bytes for each byte
 * that is appended. With a factor of 4, the next file is complete in time, because it is at most twice as large as the
 * current one.
 */
const DRAFT_FACTOR = 4
const DRAFT_STEP_BYTES = 1024 * 1024

/** Where the log is, and how it is written. */
export interface LogOptions {
  readonly dataDir: string
  /**
   * True with `--durability commit`. An append then returns as soon as other processes can read the blocks, and the
   * blocks reach the disk a moment later.
   */
  readonly isFlushDeferred?: boolean
  /**
   * Memory that the writer and the readers of a process share. It contains the sequence number of the last appended
   * block, or 0 before the first append.
   */
  readonly logReach?: BigInt64Array
  /** Shared memory that contains how much free disk space the log must leave for other files. `DiskRoom` reads it. */
  readonly diskRoom?: Float64Array | undefined
}

/** The options of an appender, in addition to those of the log. */
export interface AppenderOptions extends LogOptions {
  /** The sequence number up to which all blocks are processed. New blocks get higher numbers. */
  readonly processed: number
  /**
   * True if the blocks already have checksums. The appender then writes the checksums as they are, even if they are
   * wrong.
   */
  readonly isSealed?: boolean
}

/**
 * A file to which no more blocks are appended. `last` is the sequence number of the last block in this file. If the
 * file has no blocks, `last` is the sequence number of the last block before it.
 */
interface ClosedFile {
  readonly number: number
  readonly bytes: number
  readonly last: number
}

interface OpenFile extends ReadyFile {
  readonly descriptor: number
  isFlushing: boolean
  isClosed: boolean
}

/** Appends blocks to the log. A data directory has one appender. */
export class LogAppender implements ports.LogAppender {
  readonly #folder: string
  readonly #options: AppenderOptions
  readonly #room: LogRoom
  /** The closed files, oldest first. */
  #files: ClosedFile[] = []
  #current: OpenFile
  /** The file that was opened last, so that the constructor can close it after an error. */
  #opened: OpenFile | null = null
  #next: ReadyFile | null = null
  #draft: LogDraft | null = null
  #position = PAGE_BYTES
  #flushed = PAGE_BYTES
  #last = 0
  #trimmed = 0
  #head = Buffer.allocUnsafeSlow(PAGE_BYTES)
  /**
   * True if the last frame contains blocks. As long as no frame follows it, nothing proves that these blocks were
   * written completely.
   */
  #isUnproven = false
  /** The number of bytes that were appended since the last call of `shrink`. */
  #appendedBytes = 0
  #failure: Error | null = null

  /** Throws `DamagedLogError`, errors of the file system, and `ServiceError` if the disk is full. */
  constructor(options: AppenderOptions) {
    this.#folder = logFolder(options.dataDir)
    this.#options = options
    this.#room = new LogRoom(this.#folder, new DiskRoom(options.diskRoom))
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    rmSync(join(this.#folder, DRAFT_NAME), { force: true })
    try {
      this.#current = this.#recover()
      if (options.processed > this.#last) {
        this.#last = options.processed
        this.#trimmed = options.processed
        this.#write([], FRAME_RAISING)
      }
    } catch (error) {
      this.#draft?.close()
      if (this.#opened !== null) closeFile(this.#opened)
      throw error
    }
    this.#tellReach()
  }

  /**
   * Appends blocks in one frame. When the method returns, the blocks are on disk. If the disk is full, throws
   * `ServiceError` and writes nothing. After any other error it is unknown whether the blocks were written.
   */
  append(blocks: readonly Buffer[], trimThrough: number): number {
    if (this.#failure !== null) throw this.#failure
    const trimmed = Math.max(this.#trimmed, Math.min(trimThrough, this.#last))
    if (blocks.length === 0 && trimmed === this.#trimmed) return this.#last
    const isSealed = this.#options.isSealed === true
    // The checksum is written into a block before the block is deflated.
    const stored = blocks.map((block) => {
      return storedBlock(block, isSealed ? crc32(block.subarray(8)) : seal(block))
    })
    const bytes = frameBytes(stored)
    // Blocks up to this number are no longer needed, so the file that contains them may be reused as the next file.
    this.#trimmed = trimmed
    if (this.#position + bytes + PAGE_BYTES > this.#current.bytes) this.#rotate(bytes)
    this.#write(stored, 0)
    this.#last += blocks.length
    this.#appendedBytes += bytes
    this.#tellReach()
    this.#flushLater(this.#current)
    this.#removeFiles()
    this.#prepare(bytes)
    return this.#last
  }

  /**
   * Releases the disk space that the log took during a burst of events. If little was appended since the last call, a
   * small file is started, and the larger files are removed once all their blocks are trimmed. If a write fails here,
   * the next append reports it.
   */
  shrink(): void {
    const isCalm = this.#appendedBytes <= LOG_CALM_BYTES_MAX
    this.#appendedBytes = 0
    if (!isCalm || this.#failure !== null) return
    if (this.#current.bytes <= LOG_FILE_BYTES_MIN) {
      // Each append removes only a few files, so files from a burst may still be left.
      this.#removeFiles()
      return
    }
    try {
      this.#draft?.close()
      this.#draft = null
      this.#draft = new LogDraft(this.#room, LOG_FILE_BYTES_MIN, null)
      this.#draft.grow(Number.POSITIVE_INFINITY)
      this.#publish(this.#draft, this.#current.number + 1)
      this.#rotate(0)
      // Every frame records up to which block the log is trimmed. The file with the last such record may be removed
      // below, so an empty frame in the new file repeats the record.
      this.#write([], 0)
      if (this.#isDeferred) fdatasyncSync(this.#current.descriptor)
      this.#removeFiles()
    } catch {
      // The disk is full, or a write has failed. The next append reports the error.
    }
  }

  /**
   * Writes an empty frame after the last block, and closes the appender. If the last block cannot be read later, the
   * empty frame proves that the block was written completely and was damaged afterward.
   */
  async close(): Promise<void> {
    const isWhole = this.#failure === null
    if (isWhole && this.#isUnproven && !this.#isDeferred) this.#write([], 0)
    if (isWhole && this.#isDeferred) fdatasyncSync(this.#current.descriptor)
    this.#draft?.close()
    closeFile(this.#current)
  }

  get #isDeferred(): boolean {
    return this.#options.isFlushDeferred === true
  }

  /** Reads the existing files, closes the newest one and opens the next. */
  #recover(): OpenFile {
    const { begun, unused } = lookAtFiles(this.#folder)
    const newest = begun.at(-1)
    const [spare, ...others] = unused
    // Only a blank spare file may be reused. If a power cut has destroyed the first frame of the spare file, it may
    // still contain later frames, and these would look valid after a new first frame.
    this.#next = spare !== undefined && isBlank(this.#folder, spare.number) ? spare : null
    for (const { number } of others) rmSync(logPath(this.#folder, number))
    if (newest === undefined) return this.#openNext((spare?.number ?? 1) - 1, 0)
    const cursor = new LogCursor(this.#folder)
    cursor.restart(newest.number)
    cursor.toEnd()
    const isOpen = cursor.file?.number === newest.number && !cursor.isClosed
    this.#last = cursor.last
    this.#trimmed = Math.max(cursor.trimmed, Math.min(this.#options.processed, cursor.last))
    const { position } = cursor
    cursor.close()
    let last = this.#last
    for (const { number, bytes, first } of [...begun].reverse()) {
      this.#files.unshift({ number, bytes, last })
      // `first` is 0 if the first frame of a file cannot be read. The last block of the file before is then unknown, so
      // `last` stays as it is. It is then only an upper bound.
      if (first > 0) last = first - 1
    }
    if (!isOpen) return this.#openNext(newest.number, 0)
    this.#files.pop()
    this.#current = this.#open(newest)
    // If the previous process was killed, some of its data may be in the memory of the operating system and not on the
    // disk yet.
    fsyncSync(this.#current.descriptor)
    this.#position = position
    this.#flushed = position
    try {
      this.#rotate(0)
    } catch (cause) {
      // The disk is full, so the appender may continue in this file. It needs room for two frames there: the frame that
      // records at which sequence number the log continues, and the closing frame.
      const isRoom = position + 2 * PAGE_BYTES <= newest.bytes && cause instanceof ServiceError
      if (!isRoom || !isBlank(this.#folder, newest.number, position)) throw cause
    }
    return this.#current
  }

  /** Continues in the next file, which has space for at least `bytes` bytes. */
  #rotate(bytes: number): void {
    const { number, bytes: size, descriptor } = this.#current
    const next = this.#openNext(number, bytes)
    if (this.#isDeferred) fdatasyncSync(descriptor)
    this.#flushed = this.#position
    this.#write([], FRAME_CLOSING)
    if (this.#isDeferred) fdatasyncSync(descriptor)
    closeFile(this.#current)
    this.#files.push({ number, bytes: size, last: this.#last })
    this.#current = next
    this.#position = PAGE_BYTES
    this.#flushed = PAGE_BYTES
  }

  /**
   * Opens the file after `number`. If that file is not ready yet, it is created first. Throws `ServiceError` if the
   * disk is full or the process has no free file descriptors.
   */
  #openNext(number: number, bytes: number): OpenFile {
    const needed = bytes + 2 * PAGE_BYTES
    let ready = this.#next
    try {
      if (ready === null || ready.bytes < needed) {
        this.#draft ??= this.#beginDraft(needed)
        this.#draft.require(needed)
        this.#draft.grow(Number.POSITIVE_INFINITY)
        ready = this.#publish(this.#draft, number + 1)
      }
      const next = this.#open(ready)
      this.#next = null
      return next
    } catch (cause) {
      throw refusalOf(cause)
    }
  }

  /** Creates a part of the next file. If that fails, the rest is created when the next file is needed. */
  #prepare(appended: number): void {
    if (this.#next !== null || this.#position < this.#current.bytes / 2) return
    try {
      this.#draft ??= this.#beginDraft(0)
      if (!this.#draft.grow(Math.max(DRAFT_STEP_BYTES, appended * DRAFT_FACTOR))) return
      this.#publish(this.#draft, this.#current.number + 1)
    } catch {
      // The error does not matter yet, because the current file still has space.
    }
  }

  /** Turns the draft into the next file, which is ready for appends. */
  #publish(draft: LogDraft, number: number): ReadyFile {
    this.#next = null
    this.#next = draft.publish(number)
    this.#draft = null
    return this.#next
  }

  #beginDraft(bytesMin: number): LogDraft {
    const [oldest] = this.#files
    if (oldest === undefined) {
      return new LogDraft(this.#room, Math.max(LOG_FILE_BYTES_MIN, bytesMin), null)
    }
    if (
      oldest.last <= this.#trimmed &&
      oldest.bytes <= LOG_FILE_BYTES_MAX &&
      oldest.bytes >= bytesMin
    ) {
      const draft = new LogDraft(this.#room, oldest.bytes, logPath(this.#folder, oldest.number))
      this.#files.shift()
      return draft
    }
    const twice = Math.min(this.#room.fileBytesMax(), 2 * this.#current.bytes)
    return new LogDraft(this.#room, Math.max(twice, bytesMin), null)
  }

  /**
   * Removes the oldest files, if all their blocks are trimmed. One such file is kept, because the next draft can reuse
   * it. A file that is much larger than the current one is not kept.
   */
  #removeFiles(): void {
    for (let removed = 0; removed < LOG_FILES_REMOVED_MAX; removed++) {
      const [oldest, second] = this.#files
      if (oldest === undefined || oldest.last > this.#trimmed) return
      const isSpare = oldest.bytes <= Math.min(LOG_FILE_BYTES_MAX, 2 * this.#current.bytes)
      if (isSpare && (second === undefined || second.last > this.#trimmed)) return
      rmSync(logPath(this.#folder, oldest.number), { force: true })
      this.#files.shift()
    }
  }

  #open(file: ReadyFile): OpenFile {
    const flags = constants.O_WRONLY | (this.#isDeferred ? 0 : constants.O_DSYNC)
    const descriptor = openSync(logPath(this.#folder, file.number), flags)
    this.#opened = { ...file, descriptor, isFlushing: false, isClosed: false }
    return this.#opened
  }

  #write(blocks: readonly StoredBlock[], flags: number): void {
    try {
      // The write does not count as a change of the store: readers of the store do not see blocks before they are
      // processed.
      counted(() => this.#writeFrame(blocks, flags), true)
    } catch (cause) {
      this.#failure = cause instanceof Error ? cause : new Error(String(cause))
      throw this.#failure
    }
    this.#position += frameBytes(blocks)
    this.#isUnproven = blocks.length > 0
    if (!this.#isDeferred) this.#flushed = this.#position
  }

  #writeFrame(blocks: readonly StoredBlock[], flags: number): void {
    const bytes = frameBytes(blocks)
    const headBytes = FRAME_HEAD_BYTES + blocks.length * BLOCK_ENTRY_BYTES
    if (headBytes > this.#head.length) this.#head = Buffer.allocUnsafeSlow(2 * headBytes)
    const { salt, descriptor } = this.#current
    const [first, trimmed, flushed] = [this.#last + 1, this.#trimmed, this.#flushed]
    encodeFrameHead(this.#head, { salt, first, trimmed, flushed, flags, blocks })
    const contents = blocks.map((block) => block.bytes)
    const filled = contents.reduce((sum, { length }) => sum + length, headBytes)
    const padding = PADDING.subarray(0, bytes - filled)
    const parts = [this.#head.subarray(0, headBytes), ...contents, padding]
    writeAll(descriptor, parts, bytes, this.#position)
  }

  #flushLater(file: OpenFile): void {
    if (!this.#isDeferred || file.isFlushing || file.isClosed) return
    const position = this.#position
    file.isFlushing = true
    fdatasync(file.descriptor, (error) => {
      file.isFlushing = false
      if (error !== null) this.#failure = error
      if (file.isClosed) closeSync(file.descriptor)
      else if (error === null) {
        this.#flushed = position
        if (this.#position > position) this.#flushLater(file)
      }
    })
  }

  #tellReach(): void {
    const { logReach } = this.#options
    if (logReach !== undefined) Atomics.store(logReach, 0, BigInt(this.#last))
  }
}

/** Reads the blocks of the log, in the order of their sequence numbers or at random. */
export class LogReader implements ports.LogReader {
  readonly #reach: BigInt64Array | undefined
  readonly #end: LogCursor
  readonly #place: LogCursor
  /** The frame that was read last with `#place`. */
  #frame: Frame | null = null
  #last = 0

  constructor({ dataDir, logReach }: LogOptions) {
    const folder = logFolder(dataDir)
    this.#reach = logReach
    this.#end = new LogCursor(folder, PAGE_BYTES)
    this.#place = new LogCursor(folder)
    this.#end.toEnd()
    this.#last = this.#end.last
  }

  /**
   * Makes the blocks that were appended since the last call available to `block`. In the process of the writer, these
   * are only blocks whose append has ended.
   */
  refresh(): void {
    this.#place.forget()
    if (this.#reach !== undefined) {
      this.#last = Math.max(this.#last, Number(Atomics.load(this.#reach, 0)))
      return
    }
    this.#end.forget()
    this.#end.toEnd()
    this.#last = this.#end.last
  }

  /**
   * Returns the range of the sequence numbers in the log, or null if the log is empty. The first blocks of the range
   * may be gone already, because a file can be reused shortly before a frame records that its blocks are trimmed.
   * log-inspection.ts distinguishes such trimmed blocks from lost ones.
   */
  extent(): ports.LogExtent | null {
    const first = Math.max(this.#trimmed + 1, this.#end.first)
    return first > this.#last ? null : { first, last: this.#last }
  }

  /**
   * Returns a block by its sequence number. The result is valid until the next call. Reading blocks in order is cheap.
   * If a call asks for an earlier block than the last call, all frames are read again from the first one. Returns
   * undefined if the block was trimmed, or was not appended yet. Throws `DamagedLogError` if the block should be there
   * but cannot be read.
   */
  block(sequence: number): Buffer | undefined {
    if (sequence > this.#last || sequence <= this.#trimmed) return undefined
    if (this.#frame !== null && sequence < this.#frame.first) {
      this.#place.close()
      this.#frame = null
    }
    while (this.#frame === null || sequence > this.#frame.last) {
      this.#frame = this.#place.next()
      if (this.#frame === null) throw this.#damage(sequence)
    }
    if (sequence >= this.#frame.first) {
      return this.#place.file?.block(this.#frame, sequence - this.#frame.first)
    }
    if (sequence > this.#trimmed) this.#end.toEnd()
    if (sequence > this.#trimmed) throw this.#damage(sequence)
    return undefined
  }

  async close(): Promise<void> {
    this.#end.close()
    this.#place.close()
  }

  #damage(sequence: number): DamagedLogError {
    return new DamagedLogError(this.#place.file?.path ?? 'the log', `block ${sequence} is missing`)
  }

  get #trimmed(): number {
    return Math.max(this.#end.trimmed, this.#place.trimmed)
  }
}

function frameBytes(blocks: readonly StoredBlock[]): number {
  const headBytes = FRAME_HEAD_BYTES + blocks.length * BLOCK_ENTRY_BYTES
  return pageEnd(blocks.reduce((sum, { bytes }) => sum + bytes.length, headBytes))
}

/**
 * Closes a file. If the file is being flushed, it is closed only when the flush ends. Otherwise the system could give
 * its descriptor to another file during the flush.
 */
function closeFile(file: OpenFile): void {
  file.isClosed = true
  if (!file.isFlushing) closeSync(file.descriptor)
}
