/**
 * Checks up to which block a log reaches, and which of its blocks are missing or damaged. A writer may be running at
 * the same time.
 */
import type { LogExtent } from '../../ports/log.ts'
import { LOG_CHECKED_BYTES_MAX, LOG_LOOKS_MAX } from './limits.ts'
import { LogCursor } from './log-cursor.ts'
import { FRAME_RAISING, type Frame, logFolder, PAGE_BYTES } from './log-file.ts'

/** A range of blocks that were written but cannot be read. */
export interface LogGap extends LogExtent {
  /**
   * The absolute path of the file that should contain the blocks. If that file is missing, the path of the next file
   * that can be read.
   */
  readonly file: string
}

/** The result of an inspection of a log. */
export interface LogReach {
  /** The number of the newest block that the log ever had, or 0 if it never had a block. */
  readonly last: number
  /** The number of the last block that is processed. */
  readonly processed: number
  /** The first range of unprocessed blocks that should be in the log but are missing, or null. */
  readonly missing: LogExtent | null
  /** The first range of unprocessed blocks that are damaged, or null. */
  readonly damage: LogGap | null
  /**
   * The number of events in the unprocessed blocks, or 0 if it was not counted. If the first of these blocks is
   * processed in part, all of its events count.
   */
  readonly waitingEvents: number
}

/**
 * Inspects a log. `readProcessed` returns the number of the last processed block. It is called after the log was read.
 * So if blocks are processed and removed while the log is read, they are not reported as missing. `isAlone` means that no
 * process may write to the log. The unprocessed blocks are then also compared with their checksums, and their events are
 * counted. Throws `DamagedLogError` if a whole file is missing or damaged.
 *
 * It costs one read for each append that is still in the files. With `isAlone`, the blocks are read too: up to
 * `LOG_CHECKED_BYTES_MAX` bytes of them completely, and the beginning of each further block.
 */
export function lookAtLog(
  dataDir: string,
  readProcessed: () => number,
  isAlone: boolean,
): LogReach {
  for (let look = 1; ; look++) {
    const inspection = new Inspection(dataDir, isAlone ? readProcessed() : null)
    try {
      inspection.run()
      const processed = readProcessed()
      const reach = { processed, missing: inspection.missing(processed), last: inspection.last() }
      const damage = inspection.gaps.find(({ last }) => last > processed) ?? null
      const { waitingEvents } = inspection
      if (damage === null || isAlone || look === LOG_LOOKS_MAX) {
        return { ...reach, damage, waitingEvents }
      }
    } finally {
      inspection.close()
    }
  }
}

class Inspection {
  readonly gaps: LogGap[] = []
  /** The number of events in the unprocessed blocks. Not counted if no blocks are compared with their checksums. */
  waitingEvents = 0
  readonly #cursor: LogCursor
  /**
   * The number of the last processed block. Later blocks are compared with their checksums. Null: no blocks are
   * compared.
   */
  readonly #processed: number | null
  #checkedBytes = 0
  #first: number | null = null
  #expected = 1
  #broken: { readonly frame: Frame; readonly file: string }[] = []

  constructor(dataDir: string, processed: number | null) {
    this.#processed = processed
    const windowBytes = processed === null ? PAGE_BYTES : undefined
    this.#cursor = new LogCursor(logFolder(dataDir), windowBytes)
  }

  run(): void {
    this.#cursor.toEnd((frame) => this.#take(frame))
  }

  /**
   * Returns the number of the newest block that the log ever had. If a writer is running, blocks that it has appended
   * after `run` count too.
   */
  last(): number {
    if (this.#processed === null) this.#cursor.toEnd()
    return this.#cursor.last
  }

  missing(processed: number): LogExtent | null {
    const last = Math.max(this.#cursor.trimmed, (this.#first ?? 1) - 1)
    return last > processed ? { first: processed + 1, last } : null
  }

  close(): void {
    this.#cursor.close()
  }

  #take(frame: Frame): void {
    const file = this.#cursor.file?.path ?? ''
    const isPassed = (frame.flags & FRAME_RAISING) !== 0
    if (this.#first !== null && frame.first > this.#expected && !isPassed) {
      this.gaps.push({ file, first: this.#expected, last: frame.first - 1 })
    }
    this.#first ??= frame.first
    this.#expected = frame.last + 1
    const isFlushed = (end: number): boolean => end <= frame.flushed
    for (const { frame: broken, file: place } of this.#broken) {
      if (place !== file || isFlushed(broken.end)) {
        this.gaps.push({ file: place, first: broken.first, last: broken.last })
      }
    }
    this.#broken = this.#broken.filter((each) => each.file === file && !isFlushed(each.frame.end))
    this.#check(frame, file)
  }

  #check(frame: Frame, file: string): void {
    if (this.#processed === null || frame.last <= this.#processed) return
    this.#checkedBytes += frame.end - frame.position
    const isChecked = this.#checkedBytes <= LOG_CHECKED_BYTES_MAX
    if (isChecked && this.#cursor.file?.isWhole(frame) === false) {
      this.#broken.push({ frame, file })
      return
    }
    this.waitingEvents += this.#cursor.file?.eventsAfter(frame, this.#processed) ?? 0
  }
}
