/** What an appender finds in the folder of a log. */
import type { ReadyFile } from './log-draft.ts'
import { LogFile, logNumbers, PAGE_BYTES } from './log-file.ts'

/** What is read at a time of a file that should hold nothing. */
const BLANK_WINDOW_BYTES = 256 * 1024

/** A file that was found. */
export interface FoundFile extends ReadyFile {
  /** The number of its first block, or of the next one. */
  readonly first: number
}

/** The files that hold frames, and those behind them that do not. */
export function lookAtFiles(folder: string): {
  begun: readonly FoundFile[]
  unused: readonly FoundFile[]
} {
  const found = logNumbers(folder).map((number) => {
    const file = new LogFile(folder, number, PAGE_BYTES)
    const first = file.frameAt(PAGE_BYTES)?.first ?? 0
    file.close()
    return { number, bytes: file.bytes, salt: file.salt, first }
  })
  const count = found.findLastIndex(({ first }) => first > 0) + 1
  return { begun: found.slice(0, count), unused: found.slice(count) }
}

/** Whether no frame is in a file from `position` on, at least a page. Cost: reads all of that. */
export function isBlank(folder: string, number: number, position = PAGE_BYTES): boolean {
  const file = new LogFile(folder, number, BLANK_WINDOW_BYTES)
  try {
    return file.frameBehind(position - PAGE_BYTES, 0) === null
  } finally {
    file.close()
  }
}
