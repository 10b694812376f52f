/** Goes through the frames of a log, from file to file, while another process may append and recycle. */
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

/** What is read of a file at a time, unless a block is larger. */
const WINDOW_BYTES = 256 * 1024
const DESCRIPTOR_PAUSE_MS = 20

/** Where in a log somebody is; begins before its first frame. */
export class LogCursor {
  readonly #folder: string
  readonly #windowBytes: number
  #file: LogFile | null = null
  #position = PAGE_BYTES
  /** The last frame was the last of its file. */
  #isClosed = false
  /** The number of a file that should have come before this one. */
  #skipped: number | null = null
  #first = 0
  #last = 0
  #trimmed = 0

  /** `windowBytes`: a page, for one who looks at no blocks. */
  constructor(folder: string, windowBytes = WINDOW_BYTES) {
    this.#folder = folder
    this.#windowBytes = windowBytes
  }

  /** The file of the last frame; null without one. */
  get file(): LogFile | null {
    return this.#file
  }

  /** Where the next frame is or will be. */
  get position(): number {
    return this.#position
  }

  /** No more frames follow in this file. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** The number of the first block that the files have; 1 where what comes first is damaged. */
  get first(): number {
    return this.#first
  }

  /** The highest number of a block that was passed. */
  get last(): number {
    return this.#last
  }

  /** The highest number of a forgotten block that was heard of. */
  get trimmed(): number {
    return this.#trimmed
  }

  /** Begins anew, at a file: the first one, unless told otherwise. */
  restart(from = 0): void {
    this.close()
    this.#open(from)
  }

  /**
   * The next frame, closing ones included; null where none is yet. One that is damaged is passed over, when
   * a later one proves that it was there. It may begin anew, when what it read was recycled. Throws
   * `DamagedLogError` when a file is missing or damaged. Cost of null: a look at each page that is left.
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
   * Goes on to the end of what is whole: behind it is what a power cut left of one append, or nothing. What
   * a later frame calls flushed is whole without a look at its blocks. `onFrame` is told of each frame.
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

  /** Lets `next` see what was written since. */
  forget(): void {
    this.#file?.forget()
  }

  /** Closes the file; goes on at the first one. */
  close(): void {
    this.#file?.close()
    this.#file = null
    this.#position = PAGE_BYTES
    this.#isClosed = false
    this.#skipped = null
  }

  /** Goes on where a later frame proves that there was one, or to that one, if it was written only now. */
  #resume(): boolean {
    const file = this.#file
    if (file === null) return false
    const behind = file.frameBehind(this.#position)
    if (behind !== null) {
      if (file.frameAt(this.#position) === null) this.#position = behind.position
      return true
    }
    // A file is begun when the one before is closed.
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

  /** Opens the first file from this number on; whether there is one. */
  #open(from: number): boolean {
    const file = this.#fileFrom(from)
    if (file === null) return false
    this.#file = file
    this.#position = PAGE_BYTES
    this.#isClosed = false
    return true
  }

  /** The first file from this number on, or null. */
  #fileFrom(from: number): LogFile | null {
    const list = (): readonly number[] => patiently(() => logNumbers(this.#folder))
    for (let attempt = 0; attempt < LOG_ATTEMPTS_MAX; attempt++) {
      const number = list().find((each) => each >= from)
      if (number === undefined) return null
      try {
        return patiently(() => new LogFile(this.#folder, number, this.#windowBytes))
      } catch (error) {
        if (list().includes(number)) throw error
        // It was recycled since it was listed, or while it was opened.
      }
    }
    throw missing(this.#folder)
  }
}

/** Waits while connections have all descriptors: whoever reads is in the middle of its work. */
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
