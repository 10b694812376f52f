/**
 * SHA-1 of four messages at once, one in each lane of a vector. Only the first 60 bits of each digest are needed, for
 * bucketing. It is written in AssemblyScript and compiled to WebAssembly with SIMD. `sha1.ts` is its only caller. A
 * message consists of a prefix of its own and a text that all four messages share.
 *
 * Memory, in this order: RESULT, the first words of the four digests and then their second words; LENGTHS, the number
 * of bytes of the four prefixes as u32; BLOCKS, the number of blocks of the four messages as u32; MESSAGES, four areas
 * of MESSAGE_BYTES bytes that begin with the prefixes; SCHEDULE, a vector for each round; and the texts of the caller.
 * Copies may write up to 15 bytes too many, so a message must end before the last block of its area.
 */

const RESULT: usize = 512
const LENGTHS: usize = 544
const BLOCKS: usize = 560
const MESSAGES: usize = 1024
const MESSAGE_BYTES: usize = 1024
const SCHEDULE: usize = 8192
const ROUNDS: usize = 80
const LANE_BYTES: usize = 16

/** Hashes four messages. Each consists of a prefix and the `textBytes` bytes at `text`. */
export function hash(text: usize, textBytes: usize): void {
  let most: i32 = 0
  for (let lane: usize = 0; lane < 4; lane++) most = max(most, complete(lane, text, textBytes))
  const blocks = v128.load(BLOCKS)
  let h0 = i32x4.splat(0x67452301)
  let h1 = i32x4.splat(0xefcdab89)
  let h2 = i32x4.splat(0x98badcfe)
  let h3 = i32x4.splat(0x10325476)
  let h4 = i32x4.splat(0xc3d2e1f0)
  for (let block: i32 = 0; block < most; block++) {
    schedule(MESSAGES + (<usize>block << 6))
    let a = h0
    let b = h1
    let c = h2
    let d = h3
    let e = h4
    let word = SCHEDULE
    for (let quarter: i32 = 0; quarter < 4; quarter++) {
      const constant = i32x4.splat(
        quarter == 0 ? 0x5a827999 : quarter == 1 ? 0x6ed9eba1 : quarter == 2 ? 0x8f1bbcdc : 0xca62c1d6,
      )
      for (const end = word + 20 * LANE_BYTES; word < end; word += LANE_BYTES) {
        let mixed = v128.xor(b, c)
        if (quarter == 0) mixed = v128.bitselect(c, d, b)
        else if (quarter == 2) mixed = v128.bitselect(d, b, mixed)
        else mixed = v128.xor(mixed, d)
        const known = i32x4.add(i32x4.add(e, constant), v128.load(word))
        const next = i32x4.add(i32x4.add(mixed, known), rotated(a, 5))
        e = d
        d = c
        c = rotated(b, 30)
        b = a
        a = next
      }
    }
    // The digest of a message that has no further block stays as it is.
    const isOpen = i32x4.gt_s(blocks, i32x4.splat(block))
    h0 = i32x4.add(h0, v128.and(a, isOpen))
    h1 = i32x4.add(h1, v128.and(b, isOpen))
    h2 = i32x4.add(h2, v128.and(c, isOpen))
    h3 = i32x4.add(h3, v128.and(d, isOpen))
    h4 = i32x4.add(h4, v128.and(e, isOpen))
  }
  v128.store(RESULT, h0)
  v128.store(RESULT + LANE_BYTES, h1)
}

/**
 * Completes a message: after the prefix, it writes the text, the bit that ends every message, zeros, and the length of
 * the message. Returns the number of blocks.
 */
function complete(lane: usize, text: usize, textBytes: usize): i32 {
  const message = MESSAGES + lane * MESSAGE_BYTES
  const prefixBytes = <usize>load<u32>(LENGTHS + (lane << 2))
  const start = message + prefixBytes
  for (let done: usize = 0; done < textBytes; done += 16) {
    v128.store(start + done, v128.load(text + done))
  }
  const bytes = prefixBytes + textBytes
  const blocks = ((bytes + 8) >> 6) + 1
  const end = message + (blocks << 6)
  store<u8>(message + bytes, 0x80)
  for (let zero = message + bytes + 1; zero < end; zero += 16) v128.store(zero, i64x2.splat(0))
  store<u64>(end - 8, bswap<u64>(<u64>bytes << 3))
  store<u32>(BLOCKS + (lane << 2), <u32>blocks)
  return <i32>blocks
}

/**
 * Writes the schedule for a block of the four messages: the 16 words of the block and the 64 words that SHA-1 computes
 * from them.
 */
function schedule(block: usize): void {
  for (let word: usize = 0; word < 16; word++) {
    const at = block + (word << 2)
    let lanes = i32x4.splat(bswap<u32>(load<u32>(at)))
    lanes = i32x4.replace_lane(lanes, 1, bswap<u32>(load<u32>(at + MESSAGE_BYTES)))
    lanes = i32x4.replace_lane(lanes, 2, bswap<u32>(load<u32>(at + 2 * MESSAGE_BYTES)))
    lanes = i32x4.replace_lane(lanes, 3, bswap<u32>(load<u32>(at + 3 * MESSAGE_BYTES)))
    v128.store(SCHEDULE + word * LANE_BYTES, lanes)
  }
  const end = SCHEDULE + ROUNDS * LANE_BYTES
  for (let at = SCHEDULE + 16 * LANE_BYTES; at < end; at += LANE_BYTES) {
    const near = v128.xor(v128.load(at - 3 * LANE_BYTES), v128.load(at - 8 * LANE_BYTES))
    const far = v128.xor(v128.load(at - 14 * LANE_BYTES), v128.load(at - 16 * LANE_BYTES))
    v128.store(at, rotated(v128.xor(near, far), 1))
  }
}

// @ts-ignore: decorator
@inline
function rotated(word: v128, bits: i32): v128 {
  return v128.or(i32x4.shl(word, bits), i32x4.shr_u(word, 32 - bits))
}
