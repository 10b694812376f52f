/**
 * The scanner proves in one pass that a body is well-formed JSON of a regular capture shape, and finds its events. It
 * is written in AssemblyScript and compiled to WebAssembly with SIMD. `scanner.ts` is its only caller.
 *
 * The scanner only recognizes bodies, and never refuses one. If a body contains anything unusual, `scan` returns 0, and
 * JSON.parse and the schemas decide whether to refuse or repair it. Unusual are a syntax error, a wrong type, an escape
 * in a key, a lone surrogate, a NUL, `__proto__`, and a project key in an unusual member.
 *
 * Memory, in this order: the RESULT words, the input from INPUT on, at least PADDING zero bytes, the marks, and the
 * event table, which grows at the end. The zero bytes after the input end every loop below, so no loop needs to check a
 * bound. The caller must have checked that the input is valid UTF-8.
 *
 * The marks are one bit for each byte of the input. A bit is set if the byte may end a string: if it is a quote, a
 * backslash or a control character. The marks are computed for 64 bytes at a time without a branch. To find the end of
 * a string, the scanner then reads one word of marks instead of each byte.
 *
 * An entry of the event table has 24 bytes: the offset of the event from the start of the input as u32, its length as
 * u32, and the 16 bytes of the uuid that the client sent, or zeros. The top bit of the length is set if the client sent
 * a uuid.
 */

const RESULT: usize = 1024
const INPUT: usize = 65536
const PADDING: usize = 64
const ENTRY_BYTES: usize = 24
const DEPTH_MAX: i32 = 128
/**
 * The same number as BODY_EVENTS_MAX in base/limits.ts. A body with more events is left to JSON.parse and the schemas,
 * which refuse it.
 */
const EVENTS_MAX: usize = 1200000
const INTEGER_DIGITS_MAX: usize = 15
const EXPONENT_DIGITS_MAX: usize = 2
const HAS_UUID: u32 = 0x80000000

// The indexes of the result words. scanner.ts contains the same list.
const R_SHAPE: usize = 0 // 1 = batch, 2 = single event
const R_EVENTS: usize = 1
const R_TABLE: usize = 2
const R_KEY_START: usize = 3
const R_KEY_LENGTH: usize = 4
const R_SENT_AT_KIND: usize = 5 // 0 = none, 1 = string, 2 = number
const R_SENT_AT_START: usize = 6
const R_SENT_AT_LENGTH: usize = 7
const R_HISTORICAL: usize = 8

const QUOTE: u8 = 0x22
const BACKSLASH: u8 = 0x5c

let table: usize = 0
let entry: usize = 0
/**
 * The address at which the marks would begin if the input began at address 0. The bit for the address `p` of the input
 * is therefore in the word at `marks + ((p >> 6) << 3)`.
 */
let marks: usize = 0

// The uuid of the event that is being read, set by `readUuid`.
let uuidHigh: u64 = 0
let uuidLow: u64 = 0
let hasUuid: bool = false

/**
 * Makes the memory large enough for an input of `inputBytes` bytes. Returns the address at which the caller must write
 * it.
 */
export function reserve(inputBytes: usize): usize {
  const end = (INPUT + inputBytes + 2 * PADDING) & ~(PADDING - 1)
  marks = end - (INPUT >> 3)
  table = marks + (end >> 3)
  ensure(table + 64 * ENTRY_BYTES)
  return INPUT
}

/**
 * Scans `inputBytes` bytes at INPUT. Returns 1 if the body is regular; RESULT then describes it. Returns 0 otherwise.
 */
export function scan(inputBytes: usize): i32 {
  const end = INPUT + inputBytes
  memory.fill(end, 0, PADDING)
  memory.fill(RESULT, 0, 64)
  entry = table
  mark(end)
  let p = skipSpace(INPUT)
  if (load<u8>(p) != 0x7b) return 0
  p = scanRoot(p + 1)
  if (p == 0) return 0
  return skipSpace(p) == end ? 1 : 0
}

function ensure(bytes: usize): void {
  const have = <usize>memory.size() << 16
  if (bytes > have) memory.grow(<i32>((bytes - have + 0xffff) >> 16) + 16)
}

// @ts-ignore: decorator
@inline
function put(word: usize, value: u32): void {
  store<u32>(RESULT + (word << 2), value)
}

// @ts-ignore: decorator
@inline
function skipSpace(p: usize): usize {
  while (true) {
    const c = load<u8>(p)
    if (c > 0x20) return p
    if (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09) return p
    p++
  }
}

