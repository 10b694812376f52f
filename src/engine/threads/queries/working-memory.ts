/**
 * The memory that one query takes on its thread: what the heap and the buffers of the thread have grown by since it
 * began. A query that takes more than it may is given up, and computed again in smaller parts, one after the other
 * (query-parts.ts). Whatever takes memory is seen that way, and nothing has to count it.
 */
import { collectGarbage } from '../../../base/memory/garbage.ts'
import { ownMemory } from '../../../base/memory/memory-board.ts'
import { MEMORY_LOOK_MS_MAX } from '../limits.ts'

/** What this query needs at once is more than it may take. */
export class WorkingMemoryFullError extends Error {
  override readonly name = 'WorkingMemoryFullError'
}

/** Behind a collection that freed enough, the next look at garbage waits for this share of the limit. */
const LOOK_AGAIN_SHARE = 1 / 4

/** The memory of the query that a thread carries out. */
export class WorkingMemory {
  readonly bytesMax: number
  /** What caches took, which is no memory of the query. */
  readonly #cachedBytes: () => number
  readonly #atStart: number
  #lookAtMs = 0
  /** Bytes from which on it is worth knowing how many of them are garbage. */
  #collectFrom: number
  /** False: the query cannot be divided, and takes what it needs. */
  isLimited = false

  constructor(bytesMax: number, cachedBytes: () => number) {
    this.bytesMax = bytesMax
    this.#cachedBytes = cachedBytes
    this.#atStart = this.#taken()
    this.#collectFrom = bytesMax
  }

  /** Throws `WorkingMemoryFullError`. Cost: some 20 us now and then. */
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
