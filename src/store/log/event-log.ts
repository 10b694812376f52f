/**
 * The two ends of the log: what was accepted and is not yet processed, in order of arrival, in files of its
 * own (log-file.ts), so that an acknowledgement waits for one write of the disk and nothing else. One thread
 * appends (`LogAppender`); any thread and process may read (`LogReader`). They implement ports/log.ts.
 *
 * Each run of an appender begins a file and closes the one before, at the end of what is whole there, so
 * that nothing is ever written behind what a power cut has left. On a full disk it goes on there, if that is blank.
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

const PADDING = Buffer.alloc(PAGE_BYTES)
/** The next file is made this much faster than the present one fills, from half of it on. */
const DRAFT_FACTOR = 4
const DRAFT_STEP_BYTES = 1024 * 1024

/** Where the log is and how it is written. */
export interface LogOptions {
  readonly dataDir: string
  /** `--durability commit`: an append returns when it is visible, and reaches the disk a moment later. */
  readonly isFlushDeferred?: boolean
  /** Shared by both ends within a process: the number of the last block that was appended, once there is one. */
  readonly logReach?: BigInt64Array
  /** As `DiskRoom` reads it: what the files of the log leave free. */
  readonly diskRoom?: Float64Array | undefined
}

/** What an appender is told besides. */
export interface AppenderOptions extends LogOptions {
  /** The sequence up to which everything is processed; later sequences begin behind it. */
  readonly processed: number
  /** Blocks have their seals, fitting or not, and keep them. */
  readonly isSealed?: boolean
}

/** A file that is closed, and the last block that it or one before it holds. */
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

/** The writing end. One per data directory. */
export class LogAppender implements ports.LogAppender {
  readonly #folder: string
  readonly #options: AppenderOptions
  readonly #room: LogRoom
  /** Oldest first. */
  #files: ClosedFile[] = []
  #current: OpenFile
  /** What was opened last. */
  #opened: OpenFile | null = null
  #next: ReadyFile | null = null
  #draft: LogDraft | null = null
  #position = PAGE_BYTES
  #flushed = PAGE_BYTES
  #last = 0
  #trimmed = 0
  #head = Buffer.allocUnsafeSlow(PAGE_BYTES)
  /** The last frame holds blocks: nothing proves yet that it was whole once. */
  #isUnproven = false
  /** Bytes that were appended since `shrink` looked last. */
  #appendedBytes = 0
  #failure: Error | null = null

