/**
 * Memory for large bodies that all threads share and that is used again: a body is collected in a slab and
 * checked there, its block is written over it, and the log is written from that. So nothing of the size of
 * a body is allocated for it, and no thread's garbage collector counts it.
 *
 * A slab belongs to one request at a time. Whoever has it hands it on or gives it back, and only when no
 * thread works with its memory any more.
 */
import { SLAB_BYTES_MAX, SLABS_MAX } from './limits.ts'

/** The right to one slab, from `Slabs.take` until it is given back; the next taker has another one. */
export class Slab {
  readonly #giveBack: (memory: SharedArrayBuffer | null) => void
  #memory: SharedArrayBuffer | null

  /** For `Slabs` only. `giveBack` gets the memory, or null when it must not be used again. */
  constructor(memory: SharedArrayBuffer, giveBack: (memory: SharedArrayBuffer | null) => void) {
    this.#memory = memory
    this.#giveBack = giveBack
  }

  /** SLAB_BYTES_MAX bytes, with whatever was in them before. Throws RangeError when they were given back. */
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
  readonly #countMax: number
  readonly #free: SharedArrayBuffer[] = []
  #inUse = 0

  /** @param bytesMax bytes of all slabs together; SLABS_MAX of them at most. */
  constructor(bytesMax: number) {
    this.#countMax = Math.min(SLABS_MAX, Math.floor(bytesMax / SLAB_BYTES_MAX))
  }

  /** Slabs that were taken and not given back. */
  get inUse(): number {
    return this.#inUse
  }

  /** A slab for that many bytes; null when they are too many, or none is free. */
  take(bytes: number): Slab | null {
    if (bytes > SLAB_BYTES_MAX || this.#inUse >= this.#countMax) return null
    this.#inUse++
    return new Slab(this.#free.pop() ?? new SharedArrayBuffer(SLAB_BYTES_MAX), (memory) => {
      this.#inUse--
      if (memory !== null) this.#free.push(memory)
    })
  }
}

/** What of some memory changes hands on its way to a thread; shared memory stays where it is. */
export function transferable(memory: readonly ArrayBufferLike[]): readonly ArrayBuffer[] {
  return memory.filter((buffer) => buffer instanceof ArrayBuffer)
}
