/** What a bounded collection of records holds, oldest first: beyond its limits the oldest have to go. */

/** Keeps the sizes of records in the order in which they came. */
export class RecordRing<Key> {
  readonly #entriesMax: number
  readonly #bytesMax: number
  readonly #sizes = new Map<Key, number>()
  #bytes = 0

  constructor(entriesMax: number, bytesMax: number) {
    this.#entriesMax = entriesMax
    this.#bytesMax = bytesMax
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
  }

  /** The records, oldest first. */
  keys(): Iterable<Key> {
    return this.#sizes.keys()
  }

  /** The oldest record while there is too much, else undefined. The newest stays whatever its size. */
  excess(): Key | undefined {
    const isTooMuch = this.#sizes.size > this.#entriesMax || this.#bytes > this.#bytesMax
    if (!isTooMuch || this.#sizes.size === 1) return undefined
    for (const key of this.#sizes.keys()) return key
    return undefined
  }
}
