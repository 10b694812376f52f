/**
 * The kernel of processing. It turns the bytes of an accepted event into cells without building an object. A cell
 * consists of the number of a property and the number of its value. The kernel is written in AssemblyScript and
 * compiled to WebAssembly with SIMD. `kernel.ts` is its only caller.
 *
 * The kernel only recognizes events, and never refuses one. If an event contains anything unusual, `read` returns 0,
 * and JSON.parse and the rules handle the event. Examples are a name or an id that is not a text, `$unset`, a property
 * that occurs twice, and a key that begins with a digit or contains an escape. The kernel contains no rules for single
 * properties: for each new key it asks `newKey` once.
 *
 * Each key has a dictionary of the JSON texts of its values. Equal texts have the same number. If the values of a key
 * hardly repeat, the key gives up its dictionary. A value may have no number, for this reason or because there is no
 * space for it. The cell then contains the memory address of the value in the input. Keys and dictionaries stay from
 * one event to the next, until `forget` is called.
 *
 * Memory, in this order: the RESULT words, ID_TEXT, CELLS, KEYS and their hash table KEY_TABLE, LEFT, and INPUT, which
 * contains a part of the log. After the input follow PADDING zero bytes. A zero ends every loop below, so no loop needs
 * to check a bound. The dictionaries begin at HEAP, which has HEAP_BYTES_MAX bytes and the space that one event may
 * add. The blocks come last. The memory never grows, because a larger memory would invalidate the views of the caller.
 *
 * A block is a column that is being filled, or a table of columns. A column begins with two u32: the number of rows
 * with a value, and 1 as long as each value is the distinct_id of its row. The id of each row follows as u16 from
 * BLOCK_IDS on, and the id of each code as u16 from BLOCK_CODES on. The id of a code is 0 if the value is not in the
 * column yet. A table contains, for each key, the memory address of the key's column as u32, or 0 if there is no
 * column.
 *
 * A cell has 16 bytes: the key as u32 and the code as i32. If the code is TEXT, the start of the value in this memory
 * as u32 and its length as u32 follow. The length is shifted left by 2, and the two lowest bits are IS_ASCII and
 * NEEDS_PARSING. If the code is NUMBER, a float64 follows.
 */

// The constants up to INPUT_BYTES must be the same as in kernel.ts.
const RESULT: usize = 1024
const ID_TEXT: usize = 2048
const CELLS: usize = 4096
const CELLS_MAX: usize = 1000
const CELL_BYTES: usize = 16
const INPUT: usize = 262144
const INPUT_BYTES: usize = 1048576

const PADDING: usize = 64
const KEYS: usize = CELLS + 1024 * CELL_BYTES
const KEY_BYTES: usize = 64
const KEYS_MAX: u32 = 1536
const KEY_TABLE: usize = KEYS + 1536 * KEY_BYTES
const KEY_TABLE_MASK: u32 = 4095
/** The indexes of the cells that `fill` did not write, as u16. */
const LEFT: usize = KEY_TABLE + 4096 * 4
const HEAP: usize = INPUT + INPUT_BYTES + 65536
const HEAP_BYTES_MAX: usize = 24 << 20
const ENTRY_BYTES: usize = 16
/** An id with more bytes than this may have to be cut, so it is left to the caller. */
const ID_BYTES_MAX: usize = 200
const INTEGER_DIGITS_MAX: usize = 15
/** A text with more bytes than this gets no number in the dictionary, because long texts hardly repeat. */
const CODED_BYTES_MAX: usize = 1024

// The offsets of the ids and of the codes within a block. kernel.ts decides where the blocks are.
const BLOCK_IDS: usize = 32
const BLOCK_CODES: usize = BLOCK_IDS + 8192 * 2

// The memory addresses of the result words.
const R_CELLS: usize = RESULT
const R_NAME: usize = RESULT + 4
const R_ID_BYTES: usize = RESULT + 8
const R_ID_START: usize = RESULT + 12
const R_ID_LENGTH: usize = RESULT + 16
const R_HAS_SENT_AT: usize = RESULT + 20
const R_TIME_START: usize = RESULT + 24
const R_TIME_LENGTH: usize = RESULT + 28
const R_OFFSET: usize = RESULT + 32
const R_SET: usize = RESULT + 40
const R_SET_ONCE: usize = RESULT + 48

