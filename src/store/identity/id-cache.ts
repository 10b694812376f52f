/**
 * Caches the numbers of distinct_ids by their bytes, in flat memory. A `Map` of texts takes twice as much memory,
 * hashes the text again for each event, and adds an object for each text to the work of the garbage collector. The
 * cache has two generations. An entry that is found in the older generation is copied to the younger one. `rotate`
 * discards the older generation. So an entry that is not used between two calls of `rotate` is evicted.
 *
 *   words   hash | project | distinct ID number | bytes of the id | id, UTF-8, padded with zeros | hash | ...
 *   slots   a hash table with the offsets of entries in `words`, from 1; 0 is free
 */
const HEAD_WORDS = 4
const SLOTS_FIRST = 1024
const WORDS_FIRST = 16_384
/**
 * The number of random factors that the hash needs: two for each 32-bit word of the longest id. An id has at most 200
 * code points, which are at most 800 bytes or 200 words. A few factors more are reserved.
 */
const KEYS_COUNT = 408

/** An id as 32-bit words: it has `byteCount` bytes and begins with the word at the index `first`. */
export interface IdWords {
  readonly words: Int32Array
  readonly first: number
  readonly byteCount: number
}

/** One generation of the cache. */
class Generation {
  count = 0
  #words = new Int32Array(WORDS_FIRST)
  #length = 1
  #slots = new Int32Array(SLOTS_FIRST)
  #shift = 32 - Math.log2(SLOTS_FIRST)

  get bytes(): number {
    return (this.#length + this.#slots.length) * 4
  }

  /** Returns the distinct ID number of an id, or 0 if the generation does not have it. */
  find(hash: number, projectId: number, { words, first, byteCount }: IdWords): number {
    const own = this.#words
    const slots = this.#slots
    const mask = slots.length - 1
    const length = wordCount(byteCount)
    for (let slot = hash >>> this.#shift; ; slot = (slot + 1) & mask) {
      const at = slots[slot] ?? 0
      if (at === 0) return 0
      if (own[at] !== hash || own[at + 1] !== projectId || own[at + 3] !== byteCount) continue
      let index = 0
      while (index < length && own[at + HEAD_WORDS + index] === words[first + index]) index++
      if (index === length) return own[at + 2] ?? 0
    }
  }

  add(hash: number, projectId: number, id: IdWords, number: number): void {
    if ((this.count + 1) * 2 > this.#slots.length) this.#growSlots()
    const length = wordCount(id.byteCount)
    const at = this.#length
    const end = at + HEAD_WORDS + length
    if (end > this.#words.length) this.#growWords()
    const own = this.#words
    own[at] = hash
    own[at + 1] = projectId
    own[at + 2] = number
    own[at + 3] = id.byteCount
    for (let index = 0; index < length; index++) {
      own[at + HEAD_WORDS + index] = id.words[id.first + index] ?? 0
    }
    this.#length = end
    this.count++
    this.#enter(hash, at)
  }

  /** Removes all entries and keeps the memory. */
  clear(): void {
    this.count = 0
    this.#length = 1
    this.#slots.fill(0)
  }

  #enter(hash: number, at: number): void {
    const mask = this.#slots.length - 1
    let slot = hash >>> this.#shift
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask
    this.#slots[slot] = at
  }

  #growWords(): void {
    const words = new Int32Array(this.#words.length * 2)
    words.set(this.#words)
    this.#words = words
  }

  #growSlots(): void {
    this.#slots = new Int32Array(this.#slots.length * 2)
    this.#shift--
    for (let at = 1; at < this.#length; ) {
      this.#enter(this.#words[at] ?? 0, at)
      at += HEAD_WORDS + wordCount(this.#words[at + 3] ?? 0)
    }
  }
}

/** The cached numbers of recently used distinct_ids, for all projects. */
export class IdCache {
  #young = new Generation()
  #old = new Generation()
  readonly #keys: Int32Array
  readonly #textWords = new Int32Array(KEYS_COUNT / 2)
  readonly #textBytes = Buffer.from(this.#textWords.buffer)

  /**
   * `drawKeys` fills an array with random numbers. The hash depends on these numbers, so a client cannot choose ids
   * that have the same hash.
   */
  constructor(drawKeys: (keys: Int32Array) => void) {
    this.#keys = new Int32Array(KEYS_COUNT)
    drawKeys(this.#keys)
  }

  /** The number of bytes of the younger generation. The older generation had a similar size when it stopped growing. */
  get youngBytes(): number {
    return this.#young.bytes
  }

  /** The number of bytes of both generations together. */
  get bytes(): number {
    return this.#young.bytes + this.#old.bytes
  }

  /**
   * Returns the number of an id, or 0 if it is not cached. It takes about 30 ns if the entry is in the cache of the
   * processor.
   */
  find(projectId: number, id: IdWords): number {
    const hash = this.#hash(projectId, id)
    const number = this.#young.find(hash, projectId, id)
    if (number !== 0) return number
    const known = this.#old.count === 0 ? 0 : this.#old.find(hash, projectId, id)
    if (known !== 0) this.#young.add(hash, projectId, id, known)
    return known
  }

  /** Adds an id that `find` did not find, with its number. */
  add(projectId: number, id: IdWords, number: number): void {
    this.#young.add(this.#hash(projectId, id), projectId, id, number)
  }

  /**
   * Returns a text as 32-bit words, which are valid until the next call. Returns null if the text is too long to be a
   * distinct_id.
   */
  wordsOf(text: string): IdWords | null {
    const bytes = this.#textBytes
    if (text.length * 3 > bytes.length && Buffer.byteLength(text) > bytes.length - 4) return null
    const byteCount = bytes.write(text, 'utf8')
    bytes.fill(0, byteCount, (byteCount + 3) & ~3)
    return { words: this.#textWords, first: 0, byteCount }
  }

  /** Discards the older generation, and turns the younger one into the older one. */
  rotate(): void {
    const young = this.#old
    this.#old = this.#young
    this.#young = young
    young.clear()
  }

  // Each half of a word is multiplied by a random factor of its own. A client that does not know the factors cannot
  // find ids with the same hash.
  #hash(projectId: number, { words, first, byteCount }: IdWords): number {
    const keys = this.#keys
    const length = wordCount(byteCount)
    let hash = Math.imul(projectId, 0x9e3779b1) ^ byteCount
    for (let index = 0; index < length; index++) {
      const word = words[first + index] ?? 0
      hash += Math.imul(word & 0xffff, keys[index * 2] ?? 0)
      hash = (hash + Math.imul(word >>> 16, keys[index * 2 + 1] ?? 0)) | 0
    }
    return hash
  }
}

function wordCount(byteCount: number): number {
  return (byteCount + 3) >>> 2
}
