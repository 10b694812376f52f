/**
 * Reusable shared memory for large request bodies. A body is received and checked in a slab, the log block of its
 * events is written over it, and the block is written to the log from there. No memory of the size of a body is
 * allocated for a request, and no garbage collector counts the slabs. Fresh memory is expensive: the kernel clears each
 * page at its first write, which on a virtual machine costs more than all other work for a body of a thousand events.
 * There are two sizes, because most bodies are far smaller than the largest.
 *
 * A slab belongs to one request at a time. The owner passes the slab on or releases it, but only when no thread works
 * with its memory any more.
 */
import { SLAB_BYTES_MAX, SLABS_MAX, SMALL_SLAB_BODY_BYTES_MAX, SMALL_SLABS_MAX } from './limits.ts'

const SMALL_SLAB_BYTES = SMALL_SLAB_BODY_BYTES_MAX * 1.25
/**
 * The share of the budget for bodies that all small slabs together may take in addition to the budget. The large slabs
 * may take the whole budget.
 */
const SMALL_PART = 1 / 6

/**
 * The right to use one slab, from `Slabs.take` until `release`. The next user of the same memory gets another `Slab`.
 */
export class Slab {
  readonly #release: (memory: SharedArrayBuffer | null) => void
  #memory: SharedArrayBuffer | null

  /**
   * The size of the largest body that the slab is for. The log block of such a body also fits, unless its events are
   * tiny.
   */
  readonly bodyBytesMax: number

  /**
   * Only `Slabs` calls the constructor. `release` receives the memory, or null if the memory must not be used again.
   */
  constructor(
    memory: SharedArrayBuffer,
    bodyBytesMax: number,
    release: (memory: SharedArrayBuffer | null) => void,
  ) {
    this.bodyBytesMax = bodyBytesMax
    this.#memory = memory
    this.#release = release
  }

  /** The memory, which still has the content of its previous use. Throws RangeError after `release`. */
  get memory(): SharedArrayBuffer {
    if (this.#memory === null) throw new RangeError('the slab was released')
    return this.#memory
  }

  /**
   * Releases the slab. Throws RangeError at the second call. Pass false for `isMemoryFree` if a failed thread may
   * still use the memory. The memory is then not reused, and a new slab can be allocated in its place.
   */
  release(isMemoryFree = true): void {
    const { memory } = this
    this.#memory = null
    this.#release(isMemoryFree ? memory : null)
  }
}

/**
 * The slabs of a process. A slab is allocated when all others are in use, so a server without large bodies needs none.
 */
export class Slabs {
  /** The slabs of each size, smallest size first. */
  readonly #sizes: readonly SlabSize[]

  /**
   * @param bytesMax the bytes of all large slabs together. There are at most SLABS_MAX large slabs. Small slabs may
   *   take another sixth of these bytes.
   */
  constructor(bytesMax: number) {
    const small = Math.floor((bytesMax * SMALL_PART) / SMALL_SLAB_BYTES)
    const large = Math.floor(bytesMax / SLAB_BYTES_MAX)
    this.#sizes = [
      new SlabSize(SMALL_SLAB_BODY_BYTES_MAX, SMALL_SLAB_BYTES, Math.min(SMALL_SLABS_MAX, small)),
      new SlabSize(SLAB_BYTES_MAX, SLAB_BYTES_MAX, Math.min(SLABS_MAX, large)),
    ]
  }

  /** The number of slabs that are in use. */
  get inUse(): number {
    return this.#sizes.reduce((sum, size) => sum + size.inUse, 0)
  }

  /** The bytes of all allocated slabs, in use or free, and the most that they may have. */
  get held(): { readonly bytes: number; readonly bytesMax: number } {
    const sum = (of: (size: SlabSize) => number): number =>
      this.#sizes.reduce((bytes, size) => bytes + of(size), 0)
    return { bytes: sum(({ heldBytes }) => heldBytes), bytesMax: sum((size) => size.bytesMax) }
  }

  /**
   * Drops the slabs that were not needed since the last call, and returns their bytes. The next garbage collection
   * frees the memory.
   */
  release(): number {
    return this.#sizes.reduce((bytes, size) => bytes + size.release(), 0)
  }

  /**
   * Returns a slab for a body of this size. Returns null if the body is too large or if all slabs of the suitable size
   * are in use.
   */
  take(bytes: number): Slab | null {
    return this.#sizes.find(({ bodyBytesMax }) => bytes <= bodyBytesMax)?.take() ?? null
  }
}

/** The slabs of one size. */
class SlabSize {
  readonly bodyBytesMax: number
  readonly #bytes: number
  readonly #countMax: number
  readonly #free: SharedArrayBuffer[] = []
  inUse = 0
  /** The lowest number of free slabs since the last call of `release`. These slabs were not needed in this time. */
  #unused = 0

  constructor(bodyBytesMax: number, bytes: number, countMax: number) {
    this.bodyBytesMax = bodyBytesMax
    this.#bytes = bytes
    this.#countMax = countMax
  }

  get heldBytes(): number {
    return (this.inUse + this.#free.length) * this.#bytes
  }

  get bytesMax(): number {
    return this.#countMax * this.#bytes
  }

  release(): number {
    // The slabs at the start of the list are those that were used least recently.
    const released = this.#free.splice(0, this.#unused)
    this.#unused = this.#free.length
    return released.length * this.#bytes
  }

  take(): Slab | null {
    if (this.inUse >= this.#countMax) return null
    this.inUse++
    const memory = this.#free.pop() ?? new SharedArrayBuffer(this.#bytes)
    this.#unused = Math.min(this.#unused, this.#free.length)
    return new Slab(memory, this.bodyBytesMax, (returned) => {
      this.inUse--
      if (returned !== null) this.#free.push(returned)
    })
  }
}

/**
 * Returns the buffers that a message to a thread can transfer. Shared memory is not transferred, because both threads
 * can use it.
 */
export function transferable(memory: readonly ArrayBufferLike[]): readonly ArrayBuffer[] {
  return memory.filter((buffer) => buffer instanceof ArrayBuffer)
}
