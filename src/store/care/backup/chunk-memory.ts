/**
 * Memory in which a chunk is put together. It begins at the border of a page, which buffers of Node do
 * not: only then can the file system take it to the disk as it is, past the page cache.
 */

const WASM_PAGE_BYTES = 64 * 1024
const FIRST_PAGES = 32

/** Room for one chunk; its place in memory stays, whatever it grows to. */
export class ChunkMemory {
  // The only memory of JavaScript whose start is known to be aligned.
  readonly #memory = new WebAssembly.Memory({ initial: FIRST_PAGES })
  #bytes = Buffer.from(this.#memory.buffer)

  /** All of it; becomes invalid when it grows. */
  get bytes(): Buffer {
    return this.#bytes
  }

  /** Makes room for at least so many bytes and answers all of it; what it held stays. */
  grow(bytes: number): Buffer {
    const missing = bytes - this.#bytes.length
    if (missing > 0) {
      const more = Math.max(this.#bytes.length, missing)
      this.#memory.grow(Math.ceil(more / WASM_PAGE_BYTES))
      this.#bytes = Buffer.from(this.#memory.buffer)
    }
    return this.#bytes
  }
}
