/** What a bounded collection of records holds, oldest first: beyond its limits the oldest have to go. */

/** Keeps the sizes of records in the order in which they came. */
export class RecordRing<Key> {
  readonly #entriesMax: number
  readonly #bytesMax: number
  readonly #sizes = new Map<Key, number>()
  /** Goes through the keys: beginning anew each time would pass all that were deleted. */
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

  /** Of all records together. */
  get bytes(): number {
    return this.#bytes
  }

  /** Takes a record on as the newest. */
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

  /** The records, oldest first. */
  keys(): Iterable<Key> {
    return this.#sizes.keys()
  }

  /** The oldest record while there is too much, else undefined. The newest stays whatever its size. */
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
