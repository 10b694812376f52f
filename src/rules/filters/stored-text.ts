/**
 * Tests property filters on the stored bytes of long texts. Creating a string and folding its case costs far more than
 * reading the bytes. A stored value is the JSON that JSON.stringify writes, in UTF-8. If the bytes alone cannot decide,
 * the test on the value decides (property-filter.ts), so that both tests always agree.
 *
 * A JSON text contains escapes, and a letter of an escape is not a letter of the text:
 *
 *     the text       a, line feed, next         the needle   next
 *     stored as      "a\nnext"                  the needle is found at  "a\n[next]"
 *     the text       a, line feed, ext
 *     stored as      "a\next"                   a match within an escape does not count
 *
 * Bytes are folded as `toLowerCase` folds ASCII. Only two other characters have ASCII letters in lower case: U+0130
 * (`i`) and U+212A, the Kelvin sign (`k`). A text with one of them is left to the test on the value.
 */
import { isAscii } from 'node:buffer'
import type { PropertyFilter } from './filter-group.ts'
import { listOf } from './operator-tests.ts'
import { effectiveOperator } from './property-filter.ts'
import { propertyText } from './property-text.ts'

/**
 * Returns whether the value in `json` passes that begins at `start` and ends before `end`. Returns null if the bytes
 * cannot decide.
 */
export type StoredTest = (json: Buffer, start: number, end: number) => boolean | null

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75
/** The number of digits of an escape such as \u001f. */
const ESCAPE_DIGITS = 4
/** U+0130 in UTF-8, followed by U+212A. */
const DOTTED_I = Buffer.from('\u0130')
const KELVIN = Buffer.from('\u212a')
const SURROGATE = /\p{Surrogate}/u
/** The largest shift, because a shift is stored in a byte. */
const FARTHEST_SHIFT = 255

/** Maps each byte to itself, and ASCII capitals to small letters. */
const FOLDED = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte,
)

/** Returns the test of a filter on stored values, or null if only the values themselves can decide. */
export function storedTest(filter: PropertyFilter): StoredTest | null {
  const operator = effectiveOperator(filter)
  if (operator === 'is_set') return () => true
  if (operator === 'is_not_set') return () => false
  if (filter.value === undefined || filter.value === null) return null
  const wanted = listOf(filter.value).map(propertyText)
  if (operator === 'icontains') return anyOf(wanted.map(containsTest), true)
  if (operator === 'not_icontains') return anyOf(wanted.map(containsTest), false)
  if (operator === 'exact') return anyOf(wanted.map(equalsTest), true)
  return operator === 'is_not' ? anyOf(wanted.map(equalsTest), false) : null
}

function anyOf(tests: readonly StoredTest[], isWanted: boolean): StoredTest {
  return (json, start, end) => {
    let isKnown = true
    for (const test of tests) {
      const verdict = test(json, start, end)
      if (verdict === true) return isWanted
      if (verdict === null) isKnown = false
    }
    return isKnown ? !isWanted : null
  }
}

function equalsTest(text: string): StoredTest {
  const asText = Buffer.from(JSON.stringify(text))
  const asOther = SURROGATE.test(text) ? null : Buffer.from(text)
  return (json, start, end) => {
    const own = json[start] === QUOTE ? asText : asOther
    if (own === null) return null
    return own.length === end - start && own.compare(json, start, end) === 0
  }
}

/** Returns a test that passes if the text contains another one, ignoring case. */
function containsTest(text: string): StoredTest {
  const needle = text.toLowerCase()
  if (needle === '') return () => true
  const asciiPart = longestAscii(needle)
  const isWhole = asciiPart.length === needle.length
  // JSON writes halves of surrogate pairs as escapes, which are ASCII.
  const mayBeAscii = isWhole || SURROGATE.test(needle)
  const inText = new FoldedSearch(JSON.stringify(asciiPart).slice(1, -1))
  const inOther = new FoldedSearch(asciiPart)
  const rivals = [
    ...(asciiPart.includes('i') ? [DOTTED_I] : []),
    ...(asciiPart.includes('k') ? [KELVIN] : []),
  ]
  return (json, start, end) => {
    const isText = json[start] === QUOTE
    const [from, to] = isText ? [start + 1, end - 1] : [start, end]
    if (asciiPart === '') return mayBeAscii || !isAscii(json.subarray(from, to)) ? null : false
    const isFound = isText ? inText.isInText(json, from, to) : inOther.isIn(json, from, to)
    if (isFound && isWhole) return true
    if (isFound) return mayBeAscii || !isAscii(json.subarray(from, to)) ? null : false
    if (rivals.length === 0) return false
    const bytes = json.subarray(from, to)
    return rivals.some((rival) => bytes.includes(rival)) ? null : false
  }
}

