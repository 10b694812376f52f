/**
 * Encodes the parts of a column as bytes. A column consists of an *index* (which rows have a value, and which value
 * each row has) and *values* (each distinct value once, or one for each row that has a value, if nearly all differ).
 *
 *   rows       a  -  b  a
 *
 *   index      presence   nothing if all rows have a value
 *                         a bitmap of `rows` bits, low bit first:                1 0 1 1
 *                         or, if few rows have one, the gaps between them as varints
 *              ids        for each row that has a value, its position:           0 1 0
 *                         the low bytes of all ids, then the high bytes of all ids;
 *                         omitted if there is one value, or one for each row
 *   values     JSON       the text of the array:                                 ["a","b"]
 *              digits     the bytes of hexadecimal texts or UUIDs
 *              numbers    exponent u8, then the zigzag differences of value * 10^exponent as varints;
 *                         exponent 255: float64 each
 */
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { ByteReader, ByteWriter } from './byte-writer.ts'

/** The encoding of values as JSON: the text of an array. */
export const VALUES_JSON = 0
/** The encoding of lower-case hexadecimal texts as bytes. All texts must have the same even length. */
export const VALUES_HEX = 1
/** The encoding of lower-case UUIDs with hyphens as 16 bytes each. */
export const VALUES_UUID = 2
/** The encoding of numbers as the differences between them. */
export const VALUES_NUMBERS = 3

/** The kind of presence if all rows have a value: nothing is stored. */
const PRESENCE_ALL = 0
/** The kind of presence that is stored as one bit for each row. */
const PRESENCE_BITMAP = 1
/** The kind of presence that is stored as the gaps between the rows that have a value. */
const PRESENCE_SPARSE = 2

/**
 * `PRESENCE_SPARSE` is used if fewer than one in `SPARSE_FACTOR` rows has a value. It takes at least one byte for each
 * row that has a value, while a bitmap takes one bit for every row.
 */
const SPARSE_FACTOR = 12
/** If there are fewer values than this, they are stored as JSON, because another encoding would save nothing. */
export const PACKED_VALUES_MIN = 8
/** Hexadecimal texts are stored as bytes only if they have at least this number of digits. The number must be even. */
export const HEX_DIGITS_MIN = 6
/** Hexadecimal texts are stored as bytes only if they have at most this number of digits. */
export const HEX_DIGITS_MAX = 128
const EXPONENT_RAW = 255
const SCALES = [1, 10, 100, 1000] as const
const DIFFERENCE_MAX = 2 ** 51
const ALL_ROWS = Uint16Array.from({ length: SEGMENT_ROWS_MAX }, (_, row) => row)
const SCRATCH = new ByteWriter()
/**
 * The end of a text is searched byte by byte in its first `NEAR_BYTES` bytes. The rest of a longer text is searched
 * with `indexOf`, because a call of `indexOf` costs more than a short loop.
 */
const NEAR_BYTES = 48

const QUOTE = 0x22
const COMMA = 0x2c
const ARRAY_START = 0x5b
const BACKSLASH = 0x5c
const ARRAY_END = 0x5d
const OBJECT_START = 0x7b
const OBJECT_END = 0x7d

/**
 * Writes which rows have a value. A row has none if its number in `ids` is 0. Returns the kind of presence that was
 * written.
 */
export function writePresence(
  writer: ByteWriter,
  ids: Uint16Array,
  rows: number,
  count: number,
): number {
  if (count === rows) return PRESENCE_ALL
  if (count * SPARSE_FACTOR < rows) {
    let next = 0
    for (let row = 0; row < rows; row++) {
      if (ids[row] === 0) continue
      writer.writeVarint(row - next)
      next = row + 1
    }
    return PRESENCE_SPARSE
  }
  const start = writer.take((rows + 7) >>> 3)
  const bytes = writer.bytes
  let position = start
  for (let row = 0; row < rows; row += 8) {
    let bits = 0
    const end = Math.min(8, rows - row)
    for (let bit = 0; bit < end; bit++) if (ids[row + bit] !== 0) bits |= 1 << bit
    bytes[position++] = bits
  }
  return PRESENCE_BITMAP
}