  /** Throws `DamagedLogError`, what the file system throws, and `ServiceError` when the disk is full. */
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
   * Appends blocks in one frame. When it returns, they are durable. Throws `ServiceError` when there is no
   * room on the disk, and then nothing was written; after any other throw the outcome is unknown.
   */
  append(blocks: readonly Buffer[], trimThrough: number): number {
    if (this.#failure !== null) throw this.#failure
    const trimmed = Math.max(this.#trimmed, Math.min(trimThrough, this.#last))
    if (blocks.length === 0 && trimmed === this.#trimmed) return this.#last
    const bytes = frameBytes(blocks)
    // What is forgotten now may make room for the next file.
    this.#trimmed = trimmed
    if (this.#position + bytes + PAGE_BYTES > this.#current.bytes) this.#rotate(bytes)
    this.#write(blocks, 0)
    this.#last += blocks.length
    this.#appendedBytes += bytes
    this.#tellReach()
    this.#flushLater(this.#current)
    this.#removeFiles()
    this.#prepare(bytes)
    return this.#last
  }

  /**
   * Gives back what a rush took: when little came since the last call, a small file is begun, and larger ones go
   * once all that they hold is forgotten. A failure is that of the next append.
   */
  shrink(): void {
    const isCalm = this.#appendedBytes <= LOG_CALM_BYTES_MAX
    this.#appendedBytes = 0
    if (!isCalm || this.#failure !== null) return
    if (this.#current.bytes <= LOG_FILE_BYTES_MIN) {
      // One append removes a few files only, and a rush may have left more of them.
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
      // Says what is forgotten, before what said it goes.
      this.#write([], 0)
      if (this.#isDeferred) fdatasyncSync(this.#current.descriptor)
      this.#removeFiles()
    } catch {
      // The disk is full, or a write has failed.
    }
  }

  /** Leaves a frame behind the last block, so that damage to it is told from an append that was cut short. */
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

  /** Finds out what there is, closes the newest file and opens another. */
  #recover(): OpenFile {
    const { begun, unused } = lookAtFiles(this.#folder)
    const newest = begun.at(-1)
    const [spare, ...others] = unused
    // What lies behind a first frame that a power cut took would fit behind a new one: it is replaced.
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
      // 0: unknown; what is behind it is later.
      if (first > 0) last = first - 1
    }
    if (!isOpen) return this.#openNext(newest.number, 0)
    this.#files.pop()
    this.#current = this.#open(newest)
    // Of a process that was killed, the system has what the disk may not have yet.
    fsyncSync(this.#current.descriptor)
    this.#position = position
    this.#flushed = position
    try {
      this.#rotate(0)
    } catch (cause) {
      // For the frame that says where sequences go on, and the one that closes.
      const isRoom = position + 2 * PAGE_BYTES <= newest.bytes && cause instanceof ServiceError
      if (!isRoom || !isBlank(this.#folder, newest.number, position)) throw cause
    }
    return this.#current
  }

  /** Goes on in the next file, which has room for so many bytes. */
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

  /** The file behind that number, at the latest now. Throws `ServiceError` when the disk or the process is full. */
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

  /** Makes the next file bit by bit. What fails is tried again when the file is needed. */
  #prepare(appended: number): void {
    if (this.#next !== null || this.#position < this.#current.bytes / 2) return
    try {
      this.#draft ??= this.#beginDraft(0)
      if (!this.#draft.grow(Math.max(DRAFT_STEP_BYTES, appended * DRAFT_FACTOR))) return
      this.#publish(this.#draft, this.#current.number + 1)
    } catch {
      // There is room in this one yet.
    }
  }

  /** Makes the draft the next file. */
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

  /** One file that is no longer needed is kept for the next, unless it is far larger than the present one. */
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

  #write(blocks: readonly Buffer[], flags: number): void {
    try {
      // Nobody reads it before it is processed.
      counted(() => this.#writeFrame(blocks, flags), true)
    } catch (cause) {
      this.#failure = cause instanceof Error ? cause : new Error(String(cause))
      throw this.#failure
    }
    this.#position += frameBytes(blocks)
    this.#isUnproven = blocks.length > 0
    if (!this.#isDeferred) this.#flushed = this.#position
  }

  #writeFrame(blocks: readonly Buffer[], flags: number): void {
    const bytes = frameBytes(blocks)
    const headBytes = FRAME_HEAD_BYTES + blocks.length * BLOCK_ENTRY_BYTES
    if (headBytes > this.#head.length) this.#head = Buffer.allocUnsafeSlow(2 * headBytes)
    const isSealed = this.#options.isSealed === true
    const checksums = blocks.map((block) => (isSealed ? crc32(block.subarray(8)) : seal(block)))
    const { salt, descriptor } = this.#current
    const [first, trimmed, flushed] = [this.#last + 1, this.#trimmed, this.#flushed]
    encodeFrameHead(this.#head, { salt, first, trimmed, flushed, flags, blocks, checksums })
    const filled = blocks.reduce((sum, { length }) => sum + length, headBytes)
    const padding = PADDING.subarray(0, bytes - filled)
    const parts = [this.#head.subarray(0, headBytes), ...blocks, padding]
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

/** The reading end. */
export class LogReader implements ports.LogReader {
  readonly #reach: BigInt64Array | undefined
  readonly #end: LogCursor
  readonly #place: LogCursor
  /** Where `#place` stands. */
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

  /** Lets `block` see what was appended since the last call; within the process that writes, what is durable. */
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
   * The stored sequences, or null when the log is empty. A file is used again a moment before a frame says
   * that its blocks are forgotten; who may lack them, log-inspection.ts knows.
   */
  extent(): ports.LogExtent | null {
    const first = Math.max(this.#trimmed + 1, this.#end.first)
    return first > this.#last ? null : { first, last: this.#last }
  }

  /**
   * The block with that sequence, valid until the next call. Cheap in order; to go back costs a walk from the
   * first frame. Throws `DamagedLogError` when it should be there and is not.
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
    return new DamagedLogError(this.#place.file?.path ?? 'the log', `it lacks block ${sequence}`)
  }

  get #trimmed(): number {
    return Math.max(this.#end.trimmed, this.#place.trimmed)
  }
}

function frameBytes(blocks: readonly Buffer[]): number {
  const headBytes = FRAME_HEAD_BYTES + blocks.length * BLOCK_ENTRY_BYTES
  return pageEnd(blocks.reduce((sum, { length }) => sum + length, headBytes))
}

/** Not while it is flushed: its descriptor would be that of another file. */
function closeFile(file: OpenFile): void {
  file.isClosed = true
  if (!file.isFlushing) closeSync(file.descriptor)
}
