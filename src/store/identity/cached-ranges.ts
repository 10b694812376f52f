/**
 * Caches records that each hold data for 256 consecutive numbers, such as the owners of 256 distinct ID numbers. A
 * lookup of one number reads the whole record, and the record stays cached for further lookups. The cache must be
 * cleared when the snapshot changes.
 */
import { RANGES_CACHED_MAX } from './limits.ts'

/** Caches the records of one table. */
export class CachedRanges {
  readonly #load: (projectId: number, number: number) => Buffer | null
  readonly #known = new Map<number, Buffer | null>()

  /**
   * `load` reads the record for the range that contains a number, or returns null if nothing is stored for the range.
   */
  constructor(load: (projectId: number, number: number) => Buffer | null) {
    this.#load = load
  }

  /** Returns the record for the range that contains a number. Throws `DamagedRecordError`. */
  of(projectId: number, number: number): Buffer | null {
    const place = projectId * 2 ** 24 + (number >>> 8)
    const known = this.#known.get(place)
    if (known !== undefined) return known
    const loaded = this.#load(projectId, number)
    if (this.#known.size >= RANGES_CACHED_MAX) this.#known.clear()
    this.#known.set(place, loaded)
    return loaded
  }

  /** Evicts all ranges. Call it after a commit. */
  clear(): void {
    if (this.#known.size > 0) this.#known.clear()
  }
}