// Codes of values that have no number in a dictionary.
const TEXT: i32 = 0
const NONE: i32 = -1
const NUMBER: i32 = -2
const SELF: i32 = -3
const IS_ASCII: u32 = 1
const NEEDS_PARSING: u32 = 2

// The answers of `newKey` that matter here. 1 means that the property is stored as usual.
const KIND_REFUSED: u32 = 0
const KIND_LEFT_OUT: u32 = 2
const KIND_ID: u32 = 3

/** The number of the dictionary of event names, which does not belong to a property. */
const NAME_KEY: u32 = 0

const QUOTE: u8 = 0x22
const BACKSLASH: u8 = 0x5c
const COMMA: u8 = 0x2c
const OBJECT_END: u8 = 0x7d

const STRING: u32 = 0
const OTHER: u32 = 1
const SIMPLE_NUMBER: u32 = 2

// The offsets of the fields of a key: its text, its kind, its hash table and entries, and statistics.
const K_TEXT: usize = 0
const K_LENGTH: usize = 4
const K_HASH: usize = 8
const K_KIND: usize = 12
const K_TABLE: usize = 16
const K_MASK: usize = 20
const K_ENTRIES: usize = 24
const K_COUNT: usize = 28
const K_ROOM: usize = 32
const K_LAST: usize = 36
const K_SEEN: usize = 40
const K_NEXT: usize = 44
const K_LOOKUPS: usize = 48
const K_IS_OPEN: usize = 52
const K_COUNT_MAX: usize = 56

/** Is called once for each new key, and returns its KIND_*. */
@external("kernel", "newKey")
declare function newKey(key: u32, start: usize, length: usize): u32

let seed: u64 = 0
let keys: u32 = 0
let top: usize = HEAP
let stamp: u32 = 0
/** The number of the first key of the previous event. The next event probably begins with the same one. */
let firstKey: u32 = 0

// These describe the value that `valueEnd` or another function has read last: `kind`, the flags IS_ASCII and
// NEEDS_PARSING in `marks`, and, if `kind` is SIMPLE_NUMBER, the `number`.
let kind: u32 = 0
let marks: u32 = 0
let number: f64 = 0

/**
 * Discards all keys and values. `secret` goes into the hashes, so that clients cannot choose texts whose hashes
 * collide.
 */
export function forget(secret: u64): void {
  seed = secret
  memory.fill(KEYS, 0, INPUT - KEYS)
  memory.fill(HEAP, 0, top - HEAP)
  top = HEAP
  keys = 0
  stamp = 0
  addKey(0, 0, 0, 4096)
  firstKey = 0
}

/** Returns whether there is no space for new keys and values. */
export function isFull(): bool {
  return keys >= KEYS_MAX || top - HEAP > HEAP_BYTES_MAX
}

/**
 * Returns the address of the entries of a dictionary. An entry has 16 bytes: the start, the length and the hash of the
 * text, each as u32.
 */
export function entries(key: u32): usize {
  return load<u32>(keyAt(key) + K_ENTRIES)
}

/** Prepares for an input of `length` bytes, which the caller has written at INPUT. */
export function reserve(length: usize): void {
  memory.fill(INPUT + length, 0, PADDING)
}

function allocate(bytes: usize): usize {
  const start = top
  top = (top + bytes + 7) & ~7
  return start
}

// @ts-ignore: decorator
@inline
function keyAt(key: u32): usize {
  return KEYS + <usize>key * KEY_BYTES
}

// @ts-ignore: decorator
@inline
function mixed(hash: u64, word: u64): u64 {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15
  return hash ^ (hash >> 29)
}

function hashOf(p: usize, length: usize): u32 {
  let hash = seed ^ (<u64>length * 0xff51afd7ed558ccd)
  const end = p + length
  while (p + 8 <= end) {
    hash = mixed(hash, load<u64>(p))
    p += 8
  }
  if (p < end) hash = mixed(hash, load<u64>(p) & (((<u64>1) << ((<u64>(end - p)) << 3)) - 1))
  hash = mixed(hash, seed)
  return <u32>(hash ^ (hash >> 32))
}

