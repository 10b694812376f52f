/** A growing buffer for the contents of columns. It is reused for many segments. */

const FIRST_BYTES = 64 * 1024

/** Appends bytes, numbers and texts to a buffer that grows as needed. Only `release` makes it smaller. */
export class ByteWriter {
  bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_BYTES)
  length = 0

  /** Discards the contents and keeps the memory. */
  clear(): void {
    this.length = 0
  }

  /** Discards the contents and releases the memory. */
  release(): void {
    this.clear()
    if (this.bytes.length > FIRST_BYTES) this.bytes = Buffer.allocUnsafeSlow(FIRST_BYTES)
  }

  /** Returns the contents from `start` on. The result is a view that the next `clear` invalidates. */
  view(start = 0): Buffer {
    return this.bytes.subarray(start, this.length)
  }

  /** Makes room for `count` more bytes. */
  reserve(count: number): void {
    const needed = this.length + count
    if (needed <= this.bytes.length) return
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    grown.set(this.view())
    this.bytes = grown
  }

  /** Makes room for `count` bytes, counts them as written and returns their offset. */
  take(count: number): number {
    this.reserve(count)
    const start = this.length
    this.length += count
    return start
  }

  /** Appends a copy of `bytes`. */
  writeBytes(bytes: Uint8Array): void {
    const start = this.take(bytes.length)
    this.bytes.set(bytes, start)
  }

  /** Appends a text as UTF-8. */
  writeText(text: string): void {
    this.reserve(text.length * 3)
    this.length += this.bytes.write(text, this.length, 'utf8')
  }

  /** Appends a float64, little-endian. */
  writeDouble(value: number): void {
    const start = this.take(8)
    this.bytes.writeDoubleLE(value, start)
  }

  /** Appends an integer from 0 to 2^53 - 1 as a varint: seven bits in each byte, the lowest bits first. */
  writeVarint(value: number): void {
    this.reserve(8)
    const bytes = this.bytes
    let length = this.length
    let rest = value
    while (rest > 0x7fff_ffff) {
      bytes[length++] = (rest % 128) | 0x80
      rest = Math.floor(rest / 128)
    }
    while (rest > 127) {
      bytes[length++] = (rest & 127) | 0x80
      rest >>>= 7
    }
    bytes[length++] = rest
    this.length = length
  }
}

/** Reads the values that `ByteWriter` wrote. */
export class ByteReader {
  readonly #bytes: Buffer
  offset: number

  constructor(bytes: Buffer, offset = 0) {
    this.#bytes = bytes
    this.offset = offset
  }

  readVarint(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const byte = this.#bytes[this.offset++]
      if (byte === undefined) throw new RangeError('a number ends after the end of its column')
      value += (byte & 127) * factor
      if (byte < 128) return value
      factor *= 128
    }
  }

  readDouble(): number {
    const value = this.#bytes.readDoubleLE(this.offset)
    this.offset += 8
    return value
  }
}
