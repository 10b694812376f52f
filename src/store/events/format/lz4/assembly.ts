/**
 * Compresses and decompresses blocks in the LZ4 block format
 * (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md). AssemblyScript, compiled to WebAssembly with SIMD;
 * `lz4.ts` is its only caller.
 *
 * A block is a list of sequences: some literals, and then a match, which is a copy of earlier bytes:
 *
 *   token u8: literals (4 bits), length of the match - 4 (4 bits) | more literals? | literals | distance u16 | more length?
 *
 * Memory: TABLE, the positions at which bytes with the same hash were seen; after it, the blocks of the caller. Copies
 * write up to 15 bytes too many, so the 64 bytes after each block must be unused.
 */

const TABLE: usize = 1024
/**
 * For each of the two hash tables: the number of bits of a hash, and the size of the table in bytes. For each hash, the
 * table of `packFast` stores the last position with this hash (4 bytes). The table of `packSmall` stores the last two
 * positions (8 bytes).
 */
const FAST_BITS: u64 = 14
const FAST_BYTES: usize = 4 << 14
const SMALL_BITS: u64 = 15
const SMALL_BYTES: usize = 8 << 15
/** The hash multiplies five bytes by this number. It is from the LZ4 library. */
const PRIME: u64 = 889523592379
const MATCH_MIN: i32 = 4
const DISTANCE_MAX: i32 = 65535
/**
 * The LZ4 format requires that the last `LAST_LITERALS` bytes are literals, and that no match begins within the last
 * `LAST_BYTES` bytes.
 */
const LAST_LITERALS: i32 = 5
const LAST_BYTES: i32 = 12
/** When `2 ** PATIENCE_BITS` positions in a row had no match, the search begins to skip positions. */
const PATIENCE_BITS: i32 = 5
/**
 * A match with at least this number of bytes is used at once. For a shorter one, the search also looks for a longer
 * match at the next position.
 */
const LONG_MATCH: i32 = 64
/**
 * The room that is kept free in the output for one sequence without its literals: its token, its distance, and the
 * first bytes of its two lengths need fewer bytes than this.
 */
const SEQUENCE_ROOM: i32 = 32
const NIBBLE_MAX: i32 = 15

/**
 * Compresses the bytes from `source` to `end`. Writes the block at `target`. Returns the address at which it ends, or 0
 * if it might pass `targetEnd`. Each position is compared with one earlier position.
 */
export function packFast(source: i32, end: i32, target: i32, targetEnd: i32): i32 {
  memory.fill(TABLE, 0, FAST_BYTES)
  const lastMatch = end - LAST_BYTES
  const limit = end - LAST_LITERALS
  let to = target
  let anchor = source
  let at = source
  let misses = 1 << PATIENCE_BITS
  while (at <= lastMatch) {
    const word = load<u64>(at)
    const slot = fastSlot(word)
    let from = load<i32>(slot)
    store<i32>(slot, at)
    if (load<u32>(from) != <u32>word || at - from > DISTANCE_MAX || from == 0) {
      at += misses++ >> PATIENCE_BITS
      continue
    }
    misses = 1 << PATIENCE_BITS
    const matchEnd = equalEnd(from + MATCH_MIN, at + MATCH_MIN, limit)
    while (at > anchor && from > source && load<u8>(at - 1) == load<u8>(from - 1)) {
      at--
      from--
    }
    to = putSequence(to, targetEnd, anchor, at, from, matchEnd)
    if (to == 0) return 0
    store<i32>(fastSlot(load<u64>(matchEnd - 2)), matchEnd - 2)
    at = matchEnd
    anchor = at
  }
  return putLiterals(to, targetEnd, anchor, end)
}

/**
 * Does the same as `packFast` and makes the block smaller: it compares two earlier positions for each hash, and prefers
 * a longer match that begins one byte later.
 */
export function packSmall(source: i32, end: i32, target: i32, targetEnd: i32): i32 {
  memory.fill(TABLE, 0, SMALL_BYTES)
  const lastMatch = end - LAST_BYTES
  const limit = end - LAST_LITERALS
  let to = target
  let anchor = source
  let at = source
  let misses = 1 << PATIENCE_BITS
  while (at <= lastMatch) {
    let matchEnd = longestMatch(at, at + MATCH_MIN - 1, limit)
    if (matchEnd == 0) {
      at += misses++ >> PATIENCE_BITS
      continue
    }
    misses = 1 << PATIENCE_BITS
    let from = foundFrom
    while (at < lastMatch && matchEnd - at < LONG_MATCH) {
      const laterEnd = longestMatch(at + 1, matchEnd + 1, limit)
      if (laterEnd == 0) break
      at++
      from = foundFrom
      matchEnd = laterEnd
    }
    while (at > anchor && from > source && load<u8>(at - 1) == load<u8>(from - 1)) {
      at--
      from--
    }
    to = putSequence(to, targetEnd, anchor, at, from, matchEnd)
    if (to == 0) return 0
    const stop = min(matchEnd, lastMatch)
    for (let inside = at + 1; inside < stop; inside += 2) remember(smallSlot(inside), inside)
    at = matchEnd
    anchor = at
  }
  return putLiterals(to, targetEnd, anchor, end)
}