/** Returns the longest run of ASCII characters in a text. */
function longestAscii(text: string): string {
  let longest = ''
  for (const [run] of text.matchAll(/[\0-\x7f]+/g)) if (run.length > longest.length) longest = run
  return longest
}

/**
 * Searches bytes for an ASCII text in lower case, ignoring the case of the bytes. It uses Horspool's algorithm, which
 * skips most bytes.
 */
class FoldedSearch {
  readonly #needle: Uint8Array
  /**
   * The distance to the next window, by the byte at the end of the current window. It is 0 if the current window may be
   * a match.
   */
  readonly #shifts: Uint8Array
  /** The distance to the next window after a window that looked like a match but was not. */
  readonly #shiftOfLast: number

  constructor(needle: string) {
    this.#needle = Buffer.from(needle, 'latin1')
    const { length } = this.#needle
    const last = length - 1
    this.#shifts = new Uint8Array(256).fill(Math.min(FARTHEST_SHIFT, length))
    for (let index = 0; index < last; index++) {
      this.#setShift(this.#needle[index] ?? 0, Math.min(FARTHEST_SHIFT, last - index))
    }
    const lastByte = this.#needle[last] ?? 0
    this.#shiftOfLast = this.#shifts[lastByte] ?? 1
    this.#setShift(lastByte, 0)
  }

  /** Returns whether the needle occurs in bytes that are not a JSON text or contain no escapes. */
  isIn(bytes: Buffer, start: number, end: number): boolean {
    return this.#find(bytes, start, end) >= 0
  }

  /** Returns whether the needle, which is a JSON text itself, occurs in a JSON text between its quotes. */
  isInText(bytes: Buffer, start: number, end: number): boolean {
    let at = this.#find(bytes, start, end)
    while (at >= 0 && isWithinEscape(bytes, start, at)) at = this.#find(bytes, at + 1, end)
    return at >= 0
  }

  #setShift(byte: number, shift: number): void {
    this.#shifts[byte] = shift
    if (byte >= 0x61 && byte <= 0x7a) this.#shifts[byte - 0x20] = shift
  }

  #find(bytes: Buffer, start: number, end: number): number {
    const needle = this.#needle
    const shifts = this.#shifts
    const last = needle.length - 1
    if (last === 0) return this.#findByte(bytes, start, end)
    for (let at = start + last; at < end; ) {
      const shift = shifts[bytes[at] ?? 0] ?? 1
      if (shift !== 0) {
        at += shift
        continue
      }
      let back = 1
      while (back <= last && FOLDED[bytes[at - back] ?? 0] === needle[last - back]) back++
      if (back > last) return at - last
      at += this.#shiftOfLast
    }
    return -1
  }

  /** Searches for a needle of one byte. No byte can be skipped, but the C library searches for one byte fast. */
  #findByte(bytes: Buffer, start: number, end: number): number {
    const part = bytes.subarray(start, end)
    const byte = this.#needle[0] ?? 0
    const small = part.indexOf(byte)
    const isLetter = byte >= 0x61 && byte <= 0x7a
    const capital = isLetter ? part.indexOf(byte - 0x20) : -1
    const at = small < 0 || (capital >= 0 && capital < small) ? capital : small
    return at < 0 ? -1 : start + at
  }
}

/** Returns whether a position in a JSON text that begins at `start` lies within an escape, after its first byte. */
function isWithinEscape(bytes: Buffer, start: number, at: number): boolean {
  if (isEscaped(bytes, start, at)) return true
  for (let back = 1; back <= ESCAPE_DIGITS && at - back > start; back++) {
    if (bytes[at - back] === LETTER_U && isEscaped(bytes, start, at - back)) return true
  }
  return false
}

/** Returns whether an odd number of backslashes precedes a position. */
function isEscaped(bytes: Buffer, start: number, at: number): boolean {
  let first = at
  while (first > start && bytes[first - 1] === BACKSLASH) first--
  return (at - first) % 2 === 1
}
