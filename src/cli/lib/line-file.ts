/**
 * Writes the lines of an export, in chunks of whole lines, to a file or to standard output. While a chunk is being
 * written, the next one is filled. A file is flushed from time to time.
 */
import { close, fdatasync, fsync, write } from 'node:fs'
import { promisify } from 'node:util'
import { JsonBytes } from '../../base/json-bytes.ts'
import type { CommandIo } from './command.ts'

/** A chunk is written when it has at least this number of bytes. */
export const CHUNK_BYTES = 1024 * 1024
/**
 * A file is flushed each time that this number of bytes was written, so that little work is left for the flush at the
 * end.
 */
const FLUSH_BYTES = 32 * 1024 * 1024

const writeAt = promisify(write)
const flushData = promisify(fdatasync)
const flush = promisify(fsync)
const closeFile = promisify(close)

/** Receives whole lines. */
export interface LineTarget {
  /**
   * Writes a chunk, which the caller must not use any more. Resolves with an empty chunk that the caller fills next.
   */
  write(chunk: JsonBytes): Promise<JsonBytes>
}

/** Creates a target that writes to standard output. */
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

/** A file that is open for appending. */
export class LineFile implements LineTarget {
  /** The ID of the last event in the file when it was opened. 0 for a new file. */
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

  /** Starts to write a chunk after the previous chunk is written. Rejects if an earlier chunk could not be written. */
  async write(chunk: JsonBytes): Promise<JsonBytes> {
    await this.#writing
    const next = this.#spare ?? new JsonBytes(chunk.bytes.length)
    this.#spare = null
    this.#writing = this.#writeAll(chunk)
    // The error is not lost: the next `write` or `close` rejects with it.
    this.#writing.catch(() => undefined)
    return next
  }

  /** Writes everything that is left, flushes the file and closes it. Rejects if not everything is on the disk. */
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
        // The kernel reports a failed flush only once, so the error is stored for `close`. A later flush would succeed
        // although data is missing.
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => {
        this.#flushing = null
      })
  }
}
