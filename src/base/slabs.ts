/**
 * Memory for large bodies that all threads share and that is used again: a body is collected in a slab and
 * checked there, its block is written over it, and the log is written from that. So nothing of the size of
 * a body is allocated for it, and no thread's garbage collector counts it. Memory that nobody has touched yet
 * is dear: the kernel clears each page of it when it is first written, which on a virtual machine costs more than
 * all that is done with a body of a thousand events otherwise. There are two sizes, as most bodies are far
 * smaller than the largest.
 *
 * A slab belongs to one request at a time. Whoever has it hands it on or gives it back, and only when no
 * thread works with its memory any more.
 */
import { SLAB_BYTES_MAX, SLABS_MAX, SMALL_SLAB_BODY_BYTES_MAX, SMALL_SLABS_MAX } from './limits.ts'

const SMALL_SLAB_BYTES = SMALL_SLAB_BODY_BYTES_MAX * 1.25
/** Of the budget, for small ones beside those that fill it. */
const SMALL_PART = 1 / 6

/** The right to one slab, from `Slabs.take` until it is given back; the next taker has another one. */
export class Slab {
  readonly #giveBack: (memory: SharedArrayBuffer | null) => void
  #memory: SharedArrayBuffer | null

  /** Bytes of the largest body that it is for: its block has room there, too, unless its events are tiny. */
  readonly bodyBytesMax: number

  /** For `Slabs` only. `giveBack` gets the memory, or null when it must not be used again. */
  constructor(
    memory: SharedArrayBuffer,
    bodyBytesMax: number,
    giveBack: (memory: SharedArrayBuffer | null) => void,
  ) {
    this.bodyBytesMax = bodyBytesMax
    this.#memory = memory
    this.#giveBack = giveBack
  }

  /** With whatever was in it before. Throws RangeError when it was given back. */
  get memory(): SharedArrayBuffer {
    if (this.#memory === null) throw new RangeError('the slab was given back')
    return this.#memory
  }

  /**
   * Gives it back; throws RangeError the second time. `isMemoryFree` false: a thread that has failed may
   * still work with the memory, so that nobody gets it again; another is made in its place.
   */
  give(isMemoryFree = true): void {
    const { memory } = this
    this.#memory = null
    this.#giveBack(isMemoryFree ? memory : null)
  }
}

/** The slabs of a process. One is made when all others are in use: who gets no large body pays nothing. */
export class Slabs {
  /** Smallest first. */
  readonly #sizes: readonly SlabSize[]

  /** @param bytesMax bytes of all large slabs together, SLABS_MAX of them at most; small ones have a sixth more. */
  constructor(bytesMax: number) {
    const small = Math.floor((bytesMax * SMALL_PART) / SMALL_SLAB_BYTES)
    const large = Math.floor(bytesMax / SLAB_BYTES_MAX)
    this.#sizes = [
      new SlabSize(SMALL_SLAB_BODY_BYTES_MAX, SMALL_SLAB_BYTES, Math.min(SMALL_SLABS_MAX, small)),
      new SlabSize(SLAB_BYTES_MAX, SLAB_BYTES_MAX, Math.min(SLABS_MAX, large)),
    ]
  }

  /** Slabs that were taken and not given back. */
  get inUse(): number {
    return this.#sizes.reduce((sum, size) => sum + size.inUse, 0)
  }

  /** Bytes of all slabs, used or not, and how many there may be. */
  get held(): { readonly bytes: number; readonly bytesMax: number } {
    const sum = (of: (size: SlabSize) => number): number =>
      this.#sizes.reduce((bytes, size) => bytes + of(size), 0)
    return { bytes: sum(({ heldBytes }) => heldBytes), bytesMax: sum((size) => size.bytesMax) }
  }

  /** Gives up what nobody has needed since it was last called; how many bytes. A garbage collection frees them. */
  release(): number {
    return this.#sizes.reduce((bytes, size) => bytes + size.release(), 0)
  }

  /** A slab for a body of that many bytes; null when they are too many, or none of its size is free. */
  take(bytes: number): Slab | null {
    return this.#sizes.find(({ bodyBytesMax }) => bytes <= bodyBytesMax)?.take() ?? null
  }
}

/** Slabs of one size. */
class SlabSize {
  readonly bodyBytesMax: number
  readonly #bytes: number
  readonly #countMax: number
  readonly #free: SharedArrayBuffer[] = []
  inUse = 0
  /** The fewest that were free since `release`. */
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
    // Those at the beginning were taken longest ago.
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

/** What of some memory changes hands on its way to a thread; shared memory stays where it is. */
export function transferable(memory: readonly ArrayBufferLike[]): readonly ArrayBuffer[] {
  return memory.filter((buffer) => buffer instanceof ArrayBuffer)
}