/** Writes the marks for the input and for the zero after it at `end`. */
function mark(end: usize): void {
  for (let p = INPUT; p <= end; p += 64) {
    const word =
      ends(v128.load(p)) |
      (ends(v128.load(p, 16)) << 16) |
      (ends(v128.load(p, 32)) << 32) |
      (ends(v128.load(p, 48)) << 48)
    store<u64>(marks + (p >> 3), word)
  }
}

/** Returns a bit for each of 16 bytes that may end a string. */
// @ts-ignore: decorator
@inline
function ends(bytes: v128): u64 {
  const signs = v128.or(
    i8x16.eq(bytes, i8x16.splat(QUOTE)),
    i8x16.eq(bytes, i8x16.splat(BACKSLASH)),
  )
  const controls = i8x16.eq(i8x16.min_u(bytes, i8x16.splat(0x1f)), bytes)
  return <u64>(<u32>i8x16.bitmask(v128.or(signs, controls)))
}

/** Returns the address of the first byte from `p` on that may end a string. */
// @ts-ignore: decorator
@inline
function nextMark(p: usize): usize {
  let place = marks + ((p >> 6) << 3)
  // WebAssembly uses only the lowest six bits of the shift count, which are the position of `p` within its word.
  let word = load<u64>(place) >> <u64>p
  if (word != 0) return p + <usize>ctz(word)
  do {
    place += 8
    word = load<u64>(place)
  } while (word == 0)
  return ((place - marks) << 3) + <usize>ctz(word)
}

/** Returns the address after the quote that closes a string whose first character is at `p`, or 0. */
// @ts-ignore: decorator
@inline
function skipString(p: usize): usize {
  p = nextMark(p)
  return load<u8>(p) == QUOTE ? p + 1 : skipRest(p)
}

/**
 * Returns the address after the quote that closes a string, or 0. `p` is the address of the first marked byte of the
 * string: a backslash or a control character.
 */
function skipRest(p: usize): usize {
  do {
    if (load<u8>(p) != BACKSLASH) return 0
    p = skipEscape(p + 1)
    if (p == 0) return 0
    p = nextMark(p)
  } while (load<u8>(p) != QUOTE)
  return p + 1
}

/**
 * Returns the address after an escape such as `\n`. `p` is the address of the character after the backslash. Returns 0
 * if this is not an escape, if it is `\u0000`, or if it is a surrogate without its pair.
 */
function skipEscape(p: usize): usize {
  const c = load<u8>(p)
  if (c == 0x75) {
    const unit = hex4(p + 1)
    if (unit <= 0) return 0
    if (unit < 0xd800 || unit > 0xdfff) return p + 5
    if (unit > 0xdbff) return 0
    if (load<u16>(p + 5) != 0x755c) return 0
    const low = hex4(p + 7)
    return low >= 0xdc00 && low <= 0xdfff ? p + 11 : 0
  }
  if (
    c == QUOTE || c == BACKSLASH || c == 0x2f || c == 0x62 ||
    c == 0x66 || c == 0x6e || c == 0x72 || c == 0x74
  ) return p + 1
  return 0
}

function hex4(p: usize): i32 {
  const a = hexDigit(load<u8>(p))
  const b = hexDigit(load<u8>(p + 1))
  const c = hexDigit(load<u8>(p + 2))
  const d = hexDigit(load<u8>(p + 3))
  if ((a | b | c | d) < 0) return -1
  return (a << 12) | (b << 8) | (c << 4) | d
}

// @ts-ignore: decorator
@inline
function hexDigit(c: u8): i32 {
  if (c >= 0x30 && c <= 0x39) return c - 0x30
  const lower = c | 0x20
  if (lower >= 0x61 && lower <= 0x66) return lower - 0x57
  return -1
}

/**
 * Returns the address after the quote that closes a key whose first character is at `p`. Returns 0 if the key has
 * escapes or is `__proto__`.
 */
// @ts-ignore: decorator
@inline
function skipKey(p: usize): usize {
  const start = p
  p = nextMark(p)
  if (load<u8>(p) != QUOTE) return 0
  if (p - start == 9 && load<u64>(start) == 0x5f6f746f72705f5f && load<u8>(start + 8) == 0x5f) return 0
  return p + 1
}

/**
 * Returns the address after the value at `p`, or 0 if the value is not regular. White space before the value is
 * skipped. `depth` is the number of objects and lists that contain the value.
 */
