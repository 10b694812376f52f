/** Lists the files that an appender finds in the folder of a log. */
import type { ReadyFile } from './log-draft.ts'
import { LogFile, logNumbers, PAGE_BYTES } from './log-file.ts'

/** The number of bytes read at a time from a file that should be blank. */
const BLANK_WINDOW_BYTES = 256 * 1024

/** A file found in the folder. */
export interface FoundFile extends ReadyFile {
  /**
   * The sequence number of its first block, or of the next block if its first frame has none. 0 if the first frame
   * cannot be read.
   */
  readonly first: number
}

/** Returns the files up to the last one that begins with a frame (`begun`), and the files after it (`unused`). */
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

/** Returns whether a file contains no frame from `position` on, which is at least one page. Reads all of that range. */
export function isBlank(folder: string, number: number, position = PAGE_BYTES): boolean {
  const file = new LogFile(folder, number, BLANK_WINDOW_BYTES)
  try {
    return file.frameBehind(position - PAGE_BYTES, 0) === null
  } finally {
    file.close()
  }
}
