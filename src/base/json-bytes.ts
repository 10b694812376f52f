/**
 * Writes JSON as bytes, part by part, for the lines of exports. Data that is already bytes is never converted to a
 * string. Most parts are only tens of bytes long. For such a part, copying the bytes in a loop costs less than a call
 * of a built-in function.
 */

const FIRST_BYTES = 64 * 1024
/**
 * Spare bytes after the data in each buffer. Parts are copied four bytes at a time, so a copy may read and write beyond
 * the end.
 */
const SLACK_BYTES = 4
/**
 * Parts with more bytes than this are copied by the built-in function, because its call then costs less than a loop.
 */
const COPIED_BYTES_MAX = 256
/**
 * Texts with more UTF-16 code units than this are encoded by the built-in function, because its call then costs less
 * than a loop.
 */
const ASCII_UNITS_MAX = 48
/**
 * An integer below this has at most 15 digits. If a number can be written with at most 15 digits, they are its shortest
 * form, which JSON.stringify writes, too.
 */
const EXACT_MAX = 1e15
const DAY_MS = 86_400_000
/** The times from 0000-01-01 up to 10000-01-01, whose years have four digits. */
const FOUR_DIGIT_YEARS_MIN_MS = -62_167_219_200_000
const FOUR_DIGIT_YEARS_END_MS = 253_402_300_800_000
const TIME_BYTES = 24
const UUID_TEXT_BYTES = 38

const QUOTE = 0x22
const HYPHEN = 0x2d
const POINT = 0x2e
const ZERO = 0x30
/**
 * For each byte, the character codes of its two hexadecimal digits in one number: the code of the first digit times
 * 256, plus the code of the second digit.
 */
const HEX_PAIRS = Uint16Array.from({ length: 256 }, (_, byte) => {
  const digits = byte.toString(16).padStart(2, '0')
  return digits.charCodeAt(0) * 256 + digits.charCodeAt(1)
})

/** A buffer that grows while it is written, and that is reused for one text after another. */
export class JsonBytes {
  bytes: Buffer
  length = 0
  #view: DataView
  readonly #digits = new Uint8Array(20)
  #day = Number.NaN
  readonly #dayText = Buffer.alloc(10)

  /** `bytes` is the initial size of the buffer. */
  constructor(bytes = FIRST_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(bytes)
    this.#view = viewOf(this.bytes)
  }

  /**
   * Makes room for `count` more bytes and returns the offset of the next byte. The bytes do not count as written yet.
   */
  reserve(count: number): number {
    const needed = this.length + count + SLACK_BYTES
    if (needed > this.bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
      grown.set(this.bytes.subarray(0, this.length))
      this.bytes = grown
      this.#view = viewOf(grown)
    }
    return this.length
  }

  /** Appends one byte. */
  writeByte(byte: number): void {
    // `reserve` comes first, because it may replace `bytes`.
    const to = this.reserve(1)
    this.bytes[to] = byte
    this.length = to + 1
  }

  /** Appends a 32-bit integer, with or without a sign, lowest byte first. */
  writeUint32(value: number): void {
    const to = this.reserve(4)
    this.#view.setUint32(to, value, true)
    this.length = to + 4
  }

  /** Appends `count` bytes of another writer, from `start` on. */
  copy(source: JsonBytes, start: number, count: number): void {
    const to = this.reserve(count)
    this.length = to + count
    if (count > COPIED_BYTES_MAX) {
      source.bytes.copy(this.bytes, to, start, start + count)
      return
    }
    const from = source.#view
    const view = this.#view
    for (let index = 0; index < count; index += 4) {
      view.setUint32(to + index, from.getUint32(start + index))
    }
  }

  /**
   * Begins a chunk, and leaves four bytes in front of it for its length. Returns the offset of the chunk's first byte.
   */
  beginChunk(): number {
    this.reserve(4)
    this.length += 4
    return this.length
  }

  /** Ends the chunk that began at `start`, and stores its length. */
  endChunk(start: number): void {
    this.#view.setUint32(start - 4, this.length - start)
  }

  /** Appends the chunk of another writer that begins at `start`. Returns its length in bytes. */
  copyChunk(source: JsonBytes, start: number): number {
    const count = source.#view.getUint32(start - 4)
    this.copy(source, start, count)
    return count
  }