function skipValue(p: usize, depth: i32): usize {
  p = skipSpace(p)
  const c = load<u8>(p)
  if (c == QUOTE) return skipString(p + 1)
  if (c == 0x7b) return skipObject(p + 1, depth + 1)
  if (c == 0x5b) return skipArray(p + 1, depth + 1)
  if (c == 0x74) return load<u32>(p) == 0x65757274 ? p + 4 : 0
  if (c == 0x66) return load<u32>(p + 1) == 0x65736c61 ? p + 5 : 0
  if (c == 0x6e) return load<u32>(p) == 0x6c6c756e ? p + 4 : 0
  return skipNumber(p)
}

/**
 * Returns the address after the number at `p`, or 0. It also returns 0 for an integer that JavaScript would round,
 * because it may be an id, and for an exponent that may be too large for a double.
 */
function skipNumber(p: usize): usize {
  let c = load<u8>(p)
  if (c == 0x2d) c = load<u8>(++p)
  if (c == 0x30) {
    c = load<u8>(++p)
  } else {
    if (<u32>c - 0x31 > 8) return 0
    const first = p
    do c = load<u8>(++p)
    while (<u32>c - 0x30 <= 9)
    if (p - first > INTEGER_DIGITS_MAX) return 0
  }
  if (c == 0x2e) {
    c = load<u8>(++p)
    if (<u32>c - 0x30 > 9) return 0
    do c = load<u8>(++p)
    while (<u32>c - 0x30 <= 9)
  }
  if ((c | 0x20) == 0x65) {
    c = load<u8>(++p)
    const isSmall = c == 0x2d
    if (c == 0x2b || isSmall) c = load<u8>(++p)
    if (<u32>c - 0x30 > 9) return 0
    const first = p
    do c = load<u8>(++p)
    while (<u32>c - 0x30 <= 9)
    if (!isSmall && p - first > EXPONENT_DIGITS_MAX) return 0
  }
  return p
}

/**
 * Does the same as `skipNumber`, for a number that begins with a digit from 1 to 9. Most numbers need only one look at
 * 16 bytes.
 */
// @ts-ignore: decorator
@inline
function skipDecimal(p: usize): usize {
  const whole = digitsAt(p)
  let end = p + whole
  let c = load<u8>(end)
  if (c == 0x2e) {
    const fraction = digitsAt(end + 1)
    if (fraction == 0 || fraction == 16) return skipNumber(p)
    end += 1 + fraction
    c = load<u8>(end)
  }
  return whole > INTEGER_DIGITS_MAX || (c | 0x20) == 0x65 ? skipNumber(p) : end
}

/** Returns the number of digits at `p` before the first byte that is not a digit, at most 16. */
// @ts-ignore: decorator
@inline
function digitsAt(p: usize): usize {
  const values = i8x16.sub(v128.load(p), i8x16.splat(0x30))
  const areDigits = i8x16.eq(i8x16.min_u(values, i8x16.splat(9)), values)
  return <usize>ctz(~i8x16.bitmask(areDigits))
}

function skipObject(p: usize, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0
  p = skipSpace(p)
  if (load<u8>(p) == 0x7d) return p + 1
  while (true) {
    if (load<u8>(p) != QUOTE) return 0
    p = skipKey(p + 1)
    if (p == 0) return 0
    p = skipSpace(p)
    if (load<u8>(p) != 0x3a) return 0
    const first = load<u8>(++p)
    if (first == QUOTE) p = skipString(p + 1)
    else if (<u32>first - 0x31 <= 8) p = skipDecimal(p)
    else p = skipValue(p, depth)
    if (p == 0) return 0
    // Nearly always there is another member, and no white space before it: the next bytes are `,"`.
    if (load<u16>(p) == 0x222c) {
      p++
      continue
    }
    p = skipSpace(p)
    const c = load<u8>(p)
    if (c == 0x7d) return p + 1
    if (c != 0x2c) return 0
    p = skipSpace(p + 1)
  }
}

function skipArray(p: usize, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0
  p = skipSpace(p)
  if (load<u8>(p) == 0x5d) return p + 1
  while (true) {
    p = skipValue(p, depth)
    if (p == 0) return 0
    p = skipSpace(p)
    const c = load<u8>(p)
    if (c == 0x5d) return p + 1
    if (c != 0x2c) return 0
    p++
  }
}