// @ts-ignore: decorator
@inline
function isSame(a: usize, b: usize, length: usize): bool {
  let i: usize = 0
  while (i + 16 <= length) {
    if (v128.any_true(v128.xor(v128.load(a + i), v128.load(b + i)))) return false
    i += 16
  }
  if (i + 8 <= length) {
    if (load<u64>(a + i) != load<u64>(b + i)) return false
    i += 8
  }
  if (i == length) return true
  return ((load<u64>(a + i) ^ load<u64>(b + i)) << ((8 - (<u64>(length - i))) << 3)) == 0
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

/** Returns the address of the quote that closes a string whose first character is at `p`, or 0. Sets `marks`. */
function endOfString(p: usize): usize {
  const quotes = i8x16.splat(QUOTE)
  const slashes = i8x16.splat(BACKSLASH)
  const controls = i8x16.splat(0x20)
  let all = i8x16.splat(0)
  let found: u32 = IS_ASCII
  while (true) {
    const bytes = v128.load(p)
    const hit = v128.or(
      v128.or(i8x16.eq(bytes, quotes), i8x16.eq(bytes, slashes)),
      i8x16.lt_u(bytes, controls),
    )
    all = v128.or(all, bytes)
    const mask = i8x16.bitmask(hit)
    if (mask == 0) {
      p += 16
      continue
    }
    p += ctz(mask)
    const c = load<u8>(p)
    if (c == QUOTE) {
      marks = i8x16.bitmask(all) == 0 ? found : found & ~IS_ASCII
      return p
    }
    if (c != BACKSLASH) return 0
    found |= NEEDS_PARSING
    p += 2
    if (load<u8>(p - 1) < 0x20) return 0
  }
}

/**
 * Returns the address after the object or list at `p`, or 0. Only brackets and strings are read. JSON.parse checks the
 * content when the value is needed.
 */
function endOfContainer(p: usize): usize {
  let depth = 0
  while (true) {
    const c = load<u8>(p++)
    if (c == QUOTE) {
      p = endOfString(p)
      if (p == 0) return 0
      p++
    } else if (c == 0x7b || c == 0x5b) depth++
    else if (c == OBJECT_END || c == 0x5d) {
      if (--depth == 0) return p
    } else if (c < 0x20 && c != 0x0a && c != 0x0d && c != 0x09) return 0
  }
}

/**
 * Returns the address after the number at `p`, or 0. Sets `kind` to SIMPLE_NUMBER and sets `number` if the number has
 * so few digits that it is exact.
 */
function endOfNumber(p: usize): usize {
  const first = p
  let c = load<u8>(p)
  const isNegative = c == 0x2d
  if (isNegative) c = load<u8>(++p)
  let digits: u64 = 0
  let start = p
  if (c == 0x30) c = load<u8>(++p)
  else {
    if (<u32>c - 0x31 > 8) return 0
    do {
      digits = digits * 10 + (c - 0x30)
      c = load<u8>(++p)
    } while (<u32>c - 0x30 <= 9)
  }
  let used = p - start
  let scale: f64 = 1
  if (c == 0x2e) {
    c = load<u8>(++p)
    if (<u32>c - 0x30 > 9) return 0
    start = p
    do {
      digits = digits * 10 + (c - 0x30)
      scale *= 10
      c = load<u8>(++p)
    } while (<u32>c - 0x30 <= 9)
    used += p - start
  }
  if ((c | 0x20) == 0x65) {
    used = INTEGER_DIGITS_MAX + 1
    c = load<u8>(++p)
    if (c == 0x2b || c == 0x2d) c = load<u8>(++p)
    if (<u32>c - 0x30 > 9) return 0
    do c = load<u8>(++p)
    while (<u32>c - 0x30 <= 9)
  }
  // Both numbers are exact, so their quotient is the double that is nearest to the decimal number, as in JSON.parse.
  if (used <= INTEGER_DIGITS_MAX) {
    kind = SIMPLE_NUMBER
    number = <f64>digits / scale
    if (isNegative) number = -number
  }
  return p > first ? p : 0
}

/** Returns the address after the value at `p`, or 0. Sets `kind` and `marks`. */
function valueEnd(p: usize): usize {
  const c = load<u8>(p)
  marks = IS_ASCII
  if (c == QUOTE) {
    kind = STRING
    p = endOfString(p + 1)
    return p == 0 ? 0 : p + 1
  }
  kind = OTHER
  marks = NEEDS_PARSING
  if (c == 0x7b || c == 0x5b) {
    p = endOfContainer(p)
    marks = NEEDS_PARSING
    return p
  }
  if (c == 0x74) return load<u32>(p) == 0x65757274 ? p + 4 : 0
  if (c == 0x66) return load<u32>(p + 1) == 0x65736c61 ? p + 5 : 0
  if (c == 0x6e) return load<u32>(p) == 0x6c6c756e ? p + 4 : 0
  return endOfNumber(p)
}

function addKey(start: usize, length: usize, hash: u32, countMax: u32): u32 {
  const key = keyAt(keys)
  const text = allocate(length + 16)
  memory.copy(text, start, length)
  store<u32>(key, <u32>text, K_TEXT)
  store<u32>(key, <u32>length, K_LENGTH)
  store<u32>(key, hash, K_HASH)
  store<u32>(key, <u32>allocate(16 * 4), K_TABLE)
  store<u32>(key, 15, K_MASK)
  store<u32>(key, <u32>allocate(8 * ENTRY_BYTES), K_ENTRIES)
  store<u32>(key, 8, K_ROOM)
  store<u32>(key, 1, K_IS_OPEN)
  store<u32>(key, countMax, K_COUNT_MAX)
  return keys++
}

/**
 * Returns the number of the key with this text, which is added if it is new. Returns 0 if there is no space for a new
 * key.
 */
function findKey(start: usize, length: usize): u32 {
  const hash = hashOf(start, length)
  let slot = hash & KEY_TABLE_MASK
  while (true) {
    const known = load<u32>(KEY_TABLE + (<usize>slot << 2))
    if (known == 0) break
    const key = keyAt(known)
    if (
      load<u32>(key, K_HASH) == hash && load<u32>(key, K_LENGTH) == <u32>length &&
      isSame(load<u32>(key, K_TEXT), start, length)
    ) return known
    slot = (slot + 1) & KEY_TABLE_MASK
  }
  if (isFull()) return 0
  const added = addKey(start, length, hash, 4096)
  store<u32>(KEY_TABLE + (<usize>slot << 2), added)
  const first = load<u8>(start)
  // A JavaScript object puts keys that are numbers before all other keys, so the order of the properties would change.
  const isNumber = length > 0 && first >= 0x30 && first <= 0x39
  store<u32>(keyAt(added), isNumber || length == 0 ? KIND_REFUSED : newKey(added, start, length), K_KIND)
  return added
}

/** Doubles the space for the entries of a key, and builds its hash table again. */
function growDictionary(key: usize): void {
  const count = load<u32>(key, K_COUNT)
  const room = load<u32>(key, K_ROOM) << 1
  const old: usize = load<u32>(key, K_ENTRIES)
  const entries = allocate(<usize>room * ENTRY_BYTES)
  memory.copy(entries, old, <usize>count * ENTRY_BYTES)
  const mask = room * 2 - 1
  const table = allocate((<usize>mask + 1) * 4)
  for (let index: u32 = 0; index < count; index++) {
    let slot = load<u32>(entries + <usize>index * ENTRY_BYTES, 8) & mask
    while (load<u32>(table + (<usize>slot << 2)) != 0) slot = (slot + 1) & mask
    store<u32>(table + (<usize>slot << 2), index + 1)
  }
  const last: usize = load<u32>(key, K_LAST)
  if (last != 0) store<u32>(key, <u32>(last - old + entries), K_LAST)
  store<u32>(key, <u32>entries, K_ENTRIES)
  store<u32>(key, room, K_ROOM)
  store<u32>(key, <u32>table, K_TABLE)
  store<u32>(key, mask, K_MASK)
}

/**
 * Returns the number of a text in the dictionary of a key, from 1. The text is added if it is new. Returns TEXT if it
 * is not in the dictionary and cannot be added.
 */
function codeOf(key: usize, p: usize, length: usize): i32 {
  if (length > CODED_BYTES_MAX) return TEXT
  const hash = hashOf(p, length)
  const mask = load<u32>(key, K_MASK)
  const table: usize = load<u32>(key, K_TABLE)
  const entries: usize = load<u32>(key, K_ENTRIES)
  let slot = hash & mask
  while (true) {
    const code = load<u32>(table + (<usize>slot << 2))
    if (code == 0) break
    const entry = entries + <usize>(code - 1) * ENTRY_BYTES
    if (
      load<u32>(entry, 8) == hash && load<u32>(entry, 4) == <u32>length &&
      isSame(load<u32>(entry), p, length)
    ) {
      store<u32>(key, <u32>entry, K_LAST)
      return <i32>code
    }
    slot = (slot + 1) & mask
  }
  const count = load<u32>(key, K_COUNT)
  if (count >= load<u32>(key, K_COUNT_MAX) || (count == 256 && isUnique(key, 8, 7)) || top - HEAP > HEAP_BYTES_MAX) {
    if (isUnique(key, 2, 1)) store<u32>(key, 0, K_IS_OPEN)
    return TEXT
  }
  const text = allocate(length + 16)
  memory.copy(text, p, length)
  const entry = entries + <usize>count * ENTRY_BYTES
  store<u32>(entry, <u32>text)
  store<u32>(entry, <u32>length, 4)
  store<u32>(entry, hash, 8)
  store<u32>(table + (<usize>slot << 2), count + 1)
  store<u32>(key, count + 1, K_COUNT)
  store<u32>(key, <u32>entry, K_LAST)
  if (count + 1 == load<u32>(key, K_ROOM)) growDictionary(key)
  return <i32>(count + 1)
}

/**
 * Returns whether more than `part` of `whole` lookups in the dictionary of a key found a new value, for example more
 * than 7 of 8.
 */
function isUnique(key: usize, whole: u32, part: u32): bool {
  return load<u32>(key, K_COUNT) * whole > load<u32>(key, K_LOOKUPS) * part
}

// The value of the property `distinct_id`: the addresses of its start and of its end, its marks (IS_ASCII,
// NEEDS_PARSING), and the address of its cell. `own` is 0 if the event has no such property.
let own: usize = 0
let ownEnd: usize = 0
let ownMarks: u32 = 0
let ownCell: usize = 0

/** Returns the address after the properties whose `{` is at `p`, or 0. Writes their cells. */
function readProperties(p: usize): usize {
  let cell = CELLS
  let previous: u32 = 0
  p = skipSpace(p + 1)
  if (load<u8>(p) == OBJECT_END) return p + 1
  while (true) {
    if (load<u8>(p) != QUOTE) return 0
    p++
    // Most events have the same keys in the same order. The key that followed the previous key in the last event is
    // therefore tried first.
    let index = previous == 0 ? firstKey : load<u32>(keyAt(previous), K_NEXT)
    let key = keyAt(index)
    let length: usize = load<u32>(key, K_LENGTH)
    if (index == 0 || load<u8>(p + length) != QUOTE || !isSame(load<u32>(key, K_TEXT), p, length)) {
      const end = endOfString(p)
      if (end == 0 || marks & NEEDS_PARSING) return 0
      length = end - p
      index = findKey(p, length)
      if (index == 0) return 0
      key = keyAt(index)
      if (previous == 0) firstKey = index
      else store<u32>(keyAt(previous), index, K_NEXT)
    }
    const keyKind = load<u32>(key, K_KIND)
    if (keyKind == KIND_REFUSED || load<u32>(key, K_SEEN) == stamp) return 0
    store<u32>(key, stamp, K_SEEN)
    previous = index
    p = skipSpace(p + length + 1)
    if (load<u8>(p) != 0x3a) return 0
    p = skipSpace(p + 1)
    if (cell >= CELLS + CELLS_MAX * CELL_BYTES) return 0
    p = readCell(p, cell, index, key, keyKind)
    if (p == 0) return 0
    if (keyKind != KIND_LEFT_OUT) cell += CELL_BYTES
    p = skipSpace(p)
    const c = load<u8>(p)
    if (c == OBJECT_END) break
    if (c != COMMA) return 0
    p = skipSpace(p + 1)
  }
  store<u32>(R_CELLS, <u32>((cell - CELLS) / CELL_BYTES))
  return p + 1
}

/** Makes the value at `p` a cell of a key. Returns the address after the value, or 0. */
// @ts-ignore: decorator
@inline
function readCell(p: usize, cell: usize, index: u32, key: usize, keyKind: u32): usize {
  store<u32>(cell, index)
  const isOpen = load<u32>(key, K_IS_OPEN) != 0 && keyKind == 1
  if (isOpen) {
    const lookups = load<u32>(key, K_LOOKUPS) + 1
    store<u32>(key, lookups, K_LOOKUPS)
    // Consecutive events often have the same value, so the last value of the key is tried first.
    const last: usize = load<u32>(key, K_LAST)
    if (last != 0) {
      const length: usize = load<u32>(last, 4)
      if (isSame(load<u32>(last), p, length)) {
        const c = load<u8>(p + length)
        if (c == COMMA || c == OBJECT_END || c <= 0x20) {
          store<u32>(cell, <u32>((last - load<u32>(key, K_ENTRIES)) / ENTRY_BYTES + 1), 4)
          return p + length
        }
      }
    }
  }
  const end = valueEnd(p)
  if (end == 0) return 0
  if (keyKind == KIND_ID) {
    own = p
    ownEnd = end
    ownMarks = marks
    ownCell = cell
    if (kind != STRING) return 0
  }
  const code = isOpen ? codeOf(key, p, end - p) : TEXT
  store<i32>(cell, code, 4)
  if (code == TEXT) {
    if (kind == SIMPLE_NUMBER) {
      store<i32>(cell, NUMBER, 4)
      store<f64>(cell, number, 8)
    } else {
      store<u32>(cell, <u32>p, 8)
      store<u32>(cell, (<u32>(end - p) << 2) | marks, 12)
    }
  }
  return end
}

/**
 * Writes the event that was read last into row `row` of the columns of a table. `table` is 0 if there is no table. A
 * cell is not written if the table has no column for its key, or if the column has no id for its value. The indexes of
 * the cells that were not written are stored in LEFT. Returns the number of these cells.
 */
export function fill(table: usize, row: u32): u32 {
  const count = load<u32>(R_CELLS)
  let left: u32 = 0
  for (let index: u32 = 0; index < count; index++) {
    const cell = CELLS + <usize>index * CELL_BYTES
    const code = load<i32>(cell, 4)
    if (code == NONE) continue
    const column: usize = table == 0 ? 0 : load<u32>(table + (<usize>load<u32>(cell) << 2))
    if (column != 0) {
      let id: u32 = 0
      if (code > 0) id = load<u16>(column + (<usize>code << 1), BLOCK_CODES)
      else if (code == SELF) id = load<u32>(column, 4)
      if (id != 0) {
        store<u16>(column + (<usize>row << 1), <u16>id, BLOCK_IDS)
        store<u32>(column, load<u32>(column) + 1)
        continue
      }
    }
    store<u16>(LEFT + (<usize>left << 1), <u16>index)
    left++
  }
  return left
}

// The members of the root that were read. If one of them occurs twice, the event is unusual.
const SEEN_EVENT: u32 = 1
const SEEN_PROPERTIES: u32 = 2
const SEEN_ID: u32 = 4
const SEEN_TIME: u32 = 16
const SEEN_OFFSET: u32 = 32
const SEEN_SET: u32 = 64
const SEEN_SET_ONCE: u32 = 128

let seen: u32 = 0
let rootId: usize = 0
let rootIdEnd: usize = 0
let rootIdMarks: u32 = 0

/**
 * Reads the event of `length` bytes at `p`. Returns 1 if it is recognized; RESULT and CELLS then describe it. Returns 0
 * otherwise.
 */
export function read(p: usize, length: usize): u32 {
  memory.fill(RESULT, 0, 64)
  store<f64>(R_OFFSET, NaN)
  const end = p + length
  if (++stamp == 0) return 0
  seen = 0
  own = 0
  rootId = 0
  if (load<u8>(p) != 0x7b) return 0
  p = skipSpace(p + 1)
  while (true) {
    if (load<u8>(p) != QUOTE) return 0
    const key = p + 1
    p = endOfString(key)
    if (p == 0 || marks & NEEDS_PARSING) return 0
    const keyLength = p - key
    p = skipSpace(p + 1)
    if (load<u8>(p) != 0x3a) return 0
    p = readMember(key, keyLength, skipSpace(p + 1))
    if (p == 0) return 0
    p = skipSpace(p)
    const c = load<u8>(p)
    if (c == OBJECT_END) break
    if (c != COMMA) return 0
    p = skipSpace(p + 1)
  }
  if (p + 1 != end || (seen & SEEN_EVENT) == 0) return 0
  return chooseId()
}

/** Returns the address after the value at `p`, which belongs to a member of the root, or 0. */
function readMember(key: usize, length: usize, p: usize): usize {
  if (length == 10 && load<u64>(key) == 0x69747265706f7270 && load<u16>(key, 8) == 0x7365) {
    if (!isFirst(SEEN_PROPERTIES) || load<u8>(p) != 0x7b) return 0
    return readProperties(p)
  }
  const end = valueEnd(p)
  if (end == 0) return 0
  if (length == 5 && load<u32>(key) == 0x6e657665 && load<u8>(key, 4) == 0x74) {
    if (!isFirst(SEEN_EVENT) || kind != STRING) return 0
    const names = keyAt(NAME_KEY)
    store<u32>(names, load<u32>(names, K_LOOKUPS) + 1, K_LOOKUPS)
    const code = codeOf(names, p, end - p)
    store<i32>(R_NAME, code)
    return code > 0 ? end : 0
  }
  if (length == 11 && load<u64>(key) == 0x74636e6974736964 && load<u32>(key, 7) == 0x64695f74) {
    if (!isFirst(SEEN_ID) || kind != STRING) return 0
    rootId = p
    rootIdEnd = end
    rootIdMarks = marks
    return end
  }
  if (length == 9 && load<u64>(key) == 0x6d617473656d6974 && load<u8>(key, 8) == 0x70) {
    if (!isFirst(SEEN_TIME) || kind != STRING) return 0
    store<u32>(R_TIME_START, <u32>p)
    store<u32>(R_TIME_LENGTH, <u32>(end - p))
    return end
  }
  if (length == 6 && load<u32>(key) == 0x7366666f && load<u16>(key, 4) == 0x7465) {
    if (!isFirst(SEEN_OFFSET) || kind != SIMPLE_NUMBER) return 0
    store<f64>(R_OFFSET, number)
    return end
  }
  if (length == 7 && load<u32>(key) == 0x746e6573 && load<u32>(key, 3) == 0x74615f74) {
    store<u32>(R_HAS_SENT_AT, 1)
    return end
  }
  if (length == 4 && load<u32>(key) == 0x74657324) return noteUpdate(R_SET, SEEN_SET, p, end)
  if (length == 9 && load<u64>(key) == 0x636e6f5f74657324 && load<u8>(key, 8) == 0x65) {
    return noteUpdate(R_SET_ONCE, SEEN_SET_ONCE, p, end)
  }
  // `$unset` changes persons too, and `$distinct_id` takes precedence over `distinct_id`, so such events are unusual.
  if (load<u8>(key) == 0x24) return 0
  return end
}

/**
 * Writes the start and the length of `$set` or `$set_once` to the address `result`. Returns the address after the
 * value, or 0 if the member occurs twice or is not an object.
 */
function noteUpdate(result: usize, member: u32, p: usize, end: usize): usize {
  if (!isFirst(member) || load<u8>(p) != 0x7b) return 0
  store<u32>(result, <u32>p)
  store<u32>(result, <u32>(end - p), 4)
  return end
}

function isFirst(member: u32): bool {
  if (seen & member) return false
  seen |= member
  return true
}

/**
 * Writes the start and the length of the event's distinct_id to RESULT. If the property `distinct_id` has the same
 * value, its cell gets the code SELF. Returns 0 if the event has no distinct_id.
 */
function chooseId(): u32 {
  const id = rootId != 0 ? rootId : own
  if (id == 0) return 0
  const length = (rootId != 0 ? rootIdEnd : ownEnd) - id
  if (own != 0 && ownEnd - own == length && isSame(own, id, length)) store<i32>(ownCell, SELF, 4)
  store<u32>(R_ID_START, <u32>id)
  store<u32>(R_ID_LENGTH, <u32>length)
  if ((rootId != 0 ? rootIdMarks : ownMarks) == IS_ASCII) copyId(id + 1, length - 2)
  return 1
}

/** Copies an ASCII id to ID_TEXT if it need not be decoded, trimmed or cut. The last word is filled with zeros. */
function copyId(start: usize, length: usize): void {
  const first = load<u8>(start)
  if (length == 0 || length > ID_BYTES_MAX || first <= 0x20 || first == 0x7f) return
  for (let i: usize = 0; i < length; i += 16) v128.store(ID_TEXT + i, v128.load(start + i))
  store<u32>(ID_TEXT + length, 0)
  store<u32>(R_ID_BYTES, <u32>length)
}