/** Decompresses a block. Returns 1 if it fills the output exactly, and 0 if it is damaged. */
export function unpack(source: i32, end: i32, target: i32, targetEnd: i32): i32 {
  let from = source
  let to = target
  while (from < end) {
    const token = <i32>load<u8>(from++)
    let literals = token >> 4
    if (literals == NIBBLE_MAX) {
      let more: i32
      do {
        if (from >= end) return 0
        more = load<u8>(from++)
        literals += more
      } while (more == 255)
    }
    if (literals > end - from || literals > targetEnd - to) return 0
    copyVectors(from, to, literals)
    from += literals
    to += literals
    if (from == end) return to == targetEnd ? 1 : 0
    if (end - from < 2) return 0
    const distance = <i32>load<u16>(from)
    from += 2
    if (distance == 0 || distance > to - target) return 0
    let length = token & NIBBLE_MAX
    if (length == NIBBLE_MAX) {
      let more: i32
      do {
        if (from >= end) return 0
        more = load<u8>(from++)
        length += more
      } while (more == 255)
    }
    length += MATCH_MIN
    if (length > targetEnd - to) return 0
    const match = to - distance
    if (distance >= 16) copyVectors(match, to, length)
    else if (distance >= 8) {
      for (let done = 0; done < length; done += 8) store<u64>(to + done, load<u64>(match + done))
    } else {
      for (let done = 0; done < length; done++) store<u8>(to + done, load<u8>(match + done))
    }
    to += length
  }
  return 0
}

/** The position of the match that `longestMatch` found last. */
let foundFrom: i32 = 0

/**
 * Looks for the longest match at the position `at`. Returns the position at which the match ends, if it is after
 * `least`. Otherwise returns 0. Stores the start of the match in `foundFrom`.
 */
// @ts-ignore: decorator
@inline
function longestMatch(at: i32, least: i32, limit: i32): i32 {
  const slot = smallSlot(at)
  const word = load<u32>(at)
  const first = load<i32>(slot)
  const second = load<i32>(slot + 4)
  store<i32>(slot + 4, first)
  store<i32>(slot, at)
  let best = least
  let from = 0
  if (first != 0 && at - first <= DISTANCE_MAX && load<u32>(first) == word) {
    const matchEnd = equalEnd(first + MATCH_MIN, at + MATCH_MIN, limit)
    if (matchEnd > best) {
      best = matchEnd
      from = first
    }
  }
  if (second != 0 && at - second <= DISTANCE_MAX && load<u32>(second) == word) {
    const matchEnd = equalEnd(second + MATCH_MIN, at + MATCH_MIN, limit)
    if (matchEnd > best) {
      best = matchEnd
      from = second
    }
  }
  foundFrom = from
  return from == 0 ? 0 : best
}

// @ts-ignore: decorator
@inline
function fastSlot(word: u64): usize {
  return TABLE + (<usize>(((word << 24) * PRIME) >> (64 - FAST_BITS)) << 2)
}

// @ts-ignore: decorator
@inline
function smallSlot(at: i32): usize {
  return TABLE + (<usize>(((load<u64>(at) << 24) * PRIME) >> (64 - SMALL_BITS)) << 3)
}

// @ts-ignore: decorator
@inline
function remember(slot: usize, at: i32): void {
  store<i32>(slot + 4, load<i32>(slot))
  store<i32>(slot, at)
}

/**
 * Compares the bytes from `from` on with those from `at` on. Returns the position after `at` at which they begin to
 * differ, at most `limit`.
 */
// @ts-ignore: decorator
@inline
function equalEnd(from: i32, at: i32, limit: i32): i32 {
  while (at + 8 <= limit) {
    const difference = load<u64>(from) ^ load<u64>(at)
    if (difference != 0) return at + <i32>(ctz(difference) >> 3)
    from += 8
    at += 8
  }
  while (at < limit && load<u8>(from) == load<u8>(at)) {
    from++
    at++
  }
  return at
}

/**
 * Writes the literals from `anchor` to `at` and the match from `at` to `matchEnd`. Returns the address after the last
 * written byte, or 0 if there is too little room.
 */
// @ts-ignore: decorator
@inline
function putSequence(to: i32, targetEnd: i32, anchor: i32, at: i32, from: i32, matchEnd: i32): i32 {
  const literals = at - anchor
  const length = matchEnd - at - MATCH_MIN
  if (to + literals + (literals >> 7) + (length >> 7) + SEQUENCE_ROOM > targetEnd) return 0
  store<u8>(to++, (min(literals, NIBBLE_MAX) << 4) | min(length, NIBBLE_MAX))
  if (literals >= NIBBLE_MAX) to = putLength(to, literals - NIBBLE_MAX)
  copyVectors(anchor, to, literals)
  to += literals
  store<u16>(to, at - from)
  to += 2
  return length >= NIBBLE_MAX ? putLength(to, length - NIBBLE_MAX) : to
}

/** Writes the last literals. Returns the address after the last written byte, or 0 if there is too little room. */
function putLiterals(to: i32, targetEnd: i32, anchor: i32, end: i32): i32 {
  const literals = end - anchor
  if (to + literals + (literals >> 7) + SEQUENCE_ROOM > targetEnd) return 0
  store<u8>(to++, min(literals, NIBBLE_MAX) << 4)
  if (literals >= NIBBLE_MAX) to = putLength(to, literals - NIBBLE_MAX)
  memory.copy(to, anchor, literals)
  return to + literals
}

// @ts-ignore: decorator
@inline
function putLength(to: i32, rest: i32): i32 {
  while (rest >= 255) {
    store<u8>(to++, 255)
    rest -= 255
  }
  store<u8>(to++, rest)
  return to
}

/** Copies 16 bytes at a time, and at least 16. The copy may read bytes that it has written itself. */
// @ts-ignore: decorator
@inline
function copyVectors(from: i32, to: i32, bytes: i32): void {
  v128.store(to, v128.load(from))
  for (let done = 16; done < bytes; done += 16) v128.store(to + done, v128.load(from + done))
}