/**
 * Returns the address after the value of a member of an event, or 0. `key` is the address of the member's name, and
 * `length` its length. `p` is the address of the value or of white space before it. The function checks that
 * `properties` is an object or null, and reads `uuid`.
 */
// @ts-ignore: decorator
@inline
function skipEventValue(key: usize, length: usize, p: usize, depth: i32): usize {
  if (length == 10 && load<u64>(key) == 0x69747265706f7270 && load<u16>(key + 8) == 0x7365) {
    p = skipSpace(p)
    const c = load<u8>(p)
    return c == 0x7b || c == 0x6e ? skipValue(p, depth) : 0
  }
  if (length == 4 && load<u32>(key) == 0x64697575) return readUuid(skipSpace(p))
  return skipValue(p, depth)
}

/** Reads a uuid of the form 8-4-4-4-12, null or "" at `p`. Returns the address after it, or 0. */
function readUuid(p: usize): usize {
  hasUuid = false
  if (load<u8>(p) != QUOTE) return load<u32>(p) == 0x6c6c756e ? p + 4 : 0
  p++
  if (load<u8>(p) == QUOTE) return p + 1
  if (load<u8>(p + 8) != 0x2d || load<u8>(p + 13) != 0x2d || load<u8>(p + 18) != 0x2d) return 0
  if (load<u8>(p + 23) != 0x2d || load<u8>(p + 36) != QUOTE) return 0
  const a = hex4(p)
  const b = hex4(p + 4)
  const c = hex4(p + 9)
  const d = hex4(p + 14)
  const e = hex4(p + 19)
  const f = hex4(p + 24)
  const g = hex4(p + 28)
  const h = hex4(p + 32)
  if ((a | b | c | d | e | f | g | h) < 0) return 0
  uuidHigh = (<u64>a << 48) | (<u64>b << 32) | (<u64>c << 16) | <u64>d
  uuidLow = (<u64>e << 48) | (<u64>f << 32) | (<u64>g << 16) | <u64>h
  hasUuid = true
  return p + 37
}

/** Adds an entry to the event table for the event from `start` to `end`. */
// @ts-ignore: decorator
@inline
function writeEntry(start: usize, end: usize): void {
  ensure(entry + ENTRY_BYTES)
  store<u32>(entry, <u32>(start - INPUT))
  if (hasUuid) {
    store<u32>(entry + 4, <u32>(end - start) | HAS_UUID)
    store<u64>(entry + 8, bswap(uuidHigh))
    store<u64>(entry + 16, bswap(uuidLow))
  } else {
    store<u32>(entry + 4, <u32>(end - start))
    store<u64>(entry + 8, 0)
    store<u64>(entry + 16, 0)
  }
  entry += ENTRY_BYTES
}

/** Returns the address after the events of a batch, or 0. `p` is the address after the `[`. */
function scanBatch(p: usize): usize {
  p = skipSpace(p)
  if (load<u8>(p) == 0x5d) return p + 1
  while (true) {
    p = skipSpace(p)
    if (load<u8>(p) != 0x7b) return 0
    const start = p
    hasUuid = false
    p = skipSpace(p + 1)
    while (true) {
      // An empty object is left to the slow path, because the schema refuses it.
      if (load<u8>(p) != QUOTE) return 0
      const key = p + 1
      p = skipKey(key)
      if (p == 0) return 0
      const length = p - 1 - key
      p = skipSpace(p)
      if (load<u8>(p) != 0x3a) return 0
      p = skipEventValue(key, length, p + 1, 3)
      if (p == 0) return 0
      p = skipSpace(p)
      const c = load<u8>(p)
      if (c == 0x7d) break
      if (c != 0x2c) return 0
      p = skipSpace(p + 1)
    }
    p++
    if (entry - table >= EVENTS_MAX * ENTRY_BYTES) return 0
    writeEntry(start, p)
    p = skipSpace(p)
    const c = load<u8>(p)
    if (c == 0x5d) return p + 1
    if (c != 0x2c) return 0
    p++
  }
}

// The highest priority of a project key found so far, and a bit for each priority that was found. `$token` takes
// precedence over `token`, and `token` over `api_key`.
let keyPriority: i32 = 0
let keyPlaces: i32 = 0

