/** Reads answers of ClickHouse in the format RowBinary. */

/** Reads the values of an answer, one after the other. */
export class RowReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length
  }

  /** Reads a 64-bit integer. Numbers from 2^53 on would lose precision; sequence numbers are smaller. */
  long(): number {
    this.#at += 8
    return Number(this.#bytes.readBigUInt64LE(this.#at - 8))
  }

  text(): string {
    const bytes = this.#length()
    this.#at += bytes
    return this.#bytes.toString('utf8', this.#at - bytes, this.#at)
  }

  texts(): string[] {
    return Array.from({ length: this.#length() }, () => this.text())
  }

  #length(): number {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.#at++] ?? 0
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
}
