/**
 * Measures the memory of one query on its thread: the growth of heap and buffers since it began. A query that exceeds
 * its limit is stopped, and computed again in smaller pieces, one after the other (query-parts.ts). In this way every
 * kind of memory is covered without counting it.
 */
import { collectGarbage } from '../../../base/memory/garbage.ts'
import { ownMemory } from '../../../base/memory/memory-board.ts'
import { MEMORY_LOOK_MS_MAX } from '../limits.ts'

/** The query needs more memory at once than it may use. */
export class WorkingMemoryFullError extends Error {
  override readonly name = 'WorkingMemoryFullError'
}

/**
 * After a collection that freed enough, the next collection waits until memory has grown by this fraction of the limit.
 */
const LOOK_AGAIN_SHARE = 1 / 4

/** The memory of the query that a thread is running. */
export class WorkingMemory {
  readonly bytesMax: number
  /** Returns the memory of caches, which does not belong to the query. */
  readonly #cachedBytes: () => number
  readonly #atStart: number
  #lookAtMs = 0
  /** The growth, in bytes, from which a garbage collection is worthwhile. */
  #collectFrom: number
  /** False if the query cannot be divided, and may use the memory that it needs. */
  isLimited = false

  constructor(bytesMax: number, cachedBytes: () => number) {
    this.bytesMax = bytesMax
    this.#cachedBytes = cachedBytes
    this.#atStart = this.#taken()
    this.#collectFrom = bytesMax
  }

  /** Throws `WorkingMemoryFullError` if the limit is exceeded. Cost: about 20 us from time to time. */
  check(nowMs: number): void {
    if (!this.isLimited || nowMs < this.#lookAtMs) return
    this.#lookAtMs = nowMs + MEMORY_LOOK_MS_MAX
    if (this.#taken() - this.#atStart < this.#collectFrom) return
    collectGarbage()
    const bytes = this.#taken() - this.#atStart
    if (bytes >= this.bytesMax) throw new WorkingMemoryFullError()
    this.#collectFrom = Math.max(this.bytesMax, bytes + this.bytesMax * LOOK_AGAIN_SHARE)
    this.#lookAtMs = performance.now() + MEMORY_LOOK_MS_MAX
  }

  #taken(): number {
    const { heapUsedBytes, bufferBytes } = ownMemory()
    return heapUsedBytes + bufferBytes - this.#cachedBytes()
  }
}