/** Returns the numbers of the rows that have a value, in ascending order. The caller must not write to the result. */
export function readPresence(
  reader: ByteReader,
  bytes: Buffer,
  kind: number,
  rows: number,
  count: number,
): Uint16Array {
  if (kind === PRESENCE_ALL) return ALL_ROWS.subarray(0, count)
  const present = new Uint16Array(count)
  if (kind === PRESENCE_SPARSE) {
    let next = 0
    for (let index = 0; index < count; index++) {
      next += reader.readVarint()
      present[index] = next++
    }
    return present
  }
  let index = 0
  for (let row = 0; row < rows; row++) {
    const bits = bytes[reader.offset + (row >>> 3)] ?? 0
    if ((bits & (1 << (row & 7))) !== 0) present[index++] = row
  }
  reader.offset += (rows + 7) >>> 3
  return present
}

/**
 * Returns the position of a row among the rows that have a value, or -1 if the row has none. Decodes only as much of
 * the presence as is needed for that.
 */
export function findRow(
  bytes: Buffer,
  offset: number,
  kind: number,
  count: number,
  row: number,
): number {
  if (kind === PRESENCE_ALL) return row
  if (kind === PRESENCE_SPARSE) {
    const reader = new ByteReader(bytes, offset)
    let next = 0
    for (let index = 0; index < count; index++) {
      next += reader.readVarint()
      if (next >= row) return next === row ? index : -1
      next++
    }
    return -1
  }
  const own = bytes[offset + (row >>> 3)] ?? 0
  if ((own & (1 << (row & 7))) === 0) return -1
  let index = 0
  for (let byte = 0; byte < row >>> 3; byte++) index += bitsOf(bytes[offset + byte] ?? 0)
  return index + bitsOf(own & ((1 << (row & 7)) - 1))
}

function bitsOf(byte: number): number {
  const pairs = byte - ((byte >>> 1) & 0x55)
  const quads = (pairs & 0x33) + ((pairs >>> 2) & 0x33)
  return (quads + (quads >>> 4)) & 0x0f
}

/** Returns the number of bytes that an id takes if there are `valueCount` values. */
export function idBytes(valueCount: number): 0 | 1 | 2 {
  if (valueCount <= 1) return 0
  return valueCount <= 256 ? 1 : 2
}

/** Writes the ids of the rows that have a value. In memory, ids start at 1; on the disk, they start at 0. */
export function writeIds(
  writer: ByteWriter,
  ids: Uint16Array,
  rows: number,
  count: number,
  valueCount: number,
): void {
  const planes = idBytes(valueCount)
  if (planes === 0) return
  let low = writer.take(count * planes)
  let high = low + count
  const bytes = writer.bytes
  if (planes === 1) {
    for (let row = 0; row < rows; row++) {
      const id = ids[row] ?? 0
      if (id !== 0) bytes[low++] = id - 1
    }
    return
  }
  for (let row = 0; row < rows; row++) {
    const id = ids[row] ?? 0
    if (id === 0) continue
    bytes[low++] = (id - 1) & 255
    bytes[high++] = (id - 1) >>> 8
  }
}

/** Reads the ids that `writeIds` has written, starting at 0: one for each of the `count` rows that have a value. */
export function readIds(
  bytes: Buffer,
  offset: number,
  count: number,
  valueCount: number,
): Uint16Array {
  const ids = new Uint16Array(count)
  const planes = idBytes(valueCount)
  if (planes === 0) return ids
  for (let index = 0; index < count; index++) ids[index] = bytes[offset + index] ?? 0
  if (planes === 1) return ids
  const high = offset + count
  for (let index = 0; index < count; index++) {
    ids[index] = (ids[index] ?? 0) | ((bytes[high + index] ?? 0) << 8)
  }
  return ids
}

/**
 * Writes numbers as differences if all of them are whole multiples of 1, 0.1, 0.01 or 0.001, and otherwise as float64.
 * Both forms are exact, except that differences lose the sign of -0, as JSON does.
 */
export function writeNumbers(writer: ByteWriter, values: ArrayLike<number>, count: number): void {
  const start = writer.length
  for (let exponent = 0; exponent < SCALES.length; exponent++) {
    if (writeDifferences(writer, values, count, exponent)) return
    writer.length = start
  }
  writer.reserve(1 + count * 8)
  writer.bytes[writer.length++] = EXPONENT_RAW
  for (let index = 0; index < count; index++) writer.writeDouble(values[index] ?? 0)
}

