/**
 * Measures the memory of one query: how much the heap and the buffers of its thread have grown since the query began.
 * This covers every kind of memory without counting objects. A query that exceeds its limit is stopped, and then
 * computed in smaller pieces, one after the other (query-parts.ts).
 */
import { collectGarbage } from '../../../base/memory/garbage.ts'
import { ownMemory } from '../../../base/memory/memory-board.ts'
import { MEMORY_LOOK_MS_MAX } from '../limits.ts'

/** Thrown if a query exceeds its memory limit. */
export class WorkingMemoryFullError extends Error {
  override readonly name = 'WorkingMemoryFullError'
}

/**
 * After a garbage collection that was enough to stay below the limit, the next collection waits until the memory has
 * grown by this share of the limit.
 */
const LOOK_AGAIN_SHARE = 1 / 4

/** The memory of the query that a thread is running. */
export class WorkingMemory {
  readonly bytesMax: number
  /** Returns the number of bytes of the caches on the thread, which do not count as memory of the query. */
  readonly #cachedBytes: () => number
  readonly #atStart: number
  #lookAtMs = 0
  /** Garbage is collected when the memory of the query reaches this number of bytes. */
  #collectFrom: number
  /**
   * True while the limit applies. It does not apply to a query that cannot be divided. Such a query may use as much
   * memory as it needs.
   */
  isLimited = false

  constructor(bytesMax: number, cachedBytes: () => number) {
    this.bytesMax = bytesMax
    this.#cachedBytes = cachedBytes
    this.#atStart = this.#taken()
    this.#collectFrom = bytesMax
  }

  /**
   * Throws `WorkingMemoryFullError` if the limit is exceeded. A call that measures the memory takes about 20 us, all
   * other calls almost nothing.
   */
  check(nowMs: number): void {
    if (!this.isLimited || nowMs < this.#lookAtMs) return
    this.#lookAtMs = nowMs + MEMORY_LOOK_MS_MAX
    if (this.#taken() - this.#atStart < this.#collectFrom) return
    collectGarbage()
    let bytes = this.#taken() - this.#atStart
    if (bytes >= this.bytesMax) {
      // V8 frees the memory of collected buffers in another thread. A second collection waits until that is done.
      collectGarbage()
      bytes = this.#taken() - this.#atStart
    }
    if (bytes >= this.bytesMax) throw new WorkingMemoryFullError()
    this.#collectFrom = Math.max(this.bytesMax, bytes + this.bytesMax * LOOK_AGAIN_SHARE)
    this.#lookAtMs = performance.now() + MEMORY_LOOK_MS_MAX
  }

  #taken(): number {
    const { heapUsedBytes, bufferBytes } = ownMemory()
    return heapUsedBytes + bufferBytes - this.#cachedBytes()
  }
}