  /** Returns the text of the chunk of this writer that begins at `start`. */
  chunkText(start: number): string {
    return this.bytes.toString('utf8', start, start + this.#view.getUint32(start - 4))
  }

  /** Appends the bytes from `start` to `end` of a buffer. */
  writeBytes(source: Buffer, start: number, end: number): void {
    let to = this.reserve(end - start)
    this.length = to + end - start
    if (end - start > COPIED_BYTES_MAX) {
      source.copy(this.bytes, to, start, end)
      return
    }
    const target = this.bytes
    for (let from = start; from < end; from++) target[to++] = source[from] ?? 0
  }

  /** Appends a text as UTF-8. */
  writeText(text: string): void {
    let to = this.reserve(text.length * 3)
    const target = this.bytes
    if (text.length <= ASCII_UNITS_MAX) {
      let index = 0
      for (; index < text.length; index++) {
        const unit = text.charCodeAt(index)
        if (unit >= 0x80) break
        target[to++] = unit
      }
      if (index === text.length) {
        this.length = to
        return
      }
    }
    this.length += target.write(text, this.length, 'utf8')
  }

  /** Appends a number as JSON.stringify writes it. */
  writeNumber(value: number): void {
    const thousandths = Math.round(value * 1000)
    if (Number.isInteger(value) && Math.abs(value) < EXACT_MAX) this.#writeDecimal(value, 0)
    else if (thousandths / 1000 === value && Math.abs(thousandths) < EXACT_MAX) {
      this.#writeDecimal(thousandths, 3)
    } else this.writeText(JSON.stringify(value))
  }

  /** Appends `count` bytes as hexadecimal digits in quotes. */
  writeHex(source: Uint8Array, start: number, count: number): void {
    let to = this.reserve(count * 2 + 2)
    this.bytes[to++] = QUOTE
    to = this.#writeDigits(source, start, count, to)
    this.bytes[to++] = QUOTE
    this.length = to
  }

  /** Appends the 16 bytes of a UUID as text in quotes. */
  writeUuid(source: Uint8Array, start: number): void {
    let to = this.reserve(UUID_TEXT_BYTES)
    const target = this.bytes
    target[to++] = QUOTE
    to = this.#writeDigits(source, start, 4, to)
    for (let offset = 4; offset < 10; offset += 2) {
      target[to++] = HYPHEN
      to = this.#writeDigits(source, start + offset, 2, to)
    }
    target[to++] = HYPHEN
    to = this.#writeDigits(source, start + 10, 6, to)
    target[to++] = QUOTE
    this.length = to
  }

  /**
   * Appends a moment (milliseconds since 1970) as `Date.toISOString` writes it. Throws RangeError in the same cases as
   * that method.
   */
  writeTime(timeMs: number): void {
    const isUsual =
      Number.isInteger(timeMs) &&
      timeMs >= FOUR_DIGIT_YEARS_MIN_MS &&
      timeMs < FOUR_DIGIT_YEARS_END_MS
    if (!isUsual) {
      this.writeText(new Date(timeMs).toISOString())
      return
    }
    const day = Math.floor(timeMs / DAY_MS)
    if (day !== this.#day) {
      this.#dayText.write(new Date(day * DAY_MS).toISOString(), 'latin1')
      this.#day = day
    }
    const to = this.reserve(TIME_BYTES)
    const target = this.bytes
    for (let index = 0; index < 10; index++) target[to + index] = this.#dayText[index] ?? 0
    const ms = timeMs - day * DAY_MS
    const seconds = (ms / 1000) | 0
    const minutes = (seconds / 60) | 0
    const hours = (minutes / 60) | 0
    target[to + 10] = 0x54
    writeTwo(target, to + 11, hours)
    target[to + 13] = 0x3a
    writeTwo(target, to + 14, minutes - hours * 60)
    target[to + 16] = 0x3a
    writeTwo(target, to + 17, seconds - minutes * 60)
    target[to + 19] = POINT
    const thousandths = ms - seconds * 1000
    const hundreds = (thousandths / 100) | 0
    target[to + 20] = ZERO + hundreds
    writeTwo(target, to + 21, thousandths - hundreds * 100)
    target[to + 23] = 0x5a
    this.length = to + TIME_BYTES
  }

  /** Appends `scaled` / 10^`exponent`. `scaled` is an integer below 10^15, `exponent` is at most 3. */
  #writeDecimal(scaled: number, exponent: number): void {
    const digits = this.#digits
    let rest = Math.abs(scaled)
    let count = 0
    let places = exponent
    while (rest > 0x7fff_ffff) {
      const next = Math.floor(rest / 10)
      digits[count++] = ZERO + (rest - next * 10)
      rest = next
    }
    for (rest |= 0; rest > 0; ) {
      const next = (rest / 10) | 0
      digits[count++] = ZERO + (rest - next * 10)
      rest = next
    }
    while (count <= exponent) digits[count++] = ZERO
    let first = 0
    while (places > 0 && digits[first] === ZERO) {
      first++
      places--
    }
    let to = this.reserve(count + 2)
    const target = this.bytes
    if (scaled < 0) target[to++] = HYPHEN
    for (let index = count - 1; index >= first; index--) {
      target[to++] = digits[index] ?? ZERO
      if (index === exponent && places > 0) target[to++] = POINT
    }
    this.length = to
  }

  /**
   * Writes bytes as hexadecimal digits at `to`, where the caller has made room. Returns the offset after the digits.
   */
  #writeDigits(source: Uint8Array, start: number, count: number, to: number): number {
    const view = this.#view
    for (let index = 0; index < count; index++) {
      view.setUint16(to + index * 2, HEX_PAIRS[source[start + index] ?? 0] ?? 0)
    }
    return to + count * 2
  }
}

function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
}

function writeTwo(target: Uint8Array, offset: number, value: number): void {
  const tens = (value / 10) | 0
  target[offset] = ZERO + tens
  target[offset + 1] = ZERO + (value - tens * 10)
}
