/**
 * Finds a text in bytes, ignoring case, 16 positions at a time. AssemblyScript, compiled to WebAssembly with SIMD;
 * `text-search.ts` is its only caller.
 *
 * Memory: NEEDLE, the bytes of the needle in lower case, then in the other case, then 1 for each byte that begins a
 * character; all three have `length` bytes. The searched bytes lie behind them, with 16 readable bytes after their end.
 */

const NEEDLE: usize = 1024

/**
 * Returns the first position from `from` at which the needle begins and before `end` at which it ends, or -1. Only
 * positions at which two bytes of the needle fit, those at `first` and `second`, are compared as a whole.
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

/** Returns whether the needle is at a position. Each character is in lower case or in the other case as a whole. */
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
