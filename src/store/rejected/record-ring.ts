/**
 * Chooses the records to remove from a collection that has limits: while a limit is exceeded, the oldest record must
 * go.
 */

/** The sizes of the records of a collection, in the order in which the records were added. */
export class RecordRing<Key> {
  readonly #entriesMax: number
  readonly #bytesMax: number
  readonly #sizes = new Map<Key, number>()
  /**
   * An iterator over the keys, oldest first. It is kept between calls, because a new iterator would have to skip all
   * deleted keys again.
   */
  #iterator: MapIterator<Key>
  #oldest: Key | undefined
  #bytes = 0

  constructor(entriesMax: number, bytesMax: number) {
    this.#entriesMax = entriesMax
    this.#bytesMax = bytesMax
    this.#iterator = this.#sizes.keys()
  }

  get count(): number {
    return this.#sizes.size
  }

  /** The number of bytes of all records. */
  get bytes(): number {
    return this.#bytes
  }

  /** Adds a record, which is then the newest one. */
  add(key: Key, bytes: number): void {
    this.delete(key)
    this.#sizes.set(key, bytes)
    this.#bytes += bytes
  }

  delete(key: Key): void {
    this.#bytes -= this.#sizes.get(key) ?? 0
    this.#sizes.delete(key)
    if (key === this.#oldest) this.#oldest = undefined
  }

  /** Returns the keys of the records, oldest first. */
  keys(): Iterable<Key> {
    return this.#sizes.keys()
  }

  /**
   * Returns the key of the oldest record if a limit is exceeded, otherwise undefined. The newest record is never
   * returned, whatever its size.
   */
  excess(): Key | undefined {
    const isTooMuch = this.#sizes.size > this.#entriesMax || this.#bytes > this.#bytesMax
    if (!isTooMuch || this.#sizes.size === 1) return undefined
    if (this.#oldest !== undefined) return this.#oldest
    let next = this.#iterator.next()
    if (next.done === true) {
      this.#iterator = this.#sizes.keys()
      next = this.#iterator.next()
    }
    this.#oldest = next.value
    return this.#oldest
  }
}
