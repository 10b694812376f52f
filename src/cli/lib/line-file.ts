/**
 * Writes the lines of an export, in chunks of whole lines, to a file or to standard output. A file is written, and
 * flushed from time to time, while the next chunk is being filled.
 */
import { close, fdatasync, fsync, write } from 'node:fs'
import { promisify } from 'node:util'
import { JsonBytes } from '../../base/json-bytes.ts'
import type { CommandIo } from './command.ts'

/** Size in bytes from which a chunk is written. */
export const CHUNK_BYTES = 1024 * 1024
/** Bytes between flushes. Regular flushes leave little work for the flush at the end. */
const FLUSH_BYTES = 32 * 1024 * 1024

const writeAt = promisify(write)
const flushData = promisify(fdatasync)
const flush = promisify(fsync)
const closeFile = promisify(close)

/** Receives whole lines. */
export interface LineTarget {
  /** Takes ownership of a chunk, and resolves with an empty chunk to fill next. */
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
  /** ID of the last event in the file when it was opened, or 0 for a new file. */
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

  /** Also rejects with the error of an earlier chunk. */
  async write(chunk: JsonBytes): Promise<JsonBytes> {
    await this.#writing
    const next = this.#spare ?? new JsonBytes(chunk.bytes.length)
    this.#spare = null
    this.#writing = this.#writeAll(chunk)
    // The next write or close rejects with this error.
    this.#writing.catch(() => undefined)
    return next
  }

  /** Writes the rest, flushes and closes the file. Rejects if not everything is on the disk. */
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
        // The kernel reports the error only once. A later flush would succeed.
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => {
        this.#flushing = null
      })
  }
}
