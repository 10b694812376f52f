/**
 * The scanner: proves in one pass that a body is well-formed JSON of a regular capture shape, and cuts
 * out its events. AssemblyScript, compiled to WebAssembly with SIMD; `scanner.ts` is its only caller.
 *
 * It only ever says yes. Whatever it does not recognise (a syntax error, a wrong type, an escape in a
 * key, a lone surrogate, a NUL, `__proto__`, a key in an unusual place) is answered with "irregular",
 * and the body goes to JSON.parse and the schemas, which alone may refuse it or repair it.
 *
 * Memory: RESULT words, then the input from INPUT on, followed by at least PADDING zero bytes (a zero
 * ends every rule below, so no loop needs a bound), then the marks, then the event table, which grows at the
 * end. The input must be valid UTF-8: the caller has checked that.
 *
 * Marks: a bit for each byte of the input that could end a string, which are quotes, backslashes and control
 * characters. They are found 64 bytes at a time, without a branch, so that a string costs a look at a word
 * instead of one at its bytes.
 *
 * Event table, 24 bytes an event: offset u32 from the start of the input; length u32, with the top bit
 * set when the client sent a uuid; the 16 bytes of that uuid, else zeros.
 */

const RESULT: usize = 1024
const INPUT: usize = 65536
const PADDING: usize = 64
const ENTRY_BYTES: usize = 24
const DEPTH_MAX: i32 = 128
/** As BODY_EVENTS_MAX in base/limits.ts: the table grows no further, and the other path refuses. */
const EVENTS_MAX: usize = 1200000
const INTEGER_DIGITS_MAX: usize = 15
const EXPONENT_DIGITS_MAX: usize = 2
const HAS_UUID: u32 = 0x80000000

// Result words, by index; the same list stands in scanner.ts.
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
/** Where the marks would begin if the input began at 0. */
let marks: usize = 0

// What the value of the key at hand is, set by `scanEventKey`.
let uuidHigh: u64 = 0
let uuidLow: u64 = 0
let hasUuid: bool = false

/** Makes room for an input of that many bytes; returns where to put it. */
export function reserve(inputBytes: usize): usize {
  const end = (INPUT + inputBytes + 2 * PADDING) & ~(PADDING - 1)
  marks = end - (INPUT >> 3)
  table = marks + (end >> 3)
  ensure(table + 64 * ENTRY_BYTES)
  return INPUT
}

/** Scans `inputBytes` at INPUT. Returns 1 when the body is regular (see RESULT), 0 otherwise. */
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

/** Makes the marks of the input and of the zero at `end`. */
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

/** A bit for each byte that could end a string. */
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

/** The first byte from `p` on that could end a string. */
// @ts-ignore: decorator
@inline
function nextMark(p: usize): usize {
  let place = marks + ((p >> 6) << 3)
  // Shifts by the lowest six bits.
  let word = load<u64>(place) >> <u64>p
  if (word != 0) return p + <usize>ctz(word)
  do {
    place += 8
    word = load<u64>(place)
  } while (word == 0)
  return ((place - marks) << 3) + <usize>ctz(word)
}

/** Behind the closing quote of a string whose first character is at `p`, or 0. */
// @ts-ignore: decorator
@inline
function skipString(p: usize): usize {
  p = nextMark(p)
  return load<u8>(p) == QUOTE ? p + 1 : skipRest(p)
}

/** The same of a string that goes on behind the mark at `p`. */
function skipRest(p: usize): usize {
  do {
    if (load<u8>(p) != BACKSLASH) return 0
    p = skipEscape(p + 1)
    if (p == 0) return 0
    p = nextMark(p)
  } while (load<u8>(p) != QUOTE)
  return p + 1
}

/** Behind an escape whose letter is at `p`, or 0: also for `\u0000` and surrogates that are no pair. */
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

/** Behind the closing quote of a key whose first character is at `p`; 0 for escapes and `__proto__`. */
// @ts-ignore: decorator
@inline
function skipKey(p: usize): usize {
  const start = p
  p = nextMark(p)
  if (load<u8>(p) != QUOTE) return 0
  if (p - start == 9 && load<u64>(start) == 0x5f6f746f72705f5f && load<u8>(start + 8) == 0x5f) return 0
  return p + 1
}

/** Behind the value at `p` (white space before it is skipped), or 0. `depth`: containers open around it. */
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
 * Behind the number at `p`, or 0: also for integers that JavaScript would round (an id would change)
 * and for exponents that could overflow.
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

/** As skipNumber, of a number that begins with a digit but 0: the usual ones by a look at 16 bytes. */
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

/** How many of the 16 bytes at `p` are digits, up to the first that is none. */
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
    // Nearly always there is another member, and no white space before it.
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
 * Behind the value of a key of an event: checks `properties` (an object or null) and reads `uuid`.
 * `key` and `length` name the key, `p` stands before the value.
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

/** Reads a uuid of the form 8-4-4-4-12, null or "" at `p`; returns behind it, or 0. */
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

/** Writes the table entry of an event that spans `start` to `end`. */
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

/** Behind the events of a batch whose first element may stand at `p`, or 0. */
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
      // An empty object fails here: it is for the schema to refuse.
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

// Priorities of the places where a root names the key: `$token` beats `token` beats `api_key`.
let keyPriority: i32 = 0
let keyPlaces: i32 = 0

/** Reads a key text at `p` (a string without escapes, or null); returns behind it, or 0. */
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

/** Behind the root object whose first key may stand at `p`, or 0. Fills RESULT and the table. */
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
      // "project_id" matters only with personal keys, which are rare.
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
