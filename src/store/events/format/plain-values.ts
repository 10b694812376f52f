/**
 * The values of a plain column in flat memory, one for each row that has a value. Numbers are stored as float64, and
 * short texts as the bytes of the final JSON:
 *
 *   #numbers   1.5 | 20 | 3
 *   #texts     "red","green","blue",
 *
 * Such values rarely repeat, so a JavaScript object for each of them would only cost garbage collection. If a value is
 * of another kind, all values are moved to a list.
 */
import type { ValueSink } from '../../../rules/capture/types.ts'
import { COLUMN_TEXT_BYTES_KEPT_MAX } from '../limits.ts'
import { ByteWriter } from './byte-writer.ts'
import {
  HEX_DIGITS_MAX,
  HEX_DIGITS_MIN,
  PACKED_VALUES_MIN,
  PLAN_JSON,
  PLAN_NUMBERS,
  planValues,
  VALUES_HEX,
  VALUES_JSON,
  VALUES_UUID,
  type ValuesPlan,
  writeNumbers,
  writeValues,
} from './segment-values.ts'

/** Matches a text whose characters stay the same in JSON and take one byte each. */
const SIMPLE_TEXT = /^[ !#-[\]-~]*$/
const QUOTE = 0x22
const COMMA = 0x2c
const HYPHEN = 0x2d
const UUID_UNITS = 36
const UUID_BYTES = 16
const UUID_GROUP_DIGITS = 8
/** The number of digits in each of the five groups of a UUID, which hyphens separate. */
const UUID_GROUPS = [UUID_GROUP_DIGITS, 4, 4, 4, 12] as const
/** The number of bytes that a text takes in JSON in addition to its characters: two quotes and a comma. */
const AROUND_BYTES = 3
const NUMBERS_FIRST = 512
const TEXT_BYTES_FIRST = 16 * 1024
const DIGITS = new ByteWriter()
const NO_NUMBERS = new Float64Array(0)
const NO_BYTES = new Uint8Array(0)
const NO_DIGIT = 255
/** The value of each lower-case hexadecimal digit, by its character code. All other codes have the value `NO_DIGIT`. */
const DIGIT_VALUES = new Uint8Array(256).fill(NO_DIGIT)
for (let digit = 0; digit < 16; digit++) {
  DIGIT_VALUES[digit.toString(16).charCodeAt(0)] = digit
}

const PLAN_UUID: ValuesPlan = { encoding: VALUES_UUID, width: 32, digits: '' }
const WIDTH_DIFFERS = -1
const WIDTH_UNKNOWN = -2

const KIND_ANY = 0
const KIND_NUMBERS = 1
const KIND_TEXTS = 2

/** The values of one column, in the order of their rows. */
export class PlainValues implements ValueSink {
  count = 0
  #kind = KIND_ANY
  #any: unknown[] = []
  #numbers = NO_NUMBERS
  /** The texts as bytes, each written as `"text",`. */
  #texts = NO_BYTES
  #textBytes = 0
  /**
   * The number of characters of each text. `WIDTH_DIFFERS` if the texts have different lengths, and `WIDTH_UNKNOWN`
   * after `pop`.
   */
  #width = 0
  /** All values as a list, for `list`. Null if no list was needed since the last change. */
  #list: readonly unknown[] | null = null

  /** Replaces all values by a list of values. */
  begin(values: readonly unknown[]): void {
    this.reset()
    if (values.every((value) => typeof value === 'number')) this.#kind = KIND_NUMBERS
    else if (values.every(isSimpleText)) this.#kind = KIND_TEXTS
    for (const value of values) this.push(value)
  }

  /** Discards all values and keeps the memory. */
  reset(): void {
    this.count = 0
    this.#kind = KIND_ANY
    this.#any = []
    this.#textBytes = 0
    if (this.#texts.length > COLUMN_TEXT_BYTES_KEPT_MAX) this.#texts = NO_BYTES
    this.#width = 0
    this.#list = null
  }

  get takesBytes(): boolean {
    return this.#kind === KIND_TEXTS
  }

  get takesNumbers(): boolean {
    return this.#kind === KIND_NUMBERS
  }

  push(value: unknown): void {
    if (this.#kind === KIND_NUMBERS && typeof value === 'number') {
      this.pushNumber(value)
      return
    }
    if (this.#kind === KIND_TEXTS && isSimpleText(value)) {
      this.#pushText(value)
      return
    }
    if (this.#kind !== KIND_ANY) {
      this.#any = [...this.list]
      this.#kind = KIND_ANY
    }
    this.#list = null
    this.#any.push(value)
    this.count++
  }

  pushBytes(source: Uint8Array, start: number, end: number): void {
    const to = this.#addText(end - start - 2)
    const texts = this.#texts
    for (let index = start, place = to; index < end; index++) texts[place++] = source[index] ?? 0
  }

  pushNumber(value: number): void {
    if (this.count === this.#numbers.length) {
      const numbers = new Float64Array(Math.max(NUMBERS_FIRST, this.count * 2))
      numbers.set(this.#numbers)
      this.#numbers = numbers
    }
    this.#numbers[this.count++] = value
    this.#list = null
  }

  /** Returns false if no text with this number of characters can be among the values. */
  mayHold(characters: number): boolean {
    return this.#kind === KIND_ANY || this.#width < 0 || this.#width === characters
  }

  /** Removes the last value. */
  pop(): void {
    this.#list = null
    this.count--
    if (this.#kind === KIND_ANY) this.#any.pop()
    if (this.#kind !== KIND_TEXTS) return
    // The search begins at the last character of the last text and goes backwards. The text contains no quotes, so the
    // search finds the quote before the text.
    this.#textBytes = this.#texts.lastIndexOf(QUOTE, this.#textBytes - AROUND_BYTES)
    this.#width = WIDTH_UNKNOWN
  }

  /** The first value that is not null, or null if there is none. No other value is decoded. */
  get first(): unknown {
    if (this.count === 0) return null
    if (this.#kind === KIND_NUMBERS) return this.#numbers[0]
    if (this.#kind === KIND_ANY) return this.#any.find((value) => value !== null) ?? null
    return Buffer.from(this.#texts.subarray(1, this.#texts.indexOf(QUOTE, 1))).toString('latin1')
  }

  /** All values as a list. The list is valid until the next change. */
  get list(): readonly unknown[] {
    if (this.#kind === KIND_ANY || this.count === 0) return this.#any
    this.#list ??=
      this.#kind === KIND_NUMBERS
        ? Array.from(this.#numbers.subarray(0, this.count))
        : (JSON.parse(this.#json().toString('latin1')) as unknown[])
    return this.#list
  }

  /** Returns the encoding that `write` will use: the same that `planValues` would choose for the list. */
  plan(): ValuesPlan {
    if (this.#kind === KIND_ANY || this.count < PACKED_VALUES_MIN) return planValues(this.list)
    if (this.#kind === KIND_NUMBERS) return PLAN_NUMBERS
    if (this.#width === WIDTH_UNKNOWN) this.#measure()
    const width = this.#width
    const isUuid = width === UUID_UNITS && this.#texts[1 + UUID_GROUP_DIGITS] === HYPHEN
    const isHex = width >= HEX_DIGITS_MIN && width <= HEX_DIGITS_MAX && width % 2 === 0
    if (isUuid && this.#readUuids()) return PLAN_UUID
    if (!isUuid && isHex && this.#readHex()) return { encoding: VALUES_HEX, width, digits: '' }
    return PLAN_JSON
  }

  /** Writes the values in the encoding that `plan` has chosen. */
  write(writer: ByteWriter, plan: ValuesPlan): void {
    const { encoding } = plan
    if (this.#kind === KIND_ANY || this.count < PACKED_VALUES_MIN) {
      writeValues(writer, this.list, plan)
    } else if (this.#kind === KIND_NUMBERS) writeNumbers(writer, this.#numbers, this.count)
    else writer.writeBytes(encoding === VALUES_JSON ? this.#json() : DIGITS.view())
  }

  #pushText(text: string): void {
    const place = this.#addText(text.length)
    const texts = this.#texts
    for (let index = 0; index < text.length; index++)
      texts[place + 1 + index] = text.charCodeAt(index)
  }

  /** Makes room for a text, and writes the quotes and the comma around it. Returns the offset of the first quote. */
  #addText(characters: number): number {
    if (this.count === 0) this.#width = characters
    else if (characters !== this.#width && this.#width >= 0) this.#width = WIDTH_DIFFERS
    const start = this.#textBytes
    const end = start + characters + AROUND_BYTES
    // Keep one byte free after the texts, for the bracket that ends the list.
    if (end >= this.#texts.length) {
      const texts = new Uint8Array(Math.max(TEXT_BYTES_FIRST, end * 2))
      texts.set(this.#texts.subarray(0, start))
      this.#texts = texts
    }
    this.#texts[start] = QUOTE
    this.#texts[end - 2] = QUOTE
    this.#texts[end - 1] = COMMA
    this.#textBytes = end
    this.count++
    this.#list = null
    return start
  }

  #measure(): void {
    const texts = this.#texts
    const width = texts.indexOf(QUOTE, 1) - 1
    this.#width = width
    for (let start = 0; start < this.#textBytes; start += width + AROUND_BYTES) {
      if (texts.indexOf(QUOTE, start + 1) !== start + width + 1) this.#width = WIDTH_DIFFERS
    }
  }

  /** Returns all texts as one JSON list. */
  #json(): Buffer {
    const bytes = Buffer.allocUnsafe(this.#textBytes + 1)
    bytes[0] = 0x5b
    bytes.set(this.#texts.subarray(0, this.#textBytes), 1)
    bytes[this.#textBytes] = 0x5d
    return bytes
  }

  /** Writes the digits of all texts into `DIGITS`. Returns false if one of them is not a hexadecimal text. */
  #readHex(): boolean {
    const width = this.#width
    DIGITS.clear()
    let to = DIGITS.take((this.count * width) / 2)
    for (let index = 0, start = 1; index < this.count; index++, start += width + AROUND_BYTES) {
      if (!this.#copyDigits(start, start + width, to)) return false
      to += width / 2
    }
    return true
  }

  /** Writes the digits of all UUIDs into `DIGITS`. Returns false if one of the texts is not a UUID. */
  #readUuids(): boolean {
    DIGITS.clear()
    let to = DIGITS.take(this.count * UUID_BYTES)
    for (
      let index = 0, start = 1;
      index < this.count;
      index++, start += UUID_UNITS + AROUND_BYTES
    ) {
      let from = start
      for (const digits of UUID_GROUPS) {
        const end = from + digits
        if (from > start && this.#texts[from - 1] !== HYPHEN) return false
        if (!this.#copyDigits(from, end, to)) return false
        from = end + 1
        to += digits / 2
      }
    }
    return true
  }

  #copyDigits(start: number, end: number, target: number): boolean {
    const texts = this.#texts
    const { bytes } = DIGITS
    let to = target
    for (let at = start; at < end; at += 2) {
      const high = DIGIT_VALUES[texts[at] ?? 0] ?? NO_DIGIT
      const low = DIGIT_VALUES[texts[at + 1] ?? 0] ?? NO_DIGIT
      if ((high | low) > 15) return false
      bytes[to++] = (high << 4) | low
    }
    return true
  }
}

function isSimpleText(value: unknown): value is string {
  return typeof value === 'string' && SIMPLE_TEXT.test(value)
}
