/**
 * Reusable memory for copies of blocks that wait until the brokers have stored them. A busy machine that accepts events
 * copies a hundred megabytes per second. If each block got new memory, garbage collection would cost more than the
 * copies.
 */
import { BLOCK_PAGES_KEPT_MAX } from '../limits.ts'

const PAGE_BYTES = 2 * 1024 * 1024

interface Page {
  readonly memory: Buffer
  used: number
  /** The number of block copies in this page that are still in use. */
  copies: number
}

/** A copy of a block. It is valid until `release` is called. */
export interface BlockCopy {
  readonly block: Buffer
  /** Releases the copy. Call it once. */
  release(): void
}

/** The memory for block copies of one outbox. */
export class BlockMemory {
  readonly #spares: Page[] = []
  #filling: Page = newPage(PAGE_BYTES)

  /** Copies the first `bytes` of a block. */
  copy(buffer: ArrayBufferLike, bytes: number): BlockCopy {
    const page = this.#pageFor(bytes)
    const block = page.memory.subarray(page.used, page.used + bytes)
    block.set(new Uint8Array(buffer, 0, bytes))
    page.used += bytes
    page.copies++
    return { block, release: () => this.#release(page) }
  }

  #pageFor(bytes: number): Page {
    if (this.#filling.used + bytes <= this.#filling.memory.length) return this.#filling
    // A full page is reused after the last copy in it was released.
    this.#filling =
      bytes > PAGE_BYTES ? newPage(bytes) : (this.#spares.pop() ?? newPage(PAGE_BYTES))
    return this.#filling
  }

  #release(page: Page): void {
    page.copies--
    if (page.copies > 0) return
    page.used = 0
    if (page === this.#filling || page.memory.length > PAGE_BYTES) return
    if (this.#spares.length < BLOCK_PAGES_KEPT_MAX) this.#spares.push(page)
  }
}

function newPage(bytes: number): Page {
  return { memory: Buffer.allocUnsafeSlow(bytes), used: 0, copies: 0 }
}
