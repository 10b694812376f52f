/**
 * A hash table in memory, with linear probing, that contains the newest entries of the uuid index. If a fingerprint is
 * added twice, it is stored twice. Single entries are never removed; only the whole table is cleared.
 *
 *   #words   high | low | sequence   high | low | sequence   0 | 0 | 0   ...      three words for each slot
 */

const SLOTS_FIRST = 4096
/**
 * The number of buckets into which entries are divided to sort them. A bucket contains the entries whose fingerprints
 * begin with the same 16 bits.
 */
const BUCKETS = 65_536
const BUCKET_SHIFT = 16
/**
 * A bucket with more entries than this is sorted by `sortMany`. In a full table, a bucket usually has about eight
 * entries.
 */
const INSERTED_ENTRIES = 64
/**
 * The number of 32-bit words of an entry: high half, low half and sequence number. They are adjacent, so that an entry
 * is read with one access to memory.
 */
const ENTRY_WORDS = 3

/** A table of fingerprints. It grows as needed. A slot takes 12 bytes, and at most half of the slots are in use. */
export class UuidTable {
  count = 0
  /** The slots. A slot is free if its sequence number is 0. */
  #words = new Uint32Array(SLOTS_FIRST * ENTRY_WORDS)
  #mask = SLOTS_FIRST - 1

  /** Returns the number of bytes that a table with this number of entries takes. */
  static bytesOf(entries: number): number {
    return 2 ** Math.ceil(Math.log2(2 * Math.max(entries, SLOTS_FIRST / 2))) * ENTRY_WORDS * 4
  }

  get bytes(): number {
    return this.#words.byteLength
  }

  add(high: number, low: number, sequence: number): void {
    if (this.count * 2 > this.#mask) this.#grow()
    this.count++
    const words = this.#words
    let slot = low & this.#mask
    while (words[slot * ENTRY_WORDS + 2] !== 0) slot = (slot + 1) & this.#mask
    const word = slot * ENTRY_WORDS
    words[word] = high
    words[word + 1] = low
    words[word + 2] = sequence
  }

  /** Appends the sequence numbers of all entries with this fingerprint to `found`. */
  find(high: number, low: number, found: number[]): void {
    const words = this.#words
    let slot = low & this.#mask
    for (;;) {
      const word = slot * ENTRY_WORDS
      const sequence = words[word + 2] ?? 0
      if (sequence === 0) return
      if (words[word + 1] === low >>> 0 && words[word] === high >>> 0) found.push(sequence)
      slot = (slot + 1) & this.#mask
    }
  }

  /** Removes all entries. A table that is larger than this number of entries needs releases its memory. */
  clear(entriesMax: number): void {
    this.count = 0
    if (this.bytes <= UuidTable.bytesOf(entriesMax)) {
      this.#words.fill(0)
      return
    }
    this.#words = new Uint32Array(SLOTS_FIRST * ENTRY_WORDS)
    this.#mask = SLOTS_FIRST - 1
  }

  /** Calls `visit` for every entry, in the order of the fingerprints as unsigned numbers. */
  visitSorted(visit: (high: number, low: number, sequence: number) => void): void {
    const starts = this.#bucketStarts()
    const entries = new Uint32Array(this.count * ENTRY_WORDS)
    const ends = starts.slice(0, BUCKETS)
    const words = this.#words
    for (let word = 0; word < words.length; word += ENTRY_WORDS) {
      const sequence = words[word + 2] ?? 0
      if (sequence === 0) continue
      const high = words[word] ?? 0
      const bucket = high >>> BUCKET_SHIFT
      const end = ends[bucket] ?? 0
      entries[end * ENTRY_WORDS] = high
      entries[end * ENTRY_WORDS + 1] = words[word + 1] ?? 0
      entries[end * ENTRY_WORDS + 2] = sequence
      ends[bucket] = end + 1
    }
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      sortEntries(entries, starts[bucket] ?? 0, ends[bucket] ?? 0)
    }
    for (let word = 0; word < entries.length; word += ENTRY_WORDS) {
      visit(entries[word] ?? 0, entries[word + 1] ?? 0, entries[word + 2] ?? 0)
    }
  }

  /** Returns the index at which each bucket begins, in the order of the first bits of the fingerprints. */
  #bucketStarts(): Uint32Array {
    const starts = new Uint32Array(BUCKETS + 1)
    const words = this.#words
    for (let word = 0; word < words.length; word += ENTRY_WORDS) {
      if (words[word + 2] === 0) continue
      const next = ((words[word] ?? 0) >>> BUCKET_SHIFT) + 1
      starts[next] = (starts[next] ?? 0) + 1
    }
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      starts[bucket + 1] = (starts[bucket + 1] ?? 0) + (starts[bucket] ?? 0)
    }
    return starts
  }

  #grow(): void {
    const words = this.#words
    this.#words = new Uint32Array(words.length * 2)
    this.#mask = this.#mask * 2 + 1
    this.count = 0
    for (let word = 0; word < words.length; word += ENTRY_WORDS) {
      const sequence = words[word + 2] ?? 0
      if (sequence !== 0) this.add(words[word] ?? 0, words[word + 1] ?? 0, sequence)
    }
  }
}

/** Sorts the entries from `start` to `end` by their high halves and then by their low halves, in place. */
function sortEntries(entries: Uint32Array, start: number, end: number): void {
  if (end - start > INSERTED_ENTRIES) {
    sortMany(entries.subarray(start * ENTRY_WORDS, end * ENTRY_WORDS))
    return
  }
  const first = start * ENTRY_WORDS
  for (let word = first + ENTRY_WORDS; word < end * ENTRY_WORDS; word += ENTRY_WORDS) {
    const high = entries[word] ?? 0
    const low = entries[word + 1] ?? 0
    const sequence = entries[word + 2] ?? 0
    let to = word
    while (to > first && isBehind(entries, to - ENTRY_WORDS, high, low)) {
      const from = to - ENTRY_WORDS
      entries[to] = entries[from] ?? 0
      entries[to + 1] = entries[from + 1] ?? 0
      entries[to + 2] = entries[from + 2] ?? 0
      to = from
    }
    entries[to] = high
    entries[to + 1] = low
    entries[to + 2] = sequence
  }
}

/** Returns whether the entry that begins at the word with this index comes after a fingerprint. */
function isBehind(entries: Uint32Array, word: number, high: number, low: number): boolean {
  const other = entries[word] ?? 0
  return other > high || (other === high && (entries[word + 1] ?? 0) > low)
}

/** Sorts many entries. A bucket has many only if many events have the same uuid. */
function sortMany(entries: Uint32Array): void {
  const copy = entries.slice()
  const places = Uint32Array.from(
    { length: copy.length / ENTRY_WORDS },
    (_, index) => index * ENTRY_WORDS,
  )
  const word = (place: number): number => copy[place] ?? 0
  places.sort((a, b) => word(a) - word(b) || word(a + 1) - word(b + 1) || a - b)
  for (const [index, place] of places.entries()) {
    entries.set(copy.subarray(place, place + ENTRY_WORDS), index * ENTRY_WORDS)
  }
}
