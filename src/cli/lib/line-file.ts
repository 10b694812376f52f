/**
 * Where the lines of an export go: chunks of whole lines to a file or to standard output. A file is
 * written, and flushed now and then, while the next chunk is being made.
 */
import { close, fdatasync, fsync, write } from 'node:fs'
import { promisify } from 'node:util'
import { JsonBytes } from '../../base/json-bytes.ts'
import type { CommandIo } from './command.ts'

/** Bytes from which a chunk is written. */
export const CHUNK_BYTES = 1024 * 1024
/** The disk gets work from the beginning, so that little is left for the flush at the end. */
const FLUSH_BYTES = 32 * 1024 * 1024

const writeAt = promisify(write)
const flushData = promisify(fdatasync)
const flush = promisify(fsync)
const closeFile = promisify(close)

/** Takes whole lines. */
export interface LineTarget {
  /** Takes a chunk, which belongs to the target then; resolves with an empty one to fill next. */
  write(chunk: JsonBytes): Promise<JsonBytes>
}

/** Standard output. */
export function standardOutput(io: CommandIo): LineTarget {
  return {
    async write(chunk) {
      const bytes = chunk.bytes.subarray(0, chunk.length)
      if (io.outBytes === undefined) io.out(bytes.toString('utf8'))
      else io.outBytes(bytes)
      await io.drained?.()
      chunk.length = 0
      return chunk
    },
  }
}

/** A file that is open for writing, from its end on. */
export class LineFile implements LineTarget {
  /** Id of the last event that was in the file when it was opened; 0 for a new one. */
  readonly lastId: number
  readonly #descriptor: number
  #position: number
  #spare: JsonBytes | null = null
  #writing: Promise<void> = Promise.resolve()
  #flushing: Promise<void> | null = null
  #unflushedBytes = 0
  #failure: Error | null = null

  constructor(descriptor: number, position: number, lastId: number) {
    this.#descriptor = descriptor
    this.#position = position
    this.lastId = lastId
  }

  /** Rejects with the error of an earlier chunk, too. */
  async write(chunk: JsonBytes): Promise<JsonBytes> {
    await this.#writing
    const next = this.#spare ?? new JsonBytes(chunk.bytes.length)
    this.#spare = null
    this.#writing = this.#writeAll(chunk)
    // Whoever writes or closes next is told.
    this.#writing.catch(() => undefined)
    return next
  }

  /** Writes what is left, flushes and closes. Rejects when not all is on the disk. */
  async close(): Promise<void> {
    try {
      await this.#writing
      await this.#flushing
      if (this.#failure !== null) throw this.#failure
      await flush(this.#descriptor)
    } finally {
      await closeFile(this.#descriptor)
    }
  }

  async #writeAll(chunk: JsonBytes): Promise<void> {
    for (let from = 0; from < chunk.length; ) {
      const { bytesWritten } = await writeAt(
        this.#descriptor,
        chunk.bytes,
        from,
        chunk.length - from,
        this.#position,
      )
      from += bytesWritten
      this.#position += bytesWritten
      this.#unflushedBytes += bytesWritten
    }
    chunk.length = 0
    this.#spare = chunk
    if (this.#unflushedBytes < FLUSH_BYTES || this.#flushing !== null) return
    this.#unflushedBytes = 0
    this.#flushing = flushData(this.#descriptor)
      .catch((error: unknown) => {
        // The kernel tells it once: a later flush would know nothing of it.
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => {
        this.#flushing = null
      })
  }
}