/** Reads a project key at `p`: a string without escapes, or null. Returns the address after it, or 0. */
function readKey(p: usize, priority: i32): usize {
  const place = 1 << priority
  if (keyPlaces & place) return 0
  keyPlaces |= place
  if (load<u8>(p) != QUOTE) return load<u32>(p) == 0x6c6c756e ? p + 4 : 0
  const start = p + 1
  p = skipKey(start)
  if (p == 0) return 0
  const length = p - 1 - start
  if (length > 0 && priority > keyPriority) {
    keyPriority = priority
    put(R_KEY_START, <u32>(start - INPUT))
    put(R_KEY_LENGTH, <u32>length)
  }
  return p
}

function readSentAt(p: usize): usize {
  if (load<u32>(RESULT + (R_SENT_AT_KIND << 2)) != 0) return 0
  const c = load<u8>(p)
  if (c == QUOTE) {
    const behind = skipKey(p + 1)
    if (behind == 0) return 0
    put(R_SENT_AT_KIND, 1)
    put(R_SENT_AT_START, <u32>(p + 1 - INPUT))
    put(R_SENT_AT_LENGTH, <u32>(behind - p - 2))
    return behind
  }
  if (c == 0x6e) return skipValue(p, 1)
  if (c == 0x2d || <u32>c - 0x30 <= 9) {
    const behind = skipNumber(p)
    if (behind == 0) return 0
    put(R_SENT_AT_KIND, 2)
    put(R_SENT_AT_START, <u32>(p - INPUT))
    put(R_SENT_AT_LENGTH, <u32>(behind - p))
    return behind
  }
  return 0
}

/**
 * Returns the address after the root object, or 0. `p` is the address after its `{`. Writes RESULT and the event table.
 */
function scanRoot(p: usize): usize {
  const root = p - 1
  let isBatch = false
  let rootHasUuid = false
  let rootUuidHigh: u64 = 0
  let rootUuidLow: u64 = 0
  keyPriority = 0
  keyPlaces = 0
  hasUuid = false
  p = skipSpace(p)
  while (true) {
    if (load<u8>(p) != QUOTE) return 0
    const key = p + 1
    p = skipKey(key)
    if (p == 0) return 0
    const length = p - 1 - key
    p = skipSpace(p)
    if (load<u8>(p) != 0x3a) return 0
    p = skipSpace(p + 1)
    if (length == 5 && load<u32>(key) == 0x63746162 && load<u8>(key + 4) == 0x68) {
      // "batch"
      if (isBatch || load<u8>(p) != 0x5b) return 0
      isBatch = true
      rootHasUuid = hasUuid
      rootUuidHigh = uuidHigh
      rootUuidLow = uuidLow
      p = scanBatch(p + 1)
      hasUuid = rootHasUuid
      uuidHigh = rootUuidHigh
      uuidLow = rootUuidLow
    } else if (length == 7 && load<u32>(key) == 0x5f697061 && load<u32>(key + 3) == 0x79656b5f) {
      // "api_key"
      p = readKey(p, 1)
    } else if (length == 5 && load<u32>(key) == 0x656b6f74 && load<u8>(key + 4) == 0x6e) {
      // "token"
      p = readKey(p, 2)
    } else if (length == 6 && load<u32>(key) == 0x6b6f7424 && load<u16>(key + 4) == 0x6e65) {
      // "$token"
      p = readKey(p, 3)
    } else if (length == 7 && load<u32>(key) == 0x746e6573 && load<u32>(key + 3) == 0x74615f74) {
      // "sent_at"
      p = readSentAt(p)
    } else if (length == 10 && load<u64>(key) == 0x5f7463656a6f7270 && load<u16>(key + 8) == 0x6469) {
      // Only requests with a personal key need `project_id`, and they are rare, so they are left to the slow path.
      return 0
    } else if (
      length == 20 && load<u64>(key) == 0x6369726f74736968 &&
      load<u64>(key + 8) == 0x617267696d5f6c61 &&
      load<u32>(key + 16) == 0x6e6f6974
    ) {
      // "historical_migration"
      put(R_HISTORICAL, load<u32>(p) == 0x65757274 ? 1 : 0)
      p = skipValue(p, 1)
    } else {
      p = skipEventValue(key, length, p, 1)
    }
    if (p == 0) return 0
    p = skipSpace(p)
    const c = load<u8>(p)
    if (c == 0x7d) break
    if (c != 0x2c) return 0
    p = skipSpace(p + 1)
  }
  p++
  if (keyPriority == 0) return 0
  if (!isBatch) writeEntry(root, p)
  put(R_SHAPE, isBatch ? 1 : 2)
  put(R_EVENTS, <u32>((entry - table) / ENTRY_BYTES))
  put(R_TABLE, <u32>table)
  return p
}
