/**
 * SHA-1 of short texts, as far as bucketing needs it: the first 60 bits as a number. Written out here
 * because a decision hashes for every flag, and a call of the crypto library costs more than the work.
 * Short texts allocate nothing: all calls share one block of words, which is safe because none waits.
 */

/** Bytes of a text that fit into one block beside the padding. */
const ONE_BLOCK_BYTES_MAX = 55
const BLOCK_WORDS = 16
/** Constants of rounds that are negative as 32-bit integers. */
const ROUND_3 = 0x8f1bbcdc | 0
const ROUND_4 = 0xca62c1d6 | 0

/** A block of 16 words, and what is made of them. */
const schedule = new Int32Array(80)
/** The digest so far. */
const digest = new Int32Array(5)
const encoder = new TextEncoder()

/**
 * A text as UTF-8 in big-endian words, ready to be put behind another text: one form for each of the
 * four places in a word where it may begin, made when it is first needed.
 */
export class HashedText {
  readonly byteLength: number
  readonly #bytes: Uint8Array
  readonly #forms: (Int32Array | undefined)[] = [undefined, undefined, undefined, undefined]

  constructor(text: string) {
    this.#bytes = encoder.encode(text)
    this.byteLength = this.#bytes.length
  }

  /** The words of the text when it begins at byte 0..3 of the first. Constant after the first call. */
  wordsAt(shift: number): Int32Array {
    const place = shift & 3
    const known = this.#forms[place]
    if (known !== undefined) return known
    const words = this.#pack(place)
    this.#forms[place] = words
    return words
  }

  #pack(shift: number): Int32Array {
    const words = new Int32Array((this.byteLength + shift + 3) >> 2)
    for (const [index, byte] of this.#bytes.entries()) {
      const at = index + shift
      words[at >> 2] = (words[at >> 2] ?? 0) | (byte << (24 - ((at & 3) << 3)))
    }
    return words
  }
}

/**
 * The first 15 hexadecimal digits of the SHA-1 of three texts in a row, as an integer rounded to a
 * double: 0 up to and including 2^60. Cost: linear in the length, some 0.3 us for up to 55 bytes.
 */
export function sha1Start(first: HashedText, second: HashedText, third: HashedText): number {
  digest[0] = 0x67452301
  digest[1] = 0xefcdab89
  digest[2] = 0x98badcfe
  digest[3] = 0x10325476
  digest[4] = 0xc3d2e1f0
  const byteLength = first.byteLength + second.byteLength + third.byteLength
  if (byteLength <= ONE_BLOCK_BYTES_MAX) {
    for (let index = 0; index < BLOCK_WORDS; index++) schedule[index] = 0
    putPadded(schedule, BLOCK_WORDS, first, second, third)
    takeBlock()
  } else {
    const wordLength = ((byteLength + 8) >> 6) * BLOCK_WORDS + BLOCK_WORDS
    const words = new Int32Array(wordLength)
    putPadded(words, wordLength, first, second, third)
    for (let start = 0; start < wordLength; start += BLOCK_WORDS) {
      schedule.set(words.subarray(start, start + BLOCK_WORDS))
      takeBlock()
    }
  }
  // 32 and 28 bits: both parts and the product are exact, so that only the sum is rounded.
  return ((digest[0] ?? 0) >>> 0) * 0x1000_0000 + ((digest[1] ?? 0) >>> 4)
}

/** Writes the texts, the bit that ends them and their length into words that are 0. */
function putPadded(
  words: Int32Array,
  wordLength: number,
  first: HashedText,
  second: HashedText,
  third: HashedText,
): void {
  const behindFirst = first.byteLength
  const behindSecond = behindFirst + second.byteLength
  const end = behindSecond + third.byteLength
  put(words, first.wordsAt(0), 0)
  put(words, second.wordsAt(behindFirst), behindFirst >> 2)
  if (third.byteLength > 0) put(words, third.wordsAt(behindSecond), behindSecond >> 2)
  words[end >> 2] = (words[end >> 2] ?? 0) | (0x80 << (24 - ((end & 3) << 3)))
  // Texts are shorter than 2^28 bytes, so the length in bits fits the last word.
  words[wordLength - 1] = end << 3
}

function put(words: Int32Array, source: Int32Array, start: number): void {
  for (let index = 0; index < source.length; index++) {
    words[start + index] = (words[start + index] ?? 0) | (source[index] ?? 0)
  }
}

/** Takes the block in the schedule into the digest. */
function takeBlock(): void {
  const w = schedule
  for (let t = 16; t < 80; t++) {
    const x = (w[t - 3] ?? 0) ^ (w[t - 8] ?? 0) ^ (w[t - 14] ?? 0) ^ (w[t - 16] ?? 0)
    w[t] = (x << 1) | (x >>> 31)
  }
  turn(w)
}

