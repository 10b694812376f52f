/**
 * Decodes the "lz64" text of old browser clients: the dictionary coding of LZString, with six bits for each character
 * of the standard base64 alphabet. The output is bounded while it is produced, because a small text can stand for
 * gigabytes. Source: docs/compatibility/ingestion.md, "Compression".
 */
import { ServiceError } from '../../base/errors.ts'

const BITS_PER_CHARACTER = 6
const CODE_UNIT_8 = 0
const CODE_UNIT_16 = 1
const CODE_END = 2
const CODES_RESERVED = 3
const CHARACTER_VALUES = characterValues()

/**
 * Returns the text that was compressed, as UTF-16 units. Lone surrogates are preserved. The cost is linear in input and
 * output. Throws ServiceError `invalid_payload` if the text is not complete lz64 or stands for an empty text. Throws
 * `request_too_large` if the output would have more than `outputBytesMax` UTF-8 bytes.
 */
export function decodeLz64(text: string, outputBytesMax: number): string {
  const reader = new BitReader(text)
  const output = new UnitBuffer(outputBytesMax)
  const phrases = new PhraseTable()
  let codeBits = 2
  // The number of entries that can still be added to the dictionary before codes become one bit longer. The first unit
  // uses up the only entry that codes of two bits allow.
  let entriesLeft = 1
  let previousStart = -1
  let previousLength = 0
  while (true) {
    if (reader.isAtEnd) throw invalid()
    let code = reader.read(codeBits)
    if (code === CODE_END) break
    const start = output.length
    if (code === CODE_UNIT_8 || code === CODE_UNIT_16) {
      output.push(reader.read(code === CODE_UNIT_8 ? 8 : 16))
      code = phrases.add(start, 1)
      if (--entriesLeft === 0) entriesLeft = 2 ** codeBits++
    } else if (previousStart >= 0 && code < phrases.next) {
      output.repeat(phrases.start(code), phrases.length(code))
    } else if (previousStart >= 0 && code === phrases.next) {
      output.repeat(previousStart, previousLength + 1)
    } else {
      throw invalid()
    }
    // The new phrase is the previous phrase plus one unit: the unit that follows it in the output.
    if (previousStart >= 0) {
      phrases.add(previousStart, previousLength + 1)
      if (--entriesLeft === 0) entriesLeft = 2 ** codeBits++
    } else {
      codeBits = 3
      entriesLeft = 4
    }
    previousStart = start
    previousLength = output.length - start
  }
  if (output.length === 0) throw invalid()
  const decoded = output.toText()
  if (Buffer.byteLength(decoded) > outputBytesMax) throw tooLarge()
  return decoded
}

/**
 * Reads numbers of any number of bits. The first bit of a number is its lowest one. Bits after the end of the text are
 * zero.
 */
class BitReader {
  readonly #text: string
  readonly #bitsTotal: number
  #position = 0

  constructor(text: string) {
    this.#text = text
    this.#bitsTotal = text.length * BITS_PER_CHARACTER
  }

  get isAtEnd(): boolean {
    return this.#position >= this.#bitsTotal
  }

  read(bits: number): number {
    let value = 0
    for (let index = 0; index < bits; index++) {
      const character = Math.floor(this.#position / BITS_PER_CHARACTER)
      const unit = character < this.#text.length ? this.#text.charCodeAt(character) : 0x41
      const sixBits = CHARACTER_VALUES[unit] ?? -1
      if (sixBits < 0) throw invalid()
      const shift = BITS_PER_CHARACTER - 1 - (this.#position % BITS_PER_CHARACTER)
      value |= ((sixBits >> shift) & 1) << index
      this.#position++
    }
    return value
  }
}

/** A buffer of UTF-16 units that grows up to a limit. */
class UnitBuffer {
  readonly #unitsMax: number
  #units: Uint16Array
  length = 0

  constructor(unitsMax: number) {
    this.#unitsMax = unitsMax
    this.#units = new Uint16Array(Math.min(unitsMax, 4096))
  }

  push(unit: number): void {
    this.#reserve(1)
    this.#units[this.length++] = unit
  }

  /**
   * Appends `count` units that begin at index `start` of this buffer. The range may overlap the units that are being
   * appended.
   */
  repeat(start: number, count: number): void {
    this.#reserve(count)
    const units = this.#units
    let target = this.length
    for (let source = start; source < start + count; source++) {
      units[target++] = units[source] ?? 0
    }
    this.length = target
  }

  toText(): string {
    return Buffer.from(this.#units.buffer, 0, this.length * 2).toString('utf16le')
  }

  #reserve(count: number): void {
    const needed = this.length + count
    if (needed > this.#unitsMax) throw tooLarge()
    if (needed <= this.#units.length) return
    const grown = new Uint16Array(Math.min(this.#unitsMax, Math.max(needed, this.length * 2)))
    grown.set(this.#units.subarray(0, this.length))
    this.#units = grown
  }
}

/** The dictionary of phrases. Every phrase is a range of the output, so phrases are never copied. */
class PhraseTable {
  #ranges = new Int32Array(2048)
  /** The code of the next phrase. */
  next = CODES_RESERVED

  add(start: number, length: number): number {
    const code = this.next++
    if (code * 2 + 1 >= this.#ranges.length) {
      const grown = new Int32Array(this.#ranges.length * 2)
      grown.set(this.#ranges)
      this.#ranges = grown
    }
    this.#ranges[code * 2] = start
    this.#ranges[code * 2 + 1] = length
    return code
  }

  start(code: number): number {
    return this.#ranges[code * 2] ?? 0
  }

  length(code: number): number {
    return this.#ranges[code * 2 + 1] ?? 0
  }
}

function invalid(): ServiceError {
  return new ServiceError(
    'invalid_payload',
    'The body is not valid lz64. Send the output of LZString compressToBase64.',
  )
}

function tooLarge(): ServiceError {
  return new ServiceError(
    'request_too_large',
    'The decompressed body is too large. Send fewer events in one request.',
  )
}

function characterValues(): Int8Array {
  const values = new Int8Array(65_536).fill(-1)
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  for (let index = 0; index < alphabet.length; index++) values[alphabet.charCodeAt(index)] = index
  // Padding carries no bits, so it is read as zeros.
  values[0x3d] = 0
  return values
}
