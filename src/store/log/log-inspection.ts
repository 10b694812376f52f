/** Looks how far a log reaches and what of it is missing or damaged, beside those who write it or alone. */
import type { LogExtent } from '../../ports/log.ts'
import { LOG_CHECKED_BYTES_MAX, LOG_LOOKS_MAX } from './limits.ts'
import { LogCursor } from './log-cursor.ts'
import { FRAME_RAISING, type Frame, logFolder, PAGE_BYTES } from './log-file.ts'

/** Blocks that were written and cannot be read. */
export interface LogGap extends LogExtent {
  /** The file that should hold them, or the next that can be read, absolute. */
  readonly file: string
}

/** How far a log reaches. */
export interface LogReach {
  /** The last sequence that it ever had; 0 for none. */
  readonly last: number
  /** Where its processing stands. */
  readonly processed: number
  /** The first blocks that it should still have and no longer has; null when it has all that are not processed. */
  readonly missing: LogExtent | null
  /** The first of those that are damaged, or null. */
  readonly damage: LogGap | null
}

/**
 * Looks how far a log reaches. `readProcessed` answers the position of processing; it is asked behind the
 * look at the log, so that blocks that are processed and forgotten meanwhile do not pass for missing.
 * `isAlone`: nobody writes, and blocks that are not processed are compared with their checksums. Throws
 * `DamagedLogError` when a whole file is missing or damaged. Cost: a read for each append that is still in the
 * files; alone, their bytes, at most `LOG_CHECKED_BYTES_MAX`.
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
      if (damage === null || isAlone || look === LOG_LOOKS_MAX) return { ...reach, damage }
    } finally {
      inspection.close()
    }
  }
}

class Inspection {
  readonly gaps: LogGap[] = []
  readonly #cursor: LogCursor
  /** Blocks behind this one are compared with their checksums; null: none. */
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

  /** The last sequence that there ever was, what came since `run` included. */
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
    if (this.#checkedBytes > LOG_CHECKED_BYTES_MAX) return
    if (this.#cursor.file?.isWhole(frame) === false) this.#broken.push({ frame, file })
  }
}
