/**
 * Computes SHA-1 for bucketing: the first 60 bits of the hash of a prefix, a text and a salt. A decision hashes the
 * same text with the prefixes of all flags, so a call for one hash also computes the next three (assembly.ts). Texts of
 * usual length allocate nothing. All hashes of a thread share one memory, which is safe because the code is
 * synchronous.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

// The offsets in memory. assembly.ts contains the same list.
const RESULT_WORD = 128
const LENGTHS_WORD = 136
const MESSAGES_WORD = 256
const MESSAGE_BYTES = 1024
const TEXTS_OFFSET = 16_384
const LANES = 4
/**
 * The maximum number of bytes of a message. The rest of its area is needed for the padding, and for copies that write
 * too many bytes.
 */
const ROOM_BYTES = MESSAGE_BYTES - 128
/**
 * The number by which hashes are divided. A hash has 60 bits, which are 15 hexadecimal digits, so the largest one is
 * 2^60 - 1. The double nearest to it is 2^60.
 */
const HASH_END = 2 ** 60

const encoder = new TextEncoder()
const instance = new WebAssembly.Instance(
  new WebAssembly.Module(readFileSync(new URL('sha1.wasm', import.meta.url))),
)
// assembly.ts declares these exports. A test compiles it and compares the result with sha1.wasm.
const { memory, hash } = instance.exports as {
  readonly memory: WebAssembly.Memory
  readonly hash: (textOffset: number, textBytes: number) => void
}
const bytes = new Uint8Array(memory.buffer)
const words = new Uint32Array(memory.buffer)
/**
 * The salts that can follow a text. Each salt has a buffer of its own, which contains the last text that was hashed
 * with this salt.
 */
const SALTS = { none: saltOf('', 0), variant: saltOf('variant', 1) }

/** Hashes texts, each between the same prefix and the same salt. */
export class HashPrefix {
  /** The prefix whose hash of the same text will probably be needed next. It must have the same salt. */
  next: HashPrefix | null = null
  readonly #prefix: string
  readonly #byteLength: number
  /** The prefix in UTF-8, padded to whole words, because words are copied faster than bytes. */
  readonly #words: Uint32Array
  readonly #salt: (typeof SALTS)['none']
  /** The text that was hashed last. Its hash is in `#hash`. */
  #text: string | null = null
  #hash = 0

  constructor(prefix: string, salt: keyof typeof SALTS) {
    this.#prefix = prefix
    const encoded = encoder.encode(prefix)
    this.#byteLength = encoded.length
    this.#words = new Uint32Array((encoded.length + 3) >> 2)
    new Uint8Array(this.#words.buffer).set(encoded)
    this.#salt = SALTS[salt]
  }

  /**
   * Returns the first 15 hexadecimal digits of the SHA-1 of prefix, text and salt, divided by 2^60 and rounded to a
   * double from 0 to 1. The cost is linear in the length. Up to 55 bytes take about 0.1 us if the hashes of the next
   * prefixes are also needed.
   */
  hashOf(text: string): number {
    if (text === this.#text) return this.#hash
    const salt = this.#salt
    const roomBytes = ROOM_BYTES - salt.bytes.length - text.length * 3
    if (this.#byteLength > roomBytes) return longHash(this.#prefix + text + salt.salt)
    let prefix: HashPrefix | null = this
    for (let lane = 0; lane < LANES; lane++) {
      words[LENGTHS_WORD + lane] = prefix === null ? 0 : prefix.#put(lane, roomBytes)
      prefix = prefix === null ? null : prefix.next
    }
    if (text !== salt.text) {
      const { written } = encoder.encodeInto(text, bytes.subarray(salt.offset))
      bytes.set(salt.bytes, salt.offset + written)
      salt.textBytes = written + salt.bytes.length
      salt.text = text
    }
    hash(salt.offset, salt.textBytes)
    prefix = this
    for (let lane = 0; lane < LANES && prefix !== null; lane++) {
      if (prefix.#byteLength <= roomBytes) {
        prefix.#text = text
        // The two summands have 32 and 28 bits and are exact, so only their sum is rounded.
        const first = (words[RESULT_WORD + lane] ?? 0) * 2 ** 28
        prefix.#hash = (first + ((words[RESULT_WORD + LANES + lane] ?? 0) >>> 4)) / HASH_END
      }
      prefix = prefix.next
    }
    return this.#hash
  }

  /**
   * Copies the prefix into memory and returns its number of bytes. Copies nothing and returns 0 if the prefix is too
   * long.
   */
  #put(lane: number, roomBytes: number): number {
    if (this.#byteLength > roomBytes) return 0
    const own = this.#words
    const start = MESSAGES_WORD + (lane * MESSAGE_BYTES) / 4
    for (let index = 0; index < own.length; index++) words[start + index] = own[index] ?? 0
    return this.#byteLength
  }
}

function saltOf(salt: string, place: number) {
  const offset = TEXTS_OFFSET + place * MESSAGE_BYTES
  return { salt, bytes: encoder.encode(salt), offset, text: null as string | null, textBytes: 0 }
}

function longHash(message: string): number {
  const digits = createHash('sha1').update(message).digest('hex').slice(0, 15)
  return Number(`0x${digits}`) / HASH_END
}
