/** A log in memory, for benches of processing: requests are accepted into its blocks before the measurement. */
import type { LogReader } from '../../src/ports/log.ts'
import type { ProjectDirectory } from '../../src/rules/access/project-directory.ts'
import { acceptCapture, type CaptureRequest } from '../../src/rules/capture/accept.ts'
import { type LogBlockWriter, seal } from '../../src/rules/capture/log-block.ts'
import { Scanner } from '../../src/rules/capture/scanner/scanner.ts'

const BYTES_MAX = 20 * 1024 * 1024

/** Blocks with consecutive sequence numbers, beginning with 1. */
export class BlocksInMemory implements LogReader {
  readonly #scanner = new Scanner()
  readonly #directory: ProjectDirectory
  #blocks: Buffer[] = []
  #first = 1

  constructor(directory: ProjectDirectory) {
    this.#directory = directory
  }

  /** The number of blocks that were not removed. */
  get count(): number {
    return this.#blocks.length
  }

  /** Removes the blocks up to a sequence number. */
  removeThrough(sequence: number): void {
    const done = sequence + 1 - this.#first
    this.#blocks.splice(0, done)
    this.#first += done
  }

  /** Accepts the body of a capture request into a block that is being written. */
  accept(writer: LogBlockWriter, body: Buffer, arrivedAtMs: number): void {
    const request: CaptureRequest = {
      kind: 'capture',
      method: 'POST',
      contentType: 'application/json',
      contentEncoding: '',
      query: '',
      address: '203.0.113.7',
      arrivedAtMs,
      body,
    }
    const limits = { decodedBytesMax: BYTES_MAX, slowBytesMax: BYTES_MAX }
    const context = { scanner: this.#scanner, directory: this.#directory, ...limits }
    acceptCapture(request, { ...context, outlinedBytesMax: BYTES_MAX }, writer)
  }

  /** Finishes a block and adds it. */
  add(writer: LogBlockWriter): void {
    const block = writer.finish()
    seal(block)
    this.#blocks.push(block)
  }

  refresh(): void {}

  extent(): { first: number; last: number } {
    return { first: this.#first, last: this.#first + this.#blocks.length - 1 }
  }

  block(sequence: number): Buffer | undefined {
    return this.#blocks[sequence - this.#first]
  }

  async close(): Promise<void> {}
}
