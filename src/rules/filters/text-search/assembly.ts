/**
 * Finds a text in bytes, ignoring case, 16 positions at a time. The module is AssemblyScript, compiled to WebAssembly
 * with SIMD. `text-search.ts` is its only caller.
 *
 * Memory: at NEEDLE, three tables of `length` bytes follow each other. The first contains the needle in lower case, the
 * second the needle in the other case, and the third a 1 for each byte that begins a character and a 0 for all others.
 * The bytes to search come after the tables, followed by 16 more readable bytes.
 */

const NEEDLE: usize = 1024

/**
 * Returns the first position at which the needle occurs between `from` and `end`, or -1. To skip most positions
 * quickly, only two bytes of the needle are compared at first, those at the offsets `first` and `second`. The whole
 * needle is compared only where both occur.
 */
export function find(from: i32, end: i32, length: i32, first: i32, second: i32): i32 {
  const last = end - length
  const lower1 = i8x16.splat(load<i8>(NEEDLE + first))
  const other1 = i8x16.splat(load<i8>(NEEDLE + length + first))
  const lower2 = i8x16.splat(load<i8>(NEEDLE + second))
  const other2 = i8x16.splat(load<i8>(NEEDLE + length + second))
  for (let at = from; at <= last; at += 16) {
    const bytes1 = v128.load(at + first)
    const bytes2 = v128.load(at + second)
    const fits1 = v128.or(i8x16.eq(bytes1, lower1), i8x16.eq(bytes1, other1))
    const fits2 = v128.or(i8x16.eq(bytes2, lower2), i8x16.eq(bytes2, other2))
    const fits = v128.and(fits1, fits2)
    if (!v128.any_true(fits)) continue
    for (let mask = i8x16.bitmask(fits); mask != 0; mask &= mask - 1) {
      const place = at + ctz(mask)
      if (place > last) return -1
      if (isAt(place, length)) return place
    }
  }
  return -1
}

/**
 * Returns whether the needle occurs at a position. Each character may have its lower-case form or its other form, but
 * not a mixture of both.
 */
function isAt(place: i32, length: i32): bool {
  let isLower = true
  let isOther = true
  for (let index = 0; index < length; index++) {
    if (load<u8>(NEEDLE + 2 * length + index) != 0) {
      isLower = true
      isOther = true
    }
    const byte = load<u8>(place + index)
    isLower = isLower && byte == load<u8>(NEEDLE + index)
    isOther = isOther && byte == load<u8>(NEEDLE + length + index)
    if (!isLower && !isOther) return false
  }
  return true
}