function writeDifferences(
  writer: ByteWriter,
  values: ArrayLike<number>,
  count: number,
  exponent: number,
): boolean {
  const scale = SCALES[exponent] ?? 1
  let offset = writer.take(1 + count * 8)
  const bytes = writer.bytes
  bytes[offset++] = exponent
  let previous = 0
  for (let index = 0; index < count; index++) {
    const value = values[index] ?? 0
    const scaled = Math.round(value * scale)
    const difference = scaled - previous
    // The value is not a multiple of the unit `1 / scale`, or is too far from the previous value, or is infinite. The
    // caller then tries another unit.
    if (scaled / scale !== value || !(Math.abs(difference) < DIFFERENCE_MAX)) return false
    previous = scaled
    let rest = difference < 0 ? -2 * difference - 1 : 2 * difference
    while (rest > 0x7fff_ffff) {
      bytes[offset++] = (rest % 128) | 0x80
      rest = Math.floor(rest / 128)
    }
    while (rest > 127) {
      bytes[offset++] = (rest & 127) | 0x80
      rest >>>= 7
    }
    bytes[offset++] = rest
  }
  writer.length = offset
  return true
}

/** Reads numbers that `writeNumbers` has written. */
export function readNumbers(reader: ByteReader, bytes: Buffer, count: number): Float64Array {
  const values = new Float64Array(count)
  const exponent = bytes[reader.offset++] ?? EXPONENT_RAW
  if (exponent === EXPONENT_RAW) {
    for (let index = 0; index < count; index++) values[index] = reader.readDouble()
    return values
  }
  const scale = SCALES[exponent]
  if (scale === undefined) throw new RangeError('the numbers have an unknown unit')
  let previous = 0
  for (let index = 0; index < count; index++) {
    const rest = reader.readVarint()
    previous += rest % 2 === 0 ? rest / 2 : -(rest + 1) / 2
    values[index] = previous / scale
  }
  return values
}

/** How values are to be encoded. If they are stored as hexadecimal digits, the plan also contains the digits. */
export interface ValuesPlan {
  readonly encoding: number
  /** The number of hexadecimal digits of each value. 0 if the values are not stored as digits. */
  readonly width: number
  /** The digits of all values, one after another. '' if the values are not stored as digits. */
  readonly digits: string
}

/** The plan for values that are stored as JSON. */
export const PLAN_JSON: ValuesPlan = { encoding: VALUES_JSON, width: 0, digits: '' }
/** The plan for values that are stored as numbers. */
export const PLAN_NUMBERS: ValuesPlan = { encoding: VALUES_NUMBERS, width: 0, digits: '' }

/** Chooses the encoding of values. The first value suggests an encoding, which is then checked for all values. */
export function planValues(values: readonly unknown[]): ValuesPlan {
  if (values.length < PACKED_VALUES_MIN) return PLAN_JSON
  const first = values[0]
  if (typeof first === 'number') {
    for (const value of values) if (typeof value !== 'number') return PLAN_JSON
    return PLAN_NUMBERS
  }
  if (typeof first !== 'string') return PLAN_JSON
  if (first.length === 36 && first.charCodeAt(8) === 0x2d) return planUuids(values)
  const width = first.length
  if (width < HEX_DIGITS_MIN || width > HEX_DIGITS_MAX || width % 2 !== 0) return PLAN_JSON
  if (!/^[0-9a-f]+$/.test(first)) return PLAN_JSON
  for (const value of values) {
    if (typeof value !== 'string' || value.length !== width) return PLAN_JSON
  }
  const digits = values.join('')
  return areHexDigits(digits) ? { encoding: VALUES_HEX, width, digits } : PLAN_JSON
}