/** The 80 rounds, five at a time, so that the words change names instead of places. */
function turn(w: Int32Array): void {
  let a = digest[0] ?? 0
  let b = digest[1] ?? 0
  let c = digest[2] ?? 0
  let d = digest[3] ?? 0
  let e = digest[4] ?? 0
  for (let t = 0; t < 20; t += 5) {
    e = (((a << 5) | (a >>> 27)) + (d ^ (b & (c ^ d))) + e + 0x5a827999 + (w[t] ?? 0)) | 0
    b = (b << 30) | (b >>> 2)
    d = (((e << 5) | (e >>> 27)) + (c ^ (a & (b ^ c))) + d + 0x5a827999 + (w[t + 1] ?? 0)) | 0
    a = (a << 30) | (a >>> 2)
    c = (((d << 5) | (d >>> 27)) + (b ^ (e & (a ^ b))) + c + 0x5a827999 + (w[t + 2] ?? 0)) | 0
    e = (e << 30) | (e >>> 2)
    b = (((c << 5) | (c >>> 27)) + (a ^ (d & (e ^ a))) + b + 0x5a827999 + (w[t + 3] ?? 0)) | 0
    d = (d << 30) | (d >>> 2)
    a = (((b << 5) | (b >>> 27)) + (e ^ (c & (d ^ e))) + a + 0x5a827999 + (w[t + 4] ?? 0)) | 0
    c = (c << 30) | (c >>> 2)
  }
  for (let t = 20; t < 40; t += 5) {
    e = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0x6ed9eba1 + (w[t] ?? 0)) | 0
    b = (b << 30) | (b >>> 2)
    d = (((e << 5) | (e >>> 27)) + (a ^ b ^ c) + d + 0x6ed9eba1 + (w[t + 1] ?? 0)) | 0
    a = (a << 30) | (a >>> 2)
    c = (((d << 5) | (d >>> 27)) + (e ^ a ^ b) + c + 0x6ed9eba1 + (w[t + 2] ?? 0)) | 0
    e = (e << 30) | (e >>> 2)
    b = (((c << 5) | (c >>> 27)) + (d ^ e ^ a) + b + 0x6ed9eba1 + (w[t + 3] ?? 0)) | 0
    d = (d << 30) | (d >>> 2)
    a = (((b << 5) | (b >>> 27)) + (c ^ d ^ e) + a + 0x6ed9eba1 + (w[t + 4] ?? 0)) | 0
    c = (c << 30) | (c >>> 2)
  }
  for (let t = 40; t < 60; t += 5) {
    e = (((a << 5) | (a >>> 27)) + ((b & c) | (d & (b | c))) + e + ROUND_3 + (w[t] ?? 0)) | 0
    b = (b << 30) | (b >>> 2)
    d = (((e << 5) | (e >>> 27)) + ((a & b) | (c & (a | b))) + d + ROUND_3 + (w[t + 1] ?? 0)) | 0
    a = (a << 30) | (a >>> 2)
    c = (((d << 5) | (d >>> 27)) + ((e & a) | (b & (e | a))) + c + ROUND_3 + (w[t + 2] ?? 0)) | 0
    e = (e << 30) | (e >>> 2)
    b = (((c << 5) | (c >>> 27)) + ((d & e) | (a & (d | e))) + b + ROUND_3 + (w[t + 3] ?? 0)) | 0
    d = (d << 30) | (d >>> 2)
    a = (((b << 5) | (b >>> 27)) + ((c & d) | (e & (c | d))) + a + ROUND_3 + (w[t + 4] ?? 0)) | 0
    c = (c << 30) | (c >>> 2)
  }
  for (let t = 60; t < 80; t += 5) {
    e = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + ROUND_4 + (w[t] ?? 0)) | 0
    b = (b << 30) | (b >>> 2)
    d = (((e << 5) | (e >>> 27)) + (a ^ b ^ c) + d + ROUND_4 + (w[t + 1] ?? 0)) | 0
    a = (a << 30) | (a >>> 2)
    c = (((d << 5) | (d >>> 27)) + (e ^ a ^ b) + c + ROUND_4 + (w[t + 2] ?? 0)) | 0
    e = (e << 30) | (e >>> 2)
    b = (((c << 5) | (c >>> 27)) + (d ^ e ^ a) + b + ROUND_4 + (w[t + 3] ?? 0)) | 0
    d = (d << 30) | (d >>> 2)
    a = (((b << 5) | (b >>> 27)) + (c ^ d ^ e) + a + ROUND_4 + (w[t + 4] ?? 0)) | 0
    c = (c << 30) | (c >>> 2)
  }
  digest[0] = (digest[0] ?? 0) + a
  digest[1] = (digest[1] ?? 0) + b
  digest[2] = (digest[2] ?? 0) + c
  digest[3] = (digest[3] ?? 0) + d
  digest[4] = (digest[4] ?? 0) + e
}
