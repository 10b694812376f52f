/**
 * Reads the frames of a log, file by file. While it reads, another process may append to the files and reuse old ones.
 */
import { LOG_ATTEMPTS_MAX, LOG_DESCRIPTOR_WAIT_MS_MAX } from './limits.ts'
import {
  DamagedLogError,
  FRAME_CLOSING,
  type Frame,
  LogFile,
  logNumbers,
  logPath,
  PAGE_BYTES,
} from './log-file.ts'

/** The number of bytes that are read from a file at once, unless a block is larger. */
const WINDOW_BYTES = 256 * 1024
const DESCRIPTOR_PAUSE_MS = 20

/** A position in a log from which frames are read. At first it is before the first frame. */
export class LogCursor {
  readonly #folder: string
  readonly #windowBytes: number
  #file: LogFile | null = null
  #position = PAGE_BYTES
  /** True if the last frame that was read closes its file. */
  #isClosed = false
  /** The number of a missing file that should have come before the current one. */
  #skipped: number | null = null
  #first = 0
  #last = 0
  #trimmed = 0

  /**
   * `windowBytes` is the number of bytes that are read at once. One page is enough for a caller that reads only the
   * heads of frames and no blocks.
   */
  constructor(folder: string, windowBytes = WINDOW_BYTES) {
    this.#folder = folder
    this.#windowBytes = windowBytes
  }

  /** The file of the last frame that was read, or null if no frame has been read. */
  get file(): LogFile | null {
    return this.#file
  }

  /** The offset in the file at which the next frame begins. */
  get position(): number {
    return this.#position
  }

  /** True if the current file has no more frames. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** The sequence number of the first block in the files, or 1 if the beginning of the log is damaged. */
  get first(): number {
    return this.#first
  }

  /** The highest sequence number among the blocks read so far. */
  get last(): number {
    return this.#last
  }

  /** The sequence number up to which blocks are trimmed (not needed any more), according to the frames read so far. */
  get trimmed(): number {
    return this.#trimmed
  }

  /** Starts again at the first file whose number is `from` or higher. */
  restart(from = 0): void {
    this.close()
    this.#open(from)
  }

  /**
   * Returns the next frame, which may be a closing frame, or null if there is none yet. A damaged frame is skipped if a
   * later frame proves that the damaged frame was once complete. If the file that was being read has been reused under
   * another number, the cursor starts again at the first file. Throws `DamagedLogError` if a file is missing or
   * damaged. Before it returns null, it looks for a frame at the beginning of each remaining page.
   */
  next(): Frame | null {
    for (let attempt = 0; attempt < LOG_ATTEMPTS_MAX; attempt++) {
      if (this.#file === null && !this.#open(0)) return null
      if (this.#isClosed) this.#openNext()
      const frame = this.#file?.frameAt(this.#position) ?? null
      if (frame !== null) {
        this.#position = frame.end
        this.#isClosed = (frame.flags & FRAME_CLOSING) !== 0
        this.#skipped = null
        if (this.#first === 0) this.#first = frame.position === PAGE_BYTES ? frame.first : 1
        this.#last = Math.max(this.#last, frame.last)
        this.#trimmed = Math.max(this.#trimmed, frame.trimmed)
        return frame
      }
      if (this.#file?.isReused() === true) {
        this.close()
      } else if (!this.#resume()) {
        if (this.#skipped !== null) throw missing(logPath(this.#folder, this.#skipped))
        return null
      }
    }
    throw missing(this.#folder)
  }

  /**
   * Moves to the end of the last whole frame. What follows is either blank, or the remains of an append that a power
   * cut interrupted. If a later frame records that the blocks of a frame were flushed, their checksums are not
   * verified. Calls `onFrame` for each frame.
   */
  toEnd(onFrame?: (frame: Frame) => void): void {
    let unsure: Frame[] = []
    let file = this.#file
    for (let frame = this.next(); frame !== null; frame = this.next()) {
      const { flushed } = frame
      unsure = file === this.#file ? unsure.filter(({ end }) => end > flushed) : []
      file = this.#file
      unsure.push(frame)
      onFrame?.(frame)
    }
    const torn = unsure.find((frame) => file?.isWhole(frame) === false)
    if (torn === undefined) return
    this.#position = torn.position
    this.#isClosed = false
    this.#last = torn.first - 1
  }

  /** Discards the cached bytes, so that `next` sees data that was written since they were read. */
  forget(): void {
    this.#file?.forget()
  }

  /** Closes the file. The next read starts at the first file. */
  close(): void {
    this.#file?.close()
    this.#file = null
    this.#position = PAGE_BYTES
    this.#isClosed = false
    this.#skipped = null
  }

  /**
   * Called when the frame at the current position could not be read. If a later frame exists, the frame must have been
   * written, and the method returns true. The frame is then read again. If it is still unreadable, it is damaged, and
   * the cursor moves to the later frame. Otherwise it was written after the failed read, and the cursor stays at it.
   * Returns false if there is no later frame.
   */
  #resume(): boolean {
    const file = this.#file
    if (file === null) return false
    const behind = file.frameBehind(this.#position)
    if (behind !== null) {
      if (file.frameAt(this.#position) === null) this.#position = behind.position
      return true
    }
    // A new file is begun only after the previous file was closed. A frame in a later file therefore proves that this
    // file is complete.
    let later = this.#fileFrom(file.number + 1)
    while (later !== null) {
      const { number } = later
      const isBegun = later.frameAt(PAGE_BYTES) !== null
      later.close()
      if (isBegun) {
        if (file.frameAt(this.#position) === null) this.restart(number)
        return true
      }
      later = this.#fileFrom(number + 1)
    }
    return false
  }

  #openNext(): void {
    const expected = (this.#file?.number ?? 0) + 1
    const before = this.#file
    if (!this.#open(expected)) throw missing(logPath(this.#folder, expected))
    before?.close()
    this.#skipped = this.#file?.number === expected ? null : expected
  }

  /** Opens the first file whose number is `from` or higher. Returns false if there is none. */
  #open(from: number): boolean {
    const file = this.#fileFrom(from)
    if (file === null) return false
    this.#file = file
    this.#position = PAGE_BYTES
    this.#isClosed = false
    return true
  }

  /** Returns the first file whose number is `from` or higher, or null. */
  #fileFrom(from: number): LogFile | null {
    const list = (): readonly number[] => patiently(() => logNumbers(this.#folder))
    for (let attempt = 0; attempt < LOG_ATTEMPTS_MAX; attempt++) {
      const number = list().find((each) => each >= from)
      if (number === undefined) return null
      try {
        return patiently(() => new LogFile(this.#folder, number, this.#windowBytes))
      } catch (error) {
        if (list().includes(number)) throw error
        // The file was given another number after the folder was listed, or while the file was being opened. List the
        // folder again.
      }
    }
    throw missing(this.#folder)
  }
}

/**
 * Calls `open`, and repeats the call while the process has no free file descriptor, so that a temporary lack of
 * descriptors does not make the caller fail. Gives up after `LOG_DESCRIPTOR_WAIT_MS_MAX`.
 */
function patiently<T>(open: () => T): T {
  const startedAtMs = performance.now()
  for (;;) {
    try {
      return open()
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : null
      const isPassing = code === 'EMFILE' || code === 'ENFILE'
      if (!isPassing || performance.now() - startedAtMs > LOG_DESCRIPTOR_WAIT_MS_MAX) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, DESCRIPTOR_PAUSE_MS)
    }
  }
}

function missing(path: string): DamagedLogError {
  return new DamagedLogError(path, 'is missing')
}
