/**
 * What is stored for stretches of 256 numbers, such as the owners of distinct_ids: an answer about one of
 * them reads all, so they are kept for the next one, as long as the snapshot stays the same.
 */
import { STRETCHES_KEPT_MAX } from './limits.ts'

/** Stretches of one table. */
export class Stretches {
  readonly #load: (projectId: number, number: number) => Buffer | null
  readonly #known = new Map<number, Buffer | null>()

  /** `load` reads the stretch of a number; null: nothing is stored of it. */
  constructor(load: (projectId: number, number: number) => Buffer | null) {
    this.#load = load
  }

  /** The stretch of a number. Throws `DamagedRecordError`. */
  of(projectId: number, number: number): Buffer | null {
    const place = projectId * 2 ** 24 + (number >>> 8)
    const known = this.#known.get(place)
    if (known !== undefined) return known
    const loaded = this.#load(projectId, number)
    if (this.#known.size >= STRETCHES_KEPT_MAX) this.#known.clear()
    this.#known.set(place, loaded)
    return loaded
  }

  /** Forgets them: something was committed. */
  clear(): void {
    if (this.#known.size > 0) this.#known.clear()
  }
}
