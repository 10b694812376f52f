/**
 * Searches bytes for a text, ignoring case. A WebAssembly module compares 16 positions at once. It is equally fast for
 * short and long texts, and from the first call on. In contrast, V8 optimizes a loop in JavaScript only after the loop
 * has run for a while, and a query is often the first one of its thread. docs/decisions/051-search-in-webassembly.md
 * compares the alternatives.
 *
 * The module reads only its own memory, so the bytes are copied there in chunks. A chunk usually also contains the
 * values that are searched next, so it is used again:
 *
 *   bytes     "first value","second value","third va...
 *   chunk     [----------------------------------]
 *   search      |---------|  then  |----------|          copied once
 */
import { readFileSync } from 'node:fs'
import { NEEDLE_BYTES_MAX, SEARCH_CHUNK_BYTES } from '../limits.ts'

/**
 * The offsets in the memory of the WebAssembly module: `NEEDLE` is where the text to search for begins, `TEXT` where
 * the searched bytes begin. assembly.ts must use the same number for `NEEDLE`.
 */
const NEEDLE = 1024
const TEXT = NEEDLE + 3 * NEEDLE_BYTES_MAX

/** Common bytes of texts, the most common one first. All other bytes of ASCII are rarer. */
const COMMON = Buffer.from(' etaoinsrhldcumfpgwybvk,."\\')
/**
 * The ranks of the bytes of a character beyond ASCII: the rank of its first byte, and of each other byte. See `rankOf`.
 */
const RANK_LEAD = COMMON.length
const RANK_CONTINUATION = 8

interface SearchExports {
  readonly memory: WebAssembly.Memory
  find(from: number, end: number, length: number, first: number, second: number): number
}

/**
 * The bytes of one character of a needle, in lower case and in its other case. If there is no other case with as many
 * bytes, `other` has the same bytes as `lower`.
 */
export interface NeedleCharacter {
  readonly lower: Uint8Array
  readonly other: Uint8Array
}

/** A search for one needle. All searches of a thread share the memory of the module. */
export class TextSearch {
  /** The needle in the form in which the module reads it; see assembly.ts. */
  readonly #table: Uint8Array
  readonly #length: number
  /**
   * The positions of two bytes of the needle, in ascending order. They are probably its rarest bytes, so few places
   * match them by chance.
   */
  readonly #first: number
  readonly #second: number

  /** The characters have at least one byte and at most `NEEDLE_BYTES_MAX` bytes together. */
  constructor(characters: readonly NeedleCharacter[]) {
    const lower = Buffer.concat(characters.map((character) => character.lower))
    const other = Buffer.concat(characters.map((character) => character.other))
    const starts = characters.flatMap(({ lower: { length } }) => Array.from({ length }, isFirst))
    this.#table = Buffer.concat([lower, other, Buffer.from(starts)])
    this.#length = lower.length
    const byRank = [...lower.keys()].sort((a, b) => rankOf(lower[a]) - rankOf(lower[b]))
    const [rarest = 0, next = rarest] = byRank
    this.#first = Math.min(rarest, next)
    this.#second = Math.max(rarest, next)
  }

  /**
   * Returns whether the needle occurs between `start` and `end`, at a position that `isMatch` accepts. `bytes` must not
   * change between searches, because a copied chunk may be used again.
   */
  isIn(
    bytes: Uint8Array,
    start: number,
    end: number,
    isMatch: ((at: number) => boolean) | null,
  ): boolean {
    engine ??= new Engine()
    engine.useNeedle(this.#table)
    const length = this.#length
    for (let at = start; end - at >= length; ) {
      const from = engine.load(bytes, at, Math.min(end, at + length))
      const shift = from - at
      const loadedEnd = Math.min(end, engine.loadedEnd)
      let found = engine.find(from, loadedEnd + shift, length, this.#first, this.#second)
      while (found >= 0) {
        if (isMatch === null || isMatch(found - shift)) return true
        found = engine.find(found + 1, loadedEnd + shift, length, this.#first, this.#second)
      }
      if (loadedEnd === end) return false
      at = loadedEnd - length + 1
    }
    return false
  }
}

/** The WebAssembly module of the thread, and what its memory contains. */
class Engine {
  readonly find: SearchExports['find']
  /** The end of the copied chunk, as a position in the bytes from which it was copied. */
  loadedEnd = 0
  readonly #memory: Uint8Array
  #needle: Uint8Array | null = null
  /**
   * Contains the bytes from which the chunk was copied, without keeping them in memory. A WeakRef would keep them until
   * the query ends, and with them all texts that the query has searched.
   */
  #source = new WeakSet<Uint8Array>()
  #loadedStart = 0

  constructor() {
    const file = new URL('search.wasm', import.meta.url)
    const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(file)))
    // The exports are declared in assembly.ts, which the same build compiles.
    const exports = instance.exports as unknown as SearchExports
    this.find = exports.find
    this.#memory = new Uint8Array(exports.memory.buffer)
  }

  useNeedle(table: Uint8Array): void {
    if (this.#needle === table) return
    this.#memory.set(table, NEEDLE)
    this.#needle = table
  }

  /**
   * Copies a chunk into the memory of the module, unless the bytes from `start` to `end` are there already. Returns the
   * position that `start` has in the memory.
   */
  load(bytes: Uint8Array, start: number, end: number): number {
    const isSource = this.#source.has(bytes)
    if (!isSource || start < this.#loadedStart || end > this.loadedEnd) {
      if (!isSource) this.#source = new WeakSet([bytes])
      this.#loadedStart = start
      this.loadedEnd = Math.min(bytes.length, start + SEARCH_CHUNK_BYTES)
      this.#memory.set(bytes.subarray(start, this.loadedEnd), TEXT)
    }
    return TEXT + start - this.#loadedStart
  }
}

let engine: Engine | undefined

function isFirst(_: unknown, index: number): number {
  return index === 0 ? 1 : 0
}

/** Returns how common a byte is in texts. 0 is the rarest. */
function rankOf(byte = 0): number {
  if (byte >= 0xc0) return RANK_LEAD
  if (byte >= 0x80) return RANK_CONTINUATION
  const place = COMMON.indexOf(byte)
  return place < 0 ? 0 : COMMON.length - place
}
