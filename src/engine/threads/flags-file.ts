/**
 * The file with all flags of a project, part by part (docs/FLAGS-IN-FILES.md). If a flag changes while the file is
 * produced, the file contains either its old or its new state.
 */
import { bytesOf } from '../../base/rows-writer.ts'
import { portableFlag } from '../../rules/flags/edit/portable-flag.ts'
import type { FlagSet } from '../../rules/flags/types.ts'
import { TABLE_PIECE_BYTES_MAX, TABLE_PIECE_MS_MAX } from './limits.ts'

/** A request for the file, or for the rest of the file. */
export interface FlagsFileTask {
  readonly projectId: number
  readonly timezone: string
  /** The part begins after the flag with this number. 0 for the first part. */
  readonly afterId: number
}

/** A part of the file. */
export interface FlagsFileChunk {
  readonly piece: Uint8Array<ArrayBuffer>
  /** The request for the rest of the file. Null after the last part. */
  readonly rest: FlagsFileTask | null
}

/**
 * Returns the next part of the JSON `{"flags": [...]}`. `set` contains the current flags in the order of their numbers.
 * A part has at least one flag, unless no flag is left.
 */
export function flagsFileChunk(task: FlagsFileTask, set: FlagSet): FlagsFileChunk {
  const { afterId } = task
  const deadline = performance.now() + TABLE_PIECE_MS_MAX
  const texts: string[] = []
  const chunkOf = (end: string) => {
    const sign = afterId === 0 ? '{"flags":[' : texts.length > 0 ? ',' : ''
    return bytesOf([`${sign}${texts.join(',')}${end}`])
  }
  let units = 0
  let lastId = afterId
  for (const flag of set.flags) {
    if (flag.id <= afterId) continue
    if (texts.length > 0 && (units >= TABLE_PIECE_BYTES_MAX || performance.now() > deadline)) {
      return { piece: chunkOf(''), rest: { ...task, afterId: lastId } }
    }
    const text = JSON.stringify(portableFlag(flag, set))
    units += text.length
    texts.push(text)
    lastId = flag.id
  }
  return { piece: chunkOf(']}'), rest: null }
}
