/** Lists the files that an appender finds in the folder of a log. */
import type { ReadyFile } from './log-draft.ts'
import { LogFile, logNumbers, PAGE_BYTES } from './log-file.ts'

/** The number of bytes that are read at once while a file is searched for frames. */
const BLANK_WINDOW_BYTES = 256 * 1024

/** A file that was found in the folder of a log. */
export interface FoundFile extends ReadyFile {
  /**
   * The sequence number of the first block. If the first frame has no blocks, this is the number that the next block
   * will get. 0 if the first frame cannot be read.
   */
  readonly first: number
}

/**
 * Returns the files of a log in two parts. `begun` contains the files up to the last one whose first frame can be read,
 * and `unused` contains the files after that one.
 */
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

/**
 * Returns whether a file contains no frame at or after the offset `position`, which must be at least `PAGE_BYTES`.
 * Reads the file from there until it finds a frame.
 */
export function isBlank(folder: string, number: number, position = PAGE_BYTES): boolean {
  const file = new LogFile(folder, number, BLANK_WINDOW_BYTES)
  try {
    return file.frameBehind(position - PAGE_BYTES, 0) === null
  } finally {
    file.close()
  }
}