function planUuids(values: readonly unknown[]): ValuesPlan {
  for (const value of values) {
    if (typeof value !== 'string' || value.length !== 36) return PLAN_JSON
    const isHyphenated =
      value.charCodeAt(8) === 0x2d &&
      value.charCodeAt(13) === 0x2d &&
      value.charCodeAt(18) === 0x2d &&
      value.charCodeAt(23) === 0x2d
    if (!isHyphenated) return PLAN_JSON
  }
  const digits = values.join('').replaceAll('-', '')
  if (digits.length !== values.length * 32 || !areHexDigits(digits)) return PLAN_JSON
  return { encoding: VALUES_UUID, width: 32, digits }
}

/**
 * Returns whether a text consists of lower-case hexadecimal digits. It does if decoding and encoding it gives the same
 * text.
 */
function areHexDigits(digits: string): boolean {
  SCRATCH.clear()
  const start = SCRATCH.take(digits.length)
  const length = SCRATCH.bytes.write(digits, start, 'hex')
  return length * 2 === digits.length && SCRATCH.bytes.toString('hex', 0, length) === digits
}

/** Writes values in the encoding that `planValues` has chosen. */
export function writeValues(
  writer: ByteWriter,
  values: readonly unknown[],
  plan: ValuesPlan,
): void {
  if (plan.encoding === VALUES_JSON) writer.writeText(JSON.stringify(values))
  else if (plan.encoding === VALUES_NUMBERS) {
    writeNumbers(writer, values as readonly number[], values.length)
  } else {
    writer.reserve(plan.digits.length)
    writer.length += writer.bytes.write(plan.digits, writer.length, 'hex')
  }
}

/** Reads `count` values that begin at the reader's offset and end at `end`. */
export function decodeValues(
  reader: ByteReader,
  bytes: Buffer,
  end: number,
  count: number,
  encoding: number,
  width: number,
): readonly unknown[] {
  const start = reader.offset
  if (encoding === VALUES_JSON) {
    return JSON.parse(bytes.toString('utf8', start, end)) as unknown[]
  }
  if (encoding === VALUES_NUMBERS) return Array.from(readNumbers(reader, bytes, count))
  if (encoding !== VALUES_HEX && encoding !== VALUES_UUID) {
    throw new RangeError('the values have an unknown encoding')
  }
  const digits = bytes.toString('hex', start, end)
  const values = new Array<string>(count)
  for (let index = 0; index < count; index++) {
    const text = digits.slice(index * width, (index + 1) * width)
    values[index] = encoding === VALUES_HEX ? text : hyphenated(text)
  }
  return values
}

/**
 * Returns the offset of each of `count` values in the JSON text of their array, and the offset at which the next one
 * would begin. Value `i` ends one byte before offset `i + 1`:
 *
 *   ["a",12]   offsets 1, 5, 8
 *
 * The text must come from JSON.stringify and must not contain spaces between values. Throws RangeError if the array has
 * another number of values.
 */
export function jsonPlaces(bytes: Buffer, count: number): Uint32Array {
  const places = new Uint32Array(count + 1)
  let found = 0
  let depth = 0
  if (count > 0) places[found++] = 1
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] ?? 0
    if (byte === QUOTE) {
      const near = index + NEAR_BYTES
      index++
      for (let inner = bytes[index]; inner !== QUOTE && index < near; ) {
        index += inner === BACKSLASH ? 2 : 1
        inner = bytes[index]
      }
      if (bytes[index] !== QUOTE) index = textEnd(bytes, index)
    } else if (byte === COMMA) {
      if (depth === 1) places[found++] = index + 1
    } else if (byte === ARRAY_START || byte === OBJECT_START) depth++
    else if (byte === ARRAY_END || byte === OBJECT_END) depth--
  }
  if (found !== count || depth !== 0) throw new RangeError('the number of values is wrong')
  places[count] = bytes.length
  return places
}

/**
 * Returns the offset of the quote that ends a long JSON text. If there is none, returns the number of bytes. `from` is
 * within the text, at the beginning of a character.
 */
function textEnd(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let first = at
    while (first > from && bytes[first - 1] === BACKSLASH) first--
    if ((at - first) % 2 === 0) return at
  }
  return bytes.length
}

function hyphenated(digits: string): string {
  const parts = [
    digits.slice(0, 8),
    digits.slice(8, 12),
    digits.slice(12, 16),
    digits.slice(16, 20),
    digits.slice(20),
  ]
  return parts.join('-')
}
